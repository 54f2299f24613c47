//! Who a process is: pid and start time, never one of them alone; and the
//! cookie by which its descendants are known.

/// The environment variable that every process we start carries.
pub const COOKIE_VARIABLE: &str = "GANTRY_TREE";

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
        unimplemented!()
    }

    /// This process.
    pub fn current() -> Self {
        unimplemented!()
    }

    /// Whether this very process still runs (a zombie does not).
    pub fn is_alive(self) -> bool {
        unimplemented!()
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

impl std::fmt::Display for Cookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.owner.pid, self.owner.start, self.tree)
    }
}

impl std::str::FromStr for Cookie {
    type Err = ();
    fn from_str(_text: &str) -> Result<Self, ()> {
        unimplemented!()
    }
}
