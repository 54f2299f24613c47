//! Foreign processes that look like ours: whatever is stopped, they stay (case 90).

use crate::{census, programs};
use std::process::{Child, Command, Stdio};

/// Processes that are not Gantry's. Ended when dropped.
#[derive(Debug)]
pub struct Bystanders(Vec<(Child, u64)>);

impl Bystanders {
    /// Starts them: the fake programs, an interpreter or two with an MCP-like
    /// command line, one in a session of its own, one that bears the cookie of
    /// another owner that lives.
    ///
    /// # Panics
    /// When a fake program cannot be started.
    pub fn start() -> Self {
        let mut commands = vec![
            Command::new(programs::path("fake_mcp")),
            Command::new(programs::path("fake_agent")),
            Command::new(programs::path("stubborn")),
        ];
        let mut in_own_session = Command::new(programs::path("stubborn"));
        in_own_session.args(["setsid", "ignore-term"]);
        commands.push(in_own_session);
        let mut of_another = Command::new(programs::path("fake_mcp"));
        if let Some(me) = census::row(std::process::id()) {
            of_another.env("GANTRY_TREE", format!("{}.{}.bystander-1", me.pid, me.start));
        }
        commands.push(of_another);
        let mut node = Command::new("node");
        node.args(["-e", "process.stdin.resume()", "server-everything", "stdio"]);
        let mut python = Command::new("/usr/bin/python3");
        python.args(["-c", "import sys; sys.stdin.read()", "-m", "mcp_server_fetch"]);
        let optional = [node, python];

        let mut started = Vec::new();
        let count = commands.len();
        for (index, mut command) in commands.into_iter().chain(optional).enumerate() {
            command.env("STUBBORN_LIFE_S", "86400");
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            match command.spawn() {
                Ok(child) => {
                    let start = census::row(child.id()).map_or(0, |row| row.start);
                    started.push((child, start));
                }
                Err(why) => assert!(index >= count, "bystander {index}: {why}"),
            }
        }
        Self(started)
    }

    /// Their pids.
    pub fn pids(&self) -> Vec<u32> {
        self.0.iter().map(|(child, _)| child.id()).collect()
    }

    /// # Panics
    /// When one of them has been harmed.
    pub fn assert_unharmed(&mut self) {
        for (child, start) in &mut self.0 {
            let row = census::row(child.id());
            assert!(
                row.as_ref().is_some_and(|row| row.start == *start),
                "a bystander was harmed: pid {}, {:?}",
                child.id(),
                child.try_wait()
            );
        }
    }
}

impl Drop for Bystanders {
    fn drop(&mut self) {
        for (child, _) in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
