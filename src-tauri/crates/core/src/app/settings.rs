//! What the user chose about the program itself.

use super::App;
use crate::{Error, Result, session::EngineRules, wire::*};
use gantry_store::Store;
use std::time::Duration;
use tokio::sync::watch;

/// The key in the store.
const KEY: &str = "settings";
/// Engines that wait for a first session cost memory.
const MOST_WARM: u32 = 8;
/// A month: clocks cannot reckon with any number that fits into a request.
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 86_400);

/// The stored settings; those that cannot be read count as not chosen.
pub(super) async fn stored(store: &Store) -> Result<Settings> {
    let Some(text) = store.setting(KEY).await? else { return Ok(Settings::default()) };
    Ok(serde_json::from_str(&text).unwrap_or_else(|error| {
        tracing::warn!("the stored settings cannot be read, so the defaults count: {error}");
        Settings::default()
    }))
}

/// What of them is about engines.
pub(super) fn engine_rules(settings: &Settings) -> EngineRules {
    let minutes = u64::from(settings.engine_idle_minutes);
    EngineRules {
        idle: (minutes > 0).then(|| Duration::from_secs(60 * minutes)),
        one_per_session: settings.one_engine_per_session,
        warm: usize::try_from(settings.warm_engines).unwrap_or_default(),
    }
}

impl App {
    /// The settings, and each change of them.
    pub fn settings(&self) -> watch::Receiver<Settings> {
        self.inner.settings.subscribe()
    }

    /// What the user chose.
    ///
    /// # Errors
    /// None.
    pub async fn settings_get(&self, _: Nothing) -> Result<Settings> {
        Ok(*self.inner.settings.borrow())
    }

    /// How long a prompt waits for its servers, in milliseconds: as asked, else as set.
    pub(super) fn ready_timeout(&self, asked: Option<u64>) -> Duration {
        let set = self.inner.settings.borrow().ready_timeout_ms;
        Duration::from_millis(asked.unwrap_or(set)).min(LONGEST_WAIT)
    }

    /// After how long a permission request without an answer is refused: as asked, else as
    /// set; never for 0.
    pub(super) fn permission_timeout(&self, asked: Option<u64>) -> Option<Duration> {
        let set = self.inner.settings.borrow().permission_timeout_ms;
        let ms = asked.unwrap_or(set);
        (ms > 0).then(|| Duration::from_millis(ms).min(LONGEST_WAIT))
    }

    /// Changes what the user chose.
    ///
    /// # Errors
    /// More than 8 warm engines; the store refuses.
    pub async fn settings_set(&self, input: SettingsChange) -> Result<Settings> {
        self.still_open()?;
        if let Some(asked) = input.warm_engines.filter(|asked| *asked > MOST_WARM) {
            return Err(Error::invalid(format!(
                "warm_engines: {asked} is too many; at most {MOST_WARM} agents wait for a session"
            )));
        }
        let _order = self.inner.saving.lock().await;
        let settings = input.applied_to(*self.inner.settings.borrow());
        let text = serde_json::to_string(&settings)
            .map_err(|error| Error::failed(format!("the settings could not be stored: {error}")))?;
        self.store().save_setting(KEY, &text).await?;
        self.inner.settings.send_replace(settings);
        self.sessions().set_rules(engine_rules(&settings));
        self.events().publish(Happening::SettingsChanged { settings });
        Ok(settings)
    }
}
