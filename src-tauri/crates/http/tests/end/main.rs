//! The listener's part of the shutdown. A binary of its own, because a shutdown
//! that was asked for ends the process after five seconds, whatever runs in it.

#![allow(missing_docs, dead_code, reason = "tests")]

#[path = "../shared/client.rs"]
mod client;
#[path = "../shared/site.rs"]
mod site;
mod the_end;
