//! What can be written behind `gantry`.

use crate::{
    chat::Chat,
    doctor::Doctor,
    import::Import,
    mcp::McpArgs,
    quit::Quit,
    reaper::Reaper,
    serve::Serve,
    shells::{Completions, Man},
    status::Status,
    stop::Stop,
    terminal::{complain, note},
};
use clap::{Args, Parser, Subcommand, error::ErrorKind};
use gantry_core::data_dir::DataDir;
use std::path::PathBuf;

/// Runs AI agents on your own computer and keeps their tools ready.
#[derive(Debug, Parser)]
#[command(
    name = "gantry",
    version,
    after_help = "Exit codes: 0 clean, 1 failed or something had to be abandoned, 2 wrong usage, \
                  3 the instance or the thing asked for is not there."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run without a window: the HTTP interface, and the user interface for a browser
    Serve(Serve),
    /// The built-in agent, speaking ACP on standard input and output
    Agent,
    /// A stdio MCP server in front of others
    Mcp(McpArgs),
    /// One turn from the terminal
    Chat(Chat),
    /// What the running Gantry is doing
    Status(Status),
    /// Stop a session, or all of them
    Stop(Stop),
    /// End the running Gantry
    Quit(Quit),
    /// Show and save the MCP servers of other applications
    Import(Import),
    /// Look at what your setup needs, and say what to do
    Doctor(Doctor),
    /// Writes the document at the address on standard input; started by Gantry only
    #[command(hide = true)]
    Fetch,
    /// Ends what a Gantry without wardens leaves when it is killed; started by Gantry only
    #[command(hide = true)]
    Reaper(Reaper),
    /// Print the completion script of a shell
    Completions(Completions),
    /// Write the manual pages
    #[command(hide = true)]
    Man(Man),
}

/// Which Gantry is meant.
#[derive(Clone, Debug, Args)]
pub struct Place {
    /// The data directory [default: $GANTRY_DATA_DIR, else the platform's]
    #[arg(long, value_name = "D")]
    pub data_dir: Option<PathBuf>,
}

impl Place {
    /// The data directory.
    pub fn data(&self) -> Option<DataDir> {
        DataDir::choose(self.data_dir.as_deref())
    }
}

/// Says what is wrong with the arguments in one line, or shows the help that was asked for.
pub fn explain(error: &clap::Error) -> u8 {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            if let Err(error) = error.print() {
                note(&error);
            }
            0
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            2
        }
        _ => {
            complain(&format!("gantry: usage: {}", one_line(&error.to_string())));
            2
        }
    }
}

/// The first paragraph of clap's text, which says what is wrong, as one line.
fn one_line(text: &str) -> String {
    let first = text.split("\n\n").next().unwrap_or(text);
    let words: Vec<_> = first.trim_start_matches("error:").split_whitespace().collect();
    format!("{}; see `gantry --help`", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_is_wrong_fits_into_one_line() {
        for (arguments, word) in [
            (&["gantry", "serve", "--portt", "1"][..], "--portt"),
            (&["gantry", "serve", "--port", "x"], "--port"),
            (&["gantry", "stop"], "SESSION"),
            (&["gantry", "dance"], "dance"),
        ] {
            let line = one_line(&Cli::try_parse_from(arguments).unwrap_err().to_string());
            assert!(line.contains(word) && !line.contains('\n'), "{line}");
        }
    }
}
