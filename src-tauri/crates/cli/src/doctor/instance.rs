//! The running Gantry, its port, and what dead ones left.

use super::Finding;
use gantry_core::{data_dir::DataDir, instance::Instance};
use gantry_supervisor::{Scope, table::Table};
use std::{collections::BTreeSet, time::Duration};

/// How long a running Gantry may take to say that it is well.
const ANSWER: Duration = Duration::from_secs(3);

/// Whether one runs here, and answers.
pub async fn instance(data: &DataDir) -> Vec<Finding> {
    let found = match Instance::look(data) {
        Ok(found) => found,
        Err(error) => {
            return vec![Finding::problem(
                "instance",
                error.to_string(),
                "ask as the user whose data directory it is, or name your own with --data-dir",
            )];
        }
    };
    let Some(info) = found else {
        let is_stale = data.instance_file().exists();
        return vec![match is_stale {
            true => Finding::warning(
                "instance",
                "the last Gantry on this directory did not end by itself",
                "nothing to do: the next start ends what it left",
            ),
            false => Finding::ok("instance", "none runs on this directory"),
        }];
    };
    let who = format!("Gantry {} · pid {} · {}", info.version, info.pid, info.url);
    let health = reqwest::Client::builder().no_proxy().timeout(ANSWER).build();
    let answered = match health {
        Ok(client) => client.get(format!("{}/health", info.url)).send().await,
        Err(error) => Err(error),
    };
    let mut findings = vec![match answered.and_then(reqwest::Response::error_for_status) {
        Ok(_) => Finding::ok("instance", who),
        Err(error) => Finding::problem(
            "instance",
            format!("{who} does not answer: {}", error.without_url()),
            format!(
                "look into {}; `gantry quit`, or end process {}",
                data.logs.display(),
                info.pid
            ),
        ),
    }];
    if info.version != gantry_core::VERSION {
        findings.push(Finding::warning(
            "version",
            format!("this program is {}, the running one {}", gantry_core::VERSION, info.version),
            "quit the running one and start it again",
        ));
    }
    findings
}

/// Whether a port can be listened on.
pub async fn port(data: &DataDir, port: u16) -> Finding {
    let check = format!("port {port}");
    let ours = Instance::running(data).filter(|info| info.url.ends_with(&format!(":{port}")));
    if let Some(info) = ours {
        return Finding::ok(check, format!("the running Gantry listens there (pid {})", info.pid));
    }
    match gantry_http::bind("127.0.0.1", port).await {
        Ok(_) => Finding::ok(check, "free"),
        Err(error) => Finding::problem(
            check,
            format!("cannot be listened on: {error}"),
            "choose another --port, or 0 for any free one",
        ),
    }
}

/// Processes whose Gantry no longer lives.
pub async fn leftovers(scope: &Scope) -> Vec<Finding> {
    let look = || {
        let mut dead = BTreeSet::new();
        for row in Table::default().read() {
            let orphaned = row.cookie.as_ref().is_some_and(|cookie| !cookie.owner.is_alive());
            if orphaned && !row.zombie {
                dead.insert((row.id.pid, row.name.clone()));
            }
        }
        dead
    };
    let Some(dead) = scope.spawn_blocking("look for leftovers", look).join().await else {
        return Vec::new();
    };
    if dead.is_empty() {
        return vec![Finding::ok("leftovers", "none")];
    }
    let named: Vec<_> = dead.iter().map(|(pid, name)| format!("{name} (pid {pid})")).collect();
    vec![Finding::warning(
        "leftovers",
        format!("{} of dead instances: {}", dead.len(), named.join(", ")),
        "start Gantry: it ends them first",
    )]
}
