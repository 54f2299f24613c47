//! The official conformance suite: every scenario against a server directly,
//! and against the same server through the bridge with the URL and token that a
//! session's agent was given. The verdicts are the same, check by check.

use gantry_tests::{
    Front, Instance, Stage,
    conformance::{Direct, Suite, Verdicts, complaints, differences, doubtful},
    programs, record,
};
use serde_json::{Value, json};
use std::time::Duration;

/// Opens a session with the fixture, and returns what its agent was given: URL and bearer.
async fn of_a_session(stage: &Stage, instance: &Instance, era: Era) -> (String, String) {
    let record = stage.path("agent.jsonl");
    let env = json!({ "FAKE_AGENT_RECORD": record });
    let server =
        json!({ "command": programs::path("conformance_fixture"), "args": era.arguments() });
    let request = json!({
        "project_id": "p", "prompt": "TOOLS",
        "agent_config": {
            "agent_server": programs::fake_agent(env), "context_servers": { "fixture": server } },
    });
    let (answer, text) = instance.turn(request, Duration::from_secs(30)).await;
    assert!(text.contains("test_simple_text"), "{answer} {text}");
    let entry = &record::events(&record, "tools")[0]["entry"];
    let header = &entry["headers"][0];
    assert_eq!(header["name"].as_str().map(str::to_lowercase).as_deref(), Some("authorization"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&entry["url"]), text(&header["value"]))
}

/// What the server behind the bridge speaks. By itself it speaks everything.
#[derive(Clone, Copy)]
enum Era {
    /// The revisions with `initialize`.
    Initialize,
    /// 2026-07-28, and nothing else.
    Modern,
}

impl Era {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Initialize => &[],
            Self::Modern => &["--modern"],
        }
    }
}

/// The server by itself and the same behind the bridge, each with its URL for the suite.
struct Both {
    stage: Stage,
    instance: Instance,
    direct: Direct,
    front: Front,
    through: String,
    /// So that no run reads what another wrote.
    runs: u32,
}

impl Both {
    async fn start(era: Era) -> Self {
        let stage = Stage::shared().await;
        let instance = Instance::start(&stage).await;
        let direct = Direct::start(&stage, &[]).await;
        let (url, bearer) = of_a_session(&stage, &instance, era).await;
        let front = Front::start(&instance.url, &bearer).await;
        let through = format!("{}{}", front.url, url.strip_prefix(&instance.url).unwrap());
        Self { stage, instance, direct, front, through, runs: 0 }
    }

    /// Runs the suite both ways at once.
    async fn run(&mut self, suite: Suite, options: &[&str]) -> (Verdicts, Verdicts) {
        self.runs += 1;
        let folder = |way: &str| self.stage.path(format!("{way}-{}", self.runs));
        let (direct, through) = (folder("direct"), folder("through"));
        futures::future::join(
            suite.run(&self.direct.url, options, &direct),
            suite.run(&self.through, options, &through),
        )
        .await
    }

    async fn end(mut self) {
        drop(self.front);
        self.direct.end().await;
        self.instance.quit().await;
        self.stage.finish().await;
    }
}

/// Runs all of a suite both ways and holds the verdicts against each other. The suite waits for
/// some things less than a second, which a busy machine may need: a scenario that is in doubt is
/// run again, alone. What is a difference stays one.
async fn no_difference(suite: Suite, revision: Option<&str>, era: Era, least: usize) {
    let mut both = Both::start(era).await;
    let of_revision: Vec<&str> =
        revision.iter().flat_map(|revision| ["--spec-version", revision]).collect();
    let all = [&["--suite", "all"], of_revision.as_slice()].concat();
    let (mut directly, mut bridged) = both.run(suite, &all).await;
    for _ in 0..2 {
        for scenario in doubtful(&directly, &bridged) {
            println!("in doubt, run again: {scenario}");
            let one = [&["--scenario", &scenario], of_revision.as_slice()].concat();
            let (direct, through) = both.run(suite, &one).await;
            directly.extend(direct);
            bridged.extend(through);
        }
    }
    let complaints = complaints(&directly);
    assert!(complaints.is_empty(), "the fixture itself does not conform:\n{complaints}");
    let differences = differences(&directly, &bridged);
    assert!(differences.is_empty(), "the bridge makes a difference:\n{differences}");
    // None of it is empty talk: each scenario was run, and nearly each has a check that passed.
    let passed = directly.values().flatten().filter(|check| check.status == "SUCCESS").count();
    assert!(directly.len() >= least && passed >= least, "{} scenarios", directly.len());
    both.end().await;
}

