//! Who may reach which server over HTTP.

use std::fmt::{self, Write};
use subtle::ConstantTimeEq;

/// Of a session's token, in hexadecimal digits: by this part it is found…
const KEY: usize = 16;
/// …and by this one, 256 random bits, it is believed.
const SECRET: usize = 64;

/// A bearer token. Never logged.
#[derive(Clone)]
pub(super) struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// A new one for a session.
    pub fn random() -> Self {
        let mut bytes = [0_u8; (KEY + SECRET) / 2];
        #[expect(clippy::expect_used, reason = "a predictable token would be worse than none")]
        getrandom::fill(&mut bytes).expect("the system gives no random numbers");
        let mut text = String::with_capacity(KEY + SECRET);
        for byte in bytes {
            let _ = write!(text, "{byte:02x}");
        }
        Self(text)
    }

    /// The instance's own.
    pub fn given(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The token itself.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// What it is found by. Not secret.
    pub fn key(&self) -> &str {
        key_of(&self.0)
    }

    /// Compares in constant time (of two of the same length).
    pub fn is(&self, text: &str) -> bool {
        !self.0.is_empty() && bool::from(self.0.as_bytes().ct_eq(text.as_bytes()))
    }
}

/// The part of a token by which it is found.
pub(super) fn key_of(token: &str) -> &str {
    token.get(..KEY).unwrap_or(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_differ() {
        let (one, other) = (Token::random(), Token::random());
        assert_eq!(one.text().len(), 80);
        assert_ne!(one.text(), other.text());
        assert!(one.is(one.text()));
        assert!(!one.is(other.text()));
        assert!(!one.is(&one.text()[..79]));
        assert!(!one.is(""));
        assert!(!Token::given("").is(""));
        assert!(!format!("{one:?}").contains(one.text()));
    }
}
