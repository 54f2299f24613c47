//! The second mark of a tree, for those that cleared their environment: a resource limit.
//!
//! `RLIMIT_LOCKS` has limited nothing since Linux 2.4.25, yet it is inherited over `fork`, `exec`,
//! `setsid` and `env -i`, and `/proc/<pid>/limits` tells it of every process. The soft limit
//! names the owner, the hard limit the tree:
//!
//! ```text
//! soft = 1 << 61 | owner's pid << 39 | owner's start
//! hard = ceiling - (supervisor << 32 | tree)
//! ```
//!
//! The ceiling is the owner's own hard limit. So the hard limit is only ever lowered, which needs
//! no right: a Gantry that somebody started inside a tree of another one stamps its trees, too.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;

const TAG: u64 = 1 << 61;
const PID_BITS: u32 = 22;
const START_BITS: u32 = 39;
const NUMBER_BITS: u32 = 32;
const SUPERVISOR_BITS: u32 = 16;
/// The ceiling of a Gantry that is in nobody's tree.
const TOP: u64 = (1 << 63) - 1;
/// No hard limit of ours is lower; every soft limit of ours is.
const BOTTOM: u64 = 1 << 62;

/// What the limits of a member say. Two members of one tree bear the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    soft: u64,
    hard: u64,
}

impl Stamp {
    /// The stamp of a tree, from its cookie's text
    /// (`<owner pid>.<owner start>.<name>-<supervisor>-<tree>`). `None` for a number that
    /// finds no place in it.
    pub fn from_cookie(cookie: &str) -> Option<Self> {
        Self::new(cookie, ceiling())
    }

    fn new(cookie: &str, ceiling: u64) -> Option<Self> {
        let mut parts = cookie.splitn(3, '.');
        let pid: u64 = parts.next()?.parse().ok()?;
        let start: u64 = parts.next()?.parse().ok()?;
        let mut numbers = parts.next()?.rsplitn(3, '-');
        let tree: u64 = numbers.next()?.parse().ok()?;
        let supervisor: u64 = numbers.next()?.parse().ok()?;
        let fits = pid >> PID_BITS == 0
            && start >> START_BITS == 0
            && tree >> NUMBER_BITS == 0
            && supervisor >> SUPERVISOR_BITS == 0;
        let hard = ceiling.checked_sub(supervisor << NUMBER_BITS | tree)?;
        (fits && hard >= BOTTOM).then_some(Self { soft: TAG | pid << START_BITS | start, hard })
    }

    /// Puts it on this process; all that it starts from now on inherits it. `false` where the
    /// system does not let us: the cookie in the environment is all there is then.
    pub fn wear(self) -> bool {
        let limit = Rlimit { current: Some(self.soft), maximum: Some(self.hard) };
        setrlimit(Resource::Locks, limit).is_ok()
    }

    /// What a process bears. A limit that somebody has set for another reason is none.
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/limits")).ok()?)
    }

    fn parse(limits: &[u8]) -> Option<Self> {
        let start = b"Max file locks";
        let line = limits.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(start))?;
        let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let mut number = || words.next()?.parse::<u64>().ok();
        let stamp = Self { soft: number()?, hard: number()? };
        (stamp.soft >> 61 == TAG >> 61 && (BOTTOM..=TOP).contains(&stamp.hard)).then_some(stamp)
    }

    /// The owner's pid and start time.
    pub fn owner(self) -> (u32, u64) {
        let pid = (self.soft & !TAG) >> START_BITS;
        // 22 bits of it are left.
        (u32::try_from(pid).unwrap_or(0), self.soft & ((1 << START_BITS) - 1))
    }

    /// The numbers of its supervisor and its tree, if the owner is this very process; what
    /// another owner counted down from is not known here.
    pub fn numbers(self) -> Option<(u64, u64)> {
        let number = ceiling().checked_sub(self.hard)?;
        Some((number >> NUMBER_BITS, number & ((1 << NUMBER_BITS) - 1)))
    }
}

/// Our own hard limit, if it is somebody's stamp.
fn ceiling() -> u64 {
    let own = getrlimit(Resource::Locks).maximum;
    own.filter(|hard| (BOTTOM..=TOP).contains(hard)).unwrap_or(TOP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(stamp: Stamp) -> Vec<u8> {
        format!(
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max address space         unlimited            unlimited            bytes     \n\
             Max file locks            {}  {}  locks     \n\
             Max pending signals       96365                96365                signals   \n",
            stamp.soft, stamp.hard
        )
        .into_bytes()
    }

    #[test]
    fn a_stamp_names_the_owner_and_the_tree() {
        for (pid, start, supervisor, tree) in [
            (1, 0, 0, 0),
            (4_194_303, (1 << 39) - 1, 65_535, u64::from(u32::MAX)),
            (4242, 98_765, 1, 7),
        ] {
            let cookie = format!("{pid}.{start}.a-name-{supervisor}-{tree}");
            let stamp = Stamp::new(&cookie, ceiling()).expect("fits");
            assert_eq!(Stamp::parse(&limits(stamp)), Some(stamp));
            assert_eq!(stamp.owner(), (pid, start));
            assert_eq!(stamp.numbers(), Some((supervisor, tree)));
            assert!(stamp.soft < stamp.hard && stamp.hard < u64::MAX / 2 + 1);
        }
    }

    #[test]
    fn inside_another_tree_the_limit_is_lowered_and_still_another() {
        let outer = Stamp::new("10.20.outer-1-3", TOP).expect("fits");
        let inner = Stamp::new("30.40.inner-1-3", outer.hard).expect("fits");
        assert!(inner.hard < outer.hard && inner.soft != outer.soft);
        assert_eq!(inner.owner(), (30, 40));
    }

    #[test]
    fn what_has_no_place_is_not_stamped() {
        for cookie in [
            "",
            "1.2",
            "1.2.name",
            "1.2.name-1",
            "1.2.name-x-1",
            "4194304.2.name-1-1",
            "1.549755813888.name-1-1",
            "1.2.name-65536-1",
            "1.2.name-1-4294967296",
        ] {
            assert_eq!(Stamp::new(cookie, TOP), None, "{cookie:?}");
        }
        assert_eq!(Stamp::new("1.2.name-1-1", BOTTOM), None);
    }

    #[test]
    fn other_limits_are_no_stamp() {
        let good = Stamp::new("1.2.a-1-1", TOP).expect("fits");
        for (soft, hard) in [
            (0, 0),
            (1024, 1024),
            (good.soft, BOTTOM - 1),
            (good.soft, TOP + 1),
            (good.soft & !TAG, good.hard),
            (good.soft << 1, good.hard),
        ] {
            assert_eq!(Stamp::parse(&limits(Stamp { soft, hard })), None, "{soft} {hard}");
        }
        assert_eq!(Stamp::parse(b"Max file locks   unlimited   unlimited   locks\n"), None);
        assert_eq!(Stamp::parse(b""), None);
    }
}
