//! The agents that Gantry knows: how they are found, installed and started.
//! They stand in `known.json`; to add one, add an entry.

mod fetch;
mod find;
mod install;
mod installed;
mod registry;

pub(crate) use fetch::fetch;
pub(crate) use find::{Found, find};
pub(crate) use install::{Installs, InstallsParts, import};
pub(crate) use registry::{Read, only, platform, read};

use crate::wire::ClientOffers;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, OnceLock},
};

const KNOWN: &str = include_str!("known.json");

/// An agent that Gantry knows.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Known {
    /// Unique: letters, digits, `.`, `_`, `-`.
    pub(crate) id: String,
    /// For people.
    pub(crate) name: String,
    /// In a line, what it is and needs.
    pub(crate) about: String,
    /// Where to read more.
    pub(crate) homepage: String,
    /// The program that starts it.
    pub(crate) program: String,
    /// Its arguments.
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// Added to its environment.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// What Gantry does for it: only what was tried with it.
    #[serde(default)]
    pub(crate) offers: ClientOffers,
    /// What Gantry can install.
    #[serde(default)]
    pub(crate) package: Option<Package>,
    /// What to do by hand.
    pub(crate) how_to_install: String,
    /// Folders besides `PATH` where its own installer puts it; `~` is the home.
    #[serde(default)]
    pub(crate) places: Vec<String>,
    /// By protocol: variables that lead it to a custom endpoint, with
    /// `{MODEL_PROVIDER_…}` to be filled in.
    #[serde(default)]
    pub(crate) endpoint: BTreeMap<String, BTreeMap<String, String>>,
}

/// A package at a pinned version.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Package {
    /// Where it comes from.
    pub(crate) registry: Registry,
    /// Its name there.
    pub(crate) name: String,
    /// The version that is installed.
    pub(crate) version: String,
    /// The Python that it needs, at least.
    #[serde(default)]
    pub(crate) python: Option<String>,
}

/// A package registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Registry {
    /// Whatever npm is set to.
    Npm,
    /// Whatever pip and uv are set to.
    Pypi,
}

impl Registry {
    /// Its name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pypi => "pypi",
        }
    }
}

/// The agents of the file, in its order.
fn own() -> &'static [Arc<Known>] {
    static LIST: OnceLock<Vec<Arc<Known>>> = OnceLock::new();
    LIST.get_or_init(|| {
        // A test holds that the file can be read.
        serde_json::from_str::<Vec<Known>>(KNOWN).map_or_else(
            |error| {
                tracing::error!("the list of known agents cannot be read: {error}");
                Vec::new()
            },
            |list| list.into_iter().map(Arc::new).collect(),
        )
    })
}

/// The agent of our own list with this id.
pub(crate) fn by_id(id: &str) -> Option<&'static Arc<Known>> {
    own().iter().find(|known| known.id == id)
}

/// All agents that Gantry knows: ours, then those of the registry that was imported into
/// `home`, where we have none of that id. Reads the file system.
pub(crate) fn catalogue(home: &Path) -> Vec<Arc<Known>> {
    let imported = match std::fs::read_to_string(home.join(IMPORTED)) {
        Ok(text) => read(&text, &platform()).unwrap_or_else(|error| {
            tracing::warn!("{IMPORTED} in {}: {error}", home.display());
            Read::default()
        }),
        Err(_) => Read::default(),
    };
    let new = imported.agents.into_iter().filter(|known| by_id(&known.id).is_none());
    own().iter().cloned().chain(new.map(Arc::new)).collect()
}

/// The registry document that was imported last, in the home of installations. No id can
/// lead to this name.
pub(crate) const IMPORTED: &str = ".registry.json";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::agents::check_name;
    use std::collections::BTreeSet;

    #[test]
    fn the_list_can_be_read_and_every_entry_is_sound() {
        let list: Vec<Known> = serde_json::from_str(KNOWN).unwrap();
        let ids: BTreeSet<_> = list.iter().map(|known| &known.id).collect();
        assert_eq!(ids.len(), list.len(), "an id stands twice");
        for known in &list {
            check_name("id", &known.id).unwrap();
            let texts = [&known.name, &known.about, &known.program, &known.how_to_install];
            assert!(texts.iter().all(|text| !text.is_empty()), "{known:?}");
            assert!(known.homepage.starts_with("https://"), "{known:?}");
            if let Some(package) = &known.package {
                let is_pinned = package.version.starts_with(|c: char| c.is_ascii_digit());
                assert!(is_pinned && !package.version.contains(['^', '*', ' ']), "{package:?}");
            }
            let values = known.endpoint.values().flat_map(BTreeMap::values);
            for value in values {
                assert!(value.contains("{MODEL_PROVIDER_"), "{value} leads nowhere");
            }
        }
    }
}
