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
    wire::{Event, Happening, Snapshot},
};
use serde_json::json;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{
    sync::watch,
    time::{Interval, MissedTickBehavior, interval_at},
};

/// A reader's stream.
pub(crate) struct Feed {
    events: EventStream,
    written: Written,
    phase: watch::Receiver<Phase>,
    ping: Interval,
    ready: VecDeque<Bytes>,
    is_over: bool,
}

impl Feed {
    /// A stream that begins with a snapshot.
    pub async fn open(app: &App, written: Written) -> Result<Self> {
        let (snapshot, events) = EventStream::open(app).await?;
        let mut ping = interval_at(tokio::time::Instant::now() + sse::PING_EVERY, sse::PING_EVERY);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ready = VecDeque::from([sse::opening(), frame(&snapshot)]);
        let phase = app.shutdown().phase();
        Ok(Self { events, written, phase, ping, ready, is_over: false })
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
                    Some(self.written.frame(&event))
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

/// An event and what it is on the stream.
type Frame = (Arc<Event>, Bytes);

/// The last events as they were written for one reader, for all the others. Clones are the
/// same ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    recent: Arc<Mutex<VecDeque<Frame>>>,
}

impl Written {
    /// So many are kept: readers are seldom further apart.
    const MOST: usize = 64;
    /// Larger ones are written for each reader, so that little memory is held.
    const LARGEST: usize = 64 * 1024;

    fn frame(&self, event: &Arc<Event>) -> Bytes {
        let write = || sse::event(Some(event.seq), "", event.as_ref());
        // One that was merged for this reader is nobody else's.
        if Arc::strong_count(event) == 1 {
            return write();
        }
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = recent.iter().rev().find(|(known, _)| Arc::ptr_eq(known, event)) {
            return bytes.clone();
        }
        // Whoever comes for the same one meanwhile waits instead of doing it once more.
        let bytes = write();
        if bytes.len() <= Self::LARGEST {
            if recent.len() == Self::MOST {
                recent.pop_front();
            }
            recent.push_back((event.clone(), bytes.clone()));
        }
        bytes
    }
}

fn frame(snapshot: &Snapshot) -> Bytes {
    sse::event(Some(snapshot.seq), "snapshot", snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(seq: u64) -> Arc<Event> {
        let what = Happening::SessionRemoved { id: "x".repeat(10) };
        Arc::new(Event { seq, at: 0, what })
    }

    #[test]
    fn an_event_is_written_once_for_all_readers() {
        let written = Written::default();
        let shared: Vec<_> = (0..100).map(ended).collect();
        let others = shared.clone();
        for (event, same) in shared.iter().zip(&others) {
            let first = written.frame(event);
            assert!(first.starts_with(format!("id: {}\n", event.seq).as_bytes()));
            assert_eq!(written.frame(same).as_ptr(), first.as_ptr());
        }
        assert_eq!(written.recent.lock().unwrap().len(), Written::MOST);
        // What was merged for one reader is not kept.
        let own = ended(1000);
        written.frame(&own);
        assert_eq!(written.recent.lock().unwrap().len(), Written::MOST);
        assert!(written.recent.lock().unwrap().iter().all(|(known, _)| known.seq != 1000));
    }
}
