//! Known agents: found, installed into the data directory, started by their name
//! and led to a custom endpoint.

use gantry_tests::{Api, Instance, Model, Progress, Stage, npm, programs, wait_until};
use reqwest::Method;
use serde_json::{Value, json};
use std::{os::unix::fs::PermissionsExt, path::Path, time::Duration};

const BOUND: Duration = Duration::from_secs(60);

/// A stand-in for npm: it installs `fake_agent` under the name of Gemini CLI. Files
/// beside it make it fail or hang.
fn fake_npm(stage: &Stage) {
    let folder = stage.path("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let (folder, agent) = (folder.display(), programs::path("fake_agent"));
    let script = format!(
        "#!/bin/sh\n\
         echo \"npm is asked for: $*\"\n\
         if [ -f {folder}/fails ]; then echo 'npm error 404 Not Found' >&2; exit 1; fi\n\
         mkdir -p node_modules/.bin\n\
         if [ -f {folder}/hangs ]; then sleep 6345; fi\n\
         ln -s {} node_modules/.bin/gemini\n",
        agent.display()
    );
    let npm = stage.path("bin/npm");
    std::fs::write(&npm, script).unwrap();
    std::fs::set_permissions(&npm, std::fs::Permissions::from_mode(0o755)).unwrap();
}

async fn start(stage: &Stage, folders: &[&Path]) -> Instance {
    let folders = folders.iter().copied().map(Path::to_path_buf);
    let path = folders.chain(["/usr/local/bin", "/usr/bin", "/bin"].map(Into::into));
    let path = std::env::join_paths(path).unwrap();
    Instance::start_with(stage, |command| {
        command.env("PATH", path);
    })
    .await
}

async fn entry(api: &Api, id: &str) -> Value {
    let list = api.api("agents_list", json!({})).await;
    let agents = list["agents"].as_array().unwrap();
    agents.iter().find(|agent| agent["id"] == id).cloned().unwrap()
}

/// Waits until the session's turn is over.
async fn idle(api: &Api, session: &Value) {
    wait_until("the session is idle", BOUND, async || {
        let list = api.api("sessions_list", json!({})).await;
        let sessions = list["sessions"].as_array().unwrap();
        let session = sessions.iter().find(|view| view["id"] == *session).unwrap();
        (session["state"] == "idle").then_some(())
    })
    .await;
}

/// The names in the folder of installations, without the log.
fn installations(stage: &Stage) -> Vec<String> {
    let entries = std::fs::read_dir(stage.data_dir().join("agents")).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_kept = |name: &String| !name.ends_with(".log");
    let mut names: Vec<String> = names.filter(is_kept).collect();
    names.sort();
    names
}

#[tokio::test]
async fn an_agent_is_installed_used_and_removed_and_a_failure_changes_nothing() {
    let stage = Stage::shared().await;
    fake_npm(&stage);
    let mut instance = start(&stage, &[&stage.path("bin")]).await;
    let gemini = json!({ "id": "gemini" });
    let before = entry(&instance, "gemini").await;
    assert_eq!(before["installed"], false, "{before}");
    assert!(before["how_to_install"].as_str().unwrap().contains("npm install"), "{before}");
    assert_eq!(before["install"]["managed"], false, "{before}");

    std::fs::write(stage.path("bin/fails"), "").unwrap();
    let failed = instance.post("/api/agents_install", &gemini).await;
    let why = failed.body["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("404 Not Found") && why.contains("nothing was changed"), "{failed:?}");
    assert_eq!(installations(&stage), Vec::<String>::new());

    std::fs::remove_file(stage.path("bin/fails")).unwrap();
    let events = instance.request(Method::GET, "/events").send().await.unwrap();
    let mut events = Progress::new(events);
    let installed = instance.api("agents_install", gemini.clone()).await;
    assert_eq!(
        (&installed["installed"], &installed["install"]["managed"]),
        (&json!(true), &json!(true))
    );
    let version = installed["install"]["version"].as_str().unwrap().to_owned();
    assert_eq!(installed["version"], version.as_str(), "{installed}");
    assert!(installed["path"].as_str().unwrap().starts_with(&*stage.data_dir().to_string_lossy()));
    let said = format!("@google/gemini-cli@{version}");
    let progress = events.until("progress", BOUND, |event| event.data["type"] == "agent_install");
    let progress = progress.await.data;
    assert!(progress["line"].as_str().unwrap().contains(&said), "{progress}");
    let log = instance.api("agents_log", gemini.clone()).await;
    assert!(log.to_string().contains(&said), "{log}");
    assert_eq!(installations(&stage).len(), 2, "{:?}", installations(&stage));

    // A failure leaves what is there in place, and it works.
    let kept = installations(&stage);
    std::fs::write(stage.path("bin/fails"), "").unwrap();
    assert_eq!(instance.post("/api/agents_install", &gemini).await.body["ok"], false);
    assert_eq!(installations(&stage), kept);
    let request = json!({
        "project_id": "p", "prompt": "ECHO started by its name",
        "agent_config": { "agent_server": { "agent_id": "gemini" }, "context_servers": {} },
    });
    let (answer, text) = instance.turn(request, BOUND).await;
    assert_eq!(text, "started by its name", "{answer}");

    // A session goes on with what was installed anew; what its agent runs from stays meanwhile.
    let session = json!({ "project_dir": stage.path(""), "agent": "gemini" });
    let session = instance.api("session_create", session).await["session"]["id"].clone();
    let prompt = json!({ "session": session, "content": [{ "type": "text", "text": "ECHO on" }] });
    instance.api("session_prompt", prompt.clone()).await;
    std::fs::remove_file(stage.path("bin/fails")).unwrap();
    instance.api("agents_install", gemini.clone()).await;
    assert_eq!(installations(&stage).len(), 3, "{:?}", installations(&stage));
    idle(&instance, &session).await;
    let again = instance.api("session_prompt", prompt).await;
    assert_eq!(again["engine"], "recreated", "{again}");
    idle(&instance, &session).await;

    let removed = instance.api("agents_uninstall", gemini.clone()).await;
    assert_eq!(removed["installed"], false, "{removed}");
    instance.quit().await;
    let mut instance = start(&stage, &[&stage.path("bin")]).await;
    wait_until("the old installation is removed", BOUND, async || {
        installations(&stage).iter().all(|name| name.ends_with(".json")).then_some(())
    })
    .await;
    assert_eq!(instance.post("/api/agents_uninstall", &gemini).await.body["ok"], false);
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_quit_ends_an_installation_and_the_next_one_clears_what_it_left() {
    let stage = Stage::shared().await;
    fake_npm(&stage);
    std::fs::write(stage.path("bin/hangs"), "").unwrap();
    let mut instance = start(&stage, &[&stage.path("bin")]).await;
    let gemini = json!({ "id": "gemini" });
    let waiting = instance.request(Method::POST, "/api/agents_install").json(&gemini);
    let waiting = tokio::spawn(waiting.send());
    wait_until("npm runs", BOUND, async || {
        (!stage.members_like("sleep 6345").is_empty()).then_some(())
    })
    .await;
    assert_eq!(entry(&instance, "gemini").await["install"]["running"], true);
    let second = instance.post("/api/agents_install", &gemini).await;
    assert_eq!(second.body["error"]["code"], "BUSY", "{second:?}");
    instance.quit().await;
    drop(waiting.await);
    stage.empty_but(&[], Duration::from_millis(100)).await;

    std::fs::remove_file(stage.path("bin/hangs")).unwrap();
    let mut instance = start(&stage, &[&stage.path("bin")]).await;
    assert_eq!(entry(&instance, "gemini").await["installed"], false);
    instance.api("agents_install", gemini).await;
    assert_eq!(installations(&stage).len(), 2, "{:?}", installations(&stage));
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_list_of_the_public_registry_is_taken_in_and_its_agents_can_be_installed() {
    let stage = Stage::shared().await;
    fake_npm(&stage);
    let mut instance = start(&stage, &[&stage.path("bin")]).await;
    let entry_of = |id: &str, package: &str| {
        json!({ "id": id, "name": id, "version": "1.0.0", "description": "from the registry",
                "distribution": { "npx": { "package": package, "args": ["--acp"] } } })
    };
    let list = json!({ "version": "1.0.0", "agents": [
        // What the stand-in for npm installs is called so.
        entry_of("gemini-of-others", "gemini@9.9.9"),
        entry_of("opencode", "opencode-ai@9.9.9"),
        entry_of("bad", "--global"),
    ] });
    let file = stage.path("registry.json");
    std::fs::write(&file, list.to_string()).unwrap();
    let imported = instance.api("agents_import", json!({ "path": file })).await;
    assert_eq!(imported["ids"], json!(["gemini-of-others"]), "{imported}");
    assert_eq!(imported["skipped"].as_array().unwrap().len(), 2, "{imported}");
    let wrong = instance.post("/api/agents_import", &json!({ "text": "[]" })).await;
    assert_eq!(wrong.body["error"]["code"], "VALIDATION_ERROR", "{wrong:?}");

    let id = json!({ "id": "gemini-of-others" });
    let installed = instance.api("agents_install", id.clone()).await;
    assert_eq!((&installed["installed"], &installed["version"]), (&json!(true), &json!("9.9.9")));
    assert_ne!(entry(&instance, "opencode").await["install"]["version"], "9.9.9");
    instance.quit().await;

    // It is there for the next start too.
    let mut instance = start(&stage, &[&stage.path("bin")]).await;
    let request = json!({
        "project_id": "p", "prompt": "ECHO hello",
        "agent_config": { "agent_server": { "agent_id": "gemini-of-others" }, "context_servers": {} },
    });
    assert_eq!(instance.turn(request, BOUND).await.1, "hello");
    instance.api("agents_uninstall", id).await;
    instance.quit().await;
    stage.finish().await;
}

/// A server that answers every request like this.
async fn serve(answer: (&'static str, String)) -> (String, tokio::task::JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/agents.json", listener.local_addr().unwrap());
    let app = axum::Router::new().fallback(move || {
        let (place, body) = answer.clone();
        async move {
            let status = if place.is_empty() { 200 } else { 302 };
            axum::http::Response::builder()
                .status(status)
                .header("location", place)
                .body(axum::body::Body::from(body))
                .unwrap()
        }
    });
    let served = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (url, served)
}

#[tokio::test]
async fn a_list_is_fetched_looked_at_and_taken_in_in_part() {
    let stage = Stage::shared().await;
    let mut instance = start(&stage, &[]).await;
    let one = |id: &str| {
        json!({ "id": id, "name": id.to_uppercase(), "version": "1.0.0", "description": "about it",
                "distribution": { "npx": { "package": format!("{id}@1.2.3"), "args": ["--acp"] } } })
    };
    let list =
        json!({ "version": "1.0.0", "agents": [one("new-a"), one("new-b"), one("opencode")] });
    let (url, served) = serve(("", list.to_string())).await;

    // To look changes nothing.
    let seen = instance.api("agents_import", json!({ "url": url, "preview": true })).await;
    assert_eq!(seen["ids"], json!(["new-a", "new-b"]), "{seen}");
    assert_eq!(seen["agents"][0]["from"], "npm: new-a 1.2.3");
    assert_eq!(seen["agents"][0]["command"], json!(["new-a", "--acp"]));
    assert_eq!(seen["skipped"][0]["id"], "opencode");
    let agents = instance.api("agents_list", json!({})).await.to_string();
    assert!(!agents.contains("new-a"), "{agents}");

    // What was looked at is what is taken in, and of it what was chosen.
    let chosen = json!({ "text": seen["text"], "ids": ["new-b"] });
    let taken = instance.api("agents_import", chosen).await;
    assert_eq!(taken["ids"], json!(["new-b"]), "{taken}");
    let agents = instance.api("agents_list", json!({})).await.to_string();
    assert!(agents.contains("new-b") && !agents.contains("new-a"), "{agents}");
    served.abort();

    let (long, served) = serve(("", "x".repeat(9 << 20))).await;
    let (other, elsewhere) = serve(("http://example.com/agents.json", String::new())).await;
    let (page, no_list) = serve(("", "<html></html>".to_owned())).await;
    for (input, word) in [
        (json!({ "url": long }), "longer than 8 MiB"),
        (json!({ "url": other }), "only https"),
        (json!({ "url": page }), "registry's format"),
        (json!({ "url": "http://example.com/agents.json" }), "only https"),
        (json!({ "url": "https://u:s3cret@localhost/" }), "password"),
        (json!({ "url": "file:///etc/passwd" }), "only https"),
        (json!({ "url": url, "text": "{}" }), "one of"),
        (json!({ "text": list.to_string(), "ids": ["nobody"] }), "nobody"),
    ] {
        let refused = instance.post("/api/agents_import", &input).await;
        let said = refused.body["error"]["message"].as_str().unwrap_or_default();
        assert!(said.contains(word), "{input}: {said}");
        assert_eq!(refused.body["error"]["code"], "VALIDATION_ERROR", "{input}");
    }
    [served, elsewhere, no_list].iter().for_each(tokio::task::JoinHandle::abort);
    instance.quit().await;
    stage.empty_but(&[], Duration::from_millis(100)).await;
    stage.finish().await;
}

/// Real ones that lie in `PATH`; the variables that lead them to the model are those
/// of the list.
#[tokio::test]
async fn installed_agents_are_found_and_led_to_a_custom_endpoint() {
    let stage = Stage::shared().await;
    let model = Model::start(&stage).await;
    let node = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .find(|folder| folder.join("node").is_file())
        .expect("node in PATH");
    let opencode = npm::agent("opencode", "opencode-linux-x64/bin/opencode");
    let claude = npm::agent("claude", ".bin/claude-agent-acp");
    let folders = [opencode.parent().unwrap(), claude.parent().unwrap(), &node];
    let mut instance = start(&stage, &folders).await;
    for (id, path) in [("opencode", &opencode), ("claude", &claude)] {
        let found = entry(&instance, id).await;
        assert_eq!(found["path"], path.display().to_string(), "{found}");
        assert_eq!(found["install"]["managed"], false, "{found}");
    }
    assert_eq!(entry(&instance, "claude").await["version"], "0.49.0");
    for (id, protocol, base) in [
        ("claude", "anthropic", model.url.clone()),
        ("opencode", "openai", format!("{}/v1", model.url)),
    ] {
        let request = json!({
            "project_id": id, "prompt": "DO: SAY led here",
            "model_provider": {
                "base_url": base, "api_key": "x", "model": "fake-model", "api_protocol": protocol,
            },
            "agent_config": {
                "agent_server": {
                    "agent_id": id,
                    "env": { "IS_SANDBOX": "", "OPENCODE_DISABLE_MODELS_FETCH": "1",
                             "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1" },
                },
                "context_servers": {},
            },
        });
        let (answer, text) = instance.turn(request, BOUND).await;
        assert!(text.contains("led here"), "{id}: {answer}\n{text}");
        let requests = model.requests();
        let asked = requests.last().unwrap();
        assert_eq!(asked["body"]["model"], "fake-model", "{id}");
    }
    instance.quit().await;
    model.stop().await;
    stage.finish().await;
}

#[tokio::test]
async fn the_users_configuration_of_npm_does_not_lead_an_installation_elsewhere() {
    let stage = Stage::shared().await;
    fake_npm(&stage);
    let mut instance = Instance::start_with(&stage, |command| {
        command.env("PATH", format!("{}:/usr/bin:/bin", stage.path("bin").display()));
        command.env("npm_config_global", "true").env("npm_config_prefix", "/nowhere");
    })
    .await;
    instance.api("agents_install", json!({ "id": "gemini" })).await;
    let log = instance.api("agents_log", json!({ "id": "gemini" })).await.to_string();
    assert!(log.contains("--global=false") && log.contains("--prefix=."), "{log}");
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_session_follows_its_agent_when_that_is_saved_otherwise() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let agent = |mode: &str| {
        let mut config = programs::fake_agent(json!({ "MODE": mode, "API_KEY": "k3y-of-mine" }));
        config["name"] = json!("Mine");
        json!({ "id": "mine", "config": config })
    };
    instance.api("agents_save", agent("one")).await;
    let session = json!({ "project_dir": stage.path(""), "agent": "mine" });
    let session = instance.api("session_create", session).await["session"]["id"].clone();
    let prompt = json!({ "session": session, "content": [{ "type": "text", "text": "ECHO on" }] });
    for (change, outcome) in [(None, "reused"), (Some("two"), "recreated"), (None, "reused")] {
        idle(&instance, &session).await;
        if let Some(mode) = change {
            instance.api("agents_save", agent(mode)).await;
        }
        let accepted = instance.api("session_prompt", prompt.clone()).await;
        assert_eq!(accepted["engine"], outcome, "{accepted}");
        idle(&instance, &session).await;
    }
    // Its secrets are not kept with the session, but with the agent.
    instance.quit().await;
    let mut instance = Instance::start(&stage).await;
    instance.api("session_prompt", prompt).await;
    idle(&instance, &session).await;
    let pid =
        instance.api("sessions_list", json!({})).await["sessions"][0]["engine"]["pid"].clone();
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(String::from_utf8_lossy(&environment).contains("API_KEY=k3y-of-mine"));
    instance.quit().await;
    stage.finish().await;
}
