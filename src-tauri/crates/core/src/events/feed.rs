//! One session's events, kept in a ring so that a reader may come late, go
//! away and come back (contract: 10,000 events or 32 MiB a session).

use crate::wire::{Event, Happening};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::watch;

/// Most events that a feed keeps.
const MOST_EVENTS: usize = 10_000;
/// Of them, ends of turns that stay when what is around them is dropped.
const MOST_ENDS: usize = MOST_EVENTS / 10;
/// Most bytes that a feed keeps, by the size of the updates.
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// The feed of one session. Clones are the same feed.
#[derive(Clone, Debug)]
pub struct Feed {
    ring: Arc<Mutex<Ring>>,
    /// The number of the newest event, or `None` once the session was deleted.
    newest: Arc<watch::Sender<Option<u64>>>,
}

#[derive(Debug, Default)]
struct Ring {
    /// Ends of turns that are older than `events`.
    ends: VecDeque<Arc<Event>>,
    events: VecDeque<(Arc<Event>, usize)>,
    bytes: usize,
    /// Number of the newest event that was dropped.
    dropped: u64,
}

/// What a reader of a feed gets.
#[derive(Clone, Debug)]
pub enum FeedItem {
    /// The next event.
    Event(Arc<Event>),
    /// Events between the reader's place and the ring's start are gone.
    Resync,
    /// The session was deleted.
    End,
}

impl Default for Feed {
    fn default() -> Self {
        Self { ring: Arc::default(), newest: Arc::new(watch::Sender::new(Some(0))) }
    }
}

impl Feed {
    pub(super) fn push(&self, events: Vec<Arc<Event>>) {
        let Some(newest) = events.last().map(|event| event.seq) else { return };
        {
            let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
            for event in events {
                let size = size(&event.what);
                ring.bytes += size;
                ring.events.push_back((event, size));
            }
            ring.shrink();
        }
        self.newest.send_replace(Some(newest));
    }

    pub(super) fn close(&self) {
        self.newest.send_replace(None);
    }

    /// Reads from the event after number `after` (0: from the first one kept).
    pub fn read(&self, after: u64) -> FeedReader {
        let newest = self.newest.subscribe();
        FeedReader { feed: self.clone(), after, newest, must_resync: false }
    }

    /// Reads from the first event kept, for a reader whose place is not in this feed.
    pub(super) fn read_anew(&self) -> FeedReader {
        FeedReader { must_resync: true, ..self.read(0) }
    }
}

impl Ring {
    /// Drops the oldest events over the limits, but never the end of a turn:
    /// a reader that comes late must learn that the turn is over.
    fn shrink(&mut self) {
        while self.events.len() + self.ends.len() > MOST_EVENTS || self.bytes > MOST_BYTES {
            let Some((event, size)) = self.events.pop_front() else { break };
            self.bytes -= size;
            if matches!(event.what, Happening::TurnEnded { .. }) && self.ends.len() < MOST_ENDS {
                self.ends.push_back(event);
            } else {
                self.dropped = self.dropped.max(event.seq);
            }
        }
    }

    /// The first event after this number.
    fn after(&self, seq: u64) -> Option<&Arc<Event>> {
        let end = self.ends.partition_point(|event| event.seq <= seq);
        self.ends.get(end).or_else(|| {
            let place = self.events.partition_point(|(event, _)| event.seq <= seq);
            self.events.get(place).map(|(event, _)| event)
        })
    }
}

/// A reader's place in a feed.
#[derive(Debug)]
pub struct FeedReader {
    feed: Feed,
    after: u64,
    newest: watch::Receiver<Option<u64>>,
    /// What it knows is of no use: that is the first that it is told.
    must_resync: bool,
}

