//! `gantry completions` and the manual page: both are made from the arguments.

use crate::{arguments::Cli, failure::Failure};
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use std::{io::Write as _, path::PathBuf};

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
    clap_complete::generate(options.shell, &mut Cli::command(), "gantry", &mut script);
    // A reader that has enough is no failure.
    let _ = std::io::stdout().lock().write_all(&script);
    Ok(0)
}

/// Options of `gantry man`.
#[derive(Debug, Args)]
pub struct Man {
    /// A folder for one page a command; without it the main page goes to standard output
    folder: Option<PathBuf>,
}

/// Writes the manual pages.
pub fn man(options: &Man) -> Result<u8, Failure> {
    let command = Cli::command();
    match &options.folder {
        Some(folder) => {
            let failed = |error| Failure::new(format!("man: {}", folder.display()), error);
            std::fs::create_dir_all(folder).map_err(failed)?;
            clap_mangen::generate_to(command, folder).map_err(failed)?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command)
                .render(&mut page)
                .map_err(|error| Failure::new("man", error))?;
            let _ = std::io::stdout().lock().write_all(&page);
        }
    }
    Ok(0)
}
