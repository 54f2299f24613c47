//! Revision 2026-07-28 on the same URL: no session, everything in the request itself.

use super::*;

const VERSION: &str = "2026-07-28";

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// A message of this revision with these parameters.
fn message(id: Value, method: &str, mut params: Value) -> Value {
    if params.get("_meta").is_none() {
        params["_meta"] = meta();
    }
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// The same as a request, with the headers that go with it.
fn request(site: &Site, message: &Value) -> Request<Full<Bytes>> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let mut request = site
        .request("POST", "main")
        .header("mcp-protocol-version", VERSION)
        .header("mcp-method", text(&message["method"]));
    let params = &message["params"];
    match message["method"].as_str() {
        Some("tools/call" | "prompts/get") => {
            request = request.header("mcp-name", text(&params["name"]));
        }
        Some("resources/read") => request = request.header("mcp-name", text(&params["uri"])),
        _ => {}
    }
    request.body(body(message)).expect("a request")
}

async fn ask(site: &Site, id: Value, method: &str, params: Value) -> Answer {
    site.answer(request(site, &message(id, method, params))).await
}

#[tokio::test]
async fn requests_are_served_without_a_session() {
    let site = Site::open().await;
    let discover = ask(&site, json!("d"), "server/discover", json!({})).await;
    assert_eq!((discover.status, discover.session.as_deref()), (200, None));
    let result = &discover.json()["result"];
    assert_eq!(
        (&result["supportedVersions"][0], &result["resultType"]),
        (&json!(VERSION), &json!("complete"))
    );
    let list = ask(&site, json!(1), "tools/list", json!({})).await;
    assert_eq!((list.status, &list.json()["result"]["ttlMs"]), (200, &json!(0)));
    assert_eq!(site.hub.receipt("s1"), Some(1));
    // A session id of whoever it may be is nothing to it.
    let mut odd = request(&site, &message(json!(2), "x/echo", json!({ "a": 1.0 })));
    odd.headers_mut().insert("mcp-session-id", HeaderValue::from_static("x"));
    let odd = site.answer(odd).await;
    assert_eq!((odd.status, odd.session.as_deref()), (200, None));
    assert_eq!((&odd.json()["id"], &odd.json()["result"]["a"]), (&json!(2), &json!(1.0)));
    let token = json!({ "_meta": { "progressToken": 7,
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {} } });
    let progress = ask(&site, json!(3), "x/progress", token).await;
    assert_eq!((progress.status, progress.kind.as_str()), (200, "text/event-stream"));
    let events = progress.events();
    assert_eq!(events[0]["params"]["progressToken"], 7);
    assert_eq!((events.len(), &events[1]["id"]), (2, &json!(3)));
    let note =
        json!({ "jsonrpc": "2.0", "method": "notifications/x", "params": { "_meta": meta() } });
    let note = site.answer(request(&site, &note)).await;
    assert_eq!((note.status, note.body.len()), (202, 0));
    assert_eq!((site.sessions.count(), site.sessions.working()), (0, 0));
    // And beside it the older era goes on as ever.
    let session = site.begin("main").await;
    let echo = site.ask(&session, json!(1), "x/echo", json!({ "b": 2 })).await;
    assert_eq!(echo.json()["result"], json!({ "b": 2 }));
}

#[tokio::test]
async fn what_the_headers_say_has_to_be_what_the_body_says() {
    let site = Site::open().await;
    type Change = fn(&mut Request<Full<Bytes>>);
    let call = message(json!(1), "tools/call", json!({ "name": "x" }));
    let cases: [(&str, u16, i64, Change); 11] = [
        ("as it should be", 404, -32601, |_| ()),
        ("no version", 400, -32020, |r| drop(r.headers_mut().remove("mcp-protocol-version"))),
        ("another version", 400, -32020, |r| put(r, "mcp-protocol-version", "2025-11-25")),
        ("no method", 400, -32020, |r| drop(r.headers_mut().remove("mcp-method"))),
        ("another method", 400, -32020, |r| put(r, "mcp-method", "tools/list")),
        ("a method in capitals", 400, -32020, |r| put(r, "mcp-method", "TOOLS/CALL")),
        ("no name", 400, -32020, |r| drop(r.headers_mut().remove("mcp-name"))),
        ("another name", 400, -32020, |r| put(r, "mcp-name", "y")),
        ("a name in Base64", 404, -32601, |r| put(r, "mcp-name", "=?base64?eA==?=")),
        ("a name in bad Base64", 400, -32020, |r| put(r, "mcp-name", "=?base64?eA?=")),
        ("white space around the name", 404, -32601, |r| put(r, "mcp-name", "\tx ")),
    ];
    for (case, status, code, change) in cases {
        // `tools/call` is nothing that the server knows: it got there.
        let mut request = request(&site, &call);
        change(&mut request);
        let answer = site.answer(request).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]["code"]),
            (status, &json!(code)),
            "{case}"
        );
        assert_eq!(answer.json()["id"], 1, "{case}");
    }
}

fn put(request: &mut Request<Full<Bytes>>, name: &'static str, value: &'static str) {
    request.headers_mut().insert(name, HeaderValue::from_static(value));
}

