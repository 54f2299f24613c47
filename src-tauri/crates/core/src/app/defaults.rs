//! What a fresh data directory starts with (contract, section 4).

use super::App;
use crate::wire::ServerConfig;
use std::path::Path;

/// A comma-separated list of the default servers that a fresh data directory
/// gets; `none` for none. Without it: `chrome-devtools,recall`.
pub const DEFAULT_SERVERS_VARIABLE: &str = "GANTRY_DEFAULT_SERVERS";

/// The setting that says that the defaults were installed once: a default that the user removed
/// does not come back.
const INSTALLED: &str = "defaults_installed";

impl App {
    pub(super) async fn install_defaults(&self) -> crate::Result<()> {
        let store = self.store();
        if store.setting(INSTALLED).await?.is_some() {
            return Ok(());
        }
        let wanted = std::env::var(DEFAULT_SERVERS_VARIABLE)
            .unwrap_or_else(|_| "chrome-devtools,recall".to_owned());
        for name in wanted.split(',').map(str::trim) {
            if let Some(config) = default_server(name) {
                let text = serde_json::to_string(&config).unwrap_or_default();
                store.save_server(name, &text).await?;
            }
        }
        store.save_setting(INSTALLED, "true").await?;
        Ok(())
    }
}

fn default_server(name: &str) -> Option<ServerConfig> {
    match name {
        "chrome-devtools" => Some(ServerConfig {
            command: Some("npx".into()),
            args: vec!["-y".into(), "chrome-devtools-mcp@latest".into()],
            // It would report its use to its makers, of which nobody was asked.
            env: [("CHROME_DEVTOOLS_MCP_NO_USAGE_STATISTICS".into(), "true".into())].into(),
            enabled: chrome_is_installed(),
            persistent: true,
            ..ServerConfig::default()
        }),
        "recall" => Some(ServerConfig {
            // The bridge puts our own program in the place of a bare `gantry`.
            command: Some("gantry".into()),
            args: vec!["mcp".into(), "--recall".into()],
            enabled: true,
            ..ServerConfig::default()
        }),
        _ => None,
    }
}

fn chrome_is_installed() -> bool {
    const NAMES: &[&str] =
        &["google-chrome", "google-chrome-stable", "chromium", "chromium-browser", "chrome"];
    const PLACES: &[&str] = &[
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
        "C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe",
        "C:\\Program Files (x86)\\Google\\Chrome\\Application\\chrome.exe",
    ];
    NAMES.iter().any(|name| gantry_supervisor::environment::find_program(name).is_some())
        || PLACES.iter().any(|place| Path::new(place).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_what_the_contract_says() {
        let chrome = default_server("chrome-devtools").unwrap();
        assert!(chrome.persistent);
        assert_eq!(chrome.args, ["-y", "chrome-devtools-mcp@latest"]);
        assert!(chrome.env.contains_key("CHROME_DEVTOOLS_MCP_NO_USAGE_STATISTICS"));
        let recall = default_server("recall").unwrap();
        assert!(recall.enabled && !recall.persistent);
        assert_eq!(default_server("none"), None);
    }
}
