//! The first request head of a connection: whoever begins one has to finish it
//! soon. The HTTP library has one limit for a head that dribbles and for a
//! connection that rests between requests, and that one is long, because
//! clients keep connections.

use bytes::{Buf as _, Bytes, BytesMut};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// How long a head may take from its first byte on.
const WHOLE: Duration = Duration::from_secs(5);
/// Read at a time.
const PIECE: usize = 8 * 1024;
/// What ends a head.
const END: &[u8] = b"\r\n\r\n";

/// A connection whose beginning was read already.
#[derive(Debug)]
pub(crate) struct Begun {
    read: Bytes,
    stream: TcpStream,
}

/// Reads until there is a whole head, or more than `limit` bytes of one, which the HTTP
/// library answers. `None` when the client went away, or dribbled, or said nothing for `rest`.
pub(crate) async fn begin(mut stream: TcpStream, limit: usize, rest: Duration) -> Option<Begun> {
    let mut read = BytesMut::with_capacity(PIECE);
    let first = tokio::time::timeout(rest, stream.read_buf(&mut read)).await;
    if !matches!(first, Ok(Ok(1..))) {
        return None;
    }
    let whole = async {
        while !is_whole(&read) && read.len() <= limit {
            read.reserve(PIECE);
            if stream.read_buf(&mut read).await.ok()? == 0 {
                // What is there is no request; the library says so.
                break;
            }
        }
        Some(())
    };
    tokio::time::timeout(WHOLE, whole).await.ok()??;
    Some(Begun { read: read.freeze(), stream })
}

fn is_whole(read: &[u8]) -> bool {
    // Lines that end with a line feed alone are accepted as well.
    read.windows(END.len()).any(|window| window == END) || read.windows(2).any(|two| two == b"\n\n")
}

impl AsyncRead for Begun {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = self.read.len().min(buffer.remaining());
        buffer.put_slice(&self.read[..count]);
        self.read.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Begun {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