#[tokio::test]
async fn a_request_that_is_malformed_or_of_another_revision_says_so() {
    let site = Site::open().await;
    let missing = |key: &str| {
        let mut meta = meta();
        meta.as_object_mut().expect("an object").remove(key);
        message(json!(1), "tools/list", json!({ "_meta": meta }))
    };
    for bare in [
        missing("io.modelcontextprotocol/protocolVersion"),
        missing("io.modelcontextprotocol/clientCapabilities"),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {} }),
    ] {
        let answer = site.answer(request(&site, &bare)).await;
        let error = &answer.json()["error"];
        assert_eq!((answer.status, &error["code"]), (400, &json!(-32602)), "{bare}");
    }
    let mut future = message(json!(2), "tools/list", json!({}));
    future["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2999-01-01");
    let mut asked = request(&site, &future);
    put(&mut asked, "mcp-protocol-version", "2999-01-01");
    let answer = site.answer(asked).await;
    let error = &answer.json()["error"];
    assert_eq!((answer.status, &error["code"]), (400, &json!(-32022)));
    assert_eq!(error["data"]["requested"], "2999-01-01");
    assert!(error["data"]["supported"].as_array().expect("a list").contains(&json!(VERSION)));
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "x/unknown"] {
        let answer = ask(&site, json!(3), method, json!({})).await;
        let error = &answer.json()["error"];
        assert_eq!((answer.status, &error["code"]), (404, &json!(-32601)), "{method}");
    }
    let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    let mut answer = site.request("POST", "main").body(body(&answer)).expect("a request");
    put(&mut answer, "mcp-protocol-version", VERSION);
    put(&mut answer, "mcp-method", "x");
    assert_eq!(site.answer(answer).await.status, 400);
    for method in ["GET", "DELETE"] {
        let request = site.request(method, "main").header("mcp-protocol-version", VERSION);
        let answer = site.answer(request.body(Full::default()).expect("a request")).await;
        assert_eq!(answer.status, 405, "{method}");
    }
}

#[tokio::test]
async fn annotated_parameters_are_checked_against_their_headers() {
    let mut site = Site::open().await;
    ask(&site, json!(1), "x/headed", json!({})).await;
    site.saw("tools/list").await;
    let known = async {
        while site.hub.mirrored("h").is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(BOUND, known).await.expect("the new list arrives");
    let call = message(json!(1), "tools/call", json!({ "name": "h", "arguments": { "r": "us" } }));
    for (header, status) in [
        (Some("us"), 404),
        (Some("=?base64?dXM=?="), 404),
        (Some("eu"), 400),
        (Some("=?base64?dXM?="), 400),
        (None, 400),
    ] {
        let mut asked = request(&site, &call);
        if let Some(header) = header {
            put(&mut asked, "mcp-param-region", header);
        }
        let answer = site.answer(asked).await;
        assert_eq!(answer.status, status, "{header:?}: {answer:?}");
        assert_eq!(answer.json()["error"]["code"] == -32020, status == 400);
    }
}

#[tokio::test]
async fn a_connection_that_closes_cancels_its_request_and_no_other() {
    let mut site = Site::open().await;
    // Once as a stream that has begun, once as an answer that has not.
    let token = json!({ "_meta": { "progressToken": 1,
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {} } });
    let begun = site.send(request(&site, &message(json!(1), "x/begin", token))).await;
    let seen = site.saw("x/begin").await;
    let mut stream = Stream { body: begun.into_body(), text: String::new() };
    assert_eq!(stream.next().await.expect("progress")["method"], "notifications/progress");
    assert_eq!(site.sessions.working(), 1);
    drop(stream);
    let cancelled = site.saw("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], seen["id"]);

    let silent = request(&site, &message(json!(1), "x/hang", json!({})));
    let http = site.http.clone();
    let waiting =
        tokio::task::JoinSet::from_iter([async move { drop(http.request(silent).await) }]);
    let seen = site.saw("x/hang").await;
    drop(waiting);
    let cancelled = site.saw("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], seen["id"]);
    let idle = async {
        while site.sessions.working() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(BOUND, idle).await.expect("nothing is left");
}

#[tokio::test]
async fn a_subscription_stays_open_and_ends_in_good_order() {
    let site = Site::open().await;
    let wish = json!({ "notifications": { "toolsListChanged": true } });
    let response =
        site.send(request(&site, &message(json!("l"), "subscriptions/listen", wish))).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    let mut stream = Stream { body: response.into_body(), text: String::new() };
    let tag = |message: &Value| {
        message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone()
    };
    let ack = stream.next().await.expect("a message");
    assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        (tag(&ack), &ack["params"]["notifications"]),
        (json!("l"), &json!({ "toolsListChanged": true }))
    );
    site.hub.set_filter(ToolFilter { allow: vec![], deny: vec!["x".into()] });
    let changed = stream.next().await.expect("a message");
    assert_eq!(
        (&changed["method"], tag(&changed)),
        (&json!("notifications/tools/list_changed"), json!("l"))
    );
    assert_eq!(site.sessions.working(), 0, "it is no work");
    site.sessions.drain();
    let end = stream.next().await.expect("a message");
    assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!("l"), &json!("complete")));
    assert_eq!(stream.next().await, None);
    let late = ask(&site, json!(1), "tools/list", json!({})).await;
    assert_eq!(late.status, 503);
}

#[tokio::test]
async fn what_belongs_to_an_ended_session_ends_with_it() {
    let mut site = Site::open().await;
    let hang = request(&site, &message(json!(1), "x/hang", json!({})));
    let http = site.http.clone();
    let mut waiting = tokio::task::JoinSet::from_iter([async move { http.request(hang).await }]);
    site.saw("x/hang").await;
    site.sessions.end_of("s2", Instant::now());
    site.sessions.end_of("s1", Instant::now());
    let answer = tokio::time::timeout(BOUND, waiting.join_next()).await.expect("in time");
    assert_eq!(answer.expect("one").expect("no panic").expect("an answer").status(), 503);
    site.saw("notifications/cancelled").await;
}
