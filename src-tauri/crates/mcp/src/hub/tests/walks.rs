//! Random interleavings over the bare state: whatever happens in whatever order, a
//! request ends exactly once and nothing of a client that left stays.

use super::*;
use crate::hub::{
    input::{Line, server_input},
    state::{Caller, Link, Speech, Upstream},
};
use proptest::prelude::*;
use std::collections::HashMap;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug)]
enum Step {
    Attach,
    Detach(usize),
    Request(usize, u8),
    /// The same, of revision 2026-07-28.
    Modern(usize, u8),
    Cancel(usize, u8),
    Connect,
    Ready,
    /// Answers the n-th of what the server has received and not answered.
    Answer(usize),
    Disconnect,
    AnnounceDown(bool),
    Expire,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Attach),
        1 => (0..4usize).prop_map(Step::Detach),
        8 => (0..4usize, 0..3u8).prop_map(|(client, id)| Step::Request(client, id)),
        4 => (0..4usize, 0..3u8).prop_map(|(client, id)| Step::Modern(client, id)),
        2 => (0..4usize, 0..3u8).prop_map(|(client, id)| Step::Cancel(client, id)),
        2 => Just(Step::Connect),
        3 => Just(Step::Ready),
        6 => (0..8usize).prop_map(Step::Answer),
        1 => Just(Step::Disconnect),
        1 => any::<bool>().prop_map(Step::AnnounceDown),
        1 => Just(Step::Expire),
    ]
}

/// Open requests of each attached client, as the client sees them.
#[derive(Default)]
struct World {
    state: Option<State>,
    clients: Vec<(ClientKey, HashMap<String, usize>)>,
    received: Option<mpsc::UnboundedReceiver<Line>>,
    unanswered: Vec<String>,
    generation: u64,
    now: Option<Instant>,
}

struct Nowhere;

impl Outlet for Nowhere {
    fn deliver(&self, _: ToClient) -> Result<(), crate::Full> {
        Ok(())
    }
}

impl World {
    fn settle(&mut self, effects: Effects) {
        for (key, _, message) in effects.deliveries {
            if !message.last {
                continue;
            }
            let id = message.concerning.expect("a response concerns a request");
            let client = self.clients.iter_mut().find(|(known, _)| *known == key);
            let (_, open) = client.expect("nothing is delivered to a client that left");
            assert!(open.remove(&id).is_some(), "request {id} of {key:?} ended twice");
        }
        if let Some(received) = &mut self.received {
            while let Ok(line) = received.try_recv() {
                let line: Value = serde_json::from_slice(&line.bytes).expect("JSON");
                if line["method"] == "notifications/cancelled" {
                    let id = line["params"]["requestId"].to_string();
                    self.unanswered.retain(|open| *open != id);
                } else if line.get("id").is_some() {
                    self.unanswered.push(line["id"].to_string());
                }
            }
        }
    }

