//! Servers as people write them: a package of a registry, started by `npx`, `uvx` or `uv`.
//! What they fetch is in their caches already, so that no test waits for a network.

use gantry_tests::{Instance, Stage, npm, programs, python};
use serde_json::{Value, json};
use std::{os::unix::fs::symlink, path::PathBuf, time::Duration};

/// Their run times are slow to start on a machine that has other things to do.
const BOUND: Duration = Duration::from_secs(90);
/// For the request: in the release the default is shorter.
const READY_MS: u64 = 80_000;

fn request(servers: Value) -> Value {
    json!({ "project_id": "p", "prompt": "TOOLS", "ready_timeout_ms": READY_MS, "agent_config": {
        "agent_server": programs::fake_agent(json!({})), "context_servers": servers } })
}

fn uv_env() -> Value {
    json!({ "UV_CACHE_DIR": python::uv_cache(), "UV_OFFLINE": "1", "UV_PYTHON_DOWNLOADS": "never" })
}

fn time_server() -> &'static str {
    python::servers().find(|server| server.starts_with("mcp-server-time")).expect("it is listed")
}

/// An instance that finds these programs before all others.
async fn with_programs(stage: &Stage, folder: PathBuf) -> Instance {
    Instance::start_with(stage, |command| {
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", folder.display()));
        command.env("GANTRY_LOGIN_SHELL", "no");
        // The network is gone.
        command.env("HTTPS_PROXY", "http://127.0.0.1:9");
    })
    .await
}

fn tools<'a>(text: &'a str, server: &str) -> &'a str {
    text.lines()
        .find_map(|line| line.strip_prefix(server)?.strip_prefix(": "))
        .unwrap_or_else(|| panic!("no {server} in {text}"))
}

/// Case 45, too: what they fetch is in their caches, and the network is gone.
#[tokio::test]
async fn npx_and_uvx_servers_are_ready_at_the_first_prompt() {
    let stage = Stage::shared().await;
    let bin = python::program("uvx").parent().unwrap().to_path_buf();
    let mut instance = with_programs(&stage, bin).await;
    // npx runs what is installed in the folder, or above it, without asking a registry.
    let installed = npm::server_everything();
    let folder = installed.ancestors().nth(5).unwrap();
    let servers = json!({
        "everything": { "command": "npx", "cwd": folder,
            "args": ["-y", "@modelcontextprotocol/server-everything", "stdio"] },
        "time": { "command": "uvx", "args": [time_server()], "env": uv_env() },
    });
    let (answer, text) = instance.turn(request(servers), BOUND).await;
    for server in answer["servers"].as_array().unwrap() {
        assert_eq!(
            (&server["state"], &server["via"]),
            (&json!("ready"), &json!("bridge")),
            "{answer}"
        );
    }
    assert!(tools(&text, "everything").contains("echo"), "{text}");
    assert!(tools(&text, "time").contains("get_current_time"), "{text}");

    // One that works, and all of its processes: npx and uvx leave a chain of them.
    let prompt = json!({ "project_id": "p", "session_id": answer["session_id"],
        "prompt": "CALLON time get_current_time {\"timezone\":\"Asia/Shanghai\"}" });
    let (_, text) = instance.turn(prompt, BOUND).await;
    assert!(text.contains("Asia/Shanghai"), "{text}");
    let stopped = instance.api("session_stop", json!({ "session": answer["session_id"] })).await;
    assert!(stopped["servers_stopped"].as_array().unwrap().len() == 2, "{stopped}");
    stage.empty_but(&[instance.pid], Duration::from_secs(5)).await;
    instance.quit().await;
    stage.finish().await;
}

/// Where there is no `uvx`, `uv tool run` is the same.
#[tokio::test]
async fn uvx_works_where_only_uv_is() {
    let stage = Stage::shared().await;
    let only = stage.path("only-uv");
    std::fs::create_dir_all(&only).unwrap();
    symlink(python::program("uv"), only.join("uv")).unwrap();
    // The folders of the system, in which there is no uvx.
    let mut instance = Instance::start_with(&stage, |command| {
        command.env("PATH", format!("{}:/usr/bin:/bin", only.display()));
        command.env("GANTRY_LOGIN_SHELL", "no");
    })
    .await;
    assert!(!["/usr/bin/uvx", "/bin/uvx"].iter().any(|path| std::path::Path::new(path).exists()));
    let servers = json!({ "time": { "command": "uvx", "args": [time_server()], "env": uv_env() } });
    let (answer, text) = instance.turn(request(servers), BOUND).await;
    assert_eq!(answer["servers"][0]["state"], "ready", "{answer}");
    assert!(tools(&text, "time").contains("convert_time"), "{text}");
    instance.quit().await;
    stage.finish().await;
}
