//! Which requests are refused, and how.

use super::*;

#[tokio::test]
async fn what_is_not_right_is_refused_with_the_status_that_says_so() {
    let site = Site::open().await;
    let session = site.begin("main").await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "x/echo", "params": {} });
    let good = || site.post(&session, &call);
    type Change = fn(&mut Request<Full<Bytes>>);
    let cases: [(&str, u16, Change); 14] = [
        ("as it should be", 200, |_| ()),
        ("no token", 401, |r| drop(r.headers_mut().remove("authorization"))),
        ("a wrong token", 401, |r| put(r, "authorization", "Bearer nobody")),
        ("another scheme", 401, |r| put(r, "authorization", "Basic token-one")),
        ("another token's session", 404, |r| put(r, "authorization", "Bearer token-two")),
        ("no session", 400, |r| drop(r.headers_mut().remove("mcp-session-id"))),
        ("an unknown session", 404, |r| {
            put(r, "mcp-session-id", "00000000000000000000000000000000")
        }),
        ("a revision of the past", 400, |r| put(r, "mcp-protocol-version", "1999-01-01")),
        ("a known revision", 200, |r| put(r, "mcp-protocol-version", "2025-06-18")),
        ("only JSON accepted", 406, |r| put(r, "accept", "application/json")),
        ("everything accepted", 200, |r| put(r, "accept", "text/html, */*;q=0.1")),
        ("no accept", 200, |r| drop(r.headers_mut().remove("accept"))),
        ("not JSON by its type", 415, |r| put(r, "content-type", "text/plain")),
        ("JSON with a charset", 200, |r| put(r, "content-type", "Application/JSON; charset=utf-8")),
    ];
    for (case, status, change) in cases {
        let mut request = good();
        change(&mut request);
        let answer = site.answer(request).await;
        assert_eq!(answer.status, status, "{case}: {answer:?}");
        assert!(answer.json()["jsonrpc"] == "2.0", "{case}");
    }
}

fn put(request: &mut Request<Full<Bytes>>, name: &'static str, value: &'static str) {
    request.headers_mut().insert(name, HeaderValue::from_static(value));
}

#[tokio::test]
async fn bodies_that_are_no_message_get_the_right_error() {
    let site = Site::open().await;
    let session = site.begin("main").await;
    for (text, code) in [
        ("{", -32700),
        ("", -32700),
        ("7", -32600),
        ("{}", -32600),
        ("[]", -32600),
        ("[1]", -32600),
    ] {
        let request = site.request("POST", "main").header("mcp-session-id", &session);
        let answer = site.answer(request.body(Full::from(text)).expect("a request")).await;
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!(code)), "{text}");
    }
    let large = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"x/echo","params":{{"n":"{}"}}}}"#,
        "z".repeat(8_000_000)
    );
    let request = site.request("POST", "main").header("mcp-session-id", &session);
    let answer = site.answer(request.body(Full::from(large)).expect("a request")).await;
    assert_eq!(answer.json()["result"]["n"].as_str().expect("text").len(), 8_000_000);
    let request = site.request("POST", "main").header("content-length", "40000000");
    let answer =
        site.answer(request.body(Full::from(vec![b' '; 40_000_000])).expect("a request")).await;
    assert_eq!(answer.status, 413);
}

/// Who writes all of it before it reads has to get the answer, not a broken connection.
#[tokio::test]
async fn a_body_that_is_too_large_is_taken_to_its_end() {
    const SIZE: usize = 48 << 20;
    let site = Site::open().await;
    let address = site.base.trim_start_matches("http://").trim_end_matches("/mcp/").to_owned();
    let mut stream = tokio::net::TcpStream::connect(&address).await.expect("connects");
    let head = format!(
        "POST /mcp/main HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\nContent-Length: {SIZE}\r\n\r\n"
    );
    let answer = async {
        stream.write_all(head.as_bytes()).await.expect("it reads the head");
        for _ in 0..SIZE >> 20 {
            stream.write_all(&vec![b' '; 1 << 20]).await.expect("it reads the body");
        }
        let mut answer = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer)
            .await
            .expect("it answers");
        answer
    };
    let answer = tokio::time::timeout(BOUND, answer).await.expect("in time");
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("33554432 bytes"), "{answer}");
}

#[tokio::test]
async fn what_can_be_read_in_two_ways_is_refused() {
    let mut site = Site::open().await;
    let session = site.begin("main").await;
    while site.seen.try_recv().is_ok() {}
    let meta = r#""_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let twice = |meta: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{meta}"name":"x","name":"y"}}}}"#
        )
    };
    let old = site.request("POST", "main").header("mcp-session-id", &session);
    let old = site.answer(old.body(Full::from(twice(""))).expect("a request")).await;
    assert_eq!(old.json()["error"]["code"], -32600);
    let new = site
        .request("POST", "main")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "x");
    let text = twice(&format!("{meta},"));
    let new = site.answer(new.body(Full::from(text)).expect("a request")).await;
    assert_eq!((new.status, &new.json()["error"]["code"]), (400, &json!(-32600)));
    assert!(site.seen.try_recv().is_err(), "the server saw nothing of it");
}

#[tokio::test]
async fn other_methods_names_and_routes() {
    let site = Site::open().await;
    let put = site.request("PUT", "main").body(Full::default()).expect("a request");
    assert_eq!(site.answer(put).await.status, 405);
    let unknown = site.request("POST", "nobody").body(body(&json!({}))).expect("a request");
    assert_eq!(site.answer(unknown).await.status, 404);
    let html = site.request("GET", "main").header("mcp-session-id", "x");
    let mut html = html.body(Full::default()).expect("a request");
    html.headers_mut().insert("accept", HeaderValue::from_static("text/html"));
    assert_eq!(site.answer(html).await.status, 406);
}

#[tokio::test]
async fn any_name_works_percent_encoded_and_a_session_belongs_to_its_server() {
    let site = Site::open().await;
    for name in NAMES {
        let encoded: String =
            percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC)
                .collect();
        let session = site.begin(&encoded).await;
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        let request = site.request("POST", &encoded).header("mcp-session-id", &session);
        let answer = site.answer(request.body(body(&list)).expect("a request")).await;
        assert_eq!(answer.json()["result"], json!({ "tools": [{ "name": "x" }] }), "{name}");
        if name != "main" {
            assert_eq!(site.answer(site.post(&session, &list)).await.status, 404);
        }
    }
    assert_eq!(site.hub.receipt("s1"), Some(1));
}
