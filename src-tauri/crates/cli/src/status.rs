//! `gantry status`: what the running Gantry is doing.

use crate::{arguments::Place, failure::Failure, remote::Remote, terminal::say};
use clap::Args;
use gantry_core::wire::{ProcessNode, Processes, ServersList, SessionsList};
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
    let servers = remote.call("servers_list", json!({})).await?;
    let sessions = remote.call("sessions_list", json!({})).await?;
    let processes = match options.tree {
        true => Some(remote.call("processes", json!({})).await?),
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
        text.push_str(&tree(&read(processes)?));
    }
    say(text.trim_end());
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

fn tree(processes: &Processes) -> String {
    let mut out = String::from("\nProcesses\n");
    for root in &processes.roots {
        branch(&mut out, root, 1);
    }
    let _ = writeln!(out, "  {} strays", processes.strays);
    out
}

fn branch(out: &mut String, node: &ProcessNode, depth: usize) {
    let owner = node.owner.as_deref().map(|owner| format!(" · {owner}")).unwrap_or_default();
    let _ = writeln!(
        out,
        "{:indent$}{} {} ({}{owner}) {:.1} MB",
        "",
        node.pid,
        node.name,
        name(&node.role),
        node.rss as f64 / 1_048_576.0,
        indent = depth * 2,
    );
    for child in &node.children {
        branch(out, child, depth + 1);
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
}
