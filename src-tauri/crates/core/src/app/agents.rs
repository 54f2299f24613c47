//! The agents that can be used or installed, and how a name becomes something to start.

use super::{App, words};
use crate::{
    Error, Result,
    agents::{self, Found, Known},
    bridge::MASK,
    session::{AgentSpec, is_secret},
    wire::*,
};
use gantry_store::AgentRow;
use std::{collections::BTreeMap, io::Read as _, path::Path, sync::Arc};

/// The id of the agent that comes with Gantry.
pub const BUILTIN_AGENT: &str = "built-in";

impl App {
    /// The built-in agent, then the saved ones, then those that Gantry knows.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn agents_list(&self, _: Nothing) -> Result<AgentsList> {
        let mut agents = vec![self.builtin_view()];
        let saved = self.saved_agents().await?;
        agents.extend(saved.iter().map(|(id, config)| view(id, config)));
        // A saved one takes the place of a known one.
        let taken: Vec<String> = saved.into_iter().map(|(id, _)| id).collect();
        for (known, found) in self.find_agents(move |known| !taken.contains(&known.id)).await? {
            agents.push(self.known_view(&known, found));
        }
        Ok(AgentsList { agents })
    }

    /// Installs a known agent into the data directory and waits until it is there.
    ///
    /// # Errors
    /// Not known; busy; what the installation said.
    pub async fn agents_install(&self, input: AgentId) -> Result<AgentView> {
        self.still_open()?;
        let (known, _) = self.known_agent(&input.id).await?;
        self.installs().install(known).await?;
        self.agent_changed(&input.id).await;
        self.known_agent(&input.id).await.map(|(known, found)| self.known_view(&known, found))
    }

    /// Removes what Gantry installed of an agent; an installation of the user's own stays.
    ///
    /// # Errors
    /// Not known, or not installed by Gantry; busy.
    pub async fn agents_uninstall(&self, input: AgentId) -> Result<AgentView> {
        self.still_open()?;
        let (known, _) = self.known_agent(&input.id).await?;
        // What lives in these files may not outlive them.
        self.sessions().end_warm(&known.id).await;
        self.installs().uninstall(&known.id).await?;
        self.known_agent(&input.id).await.map(|(known, found)| self.known_view(&known, found))
    }

    /// Takes in a list of agents in the format of the public ACP registry, or those of it that
    /// are named, in the place of what was taken in before. Installs nothing.
    ///
    /// # Errors
    /// It cannot be fetched or read, is no such list, or has no such agent.
    pub async fn agents_import(&self, input: AgentsImport) -> Result<AgentsImported> {
        self.still_open()?;
        let AgentsImport { text, path, url, ids, preview } = input;
        let source = match (text, path, url) {
            (Some(text), None, None) => Source::Text(text),
            (None, Some(path), None) => Source::File(path),
            (None, None, Some(url)) => {
                let gantry = &self.programs().gantry;
                Source::Text(agents::fetch(&self.inner.supervisor, gantry, &url).await?)
            }
            _ => return Err(Error::invalid("give one of `text`, `path` and `url`")),
        };
        let home = self.installs().home().to_owned();
        let import = self.scope().spawn_blocking("import agents", move || -> Result<_> {
            let mut text = match source {
                Source::Text(text) => text,
                Source::File(path) => read_registry(Path::new(&path))?,
            };
            if let Some(ids) = &ids {
                text = agents::only(&text, ids).map_err(Error::invalid)?;
            }
            let read = agents::read(&text, &agents::platform()).map_err(Error::invalid)?;
            if !preview {
                agents::import(&home, &text)
                    .map_err(|error| Error::failed(format!("{}: {error}", home.display())))?;
            }
            Ok((read, text))
        });
        let (read, text) = import.join().await.ok_or_else(Error::shutting_down)??;
        if !preview {
            self.events().publish(Happening::AgentsChanged {});
        }
        let known = |known: &Known| agents::by_id(&known.id).is_some();
        let mut skipped: Vec<AgentNotTaken> =
            read.unusable.into_iter().map(|(id, why)| AgentNotTaken { id, why }).collect();
        skipped.extend(read.agents.iter().filter(|agent| known(agent)).map(|agent| {
            AgentNotTaken { id: agent.id.clone(), why: "Gantry's own entry is kept".into() }
        }));
        let taken: Vec<ImportableAgent> =
            read.agents.into_iter().filter(|agent| !known(agent)).map(importable).collect();
        Ok(AgentsImported {
            ids: taken.iter().map(|agent| agent.id.clone()).collect(),
            agents: taken,
            skipped,
            text: preview.then_some(text),
        })
    }

    /// What the last installation of a known agent said.
    ///
    /// # Errors
    /// Not known.
    pub async fn agents_log(&self, input: AgentsLog) -> Result<LogLines> {
        let log = self.installs().log(&self.known_agent(&input.id).await?.0.id);
        let tail = input.tail.unwrap_or(200);
        let read = self.scope().spawn_blocking("read an installation's log", move || {
            let text = std::fs::read(log).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(tail)..].iter().map(|&line| line.to_owned()).collect()
        });
        Ok(LogLines { lines: read.join().await.unwrap_or_default() })
    }

    /// Adds an agent or replaces it.
    ///
    /// # Errors
    /// An id or a command that cannot be used; the store refuses.
    pub async fn agents_save(&self, mut input: AgentsSave) -> Result<AgentView> {
        self.still_open()?;
        check_name("id", &input.id)?;
        if input.id == BUILTIN_AGENT {
            return Err(Error::invalid(format!(
                "id: `{BUILTIN_AGENT}` is the agent that comes with Gantry; choose another id"
            )));
        }
        if input.config.command.trim().is_empty() {
            return Err(Error::invalid("config.command: name the program that starts the agent"));
        }
        let config = &input.config;
        words::check("config", Some(&config.command), &config.args, &config.env)?;
        if input.config.env.values().any(|value| value == MASK) {
            let saved = self.saved_agents().await?.into_iter().find(|(id, _)| *id == input.id);
            let known = agents::by_id(&input.id).map(|known| &known.env);
            let stored = saved.as_ref().map(|(_, config)| &config.env).or(known);
            unmask(&mut input.config.env, stored)?;
        }
        let config = serde_json::to_string(&input.config)
            .map_err(|error| Error::failed(format!("the agent could not be stored: {error}")))?;
        self.store()
            .save_agent(AgentRow { id: input.id.clone(), config, saved_at: crate::events::now() })
            .await?;
        self.agent_changed(&input.id).await;
        self.events().publish(Happening::AgentsChanged {});
        Ok(view(&input.id, &input.config))
    }

    /// Removes a saved agent.
    ///
    /// # Errors
    /// Not found.
    pub async fn agents_remove(&self, input: AgentId) -> Result<Done> {
        self.still_open()?;
        if !self.store().remove_agent(&input.id).await? {
            return Err(Error::not_found(format!("there is no saved agent `{}`", input.id)));
        }
        self.agent_changed(&input.id).await;
        self.events().publish(Happening::AgentsChanged {});
        Ok(Done::OK)
    }

    /// Has those follow who would go on with an agent as it was.
    async fn agent_changed(&self, id: &str) {
        self.sessions().end_warm(id).await;
        // One that is gone is started as it was; that says what is missing.
        if let Ok(agent) = self.agent(Some(id)).await {
            self.sessions().agent_changed(&agent);
        }
    }

    /// What starts the agent with this id or name; the built-in one for `None`.
    ///
    /// # Errors
    /// Not found.
    pub async fn agent(&self, wanted: Option<&str>) -> Result<AgentSpec> {
        let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty() && *wanted != BUILTIN_AGENT)
        else {
            return Ok(builtin_spec());
        };
        let found = self
            .saved_agents()
            .await?
            .into_iter()
            .find(|(id, config)| id == wanted || config.name == wanted);
        match found {
            Some((id, config)) => {
                let AgentConfig { command, args, env, offers, .. } = config;
                Ok(AgentSpec { id, command, args, env, offers })
            }
            None => self.known_spec(wanted).await,
        }
    }

    async fn known_spec(&self, wanted: &str) -> Result<AgentSpec> {
        let (known, found) = self.known_agent(wanted).await.map_err(|_| {
            Error::not_found(format!(
                "there is no agent `{wanted}`; see the list of agents, or add it there"
            ))
        })?;
        let found = found.ok_or_else(|| {
            Error::not_found(format!(
                "agent `{wanted}` is not installed; install it from the list of agents, or by \
                 hand: {}",
                known.how_to_install
            ))
        })?;
        Ok(AgentSpec {
            id: known.id.clone(),
            command: found.path.display().to_string(),
            args: known.args.clone(),
            env: known.env.clone(),
            offers: known.offers,
        })
    }

    /// Looks for those known agents that are wanted.
    async fn find_agents(
        &self,
        wanted: impl Fn(&Known) -> bool + Send + 'static,
    ) -> Result<Vec<(Arc<Known>, Option<Found>)>> {
        let home = self.installs().home().to_owned();
        let search = self.scope().spawn_blocking("look for agents", move || {
            let known = agents::catalogue(&home).into_iter().filter(|known| wanted(known));
            known.map(|known| (known.clone(), agents::find(&known, &home))).collect()
        });
        search.join().await.ok_or_else(Error::shutting_down)
    }

    async fn known_agent(&self, id: &str) -> Result<(Arc<Known>, Option<Found>)> {
        let wanted = id.to_owned();
        let found = self.find_agents(move |known| known.id == wanted).await?.pop();
        found.ok_or_else(|| {
            Error::not_found(format!("there is no known agent `{id}`; `agents_list` names them"))
        })
    }

    fn known_view(&self, known: &Known, found: Option<Found>) -> AgentView {
        let managed = found.as_ref().is_some_and(|found| found.managed);
        let install = known.package.as_ref().map(|package| AgentInstall {
            registry: package.registry.name().to_owned(),
            package: package.name.clone(),
            version: package.version.clone(),
            managed,
            running: self.installs().is_running(&known.id),
        });
        AgentView {
            id: known.id.clone(),
            name: known.name.clone(),
            command: known.program.clone(),
            args: known.args.clone(),
            env: masked(&known.env),
            offers: known.offers,
            installed: found.is_some(),
            how_to_install: found.is_none().then(|| known.how_to_install.clone()),
            version: found.as_ref().and_then(|found| found.version.clone()),
            path: found.map(|found| found.path.display().to_string()),
            builtin: false,
            about: Some(known.about.clone()).filter(|about| !about.is_empty()),
            homepage: Some(known.homepage.clone()).filter(|homepage| !homepage.is_empty()),
            install,
        }
    }

    async fn saved_agents(&self) -> Result<Vec<(String, AgentConfig)>> {
        let mut agents = Vec::new();
        for row in self.store().agents().await? {
            match serde_json::from_str(&row.config) {
                Ok(config) => agents.push((row.id, config)),
                Err(error) => tracing::error!(
                    agent = row.id,
                    "its stored configuration cannot be read: {error}"
                ),
            }
        }
        Ok(agents)
    }

    fn builtin_view(&self) -> AgentView {
        let gantry = &self.programs().gantry;
        AgentView {
            id: BUILTIN_AGENT.into(),
            name: "Built-in".into(),
            command: gantry.display().to_string(),
            args: vec!["agent".into()],
            env: BTreeMap::new(),
            offers: ClientOffers::default(),
            installed: gantry.is_file(),
            path: Some(gantry.display().to_string()),
            version: Some(crate::VERSION.into()),
            how_to_install: None,
            builtin: true,
            about: None,
            homepage: None,
            install: None,
        }
    }
}

