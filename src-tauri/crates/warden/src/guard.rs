//! The warden's life: wait for a child, an order or a time; end what is left.

use crate::control::Control;
use gantry_warden::{
    COOKIE_VARIABLE, kill, proc,
    stamp::Stamp,
    table::{Stat, below},
    words::{Order, Report},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::OwnedFd,
    io::Errno,
    process::{Pid, Signal, WaitOptions, kill_process, wait},
};
use std::{
    collections::HashSet,
    io,
    process::{Child, ExitCode},
    time::{Duration, Instant},
};

/// The first and the longest pause between two rounds of KILL. A killed process is
/// gone within a millisecond or two; one that the system holds may take for ever.
const ROUND_PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// What is to be done about the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing: the program runs.
    Watching,
    /// They got TERM; KILL comes at this instant.
    Asked(Instant),
    /// KILL, round by round, the next one at this instant.
    Killing { next: Instant, pause: Duration },
}

/// The warden of one tree.
pub struct Guard {
    control: Control,
    children: OwnedFd,
    program: u32,
    status: Option<u8>,
    grace: Duration,
    phase: Phase,
    /// Children that got KILL and have not been reaped.
    killed: HashSet<u32>,
    cookie: Option<String>,
    stamp: Option<Stamp>,
}

/// What a look at our children gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaped {
    /// Nothing: no child has ended.
    None,
    /// Some have ended, others live.
    Some,
    /// No child is left.
    All,
}

impl Guard {
    /// `children` becomes readable when a child ended; `grace` is what members get
    /// between TERM and KILL when nobody says otherwise.
    pub fn new(
        mut control: Control,
        children: OwnedFd,
        child: Child,
        grace: Duration,
        cookie: Option<String>,
    ) -> Self {
        let program = child.id();
        // It has not been reaped, so it is there, if only as a zombie.
        let start = proc::stat(program).map_or(0, |stat| stat.start);
        control.say(&Report::Started { pid: program, start });
        Self {
            control,
            children,
            program,
            status: None,
            grace,
            phase: Phase::Watching,
            killed: HashSet::new(),
            cookie,
            stamp: Stamp::of(std::process::id()),
        }
    }

    /// Until nothing is left. Returns the program's status, 128 + n for signal n.
    pub fn run(mut self) -> ExitCode {
        loop {
            let reaped = self.reap();
            if reaped == Reaped::All && self.strangers().is_empty() {
                return ExitCode::from(self.status.unwrap_or(1));
            }
            self.act(reaped);
            if self.wait().is_err() {
                // Without poll there is no watching: the safe end is the tree's end.
                self.kill();
            }
        }
    }

