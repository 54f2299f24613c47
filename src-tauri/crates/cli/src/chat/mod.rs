//! `gantry chat`: one turn from the terminal.

mod ask;
mod form;
mod screen;
mod turn;
mod waiting;

use crate::{
    arguments::Place, failure::Failure, host::Host, interrupts::Interrupts, terminal::complain,
};
use clap::{Args, ValueEnum};
use std::{io::Read as _, path::PathBuf};

/// Who may allow a tool call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Allow {
    /// You, on the terminal; without a terminal nothing is allowed
    #[default]
    Ask,
    /// Reading is allowed, the rest is asked
    Reads,
    /// Everything is allowed
    All,
}

impl Allow {
    fn policy(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Reads => "reads",
            Self::All => "all",
        }
    }
}

/// Options of `gantry chat`.
#[derive(Debug, Args)]
#[command(after_help = "The text goes to standard output; tools, thoughts and questions to \
    standard error. Ctrl+C cancels the turn, a second one stops the session.\n\n\
    Examples:\n  gantry chat 'what is in this folder?'\n  \
    gantry chat --agent opencode --allow reads 'review the last commit'\n  \
    git diff | gantry chat --allow reads -")]
pub struct Chat {
    #[command(flatten)]
    place: Place,
    /// The agent (see `agents_list`) [default: the built-in one]
    #[arg(long, value_name = "A", conflicts_with = "session")]
    agent: Option<String>,
    /// The folder to work in [default: this one]
    #[arg(long, value_name = "DIR", conflicts_with = "session")]
    project: Option<PathBuf>,
    /// Go on with this session (see `gantry status`)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Who may allow a tool call
    #[arg(long, value_enum, default_value_t)]
    allow: Allow,
    /// Wait for a running turn instead of failing
    #[arg(long)]
    queue: bool,
    /// Print every event as one line of JSON
    #[arg(long)]
    json: bool,
    /// What to say; `-` reads it from standard input
    prompt: String,
}

/// Says it and shows the answer.
pub async fn run(options: Chat) -> Result<u8, Failure> {
    let prompt = prompt(&options.prompt)?;
    let mut interrupts = Interrupts::take().map_err(|error| Failure::new("chat", error))?;
    let host = tokio::select! {
        host = Host::find_or_start("chat", &options.place) => host?,
        // Nothing of ours runs yet that could be left behind.
        _ = interrupts.next() => return Err(Failure::new("chat", "interrupted")),
    };
    let talked = turn::run(&host, &options, &prompt, &mut interrupts).await;
    let is_own = host.is_own();
    let code = host.close(&mut interrupts).await;
    if is_own && code != 0 {
        complain(
            "gantry: chat: something had to be abandoned at the end; logs/gantry.log names it",
        );
    }
    talked.map(|talked| talked.max(code))
}

fn prompt(argument: &str) -> Result<String, Failure> {
    let mut text = argument.to_owned();
    if argument == "-" {
        text.clear();
        std::io::stdin()
            .lock()
            .read_to_string(&mut text)
            .map_err(|error| Failure::usage("chat: standard input", error))?;
    }
    if text.trim().is_empty() {
        return Err(Failure::usage("chat", "the prompt is empty; say something"));
    }
    Ok(text)
}
