//! `gantry mcp --recall` on the database of an application that runs, was quit, or was killed.

use gantry_tests::{Instance, McpClient, Proxy, Stage, programs, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{path::Path, time::Duration};

const BOUND: Duration = Duration::from_secs(20);

async fn turn(instance: &Instance, session: Option<&str>, prompt: &str) -> String {
    let mut request = json!({
        "project_id": "p", "prompt": prompt,
        "agent_config": { "agent_server": programs::fake_agent(json!({})), "context_servers": {} },
    });
    if let Some(session) = session {
        request["session_id"] = json!(session);
    }
    let (answer, _) = instance.turn(request, BOUND).await;
    answer["session_id"].as_str().unwrap().to_owned()
}

async fn recall(stage: &Stage) -> Proxy {
    let data = stage.data_dir().display().to_string();
    Proxy::start(stage, &["--recall", "--data-dir", &data]).await
}

async fn ask(client: &McpClient, tool: &str, arguments: Value) -> Value {
    let result = client.call(tool, arguments).await.unwrap();
    assert_ne!(result["isError"], true, "{result}");
    result["structuredContent"].clone()
}

/// The hits, once there are any: a turn can be found when its end is on the disk.
async fn hits(client: &McpClient, query: &str) -> Vec<Value> {
    wait_until(query, BOUND, async || {
        let answer = ask(client, "search", json!({ "query": query })).await;
        answer["hits"].as_array().cloned().filter(|hits| !hits.is_empty())
    })
    .await
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("gantry.db"))
        .collect();
    names.sort();
    names
}

/// Opened in a way that writes nothing either.
fn integrity(database: &Path) -> String {
    let uri = format!("file:{}?immutable=1", database.display());
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_URI;
    let connection = rusqlite::Connection::open_with_flags(uri, flags).unwrap();
    connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap()
}

/// While turns are written, searches find what has ended; and nothing of recall is left behind.
#[tokio::test]
async fn recall_reads_while_the_application_writes_and_leaves_no_journal() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let session = turn(&instance, None, "ECHO 如何配置连接池 needle-one").await;
    let proxy = recall(&stage).await;
    assert_eq!(proxy.client.tool_names().await.unwrap(), ["get", "search", "status"]);
    let found = hits(&proxy.client, "连接池").await;
    assert_eq!((&found[0]["session"], &found[0]["turn"]), (&json!(session), &json!(1)));
    assert!(found[0]["snippet"].as_str().unwrap().contains("«连接池»"), "{found:?}");
    // Two characters are fewer than the three of the index.
    assert!(!hits(&proxy.client, "配置").await.is_empty());

    let writes = async {
        for number in 0..12 {
            turn(&instance, Some(&session), &format!("ECHO word-{number} common")).await;
        }
    };
    let reads = async {
        for _ in 0..100 {
            ask(&proxy.client, "search", json!({ "query": "common", "limit": 5 })).await;
        }
    };
    futures::future::join(writes, reads).await;
    assert_eq!(hits(&proxy.client, "word-11").await[0]["turn"], 13);
    let bounded = ask(&proxy.client, "search", json!({ "query": "common", "limit": 5 })).await;
    assert_eq!(bounded["hits"].as_array().unwrap().len(), 5, "{bounded}");
    let shown = json!({ "session": session, "turn": 5, "before": 1, "after": 2 });
    let shown = ask(&proxy.client, "get", shown).await;
    let turns: Vec<_> =
        shown["said"].as_array().unwrap().iter().map(|said| &said["turn"]).collect();
    assert_eq!((turns[0], turns[turns.len() - 1]), (&json!(4), &json!(7)), "{shown}");
    let refused = proxy.client.call("search", json!({ "query": "\"open" })).await.unwrap();
    assert_eq!(refused["isError"], true);
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("not closed"), "{refused}");

    instance.quit().await;
    // The one that reads is still there, and holds nothing.
    let database = stage.data_dir().join("gantry.db");
    assert_eq!(files(&stage.data_dir()), ["gantry.db"]);
    let before = std::fs::read(&database).unwrap();
    let status = ask(&proxy.client, "status", json!({})).await;
    assert_eq!((&status["sessions"], &status["turns"]), (&json!(1), &json!(13)), "{status}");
    proxy.finish().await;
    assert_eq!(files(&stage.data_dir()), ["gantry.db"]);
    assert!(std::fs::read(&database).unwrap() == before, "reading changed the file");
    assert_eq!(integrity(&database), "ok");
    stage.finish().await;
}

/// One that was killed leaves its journal; what had reached it is found, and it stays as it is
/// for the application to come.
#[tokio::test]
async fn recall_reads_what_a_killed_application_left() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    turn(&instance, None, "ECHO last-words before the end").await;
    let proxy = recall(&stage).await;
    hits(&proxy.client, "last-words").await;
    instance.signal(Signal::KILL);
    instance.ended(BOUND).await;
    let left = files(&stage.data_dir());
    assert!(left.contains(&"gantry.db-wal".to_owned()), "{left:?}");
    let journal = std::fs::read(stage.data_dir().join("gantry.db-wal")).unwrap();
    assert!(!hits(&proxy.client, "last-words").await.is_empty());
    proxy.finish().await;
    let again = recall(&stage).await;
    assert!(!hits(&again.client, "last-words").await.is_empty());
    again.finish().await;
    let now = std::fs::read(stage.data_dir().join("gantry.db-wal")).unwrap();
    assert!(now == journal, "reading changed the journal");
    let mut instance = Instance::start(&stage).await;
    instance.quit().await;
    assert_eq!(files(&stage.data_dir()), ["gantry.db"]);
    assert_eq!(integrity(&stage.data_dir().join("gantry.db")), "ok");
    stage.finish().await;
}

/// It is a default server, and stands behind the bridge like any other.
#[tokio::test]
async fn recall_is_there_on_a_fresh_data_directory_also_through_the_bridge() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start_with(&stage, |command| {
        command.env("GANTRY_DEFAULT_SERVERS", "recall");
    })
    .await;
    let server = instance.server("recall").await.expect("it is saved");
    assert_eq!(server["enabled"], true, "{server}");
    let session = turn(&instance, None, "ECHO through the bridge 数据库").await;
    // The agent asks; what it looks for is not in its own words.
    let request = json!({
        "project_id": "p", "prompt": "CALLON recall search {\"query\":\"through 数据库 -CALLON\"}",
        "agent_config": {
            "agent_server": programs::fake_agent(json!({})),
            "context_servers": { "recall": { "command": "gantry", "args": ["mcp", "--recall"] } },
        },
    });
    wait_until("the agent finds it", BOUND, async || {
        let (answer, text) = instance.turn(request.clone(), BOUND).await;
        let via = &answer["servers"][0]["via"];
        assert_eq!(via, "bridge", "{answer}");
        (text.contains(&session) && text.contains("«数据库»")).then_some(())
    })
    .await;
    instance.quit().await;
    assert_eq!(files(&stage.data_dir()), ["gantry.db"]);
    stage.finish().await;
}
