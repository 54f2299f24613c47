//! The user interface's half of the wire, made from the Rust types.

use super::{COMMANDS, visit};
use crate::{
    app::{AgentStatus, AgentStopped, ChatCancelled, ChatTarget},
    wire::{ChatAnswer, ChatRequest, Event, Happening},
};
use std::{any::TypeId, collections::BTreeMap, collections::HashSet, fmt::Write};
use ts_rs::{Config, TS, TypeVisitor};

/// The whole text of `ui/src/wire.ts`.
pub fn typescript() -> String {
    let config = Config::new().with_large_int("number");
    let mut found = Declarations { config: &config, seen: HashSet::new(), texts: BTreeMap::new() };
    visit(&mut found);
    found.visit::<Event>();
    // Flattened into `Event`, and named for who reads only what happened.
    found.visit::<Happening>();
    found.visit::<ChatRequest>();
    found.visit::<ChatAnswer>();
    found.visit::<crate::ErrorCode>();

    let mut text = String::from(
        "// Made from the Rust types by `cargo xtask wire`. Do not edit.\n/* eslint-disable */\n\n",
    );
    for declaration in found.texts.values() {
        let _ = writeln!(text, "{declaration}\n");
    }
    text.push_str("/** Every command: its input and its output. */\nexport interface Commands {\n");
    for command in COMMANDS {
        let _ = writeln!(
            text,
            "  /** {} */\n  {}: {{ input: {}; output: {} }};",
            command.about.trim(),
            command.name,
            (command.input)(&config),
            (command.output)(&config)
        );
    }
    text.push_str("}\n");
    text
}

/// The types that only back ends use, in the same form.
pub fn computer_types() -> String {
    let config = Config::new().with_large_int("number");
    let mut found = Declarations { config: &config, seen: HashSet::new(), texts: BTreeMap::new() };
    found.visit::<ChatTarget>();
    found.visit::<AgentStatus>();
    found.visit::<AgentStopped>();
    found.visit::<ChatCancelled>();
    found.texts.into_values().map(|declaration| format!("{declaration}\n")).collect()
}

struct Declarations<'a> {
    config: &'a Config,
    seen: HashSet<TypeId>,
    texts: BTreeMap<String, String>,
}

impl TypeVisitor for Declarations<'_> {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        if !self.seen.insert(TypeId::of::<T>()) {
            return;
        }
        if T::output_path().is_some() {
            let docs = T::docs().unwrap_or_default();
            self.texts
                .insert(T::ident(self.config), format!("{docs}export {}", T::decl(self.config)));
        }
        T::visit_dependencies(self);
        T::visit_generics(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_the_text_uses_is_declared() {
        let text = typescript();
        for command in COMMANDS {
            assert!(text.contains(&format!("\n  {}: {{", command.name)), "{}", command.name);
        }
        for name in ["ServerView", "SessionView", "Event", "Happening", "JsonValue", "ChatAnswer"] {
            assert!(text.contains(&format!("export type {name} =")), "{name} is not declared");
        }
    }
}