#[tokio::test]
async fn the_stable_suite_sees_no_difference_between_a_server_and_the_bridge() {
    let scenarios = Suite::Stable.scenarios();
    assert_eq!(scenarios.len(), 32, "{scenarios:?}");
    no_difference(Suite::Stable, None, Era::Initialize, scenarios.len()).await;
}

#[tokio::test]
async fn the_next_suite_sees_no_difference_in_revision_2025_11_25() {
    no_difference(Suite::Next, Some("2025-11-25"), Era::Initialize, 33).await;
}

#[tokio::test]
async fn the_next_suite_sees_no_difference_in_revision_2026_07_28() {
    no_difference(Suite::Next, Some("2026-07-28"), Era::Modern, 40).await;
}

/// The comparison itself: where the bridge does make a difference, by a filter, it is seen.
#[tokio::test]
async fn a_difference_would_be_seen() {
    let mut both = Both::start(Era::Initialize).await;
    let mut config = json!({ "command": programs::path("conformance_fixture"), "args": [] });
    config["persistent"] = json!(true);
    config["denyTools"] = json!(["test_image_content"]);
    both.instance.api("servers_save", json!({ "name": "less", "config": config })).await;
    both.instance.server_in("less", "ready", Duration::from_secs(30)).await;
    let bearer = format!("Bearer {}", both.instance.token);
    both.front = Front::start(&both.instance.url, &bearer).await;
    both.through = format!("{}/mcp/less", both.front.url);
    let one = ["--scenario", "tools-call-image"];
    let (directly, bridged) = both.run(Suite::Stable, &one).await;
    assert_eq!(complaints(&directly), "");
    let differences = differences(&directly, &bridged);
    assert!(differences.contains("FAILURE tools-call-image"), "{differences}");
    assert_eq!(doubtful(&directly, &bridged), ["tools-call-image"]);
    both.end().await;
}

/// Signing in, as the suite's own servers and authorization servers want it of a client.
#[tokio::test]
async fn the_next_suite_has_nothing_to_say_against_how_we_sign_in() {
    let scenarios = [
        "metadata-default",
        "metadata-var1",
        "metadata-var2",
        "metadata-var3",
        "scope-from-www-authenticate",
        "scope-from-scopes-supported",
        "scope-omitted-when-undefined",
        "scope-step-up",
        "scope-retry-limit",
        "token-endpoint-auth-basic",
        "token-endpoint-auth-post",
        "token-endpoint-auth-none",
        "pre-registration",
    ];
    let of_today = [
        "resource-mismatch",
        "offline-access-scope",
        "offline-access-not-supported",
        "authorization-server-migration",
        "iss-supported",
        "iss-not-advertised",
        "iss-supported-missing",
        "iss-wrong-issuer",
        "iss-unexpected",
        "iss-normalized",
        "metadata-issuer-mismatch",
    ];
    let stage = Stage::shared().await;
    let client = programs::path("conformance_client").display().to_string();
    let before = scenarios.map(|scenario| (scenario, "2025-11-25"));
    let today = scenarios.into_iter().chain(of_today).map(|scenario| (scenario, "2026-07-28"));
    let mut complaints = String::new();
    for (scenario, revision) in before.into_iter().chain(today) {
        let folder = stage.path(format!("client-{scenario}-{revision}"));
        let name = format!("auth/{scenario}");
        let checks = Suite::Next.run_client(&name, revision, &client, &folder).await;
        assert!(checks.iter().any(|check| check.status == "SUCCESS"), "{name}: {checks:?}");
        for check in checks.iter().filter(|check| check.is_a_complaint()) {
            complaints += &format!("{name} ({revision}): {check:?}\n");
        }
    }
    assert!(complaints.is_empty(), "{complaints}");
    stage.finish().await;
}

/// The stable suite in front of a server that knows 2026-07-28 alone: what it wants in the older
/// way is made of what there is.
#[tokio::test]
async fn the_stable_suite_sees_no_difference_before_a_server_of_today() {
    no_difference(Suite::Stable, None, Era::Modern, 32).await;
}