/// The built-in agent: an empty command stands for our own program.
pub fn builtin_spec() -> AgentSpec {
    AgentSpec {
        id: BUILTIN_AGENT.into(),
        command: String::new(),
        args: Vec::new(),
        env: BTreeMap::new(),
        offers: ClientOffers::default(),
    }
}

/// The environment as it may be shown.
fn masked(env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let shown = |name: &str, value: &str| {
        // A reference is no secret, and neither is nothing.
        if is_secret(name) && !value.is_empty() && !value.starts_with("${") {
            MASK.to_owned()
        } else {
            value.to_owned()
        }
    };
    env.iter().map(|(name, value)| (name.clone(), shown(name, value))).collect()
}

/// Puts the stored values in the place of their masks.
///
/// # Errors
/// A mask that stands for nothing; the message names the variable.
fn unmask(
    env: &mut BTreeMap<String, String>,
    stored: Option<&BTreeMap<String, String>>,
) -> Result<()> {
    for (name, value) in env.iter_mut().filter(|(_, value)| *value == MASK) {
        let stored = stored.and_then(|stored| stored.get(name));
        *value = stored.cloned().ok_or_else(|| {
            Error::invalid(format!("config.env.{name}: there is no stored value to keep; give one"))
        })?;
    }
    Ok(())
}

