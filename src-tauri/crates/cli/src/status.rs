//! `gantry status`: what the running Gantry is doing.

use crate::{
    arguments::Place,
    failure::Failure,
    remote::{QUICK, Remote},
    terminal::{plain, say},
};
use clap::Args;
use gantry_core::wire::{ProcessNode, ProcessRole, Processes, ServersList, SessionsList};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Options of `gantry status`.
#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Show the process tree as well
    #[arg(long)]
    tree: bool,
}

/// Asks and prints.
pub async fn run(options: Status) -> Result<u8, Failure> {
    let remote = Remote::find("status", &options.place)?;
    let servers = remote.call_within(QUICK, "servers_list", json!({})).await?;
    let sessions = remote.call_within(QUICK, "sessions_list", json!({})).await?;
    let processes = match options.tree {
        true => Some(remote.call_within(QUICK, "processes", json!({})).await?),
        false => None,
    };
    if options.json {
        let mut all = json!({
            "instance": remote.info,
            "servers": servers["servers"],
            "sessions": sessions["sessions"],
        });
        if let Some(processes) = processes {
            all["processes"] = processes;
        }
        say(&all.to_string());
        return Ok(0);
    }
    let servers: ServersList = read(servers)?;
    let sessions: SessionsList = read(sessions)?;
    let info = &remote.info;
    let mut text = format!("Gantry {} · pid {} · {}\n", info.version, info.pid, info.url);
    text.push_str(&server_table(&servers));
    text.push_str(&session_table(&sessions));
    if let Some(processes) = processes {
        text.push_str(&Tree { servers: &servers, sessions: &sessions }.text(&read(processes)?));
    }
    say(plain(&text).trim_end());
    Ok(0)
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| {
        Failure::new("status", format!("the running Gantry is of another version: {error}"))
    })
}

fn server_table(list: &ServersList) -> String {
    let rows = list.servers.iter().map(|server| {
        let tools = server.tools.map_or("-".into(), |n| n.to_string());
        let pid = server.pid.map_or("-".into(), |pid| pid.to_string());
        let why = first_line(server.error.as_deref());
        vec![server.name.clone(), name(&server.state), tools, pid, why]
    });
    table("Servers", &["NAME", "STATE", "TOOLS", "PID", ""], rows.collect())
}

fn session_table(list: &SessionsList) -> String {
    let rows = list.sessions.iter().map(|session| {
        let why = first_line(session.error.as_deref());
        vec![
            session.id.clone(),
            name(&session.state),
            session.agent.clone(),
            first_line(Some(&session.title)),
            why,
        ]
    });
    table("Sessions", &["ID", "STATE", "AGENT", "TITLE", ""], rows.collect())
}

fn first_line(text: Option<&str>) -> String {
    text.and_then(|text| text.lines().next()).unwrap_or_default().to_owned()
}

/// The name of a state on the wire.
fn name(state: &impl Serialize) -> String {
    match serde_json::to_value(state) {
        Ok(Value::String(name)) => name,
        _ => "unknown".to_owned(),
    }
}

fn table(title: &str, head: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return format!("\n{title}: none\n");
    }
    let mut out = format!("\n{title}\n");
    let head = head.iter().map(|cell| (*cell).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..rows[0].len()).map(|column| width(column).unwrap_or(0)).collect();
    for row in &rows {
        let mut line = String::from(" ");
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, " {cell:<width$} ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// The process tree with what each process is to whom.
struct Tree<'a> {
    servers: &'a ServersList,
    sessions: &'a SessionsList,
}

