//! Which of the two HTTP transports a URL turned out to speak, remembered between starts, so
//! that it has to be found out once. The bridge names the file (one per URL) and reads it, too.

use super::remote::Transport;
use gantry_core::bridge::{SSE, STREAMABLE};
use std::path::PathBuf;

/// The file of one URL.
#[derive(Clone, Debug)]
pub struct Memory(PathBuf);

impl Memory {
    /// What the bridge gave us by environment.
    pub fn given() -> Option<Self> {
        let path = std::env::var_os(gantry_core::bridge::TRANSPORT_VARIABLE)?;
        (!path.is_empty()).then(|| Self(path.into()))
    }

    /// A file of our choice.
    #[cfg(test)]
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// What was found out before.
    pub fn read(&self) -> Option<Transport> {
        match std::fs::read_to_string(&self.0).ok()?.trim() {
            SSE => Some(Transport::Older),
            STREAMABLE => Some(Transport::Streamable),
            _ => None,
        }
    }

    /// Remembers. That it cannot be written costs the next start a moment, no more.
    pub fn write(&self, found: Transport) {
        if self.read() == Some(found) {
            return;
        }
        let text = if found == Transport::Older { SSE } else { STREAMABLE };
        let folder = self.0.parent().map(std::fs::create_dir_all);
        if let Err(error) = folder.unwrap_or(Ok(())).and_then(|()| std::fs::write(&self.0, text)) {
            tracing::warn!(%error, "the transport that was found out cannot be remembered");
        }
    }

    /// It is not true any more.
    pub fn forget(&self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
