//! What a user interface lives on: a snapshot, then every event after it.

use super::merge::Merger;
use crate::{
    app::App,
    wire::{Event, Nothing, Snapshot},
};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    time::Instant,
};

/// How long a chunk of text waits for the next one: two frames of a screen.
const MERGE_SPAN: Duration = Duration::from_millis(24);

/// One thing that a reader gets.
#[derive(Clone, Debug)]
pub enum StreamItem {
    /// The next event; one that was not merged is shared by all readers.
    Event(Arc<Event>),
    /// The reader lagged: this replaces everything it knows.
    Snapshot(Box<Snapshot>),
}

/// A snapshot at sequence *n*, then the events after *n*; adjacent chunks of
/// one text are merged. It ends with the app's scope, late in the shutdown.
#[derive(Debug)]
pub struct EventStream {
    app: App,
    events: Receiver<Arc<Event>>,
    /// Events up to this one are in the reader's snapshot.
    known: u64,
    ready: VecDeque<Arc<Event>>,
    merger: Merger,
    flush_at: Option<Instant>,
    over: bool,
}

impl EventStream {
    /// A new reader and the snapshot that it starts from.
    ///
    /// # Errors
    /// None at present; a snapshot may fail in a later version.
    pub async fn open(app: &App) -> crate::Result<(Snapshot, Self)> {
        // The subscription first: what happens while the snapshot is taken comes as an event.
        let (_, events) = app.events().subscribe();
        let snapshot = app.snapshot(Nothing {}).await?;
        let stream = Self {
            app: app.clone(),
            events,
            known: snapshot.seq,
            ready: VecDeque::new(),
            merger: Merger::default(),
            flush_at: None,
            over: false,
        };
        Ok((snapshot, stream))
    }

    /// The next item, or `None` when Gantry has ended.
    pub async fn next(&mut self) -> Option<StreamItem> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(StreamItem::Event(event));
            }
            if self.over {
                return None;
            }
            let flush_at =
                self.flush_at.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
            tokio::select! {
                received = self.events.recv() => match received {
                    Ok(event) => self.take(event),
                    Err(RecvError::Lagged(_)) => return Some(self.start_over().await),
                    Err(RecvError::Closed) => self.finish(),
                },
                () = tokio::time::sleep_until(flush_at), if self.flush_at.is_some() => self.flush(),
                // The last events of the shutdown come after its tasks were told to end.
                () = self.app.scope().cancelled() => self.finish(),
            }
        }
    }

    fn take(&mut self, event: Arc<Event>) {
        if event.seq <= self.known {
            return;
        }
        self.ready.extend(self.merger.push(event));
        self.flush_at = self
            .merger
            .is_holding()
            .then(|| self.flush_at.unwrap_or_else(|| Instant::now() + MERGE_SPAN));
    }

    fn flush(&mut self) {
        self.ready.extend(self.merger.flush());
        self.flush_at = None;
    }

    fn finish(&mut self) {
        self.flush();
        self.over = true;
    }

    async fn start_over(&mut self) -> StreamItem {
        self.merger = Merger::default();
        self.flush_at = None;
        let (_, events) = self.app.events().subscribe();
        self.events = events;
        // A snapshot of the state in memory cannot fail; a reader without one would be blind.
        let snapshot = match self.app.snapshot(Nothing {}).await {
            Ok(snapshot) => snapshot,
            Err(error) => {
                tracing::error!("no snapshot for a reader that lagged: {error}");
                self.over = true;
                Snapshot {
                    seq: self.known,
                    servers: Vec::new(),
                    sessions: Vec::new(),
                    version: crate::VERSION.into(),
                    notice: None,
                    last_exit: None,
                }
            }
        };
        self.known = snapshot.seq;
        StreamItem::Snapshot(Box::new(snapshot))
    }
}
