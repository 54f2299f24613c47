//! A process that is hard to end. Words as arguments, in any order:
//!
//! - `setsid`: leaves its session and group;
//! - `ignore-term`: ignores TERM, INT and HUP;
//! - `obey-eof`: ends with 0 when its standard input ends;
//! - `flood`: writes to standard error without end;
//! - `daemon`: starts itself again with the other words and ends at once;
//! - `clear-env`: with `daemon`, the second one has an empty environment;
//! - `ledger F`: signs in there (for those whose environment was cleared).
//!
//! It sleeps for ten minutes and ends.

#![allow(clippy::disallowed_methods, reason = "a fake that misbehaves on purpose")]

use gantry_tests::{census, misbehave};
use std::{
    process::{Command, Stdio},
    time::Duration,
};
use tokio::io::AsyncReadExt;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = words.iter().position(|word| word == "daemon") {
        words.remove(at);
        return detach(&words);
    }
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    if has("setsid") {
        // Fails for a group leader, which then has a group of its own anyway.
        let _ = rustix::process::setsid();
    }
    if has("ignore-term") {
        misbehave::ignore_signals();
    }
    match words.iter().position(|word| word == "ledger") {
        Some(at) => census::sign_in_to(words.get(at + 1).map(AsRef::as_ref)),
        None => census::sign_in(),
    }
    let obeys_eof = has("obey-eof");
    let floods = has("flood");
    let life = async {
        let flood = async {
            if !floods {
                std::future::pending::<()>().await;
            }
            loop {
                eprintln!("a line that nobody asked for, again and again and again and again");
                tokio::task::yield_now().await;
            }
        };
        let end_of_input = async {
            let mut rest = Vec::new();
            if obeys_eof && tokio::io::stdin().read_to_end(&mut rest).await.is_ok() {
                return;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! { () = flood => {}, () = end_of_input => {} }
    };
    // Bounded, for a test that dies; long walks have bystanders that live longer.
    let bound = std::env::var("STUBBORN_LIFE_S").ok().and_then(|bound| bound.parse().ok());
    let _ = tokio::time::timeout(Duration::from_secs(bound.unwrap_or(600)), life).await;
    // A read of the standard input may be pending; nothing is to be kept.
    std::process::exit(0);
}

#[expect(clippy::zombie_processes, reason = "the child is to lose its parent")]
fn detach(words: &[String]) {
    let exe = std::env::current_exe().unwrap_or_else(|why| panic!("{why}"));
    let mut command = Command::new(exe);
    command.args(words.iter().filter(|word| *word != "clear-env"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if words.iter().any(|word| word == "clear-env") {
        command.env_clear();
    }
    command.spawn().unwrap_or_else(|why| panic!("{why}"));
}
