//! The program `gantry`: Gantry without a window, its built-in agent and
//! servers, and small commands for a Gantry that runs.

mod agent;
mod arguments;
mod chat;
mod doctor;
mod events;
mod failure;
mod fetch;
mod host;
mod import;
mod interrupts;
mod mcp;
mod quit;
mod reaper;
mod recall;
mod remote;
mod serve;
mod shells;
mod status;
mod stop;
mod terminal;

use arguments::{Cli, Command};
use clap::Parser as _;
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return finish(arguments::explain(&error)),
    };
    // Fails only when a provider is there already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::new("start", error).tell(),
    };
    let code = match runtime.block_on(run(cli.command)) {
        Ok(code) => finish(code),
        Err(failure) => failure.tell(),
    };
    // Nothing of ours runs any more; a read of standard input that nobody ends does not keep us.
    runtime.shutdown_background();
    code
}

/// The exit code, unless what was said did not get where it was sent.
fn finish(code: u8) -> ExitCode {
    match terminal::lost() {
        Some(why) if code == 0 => {
            let why = format!("{why}; what was printed is not complete");
            Failure::new("standard output", why).tell()
        }
        _ => ExitCode::from(code),
    }
}

async fn run(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Serve(options) => Box::pin(serve::run(options)).await,
        Command::Agent => Ok(Box::pin(agent::run()).await),
        Command::Mcp(options) => Ok(Box::pin(mcp::run(options)).await),
        Command::Status(options) => status::run(options).await,
        Command::Stop(options) => stop::run(options).await,
        Command::Quit(options) => quit::run(options).await,
        Command::Chat(options) => Box::pin(chat::run(options)).await,
        Command::Import(options) => Box::pin(import::run(options)).await,
        Command::Doctor(options) => Box::pin(doctor::run(options)).await,
        Command::Fetch => fetch::run().await,
        Command::Reaper(options) => reaper::run(options).await,
        Command::Completions(options) => shells::completions(&options),
        Command::Man(options) => shells::man(&options),
    }
}
