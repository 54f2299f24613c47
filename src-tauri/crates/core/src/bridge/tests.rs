//! Tests of the bridge with servers in memory, under paused time: real actors, real hubs,
//! no processes.

mod fake;
mod leases;
mod life;
mod receipts;
mod remote;
mod terms;
mod walk;

use super::*;
use crate::wire::{ReadinessState, ServerConfig, ServerState, ServerView, Via};
use fake::World;
use gantry_supervisor::Deadline;
use std::time::Duration;

/// A bridge over a world of fake servers.
struct Fixture {
    world: World,
    bridge: Bridge,
    scope: Scope,
    events: Events,
}

impl Fixture {
    fn new() -> Self {
        let scope = Scope::root("test");
        let events = Events::new();
        let world = World::default();
        let parts = BridgeParts {
            scope: scope.clone(),
            supervisor: Supervisor::new(scope.clone(), None),
            events: events.clone(),
            gantry: "/opt/gantry".into(),
            data_dir: std::env::temp_dir().join("gantry-bridge-tests"),
        };
        let bridge = Bridge::with_launcher(parts, Arc::new(world.clone()));
        bridge.set_address("http://127.0.0.1:1", "instance");
        Self { world, bridge, scope, events }
    }

    async fn close(self) {
        self.bridge.stop_all(soon()).await;
        assert_eq!(self.world.alive(), Vec::<String>::new());
        assert_eq!(self.scope.close(soon()).await, Vec::<String>::new());
        assert_eq!(self.world.alive(), Vec::<String>::new());
    }

    /// Waits until a view of a server is as wanted, at most a (paused) minute.
    async fn until(&self, name: &str, wanted: impl Fn(&ServerView) -> bool) -> ServerView {
        let (_, mut reader) = self.events.subscribe();
        let seen = async {
            loop {
                let found =
                    self.bridge.views().into_iter().find(|view| view.name == name && wanted(view));
                match found {
                    Some(view) => return view,
                    None => drop(reader.recv().await),
                }
            }
        };
        let views = || self.bridge.views();
        tokio::time::timeout(Duration::from_secs(120), seen)
            .await
            .unwrap_or_else(|_| panic!("`{name}` never came to be: {:#?}", views()))
    }

    /// Leases and waits; the outcome by name.
    async fn open(
        &self,
        session: &str,
        servers: Option<Vec<ServerSpec>>,
    ) -> Vec<(String, ReadinessState)> {
        self.bridge.lease(session, servers).await;
        let ready = self.bridge.ready(session, Deadline::after(Duration::from_secs(30))).await;
        ready.into_iter().map(|server| (server.name, server.state)).collect()
    }

    /// Where a session's token leads for a server.
    fn endpoint(&self, session: &str, name: &str) -> Option<Endpoint> {
        let token = {
            let registry = self.bridge.shared.registry();
            registry.sessions.get(session)?.token.text().to_owned()
        };
        self.bridge.resolve(&token, name).ok()
    }

    /// What a call by a session's token to a server reaches: the fake's mark and pid.
    async fn reach(&self, session: &str, name: &str) -> Option<String> {
        let endpoint = self.endpoint(session, name)?;
        assert_eq!(endpoint.session.as_deref(), Some(session));
        let answer =
            endpoint.hub.call_tool("who", json!({}), Duration::from_secs(60)).await.ok()?;
        Some(answer["content"][0]["text"].as_str()?.to_owned())
    }
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(5))
}

/// A server whose fake behaves as `script` says, with more of a configuration.
fn spec_with(name: &str, script: &str, more: Value) -> ServerSpec {
    let mut config = json!({ "command": "fake", "args": [script] });
    if let (Some(config), Value::Object(more)) = (config.as_object_mut(), more) {
        config.extend(more);
    }
    ServerSpec {
        name: name.into(),
        config: serde_json::from_value::<ServerConfig>(config).unwrap(),
    }
}

fn spec(name: &str, script: &str) -> ServerSpec {
    spec_with(name, script, json!({}))
}

/// A remote server whose fake behaves as `script` says.
fn far(name: &str, script: &str, more: Value) -> ServerSpec {
    let mut config = json!({ "url": format!("https://example.org/mcp#{script}") });
    if let (Some(config), Value::Object(more)) = (config.as_object_mut(), more) {
        config.extend(more);
    }
    ServerSpec { name: name.into(), config: serde_json::from_value(config).unwrap() }
}

/// Random cases of a test: `PROPTEST_CASES` when it is set.
fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}
