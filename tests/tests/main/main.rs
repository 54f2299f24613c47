//! The end-to-end tests: the built programs, real processes, HTTP on loopback.
//! Each ends with "nothing left, nobody harmed" ([`gantry_tests::Stage::finish`]).

#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    reason = "tests start and kill the programs under test themselves"
)]

mod access;
mod agents;
mod back_ends;
mod bridge;
mod bridge_cases;
mod builtin_agent;
mod chat;
mod command_line;
mod conformance;
mod disk;
mod edges;
mod environment;
mod everything;
mod fakes;
mod fallback;
mod gates;
mod hard_to_see;
mod last_exit;
mod load;
mod login_shell;
mod matrix;
mod metrics;
mod ownership;
mod questions;
mod quitting;
mod readiness;
mod real_agents;
mod real_agents_asks;
mod registries;
mod remote;
mod revisions;
mod robustness;
mod schemathesis;
mod sessions;
mod shell;
mod sign_in;
mod starting;
mod stdio_end;
mod stdio_proxy;
mod stdio_recall;
mod stdio_upstreams;
mod streams;
mod stubborn;
mod terminal;
mod thousand;
mod walks;
mod window;
