//! Remote servers that want the user to sign in (OAuth), honest ones and others.

use gantry_tests::{Authority, Faults, Instance, Stage, api::http_client, programs, wait_until};
use serde_json::{Value, json};
use std::{os::unix::fs::PermissionsExt as _, path::PathBuf, time::Duration};

const BOUND: Duration = Duration::from_secs(30);

/// An instance with one saved server that wants a sign-in.
struct Scene {
    stage: Stage,
    instance: Instance,
    authority: Authority,
}

impl Scene {
    /// `extra` goes into the server's configuration.
    async fn start(faults: Faults, extra: Value) -> Self {
        let stage = Stage::shared().await;
        let instance = Instance::start(&stage).await;
        let authority = Authority::start(faults).await;
        let mut config = json!({ "url": authority.url(), "persistent": true });
        for (key, value) in extra.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        instance.api("servers_save", json!({ "name": "far", "config": config })).await;
        Self { stage, instance, authority }
    }

    async fn until_sign_in(&self, state: &str) -> Value {
        wait_until(&format!("the sign-in is {state}"), BOUND, async || {
            self.instance.server("far").await.filter(|far| far["sign_in"]["state"] == state)
        })
        .await
    }

    async fn begin(&self) -> String {
        let begun = self.instance.api("servers_sign_in", json!({ "name": "far" })).await;
        begun["url"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned()
    }

    /// The reason for which a sign-in cannot even begin.
    async fn refusal(&self) -> String {
        let answer = self.instance.post("/api/servers_sign_in", &json!({ "name": "far" })).await;
        assert_eq!(answer.body["ok"], false, "{answer:?}");
        answer.body["error"]["message"].as_str().unwrap_or_default().to_owned()
    }

    async fn sign_in(&self) {
        let page = browse(&self.begin().await).await;
        assert!(page.contains("Signed in"), "{page}");
        self.until_sign_in("signed_in").await;
    }

    async fn call(&self, tool: &str) -> Value {
        let input = json!({ "name": "far", "tool": tool, "arguments": {} });
        self.instance.post("/api/servers_call", &input).await.body
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.stage.data_dir().join("sign-ins"));
        let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "json")).collect()
    }

    /// No token and no code is where others may read it.
    fn keeps_secrets(&self) {
        let secrets = self.authority.seen().secrets;
        assert!(!secrets.is_empty());
        let log = self.instance.log();
        for secret in &secrets {
            assert!(!log.contains(secret.as_str()), "{secret} in the log:\n{log}");
            for row in self.stage.members() {
                assert!(!row.command.contains(secret.as_str()), "{}", row.command);
            }
        }
        let logs = std::fs::read_dir(self.stage.data_dir().join("logs"));
        for entry in logs.into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            assert!(!secrets.iter().any(|secret| text.contains(secret.as_str())), "{entry:?}");
        }
        assert_eq!(self.authority.seen().strays, 0);
    }

    async fn finish(mut self) {
        self.instance.quit().await;
        self.stage.finish().await;
    }
}

/// What a browser shows that opens this page; it follows redirects.
async fn browse(url: &str) -> String {
    let response = http_client().get(url).send().await.unwrap_or_else(|why| panic!("{why}"));
    response.text().await.unwrap_or_default()
}

fn chat(url: &str) -> Value {
    json!({
        "project_id": "p", "prompt": "TOOLS", "ready_timeout_ms": 10_000,
        "agent_config": { "agent_server": programs::fake_agent(json!({ "FAKE_AGENT_LAZY": "1" })),
                          "context_servers": { "far": { "url": url } } },
    })
}

