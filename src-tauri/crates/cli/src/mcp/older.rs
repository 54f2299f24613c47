//! The transport of revision 2024-11-05: a stream of events down, whose first event names the
//! endpoint for messages up. Many servers still speak it, and it alone.

use super::{
    auth::Patience,
    remote::{
        ACCEPT, LONGEST, Lost, QUEUE, Remote, WANTS_SIGN_IN, chain, is_events, patience_of, write,
    },
    sse::Events,
};
use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use gantry_mcp::{Envelope, Kind, Line, LineReader, frame};
use reqwest::{Response, StatusCode, Url};
use serde_json::json;
use std::time::Duration;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

/// How long the stream may take to name its endpoint.
const NAMED: Duration = Duration::from_secs(5);
const CLOSED: &str = "its connection was closed";

/// Carries one session. `first` is the request that another transport was refused, with the
/// reason, which stays the reason when this one is not there either. `speaks_it` is
/// called when the host speaks it.
pub(super) async fn carry(
    remote: &Remote,
    first: Option<(Bytes, Lost)>,
    speaks_it: &(dyn Fn() + Sync),
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
) -> Lost {
    let opened = match tokio::time::timeout(NAMED, Channel::open(remote)).await {
        Ok(opened) => opened,
        Err(_) => Err("named no endpoint on its event stream in time".to_owned()),
    };
    let (channel, first) = match (opened, first) {
        (Ok(channel), first) => (channel, first.map(|(line, _)| line)),
        (Err(why), Some(_)) if why == WANTS_SIGN_IN => return why,
        (Err(_), Some((_, refused))) => return refused,
        (Err(why), None) => return why,
    };
    speaks_it();
    let ((out, received), (requests, asked)) = (mpsc::channel(QUEUE), mpsc::channel(QUEUE));
    if let Some(tokens) = &remote.tokens {
        tokens.tell(out.clone());
    }
    let up = Up { remote, endpoint: channel.endpoint.clone(), out: out.clone() };
    tokio::select! {
        lost = channel.hear(out) => lost,
        lost = up.dispatch(first, reader, requests) => lost,
        lost = up.drive(asked) => lost,
        lost = write(received, writer) => lost,
    }
}

/// Whether the host speaks this transport, as far as that shows within `limit`.
pub(super) async fn is_there(remote: &Remote, limit: Duration) -> bool {
    matches!(tokio::time::timeout(limit, Channel::open(remote)).await, Ok(Ok(_)))
}

/// The way down, open.
struct Channel {
    response: Response,
    events: Events,
    endpoint: Url,
}

impl Channel {
    async fn open(remote: &Remote) -> Result<Self, Lost> {
        let request = remote.http.get(remote.url.clone()).headers(remote.headers.clone());
        let request = request.header("accept", "text/event-stream");
        let sent = remote.send(request, Patience::None).await;
        let mut response =
            sent.map_err(|error| format!("cannot be reached: {}", chain(&error.without_url())))?;
        let status = response.status();
        if let Some(lost) = remote.ends_for_sign_in(status) {
            return Err(lost);
        }
        if !status.is_success() || !is_events(&response) {
            return Err(format!("answered HTTP {status} instead of its event stream"));
        }
        let mut events = Events::default();
        loop {
            if let Some(event) = events.next() {
                let endpoint = endpoint(&remote.url, &event.data)?;
                return Ok(Self { response, events, endpoint });
            }
            match response.chunk().await {
                Ok(Some(piece)) if events.feed(&piece).is_ok() => {}
                _ => return Err("named no endpoint on its event stream".to_owned()),
            }
        }
    }

    async fn hear(mut self, out: mpsc::Sender<Bytes>) -> Lost {
        loop {
            while let Some(event) = self.events.next() {
                if !event.data.is_empty() && out.send(event.data).await.is_err() {
                    return CLOSED.to_owned();
                }
            }
            match self.response.chunk().await {
                Ok(Some(piece)) => {
                    if self.events.feed(&piece).is_err() {
                        return "sent a message over the limit".to_owned();
                    }
                }
                Ok(None) | Err(_) => return "ended its event stream".to_owned(),
            }
        }
    }
}

