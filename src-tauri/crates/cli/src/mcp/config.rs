//! `{"mcpServers": …}`: which servers, how they are started, which of their tools pass.

use super::{
    args::{header_name, secret},
    remote::Transport,
};
use gantry_mcp::ToolFilter;
use reqwest::{Url, header::HeaderMap};
use serde::Deserialize;
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// How long a server may take to list its tools, its first download included.
const START_LIMIT: Duration = Duration::from_secs(120);

/// One server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its name in the configuration.
    pub name: String,
    /// Where it is.
    pub kind: Kind,
    /// Which of its tools pass.
    pub filter: ToolFilter,
    /// From its start until its tools are listed.
    pub start_limit: Duration,
}

/// Where a server is.
#[derive(Clone)]
pub enum Kind {
    /// A program that we start.
    Program { command: String, args: Vec<String>, env: Vec<(String, String)>, cwd: Option<PathBuf> },
    /// A URL that speaks MCP over HTTP.
    Remote { url: Url, headers: HeaderMap, transport: Transport, oauth: Oauth },
    /// Not usable, and why: the other servers are served all the same.
    Unusable(String),
}

/// What an authorization server knows of us, when it has to be told beforehand.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Oauth {
    pub client_id: Option<String>,
    pub client_secret: Option<String>,
    pub scopes: Vec<String>,
    pub redirect_port: Option<u16>,
}

impl std::fmt::Debug for Kind {
    /// Without arguments, environment and headers: they may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Program { command, .. } => write!(f, "program {command}"),
            Self::Remote { url, .. } => write!(f, "url {}", url.origin().ascii_serialization()),
            Self::Unusable(why) => write!(f, "unusable: {why}"),
        }
    }
}

impl Server {
    /// A server behind a URL.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub fn remote(
        name: &str,
        url: &str,
        headers: HeaderMap,
        transport: Transport,
        filter: ToolFilter,
    ) -> Result<Self, String> {
        let kind = remote(url, headers, transport, Oauth::default())?;
        Ok(Self { name: name.to_owned(), kind, filter, start_limit: START_LIMIT })
    }
}

fn remote(
    url: &str,
    headers: HeaderMap,
    transport: Transport,
    oauth: Oauth,
) -> Result<Kind, String> {
    let parsed = Url::parse(url).map_err(|error| format!("`{url}` is not a URL: {error}"))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(format!("`{url}` is neither an http nor an https URL"));
    }
    Ok(Kind::Remote { url: parsed, headers, transport, oauth })
}

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "mcpServers", alias = "servers")]
    servers: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    #[serde(alias = "type")]
    transport: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    auth_token: Option<String>,
    /// Settings, or whether it may be signed in to at all, which the bridge has decided.
    oauth: Option<serde_json::Value>,
    enabled: Option<bool>,
    allow_tools: Option<Vec<String>>,
    deny_tools: Option<Vec<String>>,
    start_timeout_ms: Option<u64>,
}

