//! The client side of the Agent Client Protocol over any byte stream. Knows no
//! process: it gets a reader and a writer.
//!
//! The official crate does the JSON-RPC; this crate adds what a host of many
//! agents needs:
//!
//! - **One ordered, bounded queue.** Updates, permission requests *and the
//!   answers to our own requests* come out of one queue in the order in which
//!   the agent wrote them, so that a turn's updates are all seen before its end.
//! - **Nothing is lost.** Updates are carried as the raw `update` object, unknown kinds included.
//! - **Nobody waits in the dispatch loop.** A permission request carries its
//!   answerer; dropping it answers `cancelled`.
//! - **Noise is survived.** Lines on standard output that are no messages are skipped and remembered.
//!
//! ```text
//! reader ─► lines ─► official crate ─► queue ─► FromAgent::{Permission, Call, Answer}
//!             └── updates, in order ─────▲
//! Peer::request ───► official crate ─► lines ─► writer
//! ```
//! Updates take the short way: they are nine tenths of what an agent writes, and need
//! nothing of what the protocol layer does.

#![deny(missing_docs)]

mod call;
mod facts;
mod from_agent;
mod lines;
mod offers;
mod peer;
mod problem;
mod tap;
#[cfg(test)]
mod tests;
mod update;

pub use call::{CallError, ClientCall, ELICIT};
pub use facts::AgentFacts;
pub use from_agent::{Answer, FromAgent, PermissionAsk};
pub use offers::Offers;
pub use peer::{ClientInfo, Opening, Peer, SentRequest, Written};
pub use problem::{Disconnected, PeerError};
pub use tap::{Direction, Tap};
pub use update::{RawUpdate, Shape, TextChunk, is_part_of_conversation};

use agent_client_protocol as sdk;
use from_agent::Router;
use lines::{Fence, Noise, Outlets, WrittenRequests};
use std::future::Future;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, watch},
};

/// Limits of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Messages that may wait in the queue before the agent's output is no
    /// longer read.
    pub queue: usize,
    /// Longest line in bytes; a longer one is skipped.
    pub line: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { queue: 512, line: 64 * 1024 * 1024 }
    }
}

/// Connects to the agent behind these streams. The third part drives the
/// connection: it must be run as a task, and it ends with the connection. The
/// queue must be drained all the time, also while waiting for an answer. `offers` is what
/// is done for the agent when it asks. `tap` sees every line in both directions.
pub fn connect<R, W>(
    reader: R,
    writer: W,
    limits: Limits,
    offers: Offers,
    tap: Option<Tap>,
) -> (
    Peer,
    mpsc::Receiver<FromAgent>,
    impl Future<Output = Result<(), Disconnected>> + Send + 'static,
)
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    // The reader holds a place while it waits for the agent; others need one too.
    let (queue, received) = mpsc::channel(limits.queue.max(2));
    let (link_sender, link) = watch::channel(None);
    let written = WrittenRequests::default();
    let noise = Noise::default();
    let peer = Peer::new(link, queue.downgrade(), offers, written.clone(), noise.clone());
    let parts = Parts { limits, offers, queue, link: link_sender, written, noise, tap };
    let driver = drive(reader, writer, parts);
    (peer, received, driver)
}

/// The parts of one connection.
struct Parts {
    limits: Limits,
    offers: Offers,
    queue: mpsc::Sender<FromAgent>,
    link: watch::Sender<Option<peer::Link>>,
    written: WrittenRequests,
    noise: Noise,
    tap: Option<Tap>,
}

async fn drive<R, W>(reader: R, writer: W, parts: Parts) -> Result<(), Disconnected>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let Parts { limits, offers, queue, link, written, noise, tap } = parts;
    let _end_of_writing = written.clone().until_dropped();
    let (ours, theirs) = sdk::Channel::duplex();
    let (outgoing, incoming) = ours.into_parts();
    let fence = Fence::default();
    let router = Router::new(queue.clone(), offers, fence.clone());
    let outlets = Outlets { incoming, queue, fence, noise, tap: tap.clone() };
    let mut read = Box::pin(lines::read(reader, limits.line, outlets));
    let mut write = Box::pin(lines::write(writer, outgoing, written, tap));
    let mut connection =
        Box::pin(sdk::Client.v1().name("gantry").with_handler(router).connect_with(
            theirs,
            async move |connection: peer::Link| {
                link.send_replace(Some(connection.clone()));
                connection.incoming_closed().await;
                link.send_replace(None);
                Ok(())
            },
        ));
    let (mut reading, mut writing) = (true, true);
    loop {
        tokio::select! {
            biased;
            ended = &mut connection => {
                return ended.map_err(|error| Disconnected::Protocol(error.message));
            }
            // The end of the reader closes the connection's incoming side; what was read
            // before is still delivered.
            ended = &mut read, if reading => {
                reading = false;
                ended?;
            }
            ended = &mut write, if writing => {
                writing = false;
                ended?;
            }
        }
    }
}
