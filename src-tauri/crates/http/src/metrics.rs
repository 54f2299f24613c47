//! `GET /metrics`: what is known now, as Prometheus reads it.

use crate::{answer, routes::Site, tally::counter};
use axum::{
    extract::State,
    http::header,
    response::{IntoResponse as _, Response},
};
use gantry_core::wire::{Nothing, ProcessNode};
use gantry_supervisor::Totals;
use serde::Serialize;
use std::{collections::BTreeMap, fmt::Write as _};

/// `GET /metrics`.
pub(crate) async fn text(State(site): State<Site>) -> Response {
    let app = site.app.clone();
    let processes = site.run("metrics", async move { app.processes(Nothing {}).await }).await;
    let processes = match processes {
        Ok(processes) => processes,
        Err(error) => return answer::failed_api(&error),
    };
    let mut by_role = BTreeMap::new();
    for root in &processes.roots {
        count(root, &mut by_role);
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
    states(&mut out, "gantry_servers", "MCP servers.", servers.iter().map(|s| name(&s.state)));
    states(&mut out, "gantry_sessions", "Sessions.", sessions.iter().map(|s| name(&s.state)));
    let roles: Vec<_> =
        by_role.iter().map(|(role, n)| (format!("{{role=\"{role}\"}}"), f64::from(*n))).collect();
    gauge(&mut out, "gantry_processes", "Processes, Gantry itself among them.", &roles);
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

fn count(node: &ProcessNode, by_role: &mut BTreeMap<String, u32>) {
    *by_role.entry(name(&node.role)).or_default() += 1;
    for child in &node.children {
        count(child, by_role);
    }
}

/// The name of a state on the wire.
fn name(state: &impl Serialize) -> String {
    match serde_json::to_value(state) {
        Ok(serde_json::Value::String(name)) => name,
        _ => "unknown".to_owned(),
    }
}

fn states(out: &mut String, metric: &str, help: &str, states: impl Iterator<Item = String>) {
    let mut counts = BTreeMap::<String, u32>::new();
    for state in states {
        *counts.entry(state).or_default() += 1;
    }
    let samples: Vec<_> = counts
        .into_iter()
        .map(|(state, n)| (format!("{{state=\"{state}\"}}"), f64::from(n)))
        .collect();
    gauge(out, metric, help, &samples);
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
    fn states_are_counted_by_name() {
        let mut out = String::new();
        let states_now = ["ready", "failed", "ready"].into_iter().map(str::to_owned);
        states(&mut out, "gantry_servers", "MCP servers.", states_now);
        assert_eq!(
            out,
            "# HELP gantry_servers MCP servers.\n# TYPE gantry_servers gauge\n\
             gantry_servers{state=\"failed\"} 1\ngantry_servers{state=\"ready\"} 2\n"
        );
    }
}
