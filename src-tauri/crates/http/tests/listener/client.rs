//! An HTTP client that sends exactly what it is told.

use serde_json::Value;
use std::{collections::VecDeque, net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const BOUND: Duration = Duration::from_secs(20);

pub struct Client {
    stream: TcpStream,
    read: Vec<u8>,
    /// Events that came in one piece with those before.
    events: VecDeque<String>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        Self {
            stream: TcpStream::connect(address).await.unwrap(),
            read: Vec::new(),
            events: VecDeque::new(),
        }
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Sends to a connection that the other side may have closed.
    pub async fn try_write(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// Sends a request and reads its answer; the connection stays.
    pub async fn ask(&mut self, head: &str, body: &[u8]) -> Answer {
        self.write(head.as_bytes()).await;
        // The answer may come before the whole body has gone.
        let _ = self.stream.write_all(body).await;
        let (status, head) = self.head().await;
        let mut answer = Answer { status, head, body: String::new() };
        let length: usize =
            answer.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        while self.read.len() < length {
            assert!(self.more().await, "the connection ended inside a body");
        }
        answer.body = String::from_utf8(self.read.drain(..length).collect()).unwrap();
        answer
    }

    pub async fn head(&mut self) -> (u16, String) {
        loop {
            if let Some(end) = find(&self.read, b"\r\n\r\n") {
                let head: Vec<u8> = self.read.drain(..end + 4).collect();
                let head = String::from_utf8(head).unwrap();
                let status = head.split(' ').nth(1).unwrap().parse().unwrap();
                return (status, head);
            }
            assert!(self.more().await, "the connection ended before an answer");
        }
    }

    /// The status of the answer; `None` when the connection ends without one.
    pub async fn try_head(&mut self) -> Option<u16> {
        while find(&self.read, b"\r\n\r\n").is_none() {
            if !self.more().await {
                return None;
            }
        }
        Some(self.head().await.0)
    }

    /// The next server-sent event, as name and data; `None` at the end of the stream.
    pub async fn event(&mut self) -> Option<(String, Value)> {
        loop {
            let text = match self.events.pop_front() {
                Some(text) => text,
                None => {
                    let block = String::from_utf8(self.chunk().await?).unwrap();
                    // One chunk is whole events: each was written at once, or with others.
                    assert!(block.ends_with("\n\n"), "{block:?}");
                    self.events.extend(block.split_terminator("\n\n").map(str::to_owned));
                    continue;
                }
            };
            let field = |name: &str| {
                text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            };
            if let Some(data) = field("data") {
                let name = field("event").unwrap_or_default().to_owned();
                return Some((name, serde_json::from_str(data).unwrap()));
            }
        }
    }

    async fn chunk(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = find(&self.read, b"\r\n") {
                let size = std::str::from_utf8(&self.read[..end]).unwrap();
                let size = usize::from_str_radix(size, 16).unwrap();
                if self.read.len() >= end + 2 + size + 2 {
                    let chunk: Vec<u8> = self.read.drain(..end + 2 + size + 2).collect();
                    let data = &chunk[end + 2..end + 2 + size];
                    return (size > 0).then(|| data.to_vec());
                }
            }
            assert!(self.more().await, "the connection ended inside a stream");
        }
    }

    /// Waits for the other side to close.
    pub async fn closed(&mut self) {
        while self.more().await {}
    }

    async fn more(&mut self) -> bool {
        let reading = self.stream.read_buf(&mut self.read);
        let read = tokio::time::timeout(BOUND, reading).await.expect("an answer in time");
        read.is_ok_and(|n| n > 0)
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}
