//! Requests made from the OpenAPI document, as they should be and as they should not, by a
//! property-based tester: no server error, no hang, no answer that the document does not know.

use gantry_tests::{Instance, Stage, programs, python};
use reqwest::Method;
use serde_json::{Value, json};
use std::{process::Stdio, time::Duration};

/// What is held against each answer.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,unsupported_method,\
    allow_header_conformance,ignored_auth";
/// What would end the instance, install something, or never end by design.
const LEFT_OUT: &[&str] = &[
    "/api/quit",
    "/api/agents_install",
    "/api/agents_uninstall",
    "/events",
    "/computer/progress/{session}",
    "/mcp/{server}",
];
/// Seconds of the run. `GANTRY_LOAD=long` takes ten times as many.
const SPAN: u64 = 30;
/// Fewer requests have seen nothing.
const ENOUGH: u64 = 50;

#[tokio::test]
async fn requests_from_the_document_get_answers_that_it_knows() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let config = json!({ "name": "Fake", "command": programs::path("fake_agent") });
    instance.api("agents_save", json!({ "id": "fake", "config": config })).await;
    let kept = json!({ "name": "kept", "config": programs::fake_mcp(&[]) });
    instance.api("servers_save", kept).await;
    // One that fails whoever asks: that is answered with 502, which is no fault of Gantry's.
    let broken = json!({ "name": "broken", "config": { "command": "/no/such/server" } });
    instance.api("servers_save", broken).await;
    let request = json!({ "project_id": "p", "prompt": "ECHO here",
        "agent_config": { "agent_server": programs::fake_agent(json!({})) } });
    let (answer, _) = instance.turn(request, Duration::from_secs(30)).await;

    let is_long = std::env::var("GANTRY_LOAD").is_ok_and(|value| value == "long");
    let first = if is_long { 10 * SPAN } else { SPAN };
    // A machine that is busy with other things gets little done in the first span.
    for span in [first, 4 * first] {
        let cases = run(&stage, &instance, &answer["session_id"], span).await;
        if cases > ENOUGH {
            break;
        }
        assert!(span == first, "{cases} cases only in {span} s");
    }

    let health = instance.send(instance.request(Method::GET, "/health")).await;
    assert_eq!(health.body["status"], "ok");
    instance.quit().await;
    stage.finish().await;
}

/// Lets it look for so many seconds, and returns how many requests it made.
async fn run(stage: &Stage, instance: &Instance, session: &Value, span: u64) -> u64 {
    let mut tester = stage.command(python::program("schemathesis"));
    let hooks = concat!(env!("CARGO_MANIFEST_DIR"), "/schemathesis");
    tester.args(["--config-file", &format!("{hooks}/schemathesis.toml")]);
    tester.arg("run").arg(format!("{}/api/openapi.json", instance.url));
    tester.args(["--header", &format!("Authorization: Bearer {}", instance.token)]);
    tester.args(["--checks", CHECKS, "--phases", "examples,coverage,fuzzing"]);
    tester.args(["--max-time", &span.to_string(), "--request-timeout", "60"]);
    tester.args(["--suppress-health-check", "all", "--warnings", "off", "--seed", "20261130"]);
    for path in LEFT_OUT {
        tester.args(["--exclude-path", path]);
    }
    tester.env("SCHEMATHESIS_HOOKS", "hooks").env("PYTHONPATH", hooks);
    tester.env("PYTHONDONTWRITEBYTECODE", "1").env("NO_COLOR", "1");
    tester.env("FAKE_AGENT", programs::path("fake_agent"));
    tester.env("FAKE_MCP", programs::path("fake_mcp"));
    tester.env("REAL_SESSION", session.as_str().unwrap());
    tester.env("REAL_PROJECT", stage.path("project"));
    tester.stdin(Stdio::null());
    let bound = Duration::from_secs(3 * span + 60);
    let output = tokio::time::timeout(bound, tester.output()).await.expect("it ends").unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    let said = said.replace(&instance.token, "(the token)");
    assert_eq!(output.status.code(), Some(0), "{said}\n{errors}\n{}", instance.log());
    let cases = said.lines().find_map(|line| line.trim().split_once(" generated"));
    cases.and_then(|(count, _)| count.parse().ok()).unwrap_or(0)
}
