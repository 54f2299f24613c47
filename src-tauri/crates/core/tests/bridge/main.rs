//! The bridge with real processes. Every test ends with: no survivor, no bystander harmed.

#![cfg(target_os = "linux")]
#![allow(missing_docs, reason = "tests")]
#![expect(clippy::disallowed_methods, reason = "tests start bystanders themselves")]

mod ending;
mod starting;
mod world;
