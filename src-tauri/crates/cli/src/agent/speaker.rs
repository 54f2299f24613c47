//! What the agent says in a session, on its way to the client.

use super::session::Session;
use agent_client_protocol::{
    Client,
    v1::{
        ConnectionTo,
        schema::{ContentBlock, ContentChunk, SessionNotification, SessionUpdate},
    },
};
use std::sync::Arc;

/// Sends updates of one session, and keeps them for a later `session/load`.
#[derive(Clone)]
pub(super) struct Speaker {
    pub(super) client: ConnectionTo<Client>,
    pub(super) session: Arc<Session>,
}

impl Speaker {
    /// Sends one update. A client that is gone is noticed by the connection.
    pub(super) fn update(&self, update: SessionUpdate) {
        self.session.remember(&update);
        self.send(update);
    }

    /// Sends one update that is not part of the conversation.
    pub(super) fn send(&self, update: SessionUpdate) {
        let notification = SessionNotification::new(self.session.id.clone(), update);
        if let Err(error) = self.client.send_notification(notification) {
            tracing::debug!(%error, "an update found no client");
        }
    }

    /// Streams a text, a few words at a time.
    pub(super) async fn say(&self, text: &str) {
        for piece in pieces(text) {
            self.say_piece(piece);
            // Others get their turn, and a cancelled turn ends between two pieces.
            tokio::task::yield_now().await;
        }
    }

    /// One piece of a text as it is.
    pub(super) fn say_piece(&self, piece: &str) {
        let chunk = ContentChunk::new(ContentBlock::from(piece));
        self.update(SessionUpdate::AgentMessageChunk(chunk));
    }
}

/// Cuts a text into pieces that end after a space or a line end where there is one.
/// Long texts get longer pieces, so that their number stays bounded.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    const SHORTEST: usize = 24;
    const MOST: usize = 200;
    let size = SHORTEST.max(text.len() / MOST);
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let from = rest.ceil_char_boundary(size.min(rest.len()));
        let longest = rest.ceil_char_boundary((2 * size).min(rest.len()));
        let end = rest[from..longest]
            .char_indices()
            .find(|(_, c)| c.is_whitespace())
            .map_or(longest, |(at, c)| from + at + c.len_utf8());
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::pieces;

    #[test]
    fn pieces_join_to_the_text_and_break_at_spaces() {
        let text = "The quick brown fox jumps over the lazy dog, again and again and again.";
        let cut: Vec<_> = pieces(text).collect();
        assert!(cut.len() > 1);
        assert_eq!(cut.concat(), text);
        assert!(cut[..cut.len() - 1].iter().all(|piece| piece.ends_with(' ')), "{cut:?}");
        let long = "数据".repeat(50_000);
        let cut: Vec<_> = pieces(&long).collect();
        assert_eq!(cut.concat(), long);
        assert!(cut.len() <= 201, "{}", cut.len());
        assert_eq!(pieces("").count(), 0);
    }
}
