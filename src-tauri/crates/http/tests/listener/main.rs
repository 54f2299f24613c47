//! The listener in front of a real core, over real sockets.

#![allow(missing_docs, dead_code, reason = "tests")]

#[path = "../shared/client.rs"]
mod client;
mod requests;
#[path = "../shared/site.rs"]
mod site;
mod streams;
