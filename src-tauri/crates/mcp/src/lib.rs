//! MCP: framing, raw pass-through of one upstream to many clients, what was
//! learned from it (catalogue), and the tool filter. Knows no process and no
//! host: byte streams in, JSON lines out.

#![deny(missing_docs)]

pub mod ambiguity;
pub mod catalogue;
pub mod filter;
pub mod frame;
pub mod headers;
pub mod hub;
pub mod lines;
pub mod modern;
pub mod outlet;
pub mod revision;

pub use catalogue::Catalogue;
pub use filter::ToolFilter;
pub use frame::{Envelope, FrameError, Kind};
pub use hub::{Client, Disconnected, Hub, HubOptions, Phase};
pub use lines::{Line, LineReader};
pub use outlet::{Full, Mailbox, Meter, Outlet, ToClient, mailbox};
