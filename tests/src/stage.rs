//! A stage: fresh directories, a ledger, foreign bystanders, and the proof at
//! the end that nothing is left and nobody was harmed.

use crate::{bystanders::Bystanders, census, programs};
use serde_json::Value;
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    process::Command,
    sync::{RwLock, RwLockReadGuard, RwLockWriteGuard},
};

/// Where one test plays.
pub struct Stage {
    dir: TempDir,
    bystanders: Bystanders,
    owners: Mutex<Vec<(u32, u64)>>,
    secrets: Mutex<Vec<String>>,
    _turn: Turn,
}

/// A sweep at a start reaches over the whole machine, and a bound of 100 ms
/// means little beside a busy neighbour: such tests take the machine alone.
enum Turn {
    Shared { _guard: RwLockReadGuard<'static, ()> },
    Alone { _guard: RwLockWriteGuard<'static, ()> },
    Beside,
}

fn machine() -> &'static RwLock<()> {
    static MACHINE: OnceLock<RwLock<()>> = OnceLock::new();
    MACHINE.get_or_init(RwLock::default)
}

impl Stage {
    /// A stage beside those of other tests.
    pub async fn shared() -> Self {
        Self::new(Turn::Shared { _guard: machine().read().await })
    }

    /// A stage while no other test of this program plays.
    pub async fn alone() -> Self {
        Self::new(Turn::Alone { _guard: machine().write().await })
    }

    /// A second stage for the same test, under the turn of the first.
    pub fn beside(&self) -> Self {
        Self::new(Turn::Beside)
    }

    fn new(turn: Turn) -> Self {
        let dir = tempfile::Builder::new().prefix("gantry-test-").tempdir();
        let dir = dir.unwrap_or_else(|why| panic!("no temporary directory: {why}"));
        let stage = Self {
            dir,
            bystanders: Bystanders::start(),
            owners: Mutex::default(),
            secrets: Mutex::new(programs::PLANTED.map(str::to_owned).to_vec()),
            _turn: turn,
        };
        for folder in ["home", "run", "project"] {
            std::fs::create_dir_all(stage.path(folder))
                .unwrap_or_else(|why| panic!("{folder}: {why}"));
        }
        let run = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(stage.path("run"), run).unwrap_or_else(|why| panic!("run: {why}"));
        stage
    }

