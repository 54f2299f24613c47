//! The agent as a client sees it, over a pair of pipes in memory, with an MCP
//! server on loopback.

mod console;
mod model;
mod server;

use super::{memory::Memory, models::Models, protocol, session::Sessions};
use agent_client_protocol::{
    Agent, Client, Lines,
    schema::ProtocolVersion,
    v1::{
        ConnectionTo,
        schema::{
            CancelNotification, HttpHeader, InitializeRequest, InitializeResponse, McpServer,
            McpServerHttp, NewSessionRequest, PromptRequest, RequestPermissionOutcome,
            RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome,
            SessionId, SessionNotification, StopReason,
        },
    },
};
use futures::{SinkExt, StreamExt};
use gantry_supervisor::{Deadline, Scope, Supervisor};
use serde_json::Value;
use server::Server;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::PollSender;

/// Bounds every wait of a test.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client that keeps what it is sent.
#[derive(Clone)]
struct Desk {
    agent: ConnectionTo<Agent>,
    /// Every `update` object, as JSON.
    updates: watch::Receiver<Vec<Value>>,
    /// The option that permission requests are answered with; `None` leaves them open.
    answer: Arc<Mutex<Option<&'static str>>>,
    /// The permission requests that came.
    asked: watch::Receiver<Vec<Value>>,
    sessions: Sessions,
}

impl Desk {
    async fn initialize(&self) -> InitializeResponse {
        let request = InitializeRequest::new(ProtocolVersion::V1);
        self.agent.send_request(request).block_task().await.unwrap()
    }

    async fn open(&self, servers: Vec<McpServer>) -> SessionId {
        let request = NewSessionRequest::new(std::env::temp_dir()).mcp_servers(servers);
        self.agent.send_request(request).block_task().await.unwrap().session_id
    }

    async fn prompt(&self, session: &SessionId, text: &str) -> StopReason {
        let request = PromptRequest::new(session.clone(), vec![text.into()]);
        self.agent.send_request(request).block_task().await.unwrap().stop_reason
    }

    /// Prompts and returns the text that was said, with the number of pieces.
    async fn say(&self, session: &SessionId, text: &str) -> (String, usize) {
        let before = self.updates.borrow().len();
        assert_eq!(self.prompt(session, text).await, StopReason::EndTurn);
        let pieces: Vec<String> = self.updates.borrow()[before..]
            .iter()
            .filter(|update| update["sessionUpdate"] == "agent_message_chunk")
            .map(|update| update["content"]["text"].as_str().unwrap().to_owned())
            .collect();
        (pieces.concat(), pieces.len())
    }

    fn cancel(&self, session: &SessionId) {
        self.agent.send_notification(CancelNotification::new(session.clone())).unwrap();
    }

    /// The updates of one kind so far.
    fn updates(&self, kind: &str) -> Vec<Value> {
        let updates = self.updates.borrow();
        updates.iter().filter(|update| update["sessionUpdate"] == kind).cloned().collect()
    }

    /// Waits until an update fits.
    async fn update(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut updates = self.updates.clone();
        let seen = updates.wait_for(|updates| updates.iter().any(&fits));
        match tokio::time::timeout(PATIENCE, seen).await {
            Ok(Ok(updates)) => updates.iter().find(|update| fits(update)).cloned().unwrap(),
            _ => panic!("no {what} came"),
        }
    }
}

/// Runs a test as a client of a fresh agent, and checks that its end is clean.
async fn with_agent<F: AsyncFnOnce(Desk)>(models: Models, test: F) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let scope = Scope::root("test");
    let sessions = Sessions::new(
        scope.child("sessions"),
        Supervisor::new(scope.clone(), None),
        models,
        Memory::default(),
    );
    let (to_agent, from_client) = pipe();
    let (to_client, from_agent) = pipe();
    let served = scope.spawn("agent", {
        let sessions = sessions.clone();
        async move { protocol::serve(sessions, Lines::new(to_client, from_client)).await }
    });
    let (put_update, updates) = watch::channel(Vec::new());
    let (put_asked, asked) = watch::channel(Vec::new());
    let answer: Arc<Mutex<Option<&'static str>>> = Arc::default();
    let chosen = answer.clone();
    let mut open = Vec::new();
    let run = Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _agent| {
                let update = serde_json::to_value(&notification.update).unwrap();
                put_update.send_modify(|updates: &mut Vec<Value>| updates.push(update));
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _agent| {
                let request = serde_json::to_value(&request).unwrap();
                put_asked.send_modify(|asked: &mut Vec<Value>| asked.push(request));
                let option = *chosen.lock().unwrap();
                match option {
                    Some(option) => {
                        let selected = SelectedPermissionOutcome::new(option);
                        let outcome = RequestPermissionOutcome::Selected(selected);
                        responder.respond(RequestPermissionResponse::new(outcome))
                    }
                    None => {
                        open.push(responder);
                        Ok(())
                    }
                }
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(Lines::new(to_agent, from_agent), {
            let sessions = sessions.clone();
            async move |agent| {
                test(Desk { agent, updates, answer, asked, sessions }).await;
                Ok(())
            }
        });
    tokio::time::timeout(4 * PATIENCE, run).await.expect("the test ended in time").unwrap();
    // The client is gone: its end of the pipes is closed.
    let deadline = Deadline::after(PATIENCE);
    let served = deadline.bound(served.join()).await.expect("the agent ended").unwrap();
    if let Err(error) = served {
        // It may have been about to say something.
        assert!(error.to_string().contains("broken pipe"), "{error}");
    }
    sessions.close_all(deadline).await;
    assert_eq!(scope.close(Deadline::after(PATIENCE)).await, Vec::<String>::new());
}

/// A pipe of lines.
fn pipe() -> (
    impl futures::Sink<String, Error = std::io::Error> + Send + 'static,
    impl futures::Stream<Item = std::io::Result<String>> + Send + 'static,
) {
    let (put, mut get) = mpsc::channel::<String>(16);
    let put = PollSender::new(put).sink_map_err(|_| std::io::ErrorKind::BrokenPipe.into());
    (put, futures::stream::poll_fn(move |context| get.poll_recv(context)).map(Ok))
}

/// The declaration of a server, with a header that the server asks for.
fn declared(name: &str, server: &Server) -> McpServer {
    let header = HttpHeader::new("Authorization", format!("Bearer {}", server::TOKEN));
    McpServer::Http(McpServerHttp::new(name, server.url.clone()).headers(vec![header]))
}
