//! What the warden and the supervisor share: the words on the control socket,
//! and (Linux) the reading of `/proc` and the one way to kill a set of processes.
//!
//! The program around every child is `main.rs`. Everything here is std and rustix
//! only: no runtime, no allocation beyond what a read of `/proc` needs.

#![deny(missing_docs)]

pub mod table;
pub mod words;

#[cfg(target_os = "linux")]
pub mod kill;
#[cfg(target_os = "linux")]
pub mod look;
#[cfg(target_os = "linux")]
pub mod proc;
#[cfg(target_os = "linux")]
pub mod stamp;

/// The environment variable that every process we start carries.
pub const COOKIE_VARIABLE: &str = "GANTRY_TREE";
