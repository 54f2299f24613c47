//! `server-everything` held against itself: every feature called over its pipes
//! and through the bridge, by a client that can do all a client can be asked
//! for. What comes back is the same, field by field, and so is what the server
//! asks and tells.

use gantry_tests::{FullClient, Instance, Stage, npm, stage::pretty};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::PathBuf, process::Stdio, time::Duration};

const BOUND: Duration = Duration::from_secs(30);

const CHANGED_TOOLS: &str = "notifications/tools/list_changed";

/// Read by Node before the server: what is different at each start (time and chance) is not, and
/// what the server repeats every few seconds it says once. All else can then be compared as it is.
const STILL: &str = r"
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
let count = 0;
crypto.randomBytes = (size) => Buffer.alloc(size, ++count);
crypto.randomUUID = () => `00000000-0000-4000-8000-${String(++count).padStart(12, '0')}`;
syncBuiltinESMExports();
Date.prototype.toLocaleTimeString = () => 'noon';
Date.prototype.toISOString = () => '2026-07-28T12:00:00.000Z';
Math.random = () => 0.3;
globalThis.setInterval = () => 0;
";

fn still(stage: &Stage) -> PathBuf {
    let path = stage.path("still.mjs");
    std::fs::write(&path, STILL).unwrap();
    path
}

fn arguments(stage: &Stage) -> Vec<String> {
    let script = npm::server_everything();
    let texts = [PathBuf::from("--import"), still(stage), script, PathBuf::from("stdio")];
    texts.iter().map(|text| text.to_string_lossy().into_owned()).collect()
}

/// What one run of the script gave.
struct Run {
    client: FullClient,
    /// What was asked, and the whole answer without its id.
    answers: Vec<(String, Value)>,
    /// The answer of `get-env`.
    environment: Value,
    /// What it told of its tools at its own start is heard by who was there: behind the bridge,
    /// nobody yet. So many such messages are left out.
    at_the_start: usize,
}

impl Run {
    /// What the server sent by itself, by method, in order within a method.
    fn heard(&self) -> BTreeMap<String, Vec<Value>> {
        let mut heard: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for message in self.client.heard() {
            let method = message["method"].as_str().unwrap_or_default().to_owned();
            heard.entry(method).or_default().push(message["params"].clone());
        }
        if let Some(changes) = heard.get_mut(CHANGED_TOOLS) {
            changes.drain(..self.at_the_start);
        }
        heard.retain(|_, all| !all.is_empty());
        heard
    }
}

/// Asks, and notes the answer under a name.
struct Script<'a> {
    client: &'a FullClient,
    answers: Vec<(String, Value)>,
}

impl Script<'_> {
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let name = format!("{method} {params}");
        let mut answer = self.client.request(method, params).await.unwrap();
        answer.as_object_mut().unwrap().remove("id");
        self.answers.push((name, answer.clone()));
        answer
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }
}

/// Every feature of the server, in an order in which each step can be awaited.
async fn everything(client: FullClient) -> Run {
    let mut script = Script { client: &client, answers: Vec::new() };
    script.answers.push(("initialize".to_owned(), client.initialized()));
    // The server asks for the roots soon after the start, and says that it has them.
    client.hears("roots/list", 1).await;
    client.hears("notifications/message", 1).await;
    let at_the_start = client.heard_of(CHANGED_TOOLS).len();

    lists_and_reads(&mut script).await;
    plain_tools(&mut script).await;
    asks_of_the_client(&mut script).await;
    told_by_the_server(&mut script).await;
    a_task(&mut script).await;
    cancelled(&mut script).await;

    let answers = script.answers;
    let environment = environment(&client).await;
    Run { client, answers, environment, at_the_start }
}

async fn lists_and_reads(script: &mut Script<'_>) {
    for method in
        ["ping", "tools/list", "resources/list", "resources/templates/list", "prompts/list"]
    {
        script.ask(method, json!({})).await;
    }
    for uri in [
        "demo://resource/dynamic/text/1",
        "demo://resource/dynamic/blob/2",
        "demo://resource/static/document/features.md",
        "demo://resource/dynamic/text/none",
        "demo://none/such",
    ] {
        script.ask("resources/read", json!({ "uri": uri })).await;
    }
    for (name, arguments) in [
        ("simple-prompt", json!({})),
        ("args-prompt", json!({ "city": "São Paulo", "state": "SP" })),
        ("completable-prompt", json!({ "department": "Sales", "name": "Eve" })),
        ("resource-prompt", json!({ "resourceType": "Text", "resourceId": "3" })),
        ("resource-prompt", json!({ "resourceType": "Text", "resourceId": "none" })),
        ("no-such-prompt", json!({})),
    ] {
        script.ask("prompts/get", json!({ "name": name, "arguments": arguments })).await;
    }
    let prompt = json!({ "type": "ref/prompt", "name": "completable-prompt" });
    let template =
        json!({ "type": "ref/resource", "uri": "demo://resource/dynamic/text/{resourceId}" });
    for (from, name, value) in
        [(&prompt, "department", "S"), (&prompt, "name", "E"), (&template, "resourceId", "7")]
    {
        let params = json!({
            "ref": from, "argument": { "name": name, "value": value },
            "context": { "arguments": { "department": "Sales" } },
        });
        script.ask("completion/complete", params).await;
    }
    script.ask("x/no-such-method", json!({ "x-own": [1, 1.0, null] })).await;
}

