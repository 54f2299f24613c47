//! A core with a listener in a directory of its own.

use crate::client::{Answer, Client};
use gantry_core::{
    app::{App, AppOptions},
    data_dir::DataDir,
    programs::Programs,
    session::{AgentSpec, NewSession},
    wire::{Policy, SessionView},
};
use gantry_http::HttpOptions;
use gantry_store::{ProjectRow, Store};
use serde_json::Value;
use std::net::SocketAddr;

pub struct Site {
    pub app: App,
    pub address: SocketAddr,
    pub place: tempfile::TempDir,
}

impl Site {
    pub async fn open() -> Self {
        Self::open_with(HttpOptions::default()).await
    }

    pub async fn open_with(options: HttpOptions) -> Self {
        let place = tempfile::tempdir().unwrap();
        let data = DataDir::at(place.path().join("data"));
        data.create().unwrap();
        // No default servers: these tests start no process.
        let store = Store::open(&data.database).unwrap();
        store.save_setting("defaults_installed", "true").await.unwrap();
        store.close().await.unwrap();
        let app = App::start(AppOptions {
            data,
            token_file: None,
            programs: Programs { gantry: "gantry".into(), warden: None },
        })
        .await
        .unwrap();
        let listener = gantry_http::bind("127.0.0.1", 0).await.unwrap();
        let address = listener.local_addr().unwrap();
        gantry_http::serve(app.clone(), listener, options, app.scope().child("http")).unwrap();
        app.set_address(&gantry_http::url(address)).await.unwrap();
        Self { app, address, place }
    }

    pub async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    /// A request head with everything right.
    pub fn head(&self, method: &str, path: &str) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n",
            self.address,
            self.app.token()
        )
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.connect().await.ask(&format!("{}\r\n", self.head("GET", path)), b"").await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(path, body.to_string().as_bytes()).await
    }

    pub async fn send(&self, path: &str, body: &[u8]) -> Answer {
        let head = format!("{}Content-Length: {}\r\n\r\n", self.head("POST", path), body.len());
        self.connect().await.ask(&head, body).await
    }

    /// A session that nothing was started for.
    pub async fn session(&self) -> SessionView {
        let path = self.place.path().to_string_lossy().into_owned();
        let row = ProjectRow { id: "u1/p1".into(), path, name: "p1".into(), created_at: 0 };
        let project = self.app.store().ensure_project(row).await.unwrap();
        let new = NewSession {
            project,
            agent: AgentSpec {
                id: "built-in".into(),
                command: String::new(),
                args: vec![],
                env: Default::default(),
                offers: Default::default(),
            },
            servers: Some(vec![]),
            title: None,
            policy: Policy::Ask,
            system_prompt: None,
            user_id: Some("u1".into()),
            acp_id: None,
            open_now: false,
        };
        self.app.sessions().create(new).await.unwrap()
    }

    /// Ends the core; nothing of the listener may be stuck.
    pub async fn close(self) {
        self.app.shutdown().request("end of the test");
        let report = self.app.ended().await;
        assert_eq!((report.code, report.stuck_tasks), (0, vec![]));
    }
}
