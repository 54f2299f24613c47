//! The program's standard streams as the ACP library wants them.

use crate::mcp::stdio::{Input, Output};
use bytes::Bytes;
use futures::{Sink, Stream, sink, stream};
use gantry_mcp::Line;
use std::io::{self, Write};

/// Queues each line; waits while the client is slow.
pub(super) fn lines_out(
    output: Output,
) -> impl Sink<String, Error = io::Error> + Send + Unpin + 'static {
    Box::pin(sink::unfold(output, async |output: Output, line: String| {
        output.put(Bytes::from(line)).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(output)
    }))
}

/// The client's messages. Ends with the input, and after a message that is too long.
pub(super) fn lines_in(
    input: Input,
) -> impl Stream<Item = io::Result<String>> + Send + Unpin + 'static {
    Box::pin(stream::unfold(Some(input), async |input| {
        let mut input = input?;
        match input.next().await {
            Ok(Some(Line::Full(line))) => {
                Some((Ok(String::from_utf8_lossy(&line).into_owned()), Some(input)))
            }
            Ok(Some(Line::TooLong { length, .. })) => {
                let why = format!("a message of {} MiB is too long", length >> 20);
                Some((Err(io::Error::other(why)), None))
            }
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    }))
}

/// A line on standard error. One that is closed must not break anything.
pub(super) fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