fn view(id: &str, config: &AgentConfig) -> AgentView {
    let path = gantry_supervisor::environment::find_program(&config.command);
    AgentView {
        id: id.to_owned(),
        name: config.name.clone(),
        command: config.command.clone(),
        args: config.args.clone(),
        env: masked(&config.env),
        offers: config.offers,
        installed: path.is_some(),
        how_to_install: path.is_none().then(|| {
            let program = Path::new(&config.command).display();
            format!("`{program}` was not found; install it, or give its full path")
        }),
        path: path.map(|path| path.display().to_string()),
        version: None,
        builtin: false,
        about: None,
        homepage: None,
        install: None,
    }
}

/// Where a registry's list comes from.
enum Source {
    Text(String),
    File(String),
}

/// An agent of a registry's list, before it is taken in.
fn importable(known: Known) -> ImportableAgent {
    let from = known.package.as_ref().map_or_else(
        || known.how_to_install.clone(),
        |package| format!("{}: {} {}", package.registry.name(), package.name, package.version),
    );
    let Known { id, name, about, homepage, program, args, env, .. } = known;
    let command = std::iter::once(program).chain(args).collect();
    ImportableAgent { id, name, about, homepage, from, command, env }
}

fn read_registry(path: &Path) -> Result<String> {
    /// A registry of hundreds of agents has a few hundred KiB.
    const LONGEST: u64 = 8 << 20;
    let failed = |why: String| Error::invalid(format!("path: {}: {why}", path.display()));
    // A device has no end, and its length says nothing; to open a pipe may take for ever.
    let about = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if !about.is_file() {
        return Err(failed("this is not a file".into()));
    }
    if about.len() > LONGEST {
        return Err(failed(format!("the file is longer than {} MiB", LONGEST >> 20)));
    }
    let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
    Ok(text)
}

