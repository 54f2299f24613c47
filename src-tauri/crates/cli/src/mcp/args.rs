//! What `gantry mcp` is asked to do.

use super::{
    config::{self, Server},
    remote::Transport,
};
use gantry_mcp::ToolFilter;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use std::path::PathBuf;

/// The configuration for `--config -`: not in the arguments, which everybody can read.
pub const CONFIG_VARIABLE: &str = "GANTRY_MCP_CONFIG";
/// The bearer token for `--url`.
pub const TOKEN_VARIABLE: &str = "GANTRY_MCP_TOKEN";

/// Arguments of `gantry mcp`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct McpArgs {
    /// Serve the servers of this configuration ({"mcpServers":{...}}) as one; `-` reads it from
    /// the environment variable GANTRY_MCP_CONFIG
    #[arg(long, value_name = "JSON")]
    pub config: Option<String>,
    /// The same from a file
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub config_file: Option<PathBuf>,
    /// Carry this URL to standard input and output; GANTRY_MCP_TOKEN, when set, is its bearer
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "config_file"])]
    pub url: Option<String>,
    /// A header for the URL, `K: V` or `K=V`; can be given several times
    #[arg(short = 'H', long = "header", value_name = "K: V")]
    pub headers: Vec<String>,
    /// The transport of the URL; found out when it is not given
    #[arg(long, value_enum, value_name = "TRANSPORT")]
    pub protocol: Option<Protocol>,
    /// Only these tools, separated by commas; a server's own list goes before
    #[arg(long, value_delimiter = ',', value_name = "TOOLS")]
    pub allow_tools: Vec<String>,
    /// Not these tools; an allow list goes before
    #[arg(long, value_delimiter = ',', value_name = "TOOLS")]
    pub deny_tools: Vec<String>,
    /// For Gantry itself: carry one MCP session of the remote server in GANTRY_MCP_CONFIG
    #[arg(long, hide = true, conflicts_with_all = ["config", "config_file", "url", "recall"])]
    pub carry: bool,
    /// For Gantry itself: sign in to the remote server in GANTRY_MCP_CONFIG
    #[arg(long, hide = true, conflicts_with_all = ["carry", "config", "config_file", "url", "recall"])]
    pub sign_in: bool,
    /// Serve the search over past sessions
    #[arg(long, conflicts_with_all = ["config", "config_file", "url"])]
    pub recall: bool,
    /// Where the past sessions are
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// The older spelling: `convert [URL]`
    #[arg(hide = true, value_name = "WORD")]
    pub words: Vec<String>,
}

/// How a URL is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Protocol {
    /// One endpoint, `POST` and `GET`.
    StreamableHttp,
    /// The older transport of two endpoints.
    Sse,
}

/// What the arguments come down to.
#[derive(Debug)]
pub enum Task {
    /// The built-in search over past sessions.
    Recall,
    /// One session of this remote server, as it is.
    Carry(Box<Server>),
    /// A sign-in to this remote server.
    SignIn(Box<Server>),
    /// These servers, as one.
    Serve(Vec<Server>),
}

