//! A client that costs next to nothing: what is measured with it is the bridge.
//!
//! The client of the tests goes through a whole HTTP library and would take as much of the two
//! cores as the bridge does; the direct way has nothing like it.

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// One kept connection in one MCP session.
pub struct Light {
    stream: TcpStream,
    head: String,
    next: u64,
    read: Vec<u8>,
}

impl Light {
    /// A connection to a bridge URL (`http://127.0.0.1:PORT/PATH`), in a session that exists.
    pub async fn open(url: &str, token: &str, session: &str) -> Self {
        let rest = url.strip_prefix("http://").unwrap_or(url);
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let stream = TcpStream::connect(host).await.unwrap_or_else(|why| panic!("{host}: {why}"));
        let _ = stream.set_nodelay(true);
        let head = format!(
            "POST /{path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n\
             mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n\
             content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
             content-length: "
        );
        Self { stream, head, next: 1, read: Vec::new() }
    }

    /// Calls a tool; gives its result.
    pub async fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.next += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.next, "method": "tools/call",
                              "params": { "name": tool, "arguments": arguments } });
        let message = message.to_string();
        let request = format!("{}{}\r\n\r\n{message}", self.head, message.len());
        self.stream.write_all(request.as_bytes()).await.unwrap_or_else(|why| panic!("{why}"));
        let mut answer = self.answer().await;
        assert_eq!(answer["id"], self.next, "{answer}");
        answer["result"].take()
    }

    /// The body of the next answer, which says how long it is.
    async fn answer(&mut self) -> Value {
        self.read.clear();
        loop {
            if let Some(end) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.read[..end]).to_ascii_lowercase();
                assert!(head.starts_with("http/1.1 200"), "{head}");
                let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
                let length = length.and_then(|length| length.trim().parse::<usize>().ok());
                let length = length.unwrap_or_else(|| panic!("no length: {head}"));
                let body = end + 4;
                while self.read.len() < body + length {
                    self.more().await;
                }
                let body = &self.read[body..body + length];
                return serde_json::from_slice(body).unwrap_or_else(|why| panic!("{why}"));
            }
            self.more().await;
        }
    }

    async fn more(&mut self) {
        let count = self.stream.read_buf(&mut self.read).await;
        let count = count.unwrap_or_else(|why| panic!("{why}"));
        assert!(count > 0, "the bridge closed the connection");
    }
}
