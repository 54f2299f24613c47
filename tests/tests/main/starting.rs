//! What a Gantry on a fixed port says while it starts, and that whoever comes early is answered.

use gantry_tests::{Instance, Stage, api::http_client, wait_until};
use reqwest::StatusCode;
use serde_json::{Value, json};
use std::time::Duration;

const BOUND: Duration = Duration::from_secs(30);

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[tokio::test]
async fn health_says_that_it_is_starting_and_early_requests_wait() {
    let stage = Stage::shared().await;
    // A login shell that takes its time holds up the start for as long.
    let profile = "sleep 2\n";
    for name in [".profile", ".bash_profile"] {
        std::fs::write(stage.path("home").join(name), profile).unwrap();
    }
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let client = http_client();
    let starting = Instance::start_with(&stage, |command| {
        command.args(["--port", &port.to_string()]);
        command.env("SHELL", "/bin/bash").env("GANTRY_LOGIN_SHELL", "yes");
    });
    let early = async {
        let health = wait_until("it listens", BOUND, async || {
            let answer = client.get(format!("{url}/health")).send().await.ok()?;
            answer.json::<Value>().await.ok()
        })
        .await;
        // The same for everybody: a foreign name learns nothing while it starts either.
        let foreign = client.get(format!("{url}/health")).header("host", "evil.example");
        let foreign = foreign.send().await.unwrap().status();
        // It waits until there is somebody who can answer.
        let token_file = stage.data_dir().join("run/token");
        let token = wait_until("the token is there", BOUND, async || {
            std::fs::read_to_string(&token_file).ok().filter(|token| token.len() == 64)
        })
        .await;
        let request = client.post(format!("{url}/api/servers_list")).bearer_auth(token);
        let answer = request.json(&json!({})).send().await.unwrap();
        (health, foreign, answer.status())
    };
    let (mut instance, (health, foreign, status)) = tokio::join!(starting, early);
    assert_eq!(health["status"], "starting", "{health}");
    assert!(health["version"].is_string() && health["uptime_ms"].is_u64(), "{health}");
    assert_eq!(health.as_object().unwrap().len(), 3, "{health}");
    assert_eq!(foreign, StatusCode::FORBIDDEN);
    assert_eq!(status, StatusCode::OK);
    let health = client.get(format!("{url}/health")).send().await.unwrap();
    assert_eq!(health.json::<Value>().await.unwrap()["status"], "ok");
    instance.quit().await;
    stage.finish().await;
}

/// A port that is in use and a directory that is held: who holds it is the better reason.
#[tokio::test]
async fn a_second_instance_names_the_first_also_on_the_same_port() {
    let stage = Stage::shared().await;
    let port = free_port().to_string();
    let mut first = Instance::start_with(&stage, |command| {
        command.args(["--port", &port]);
    })
    .await;
    let mut said = Vec::new();
    for directory in [stage.data_dir(), stage.path("other")] {
        let mut command = stage.program("gantry");
        command.args(["serve", "--port", &port, "--data-dir"]).arg(directory);
        let output = tokio::time::timeout(BOUND, command.output()).await.unwrap().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let told: Vec<&str> = errors.lines().filter(|line| line.starts_with("gantry: ")).collect();
        assert_eq!(told.len(), 1, "{errors}");
        said.push((output.status.code(), told[0].to_owned()));
    }
    assert_eq!(said[0].0, Some(3), "{said:?}");
    assert!(said[0].1.contains(&first.pid.to_string()), "{said:?}");
    assert_eq!(said[1].0, Some(1), "{said:?}");
    assert!(said[1].1.contains(&port) && said[1].1.contains("--port"), "{said:?}");
    first.quit().await;
    stage.finish().await;
}
