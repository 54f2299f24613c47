//! The format of the public ACP registry: a document that lists agents and where
//! their packages are. Pure.

use super::{Known, Package, Registry};
use crate::{
    app::agents::{BUILTIN_AGENT, check_name},
    wire::ClientOffers,
};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Longest name and description that are taken over, characters.
const LONGEST_NAME: usize = 100;
const LONGEST_ABOUT: usize = 500;

#[derive(Deserialize)]
struct Document {
    agents: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    name: String,
    version: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    repository: Option<String>,
    #[serde(default)]
    website: Option<String>,
    distribution: Distribution,
}

#[derive(Deserialize)]
struct Distribution {
    #[serde(default)]
    npx: Option<Packaged>,
    #[serde(default)]
    uvx: Option<Packaged>,
    #[serde(default)]
    binary: BTreeMap<String, Archive>,
}

#[derive(Deserialize)]
struct Packaged {
    package: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Archive {
    archive: String,
    cmd: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// What a document says.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) agents: Vec<Known>,
    /// Ids of entries that cannot be used, and why.
    pub(crate) unusable: Vec<(String, String)>,
}

/// Reads a document. `platform` as the registry names it, such as `linux-x86_64`.
///
/// # Errors
/// It is no such document; the message says where it goes wrong.
pub(crate) fn read(text: &str, platform: &str) -> Result<Read, String> {
    let document: Document = serde_json::from_str(text)
        .map_err(|error| format!("this is no list of agents in the registry's format: {error}"))?;
    let mut read = Read::default();
    for (number, value) in document.agents.into_iter().enumerate() {
        let id =
            value["id"].as_str().map_or_else(|| format!("entry {}", number + 1), str::to_owned);
        let known = serde_json::from_value::<Entry>(value)
            .map_err(|error| error.to_string())
            .and_then(|entry| known(entry, platform));
        match known {
            Ok(known) if read.agents.iter().any(|other| other.id == known.id) => {
                read.unusable.push((id, "the id stands twice in the list".into()));
            }
            Ok(known) => read.agents.push(known),
            Err(why) => read.unusable.push((id, why)),
        }
    }
    Ok(read)
}

/// The document with these of its agents alone.
///
/// # Errors
/// It is no such document, or has no such agent.
pub(crate) fn only(text: &str, ids: &[String]) -> Result<String, String> {
    let mut document: serde_json::Value = serde_json::from_str(text)
        .map_err(|error| format!("this is no list of agents in the registry's format: {error}"))?;
    let Some(agents) = document.get_mut("agents").and_then(serde_json::Value::as_array_mut) else {
        return Err("this is no list of agents in the registry's format".to_owned());
    };
    let has = |id: &String| agents.iter().any(|agent| agent["id"] == id.as_str());
    if let Some(missing) = ids.iter().find(|id| !has(id)) {
        return Err(format!("ids: there is no agent `{missing}` in the list"));
    }
    agents.retain(|agent| agent["id"].as_str().is_some_and(|id| ids.iter().any(|one| one == id)));
    Ok(document.to_string())
}

/// The platform that this program was built for.
pub(crate) fn platform() -> String {
    let system = if cfg!(target_os = "macos") { "darwin" } else { std::env::consts::OS };
    format!("{system}-{}", std::env::consts::ARCH)
}

fn known(entry: Entry, platform: &str) -> Result<Known, String> {
    check_name("id", &entry.id).map_err(|error| error.message)?;
    if entry.id == BUILTIN_AGENT {
        return Err("the agent that comes with Gantry has this id".to_owned());
    }
    let Distribution { npx, uvx, mut binary } = entry.distribution;
    let homepage = entry.website.or(entry.repository).filter(|url| url.starts_with("https://"));
    let mut known = Known {
        id: entry.id,
        name: line(&entry.name, LONGEST_NAME),
        about: line(&entry.description, LONGEST_ABOUT),
        homepage: homepage.unwrap_or_default(),
        program: String::new(),
        args: Vec::new(),
        env: BTreeMap::new(),
        offers: ClientOffers::default(),
        package: None,
        how_to_install: String::new(),
        places: Vec::new(),
        endpoint: BTreeMap::new(),
    };
    let (registry, packaged, by_hand) = match (npx, uvx, binary.remove(platform)) {
        (Some(npx), _, _) => (Registry::Npm, npx, "npm install -g"),
        (None, Some(uvx), _) => (Registry::Pypi, uvx, "uv tool install"),
        (None, None, Some(archive)) => {
            // Nothing says what the archive must hold, so it is not fetched for the user.
            known.how_to_install = format!("get {} and put it into PATH", archive.archive);
            known.program = base_name(&archive.cmd).to_owned();
            (known.args, known.env) = (archive.args, archive.env);
            return Ok(known);
        }
        (None, None, None) => {
            return Err(format!("it offers nothing for this platform ({platform})"));
        }
    };
    let (name, version) = pinned(&packaged.package, registry);
    let version = version.unwrap_or(&entry.version);
    // A name in a registry, not an option, an address or a path.
    let fits = |text: &str, more: &str| {
        let fine = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
        text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '@') && text.chars().all(fine)
    };
    let is_name = match registry {
        Registry::Npm => {
            fits(name, "@/._-") && name.matches('/').count() == usize::from(name.starts_with('@'))
        }
        Registry::Pypi => fits(name, "._-[],"),
    };
    if !is_name || !fits(version, ".+-") || version.starts_with('@') {
        return Err(format!("`{}` names no version of a package", packaged.package));
    }
    known.how_to_install = format!("{by_hand} {name}");
    // As npx and uvx do: the program has the package's name, if it is not the only one.
    let plain = name.split('[').next().unwrap_or(name);
    known.program = base_name(plain).to_owned();
    known.package = Some(Package {
        registry,
        name: name.to_owned(),
        version: version.to_owned(),
        python: None,
    });
    (known.args, known.env) = (packaged.args, packaged.env);
    Ok(known)
}