impl McpArgs {
    /// The task.
    ///
    /// # Errors
    /// What is wrong with the arguments or the configuration.
    pub fn task(&self) -> Result<Task, String> {
        if self.recall {
            return Ok(Task::Recall);
        }
        if self.carry {
            return self.given("--carry").map(|server| Task::Carry(Box::new(server)));
        }
        if self.sign_in {
            return self.given("--sign-in").map(|server| Task::SignIn(Box::new(server)));
        }
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let word = match words.as_slice() {
            [] | ["convert"] => None,
            ["convert", url] | [url] if url.contains("://") => Some((*url).to_owned()),
            _ => return Err(format!("unexpected: {}", words.join(" "))),
        };
        let global = ToolFilter { allow: self.allow_tools.clone(), deny: self.deny_tools.clone() };
        let has_config = self.config.is_some() || self.config_file.is_some();
        if let Some(url) = word.as_ref().filter(|_| has_config) {
            return Err(format!("give {url} or a configuration, not both"));
        }
        if let Some(url) = self.url.clone().or(word) {
            let mut headers = self.headers()?;
            if let Some(token) =
                std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty())
            {
                headers.insert("authorization", secret(&format!("Bearer {token}"))?);
            }
            let transport = match self.protocol {
                Some(Protocol::Sse) => Transport::Older,
                Some(Protocol::StreamableHttp) => Transport::Streamable,
                None => Transport::Detect,
            };
            let server = Server::remote("remote", &url, headers, transport, global)?;
            return Ok(Task::Serve(vec![server]));
        }
        let text = match (&self.config, &self.config_file) {
            (Some(dash), _) if dash == "-" => from_variable("--config -")?,
            (Some(text), _) => text.clone(),
            (None, Some(file)) => std::fs::read_to_string(file)
                .map_err(|error| format!("{} cannot be read: {error}", file.display()))?,
            (None, None) => {
                return Err("give --config, --config-file, --url or --recall".to_owned());
            }
        };
        let lookup = |name: &str| std::env::var(name).ok();
        config::parse(&text, &global, &self.headers()?, lookup).map(Task::Serve)
    }

    fn given(&self, option: &str) -> Result<Server, String> {
        let text = from_variable(option)?;
        let lookup = |name: &str| std::env::var(name).ok();
        let servers = config::parse(&text, &ToolFilter::default(), &self.headers()?, lookup)?;
        let [server] = <[Server; 1]>::try_from(servers)
            .map_err(|servers| format!("`{option}` takes one server, not {}", servers.len()))?;
        Ok(server)
    }

    fn headers(&self) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        for text in &self.headers {
            let colon = text.find(':').unwrap_or(usize::MAX);
            let equals = text.find('=').unwrap_or(usize::MAX);
            let at = colon.min(equals);
            let (name, value) = text
                .get(..at)
                .zip(text.get(at.saturating_add(1)..))
                // The value may be a secret: it is not repeated.
                .ok_or("a --header needs the form `K: V` or `K=V`")?;
            headers.insert(header_name(name)?, secret(value.trim())?);
        }
        Ok(headers)
    }
}

fn from_variable(option: &str) -> Result<String, String> {
    std::env::var(CONFIG_VARIABLE)
        .map_err(|_| format!("`{option}` needs the variable {CONFIG_VARIABLE}"))
}

pub(super) fn header_name(name: &str) -> Result<HeaderName, String> {
    HeaderName::from_bytes(name.trim().as_bytes())
        .map_err(|_| format!("`{}` is not a valid header name", name.trim()))
}

pub(super) fn secret(value: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| "a header value holds characters that are not allowed".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::config::Kind;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        mcp: McpArgs,
    }

    fn args(words: &[&str]) -> McpArgs {
        let words = std::iter::once("gantry-mcp").chain(words.iter().copied());
        <Program as clap::Parser>::try_parse_from(words).expect("valid arguments").mcp
    }

    #[test]
    fn a_url_comes_by_flag_or_by_the_older_spelling_with_its_headers() {
        for words in [
            &["--url", "http://h/mcp", "-H", "A: b=c", "--header", "X-Y=z: 1"][..],
            &["convert", "http://h/mcp", "-H", "A: b=c", "--header", "X-Y=z: 1"],
        ] {
            let Task::Serve(servers) = args(words).task().expect("a task") else { panic!() };
            let Kind::Remote { url, headers, .. } = &servers[0].kind else { panic!() };
            assert_eq!(url.as_str(), "http://h/mcp");
            assert_eq!(headers["a"], "b=c");
            assert_eq!(headers["x-y"], "z: 1");
            assert!(headers["a"].is_sensitive());
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_reason() {
        for (words, part) in [
            (&[][..], "--config"),
            (&["convert"], "--config"),
            (&["serve", "it"], "unexpected: serve it"),
            (&["convert", "http://h", "--config", "{}"], "not both"),
            (&["--url", "ftp://h"], "ftp://h"),
            (&["--url", "http://h", "-H", "nothing"], "--header"),
            (&["--config", "{"], "not valid JSON"),
            (&["--config-file", "/nowhere/at/all.json"], "/nowhere/at/all.json"),
        ] {
            let why = args(words).task().expect_err("refused");
            assert!(why.contains(part), "{words:?}: {why}");
        }
        assert!(matches!(args(&["--recall"]).task(), Ok(Task::Recall)));
    }
}
