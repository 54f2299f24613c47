//! One MCP session of one remote server on standard input and output, raw: what the bridge
//! runs to keep a remote server among its own.
//!
//! Nothing is answered here, so that what works through this works at the server. It ends with
//! the session: when the host is gone or has forgotten it (404), with the reason on
//! standard error and code 1; whoever started it begins anew. At the end of input the session is
//! ended at the host, too.

use super::{
    auth::{RecordFile, Tokens},
    complain,
    config::{Kind, Server},
    memory::Memory,
    remote::{Remote, WANTS_SIGN_IN},
    signal,
};
use gantry_core::bridge::SIGN_IN_EXIT;
use gantry_supervisor::Deadline;
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio_util::sync::CancellationToken;

/// What the host gets to hear of the end; the rest of our budget is not needed.
const FAREWELL: Duration = Duration::from_millis(500);

/// Carries the session. Returns the exit code.
pub async fn run(server: Server) -> u8 {
    let signal = signal();
    let (url, headers, transport) = match server.kind {
        Kind::Remote { url, headers, transport, .. } => (url, headers, transport),
        Kind::Unusable(why) => return failed(&why),
        Kind::Program { .. } => return failed("a program is not carried; give it a `url`"),
    };
    // An authorization of the user's own wins.
    let file = RecordFile::given().filter(|_| !headers.contains_key("authorization"));
    let tokens = file.map(|file| Arc::new(Tokens::new(url.clone(), file)));
    let remote = match Remote::new(url, headers, transport) {
        Ok(remote) => remote.remembering(Memory::given()).signing_in(tokens.clone()),
        Err(why) => return failed(&why),
    };
    let ended = CancellationToken::new();
    let input = UntilEnd { inner: tokio::io::stdin(), ended: ended.clone() };
    let mut output = tokio::io::stdout();
    let stop = async {
        tokio::select! {
            () = ended.cancelled() => {}
            () = signal => {}
        }
        Deadline::after(FAREWELL)
    };
    let carried = Box::pin(remote.carry_until(input, &mut output, stop)).await;
    // Whoever read it may be gone.
    let _ = output.flush().await;
    match carried {
        // The bridge says the rest.
        Ok(lost) if lost == WANTS_SIGN_IN => SIGN_IN_EXIT,
        Ok(lost) => failed(&format!("the remote server {lost}")),
        Err(()) => 0,
    }
}

fn failed(why: &str) -> u8 {
    complain(&format!("gantry: mcp: {why}"));
    1
}

/// Says when there is no more to read instead of ending: the session is to be ended at
/// the host, and what is still in flight is not lost to a closed connection.
struct UntilEnd<R> {
    inner: R,
    ended: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for UntilEnd<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ended.is_cancelled() {
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        match Pin::new(&mut self.inner).poll_read(context, buffer) {
            Poll::Ready(Ok(())) if buffer.filled().len() > before => Poll::Ready(Ok(())),
            Poll::Ready(_) => {
                self.ended.cancel();
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    }
}
