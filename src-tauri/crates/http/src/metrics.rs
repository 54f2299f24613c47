//! `GET /metrics`: what is known now, as Prometheus reads it.

use crate::{answer, routes::Site, tally::counter};
use axum::{
    extract::State,
    http::header,
    response::{IntoResponse as _, Response},
};
use gantry_core::wire::{Nothing, ProcessNode, ProcessRole, ServerState, SessionState};
use gantry_supervisor::Totals;
use serde::Serialize;
use std::fmt::Write as _;

/// `GET /metrics`.
pub(crate) async fn text(State(site): State<Site>) -> Response {
    let app = site.app.clone();
    let processes = site.run("metrics", async move { app.processes(Nothing {}).await }).await;
    let processes = match processes {
        Ok(processes) => processes,
        Err(error) => return answer::failed_api(&error),
    };
    let mut roles = Vec::new();
    for root in &processes.roots {
        count(root, &mut roles);
    }
    let servers = site.app.bridge().views();
    let sessions = site.app.sessions().views();
    let mut out = String::new();
    gauge(
        &mut out,
        "gantry_build_info",
        "Always 1; the version is in the label.",
        &[(format!("{{version=\"{}\"}}", gantry_core::VERSION), 1.0)],
    );
    gauge(
        &mut out,
        "gantry_uptime_seconds",
        "Since the start.",
        &[(String::new(), site.started.elapsed().as_secs_f64())],
    );
    if let Some(app) = processes.roots.iter().find(|root| root.role == ProcessRole::App) {
        process(&mut out, app);
    }
    let found = servers.iter().map(|server| server.state);
    by_label(
        &mut out,
        ("gantry_servers", "MCP servers, by state."),
        "state",
        &ServerState::ALL,
        found,
    );
    let found = sessions.iter().map(|session| session.state);
    by_label(
        &mut out,
        ("gantry_sessions", "Sessions, by state."),
        "state",
        &SessionState::ALL,
        found,
    );
    by_label(
        &mut out,
        ("gantry_processes", "Processes by role, Gantry itself among them."),
        "role",
        &ProcessRole::ALL,
        roles.into_iter(),
    );
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let strays = processes.strays as f64;
    gauge(
        &mut out,
        "gantry_stray_processes",
        "Processes of ours that belong to no running tree.",
        &[(String::new(), strays)],
    );
    site.tally.write(&mut out);
    stops(&mut out, &gantry_supervisor::totals());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], out).into_response()
}

fn stops(out: &mut String, totals: &Totals) {
    for (name, help, value) in [
        ("gantry_stops_total", "Process trees that were stopped.", &totals.stops),
        ("gantry_processes_ended_total", "Processes that ended in a stop.", &totals.processes),
        ("gantry_processes_killed_total", "Of those, how many needed SIGKILL.", &totals.forced),
        (
            "gantry_processes_survived_total",
            "Processes that still ran when their stop gave up.",
            &totals.left,
        ),
    ] {
        counter(out, name, help, [(String::new(), value)]);
    }
}

fn count(node: &ProcessNode, roles: &mut Vec<ProcessRole>) {
    roles.push(node.role);
    for child in &node.children {
        count(child, roles);
    }
}

/// Gantry's own process, under the names that every program uses for that.
fn process(out: &mut String, app: &ProcessNode) {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let (started, resident) = (app.started as f64 / 1000.0, app.rss as f64);
    for (name, help, value) in [
        ("process_start_time_seconds", "When Gantry started, since the Unix epoch.", started),
        ("process_resident_memory_bytes", "Resident memory of Gantry itself.", resident),
    ] {
        gauge(out, name, help, &[(String::new(), value)]);
    }
}

/// How many there are of each; what there is none of is told as 0, or a graph of it would have holes.
fn by_label<T: Serialize + PartialEq>(
    out: &mut String,
    (metric, help): (&str, &str),
    label: &str,
    all: &[T],
    found: impl Iterator<Item = T>,
) {
    let found: Vec<T> = found.collect();
    let samples: Vec<_> = all
        .iter()
        .map(|kind| {
            let count = found.iter().filter(|one| *one == kind).count();
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            let count = count as f64;
            (format!("{{{label}=\"{}\"}}", name(kind)), count)
        })
        .collect();
    gauge(out, metric, help, &samples);
}

/// The name of a state or role on the wire.
fn name(kind: &impl Serialize) -> String {
    match serde_json::to_value(kind) {
        Ok(serde_json::Value::String(name)) => name,
        _ => "unknown".to_owned(),
    }
}

fn gauge(out: &mut String, metric: &str, help: &str, samples: &[(String, f64)]) {
    let _ = writeln!(out, "# HELP {metric} {help}\n# TYPE {metric} gauge");
    for (labels, value) in samples {
        let _ = writeln!(out, "{metric}{labels} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_there_also_when_nothing_is_in_it() {
        let mut out = String::new();
        let found = [ServerState::Ready, ServerState::Failed, ServerState::Ready].into_iter();
        by_label(&mut out, ("gantry_servers", "Servers."), "state", &ServerState::ALL, found);
        let samples: Vec<_> = out.lines().skip(2).collect();
        assert!(out.starts_with("# HELP gantry_servers Servers.\n# TYPE gantry_servers gauge\n"));
        assert_eq!(samples.len(), 6);
        assert!(samples.contains(&"gantry_servers{state=\"ready\"} 2"), "{out}");
        assert!(samples.contains(&"gantry_servers{state=\"failed\"} 1"), "{out}");
        assert!(samples.contains(&"gantry_servers{state=\"degraded\"} 0"), "{out}");
    }

    #[test]
    fn no_state_is_missing_among_all() {
        use ts_rs::TS as _;
        let config = ts_rs::Config::new();
        for (declared, known) in [
            (ServerState::inline(&config), ServerState::ALL.map(|one| name(&one)).to_vec()),
            (SessionState::inline(&config), SessionState::ALL.map(|one| name(&one)).to_vec()),
            (ProcessRole::inline(&config), ProcessRole::ALL.map(|one| name(&one)).to_vec()),
        ] {
            let mut declared: Vec<_> =
                declared.split('|').map(|name| name.trim().trim_matches('"').to_owned()).collect();
            let mut known = known;
            declared.sort();
            known.sort();
            assert_eq!(declared, known);
        }
    }
}
