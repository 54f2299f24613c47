use super::*;

const TOKEN: &str = "0123456789abcdef";

fn gate() -> Gate {
    Gate { port: 4000, any_address: false, token: Some(TOKEN.into()) }
}

fn request(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
    let mut builder = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(Body::empty()).unwrap().into_parts().0
}

fn with_host(host: &str) -> Result<(), Refusal> {
    let bearer = format!("Bearer {TOKEN}");
    gate().check(&request("GET", "/api", &[("host", host), ("authorization", &bearer)]))
}

#[test]
fn a_host_is_a_loopback_name_or_address_with_our_port() {
    for host in
        ["127.0.0.1:4000", "localhost:4000", "LOCALHOST:4000", "[::1]:4000", "127.9.9.9:4000"]
    {
        assert_eq!(with_host(host), Ok(()), "{host}");
    }
    for host in [
        "evil.example:4000",
        "127.0.0.1",
        "127.0.0.1:4001",
        "localhost",
        "localhost.evil.example:4000",
        "192.168.1.2:4000",
        "0.0.0.0:4000",
        "[::1]",
        "[::2]:4000",
        "::1:4000",
        "127.0.0.1:4000:4000",
        "127.0.0.1.:4000",
        "user@127.0.0.1:4000",
        "",
        ":4000",
    ] {
        assert_eq!(with_host(host), Err(Refusal::Host), "{host}");
    }
    assert_eq!(gate().check(&request("GET", "/health", &[])), Err(Refusal::Host));
    let twice = [("host", "127.0.0.1:4000"), ("host", "127.0.0.1:4000")];
    assert_eq!(gate().check(&request("GET", "/health", &twice)), Err(Refusal::Host));
    let absolute = request("GET", "http://evil.example/health", &[("host", "127.0.0.1:4000")]);
    assert_eq!(gate().check(&absolute), Err(Refusal::Host));
}

#[test]
fn on_more_than_loopback_addresses_are_hosts_but_names_are_not() {
    let wide = Gate { any_address: true, ..gate() };
    let check = |host: &str| wide.check(&request("GET", "/health", &[("host", host)]));
    assert_eq!(check("192.168.1.2:4000"), Ok(()));
    assert_eq!(check("[fe80::1]:4000"), Ok(()));
    assert_eq!(check("evil.example:4000"), Err(Refusal::Host));
}

/// Route × token × origin, each in all combinations.
#[test]
fn every_route_asks_for_what_it_must() {
    let bearer = format!("Bearer {TOKEN}");
    let wrong = format!("Bearer {}", TOKEN.replace('0', "1"));
    let routes = [
        // method, path, without token, with the token in the query
        ("GET", "/health", true, true),
        ("GET", "/", false, true),
        ("GET", "/events", false, true),
        ("GET", "/computer/progress/s1", false, true),
        ("GET", "/assets/index.js", true, true),
        ("GET", "/api", false, false),
        ("GET", "/metrics", false, false),
        ("GET", "/nothing", false, false),
        ("POST", "/", false, false),
        ("POST", "/health", false, false),
        ("POST", "/events", false, false),
        ("POST", "/api/quit", false, false),
        ("POST", "/computer/chat", false, false),
        ("POST", "/computer/progress/s1", false, false),
        ("POST", "/assets/index.js", false, false),
        ("DELETE", "/api/quit", false, false),
        ("OPTIONS", "/api/quit", false, false),
        ("POST", "/mcp/everything", true, true),
        ("GET", "/mcpx", false, false),
    ];
    let origins = [
        (None, true),
        (Some("http://127.0.0.1:4000"), true),
        (Some("http://localhost:4000"), true),
        (Some("https://127.0.0.1:4000"), false),
        (Some("http://127.0.0.1:4001"), false),
        (Some("http://127.0.0.1"), false),
        (Some("http://evil.example:4000"), false),
        (Some("http://evil.example"), false),
        (Some("null"), false),
        (Some(""), false),
        (Some("tauri://localhost"), false),
    ];
    for (method, path, open, by_query) in routes {
        for (origin, own) in origins {
            let tokens = [
                (None, "", open),
                (Some(bearer.as_str()), "", true),
                (Some(wrong.as_str()), "", open),
                (Some(TOKEN), "", open),
                (Some("Bearer "), "", open),
                (Some("Basic 0123456789abcdef"), "", open),
                (None, "?token=0123456789abcdef", by_query),
                (None, "?after=3&token=0123456789abcdef", by_query),
                (None, "?token=0123", open),
                (None, "?token=", open),
                (None, "?xtoken=0123456789abcdef", open),
            ];
            for (authorization, query, may) in tokens {
                let mut headers = vec![("host", "127.0.0.1:4000")];
                headers.extend(origin.map(|origin| ("origin", origin)));
                headers.extend(authorization.map(|value| ("authorization", value)));
                let got = gate().check(&request(method, &format!("{path}{query}"), &headers));
                let expected = match (own, may) {
                    (false, _) => Err(Refusal::Origin),
                    (true, false) => Err(Refusal::Token),
                    (true, true) => Ok(()),
                };
                assert_eq!(got, expected, "{method} {path}{query} {origin:?} {authorization:?}");
            }
        }
    }
}

#[test]
fn without_tokens_host_and_origin_are_still_checked() {
    let open = Gate { token: None, ..gate() };
    let check = |headers: &[(&str, &str)]| open.check(&request("POST", "/api/quit", headers));
    assert_eq!(check(&[("host", "127.0.0.1:4000")]), Ok(()));
    assert_eq!(check(&[("host", "evil.example:4000")]), Err(Refusal::Host));
    let foreign = [("host", "127.0.0.1:4000"), ("origin", "http://evil.example")];
    assert_eq!(check(&foreign), Err(Refusal::Origin));
}

#[test]
fn only_our_own_origin_may_ask_in_advance() {
    let ask = |origin: &str| {
        let headers = [
            ("host", "127.0.0.1:4000"),
            ("origin", origin),
            ("access-control-request-method", "POST"),
        ];
        gate().check(&request("OPTIONS", "/api/quit", &headers))
    };
    assert_eq!(ask("http://localhost:4000"), Ok(()));
    assert_eq!(ask("http://evil.example"), Err(Refusal::Origin));
}
