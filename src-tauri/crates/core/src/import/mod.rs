//! Servers of other applications: found, shown, and saved where the user says
//! so, always disabled. Nothing is ever run from such a file, and none is written.

mod apps;
mod client;
mod entry;
mod lenient;
mod shape;

pub use apps::{App as OtherApp, Folders};
pub use lenient::Problem;

use crate::{
    Error, Result,
    bridge::{MASK, ServerSpec},
    wire::{FoundServer, ServerConfig},
};
use std::{fs, io::Read as _, path::Path};

/// The largest file that is read. A history of Claude Code can be large.
const LARGEST: u64 = 64 << 20;

/// A server that was found, with everything in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its name there.
    pub name: String,
    /// As Gantry would keep it, secrets included.
    pub config: ServerConfig,
    /// The file, and where in it.
    pub source: String,
    /// What a person should know.
    pub problems: Vec<String>,
    /// Whether it cannot be saved as it is.
    pub is_refused: bool,
}

impl Found {
    /// As it may be shown: without secrets.
    pub fn shown(&self, saved: &[ServerSpec]) -> FoundServer {
        let mut config = self.config.clone();
        for value in config.env.values_mut().chain(config.headers.values_mut()) {
            if !value.is_empty() && !value.contains("${") {
                MASK.clone_into(value);
            }
        }
        if config.auth_token.as_ref().is_some_and(|token| !token.contains("${")) {
            config.auth_token = Some(MASK.to_owned());
        }
        // What we do not know may hold secrets too.
        config.other.clear();
        FoundServer {
            name: self.name.clone(),
            config,
            source: self.source.clone(),
            problems: self.problems.clone(),
            duplicate_of: self.duplicate_of(saved).map(str::to_owned),
            refused: self.is_refused,
        }
    }

    /// The saved server that it is already: the same program or address, else the same name.
    pub fn duplicate_of<'a>(&self, saved: &'a [ServerSpec]) -> Option<&'a str> {
        let is_same = |other: &ServerConfig| match (&self.config.command, &self.config.url) {
            (Some(command), _) => {
                other.command.as_ref() == Some(command) && other.args == self.config.args
            }
            (None, Some(url)) => other.url.as_ref() == Some(url),
            (None, None) => false,
        };
        let same = saved.iter().find(|spec| is_same(&spec.config));
        same.or_else(|| saved.iter().find(|spec| spec.name == self.name))
            .map(|spec| spec.name.as_str())
    }
}

/// The servers in a text.
///
/// # Errors
/// Invalid: it is no JSON (line and column are told), or names no server.
pub fn from_text(text: &str, source: &str) -> Result<Vec<Found>> {
    read_text(text, source, true)
}

/// `must_have`: a text without servers is an error.
fn read_text(text: &str, source: &str, must_have: bool) -> Result<Vec<Found>> {
    let told = |why: &dyn std::fmt::Display| {
        Error::invalid(if source.is_empty() {
            format!("text: {why}")
        } else {
            format!("{source}: {why}")
        })
    };
    let value = lenient::parse(text).map_err(|problem| told(&problem))?;
    let written = match shape::servers(&value) {
        Ok(written) => written,
        Err(why) if must_have => return Err(told(&why)),
        Err(_) => Vec::new(),
    };
    let home = dirs::home_dir();
    Ok(written
        .into_iter()
        .map(|written| {
            let read = entry::read(&written.entry, home.as_deref());
            let source = match (source, written.scope.as_str()) {
                (source, "") => source.to_owned(),
                (source, scope) => format!("{source} ({scope})"),
            };
            Found {
                name: match written.name.trim() {
                    "" => shape::name_of(&written.entry),
                    _ => written.name,
                },
                config: read.config,
                source,
                problems: read.problems,
                is_refused: read.is_refused,
            }
        })
        .collect())
}

/// The servers in a file. Reads it, so blocks.
///
/// # Errors
/// Not found; invalid, when it cannot be read as a configuration.
pub fn from_file(path: &Path) -> Result<Vec<Found>> {
    read_file(path, true)
}