/// Only on the same host: headers with secrets go there.
fn endpoint(url: &Url, named: &[u8]) -> Result<Url, Lost> {
    let named = std::str::from_utf8(named).ok().and_then(|text| url.join(text.trim()).ok());
    named.filter(|endpoint| endpoint.origin() == url.origin()).ok_or_else(|| {
        "named no endpoint of its own host as the first event of its stream".to_owned()
    })
}

/// The way up.
struct Up<'a> {
    remote: &'a Remote,
    endpoint: Url,
    out: mpsc::Sender<Bytes>,
}

impl Up<'_> {
    async fn dispatch(
        &self,
        mut first: Option<Bytes>,
        reader: impl AsyncRead + Unpin,
        requests: mpsc::Sender<Envelope>,
    ) -> Lost {
        let mut lines = LineReader::new(reader, LONGEST);
        loop {
            let line = match first.take() {
                Some(line) => line,
                None => match lines.next().await {
                    Ok(Some(Line::Full(line))) => line,
                    Ok(Some(Line::TooLong { length, .. })) => {
                        return format!(
                            "a message of {length} bytes is over the limit of {LONGEST}"
                        );
                    }
                    Ok(None) | Err(_) => return CLOSED.to_owned(),
                },
            };
            let Ok(message) = Envelope::parse(line) else { continue };
            if message.kind() == Kind::Request {
                if requests.send(message).await.is_err() {
                    return CLOSED.to_owned();
                }
            } else if let Err(lost) = self.post(&message).await {
                return lost;
            }
        }
    }

    /// Requests side by side: a host may hold one until it is answered.
    async fn drive(&self, mut asked: mpsc::Receiver<Envelope>) -> Lost {
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                request = asked.recv() => match request {
                    Some(request) => {
                        running.push(async move { self.post(&request).await }.boxed());
                    }
                    None => return CLOSED.to_owned(),
                },
                Some(done) = running.next(), if !running.is_empty() => {
                    if let Err(lost) = done {
                        return lost;
                    }
                }
            }
        }
    }

    async fn post(&self, message: &Envelope) -> Result<(), Lost> {
        let request = self.remote.http.post(self.endpoint.clone());
        let request = request.headers(self.remote.headers.clone());
        let request = request.header("content-type", "application/json").body(message.line.clone());
        let request = self.remote.send(request, patience_of(message));
        // A request may be held until it is answered; anything else is only to be taken.
        let sent = if message.kind() == Kind::Request {
            request.await
        } else {
            match tokio::time::timeout(ACCEPT, request).await {
                Ok(sent) => sent,
                Err(_) => return Err("does not accept messages".to_owned()),
            }
        };
        let status = match sent {
            Ok(response) => response.status(),
            Err(error) => {
                return Err(format!("cannot be reached: {}", chain(&error.without_url())));
            }
        };
        if let Some(lost) = self.remote.ends_for_sign_in(status) {
            return Err(lost);
        }
        if matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE) {
            return Err(format!("has forgotten its session (HTTP {})", status.as_u16()));
        }
        if status.is_success() || message.kind() != Kind::Request {
            return Ok(());
        }
        let why = format!("answered HTTP {status}");
        let text = format!("{why}. The request was not repeated");
        let id = message.id().unwrap_or("null");
        let line = frame::error(id, frame::UNAVAILABLE, &text, Some(json!({ "reason": why })));
        self.out.send(line.freeze()).await.map_err(|_| CLOSED.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_on_the_same_host_or_none() {
        let url: Url = "https://h:1/a/sse?k=v".parse().expect("a URL");
        for (named, wanted) in [
            ("/messages?id=1", "https://h:1/messages?id=1"),
            ("messages", "https://h:1/a/messages"),
            (" https://h:1/x\n", "https://h:1/x"),
        ] {
            assert_eq!(endpoint(&url, named.as_bytes()).expect("fine").as_str(), wanted);
        }
        for named in ["https://other/x", "http://h:1/x", "//other/x", "https://h:2/"] {
            endpoint(&url, named.as_bytes()).expect_err(named);
        }
    }
}