/// Ids are names, not paths: letters, digits, `.`, `_`, `-`, not leading with `.`.
///
/// # Errors
/// Invalid; the message names the field.
pub fn check_name(field: &str, name: &str) -> Result<()> {
    const LONGEST: usize = 128;
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() {
        Err(Error::invalid(format!("{field}: must not be empty")))
    } else if name.len() > LONGEST {
        Err(Error::invalid(format!("{field}: must not be longer than {LONGEST} characters")))
    } else if name.starts_with('.') || !name.chars().all(fine) {
        Err(Error::invalid(format!(
            "{field}: may hold letters, digits, `.`, `_` and `-` only, and must not begin with `.`"
        )))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown_and_their_mask_keeps_them() {
        let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        let stored = pairs(&[("API_KEY", "s3cret"), ("A_TOKEN", "${env:T}"), ("MODE", "fast")]);
        let mut shown = masked(&stored);
        assert_eq!(shown, pairs(&[("API_KEY", MASK), ("A_TOKEN", "${env:T}"), ("MODE", "fast")]));
        shown.insert("MODE".into(), "slow".into());
        unmask(&mut shown, Some(&stored)).unwrap();
        assert_eq!((shown["API_KEY"].as_str(), shown["MODE"].as_str()), ("s3cret", "slow"));
        let mut new = pairs(&[("NEW_KEY", MASK)]);
        let error = unmask(&mut new, Some(&stored)).unwrap_err();
        assert!(error.message.starts_with("config.env.NEW_KEY"), "{error:?}");
    }

    #[test]
    fn ids_are_names_and_not_paths() {
        for good in ["u1", "a.b_c-d", "0"] {
            check_name("project_id", good).unwrap();
        }
        let long = "x".repeat(10_000);
        for bad in ["", "../../etc", "/etc", "a/b", ".hidden", "a b", "a\0", "ä", long.as_str()] {
            let error = check_name("project_id", bad).unwrap_err();
            assert!(error.message.starts_with("project_id"), "{}", error.message);
        }
    }
}
