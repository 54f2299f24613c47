//! Which models a session can choose from: those of the endpoint that is set, or
//! else of an Ollama that runs on this computer.

use super::{model::Endpoint, upstream::is_loopback};
use agent_client_protocol::v1::schema::{
    SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption,
};
use gantry_supervisor::Deadline;
use std::{env, sync::Arc, time::Duration};

/// The id of the session option that chooses the model.
pub(super) const OPTION: &str = "model";
/// Where Ollama listens when nothing else is set.
const OLLAMA: &str = "http://127.0.0.1:11434";
/// How long an Ollama may take to say that it is there.
const PROBE: Duration = Duration::from_millis(300);
/// How long opening a session waits for the endpoint's list of models.
const LIST: Duration = Duration::from_secs(3);

/// A model that can answer.
#[derive(Clone)]
pub(super) struct Model {
    pub(super) endpoint: Arc<Endpoint>,
    /// As the endpoint knows it.
    pub(super) name: String,
    /// As the session's option has it.
    id: String,
}

/// Where the models come from.
#[derive(Clone)]
pub(super) struct Models {
    source: Source,
}

#[derive(Clone)]
enum Source {
    /// `OPENAI_BASE_URL`, and `OPENAI_MODEL` where it is set.
    Set(Arc<Endpoint>, Option<String>),
    /// An Ollama, if one answers there.
    Ollama(Arc<Endpoint>),
    /// None.
    None,
}

/// What a session can choose from, and what it has chosen.
#[derive(Clone, Default)]
pub(super) struct Menu {
    models: Vec<Model>,
    /// Whether doing without a model is a choice.
    optional: bool,
    chosen: Option<Model>,
    /// Why there is none although an endpoint is set.
    pub(super) problem: Option<String>,
}

impl Models {
    /// From `OPENAI_BASE_URL`, `OPENAI_API_KEY`, `OPENAI_MODEL`, and `OLLAMA_HOST`.
    ///
    /// # Errors
    /// Says which variable is wrong, and how.
    pub(super) fn from_environment() -> Result<Self, String> {
        let variable = |name| {
            let value = env::var(name).ok().map(|value| value.trim().to_owned());
            value.filter(|value| !value.is_empty())
        };
        let Some(base) = variable("OPENAI_BASE_URL") else {
            return Ok(Self::ollama(variable("OLLAMA_HOST").as_deref()));
        };
        let endpoint = Endpoint::new(&base, variable("OPENAI_API_KEY").as_deref())?;
        Ok(Self::set(endpoint, variable("OPENAI_MODEL")))
    }

    /// The models of this endpoint; `name` is chosen at first.
    pub(super) fn set(endpoint: Endpoint, name: Option<String>) -> Self {
        Self { source: Source::Set(Arc::new(endpoint), name) }
    }

    /// The models of an Ollama on this computer; nothing else is asked unbidden. `host`
    /// as `OLLAMA_HOST` has it.
    pub(super) fn ollama(host: Option<&str>) -> Self {
        let url = match host {
            None => OLLAMA.to_owned(),
            Some(host) if host.contains("://") => host.trim_end_matches('/').to_owned(),
            Some(host) if host.contains(':') => format!("http://{host}"),
            Some(host) => format!("http://{host}:11434"),
        };
        // A server's own setting to listen everywhere; it is on this computer too.
        let url = url.replace("//0.0.0.0", "//127.0.0.1");
        let endpoint = Some(&url).filter(|url| is_loopback(url));
        let endpoint = endpoint.and_then(|url| Endpoint::new(&format!("{url}/v1"), None).ok());
        let source = endpoint.map_or(Source::None, |endpoint| Source::Ollama(Arc::new(endpoint)));
        Self { source }
    }

