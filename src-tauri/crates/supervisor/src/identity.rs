//! Who a process is: pid and start time, never one of them alone; and the
//! cookie by which its descendants are known.

use crate::os::{self, Stat};
use std::collections::HashMap;

pub use gantry_warden::COOKIE_VARIABLE;

/// Stands for the name of a tree that is known by its numbers only.
const UNNAMED: &str = "unnamed";

/// A process, identified so that a recycled pid is somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId {
    /// The process id.
    pub pid: u32,
    /// Start time in the platform's unit (Linux: clock ticks since boot, field
    /// 22 of `/proc/<pid>/stat`).
    pub start: u64,
}

impl ProcessId {
    /// The process that has this pid now, if there is one (zombies count).
    pub fn of(pid: u32) -> Option<Self> {
        os::stat(pid).as_ref().map(Self::from)
    }

    /// This process.
    pub fn current() -> Self {
        let pid = std::process::id();
        // Without a readable process table nothing here works; 0 matches nobody.
        Self::of(pid).unwrap_or(Self { pid, start: 0 })
    }

    /// Whether this very process still runs (a zombie does not).
    pub fn is_alive(self) -> bool {
        os::stat(self.pid).is_some_and(|stat| stat.start == self.start && stat.is_alive())
    }
}

impl From<&Stat> for ProcessId {
    fn from(stat: &Stat) -> Self {
        Self { pid: stat.pid, start: stat.start }
    }
}

/// `GANTRY_TREE=<owner pid>.<owner start>.<tree id>`: inherited by everything
/// that a tree starts. A bearer whose owner no longer lives is an orphan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cookie {
    /// The Gantry instance that started the tree.
    pub owner: ProcessId,
    /// The tree, unique within its owner; letters, digits and `-` only.
    pub tree: String,
}

impl Cookie {
    /// The cookies that these processes bear, as far as we may read them. One that cleared its
    /// environment bears a stamp in its limits (Linux), which says the same but for the tree's
    /// name.
    pub(crate) fn of_each(pids: impl Iterator<Item = u32> + Clone) -> HashMap<u32, Self> {
        let texts = os::variables(pids.clone(), COOKIE_VARIABLE);
        let cookie = |pid: u32| {
            let cookie = texts.get(&pid).and_then(|text| text.parse().ok());
            Some((pid, cookie.or_else(|| os::stamp(pid).map(Self::from))?))
        };
        pids.filter_map(cookie).collect()
    }

    /// Whether both name the same tree, whatever it is called.
    pub fn is_same_tree(&self, other: &Self) -> bool {
        self.owner == other.owner
            && (self.tree == other.tree
                || self.numbers().is_some_and(|numbers| other.numbers() == Some(numbers)))
    }

    /// The numbers of the supervisor and the tree, the last two parts of the tree's id.
    pub(crate) fn numbers(&self) -> Option<(u64, u64)> {
        let mut parts = self.tree.rsplitn(3, '-');
        let tree = parts.next()?.parse().ok()?;
        Some((parts.next()?.parse().ok()?, tree))
    }
}

impl From<os::Stamp> for Cookie {
    fn from(stamp: os::Stamp) -> Self {
        let tree = match stamp.numbers {
            Some((supervisor, tree)) => format!("{UNNAMED}-{supervisor}-{tree}"),
            None => UNNAMED.to_owned(),
        };
        Self { owner: ProcessId { pid: stamp.owner, start: stamp.start }, tree }
    }
}

impl std::fmt::Display for Cookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.owner.pid, self.owner.start, self.tree)
    }
}

impl std::str::FromStr for Cookie {
    type Err = ();

    /// Strict, because what bears an orphan's cookie is killed: plain digits, and a
    /// tree id of letters, digits and `-`.
    fn from_str(text: &str) -> Result<Self, ()> {
        fn number<T: std::str::FromStr>(text: &str) -> Result<T, ()> {
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| is_plain).ok_or(())
        }
        let mut parts = text.splitn(3, '.');
        let mut part = || parts.next().ok_or(());
        let pid = number(part()?)?;
        let start = number(part()?)?;
        let tree = part()?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if tree.is_empty() || !tree.bytes().all(plain) {
            return Err(());
        }
        Ok(Self { owner: ProcessId { pid, start }, tree: tree.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cookie_survives_the_environment(pid: u32, start: u64, tree in "[a-zA-Z0-9-]{1,40}") {
            let cookie = Cookie { owner: ProcessId { pid, start }, tree };
            prop_assert_eq!(cookie.to_string().parse(), Ok(cookie));
        }

        #[test]
        fn any_text_is_a_cookie_of_the_same_text_or_none(text in ".{0,40}") {
            if let Ok(cookie) = text.parse::<Cookie>() {
                let again: Cookie = cookie.to_string().parse().expect("its own text");
                prop_assert_eq!(again, cookie);
            }
        }
    }

    #[test]
    fn what_is_not_a_cookie_is_refused() {
        for text in [
            "",
            "1",
            "1.2",
            "1.2.",
            "+1.2.a",
            "1.-2.a",
            "1.2.a.b",
            "1.2.a b",
            " 1.2.a",
            "4294967296.2.a",
        ] {
            assert_eq!(text.parse::<Cookie>(), Err(()), "{text:?}");
        }
    }

    #[test]
    fn a_tree_is_known_by_its_numbers_and_its_owner() {
        let cookie = |text: &str| text.parse::<Cookie>().expect("a cookie");
        let tree = cookie("1.2.a-name-3-4");
        assert_eq!(tree.numbers(), Some((3, 4)));
        assert!(tree.is_same_tree(&cookie("1.2.unnamed-3-4")));
        for other in
            ["1.2.a-name-3-5", "1.2.a-name-4-4", "1.3.a-name-3-4", "2.2.a-name-3-4", "1.2.unnamed"]
        {
            assert!(!tree.is_same_tree(&cookie(other)), "{other}");
        }
        assert!(cookie("1.2.unnamed").is_same_tree(&cookie("1.2.unnamed")));
    }

    #[test]
    fn we_are_alive_and_nobody_else_with_our_pid_is() {
        let me = ProcessId::current();
        assert!(me.is_alive());
        assert!(!ProcessId { start: me.start + 1, ..me }.is_alive());
        assert_eq!(ProcessId::of(u32::MAX), None);
    }
}
