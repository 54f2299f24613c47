//! The dated revisions of the protocol.

/// The newest revision with `initialize`; asked of servers, and answered to a client that asks for
/// one that we do not know.
pub const LATEST_WITH_INITIALIZE: &str = "2025-11-25";

/// The revision without `initialize`: its requests carry their revision themselves
/// ([`crate::modern`]).
pub const MODERN: &str = "2026-07-28";

/// Every revision that is spoken here, newest first, as a JSON array: for `server/discover`
/// and for who asks for another.
pub const SPOKEN: &str = r#"["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]"#;

/// Every revision that a client may negotiate by `initialize`.
pub const WITH_INITIALIZE: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The revision for a client that asks for `asked`.
pub fn negotiate(asked: &str) -> &'static str {
    WITH_INITIALIZE.into_iter().find(|known| *known == asked).unwrap_or(LATEST_WITH_INITIALIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_revision_is_granted_and_any_other_gets_the_newest() {
        assert_eq!(negotiate("2025-03-26"), "2025-03-26");
        assert_eq!(negotiate("2026-07-28"), "2025-11-25");
        assert_eq!(negotiate(""), "2025-11-25");
    }

    #[test]
    fn what_is_spoken_is_both_eras() {
        let spoken: Vec<String> = serde_json::from_str(SPOKEN).expect("JSON");
        let mut both: Vec<&str> = WITH_INITIALIZE.to_vec();
        both.push(MODERN);
        both.reverse();
        assert_eq!(spoken, both);
    }
}