    /// A path on the stage. Files that end with `.log`, `.jsonl` or `.png` are
    /// kept when the test fails.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A path on the stage as text, for arguments.
    pub fn text(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    /// The data directory of the instance, unless the test chooses another.
    pub fn data_dir(&self) -> PathBuf {
        self.path("data")
    }

    /// A program of this workspace with a home of its own.
    pub fn program(&self, name: &str) -> Command {
        self.command(programs::path(name))
    }

    /// A program with a home of its own and without the variables of a Gantry
    /// that may run these tests.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GANTRY_") {
                command.env_remove(name);
            }
        }
        for (name, folder) in [
            ("HOME", "home"),
            ("XDG_CONFIG_HOME", "home/.config"),
            ("XDG_DATA_HOME", "home/.local/share"),
            ("XDG_STATE_HOME", "home/.local/state"),
            ("XDG_CACHE_HOME", "home/.cache"),
            ("XDG_RUNTIME_DIR", "run"),
        ] {
            command.env(name, self.path(folder));
        }
        command.env(census::TAG, self.ledger()).env("GANTRY_DEFAULT_SERVERS", "none");
        command.current_dir(self.path("project")).kill_on_drop(true);
        command
    }

    /// The ledger of the fake programs of this stage.
    pub fn ledger(&self) -> PathBuf {
        self.path("ledger.jsonl")
    }

    /// Notes an instance: bearers of its cookie belong to this stage.
    pub fn owns(&self, pid: u32) {
        if let Some(row) = census::row(pid) {
            self.owners.lock().unwrap_or_else(PoisonError::into_inner).push((row.pid, row.start));
        }
    }

    fn owners(&self) -> Vec<(u32, u64)> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Everything of this stage that lives now, instances included.
    pub fn members(&self) -> Vec<census::Row> {
        census::members(&self.ledger(), &self.owners())
    }

    /// Those whose command line holds `text`.
    pub fn members_like(&self, text: &str) -> Vec<census::Row> {
        let mut members = self.members();
        members.retain(|row| row.command.contains(text));
        members
    }

    /// The running programs of a name (by the base name of their first
    /// argument), without wardens that have the name among their arguments.
    pub fn running(&self, program: &str) -> Vec<census::Row> {
        let mut members = self.members();
        members.retain(|row| {
            let first = row.command.split(' ').next().unwrap_or_default();
            first.rsplit('/').next() == Some(program)
        });
        members
    }

    /// Waits until nothing of this stage but the processes in `keep` is alive;
    /// returns how long it took.
    ///
    /// # Panics
    /// When something is left after `bound`.
    pub async fn empty_but(&self, keep: &[u32], bound: Duration) -> Duration {
        census::empty(&self.ledger(), &self.owners(), keep, bound).await
    }

    /// # Panics
    /// When a bystander was harmed.
    pub fn assert_bystanders_unharmed(&mut self) {
        self.bystanders.assert_unharmed();
    }

    /// The bystanders' pids.
    pub fn bystanders(&self) -> Vec<u32> {
        self.bystanders.pids()
    }

    /// No log of this stage may hold this.
    pub fn keeps_secret(&self, secret: &str) {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).push(secret.to_owned());
    }

    /// The end of every test: nothing of this stage lives, nobody else was harmed, and no
    /// secret is in a log or a report.
    ///
    /// # Panics
    /// When something is left a second from now, a bystander was harmed, or a secret came out.
    pub async fn finish(mut self) {
        self.empty_but(&[], Duration::from_secs(1)).await;
        self.bystanders.assert_unharmed();
        let secrets =
            std::mem::take(self.secrets.get_mut().unwrap_or_else(PoisonError::into_inner));
        assert_no_secret(self.dir.path(), &secrets);
    }

    /// Keeps a file as an artifact of this test.
    pub fn keep(&self, file: &Path) {
        let (folder, Some(name)) = (artifacts(), file.file_name()) else { return };
        let kept =
            std::fs::create_dir_all(&folder).and_then(|()| std::fs::copy(file, folder.join(name)));
        if let Err(why) = kept {
            eprintln!("{} could not be kept: {why}", file.display());
        }
    }
}

/// Looks into every log and report below a folder.
fn assert_no_secret(folder: &Path, secrets: &[String]) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            assert_no_secret(&path, secrets);
        }
        let is_report = path.extension() == Some(OsStr::new("log"))
            || path.file_name() == Some(OsStr::new("last-exit.json"));
        if !kind.is_file() || !is_report {
            continue;
        }
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).into_owned();
        for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
            let line = text.lines().find(|line| line.contains(secret.as_str()));
            assert!(line.is_none(), "a secret is in {}: {}", path.display(), line.unwrap_or(""));
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let kept = ["log", "jsonl", "png"].map(|kind| Some(OsStr::new(kind)));
            for entry in std::fs::read_dir(self.dir.path()).into_iter().flatten().flatten() {
                if kept.contains(&entry.path().extension()) {
                    self.keep(&entry.path());
                }
            }
            eprintln!("logs of this test are kept in {}", artifacts().display());
        }
        census::kill(&self.members());
    }
}

/// `$GANTRY_ARTIFACTS` or `artifacts` at the top of the repository, and in it a
/// folder with the name of the test.
pub fn artifacts() -> PathBuf {
    let top = std::env::var_os("GANTRY_ARTIFACTS").map(PathBuf::from).unwrap_or_else(|| {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).join("artifacts")
    });
    let test = std::thread::current().name().unwrap_or("test").replace("::", "-");
    top.join(test)
}

/// A JSON value's text, for messages.
pub fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}
