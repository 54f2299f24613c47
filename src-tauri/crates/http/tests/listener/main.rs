//! The listener in front of a real core, over real sockets.

#![allow(missing_docs, reason = "tests")]

mod client;
mod requests;
mod site;
mod streams;
mod the_end;
