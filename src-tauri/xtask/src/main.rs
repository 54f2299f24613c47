//! The project's two commands, `cargo xtask run` and `cargo xtask test`, and a
//! few smaller ones. It uses nothing but the standard library, so that it is
//! built in seconds on a machine that has only Rust.

#![allow(
    clippy::disallowed_methods,
    reason = "a build script: the bans hold the product's rules, and this is no part of it"
)]

mod bench;
mod command;
mod npm;
mod packages;
mod place;
mod python;
mod run;
mod second_look;
mod steps;
mod test;
mod wire;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  run [-- ARGS]                 install what is missing, build, and open Gantry
  test [--only PART] [-- FILTER]
                                everything that must hold; PART is one of
                                packages, ui, lint, build, rust, flows, window
  wire                          write ui/src/wire.ts anew from the Rust types
  bench [NAME]                  run a benchmark (release build); without NAME, list them";

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let rest = match args.iter().position(|arg| arg == "--") {
        Some(at) => {
            let rest = args.split_off(at + 1);
            args.pop();
            rest
        }
        None => Vec::new(),
    };
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["run"] => run::run(&rest),
        ["test"] => test::test(None, &rest),
        ["test", "--only", part] => test::test(Some(part), &rest),
        ["wire"] => wire::write(),
        ["bench"] => bench::list(),
        ["bench", name] => bench::run(name, &rest),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}
