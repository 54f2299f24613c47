//! Sessions and engines over the real supervisor, bridge and store, with a scripted agent.
#![allow(clippy::disallowed_methods, reason = "tests start bystanders and tasks of their own")]
#![cfg(target_os = "linux")]

mod adopt;
mod crash;
mod opening;
mod permissions;
mod questions;
mod queue;
mod restore;
mod settings;
mod stopping;
mod stress;
mod turns;
mod waiting;
mod world;
