//! What the user chose about the program itself.

use super::Policy;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// The language of the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// As the system.
    #[default]
    System,
    /// English.
    En,
    /// Chinese (simplified).
    Zh,
}

/// Light or dark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum Theme {
    /// As the system.
    #[default]
    System,
    /// Light.
    Light,
    /// Dark.
    Dark,
}

/// What closing the window does, where a tray can bring it back. Without one it quits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum OnClose {
    /// The user has not chosen yet: the window asks.
    #[default]
    Ask,
    /// The window hides; sessions and servers go on.
    Tray,
    /// Gantry quits.
    Quit,
}

/// What the user chose. What is missing or unreadable in the store counts as not chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(default)]
pub struct Settings {
    /// The language of the interface.
    pub language: Language,
    /// Light or dark.
    pub theme: Theme,
    /// What closing the window does.
    pub on_close: OnClose,
    /// Whether the user has been through the first steps, or skipped them.
    pub introduced: bool,
    /// After how many minutes without a turn an agent's engine ends (it starts again with
    /// the next prompt); 0: never.
    #[ts(as = "Option<u32>", optional)]
    pub engine_idle_minutes: u32,
    /// Whether each session has an engine of its own: harder isolation, more memory.
    #[ts(as = "Option<bool>", optional)]
    pub one_engine_per_session: bool,
    /// How many agents are started anew, without a session, when their last session was stopped,
    /// so that the next one begins at once; at most 8. They end after `engine_idle_minutes` (after
    /// 30 when that is 0). 0: none.
    #[ts(as = "Option<u32>", optional)]
    pub warm_engines: u32,
    /// How long a prompt waits for its servers, for all together, unless the request says
    /// otherwise; milliseconds.
    #[ts(as = "Option<u64>", optional)]
    pub ready_timeout_ms: u64,
    /// After how many milliseconds without an answer a permission request is refused, unless
    /// the request says otherwise; 0: never.
    #[ts(as = "Option<u64>", optional)]
    pub permission_timeout_ms: u64,
    /// What the interface offers first when it asks what a new session's agent may do.
    #[ts(as = "Option<Policy>", optional)]
    pub permission: Policy,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            language: Language::default(),
            theme: Theme::default(),
            on_close: OnClose::default(),
            introduced: false,
            engine_idle_minutes: 30,
            one_engine_per_session: false,
            warm_engines: 0,
            ready_timeout_ms: 30_000,
            permission_timeout_ms: 0,
            permission: Policy::default(),
        }
    }
}

/// Input of `settings_set`: what is absent stays as it is.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, TS)]
#[serde(default)]
#[ts(optional_fields)]
pub struct SettingsChange {
    /// The language of the interface.
    pub language: Option<Language>,
    /// Light or dark.
    pub theme: Option<Theme>,
    /// What closing the window does.
    pub on_close: Option<OnClose>,
    /// Whether the user has been through the first steps.
    pub introduced: Option<bool>,
    /// Minutes until an engine without a turn ends; 0: never.
    pub engine_idle_minutes: Option<u32>,
    /// Whether each session has an engine of its own.
    pub one_engine_per_session: Option<bool>,
    /// How many agents are kept ready without a session, at most 8; 0: none.
    pub warm_engines: Option<u32>,
    /// Milliseconds that a prompt waits for its servers.
    pub ready_timeout_ms: Option<u64>,
    /// Milliseconds until a permission request without an answer is refused; 0: never.
    pub permission_timeout_ms: Option<u64>,
    /// What the interface offers first when it asks what a new session's agent may do.
    pub permission: Option<Policy>,
}

impl SettingsChange {
    /// `settings` with the change.
    pub fn applied_to(self, settings: Settings) -> Settings {
        Settings {
            language: self.language.unwrap_or(settings.language),
            theme: self.theme.unwrap_or(settings.theme),
            on_close: self.on_close.unwrap_or(settings.on_close),
            introduced: self.introduced.unwrap_or(settings.introduced),
            engine_idle_minutes: self.engine_idle_minutes.unwrap_or(settings.engine_idle_minutes),
            one_engine_per_session: self
                .one_engine_per_session
                .unwrap_or(settings.one_engine_per_session),
            warm_engines: self.warm_engines.unwrap_or(settings.warm_engines),
            ready_timeout_ms: self.ready_timeout_ms.unwrap_or(settings.ready_timeout_ms),
            permission_timeout_ms: self
                .permission_timeout_ms
                .unwrap_or(settings.permission_timeout_ms),
            permission: self.permission.unwrap_or(settings.permission),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_leaves_the_rest_as_it_is() {
        let chosen = Settings { language: Language::Zh, ..Settings::default() };
        let change = SettingsChange { on_close: Some(OnClose::Tray), ..SettingsChange::default() };
        let changed = change.applied_to(chosen);
        assert_eq!(changed.language, Language::Zh);
        assert_eq!(changed.on_close, OnClose::Tray);
        assert!(!changed.introduced);
    }

    #[test]
    fn what_an_older_version_stored_is_read() {
        let read: Settings = serde_json::from_str(r#"{"language":"en","else":1}"#).unwrap();
        assert_eq!(read, Settings { language: Language::En, ..Settings::default() });
        assert_eq!(read.engine_idle_minutes, 30);
    }
}
