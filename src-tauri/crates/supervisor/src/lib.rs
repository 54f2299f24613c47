//! Processes, task scopes and the deadline.
//!
//! The only crate that starts a process and the only one that ends one (rule 2).
//! It knows no protocol: it hands out byte streams.
//!
//! Read `README.md` beside this crate first.

#![deny(missing_docs)]

mod census;
pub mod deadline;
pub mod environment;
pub mod identity;
pub mod launch;
mod login_shell;
mod os;
mod resolve;
pub mod scope;
mod streams;
mod supervisor;
pub mod sweep;
pub mod table;
mod totals;
pub mod tree;

pub use deadline::{Deadline, Missed};
pub use identity::{COOKIE_VARIABLE, Cookie, ProcessId};
pub use launch::{Child, Launch, LaunchError, Role, StderrTail, Stdin, Stdout, Supervisor};
pub use scope::{Scope, Task};
pub use supervisor::warden_beside_us;
pub use sweep::{SweepReport, sweep, sweep_after};
pub use totals::{Totals, totals};
pub use tree::{Cause, Ended, Exit, How, ProcessTree};
