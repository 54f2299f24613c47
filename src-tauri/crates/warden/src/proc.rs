//! Reading `/proc`: who is there, and who bears which mark.

use crate::{look, table::Stat};
use rustix::process::geteuid;
use std::{
    collections::HashMap,
    fs,
    io::Read,
    os::unix::fs::MetadataExt,
    sync::{Mutex, PoisonError},
};

impl Stat {
    /// Reads the line. The name (field 2) may contain anything, parentheses too,
    /// so the fields are counted from its last `)`.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let pid = std::str::from_utf8(&line[..line.iter().position(|&b| b == b' ')?]).ok()?;
        let rest = &line[line.iter().rposition(|&b| b == b')')? + 1..];
        let mut fields = std::str::from_utf8(rest).ok()?.split_ascii_whitespace();
        // `rest` begins at field 3; `nth` counts from where the last one stopped.
        Some(Self {
            pid: pid.parse().ok()?,
            state: *fields.next()?.as_bytes().first()?,
            parent: fields.next()?.parse().ok()?,
            // 0 inside a PID namespace whose outside group it belongs to; -1 never matters.
            group: fields.next()?.parse().unwrap_or(0),
            session: fields.next()?.parse().unwrap_or(0),
            ticks: {
                let user: u64 = fields.nth(7)?.parse().ok()?;
                user + fields.next()?.parse::<u64>().ok()?
            },
            threads: fields.nth(4)?.parse().ok()?,
            start: fields.nth(1)?.parse().ok()?,
            pages: fields.nth(1)?.parse().unwrap_or(0),
        })
    }
}

/// The process that has this pid now; `None` also for one that does not let us look.
pub fn stat(pid: u32) -> Option<Stat> {
    if look::is_held(pid) {
        return None;
    }
    let mut buffer = [0; 1024];
    read_stat(pid, &mut buffer)
}

fn read_stat(pid: u32, buffer: &mut [u8]) -> Option<Stat> {
    let mut file = fs::File::open(format!("/proc/{pid}/stat")).ok()?;
    // One read gets the whole line: it is under 400 bytes.
    let length = file.read(buffer).ok()?;
    Stat::parse(&buffer[..length])
}

/// What was seen last, for those that do not let us look any more.
static LAST: Mutex<Vec<Stat>> = Mutex::new(Vec::new());

/// Every process, zombies included, in the order of their pids. One that does not let us look
/// is as it was before; if that was another one with its number, [`stat`] does not confirm it.
pub fn all() -> Vec<Stat> {
    let pids: Vec<u32> = pids().collect();
    let mut found = look::each(pids.iter().copied(), stat);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = |pid: u32| last.binary_search_by_key(&pid, |stat| stat.pid).ok().map(|at| last[at]);
    let table: Vec<Stat> = pids
        .into_iter()
        .filter_map(|pid| match found.remove(&pid) {
            Some(stat) => stat,
            None => seen(pid),
        })
        .collect();
    last.clone_from(&table);
    table
}

/// Every pid that `/proc` lists.
pub fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The direct children of a process that has one thread, zombies included.
pub fn children(pid: u32) -> Vec<u32> {
    match fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) {
        Ok(list) => list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect(),
        // The kernel was built without that list.
        Err(_) => all().iter().filter(|stat| stat.parent == pid).map(|stat| stat.pid).collect(),
    }
}

/// The value of `name` in the environment that each process was started with; without those
/// that have none or do not let us look.
pub fn variables(pids: impl IntoIterator<Item = u32>, name: &'static str) -> HashMap<u32, String> {
    let read = move |pid: u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        find_variable(&environment, name)
    };
    let found = look::each(pids, read);
    found.into_iter().filter_map(|(pid, value)| Some((pid, value?))).collect()
}

fn find_variable(environment: &[u8], name: &str) -> Option<String> {
    environment.split(|&b| b == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        String::from_utf8(value.to_vec()).ok()
    })
}

/// Whether a process belongs to our user.
pub fn is_ours(pid: u32) -> bool {
    let me = geteuid().as_raw();
    // The directory's owner is the effective user, or root where memory may not be dumped, as
    // that of `ssh-agent`: whose that one is, only its status says.
    let owner = fs::metadata(format!("/proc/{pid}")).ok().map(|meta| meta.uid());
    owner == Some(me) || owner == Some(0) && real_user(pid) == Some(me)
}

/// The user that started a process, who may signal it also when it runs as another.
fn real_user(pid: u32) -> Option<u32> {
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    numbers(&status, b"Uid:").first().copied()
}

/// How many PID namespaces count a process, from that of `/proc` down to its own. The status
/// says so of every process, also where [`namespace`] may not be read.
pub fn depth(pid: u32) -> Option<usize> {
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    Some(numbers(&status, b"NSpid:").len()).filter(|depth| *depth > 0)
}

/// The numbers of a line of `/proc/<pid>/status`; none where there is no such line.
fn numbers(status: &[u8], name: &[u8]) -> Vec<u32> {
    let line = status.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(name));
    let text = line.and_then(|line| std::str::from_utf8(line).ok()).unwrap_or_default();
    text.split_ascii_whitespace().map_while(|number| number.parse().ok()).collect()
}

/// The PID namespace that a process lives in, as the kernel names it.
pub fn namespace(pid: u32) -> Option<std::path::PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::below;

    const LINE: &[u8] =
        b"4242 (a) b (c)) S 17 4242 4000 0 -1 4194560 100 0 0 0 30 12 0 0 20 0 3 0 \
        98765 1234567 321 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n";

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = Stat::parse(LINE).expect("parses");
        let expected = Stat {
            pid: 4242,
            parent: 17,
            group: 4242,
            session: 4000,
            state: b'S',
            threads: 3,
            ticks: 42,
            start: 98765,
            pages: 321,
        };
        assert_eq!(stat, expected);
    }

    #[test]
    fn a_torn_line_is_refused() {
        for cut in [0, 4, 12, 20, 60] {
            assert_eq!(Stat::parse(&LINE[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn we_are_in_the_table_with_our_parent() {
        let me = std::process::id();
        let table = all();
        let stat = table.iter().find(|stat| stat.pid == me).expect("listed");
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        assert!(stat.is_alive());
        assert!(
            below(&table, [stat.parent], &Default::default()).iter().any(|found| found.pid == me)
        );
    }

    #[test]
    fn the_real_user_is_the_first_of_four() {
        let status = b"Name:\tsu\nUmask:\t0022\nUid:\t1000\t0\t0\t0\nGid:\t5\t5\t5\t5\n";
        assert_eq!(numbers(status, b"Uid:"), [1000, 0, 0, 0]);
        assert!(numbers(b"Name:\tUid:\n", b"Uid:").is_empty());
        assert!(depth(std::process::id()) > Some(0));
        let me = std::process::id();
        assert_eq!(real_user(me), Some(rustix::process::getuid().as_raw()));
        assert!(is_ours(me));
    }

    #[test]
    fn a_variable_is_matched_whole() {
        let environment = b"A_GANTRY_TREE=1\0GANTRY_TREE_X=2\0GANTRY_TREE=3.4.x\0";
        assert_eq!(find_variable(environment, "GANTRY_TREE").as_deref(), Some("3.4.x"));
        assert_eq!(find_variable(b"GANTRY_TREE", "GANTRY_TREE"), None);
    }
}
