//! What comes as a stream of events: the answer to a request, a subscription, what belongs to no
//! request.

use super::{BREAKS, Lost, PAUSE, STEADY, Session, chain, is_events};
use crate::mcp::{auth::Patience, sse::Events};
use gantry_mcp::{Envelope, Kind, modern};
use reqwest::{Method, Response};
use tokio::time::Instant;

impl Session<'_> {
    /// The answer to a request, as a stream that ends with it.
    pub(super) async fn answer_on_stream(
        &self,
        request: &Envelope,
        mut response: Response,
    ) -> Result<(), Lost> {
        let id = request.id().unwrap_or("null");
        let mut events = Events::default();
        for breaks in 0..BREAKS {
            loop {
                while let Some(event) = events.next() {
                    let line = event.data;
                    if line.is_empty() {
                        continue;
                    }
                    let answer = Envelope::parse(line.clone()).ok();
                    let is_last = answer.as_ref().is_some_and(|answer| {
                        matches!(answer.kind(), Kind::Result | Kind::Error)
                            && answer.id() == Some(id)
                    });
                    if is_last {
                        self.agree(request, &line);
                    }
                    self.pass(line).await?;
                    if is_last {
                        return Ok(());
                    }
                }
                match response.chunk().await {
                    Ok(Some(piece)) => {
                        if events.feed(&piece).is_err() {
                            return self.fail(id, "sent a message over the limit").await;
                        }
                    }
                    Ok(None) | Err(_) => break,
                }
            }
            // A server may end a stream early and expect to be asked for the rest.
            let last = events.last_id.clone().filter(|_| modern::version(request).is_none());
            let Some(last) = last else { break };
            tokio::time::sleep(events.retry.unwrap_or(PAUSE * 2_u32.pow(breaks))).await;
            let again = self
                .request(Method::GET)
                .header("accept", "text/event-stream")
                .header("last-event-id", last);
            let again = self.remote.send(again, Patience::Quiet).await;
            match again {
                Ok(again) if again.status().is_success() && is_events(&again) => {
                    response = again;
                    events = events.on_a_new_stream();
                }
                _ => break,
            }
        }
        self.fail(id, "the connection broke before the answer").await
    }

    /// A subscription of revision 2026-07-28: a request that stays open, and is made again when
    /// its connection breaks.
    pub(super) async fn keep_listening(&self, request: &Envelope) -> Result<(), Lost> {
        let (mut breaks, mut failures) = (0_u32, 0);
        loop {
            let begun = Instant::now();
            match self.post(request).await {
                Ok(response) if !response.status().is_success() => {
                    return self.refused(request, response).await;
                }
                Ok(mut response) => {
                    failures = 0;
                    if !is_events(&response) {
                        return self.answer_in_body(request, response).await;
                    }
                    let mut events = Events::default();
                    while let Ok(Some(piece)) = response.chunk().await {
                        if events.feed(&piece).is_err() {
                            return Err("sent a message over the limit".to_owned());
                        }
                        while let Some(event) = events.next() {
                            let message = Envelope::parse(event.data.clone()).ok();
                            let is_last = message.is_some_and(|message| {
                                message.id().is_some() && message.id() == request.id()
                            });
                            if !event.data.is_empty() {
                                self.pass(event.data).await?;
                            }
                            if is_last {
                                return Ok(());
                            }
                        }
                    }
                }
                Err(error) => {
                    failures += 1;
                    if failures >= BREAKS {
                        return Err(format!("cannot be reached: {}", chain(&error)));
                    }
                }
            }
            breaks = if begun.elapsed() > STEADY { 0 } else { breaks + 1 };
            tokio::time::sleep(PAUSE * 2_u32.pow(breaks.min(7))).await;
        }
    }

    /// The stream for what belongs to no request, opened again when it breaks.
    pub(super) async fn listen(&self) -> Lost {
        self.established.notified().await;
        let (mut breaks, mut last_id) = (0, None::<String>);
        let mut renewed = self.renewed.subscribe();
        loop {
            renewed.mark_unchanged();
            let session = self.id();
            let mut request = self.request(Method::GET).header("accept", "text/event-stream");
            if let Some(last) = &last_id {
                request = request.header("last-event-id", last);
            }
            let mut events = Events::default();
            let sent = self.remote.send(request, Patience::Quiet).await;
            match sent.map_err(reqwest::Error::without_url) {
                Ok(response) => {
                    if let Some(session) = session.filter(|_| Self::is_unknown(&response)) {
                        if let Err(lost) = self.renew(&session).await {
                            return lost;
                        }
                        last_id = None;
                        continue;
                    }
                    if !response.status().is_success() || !is_events(&response) {
                        // It offers none (405), which the protocol allows.
                        return std::future::pending().await;
                    }
                    let heard = tokio::select! {
                        heard = self.hear(response, &mut events) => heard,
                        // This one belongs to the old session.
                        _ = renewed.changed() => {
                            last_id = None;
                            continue;
                        }
                    };
                    match heard {
                        Ok(0) => breaks += 1,
                        Ok(_) => breaks = 0,
                        Err(lost) => return lost,
                    }
                }
                Err(error) => {
                    breaks += 1;
                    if breaks >= BREAKS {
                        return format!("cannot be reached: {}", chain(&error));
                    }
                }
            }
            last_id = events.last_id.or(last_id);
            let pause = PAUSE * 2_u32.pow(breaks.min(7));
            tokio::time::sleep(events.retry.unwrap_or(pause).max(PAUSE)).await;
        }
    }

    async fn hear(&self, mut response: Response, events: &mut Events) -> Result<usize, Lost> {
        let mut heard = 0;
        while let Ok(Some(piece)) = response.chunk().await {
            if events.feed(&piece).is_err() {
                return Err("sent a message over the limit".to_owned());
            }
            while let Some(event) = events.next() {
                heard += 1;
                if !event.data.is_empty() {
                    self.pass(event.data).await?;
                }
            }
        }
        Ok(heard)
    }
}