    /// No model, and none is looked for.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self { source: Source::None }
    }

    /// Whether the user set an endpoint.
    pub(super) fn is_set(&self) -> bool {
        matches!(self.source, Source::Set(..))
    }

    /// What can be chosen now. Waits a bounded time for the endpoint.
    pub(super) async fn menu(&self) -> Menu {
        match &self.source {
            Source::None => Menu::default(),
            Source::Ollama(endpoint) => {
                let names = Deadline::after(PROBE).bound(endpoint.models()).await;
                let names = names.ok().and_then(Result::ok).unwrap_or_default();
                let model = |name: String| Model {
                    endpoint: endpoint.clone(),
                    id: format!("ollama/{name}"),
                    name,
                };
                let models = names.into_iter().map(model).collect();
                Menu { models, optional: true, chosen: None, problem: None }
            }
            Source::Set(endpoint, wanted) => {
                let (mut names, problem) = match Deadline::after(LIST)
                    .bound(endpoint.models())
                    .await
                {
                    Ok(Ok(names)) if names.is_empty() => {
                        (names, Some("the endpoint's list of models is empty".to_owned()))
                    }
                    Ok(Ok(names)) => (names, None),
                    Ok(Err(problem)) => (Vec::new(), Some(problem)),
                    Err(_) => (Vec::new(), Some("the endpoint did not list its models".to_owned())),
                };
                if let Some(wanted) = wanted.as_ref().filter(|wanted| !names.contains(wanted)) {
                    names.insert(0, wanted.clone());
                }
                let model =
                    |name: String| Model { endpoint: endpoint.clone(), id: name.clone(), name };
                let models: Vec<Model> = names.into_iter().map(model).collect();
                let chosen = match wanted {
                    Some(wanted) => models.iter().find(|model| model.name == *wanted),
                    None => models.first(),
                };
                Menu { chosen: chosen.cloned(), models, optional: false, problem }
            }
        }
    }
}

impl Menu {
    /// The model that answers.
    pub(super) fn chosen(&self) -> Option<Model> {
        self.chosen.clone()
    }

    /// The names to choose from.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.models.iter().map(|model| model.name.as_str())
    }

    /// Takes over what was chosen before, where it is still there.
    pub(super) fn keep(&mut self, before: &Self) {
        let id = before.chosen.as_ref().map(|model| model.id.as_str());
        if let Some(again) = self.models.iter().find(|model| Some(model.id.as_str()) == id) {
            self.chosen = Some(again.clone());
        }
    }

    /// Chooses; false when there is no such choice.
    pub(super) fn choose(&mut self, id: &str) -> bool {
        if id == NONE && self.optional {
            self.chosen = None;
            return true;
        }
        match self.models.iter().find(|model| model.id == id) {
            Some(model) => {
                self.chosen = Some(model.clone());
                true
            }
            None => false,
        }
    }

    /// The session's options; none when there is nothing to choose.
    pub(super) fn options(&self) -> Vec<SessionConfigOption> {
        if self.models.is_empty() {
            return Vec::new();
        }
        let none = self.optional.then(|| {
            SessionConfigSelectOption::new(NONE, "No model")
                .description("Run tools by hand, with /call".to_owned())
        });
        let models = self
            .models
            .iter()
            .map(|model| SessionConfigSelectOption::new(model.id.clone(), model.name.clone()));
        let all: Vec<SessionConfigSelectOption> = none.into_iter().chain(models).collect();
        let current = self.chosen.as_ref().map_or(NONE, |model| model.id.as_str()).to_owned();
        vec![
            SessionConfigOption::select(OPTION, "Model", current, all)
                .category(SessionConfigOptionCategory::Model),
        ]
    }
}

/// The choice of doing without.
const NONE: &str = "none";

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(host: Option<&str>) -> bool {
        let _ = rustls::crypto::ring::default_provider().install_default();
        matches!(Models::ollama(host).source, Source::Ollama(_))
    }

    #[test]
    fn nothing_but_this_computer_is_asked_unbidden() {
        for host in [None, Some("127.0.0.1:1"), Some("0.0.0.0"), Some("http://localhost:80/")] {
            assert!(asked(host), "{host:?}");
        }
        for host in ["ollama.example.com", "10.0.0.1:11434", "https://example.com"] {
            assert!(!asked(Some(host)), "{host}");
        }
    }

    #[tokio::test]
    async fn where_nobody_answers_there_is_nothing_to_choose() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        // Bound and not accepted: connects and gets no answer.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap().to_string();
        let began = std::time::Instant::now();
        let menu = Models::ollama(Some(&address)).menu().await;
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        assert!(menu.options().is_empty() && menu.chosen().is_none());
    }
}