/// From "needs you to sign in" to a session that has its tools, over a restart, and out again.
#[tokio::test]
async fn a_server_that_wants_a_sign_in_is_used_through_the_bridge_once_signed_in() {
    let mut scene = Scene::start(Faults::default(), json!({})).await;
    scene.until_sign_in("needed").await;
    // Its process has to end first.
    let far = scene.instance.server_in("far", "failed", BOUND).await;
    assert_eq!(far["error"], "it needs you to sign in");
    // A session is not kept waiting, and has the server by its bridge URL all the same.
    let (answer, _) = scene.instance.turn(chat(&scene.authority.url()), BOUND).await;
    let server = &answer["servers"][0];
    assert_eq!(
        (&server["state"], &server["via"]),
        (&json!("failed"), &json!("bridge")),
        "{answer}"
    );
    assert!(server["error"].as_str().is_some_and(|why| why.contains("sign in")), "{answer}");

    let url = scene.begin().await;
    assert!(url.starts_with(scene.authority.issuer()), "{url}");
    assert_eq!(scene.begin().await, url, "one that was begun is the same one");
    let waiting = scene.until_sign_in("waiting").await;
    assert!(waiting["sign_in"]["until"].is_i64(), "{waiting}");
    let page = browse(&url).await;
    assert!(page.contains("Signed in") && page.contains("登录成功"), "{page}");
    let ready = scene.instance.server_in("far", "ready", BOUND).await;
    assert_eq!((&ready["tools"], &ready["error"]), (&json!(2), &Value::Null), "{ready}");
    assert!(ready["url"].as_str().unwrap().starts_with(&scene.instance.url), "{ready}");
    let seen = scene.authority.seen();
    assert_eq!(seen.registrations[0]["token_endpoint_auth_method"], "none");
    assert_eq!(scene.call("echo").await["data"]["content"][0]["text"], "did echo");

    // The session that waited has it now.
    let mut again = chat(&scene.authority.url());
    again["session_id"] = answer["session_id"].clone();
    let (again, text) = scene.instance.turn(again, BOUND).await;
    assert!(text.contains("echo"), "{again} {text}");
    assert_eq!(again["context"], "kept", "{again}");

    let files = scene.files();
    let mode = std::fs::metadata(&files[0]).unwrap().permissions().mode() & 0o777;
    assert_eq!((files.len(), mode), (1, 0o600), "{files:?}");
    let folder = std::fs::metadata(files[0].parent().unwrap()).unwrap().permissions().mode();
    assert_eq!(folder & 0o777, 0o700);
    scene.keeps_secrets();

    scene.instance.quit().await;
    scene.instance = Instance::start(&scene.stage).await;
    scene.instance.server_in("far", "ready", BOUND).await;
    assert_eq!(scene.authority.seen().tokens.len(), 1, "it was signed in to again");

    scene.instance.api("servers_sign_out", json!({ "name": "far" })).await;
    scene.until_sign_in("needed").await;
    let kept = std::fs::read_to_string(&files[0]).unwrap_or_default();
    assert!(!kept.contains("s3cret"), "{kept}");

    scene.sign_in().await;
    scene.instance.api("servers_remove", json!({ "name": "far" })).await;
    // Though a session still uses it.
    let kept = std::fs::read_to_string(&files[0]).unwrap_or_default();
    assert!(!kept.contains("s3cret"), "{kept}");
    scene.finish().await;
}

/// Case 87: the call waits, and is carried out when the user has signed in. Case 88: after one
/// that was given up, and one that the user declined.
#[tokio::test]
async fn a_call_that_is_refused_waits_for_a_sign_in_that_is_given_up_declined_and_done() {
    let faults = Faults { guards_calls_only: true, ..Faults::default() };
    let scene = Scene::start(faults, json!({ "denyTools": ["none"] })).await;
    scene.instance.server_in("far", "ready", BOUND).await;
    assert_eq!(scene.instance.server("far").await.unwrap()["sign_in"], Value::Null);
    let work = async {
        scene.until_sign_in("needed").await;
        let far = scene.instance.server("far").await.unwrap();
        assert_eq!(far["state"], "degraded", "{far}");
        scene.begin().await;
        scene.instance.api("servers_sign_in_cancel", json!({ "name": "far" })).await;
        let far = scene.until_sign_in("needed").await;
        assert_eq!(far["sign_in"]["error"], "it was given up", "{far}");
        scene.authority.set(|faults| faults.declines = true);
        let page = browse(&scene.begin().await).await;
        assert!(page.contains("Not signed in"), "{page}");
        let far = scene.until_sign_in("needed").await;
        assert!(far["sign_in"]["error"].as_str().unwrap().contains("declined"), "{far}");
        scene.authority.set(|faults| faults.declines = false);
        scene.sign_in().await;
    };
    let (answer, ()) = futures::future::join(scene.call("echo"), work).await;
    assert_eq!(answer["data"]["content"][0]["text"], "did echo", "{answer}");
    assert_eq!(scene.authority.seen().calls, 1);
    let ready = scene.instance.server_in("far", "ready", BOUND).await;
    assert_eq!(ready["sign_in"]["error"], Value::Null, "{ready}");
    scene.keeps_secrets();
    scene.finish().await;
}