async fn plain_tools(script: &mut Script<'_>) {
    let data = "data:text/plain;base64,R2FudHJ5";
    for (tool, arguments) in [
        ("echo", json!({ "message": "é\u{2028}\"\\ 🎷" })),
        ("echo", json!({ "message": 1 })),
        ("get-annotated-message", json!({ "messageType": "error", "includeImage": true })),
        ("get-annotated-message", json!({ "messageType": "debug" })),
        ("get-resource-links", json!({ "count": 3 })),
        ("get-resource-reference", json!({ "resourceType": "Blob", "resourceId": 4 })),
        ("get-structured-content", json!({ "location": "Chicago" })),
        ("get-sum", json!({ "a": 0.1, "b": 2e21 })),
        ("get-tiny-image", json!({})),
        (
            "gzip-file-as-resource",
            json!({ "name": "a.gz", "data": data, "outputType": "resource" }),
        ),
        (
            "gzip-file-as-resource",
            json!({ "name": "b.gz", "data": data, "outputType": "resourceLink" }),
        ),
        ("get-roots-list", json!({})),
        ("no-such-tool", json!({})),
    ] {
        script.call(tool, arguments).await;
    }
    // The list has changed by what the last tools made, and can be read.
    script.ask("resources/list", json!({})).await;
    script.ask("resources/read", json!({ "uri": "demo://resource/session/b.gz" })).await;
}

async fn asks_of_the_client(script: &mut Script<'_>) {
    let url = json!({ "url": "https://example.org/sign-in", "elicitationId": "mine" });
    let by_error = json!({ "url": "https://example.org/sign-in", "errorPath": true });
    for (tool, arguments) in [
        ("trigger-sampling-request", json!({ "prompt": "What?", "maxTokens": 5 })),
        ("trigger-elicitation-request", json!({})),
        ("trigger-url-elicitation", url),
        ("trigger-url-elicitation", by_error),
    ] {
        script.call(tool, arguments).await;
    }
    // New roots are asked for anew.
    let (roots, messages) = (
        script.client.heard_of("roots/list").len(),
        script.client.heard_of("notifications/message").len(),
    );
    script.client.notify("notifications/roots/list_changed", json!({})).await.unwrap();
    script.client.hears("roots/list", roots + 1).await;
    script.client.hears("notifications/message", messages + 1).await;
}

async fn told_by_the_server(script: &mut Script<'_>) {
    let client = script.client;
    for (token, steps) in [(json!("a token"), 4), (json!(7), 2)] {
        let before = client.heard_of("notifications/progress").len();
        let params = json!({
            "name": "trigger-long-running-operation",
            "arguments": { "duration": 0.2, "steps": steps }, "_meta": { "progressToken": token },
        });
        script.ask("tools/call", params).await;
        client.hears("notifications/progress", before + steps).await;
    }

    let uri = json!({ "uri": "demo://resource/dynamic/text/5" });
    let messages = client.heard_of("notifications/message").len();
    script.ask("resources/subscribe", uri.clone()).await;
    client.hears("notifications/message", messages + 1).await;
    script.call("toggle-subscriber-updates", json!({})).await;
    client.hears("notifications/resources/updated", 1).await;
    script.call("toggle-subscriber-updates", json!({})).await;
    script.ask("resources/unsubscribe", uri).await;
    client.hears("notifications/message", messages + 2).await;

    // The level holds: of a notice nothing is heard above it, and one is heard again below it.
    script.ask("logging/setLevel", json!({ "level": "error" })).await;
    script.call("toggle-simulated-logging", json!({})).await;
    script.call("toggle-simulated-logging", json!({})).await;
    script.ask("logging/setLevel", json!({ "level": "debug" })).await;
    script.call("toggle-simulated-logging", json!({})).await;
    client.hears("notifications/message", messages + 3).await;
    script.call("toggle-simulated-logging", json!({})).await;
    script.ask("logging/setLevel", json!({ "level": "no such level" })).await;
}

/// A call that is answered with a task; its result needs an answer of the client.
async fn a_task(script: &mut Script<'_>) {
    let params = json!({
        "name": "simulate-research-query", "arguments": { "topic": "python", "ambiguous": true },
        "task": { "ttl": 60_000 },
    });
    let begun = script.ask("tools/call", params).await;
    let id = json!({ "taskId": begun["result"]["task"]["taskId"] });
    assert!(id["taskId"].is_string(), "{begun}");
    let result = script.ask("tasks/result", id.clone()).await;
    assert!(result["result"]["content"][0]["text"].is_string(), "{result}");
    script.ask("tasks/get", id.clone()).await;
    script.ask("tasks/list", json!({})).await;
    script.ask("tasks/cancel", id).await;
    script.ask("tasks/get", json!({ "taskId": "none" })).await;
}

