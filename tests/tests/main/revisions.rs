//! Every revision of MCP on one URL: clients with `initialize` and clients of 2026-07-28, in
//! front of servers of either era and of both. The clients are those of a library that we did
//! not write, and bare requests where the transport itself is looked at.

use gantry_tests::{Instance, Progress, Stage, api, programs, record, wait_until};
use reqwest::StatusCode;
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        CallToolRequestParams, CallToolResult, ClientConfig, ElicitRequestParams, ElicitResult,
        ElicitationAction, ProtocolVersion,
    },
    service::{ClientLifecycleMode, ClientServiceExt, RequestContext, RunningService},
    transport::{
        StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::{Value, json};
use std::time::Duration;

const BOUND: Duration = Duration::from_secs(20);
const VERSION: &str = "2026-07-28";

/// A user with a name, who is asked for it.
#[derive(Clone)]
struct User;

impl ClientHandler for User {
    fn get_info(&self) -> ClientConfig {
        serde_json::from_value(json!({
            "protocolVersion": "2025-11-25", "capabilities": { "elicitation": { "form": {} } },
            "clientInfo": { "name": "rmcp", "version": "3" },
        }))
        .expect("a client's configuration")
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, rmcp::ErrorData> {
        let mut result = ElicitResult::new(ElicitationAction::Accept);
        result.content = Some(json!({ "name": "Ada" }));
        Ok(result)
    }
}

/// A client of the library at the URL of a server.
async fn client(
    instance: &Instance,
    url: &str,
    lifecycle: ClientLifecycleMode,
) -> RunningService<RoleClient, User> {
    let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(&instance.token);
    let transport = StreamableHttpClientTransport::with_client(api::http_client(), config);
    let serve = User.serve_with_lifecycle(transport, lifecycle);
    tokio::time::timeout(BOUND, serve).await.expect("in time").expect("a connection")
}

/// The library waits for ever.
async fn bounded<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, work).await.expect("in time")
}

fn lifecycles() -> [(&'static str, ClientLifecycleMode); 3] {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    [
        ("initialize", ClientLifecycleMode::Initialize),
        (
            "discover",
            ClientLifecycleMode::Discover { preferred_versions: preferred_versions.clone() },
        ),
        ("auto", ClientLifecycleMode::Auto { preferred_versions, legacy_version: None }),
    ]
}

fn text(result: &CallToolResult) -> String {
    let result = serde_json::to_value(result).expect("JSON");
    result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

async fn save(instance: &Instance, name: &str, args: &[&str]) -> String {
    let mut config = programs::fake_mcp(args);
    config["persistent"] = json!(true);
    instance.api("servers_save", json!({ "name": name, "config": config })).await;
    let server = instance.server_in(name, "ready", BOUND).await;
    server["url"].as_str().expect("a URL").to_owned()
}

#[tokio::test]
async fn every_client_works_in_front_of_every_server() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    for era in ["initialize", "both", "modern"] {
        let url = save(&instance, era, &["--era", era, "--asks", "--label", era]).await;
        for (lifecycle, mode) in lifecycles() {
            let case = format!("a client with {lifecycle}, a server of {era}");
            let client = client(&instance, &url, mode).await;
            let version = client.peer_info().expect("known").protocol_version.clone();
            let wanted = if lifecycle == "initialize" { "2025-11-25" } else { VERSION };
            assert_eq!(version.as_str(), wanted, "{case}");
            let tools = bounded(client.list_all_tools()).await.expect(&case);
            assert_eq!(tools.len(), 11, "{case}");
            let echo = CallToolRequestParams::new("echo");
            let said = json!({ "text": "é\u{2028}" }).as_object().cloned().expect("an object");
            let echo = bounded(client.call_tool(echo.with_arguments(said))).await.expect(&case);
            assert_eq!(text(&echo), format!("{era}: é\u{2028}"), "{case}");
            // What the server wants to know of the user, however it asks.
            let ask =
                bounded(client.call_tool(CallToolRequestParams::new("ask"))).await.expect(&case);
            if era == "initialize" && lifecycle != "initialize" {
                assert_eq!(ask.is_error, Some(true), "{case}: {ask:?}");
                assert!(
                    text(&ask).contains("elicitation") && text(&ask).contains(VERSION),
                    "{ask:?}"
                );
            } else {
                assert_eq!(text(&ask), "Hello Ada", "{case}");
            }
            bounded(client.cancel()).await.expect(&case);
        }
    }
    assert_eq!(stage.running("fake_mcp").len(), 3);
    instance.quit().await;
    stage.finish().await;
}

/// The bare transport of revision 2026-07-28.
struct Bare {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl Bare {
    fn new(instance: &Instance, url: &str) -> Self {
        let (url, token) = (url.to_owned(), instance.token.clone());
        Self { http: api::http_client(), url, token }
    }

