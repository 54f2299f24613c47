//! What a model was told and has said, kept for another run of the agent: one file for each
//! conversation in the folder that Gantry names. Without a folder nothing is kept.

use gantry_core::{
    data_dir::{read_small, write_private},
    session::{MEMORY_VARIABLE, memory_file},
};
use serde_json::Value;
use std::{io, path::PathBuf};

/// The longest conversation that is kept, bytes of JSON.
const LONGEST: u64 = 32 << 20;

/// The folder.
#[derive(Clone, Default)]
pub(super) struct Memory(Option<PathBuf>);

impl Memory {
    pub(super) fn from_environment() -> Self {
        Self::at(std::env::var_os(MEMORY_VARIABLE).filter(|folder| !folder.is_empty()))
    }

    pub(super) fn at(folder: Option<impl Into<PathBuf>>) -> Self {
        Self(folder.map(Into::into))
    }

    fn file(&self, conversation: &str) -> Option<PathBuf> {
        memory_file(self.0.as_deref()?, conversation)
    }

    /// Whether something is kept of a conversation.
    pub(super) fn has(&self, conversation: &str) -> bool {
        self.file(conversation).is_some_and(|file| file.is_file())
    }

    /// What is kept of a conversation; nothing when none is, or it cannot be read.
    pub(super) fn read(&self, conversation: &str) -> Vec<Value> {
        let Some(file) = self.file(conversation) else { return Vec::new() };
        let text = match read_small(&file, LONGEST) {
            Ok(text) => text,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!("{}: {error}", file.display());
                }
                return Vec::new();
            }
        };
        serde_json::from_str(&text).unwrap_or_else(|error| {
            tracing::warn!("{}: {error}", file.display());
            Vec::new()
        })
    }

    /// Keeps a conversation in the place of what was kept of it. One that is too long is forgotten
    /// rather than kept in part: the model would take the end of it for all.
    pub(super) fn write(&self, conversation: &str, messages: &[Value]) {
        let Some(file) = self.file(conversation) else { return };
        let written = serde_json::to_string(messages).map_err(io::Error::from).and_then(|text| {
            if text.len() as u64 > LONGEST {
                return std::fs::remove_file(&file);
            }
            if let Some(folder) = file.parent() {
                std::fs::create_dir_all(folder)?;
            }
            write_private(&file, &text)
        });
        match written {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("a conversation is not kept: {error}");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_conversation_outlives_the_agent_and_odd_files_are_nothing() {
        let place = tempfile::tempdir().unwrap();
        let memory = Memory::at(Some(place.path().join("conversations")));
        assert!(memory.read("s-1").is_empty());
        let messages = [json!({"role": "user", "content": "hi"})];
        memory.write("s-1", &messages);
        assert_eq!(memory.read("s-1"), messages);
        std::fs::write(place.path().join("conversations/s-2.json"), "{").unwrap();
        assert!(memory.read("s-2").is_empty());
        // An id is no path.
        std::fs::write(place.path().join("out.json"), "[1]").unwrap();
        memory.write("../out", &messages);
        assert!(memory.read("../out").is_empty());
        assert_eq!(std::fs::read_to_string(place.path().join("out.json")).unwrap(), "[1]");
        Memory::default().write("s-1", &messages);
    }
}