/// What makes a server one that cannot be trusted.
type Spoil = fn(&mut Faults);

/// What cannot be trusted is refused before the browser is opened.
#[tokio::test]
async fn a_sign_in_that_cannot_be_trusted_does_not_begin() {
    let scene = Scene::start(Faults::default(), json!({})).await;
    scene.until_sign_in("needed").await;
    let variants: [(Spoil, &str); 5] = [
        (|faults| faults.lacks_pkce = true, "PKCE"),
        (|faults| faults.is_another_issuer = true, "issuer mismatch"),
        (|faults| faults.is_another_resource = true, "resource mismatch"),
        (|faults| faults.has_plain_page = true, "not https"),
        (|faults| faults.lacks_registration = true, "oauth.clientId"),
    ];
    for (spoil, part) in variants {
        scene.authority.set(spoil);
        let why = scene.refusal().await;
        assert!(why.contains(part), "{part}: {why}");
        scene.authority.set(|faults| *faults = Faults::default());
    }
    assert!(scene.authority.seen().registrations.is_empty());
    // And after all that it still works.
    scene.sign_in().await;
    scene.finish().await;
}

/// A client that was registered by hand needs no registration.
#[tokio::test]
async fn a_client_that_was_registered_by_hand_is_used() {
    let faults = Faults { lacks_registration: true, is_silent: true, ..Faults::default() };
    let oauth = json!({ "clientId": "by-hand", "scopes": ["read", "write"] });
    let scene = Scene::start(faults, json!({ "oauth": oauth })).await;
    scene.until_sign_in("needed").await;
    scene.sign_in().await;
    let asked = &scene.authority.seen().tokens[0];
    assert_eq!(asked["client_id"], "by-hand");
    assert_eq!(scene.call("write").await["data"]["content"][0]["text"], "did write");
    scene.finish().await;
}

/// What comes to the listener and is not of this sign-in changes nothing; what is of it and comes
/// from somebody else ends it.
#[tokio::test]
async fn only_the_right_return_of_the_browser_counts() {
    let scene = Scene::start(Faults::default(), json!({})).await;
    scene.until_sign_in("needed").await;
    let url = scene.begin().await;
    let page = reqwest::Url::parse(&url).unwrap();
    let of = |name: &str| {
        let mut pairs = page.query_pairs();
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap()
    };
    let back = of("redirect_uri");
    assert!(back.starts_with("http://127.0.0.1:"), "{back}");
    for query in ["", "?code=x", "?code=x&state=guessed", "?error=access_denied&state=guessed"] {
        let answer = http_client().get(format!("{back}{query}")).send().await.unwrap();
        assert_eq!(answer.status(), 400, "{query}");
    }
    let right = format!("{back}?code=x&state={}", of("state"));
    let rebound = http_client().get(&right).header("host", "evil.example").send().await.unwrap();
    assert_eq!(rebound.status(), 403);
    assert_eq!(http_client().post(&right).send().await.unwrap().status(), 405);
    assert!(browse(&url).await.contains("Signed in"));
    scene.until_sign_in("signed_in").await;
    let gone = http_client().get(&right).send().await;
    assert!(gone.is_err() || gone.unwrap().status() == 400, "the listener is still there");

    let variants: [Spoil; 2] =
        [|faults| faults.returns_other_issuer = true, |faults| faults.returns_no_issuer = true];
    for spoil in variants {
        scene.instance.api("servers_sign_out", json!({ "name": "far" })).await;
        scene.until_sign_in("needed").await;
        let tokens = scene.authority.seen().tokens.len();
        scene.authority.set(spoil);
        assert!(browse(&scene.begin().await).await.contains("Not signed in"));
        let far = scene.until_sign_in("needed").await;
        let why = far["sign_in"]["error"].as_str().unwrap_or_default().to_owned();
        assert!(why.contains("issuer"), "{far}");
        assert_eq!(scene.authority.seen().tokens.len(), tokens, "the code was sent all the same");
        scene.authority.set(|faults| *faults = Faults::default());
    }
    scene.keeps_secrets();
    scene.finish().await;
}

