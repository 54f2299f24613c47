//! A session and its MCP servers.

use crate::{Agent, lock};
use anyhow::{Context, Result, anyhow};
use gantry_tests::{McpClient, api::http_client, record};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    process::Stdio,
    sync::{Arc, Mutex, OnceLock},
};
use tokio::{process::Command, sync::watch};

/// A connected server, or why it is not connected.
pub struct Server {
    /// The name in `mcpServers`.
    pub name: String,
    /// The connection.
    pub client: Result<McpClient, String>,
}

/// One ACP session.
pub struct Session {
    /// Its id.
    pub id: String,
    cwd: String,
    wanted: Vec<Value>,
    servers: Mutex<Vec<Arc<Server>>>,
    cancels: watch::Sender<u64>,
    /// The client's terminals by the names that the script gave them.
    terminals: Mutex<HashMap<String, String>>,
}

impl Session {
    /// A session with the parameters of `session/new`; nothing is connected yet.
    pub fn new(id: &str, params: &Value) -> Self {
        Self {
            id: id.to_owned(),
            cwd: params["cwd"].as_str().unwrap_or(".").to_owned(),
            wanted: params["mcpServers"].as_array().cloned().unwrap_or_default(),
            servers: Mutex::default(),
            cancels: watch::Sender::new(0),
            terminals: Mutex::default(),
        }
    }

    /// Connects to all servers at once and notes what each answers to `tools/list`.
    pub async fn connect(&self, agent: &Agent) {
        let all = self.wanted.iter().map(async |entry| {
            let name = entry["name"].as_str().unwrap_or_default().to_owned();
            let asked_at = record::now();
            let client = connect(entry, &self.cwd).await.map_err(|why| format!("{why:#}"));
            let tools = match &client {
                Ok(client) => client.tool_names().await.map_err(|why| format!("{why:#}")),
                Err(why) => Err(why.clone()),
            };
            let fields = json!({
                "session": self.id, "server": name, "asked_at": asked_at, "entry": entry,
                "tools": tools.as_ref().ok(), "error": tools.as_ref().err(),
            });
            agent.note("tools", fields);
            if let Ok(client) = &client {
                let record = agent.record_path();
                let server = name.clone();
                let heard = client.listen(move |message| {
                    if let Some(path) = &record {
                        record::write(
                            path,
                            "heard",
                            json!({ "server": server, "message": message }),
                        );
                    }
                });
                if let Err(why) = heard.await {
                    eprintln!("fake_agent: {name} has no stream: {why:#}");
                }
            }
            Arc::new(Server { name, client })
        });
        let servers = futures::future::join_all(all).await;
        *lock(&self.servers) = servers;
    }

    /// Remembers a terminal of the client.
    pub fn name_terminal(&self, name: &str, id: &str) {
        lock(&self.terminals).insert(name.to_owned(), id.to_owned());
    }

    /// The id of a terminal of the client.
    pub fn terminal(&self, name: &str) -> Option<String> {
        lock(&self.terminals).get(name).cloned()
    }

    /// The servers.
    pub fn servers(&self) -> Vec<Arc<Server>> {
        lock(&self.servers).clone()
    }

    /// A `session/cancel` arrived.
    pub fn cancel(&self) {
        self.cancels.send_modify(|count| *count += 1);
    }

    /// To wait for the next cancel.
    pub fn cancels(&self) -> watch::Receiver<u64> {
        self.cancels.subscribe()
    }

    /// Leaves the servers.
    pub async fn close(&self) {
        let servers = std::mem::take(&mut *lock(&self.servers));
        for client in servers.iter().filter_map(|server| server.client.as_ref().ok()) {
            client.close_input().await;
        }
    }
}

/// Both kinds of entries: `{"type":"http","url","headers"}` and
/// `{"command","args","env"}`, with names and values as ACP has them.
async fn connect(entry: &Value, cwd: &str) -> Result<McpClient> {
    if let Some(url) = entry["url"].as_str() {
        // One for all: to make one costs more than all that is asked over it.
        static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
        let client = CLIENT.get_or_init(http_client).clone();
        let headers = pairs(&entry["headers"]);
        return McpClient::http_over(client, url, &headers).await.context(url.to_owned());
    }
    let program = entry["command"].as_str().ok_or_else(|| anyhow!("neither url nor command"))?;
    let args = entry["args"].as_array().cloned().unwrap_or_default();
    let child = Command::new(program)
        .args(args.iter().filter_map(Value::as_str))
        .envs(pairs(&entry["env"]))
        .current_dir(cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = child.with_context(|| program.to_owned())?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(anyhow!("no pipes"));
    };
    // Waited for, so that it leaves no zombie, but never killed: an agent that
    // does not end its servers is what the tests are about.
    tokio::spawn(async move { child.wait().await });
    McpClient::stdio(input, output).await.context(program.to_owned())
}

fn pairs(list: &Value) -> Vec<(String, String)> {
    let pairs = list.as_array().into_iter().flatten().filter_map(|pair| {
        Some((pair["name"].as_str()?.to_owned(), pair["value"].as_str()?.to_owned()))
    });
    pairs.collect()
}
