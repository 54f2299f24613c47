//! What a test stands in: a supervisor, a mark that all its processes carry in their
//! command line, and bystanders with the same command lines that must survive.

use gantry_supervisor::{
    Child, Deadline, Launch, ProcessId, ProcessTree, Role, Scope, Supervisor, warden_beside_us,
};
use std::{
    path::PathBuf,
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// For what must happen: fails the test when it does not. Generous, for loaded machines.
pub const LIMIT: Duration = Duration::from_secs(20);

/// The warden's program.
pub fn warden() -> PathBuf {
    warden_beside_us().expect("gantry-warden is missing: run `cargo build -p gantry-warden`")
}

/// Unique in the process table: a number of seconds that `sleep` takes.
pub fn mark() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("8{}.{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

pub fn soon(span: Duration) -> Deadline {
    Deadline::after(span)
}

/// A shell script as a launch, in each role in turn: what it is to us makes no difference.
pub fn script(text: &str) -> Launch {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const ROLES: [Role; 3] = [Role::Server, Role::Engine, Role::Terminal];
    Launch {
        name: "test".into(),
        role: ROLES[NEXT.fetch_add(1, Ordering::Relaxed) as usize % ROLES.len()],
        program: "sh".into(),
        args: vec!["-c".into(), text.into()],
        env: Vec::new(),
        cwd: None,
        grace: Duration::from_millis(300),
    }
}

/// Waits until `done`, at most `limit`; returns whether it came.
pub async fn until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while !done() {
        if Instant::now() >= end {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    true
}

/// Living processes with the mark in their command line, whoever's they are.
pub fn marked(mark: &str) -> Vec<ProcessId> {
    let pids = std::fs::read_dir("/proc").expect("/proc").flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&line).contains(mark).then_some(pid)
    });
    pids.filter_map(ProcessId::of).filter(|id| id.is_alive()).collect()
}

/// A foreign process that must survive.
pub struct Bystander(std::process::Child);

impl Bystander {
    pub fn start(mark: &str) -> Self {
        let mut command = Command::new("sleep");
        command.arg(mark).stdin(Stdio::null()).env_remove("GANTRY_TREE");
        Self(command.spawn().expect("a bystander"))
    }

    fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub struct World {
    pub scope: Scope,
    pub supervisor: Supervisor,
    pub mark: String,
    bystanders: Vec<Bystander>,
}

impl World {
    /// With wardens.
    pub fn new() -> Self {
        Self::with(Some(warden()))
    }

    /// As on a system that has none.
    pub fn without_wardens() -> Self {
        Self::with(None)
    }

    fn with(warden: Option<PathBuf>) -> Self {
        let scope = Scope::root("test");
        let mark = mark();
        let bystanders = (0..3).map(|_| Bystander::start(&mark)).collect();
        Self { supervisor: Supervisor::new(scope.clone(), warden), scope, mark, bystanders }
    }

    /// Starts a script in which `MARK` stands for the mark, and waits until `sleepers` of
    /// its `sleep MARK` run: whatever the script says before those is done then.
    pub async fn start(&self, text: &str, sleepers: usize) -> Child {
        let text = text.replace("MARK", &self.mark);
        let child = self.supervisor.launch(script(&text)).await.expect("starts");
        let all = until(LIMIT, || self.sleepers() >= sleepers).await;
        assert!(all, "{} of {sleepers}: {:?}", self.sleepers(), child.stderr.lines(10));
        child
    }

    fn sleepers(&self) -> usize {
        let line = format!("sleep\0{}\0", self.mark);
        let sleeps = |id: &ProcessId| {
            std::fs::read(format!("/proc/{}/cmdline", id.pid)).is_ok_and(|it| it == line.as_bytes())
        };
        self.marked().iter().filter(|id| sleeps(id)).count()
    }

    /// Our marked processes.
    pub fn marked(&self) -> Vec<ProcessId> {
        let mut found = marked(&self.mark);
        found.retain(|id| self.bystanders.iter().all(|bystander| bystander.id() != id.pid));
        found
    }

    /// Nothing of ours is left, in the table or among our children; the bystanders live.
    pub fn assert_clean(&self) {
        assert_eq!(self.marked(), [], "marked processes survived");
        assert_eq!(self.supervisor.survivors(), [], "bearers of our cookies survived");
        for bystander in &self.bystanders {
            let id = ProcessId::of(bystander.id()).expect("a bystander is gone");
            assert!(id.is_alive(), "a bystander was harmed");
        }
    }

    /// And no task is left behind either.
    pub async fn finish(self) {
        self.assert_clean();
        let stuck = self.scope.close(soon(LIMIT)).await;
        assert_eq!(stuck, Vec::<String>::new(), "tasks are left");
        assert_eq!(self.supervisor.trees().len(), 0);
    }
}

/// A failed test leaves nothing behind either.
impl Drop for World {
    fn drop(&mut self) {
        self.supervisor.kill_now(Duration::from_secs(2));
    }
}

/// Not even a zombie of it is left.
pub async fn assert_reaped(tree: &ProcessTree) {
    for id in [Some(tree.program()), tree.warden()].into_iter().flatten() {
        let gone = until(LIMIT, || ProcessId::of(id.pid) != Some(id)).await;
        assert!(gone, "{id:?} was not reaped");
    }
}

/// Writes a line and reads one of the same length: the program runs its loop.
pub async fn echo(child: &mut Child) {
    child.stdin.write_all(b"hello\n").await.expect("writes");
    let mut line = [0; 6];
    child.stdout.read_exact(&mut line).await.expect("reads");
    assert_eq!(&line, b"hello\n");
}