/// A text as one line of so many characters at most.
fn line(text: &str, longest: usize) -> String {
    let shown = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(longest);
    shown.collect::<String>().trim().to_owned()
}

/// `@scope/name@1.2.3` or `name==1.2.3`, taken apart.
fn pinned(package: &str, registry: Registry) -> (&str, Option<&str>) {
    let parts = match registry {
        // The first character may be the scope's.
        Registry::Npm => package
            .char_indices()
            .skip(1)
            .find(|(_, c)| *c == '@')
            .map(|(at, _)| (&package[..at], &package[at + 1..])),
        Registry::Pypi => package.split_once("==").or_else(|| package.split_once('@')),
    };
    match parts {
        Some((name, "latest")) => (name, None),
        Some((name, version)) => (name, Some(version)),
        None => (package, None),
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_every_kind_are_read_and_those_that_are_not_sound_are_named() {
        let text = r#"{"version": "1.0.0", "agents": [
            {"id": "npm-one", "name": "One", "version": "1.2.3", "description": "d",
             "repository": "https://example.com/one", "authors": ["a"], "license": "MIT",
             "distribution": {"npx": {"package": "@scope/one@1.2.4", "args": ["--acp"], "env": {"A": "1"}}}},
            {"id": "py-one", "name": "Two", "version": "0.1.0",
             "distribution": {"uvx": {"package": "two[acp]==0.1.1"}}},
            {"id": "loose", "name": "Three", "version": "3.0.0",
             "distribution": {"npx": {"package": "three@latest"}}},
            {"id": "binary", "name": "Four", "version": "4.0.0",
             "distribution": {"binary": {"linux-x86_64": {"archive": "https://example.com/4.tgz", "cmd": "./four", "args": ["acp"]}}}},
            {"id": "elsewhere", "name": "Five", "version": "5.0.0",
             "distribution": {"binary": {"windows-x86_64": {"archive": "https://example.com/5.zip", "cmd": "five.exe"}}}},
            {"id": "../up", "name": "Six", "version": "6.0.0", "distribution": {"npx": {"package": "six"}}},
            {"id": "option", "name": "Seven", "version": "7.0.0", "distribution": {"npx": {"package": "--global@1"}}},
            {"id": "path", "name": "Path", "version": "7.0.0", "distribution": {"npx": {"package": "../evil"}}},
            {"id": "git", "name": "Git", "version": "7.0.0", "distribution": {"npx": {"package": "git+ssh://x/y"}}},
            {"id": "loose", "name": "Again", "version": "3.0.0", "distribution": {"npx": {"package": "three"}}},
            {"name": "no id"}
        ], "extensions": []}"#;
        let read = read(text, "linux-x86_64").unwrap();
        let shown: Vec<_> = read
            .agents
            .iter()
            .map(|known| {
                let package = known.package.as_ref();
                let package =
                    package.map(|p| format!("{}: {} {}", p.registry.name(), p.name, p.version));
                (known.id.as_str(), known.program.as_str(), package.unwrap_or_default())
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("npm-one", "one", "npm: @scope/one 1.2.4".to_owned()),
                ("py-one", "two", "pypi: two[acp] 0.1.1".to_owned()),
                ("loose", "three", "npm: three 3.0.0".to_owned()),
                ("binary", "four", String::new()),
            ]
        );
        assert_eq!(
            (&read.agents[0].args[0], &read.agents[0].env["A"]),
            (&"--acp".to_owned(), &"1".to_owned())
        );
        let unusable: Vec<_> = read.unusable.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(unusable, ["elsewhere", "../up", "option", "path", "git", "loose", "entry 11"]);
    }

    #[test]
    fn some_of_the_agents_can_be_chosen() {
        let text = r#"{"version": "1", "agents": [
            {"id": "a", "name": "A", "version": "1.0.0", "distribution": {"npx": {"package": "a"}}, "new": 1},
            {"id": "b", "name": "B", "version": "1.0.0", "distribution": {"npx": {"package": "b"}}}]}"#;
        let chosen = only(text, &["a".to_owned()]).unwrap();
        let chosen: serde_json::Value = serde_json::from_str(&chosen).unwrap();
        assert_eq!(chosen["agents"].as_array().unwrap().len(), 1);
        assert!(chosen["agents"][0]["new"] == 1 && chosen["version"] == "1", "{chosen}");
        assert!(only(text, &["c".to_owned()]).unwrap_err().contains("`c`"));
        assert!(only("[]", &[]).unwrap_err().contains("registry's format"));
    }

    #[test]
    fn what_is_no_such_document_is_refused() {
        for text in ["", "[]", r#"{"mcpServers": {}}"#] {
            assert!(super::read(text, "linux-x86_64").unwrap_err().contains("registry's format"));
        }
    }

    #[test]
    fn names_are_lines_and_the_built_in_agent_is_not_replaced() {
        let entry = |id: &str| {
            serde_json::json!({"id": id, "name": "A\u{7}\nB", "version": "1.0.0", "description": "x".repeat(9999),
                "distribution": {"npx": {"package": "p@1.0.0"}}})
        };
        let text = serde_json::json!({"agents": [entry("built-in"), entry("one")]}).to_string();
        let read = read(&text, "linux-x86_64").unwrap();
        assert_eq!(read.unusable[0].0, "built-in");
        assert_eq!((&*read.agents[0].name, read.agents[0].about.len()), ("A  B", LONGEST_ABOUT));
    }
}
