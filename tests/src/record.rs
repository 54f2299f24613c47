//! What the fake programs saw, in the order in which they saw it: JSON lines
//! with the time of the machine's monotonic clock, which all processes share.

use serde_json::{Value, json};
use std::{fs::OpenOptions, io::Write, path::Path};

/// Nanoseconds of the monotonic clock.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Appends one line, in one write, so that lines of several processes do not mix.
/// `fields` is an object; `at`, `pid` and `event` are added to it.
pub fn write(path: &Path, event: &str, fields: Value) {
    let mut line = json!({ "at": now(), "pid": std::process::id(), "event": event });
    if let (Some(line), Value::Object(fields)) = (line.as_object_mut(), fields) {
        line.extend(fields);
    }
    let mut text = line.to_string();
    text.push('\n');
    let file = OpenOptions::new().create(true).append(true).open(path);
    if let Err(why) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
        eprintln!("record {}: {why}", path.display());
    }
}

/// All complete lines so far; none when the file is not there yet.
pub fn read(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The lines with this event.
pub fn events(path: &Path, event: &str) -> Vec<Value> {
    read(path).into_iter().filter(|line| line["event"] == event).collect()
}

/// The time of a line.
///
/// # Panics
/// When it is no record line.
pub fn at(line: &Value) -> u64 {
    line["at"].as_u64().unwrap_or_else(|| panic!("no time in {line}"))
}
