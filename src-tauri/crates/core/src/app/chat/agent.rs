//! The agent of a chat request, as something to start.

use super::super::agents::{BUILTIN_AGENT, builtin_spec};
use super::target::given;
use crate::{
    session::AgentSpec,
    wire::{ChatAgentServer, ClientOffers, ModelProvider},
};
use std::{collections::BTreeMap, path::Path};

const PLACEHOLDER: &str = "{MODEL_PROVIDER_";

/// What starts the wanted agent. `known` is the agent that has the wanted name
/// (the built-in one when no name is given), if there is one.
pub(super) fn resolve(
    wanted: Option<&ChatAgentServer>,
    provider: Option<&ModelProvider>,
    known: Option<AgentSpec>,
    warnings: &mut Vec<String>,
) -> AgentSpec {
    let nothing = ChatAgentServer::default();
    let wanted = wanted.unwrap_or(&nothing);
    let command = given(wanted.command.as_deref());
    let is_known = known.is_some();
    let mut spec = match (known, command) {
        (Some(known), _) => known,
        (None, Some(command)) => AgentSpec {
            id: given(wanted.agent_id.as_deref()).unwrap_or(base_name(command)).to_owned(),
            command: command.to_owned(),
            args: Vec::new(),
            env: BTreeMap::new(),
            offers: ClientOffers::default(),
        },
        (None, None) => {
            if let Some(id) = &wanted.agent_id {
                warnings.push(format!(
                    "agent_config.agent_server.agent_id: there is no agent `{id}` and no command; the built-in agent runs"
                ));
            }
            builtin_spec()
        }
    };
    if let Some(args) = wanted.args.as_ref().filter(|args| !args.is_empty()) {
        spec.args.clone_from(args);
    }
    match wanted.offers {
        Some(offers) => spec.offers = offers,
        // A back end that does not know of them answers none: the turn would wait for ever.
        None => spec.offers.questions = false,
    }
    for (name, value) in wanted.env.iter().flatten() {
        match fill(value, provider) {
            Ok(value) => {
                spec.env.insert(name.clone(), value);
            }
            Err(placeholder) => warnings.push(format!(
                "agent_config.agent_server.env.{name}: left out, because model_provider has nothing for {placeholder}"
            )),
        }
    }
    match provider {
        Some(provider) if spec.id == BUILTIN_AGENT => {
            give_model(&mut spec.env, provider, warnings);
        }
        Some(provider) if is_known => give_endpoint(&mut spec, provider),
        _ => {}
    }
    spec
}

/// A known agent is led to the endpoint by variables of its own. One with a placeholder
/// that the provider has nothing for is left out; what the request set itself stays.
fn give_endpoint(spec: &mut AgentSpec, provider: &ModelProvider) {
    let protocol = provider.api_protocol.as_deref().unwrap_or("openai");
    let variables = crate::agents::by_id(&spec.id).and_then(|known| known.endpoint.get(protocol));
    for (name, value) in variables.into_iter().flatten() {
        if let Ok(value) = fill(value, Some(provider)) {
            spec.env.entry(name.clone()).or_insert(value);
        }
    }
}

/// The built-in agent reads its model from its environment. What the request
/// set there itself stays.
fn give_model(
    env: &mut BTreeMap<String, String>,
    provider: &ModelProvider,
    warnings: &mut Vec<String>,
) {
    if provider.api_protocol.as_deref() == Some("anthropic") {
        warnings.push(
            "model_provider.api_protocol: the built-in agent speaks the `openai` protocol only; it runs without a model"
                .into(),
        );
        return;
    }
    for (name, value) in [
        ("OPENAI_BASE_URL", &provider.base_url),
        ("OPENAI_API_KEY", &provider.api_key),
        ("OPENAI_MODEL", &provider.model),
    ] {
        if let Some(value) = given(value.as_deref()) {
            env.entry(name.into()).or_insert_with(|| value.to_owned());
        }
    }
}

