//! What a command wrote: the end of it, bounded, always whole characters. Pure.

/// The end of an output.
#[derive(Debug)]
pub(super) struct Output {
    text: String,
    /// The beginning of a character whose rest has not come yet.
    pending: Vec<u8>,
    limit: usize,
    truncated: bool,
}

impl Output {
    /// With at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { text: String::new(), pending: Vec::new(), limit, truncated: false }
    }

    /// Takes what came. What is no UTF-8 becomes U+FFFD.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let joined;
        let mut rest = if self.pending.is_empty() {
            bytes
        } else {
            joined = [std::mem::take(&mut self.pending).as_slice(), bytes].concat();
            &joined
        };
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.text.push_str(text);
                    break;
                }
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    self.text.push_str(&String::from_utf8_lossy(good));
                    let Some(length) = error.error_len() else {
                        // It may go on with the next bytes.
                        self.pending = bad.to_vec();
                        break;
                    };
                    self.text.push(char::REPLACEMENT_CHARACTER);
                    rest = &bad[length..];
                }
            }
        }
        // Cut seldom: each cut moves what stays.
        if self.text.len() > 2 * self.limit {
            self.cut();
        }
    }

    /// Nothing more will come.
    pub(super) fn end(&mut self) {
        if !std::mem::take(&mut self.pending).is_empty() {
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
        self.cut();
    }

    fn cut(&mut self) {
        if self.text.len() > self.limit {
            let from = self.text.ceil_char_boundary(self.text.len() - self.limit);
            self.text.drain(..from);
            self.truncated = true;
        }
    }

    /// The last `most` bytes of what is kept, or a little less, and whether there was more.
    pub(super) fn tail(&self, most: usize) -> (&str, bool) {
        let most = most.min(self.limit);
        if self.text.len() <= most {
            return (&self.text, self.truncated);
        }
        (&self.text[self.text.ceil_char_boundary(self.text.len() - most)..], true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_whole_wherever_the_pieces_end() {
        let text = "aé語😀\u{fffd}";
        for size in 1..5 {
            let mut output = Output::new(100);
            text.as_bytes().chunks(size).for_each(|piece| output.push(piece));
            output.end();
            assert_eq!(output.tail(usize::MAX), (text, false), "pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_text_is_shown_as_such_and_nothing_is_lost_around_it() {
        let mut output = Output::new(100);
        output.push(b"a\xffb\xe8");
        output.push(b"c\xe8\xaa");
        output.end();
        assert_eq!(output.tail(usize::MAX).0, "a\u{fffd}b\u{fffd}c\u{fffd}");
    }

    #[test]
    fn the_beginning_goes_at_a_character_and_the_limit_holds_at_every_moment() {
        let mut output = Output::new(10);
        for n in 0..1000 {
            output.push("語é".as_bytes());
            let (text, truncated) = output.tail(usize::MAX);
            assert!(text.len() <= 10 && (n == 0 || text.len() > 6), "{text}");
            assert!(truncated || n < 2);
            assert!(output.text.len() <= 25, "memory is bounded");
        }
        output.end();
        assert_eq!(output.tail(usize::MAX), ("語é語é", true));
        assert_eq!(output.tail(4), ("é", true), "a smaller look");
        let mut none = Output::new(0);
        none.push(b"x");
        assert_eq!(none.tail(usize::MAX), ("", true));
    }
}