/// A cancelled request gets no result, and the server goes on. Over HTTP something has to end
/// the response that waits: an error that says so.
async fn cancelled(script: &mut Script<'_>) {
    let slow = |seconds: f64| {
        let arguments = json!({ "duration": seconds, "steps": 1 });
        json!({ "name": "trigger-long-running-operation", "arguments": arguments })
    };
    let (id, mut answer) = script.client.begin("tools/call", slow(4.0)).await.unwrap();
    // Over HTTP each takes a way of its own: when a call of some length is over, the request is
    // there before its cancellation.
    script.ask("tools/call", slow(0.5)).await;
    let cancel = json!({ "requestId": id, "reason": "on second thoughts" });
    script.client.notify("notifications/cancelled", cancel).await.unwrap();
    // A second call takes longer than what is left of the first.
    script.ask("tools/call", slow(4.5)).await;
    if let Ok(answer) = answer.try_recv() {
        let why = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(script.client.is_http() && why.contains("cancelled"), "{answer}");
    }
}

/// The environment of the two is not the same, and must not be; the rest is.
async fn environment(client: &FullClient) -> Value {
    let params = json!({ "name": "get-env", "arguments": {} });
    let mut answer = client.request("tools/call", params).await.unwrap();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    let variables: Value = serde_json::from_str(&text).unwrap();
    assert!(variables["PATH"].is_string() && variables["MARK"] == "both", "{variables}");
    answer["result"]["content"][0]["text"] = Value::Null;
    answer["id"] = Value::Null;
    answer
}

async fn direct(stage: &Stage) -> Run {
    let mut command = stage.command("node");
    command.args(arguments(stage)).env("MARK", "both");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = command.spawn().unwrap();
    let (input, output) = (server.stdin.take().unwrap(), server.stdout.take().unwrap());
    let run = everything(FullClient::stdio(input, output).await.unwrap()).await;
    server.kill().await.unwrap();
    run
}

async fn through(stage: &Stage, instance: &Instance) -> Run {
    let config = json!({
        "command": "node", "args": arguments(stage), "env": { "MARK": "both" }, "persistent": true,
    });
    instance.api("servers_save", json!({ "name": "everything", "config": config })).await;
    let server = instance.server_in("everything", "ready", BOUND).await;
    let client = FullClient::http(server["url"].as_str().unwrap(), &instance.token).await;
    everything(client.unwrap()).await
}

#[tokio::test]
async fn everything_is_the_same_directly_and_through_the_bridge() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let (direct, bridged) = futures::future::join(direct(&stage), through(&stage, &instance)).await;
    assert_eq!(direct.environment, bridged.environment);
    assert_eq!(direct.answers.len(), bridged.answers.len());
    for ((name, directly), (same, through)) in direct.answers.iter().zip(&bridged.answers) {
        assert_eq!(name, same);
        assert_eq!(directly, through, "{name}:\n{}\n{}", pretty(directly), pretty(through));
    }
    for (name, answer) in &direct.answers {
        let may_fail = ["none", "no-such", "no such", "errorPath", "\"message\":1", "tasks/cancel"];
        let failed = answer.get("error").is_some() || answer["result"]["isError"] == true;
        assert_eq!(failed, may_fail.iter().any(|part| name.contains(part)), "{name}: {answer}");
    }

    // What belongs to no request comes on a stream of its own, perhaps a little later.
    let expected = direct.heard();
    for (method, all) in expected.iter().filter(|(method, _)| *method != CHANGED_TOOLS) {
        bridged.client.hears(method, all.len()).await;
    }
    let heard = bridged.heard();
    for (method, all) in &expected {
        assert_eq!(heard.get(method), Some(all), "{method}");
    }
    assert!(heard.keys().eq(expected.keys()), "{:?} {:?}", heard.keys(), expected.keys());
    // Nothing of this was empty talk: each kind was seen, and every tool called.
    for kind in [
        "elicitation/create",
        "notifications/message",
        "notifications/progress",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
        "roots/list",
        "sampling/createMessage",
    ] {
        assert!(expected.contains_key(kind), "{kind} was not seen: {:?}", expected.keys());
    }
    let listed = direct.answers.iter().find(|(name, _)| name.starts_with("tools/list")).unwrap();
    for tool in listed.1["result"]["tools"].as_array().unwrap() {
        let call = format!("\"name\":{}", tool["name"]);
        let called = tool["name"] == "get-env"
            || direct.answers.iter().any(|(name, _)| name.contains(&call));
        assert!(called, "{} was not called", tool["name"]);
    }
    drop((direct, bridged));
    instance.quit().await;
    stage.finish().await;
}
