//! `GET /events`: a snapshot, then every event in order, all sessions. The
//! user interface lives on it.
//!
//! The snapshot comes as `event: snapshot`, events without a name. A reader
//! that lags gets `event: resync` and, in the same stream, a new snapshot.

use crate::{
    progress::reached,
    sse::{self, Frames},
};
use bytes::Bytes;
use gantry_core::{
    Result,
    app::App,
    events::{EventStream, StreamItem},
    shutdown::Phase,
    wire::{Happening, Snapshot},
};
use serde_json::json;
use std::collections::VecDeque;
use tokio::{
    sync::watch,
    time::{Interval, MissedTickBehavior, interval_at},
};

/// A reader's stream.
pub(crate) struct Feed {
    events: EventStream,
    phase: watch::Receiver<Phase>,
    ping: Interval,
    ready: VecDeque<Bytes>,
    is_over: bool,
}

impl Feed {
    /// A stream that begins with a snapshot.
    pub async fn open(app: &App) -> Result<Self> {
        let (snapshot, events) = EventStream::open(app).await?;
        let mut ping = interval_at(tokio::time::Instant::now() + sse::PING_EVERY, sse::PING_EVERY);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ready = VecDeque::from([sse::opening(), frame(&snapshot)]);
        Ok(Self { events, phase: app.shutdown().phase(), ping, ready, is_over: false })
    }
}

impl Frames for Feed {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(frame) = self.ready.pop_front() {
            return Some(frame);
        }
        if self.is_over {
            return None;
        }
        tokio::select! {
            biased;
            item = self.events.next() => match item? {
                StreamItem::Event(event) => {
                    // From here on processes end; a reader learns nothing more by staying.
                    self.is_over = matches!(
                        &event.what,
                        Happening::ShuttingDown { phase } if phase == Phase::Ask.name()
                    );
                    Some(sse::event(Some(event.seq), "", &event))
                }
                StreamItem::Snapshot(snapshot) => {
                    self.ready.push_back(frame(&snapshot));
                    Some(sse::event(None, "resync", &json!({ "seq": snapshot.seq })))
                }
            },
            // The event that says so has come before; this is for a reader that missed it.
            () = reached(&mut self.phase, Phase::Kill) => None,
            _ = self.ping.tick() => Some(sse::comment_ping()),
        }
    }
}

fn frame(snapshot: &Snapshot) -> Bytes {
    sse::event(Some(snapshot.seq), "snapshot", snapshot)
}
