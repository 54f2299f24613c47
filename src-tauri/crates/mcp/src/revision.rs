//! The dated revisions of the protocol.

/// The newest revision with `initialize`; asked of servers, and answered to a client that asks for
/// one that we do not know.
pub const LATEST_WITH_INITIALIZE: &str = "2025-11-25";

/// Every revision that a client may negotiate. 2026-07-28 has no `initialize`: its
/// requests carry their revision themselves, and its place is beside this list.
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
}