/// Fills in `{MODEL_PROVIDER_…}`; the placeholder that cannot be filled as error.
fn fill(text: &str, provider: Option<&ModelProvider>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(begin) = rest.find(PLACEHOLDER) {
        let (before, from) = rest.split_at(begin);
        filled.push_str(before);
        let Some(end) = from.find('}') else {
            rest = from;
            break;
        };
        let (placeholder, after) = from.split_at(end + 1);
        let value = provider.and_then(|provider| match placeholder {
            "{MODEL_PROVIDER_BASE_URL}" => provider.base_url.as_deref(),
            "{MODEL_PROVIDER_API_KEY}" => provider.api_key.as_deref(),
            "{MODEL_PROVIDER_MODEL}" => provider.model.as_deref(),
            _ => None,
        });
        filled.push_str(given(value).ok_or_else(|| placeholder.to_owned())?);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

fn base_name(command: &str) -> &str {
    Path::new(command).file_stem().and_then(|name| name.to_str()).unwrap_or(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider() -> ModelProvider {
        ModelProvider {
            base_url: Some("http://127.0.0.1:1/v1".into()),
            api_key: Some("sk-1".into()),
            ..ModelProvider::default()
        }
    }

    fn wanted(command: &str, env: &[(&str, &str)]) -> ChatAgentServer {
        let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        ChatAgentServer {
            command: Some(command.into()),
            args: Some(vec!["acp".into()]),
            env: Some(env),
            ..ChatAgentServer::default()
        }
    }

    #[test]
    fn a_program_or_path_is_an_agent_of_its_own() {
        let mut warnings = vec![];
        let wanted = wanted("/opt/x/opencode", &[("A", "1")]);
        let spec = resolve(Some(&wanted), Some(&provider()), None, &mut warnings);
        assert_eq!((spec.id.as_str(), spec.command.as_str()), ("opencode", "/opt/x/opencode"));
        assert_eq!(spec.args, ["acp"]);
        assert_eq!(spec.env, BTreeMap::from([("A".into(), "1".into())]));
        assert_eq!(spec.offers, ClientOffers::default(), "nobody has tried it");
        assert!(warnings.is_empty());
    }

    #[test]
    fn a_known_agent_is_taken_with_the_requests_changes() {
        let known = AgentSpec {
            id: "mine".into(),
            command: "my-agent".into(),
            args: vec!["old".into()],
            env: BTreeMap::from([("A".into(), "0".into()), ("B".into(), "2".into())]),
            offers: ClientOffers::ALL,
        };
        let wanted = wanted("mine", &[("A", "1")]);
        let spec = resolve(Some(&wanted), None, Some(known), &mut vec![]);
        assert_eq!(
            (spec.command.as_str(), spec.args.as_slice()),
            ("my-agent", &["acp".to_owned()][..])
        );
        assert_eq!((spec.env["A"].as_str(), spec.env["B"].as_str()), ("1", "2"));
        assert_eq!(spec.offers, ClientOffers { questions: false, ..ClientOffers::ALL });
    }

    #[test]
    fn placeholders_are_filled_and_an_unfilled_one_drops_its_variable() {
        let mut warnings = vec![];
        let wanted = wanted(
            "x",
            &[
                ("URL", "{MODEL_PROVIDER_BASE_URL}/chat?k={MODEL_PROVIDER_API_KEY}"),
                ("MODEL", "openai/{MODEL_PROVIDER_MODEL}"),
                ("OTHER", "{MODEL_PROVIDER_UNKNOWN}"),
                ("PLAIN", "{NOT_OURS} {MODEL_PROVIDER_"),
            ],
        );
        let spec = resolve(Some(&wanted), Some(&provider()), None, &mut warnings);
        assert_eq!(spec.env["URL"], "http://127.0.0.1:1/v1/chat?k=sk-1");
        assert_eq!(spec.env["PLAIN"], "{NOT_OURS} {MODEL_PROVIDER_");
        assert_eq!(spec.env.len(), 2);
        assert_eq!(warnings.len(), 2);
        assert!(
            warnings[0].contains("env.MODEL") && warnings[0].contains("{MODEL_PROVIDER_MODEL}")
        );
        assert!(!warnings.join(" ").contains("sk-1"), "no secret in a warning");
    }

    #[test]
    fn the_built_in_agent_gets_the_model_in_its_environment() {
        let spec = resolve(None, Some(&provider()), Some(builtin_spec()), &mut vec![]);
        assert_eq!(spec.env["OPENAI_BASE_URL"], "http://127.0.0.1:1/v1");
        assert_eq!(spec.env["OPENAI_API_KEY"], "sk-1");
        assert!(!spec.env.contains_key("OPENAI_MODEL"));
        let mut warnings = vec![];
        let other = ModelProvider { api_protocol: Some("anthropic".into()), ..provider() };
        let spec = resolve(None, Some(&other), Some(builtin_spec()), &mut warnings);
        assert!(spec.env.is_empty() && warnings.len() == 1);
    }

    #[test]
    fn a_known_agent_is_led_to_the_endpoint_unless_the_request_says_where_to_go() {
        let known = |env: &[(&str, &str)]| AgentSpec {
            id: "claude".into(),
            command: "claude-agent-acp".into(),
            args: vec![],
            env: env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            offers: ClientOffers::default(),
        };
        let provider = ModelProvider { api_protocol: Some("anthropic".into()), ..provider() };
        let spec = resolve(None, Some(&provider), Some(known(&[])), &mut vec![]);
        assert_eq!(spec.env["ANTHROPIC_BASE_URL"], "http://127.0.0.1:1/v1");
        assert_eq!(spec.env["ANTHROPIC_API_KEY"], "sk-1");
        assert!(!spec.env.contains_key("ANTHROPIC_MODEL"), "there is no model to name");
        let own = known(&[("ANTHROPIC_BASE_URL", "http://own")]);
        let spec = resolve(None, Some(&provider), Some(own), &mut vec![]);
        assert_eq!(spec.env["ANTHROPIC_BASE_URL"], "http://own");
        // A program that only has the same name is nobody we know.
        let wanted = wanted("/opt/claude", &[]);
        let spec = resolve(Some(&wanted), Some(&provider), None, &mut vec![]);
        assert!(spec.env.is_empty());
    }

    #[test]
    fn an_unknown_name_alone_means_the_default_and_is_said() {
        let mut warnings = vec![];
        let wanted = ChatAgentServer { agent_id: Some("ghost".into()), ..Default::default() };
        assert_eq!(resolve(Some(&wanted), None, None, &mut warnings).id, BUILTIN_AGENT);
        assert!(warnings[0].contains("ghost"));
    }
}
