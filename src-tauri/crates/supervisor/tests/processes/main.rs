//! The process layer against real processes. Every test ends with: no survivor, no
//! bystander harmed.

#![cfg(target_os = "linux")]
#![allow(missing_docs, reason = "tests")]
#![expect(clippy::disallowed_methods, reason = "tests start bystanders and apps themselves")]

mod app;
mod crash;
mod figures;
mod launch;
mod recycled;
mod stop;
mod sweep;
mod world;
