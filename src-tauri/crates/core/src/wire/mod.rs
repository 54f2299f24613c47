//! The wire, declared once (rule 7): what both hosts, the user interface, back
//! ends and scripts exchange with the core. `ui/src/wire.ts` is generated from
//! these types. Times are milliseconds since the Unix epoch unless a name says
//! otherwise.

mod agents;
mod chat;
mod data;
mod events;
mod find;
mod import;
mod processes;
mod questions;
mod servers;
mod session_settings;
mod sessions;
mod settings;
mod terminals;

pub use agents::*;
pub use chat::*;
pub use data::*;
pub use events::*;
pub use find::*;
pub use import::*;
pub use processes::*;
pub use questions::*;
pub use servers::*;
pub use session_settings::*;
pub use sessions::*;
pub use settings::*;
pub use terminals::*;

pub use gantry_acp::RawUpdate;

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// A command that takes nothing. Unknown fields are ignored.
#[derive(Clone, Debug, Default, Serialize, Deserialize, TS)]
pub struct Nothing {}

/// A command that was done and has nothing to tell.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct Done {
    /// Always true.
    pub ok: bool,
}

impl Done {
    /// Done.
    pub const OK: Self = Self { ok: true };
}