impl FeedReader {
    /// The next item; waits for it. After [`FeedItem::End`] it never resolves again.
    pub async fn next(&mut self) -> FeedItem {
        if std::mem::take(&mut self.must_resync) {
            return FeedItem::Resync;
        }
        loop {
            let newest = *self.newest.borrow_and_update();
            if let Some(item) = self.take() {
                return item;
            }
            if newest.is_none() {
                if self.after == u64::MAX {
                    return std::future::pending().await;
                }
                self.after = u64::MAX;
                return FeedItem::End;
            }
            if self.newest.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// The next item, if it is there already.
    pub fn try_next(&mut self) -> Option<FeedItem> {
        if std::mem::take(&mut self.must_resync) {
            return Some(FeedItem::Resync);
        }
        self.take()
    }

    fn take(&mut self) -> Option<FeedItem> {
        let ring = self.feed.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let event = ring.after(self.after)?;
        // A reader that has read something must not miss anything in silence; one that starts at
        // the beginning takes what there is.
        if self.after != 0 && self.after < ring.dropped && event.seq > ring.dropped {
            self.after = ring.dropped;
            return Some(FeedItem::Resync);
        }
        self.after = event.seq;
        Some(FeedItem::Event(event.clone()))
    }
}

/// Roughly what an event takes in memory.
fn size(what: &Happening) -> usize {
    const BASE: usize = 256;
    match what {
        Happening::Update { update, .. } => BASE + update.get().len(),
        Happening::TurnStarted { prompt, .. } => BASE + prompt.iter().map(weight).sum::<usize>(),
        Happening::PermissionRequested { permission, .. } => BASE + weight(&permission.tool_call),
        Happening::QuestionAsked { question, .. } => BASE + question_weight(question),
        Happening::QuestionAnswered { question, .. } => BASE + question_weight(&question.asked),
        _ => BASE,
    }
}

fn question_weight(question: &crate::wire::QuestionView) -> usize {
    question.message.len() + question.schema.as_ref().map_or(0, weight)
}

fn weight(value: &serde_json::Value) -> usize {
    use serde_json::Value;
    match value {
        Value::String(text) => text.len() + 24,
        Value::Array(items) => 24 + items.iter().map(weight).sum::<usize>(),
        Value::Object(map) => {
            48 + map.iter().map(|(key, item)| key.len() + 32 + weight(item)).sum::<usize>()
        }
        _ => 24,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Events;
    use serde_json::json;

    fn update(text: &str) -> Happening {
        Happening::Update {
            session: "s".into(),
            turn: None,
            update: json!({ "text": text }).into(),
        }
    }

    fn end(turn: &str) -> Happening {
        Happening::TurnEnded {
            session: "s".into(),
            turn: turn.into(),
            reason: "end_turn".into(),
            description: None,
        }
    }

    async fn seq(reader: &mut FeedReader) -> u64 {
        match reader.next().await {
            FeedItem::Event(event) => event.seq,
            other => panic!("expected an event, got {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_late_reader_gets_everything_and_a_returning_one_goes_on() {
        let events = Events::new();
        for n in 0..5 {
            events.publish(update(&n.to_string()));
        }
        let mut first = events.feed("s").read(0);
        for expected in 1..=5 {
            assert_eq!(seq(&mut first).await, expected);
        }
        let mut second = events.feed("s").read(3);
        assert_eq!(seq(&mut second).await, 4);
    }

    #[tokio::test]
    async fn a_reader_with_a_number_of_another_run_is_told_and_starts_over() {
        let earlier = Events::of_this_run();
        let old = earlier.publish(update("old"));
        let events = Events::after(old + 1_000);
        let first = events.publish(update("one"));
        let newest = events.publish(Happening::AgentsChanged {});
        for foreign in [old, 7, newest + 1, u64::MAX] {
            let mut reader = events.read("s", foreign);
            assert!(matches!(reader.next().await, FeedItem::Resync), "{foreign}");
            assert_eq!(seq(&mut reader).await, first);
        }
        // An event of another session is a place as well: what comes next is new.
        let mut reader = events.read("s", newest);
        let next = events.publish(update("two"));
        assert_eq!(seq(&mut reader).await, next);
        assert_eq!(seq(&mut events.read("s", 0)).await, first);
    }

    #[tokio::test]
    async fn the_end_of_a_turn_is_never_dropped() {
        let events = Events::new();
        events.publish(end("t1"));
        for n in 0..MOST_EVENTS + 10 {
            events.publish(update(&n.to_string()));
        }
        let mut reader = events.feed("s").read(0);
        assert_eq!(seq(&mut reader).await, 1);
    }

    #[tokio::test]
    async fn a_reader_that_was_overtaken_is_told_once() {
        let events = Events::new();
        events.publish(update("first"));
        let mut reader = events.feed("s").read(0);
        assert_eq!(seq(&mut reader).await, 1);
        for n in 0..MOST_EVENTS + 10 {
            events.publish(update(&n.to_string()));
        }
        assert!(matches!(reader.next().await, FeedItem::Resync));
        assert!(matches!(reader.next().await, FeedItem::Event(_)));
    }

    #[tokio::test]
    async fn large_updates_count_by_their_size() {
        let events = Events::new();
        let large = "x".repeat(1024 * 1024);
        for _ in 0..40 {
            events.publish(update(&large));
        }
        let feed = events.feed("s");
        let ring = feed.ring.lock().unwrap();
        assert!(ring.bytes <= MOST_BYTES && ring.events.len() < 33);
    }

    /// What lives, not what the process takes: the allocator keeps some of what it was given back.
    #[tokio::test]
    async fn a_hundred_thousand_updates_leave_no_more_alive_than_ten_thousand() {
        let events = Events::new();
        let (_, mut reader) = events.subscribe();
        let mut seen = Vec::new();
        let mut alive = Vec::new();
        for round in 0..100 {
            let batch = (0..1_000).map(|n| update(&format!("{round} {n}")));
            events.publish_all(batch);
            while let Ok(event) = reader.try_recv() {
                seen.push(Arc::downgrade(&event));
            }
            alive.push(seen.iter().filter(|event| event.strong_count() > 0).count());
        }
        assert_eq!(seen.len(), 100_000);
        assert_eq!((alive[9], alive[99]), (MOST_EVENTS, MOST_EVENTS), "{alive:?}");
        assert!(alive[10..].iter().all(|alive| *alive == MOST_EVENTS), "{alive:?}");
    }

    #[tokio::test]
    async fn a_deleted_session_ends_its_feed() {
        let events = Events::new();
        events.publish(update("one"));
        let mut reader = events.feed("s").read(0);
        seq(&mut reader).await;
        events.publish(Happening::SessionRemoved { id: "s".into() });
        assert!(matches!(reader.next().await, FeedItem::End));
    }
}
