//! The application service: what both hosts offer, in one place.

mod chat;
mod commands;

pub use chat::*;

use std::sync::Arc;

/// A running Gantry. Clones are the same one.
#[derive(Clone, Debug)]
pub struct App {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {}