    /// Reaps what has ended. Everything below an adopter of orphans hangs below one of
    /// its children, so when no child is left, nothing is.
    fn reap(&mut self) -> Reaped {
        // The notice is taken before the children are, so that none is missed.
        let mut notice = [0; 128];
        while rustix::io::read(&self.children, &mut notice).is_ok_and(|length| length > 0) {}
        let mut reaped = Reaped::None;
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    reaped = Reaped::Some;
                    let pid = u32::try_from(pid.as_raw_nonzero().get()).unwrap_or(0);
                    self.killed.remove(&pid);
                    if pid == self.program {
                        self.program_ended(status.exit_status(), status.terminating_signal());
                    }
                }
                Ok(None) => return reaped,
                Err(Errno::INTR) => {}
                Err(_) => return Reaped::All,
            }
        }
    }

    fn program_ended(&mut self, code: Option<i32>, signal: Option<i32>) {
        self.control.say(&match (code, signal) {
            (Some(code), _) => Report::Code(code),
            (None, signal) => Report::Signal(signal.unwrap_or(0)),
        });
        let status = code.unwrap_or(128 + signal.unwrap_or(0));
        self.status = Some(u8::try_from(status & 0xff).unwrap_or(1));
    }

    /// Does what the phase and the time ask for.
    fn act(&mut self, reaped: Reaped) {
        if self.phase == Phase::Watching && (self.status.is_some() || self.control.fd().is_none()) {
            self.ask(self.grace);
        }
        match self.phase {
            Phase::Asked(until) if Instant::now() >= until => self.kill(),
            // What the dead ones had started is ours now.
            Phase::Killing { .. } if reaped == Reaped::Some => self.kill(),
            Phase::Killing { next, pause } if Instant::now() >= next => self.kill_again(pause),
            _ => {}
        }
    }

    /// TERM to all, and KILL after `grace`; never later than what was said before.
    fn ask(&mut self, grace: Duration) {
        let until = Instant::now() + grace;
        match self.phase {
            Phase::Killing { .. } => {}
            Phase::Asked(earlier) => self.phase = Phase::Asked(earlier.min(until)),
            Phase::Watching => {
                self.phase = Phase::Asked(until);
                let asked = kill::ask(&self.members());
                self.control.say(&Report::Asked(asked));
            }
        }
    }

    /// KILL to our children. What those have started becomes ours when they are dead, and
    /// is next: level by level, and no look at the process table. A child that we have not
    /// reaped keeps its pid, so nobody else can be hit.
    fn kill(&mut self) {
        let before = self.killed.len();
        for pid in proc::children(std::process::id()) {
            let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
            if raw.is_some_and(|raw| kill_process(raw, Signal::KILL).is_ok()) {
                self.killed.insert(pid);
            }
        }
        self.killed(self.killed.len() - before);
        self.phase = Phase::Killing { next: Instant::now() + ROUND_PAUSE.0, pause: ROUND_PAUSE.0 };
    }

    /// No child has ended since the last KILL: the system holds one, and with it what it
    /// has started; or strangers are left. Everybody that can be found gets it.
    fn kill_again(&mut self, pause: Duration) {
        let killed = kill::round(|| self.members());
        self.killed(killed.len());
        let pause = (pause * 2).min(ROUND_PAUSE.1);
        self.phase = Phase::Killing { next: Instant::now() + pause, pause };
    }

    fn killed(&mut self, count: usize) {
        if count > 0 {
            self.control.say(&Report::Killed(count));
        }
    }

    /// Everything below us, and (when the app is not there to see to them) strangers.
    fn members(&self) -> Vec<Stat> {
        let table = proc::all();
        let mut members = below(&table, [std::process::id()], &HashSet::new());
        if self.control.fd().is_none() {
            let known = members.iter().map(|stat| stat.pid).collect();
            members.extend(self.strangers_and_below(&table, &known));
        }
        members
    }

    /// Bearers of our cookie or stamp that are not below us: started on the tree's behalf by
    /// somebody else. Looked for only when the app is not there to do it.
    fn strangers(&self) -> Vec<Stat> {
        if self.control.fd().is_some() {
            return Vec::new();
        }
        self.strangers_and_below(&proc::all(), &HashSet::new())
    }

    fn strangers_and_below(&self, table: &[Stat], known: &HashSet<u32>) -> Vec<Stat> {
        let Some(cookie) = &self.cookie else { return Vec::new() };
        let me = std::process::id();
        let Some(myself) = table.iter().find(|stat| stat.pid == me) else { return Vec::new() };
        let can_bear = |stat: &&Stat| {
            // Nobody older than the tree bears its cookie.
            stat.pid != me
                && stat.start >= myself.start
                && stat.is_alive()
                && !known.contains(&stat.pid)
                && proc::is_ours(stat.pid)
        };
        let mut found: Vec<Stat> = table.iter().filter(can_bear).copied().collect();
        let cookies = proc::variables(found.iter().map(|stat| stat.pid), COOKIE_VARIABLE);
        found.retain(|stat| match cookies.get(&stat.pid) {
            Some(other) => other == cookie,
            None => self.stamp.is_some() && Stamp::of(stat.pid) == self.stamp,
        });
        let roots: Vec<u32> = found.iter().map(|stat| stat.pid).collect();
        found.extend(below(table, roots, &HashSet::from([me])));
        found
    }

    /// Sleeps until a child ends, an order arrives or the phase's time has come.
    fn wait(&mut self) -> io::Result<()> {
        let until = match self.phase {
            Phase::Watching => None,
            Phase::Asked(until) => Some(until),
            Phase::Killing { next, .. } => Some(next),
        };
        let timeout = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            }
        });
        let mut fds = vec![PollFd::new(&self.children, PollFlags::IN)];
        let control = self.control.fd();
        fds.extend(control.as_ref().map(|control| PollFd::new(control, PollFlags::IN)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let spoken = fds.get(1).is_some_and(|control| !control.revents().is_empty());
        drop(fds);
        if spoken {
            for order in self.control.orders() {
                match order {
                    Order::Term(grace) => self.ask(grace),
                    Order::Kill => self.kill(),
                }
            }
            if self.control.fd().is_none() {
                // Whatever was agreed with the app: it cannot shorten it any more.
                self.ask(self.grace);
            }
        }
        Ok(())
    }
}