    fn request(&self, id: &Value, method: &str, mut params: Value) -> reqwest::RequestBuilder {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(VERSION);
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let name = params["name"].as_str().map(str::to_owned);
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let request = self
            .http
            .post(&self.url)
            .bearer_auth(&self.token)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", VERSION)
            .header("mcp-method", method)
            .json(&message);
        match name {
            Some(name) => request.header("mcp-name", name),
            None => request,
        }
    }

    async fn send(&self, id: Value, method: &str, params: Value) -> reqwest::Response {
        self.request(&id, method, params).send().await.expect("an answer")
    }

    async fn ask(&self, id: Value, method: &str, params: Value) -> (StatusCode, Value) {
        let response = self.send(id, method, params).await;
        (response.status(), response.json().await.expect("JSON"))
    }
}

#[tokio::test]
async fn the_transport_of_2026_07_28_is_what_its_specification_says() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    for era in ["initialize", "modern"] {
        let record = stage.path(format!("{era}.jsonl"));
        let path = record.to_str().expect("a path");
        let url = save(&instance, era, &["--era", era, "--asks", "--record", path]).await;
        let bare = Bare::new(&instance, &url);
        let (status, discover) = bare.ask(json!("d"), "server/discover", json!({})).await;
        assert_eq!((status, &discover["id"]), (StatusCode::OK, &json!("d")), "{discover}");
        assert!(
            discover["result"]["supportedVersions"].as_array().unwrap().contains(&json!(VERSION))
        );
        let (_, list) = bare.ask(json!(1), "tools/list", json!({})).await;
        let list = &list["result"];
        assert!(list["ttlMs"].is_u64() && list["cacheScope"].is_string(), "{era}: {list}");
        for (method, status, code) in [
            ("ping", 404, -32601),
            ("initialize", 404, -32601),
            ("resources/subscribe", 404, -32601),
            ("x/unknown", 404, -32601),
        ] {
            let (got, error) = bare.ask(json!(2), method, json!({})).await;
            assert_eq!(
                (got.as_u16(), &error["error"]["code"]),
                (status, &json!(code)),
                "{era} {method}"
            );
        }
        let request = bare.request(&json!(3), "tools/call", json!({ "name": "echo" }));
        let wrong = request.header("mcp-method", "tools/list").send().await.unwrap();
        assert_eq!(wrong.status(), StatusCode::BAD_REQUEST);
        assert_eq!(wrong.json::<Value>().await.unwrap()["error"]["code"], -32020);

        // News come on the stream of who wants them, with its id.
        let wish =
            json!({ "notifications": { "toolsListChanged": true, "promptsListChanged": true } });
        let mut news = Progress::new(bare.send(json!("l"), "subscriptions/listen", wish).await);
        let ack = news.next().await.expect("an acknowledgement").data;
        assert_eq!(ack["method"], "notifications/subscriptions/acknowledged", "{era}");
        assert_eq!(ack["params"]["notifications"], json!({ "toolsListChanged": true }), "{era}");
        bare.ask(json!(4), "tools/call", json!({ "name": "change" })).await;
        let changed = tokio::time::timeout(BOUND, news.next()).await.expect("in time");
        let changed = changed.expect("news").data;
        assert_eq!(changed["method"], "notifications/tools/list_changed", "{era}");
        assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "l");
        drop(news);

        // A connection that is closed is a call that is cancelled.
        let slow = json!({ "name": "slow", "arguments": { "ms": 60_000 }, "_meta": { "progressToken": 7 } });
        let mut progress = Progress::new(bare.send(json!(5), "tools/call", slow).await);
        let first = tokio::time::timeout(BOUND, progress.next()).await.expect("in time");
        assert_eq!(first.expect("progress").data["params"]["progressToken"], 7, "{era}");
        drop(progress);
        wait_until("the server was told", BOUND, async || {
            let received = record::events(&record, "received");
            received.iter().any(|line| line["method"] == "notifications/cancelled").then_some(())
        })
        .await;
    }
    instance.quit().await;
    stage.finish().await;
}

/// Ready means usable: a list that is none is a failure that says so.
#[tokio::test]
async fn a_server_whose_list_cannot_be_used_is_not_ready() {
    let stage = Stage::shared().await;
    let mut instance = Instance::start(&stage).await;
    let mut config = programs::fake_mcp(&["--broken-list"]);
    config["persistent"] = json!(true);
    instance.api("servers_save", json!({ "name": "broken", "config": config })).await;
    let server = wait_until("its fault is known", BOUND, async || {
        let server = instance.server("broken").await?;
        assert_ne!(server["state"], "ready", "{server}");
        server["error"].is_string().then_some(server)
    })
    .await;
    assert!(server["error"].as_str().unwrap().contains("`tools` is not a list"), "{server}");
    instance.quit().await;
    stage.finish().await;
}
