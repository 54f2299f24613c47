//! `gantry completions` and the manual page: both are made from the arguments.

use crate::{arguments::Cli, failure::Failure, terminal::print};
use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;
use std::{fmt::Display, path::PathBuf};

/// Options of `gantry completions`.
#[derive(Debug, Args)]
#[command(
    after_help = "bash: gantry completions bash > ~/.local/share/bash-completion/completions/gantry\n\
    zsh: gantry completions zsh > a folder of $fpath, as _gantry\n\
    fish: gantry completions fish > ~/.config/fish/completions/gantry.fish\n\
    powershell: gantry completions powershell >> $PROFILE"
)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script.
pub fn completions(options: &Completions) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut shown(Cli::command()), "gantry", &mut script);
    let _ = print(&script);
    Ok(0)
}

/// Without the commands that people do not type: the scripts would offer them all the same.
fn shown(full: Command) -> Command {
    let commands = full.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new("gantry").version(gantry_core::VERSION).subcommands(commands.collect::<Vec<_>>())
}

/// Options of `gantry man`.
#[derive(Debug, Args)]
pub struct Man {
    /// A folder for one page a command; without it the main page goes to standard output
    folder: Option<PathBuf>,
}

/// Writes the manual pages.
pub fn man(options: &Man) -> Result<u8, Failure> {
    let failed = |what: &dyn Display, error| Failure::new(format!("man: {what}"), error);
    let pages = pages().map_err(|error| failed(&"the pages", error))?;
    match &options.folder {
        Some(folder) => {
            let failed = |error| failed(&folder.display(), error);
            std::fs::create_dir_all(folder).map_err(failed)?;
            for (name, text) in pages {
                std::fs::write(folder.join(name), text).map_err(failed)?;
            }
        }
        None => {
            let main = pages.into_iter().next().map(|(_, text)| text).unwrap_or_default();
            let _ = print(main.as_bytes());
        }
    }
    Ok(0)
}

/// When the arguments were last changed in a way that the pages show.
const PAGES_CHANGED: &str = "2026-12-01";

/// The file names and texts of the manual pages, the main one first.
fn pages() -> std::io::Result<Vec<(String, String)>> {
    let mut full = Cli::command().disable_help_subcommand(true);
    full.build();
    let commands = full.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let all = std::iter::once(full.clone()).chain(commands);
    all.map(|command| {
        let man = clap_mangen::Man::new(command)
            .date(PAGES_CHANGED)
            .source(format!("Gantry {}", gantry_core::VERSION))
            .manual("Gantry");
        let mut page = Vec::new();
        man.render(&mut page)?;
        // A paragraph inside of one, in words that every formatter takes.
        let text = String::from_utf8_lossy(&page).replace(".br\n\n.br\n", ".sp\n");
        Ok((man.get_filename(), text))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;

    #[test]
    fn no_script_offers_what_people_do_not_type() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut shown(Cli::command()), "gantry", &mut script);
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains("doctor"), "{shell}");
            assert!(!script.contains("reaper"), "{shell}");
        }
    }

    /// What reads manual pages need not know UTF-8, and every page says whose it is.
    #[test]
    fn manual_pages_are_ascii_and_headed() {
        let pages = pages().unwrap();
        assert!(pages.len() > 8 && pages[0].0 == "gantry.1", "{}", pages.len());
        for (name, text) in pages {
            let odd: String = text.lines().filter(|line| !line.is_ascii()).collect();
            assert!(odd.is_empty(), "{name}: {odd}");
            let head = text.lines().find(|line| line.starts_with(".TH ")).unwrap();
            let title = name.trim_end_matches(".1");
            assert!(head.starts_with(&format!(".TH {title} 1 2026-")), "{head}");
            assert!(head.contains("\"Gantry ") && !text.contains(".br\n\n.br"), "{name}: {head}");
            // A hidden command has no page, and is named on none.
            assert!(!text.contains("reaper"), "{name}");
        }
    }
}