/// Reads a configuration. `lookup` resolves `${env:NAME}`; `headers` go to every URL.
///
/// # Errors
/// Why it cannot be read; a single server that cannot be used is [`Kind::Unusable`].
pub fn parse(
    text: &str,
    global: &ToolFilter,
    headers: &HeaderMap,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Vec<Server>, String> {
    let text = text.trim_start_matches('\u{feff}');
    let document: Document = serde_json::from_str(text).map_err(|error| {
        // The text may hold secrets, so only the place is named.
        let place = format!("line {}, column {}", error.line(), error.column());
        if error.is_data() {
            format!("the configuration is not of the form {{\"mcpServers\":{{…}}}} ({place})")
        } else {
            format!("the configuration is not valid JSON ({place})")
        }
    })?;
    let servers: Vec<Server> = document
        .servers
        .into_iter()
        .filter(|(_, entry)| entry.enabled != Some(false))
        .map(|(name, entry)| {
            let filter = entry.filter(&name, global);
            let start_limit = entry.start_timeout_ms.map_or(START_LIMIT, Duration::from_millis);
            let kind = entry.kind(headers, &lookup).unwrap_or_else(Kind::Unusable);
            Server { name, kind, filter, start_limit }
        })
        .collect();
    if servers.is_empty() {
        return Err("the configuration has no enabled server".to_owned());
    }
    Ok(servers)
}

impl Entry {
    /// The server's own lists, when it has any, instead of the global ones. A global entry may
    /// also name a tool as `<server>__<tool>`.
    fn filter(&self, name: &str, global: &ToolFilter) -> ToolFilter {
        let own = ToolFilter {
            allow: self.allow_tools.clone().unwrap_or_default(),
            deny: self.deny_tools.clone().unwrap_or_default(),
        };
        if !own.is_open() {
            return own;
        }
        let prefix = format!("{name}__");
        let of_this = |list: &[String]| -> Vec<String> {
            let short = list.iter().filter_map(|tool| tool.strip_prefix(&prefix));
            list.iter().cloned().chain(short.map(str::to_owned)).collect()
        };
        ToolFilter { allow: of_this(&global.allow), deny: of_this(&global.deny) }
    }

    fn kind(
        self,
        headers: &HeaderMap,
        lookup: &impl Fn(&str) -> Option<String>,
    ) -> Result<Kind, String> {
        let fill = |field: &str, text: &str| fill(field, text, lookup);
        if let Some(command) = self.command.filter(|command| !command.is_empty()) {
            let args = self.args.unwrap_or_default();
            let args = args.iter().map(|arg| fill("args", arg)).collect::<Result<_, _>>()?;
            let env = self.env.unwrap_or_default().into_iter();
            let env = env
                .map(|(name, value)| Ok((name.clone(), fill(&format!("env.{name}"), &value)?)))
                .collect::<Result<_, String>>()?;
            return Ok(Kind::Program {
                command: fill("command", &command)?,
                args,
                env,
                cwd: self.cwd,
            });
        }
        let Some(url) = self.url.filter(|url| !url.is_empty()) else {
            return Err("it has neither a `command` nor a `url`".to_owned());
        };
        let mut all = headers.clone();
        for (name, value) in self.headers.unwrap_or_default() {
            let value = fill(&format!("headers.{name}"), &value)?;
            all.insert(header_name(&name)?, secret(&value)?);
        }
        if let Some(token) = self.auth_token.filter(|token| !token.is_empty()) {
            all.insert("authorization", secret(&format!("Bearer {}", fill("authToken", &token)?))?);
        }
        let transport = match self.transport.as_deref() {
            Some("sse") => Transport::Older,
            Some("streamable-http" | "http") => Transport::Streamable,
            _ => Transport::Detect,
        };
        let oauth = self.oauth.filter(serde_json::Value::is_object);
        let mut oauth: Oauth = oauth.map_or(Ok(Oauth::default()), serde_json::from_value).map_err(
            // What is in it may be a secret.
            |_| "`oauth` is not of the form {\"clientId\",\"clientSecret\",\"scopes\",\"redirectPort\"}",
        )?;
        if let Some(secret) = &mut oauth.client_secret {
            *secret = fill("oauth.clientSecret", secret)?;
        }
        remote(&fill("url", &url)?, all, transport, oauth)
    }
}

/// Fills in `${env:NAME}`. Nothing literal is ever handed on as if it were a value.
fn fill(
    field: &str,
    text: &str,
    lookup: &impl Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start..].find('}') else { break };
        let reference = &rest[start + 2..start + length];
        filled.push_str(&rest[..start]);
        match reference.split_once(':') {
            Some(("env", name)) => filled.push_str(&lookup(name).ok_or_else(|| {
                format!("`{field}` needs the environment variable `{name}`, which is not set")
            })?),
            Some(("secret", name)) => {
                return Err(format!(
                    "`{field}` needs the secret `{name}`, which only Gantry itself has"
                ));
            }
            // Something of the program's own.
            _ => filled.push_str(&rest[start..=start + length]),
        }
        rest = &rest[start + length + 1..];
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(text: &str, global: &ToolFilter) -> Vec<Server> {
        let lookup = |name: &str| (name == "SET").then(|| "value".to_owned());
        parse(text, global, &HeaderMap::new(), lookup).expect("readable")
    }

    #[test]
    fn every_field_of_the_contract_is_read_and_unknown_ones_are_ignored() {
        let text = r#"{"mcpServers":{
            "a":{"command":"run","args":["x ${env:SET}","${other}","${"],"env":{"K":"${env:SET}!"},
                 "cwd":"/tmp","url":null,"transport":"streamable-http","headers":{},"enabled":true,
                 "persistent":false,"isolation":"shared","startTimeoutMs":1500,"callTimeoutMs":null,"x":1},
            "b":{"url":"https://h/mcp","headers":{"X":"${env:SET}"},"authToken":"t"},
            "off":{"command":"x","enabled":false}}}"#;
        let servers = servers(text, &ToolFilter::default());
        let names: Vec<_> = servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let Kind::Program { command, args, env, cwd } = &servers[0].kind else { panic!() };
        assert_eq!(
            (command.as_str(), args.as_slice()),
            ("run", &["x value", "${other}", "${"].map(String::from)[..])
        );
        assert_eq!(env, &[("K".to_owned(), "value!".to_owned())]);
        assert_eq!(cwd.as_deref(), Some(std::path::Path::new("/tmp")));
        assert_eq!(servers[0].start_limit, Duration::from_millis(1500));
        let Kind::Remote { headers, .. } = &servers[1].kind else { panic!() };
        assert_eq!(headers["x"], "value");
        assert_eq!(headers["authorization"], "Bearer t");
    }

    #[test]
    fn one_that_cannot_be_used_names_its_field_and_leaves_the_others_alone() {
        for (entry, part) in [
            (
                r#"{"command":"x","env":{"K":"${env:MISSING}"}}"#,
                "`env.K` needs the environment variable `MISSING`",
            ),
            (
                r#"{"url":"http://h","headers":{"A":"${secret:s}"}}"#,
                "`headers.A` needs the secret `s`",
            ),
            (r#"{"args":[]}"#, "neither a `command` nor a `url`"),
        ] {
            let text = format!(r#"{{"mcpServers":{{"bad":{entry},"good":{{"command":"x"}}}}}}"#);
            let servers = servers(&text, &ToolFilter::default());
            let Kind::Unusable(why) = &servers[0].kind else { panic!("{entry}") };
            assert!(why.contains(part), "{why}");
            assert!(matches!(servers[1].kind, Kind::Program { .. }));
        }
    }

    #[test]
    fn own_lists_go_before_the_global_ones_which_may_name_the_server() {
        let global = ToolFilter { allow: vec!["x".into(), "b__y".into()], deny: vec![] };
        let text = r#"{"mcpServers":{"a":{"command":"c","denyTools":["z"]},"b":{"command":"c"},"c":{"command":"c"}}}"#;
        let servers = servers(text, &global);
        let passes = |index: usize, tool: &str| servers[index].filter.passes(tool);
        assert_eq!((passes(0, "x"), passes(0, "z"), passes(0, "q")), (true, false, true));
        assert_eq!((passes(1, "x"), passes(1, "y"), passes(1, "q")), (true, true, false));
        assert_eq!((passes(2, "x"), passes(2, "y")), (true, false));
    }
}