fn read_file(path: &Path, must_have: bool) -> Result<Vec<Found>> {
    let shown = path.display();
    // To open a pipe may take for ever.
    let about = fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::not_found(format!("path: {shown} is not there")),
        _ => Error::invalid(format!("path: {shown} cannot be read: {error}")),
    })?;
    if !about.is_file() {
        return Err(Error::invalid(format!("path: {shown} is not a file")));
    }
    let file = fs::File::open(path)
        .map_err(|error| Error::invalid(format!("path: {shown} cannot be read: {error}")))?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Error::invalid(format!("path: {shown} cannot be read: {error}")))?;
    if bytes.len() as u64 > LARGEST {
        return Err(Error::invalid(format!("path: {shown} is larger than 64 MiB")));
    }
    let text = decoded(bytes)
        .ok_or_else(|| Error::invalid(format!("path: {shown} is not a text in UTF-8")))?;
    read_text(&text, &shown.to_string(), must_have)
}

/// A text in UTF-8, or in UTF-16 where it says so, as some editors on Windows write it.
fn decoded(bytes: Vec<u8>) -> Option<String> {
    let units = |of: fn([u8; 2]) -> u16| -> Vec<u16> {
        bytes[2..].chunks_exact(2).map(|pair| of([pair[0], pair[1]])).collect()
    };
    match bytes.as_slice() {
        [0xff, 0xfe, ..] => String::from_utf16(&units(u16::from_le_bytes)).ok(),
        [0xfe, 0xff, ..] => String::from_utf16(&units(u16::from_be_bytes)).ok(),
        _ => String::from_utf8(bytes).ok(),
    }
}

/// The servers of another application, from every file that it has. Blocks.
///
/// # Errors
/// Not found, when it has none; what a file says, when none can be read.
pub fn from_app(app: OtherApp, folders: &Folders) -> Result<Vec<Found>> {
    let files = app.files(folders);
    if files.is_empty() {
        let places: Vec<_> =
            app.candidates(folders).iter().map(|path| path.display().to_string()).collect();
        return Err(Error::not_found(format!(
            "app: no configuration of {} is there; looked for {}",
            app.id(),
            places.join(", ")
        )));
    }
    let mut found = Vec::new();
    let mut failure = None;
    for file in &files {
        // Most keep other things there, too.
        match read_file(file, false) {
            Ok(more) => found.extend(more),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) if found.is_empty() => Err(error),
        Some(error) => {
            tracing::warn!("a configuration was left out: {error}");
            Ok(found)
        }
        None => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, text: &str) -> ServerSpec {
        ServerSpec { name: name.into(), config: serde_json::from_str(text).unwrap() }
    }

    #[test]
    fn what_is_shown_holds_no_secret() {
        let text = r#"{"a": {"command": "x", "env": {"API_KEY": "planted", "P": "${Q}"},
            "extra": {"password": "planted"}, "headers": {"A": "planted"}}}"#;
        let found = from_text(text, "").unwrap();
        assert_eq!(found[0].config.env["API_KEY"], "planted");
        let shown = serde_json::to_string(&found[0].shown(&[])).unwrap();
        assert!(!shown.contains("planted"), "{shown}");
        assert!(shown.contains("${env:Q}"), "{shown}");
    }

    #[test]
    fn one_that_is_there_already_is_recognised_by_program_address_or_name() {
        let saved = [
            spec("one", r#"{"command":"npx","args":["p"]}"#),
            spec("two", r#"{"url":"https://h"}"#),
        ];
        for (text, same) in [
            (r#"{"x": {"command":"npx","args":["p"]}}"#, Some("one")),
            (r#"{"x": {"command":"npx","args":["q"]}}"#, None),
            (r#"{"x": {"url":"https://h"}}"#, Some("two")),
            (r#"{"two": {"command":"other"}}"#, Some("two")),
        ] {
            assert_eq!(from_text(text, "").unwrap()[0].duplicate_of(&saved), same, "{text}");
        }
    }

    #[test]
    fn files_that_cannot_be_read_say_why() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("mcp.json");
        assert!(from_file(&path).unwrap_err().message.contains("not there"));
        assert!(from_file(place.path()).unwrap_err().message.contains("not a file"));
        std::fs::write(&path, "{\n \"mcpServers\": {,}\n}").unwrap();
        assert!(from_file(&path).unwrap_err().message.contains("line 2, column 17"));
        let text = r#"{"mcpServers": {"ü": {"command": "x"}}}"#;
        let wide: Vec<u8> =
            [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        std::fs::write(&path, wide).unwrap();
        assert_eq!(from_file(&path).unwrap()[0].name, "ü");
        std::fs::write(&path, [0xff, 0x00, 0xfe]).unwrap();
        assert!(from_file(&path).unwrap_err().message.contains("UTF-8"));
    }
}
