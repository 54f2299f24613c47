//! Who is alive, read from `/proc` and from what the fake programs wrote down
//! about themselves. It shares no code with the product.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError, mpsc},
    time::{Duration, Instant},
};

/// The variable by which everything that a [`crate::Stage`] starts is known,
/// whatever the product does with its own cookie. Its value is the path of a
/// ledger to which every fake program appends its pid and start time, so that
/// one with a cleared environment is known too.
pub const TAG: &str = "GANTRY_TEST_LEDGER";

/// A process of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The process id.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start: u64,
    /// The parent's pid.
    pub parent: u32,
    /// The process group.
    pub group: u32,
    /// The session.
    pub session: u32,
    /// Arguments, joined by spaces.
    pub command: String,
    /// The value of `GANTRY_TREE`.
    pub cookie: Option<String>,
    /// The value of [`TAG`].
    pub tag: Option<PathBuf>,
}

impl Row {
    /// Since its start.
    pub fn age(&self) -> std::time::Duration {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
        let now: f64 = uptime.split(' ').next().and_then(|now| now.parse().ok()).unwrap_or(0.0);
        let ticks = rustix::param::clock_ticks_per_second();
        #[expect(clippy::cast_precision_loss, reason = "hundredths of a second since boot")]
        let started = self.start as f64 / ticks as f64;
        std::time::Duration::from_secs_f64((now - started).max(0.0))
    }
}

/// How long one process may keep the census waiting.
const PATIENCE: Duration = Duration::from_secs(2);

/// Processes that kept it waiting: a test of this program, or of another one on this machine,
/// holds them (see [`crate::Held`]).
static HELD: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// The living processes (no zombies) that we may read, and that let themselves be read.
pub fn table() -> Vec<Row> {
    let held = || HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let mut rest: Vec<u32> = {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| !held().contains(pid)).collect()
    };
    let mut rows = Vec::new();
    while !rest.is_empty() {
        let (sender, answers) = mpsc::channel();
        let batch = rest.clone();
        std::thread::spawn(move || {
            for pid in batch {
                let row = row(pid);
                // One that was given up on is read to its end at last.
                HELD.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
                if sender.send((pid, row)).is_err() {
                    return;
                }
            }
        });
        let mut read = 0;
        loop {
            match answers.recv_timeout(PATIENCE) {
                Ok((_, row)) => {
                    rows.extend(row);
                    read += 1;
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return rows,
                Err(mpsc::RecvTimeoutError::Timeout) => break,
            }
        }
        held().insert(rest[read]);
        rest.drain(..=read);
    }
    rows
}

/// One living process.
pub fn row(pid: u32) -> Option<Row> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    // The name, in brackets, may hold anything; the fields follow the last bracket.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    let command = fs::read(folder.join("cmdline")).ok()?;
    let command = String::from_utf8_lossy(&command).trim_end_matches('\0').replace('\0', " ");
    let environ = fs::read(folder.join("environ")).unwrap_or_default();
    let variable = |name: &str| {
        environ.split(|byte| *byte == 0).find_map(|entry| {
            let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(String::from_utf8_lossy(value).into_owned())
        })
    };
    Some(Row {
        pid,
        start: fields.get(19)?.parse().ok()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        command,
        cookie: variable("GANTRY_TREE"),
        tag: variable(TAG).map(PathBuf::from),
    })
}

/// The children of a process that have ended and that it has not waited for.
pub fn zombies_of(parent: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_zombie = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_whitespace());
        let mut fields = fields.into_iter().flatten();
        let (state, of) = (fields.next(), fields.next());
        state == Some("Z") && of == Some(parent.to_string().as_str())
    };
    pids.filter(is_zombie).collect()
}

/// Writes this process into the ledger of its stage; the fake programs do so first of all.
pub fn sign_in() {
    sign_in_to(std::env::var_os(TAG).as_deref().map(Path::new));
}

/// The same with a ledger that is named otherwise.
pub fn sign_in_to(ledger: Option<&Path>) {
    if let (Some(ledger), Some(row)) = (ledger, row(std::process::id())) {
        crate::record::write(
            ledger,
            "started",
            serde_json::json!({ "start": row.start, "command": row.command }),
        );
    }
}

/// Everything that lives and belongs to the stage with this ledger: bearers of
/// the tag, bearers of a cookie of one of `owners`, and what signed in.
pub fn members(ledger: &Path, owners: &[(u32, u64)]) -> Vec<Row> {
    let owners: Vec<String> = owners.iter().map(|(pid, start)| format!("{pid}.{start}.")).collect();
    let signed: BTreeMap<u64, u64> = crate::record::read(ledger)
        .iter()
        .filter_map(|line| Some((line["pid"].as_u64()?, line["start"].as_u64()?)))
        .collect();
    let is_member = |row: &Row| {
        row.tag.as_deref() == Some(ledger)
            || row.cookie.as_ref().is_some_and(|c| owners.iter().any(|owner| c.starts_with(owner)))
            || signed.get(&u64::from(row.pid)) == Some(&row.start)
    };
    table().into_iter().filter(is_member).collect()
}

/// Waits until no member is left but those in `keep`, and says how long it took.
///
/// # Panics
/// When one is still there after `bound`; the message lists them.
pub async fn empty(
    ledger: &Path,
    owners: &[(u32, u64)],
    keep: &[u32],
    bound: Duration,
) -> Duration {
    let began = Instant::now();
    loop {
        let mut left = members(ledger, owners);
        left.retain(|row| !keep.contains(&row.pid));
        if left.is_empty() {
            return began.elapsed();
        }
        if began.elapsed() >= bound {
            panic!("survivors after {bound:?}:\n{}", listing(&left));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The rows as text, one a line.
pub fn listing(rows: &[Row]) -> String {
    let lines = rows.iter().map(|row| {
        format!(
            "  pid {} parent {} group {} session {} cookie {:?}: {}",
            row.pid, row.parent, row.group, row.session, row.cookie, row.command
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Ends what is left of a failed test, so that it does not disturb the next.
pub fn kill(rows: &[Row]) {
    for row in rows {
        if self::row(row.pid).is_some_and(|now| now.start == row.start) {
            signal(row.pid, rustix::process::Signal::KILL);
        }
    }
}

/// Sends a signal; a process that is gone is no error.
pub fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, signal);
    }
}