impl Tree<'_> {
    fn text(&self, processes: &Processes) -> String {
        let mut out = String::from("\nProcesses\n");
        for root in &processes.roots {
            self.branch(&mut out, root, 1);
        }
        let plural = if processes.strays == 1 { "" } else { "s" };
        let _ = writeln!(out, "  {} stray{plural}", processes.strays);
        out
    }

    fn branch(&self, out: &mut String, node: &ProcessNode, depth: usize) {
        let indent = depth * 2;
        let mut facts = vec![name(&node.role)];
        facts.extend(node.owner.clone());
        let sessions = self.about(node, &mut facts);
        facts.push(memory(node));
        facts.push(format!("{:.0} % CPU", node.cpu));
        facts.push(format!("up {}", span(node.uptime_ms)));
        let facts = facts.join(" · ");
        let _ = writeln!(out, "{:indent$}{} {}  {facts}", "", node.pid, node.name);
        for session in sessions {
            let _ = writeln!(out, "{:indent$}  {session}", "");
        }
        for child in &node.children {
            self.branch(out, child, depth + 1);
        }
    }

    /// Adds what is known of a server; gives a line for each session of an engine.
    fn about(&self, node: &ProcessNode, facts: &mut Vec<String>) -> Vec<String> {
        match node.role {
            ProcessRole::Server => {
                let server = self.servers.servers.iter().find(|s| s.pid == Some(node.pid));
                let Some(server) = server else { return Vec::new() };
                facts.push(name(&server.state));
                if server.restarts > 0 {
                    facts.push(format!("restarts {}", server.restarts));
                }
                if !server.used_by.is_empty() {
                    facts.push(format!("used by {}", server.used_by.join(", ")));
                }
                Vec::new()
            }
            ProcessRole::Engine => {
                let is_its = |pid: u32| pid == node.pid;
                let sessions = self.sessions.sessions.iter();
                let its = sessions.filter(|s| s.engine.as_ref().is_some_and(|e| is_its(e.pid)));
                its.map(|session| {
                    let title = first_line(Some(&session.title));
                    format!("session {} · {} · {title}", session.id, name(&session.state))
                })
                .collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Memory, and which kind of it.
fn memory(node: &ProcessNode) -> String {
    let (bytes, kind) = match node.pss {
        Some(pss) => (pss, "PSS"),
        None => (node.rss, "RSS"),
    };
    format!("{:.1} MB {kind}", bytes as f64 / 1_048_576.0)
}

/// A span for people: its two largest units.
fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min {} s", seconds % 60),
        3600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let rows = vec![
            vec!["fetch 网页".to_owned(), "ready".into()],
            vec!["x".to_owned(), "failed".into()],
        ];
        assert_eq!(
            table("Servers", &["NAME", "STATE"], rows),
            "\nServers\n  NAME      STATE\n  fetch 网页  ready\n  x         failed\n"
        );
        assert_eq!(table("Servers", &["NAME"], vec![]), "\nServers: none\n");
    }

    #[test]
    fn the_tree_says_whose_each_process_is_and_which_memory_is_meant() {
        let servers = serde_json::from_value(json!({ "servers": [{
            "name": "fetch", "enabled": true, "lifetime": "session", "state": "ready", "pid": 12,
            "url": "", "tools": 1, "error": null, "restarts": 2, "ready_ms": 1, "note": null,
            "used_by": ["s1"], "since": 0, "saved": true, "config": {}, "tools_off": [],
        }] }));
        let sessions = serde_json::from_value(json!({ "sessions": [] }));
        let processes = serde_json::from_value(json!({ "strays": 1, "roots": [{
            "pid": 1, "started": 0, "name": "gantry", "role": "app", "owner": null, "cpu": 0.4,
            "rss": 2_097_152, "uptime_ms": 61_000, "children": [{
                "pid": 12, "started": 0, "name": "node", "role": "server", "owner": "fetch",
                "cpu": 0, "rss": 9, "pss": 1_048_576, "uptime_ms": 3_600_000, "children": [],
            }],
        }] }));
        let tree = Tree { servers: &servers.unwrap(), sessions: &sessions.unwrap() };
        assert_eq!(
            tree.text(&processes.unwrap()),
            "\nProcesses\n  1 gantry  app · 2.0 MB RSS · 0 % CPU · up 1 min 1 s\n    12 node  \
             server · fetch · ready · restarts 2 · used by s1 · 1.0 MB PSS · 0 % CPU · up 1 h 0 min\n  \
             1 stray\n"
        );
    }
}
