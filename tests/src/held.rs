//! A foreign process that keeps everybody waiting who looks at it.

use crate::Stage;
use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

/// A process in the middle of an exec that does not end. Whoever looks at it waits, so the
/// census leaves it out. Let go when dropped.
#[derive(Debug)]
pub struct Held {
    keeper: Child,
    /// Its pid.
    pub pid: u32,
}

impl Held {
    /// Starts it. `None` where that is not possible: it needs FUSE, and the right to mount.
    ///
    /// # Panics
    /// When it does not start for another reason.
    pub fn start(stage: &Stage) -> Option<Self> {
        let folder = stage.path("held");
        std::fs::create_dir_all(&folder).unwrap_or_else(|why| panic!("{why}"));
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", include_str!("held.py")]).arg(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut keeper) = command.spawn() else {
            eprintln!("left out: there is no /usr/bin/python3");
            return None;
        };
        let mut line = String::new();
        let output = keeper.stdout.take().unwrap_or_else(|| panic!("no standard output"));
        BufReader::new(output).read_line(&mut line).unwrap_or_else(|why| panic!("{why}"));
        match line.trim().parse() {
            Ok(pid) => Some(Self { keeper, pid }),
            Err(_) => {
                let status = keeper.wait().unwrap_or_else(|why| panic!("{why}"));
                assert_eq!(status.code(), Some(77), "{line:?}");
                eprintln!("left out: nothing can be mounted here");
                None
            }
        }
    }

    /// Whether it still is what it was.
    pub fn is_held(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