    fn take(&mut self, step: Step) {
        let now = *self.now.get_or_insert_with(Instant::now);
        let mut effects = Effects::default();
        let mut state = self.state.take().expect("between steps");
        let count = self.clients.len();
        match step {
            Step::Attach if count < 4 => {
                let served = watch::Sender::new(false);
                let key = state.attach("walker", Arc::new(Nowhere), served);
                self.clients.push((key, HashMap::new()));
            }
            Step::Detach(client) if client < count => {
                let (key, _) = self.clients.remove(client);
                state.detach(key, "left");
            }
            Step::Request(client, id) | Step::Modern(client, id) if client < count => {
                let mut meta = json!({ "progressToken": id });
                if matches!(step, Step::Modern(..)) {
                    meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
                    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
                }
                let params = json!({ "_meta": meta });
                let line = json!({ "jsonrpc": "2.0", "id": id, "method": "x", "params": params });
                let line = line.to_string();
                let message = Envelope::parse(Bytes::from(line)).expect("valid");
                let (key, open) = &mut self.clients[client];
                let in_use = open.contains_key(&id.to_string());
                let taken = state.take_from_client(*key, message, now, &mut effects).is_ok();
                assert_eq!(taken, !in_use);
                open.insert(id.to_string(), 1);
            }
            Step::Cancel(client, id) if client < count => {
                let key = self.clients[client].0;
                let notice = |id| super::super::state::cancelled(id, "");
                state.cancel_with(key, &id.to_string(), notice, &mut effects);
            }
            Step::Connect => {
                self.generation += 1;
                let (input, received, _) = server_input();
                let (stop, refetch) = (CancellationToken::new(), Arc::new(Notify::new()));
                let generation = self.generation;
                let speech = Speech::Initialized { modern: None };
                let up = Upstream {
                    generation,
                    ready: false,
                    speech,
                    listening: None,
                    input,
                    stop,
                    refetch,
                };
                assert!(state.connected(up, &mut effects));
                self.received = Some(received);
                self.unanswered.clear();
            }
            Step::Ready => {
                let initialize = serde_json::value::to_raw_value(&json!({})).expect("JSON");
                state.ready(self.generation, (initialize, None), None, now, &mut effects);
            }
            Step::Answer(index) if index < self.unanswered.len() => {
                let id = self.unanswered.remove(index);
                let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
                let message = Envelope::parse(Bytes::from(line)).expect("valid");
                state.take_from_server(self.generation, message, now, &mut effects);
            }
            Step::Disconnect => {
                state.disconnected(self.generation, "closed its output", &mut effects);
                self.unanswered.clear();
            }
            Step::AnnounceDown(starting) => {
                state.announce_down("stopped", starting, &mut effects);
                self.unanswered.clear();
            }
            Step::Expire => {
                let later = now + Duration::from_secs(6);
                self.now = Some(later);
                state.expire(later, &mut effects);
            }
            _ => {}
        }
        self.state = Some(state);
        self.settle(effects);
        self.check();
    }

    fn check(&self) {
        let state = self.state.as_ref().expect("between steps");
        let open: usize = self.clients.iter().map(|(_, open)| open.len()).sum();
        let known: usize = state.clients.values().map(|client| client.calls.len()).sum();
        assert_eq!(open, known + state.held.len(), "every open request is either running or held");
        let of_clients =
            state.calls.values().filter(|call| matches!(call.caller, Caller::Client { .. }));
        assert_eq!(known, of_clients.count(), "both views of the calls agree");
        assert_eq!(state.clients.len(), self.clients.len());
        if let Link::Down { .. } = state.link {
            assert!(state.calls.is_empty(), "nothing runs without a connection");
        }
        if let Link::Down { starting: false, .. } = state.link {
            assert!(state.held.is_empty(), "nothing waits for what does not come");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_request_ends_exactly_once(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World { state: Some(State::new(&options("s"))), ..World::default() };
        for step in steps {
            world.take(step);
        }
        while !world.clients.is_empty() {
            world.take(Step::Detach(0));
        }
        let state = world.state.expect("between steps");
        let of_clients = |call: &super::super::state::Call| matches!(call.caller, Caller::Client { .. });
        prop_assert!(state.clients.is_empty() && state.held.is_empty());
        prop_assert!(!state.calls.values().any(of_clients));
        prop_assert!(state.retired.is_empty() && state.asked.is_empty());
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(".*", inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_splice_changes_the_id_and_nothing_else(
        mut message in prop::collection::btree_map("[a-z]{1,3}|id.?", json_value(), 0..6),
        id in prop_oneof![any::<u64>().prop_map(Value::from), ".*".prop_map(Value::from)],
        pretty in any::<bool>(),
    ) {
        message.insert("jsonrpc".into(), json!("2.0"));
        message.insert("id".into(), id);
        message.insert("method".into(), json!("m"));
        message.remove("error");
        message.remove("result");
        let value = Value::Object(message.into_iter().collect());
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let envelope = Envelope::parse(Bytes::from(text.expect("JSON"))).expect("a request");
        let span = envelope.id_span().expect("an id");
        let line = frame::to_line(frame::splice(&envelope.line, &mut [(span, "42")]));
        prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        // What the same text reads as: printing and reading a float may differ by a bit.
        let mut value: Value = serde_json::from_slice(&envelope.line).expect("JSON");
        value["id"] = json!(42);
        prop_assert_eq!(serde_json::from_slice::<Value>(&line).expect("JSON"), value);
    }
}
