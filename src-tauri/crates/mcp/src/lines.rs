//! Lines out of a byte stream, with a limit.

use bytes::{Buf, Bytes, BytesMut};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Read at a time.
const CHUNK: usize = 16 * 1024;
/// Kept of both ends of a line that was too long.
const SAMPLE: usize = 256;
/// From here on a line gets its buffer for itself, so that it can be freed when it is done.
const LARGE: usize = 256 * 1024;

/// What came out of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A line without its end.
    Full(Bytes),
    /// A line over the limit: its length, and both ends, to find out whose it was.
    TooLong {
        /// In bytes.
        length: u64,
        /// The first bytes.
        head: Bytes,
        /// The last bytes.
        tail: Bytes,
    },
}

struct Skipped {
    length: u64,
    head: Bytes,
}

/// Reads lines. [`LineReader::next`] may be dropped and called again at any time.
pub struct LineReader<R> {
    reader: R,
    buffer: BytesMut,
    scanned: usize,
    limit: usize,
    skipped: Option<Skipped>,
    ended: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// `limit` is the longest line in bytes.
    pub fn new(reader: R, limit: usize) -> Self {
        let buffer = BytesMut::with_capacity(CHUNK);
        Self { reader, buffer, scanned: 0, limit, skipped: None, ended: false }
    }

    /// The next line that is not empty; `None` at the end. What stands after
    /// the last line end is a line too.
    ///
    /// # Errors
    /// What the stream says.
    pub async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.take() {
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(None);
            }
            self.buffer.reserve(CHUNK);
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                self.ended = true;
                self.buffer.extend_from_slice(b"\n");
            }
        }
    }

    fn take(&mut self) -> Option<Line> {
        loop {
            let found = memchr::memchr(b'\n', &self.buffer[self.scanned..]);
            let Some(found) = found else {
                self.scanned = self.buffer.len();
                if self.buffer.len() > self.limit.max(SAMPLE) {
                    self.skip(self.buffer.len() - SAMPLE);
                }
                return None;
            };
            let end = self.scanned + found;
            self.scanned = 0;
            if self.skipped.is_some() || end > self.limit {
                let tail = Bytes::copy_from_slice(&self.buffer[end.saturating_sub(SAMPLE)..end]);
                self.skip(end);
                self.buffer.advance(1);
                self.scanned = 0;
                let Skipped { length, head } = self.skipped.take()?;
                return Some(Line::TooLong { length, head, tail });
            }
            let mut line = if end < LARGE {
                // A copy: a short line must not keep a whole chunk in memory.
                let line = Bytes::copy_from_slice(&self.buffer[..end]);
                self.buffer.advance(end + 1);
                line
            } else {
                let mut rest = BytesMut::with_capacity(CHUNK);
                rest.extend_from_slice(&self.buffer[end + 1..]);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.truncate(end);
                line.freeze()
            };
            if line.last() == Some(&b'\r') {
                line.truncate(line.len() - 1);
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Some(Line::Full(line));
            }
        }
    }

    fn skip(&mut self, count: usize) {
        let head = Bytes::copy_from_slice(&self.buffer[..count.min(SAMPLE)]);
        let skipped = self.skipped.get_or_insert(Skipped { length: 0, head });
        skipped.length += count as u64;
        self.buffer.advance(count);
        self.scanned = self.buffer.len().min(self.scanned.saturating_sub(count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(input: &'static [u8], limit: usize) -> Vec<Line> {
        let mut reader = LineReader::new(input, limit);
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await.expect("a slice cannot fail") {
            lines.push(line);
        }
        lines
    }

    #[tokio::test]
    async fn splits_lines_drops_empty_ones_and_keeps_an_unfinished_one() {
        let full = |text: &'static str| Line::Full(Bytes::from_static(text.as_bytes()));
        assert_eq!(lines(b"a\r\n\n  \nbc\nrest", 10).await, [full("a"), full("bc"), full("rest")]);
        assert_eq!(lines(b"", 10).await, []);
    }

    #[tokio::test]
    async fn a_line_over_the_limit_is_reported_with_both_ends_and_the_next_one_is_whole() {
        for size in [11_usize, 300, 600, 100_000] {
            let text: Vec<u8> = [b"<".repeat(5), b"x".repeat(size - 10), b">".repeat(5)].concat();
            let input = [&text[..], b"\nnext\n"].concat();
            let mut reader = LineReader::new(&input[..], 10);
            let Some(Line::TooLong { length, head, tail }) = reader.next().await.expect("read")
            else {
                panic!("{size} bytes passed the limit of 10");
            };
            assert_eq!(length, size as u64);
            assert!(head.starts_with(b"<<<<<"), "{size}");
            assert!(tail.ends_with(b">>>>>"), "{size}");
            let next = reader.next().await.expect("read");
            assert_eq!(next, Some(Line::Full(Bytes::from_static(b"next"))), "{size}");
            assert_eq!(reader.next().await.expect("read"), None);
        }
    }

    #[tokio::test]
    async fn a_large_line_comes_whole_and_leaves_no_large_buffer() {
        let input = [b"y".repeat(3 * LARGE), b"\nz\n".to_vec()].concat();
        let mut reader = LineReader::new(&input[..], 64 * 1024 * 1024);
        let Some(Line::Full(line)) = reader.next().await.expect("read") else { panic!() };
        assert_eq!(line.len(), 3 * LARGE);
        assert_eq!(reader.next().await.expect("read"), Some(Line::Full(Bytes::from_static(b"z"))));
        assert!(reader.buffer.capacity() < LARGE);
    }
}