/// Many calls at once with a token that is no longer good: one renewal for all. One that is
/// refused means that the user is needed again; one that cannot be made now does not.
#[tokio::test]
async fn a_token_is_renewed_once_for_all_and_a_refused_renewal_needs_the_user() {
    let scene = Scene::start(Faults::default(), json!({})).await;
    scene.until_sign_in("needed").await;
    scene.sign_in().await;
    scene.instance.server_in("far", "ready", BOUND).await;
    let renewals = || {
        let tokens = scene.authority.seen().tokens;
        tokens.iter().filter(|asked| asked["grant_type"] == "refresh_token").count()
    };
    scene.authority.expire();
    let calls = futures::future::join_all((0..16).map(|_| scene.call("echo"))).await;
    for answer in calls {
        assert_eq!(answer["data"]["content"][0]["text"], "did echo", "{answer}");
    }
    assert_eq!(renewals(), 1);

    // Before its time is over, without a refusal.
    scene.authority.set_lifetime(1);
    scene.authority.expire();
    scene.call("echo").await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let before = renewals();
    scene.authority.set_lifetime(3600);
    assert_eq!(scene.call("echo").await["data"]["content"][0]["text"], "did echo");
    assert_eq!(renewals(), before + 1);

    scene.authority.expire();
    scene.authority.set(|faults| faults.breaks_refresh = true);
    let answer = scene.call("echo").await;
    assert_eq!(answer["ok"], false, "{answer}");
    assert_eq!(scene.instance.server("far").await.unwrap()["sign_in"]["state"], "signed_in");
    scene.authority.set(|faults| faults.breaks_refresh = false);
    assert_eq!(scene.call("echo").await["data"]["content"][0]["text"], "did echo");

    scene.authority.expire();
    scene.authority.set(|faults| faults.refuses_refresh = true);
    let (answer, ()) = futures::future::join(scene.call("echo"), async {
        scene.until_sign_in("needed").await;
        scene.authority.set(|faults| *faults = Faults::default());
        scene.sign_in().await;
    })
    .await;
    assert_eq!(answer["data"]["content"][0]["text"], "did echo", "{answer}");
    scene.keeps_secrets();
    scene.finish().await;
}

/// A call that needs more than was granted: the user is asked for what is granted and that.
#[tokio::test]
async fn a_call_that_needs_more_asks_the_user_for_more() {
    let scene = Scene::start(Faults::default(), json!({})).await;
    scene.until_sign_in("needed").await;
    scene.sign_in().await;
    scene.instance.server_in("far", "ready", BOUND).await;
    let (answer, ()) = futures::future::join(scene.call("write"), async {
        scene.until_sign_in("needed").await;
        // What is granted goes on working meanwhile.
        assert_eq!(scene.call("echo").await["data"]["content"][0]["text"], "did echo");
        let url = scene.begin().await;
        for scope in ["read", "write"] {
            assert!(url.contains(scope), "{scope} is missing: {url}");
        }
        assert!(browse(&url).await.contains("Signed in"));
    })
    .await;
    assert_eq!(answer["data"]["content"][0]["text"], "did write", "{answer}");
    scene.until_sign_in("signed_in").await;
    scene.instance.server_in("far", "ready", BOUND).await;
    scene.finish().await;
}

/// An authorization that the user gave wins: nothing is signed in to. And what has no sign-in
/// says so.
#[tokio::test]
async fn an_authorization_of_the_users_own_is_used_and_nothing_else() {
    let extra = json!({ "headers": { "Authorization": "Bearer wrong" } });
    let scene = Scene::start(Faults::default(), extra).await;
    let far = scene.instance.server_in("far", "failed", BOUND).await;
    assert_eq!(far["sign_in"], Value::Null, "{far}");
    assert!(scene.refusal().await.contains("nothing to sign in to"));
    assert!(scene.files().is_empty());
    scene.finish().await;
}

/// The file of a sign-in ends with the last server of its address.
#[tokio::test]
async fn a_sign_in_ends_with_its_server() {
    let scene = Scene::start(Faults::default(), json!({})).await;
    scene.until_sign_in("needed").await;
    scene.sign_in().await;
    scene.instance.server_in("far", "ready", BOUND).await;
    let config = json!({ "url": scene.authority.url(), "enabled": false });
    scene.instance.api("servers_save", json!({ "name": "too", "config": config })).await;
    scene.instance.api("servers_remove", json!({ "name": "far" })).await;
    assert_eq!(scene.files().len(), 1, "another server has the same sign-in");
    scene.instance.api("servers_remove", json!({ "name": "too" })).await;
    wait_until("the sign-in is forgotten", BOUND, async || scene.files().is_empty().then_some(()))
        .await;
    scene.finish().await;
}
