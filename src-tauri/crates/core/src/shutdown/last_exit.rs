//! How the last run ended, as the next start finds it out and tells it.

use super::{EndHow, ExitReport};
use crate::{
    data_dir::{DataDir, read_small, write_private},
    instance::Instance,
    wire::{LastExit, Leftover},
};
use gantry_supervisor::SweepReport;
use std::{fmt::Write as _, fs, io, path::PathBuf};

/// How many of the last lines of the log a report holds, and how many bytes are looked at for them.
const LOG_LINES: usize = 20;
const LOG_BYTES: u64 = 16 * 1024;
/// The longest report of a shutdown, bytes: far more than thousands of trees need.
const LONGEST: u64 = 4 << 20;

/// What is known of the last run before this one changes anything.
#[derive(Debug)]
pub(crate) struct LastRun {
    /// It ended without its shutdown.
    crashed: bool,
    /// What its shutdown wrote down.
    report: Option<ExitReport>,
    /// The end of its log, when it did not end well.
    log: Vec<String>,
}

/// Where the report of a shutdown lies.
pub(crate) fn file(data: &DataDir) -> PathBuf {
    data.run.join("last-exit.json")
}

fn untold_file(data: &DataDir) -> PathBuf {
    data.run.join("untold.json")
}

/// What an earlier start was to tell, which failed before anybody could see it.
pub(crate) fn untold(data: &DataDir) -> Option<LastExit> {
    serde_json::from_str(&read_small(&untold_file(data), LONGEST).ok()?).ok()
}

/// Keeps what is to be told until somebody can see it.
pub(crate) fn keep_untold(data: &DataDir, last_exit: &LastExit) {
    let kept = serde_json::to_string(last_exit).map_err(io::Error::from);
    if let Err(error) = kept.and_then(|text| write_private(&untold_file(data), &text)) {
        tracing::warn!("the notice of the last run is not kept: {error}");
    }
}

/// From now on it can be seen.
pub(crate) fn told(data: &DataDir) {
    let _ = fs::remove_file(untold_file(data));
}

impl LastRun {
    /// Reads what the last run left. Call it before [`Instance::take`].
    pub(crate) fn read(data: &DataDir) -> Self {
        let text = read_small(&file(data), LONGEST).ok();
        let report: Option<ExitReport> = text.and_then(|text| serde_json::from_str(&text).ok());
        // A run takes the report of the one before away as it begins, so one that is there
        // was written by the last run, also when it was cut short.
        let crashed =
            report.is_none() && data.instance_file().exists() && Instance::running(data).is_none();
        let is_bad = crashed || report.as_ref().is_some_and(|report| report.code != 0);
        let log = if is_bad { last_lines(&data.logs.join("gantry.log")) } else { Vec::new() };
        Self { crashed, report, log }
    }

    /// Takes the report away, so that a crash of this run is not taken for its end.
    /// Call it once the directory is ours.
    pub(crate) fn forget(data: &DataDir) {
        match fs::remove_file(file(data)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!("the last run's report could not be removed: {error}"),
        }
    }

    /// What the user is told; `None` when everything went well.
    pub(crate) fn tell(&self, swept: &SweepReport) -> Option<LastExit> {
        let forced = self.report.as_ref().map(forced).unwrap_or_default();
        let cut_short = self.report.as_ref().is_some_and(|report| report.code != 0);
        let (ended, left) = (swept.ended.len(), swept.left.len());
        let mut summary = match (self.crashed, ended) {
            (true, 0) => "Gantry ended unexpectedly; no process was left over.".to_owned(),
            (true, n) => format!("Gantry ended unexpectedly; {} ended.", leftovers(n)),
            (false, 0) if cut_short => "Gantry's last shutdown could not do everything.".to_owned(),
            (false, 0) if forced.is_empty() => String::new(),
            (false, 0) => format!(
                "At the last quit these did not end by themselves and were killed: {}.",
                forced.join(", ")
            ),
            (false, 1) => "1 leftover process of an earlier run was ended.".to_owned(),
            (false, n) => format!("{n} leftover processes of an earlier run were ended."),
        };
        if left > 0 {
            let space = if summary.is_empty() { "" } else { " " };
            let (what, them) = match left {
                1 => ("process", "it"),
                _ => ("processes", "them"),
            };
            let _ = write!(
                summary,
                "{space}{left} leftover {what} of an earlier run could not be ended; end {them} by hand."
            );
        }
        if summary.is_empty() {
            return None;
        }
        let report = self.report_text(&summary, swept);
        let mut trees = self.report.as_ref().map(|report| report.trees.clone()).unwrap_or_default();
        trees.sort_by_key(|tree| std::cmp::Reverse(tree.how));
        let leftovers = found_ended(swept).chain(found_left(swept)).collect();
        Some(LastExit { summary, crashed: self.crashed, cut_short, trees, leftovers, report })
    }

    /// A text to copy. No arguments and no values: those may be secrets.
    fn report_text(&self, summary: &str, swept: &SweepReport) -> String {
        let mut text = format!(
            "Gantry {} on {} {}\n{summary}\n",
            crate::VERSION,
            std::env::consts::OS,
            std::env::consts::ARCH
        );
        if let Some(report) = &self.report {
            let _ = writeln!(
                text,
                "\nThe last shutdown: asked by {}, took {} ms, exit code {}",
                report.cause, report.ms, report.code
            );
            if let Some(why) = &report.cut_short {
                let _ = writeln!(text, "  cut short: {why}");
            }
            for tree in &report.trees {
                let _ = writeln!(
                    text,
                    "  {} ({}): {}, {} processes, {} forced, {} ms",
                    tree.name, tree.role, tree.how, tree.processes, tree.forced, tree.ms
                );
            }
            if let Some(why) = &report.store {
                let _ = writeln!(text, "  the database: {why}");
            }
            for pid in &report.left {
                let _ = writeln!(text, "  pid {pid} was left");
            }
            for task in &report.stuck_tasks {
                let _ = writeln!(text, "  task {task} did not end");
            }
        }
        for (process, command) in &swept.ended {
            let _ = writeln!(text, "leftover: pid {} {}", process.pid, program(command));
        }
        for process in &swept.left {
            let _ = writeln!(text, "still there: pid {}", process.pid);
        }
        if !self.log.is_empty() {
            let _ = writeln!(text, "\nThe end of the log:\n{}", self.log.join("\n"));
        }
        text
    }
}

fn found_ended(swept: &SweepReport) -> impl Iterator<Item = Leftover> {
    swept.ended.iter().map(|(process, command)| Leftover {
        pid: process.pid,
        program: program(command).to_owned(),
        ended: true,
    })
}

fn found_left(swept: &SweepReport) -> impl Iterator<Item = Leftover> {
    swept.left.iter().map(|process| Leftover {
        pid: process.pid,
        program: String::new(),
        ended: false,
    })
}

fn leftovers(count: usize) -> String {
    match count {
        1 => "1 leftover process was".to_owned(),
        n => format!("{n} leftover processes were"),
    }
}

/// The trees that did not end when they were asked.
fn forced(report: &ExitReport) -> Vec<String> {
    let is_forced = |how: EndHow| matches!(how, EndHow::Killed | EndHow::Left);
    let trees = report.trees.iter().filter(|tree| is_forced(tree.how));
    trees.map(|tree| tree.name.clone()).collect()
}

/// The program of a command line.
pub(crate) fn program(command: &str) -> &str {
    let first = command.split(' ').next().unwrap_or_default();
    first.rsplit('/').next().unwrap_or(first)
}

fn last_lines(path: &std::path::Path) -> Vec<String> {
    use std::io::{Read as _, Seek as _};
    let read = || -> io::Result<String> {
        let mut file = fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(io::SeekFrom::Start(length.saturating_sub(LOG_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines.iter().skip(lines.len().saturating_sub(LOG_LINES)).map(|line| (*line).into()).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::TreeEnd, *};
    use gantry_supervisor::ProcessId;

    fn place() -> (tempfile::TempDir, DataDir) {
        let place = tempfile::tempdir().unwrap();
        let data = DataDir::at(place.path().join("data"));
        data.create().unwrap();
        (place, data)
    }

    fn swept(count: u32) -> SweepReport {
        let ended = (1..=count)
            .map(|pid| (ProcessId { pid, start: 5 }, "/usr/bin/node --token s3cret".to_owned()));
        SweepReport { ended: ended.collect(), left: Vec::new() }
    }

    fn report(how: EndHow, code: u8) -> ExitReport {
        let tree = TreeEnd {
            name: "fetch".into(),
            role: "server".into(),
            how,
            processes: 2,
            forced: 1,
            ms: 7,
        };
        ExitReport { code, cause: "SIGTERM".into(), trees: vec![tree], ..ExitReport::default() }
    }

    fn write(data: &DataDir, report: &ExitReport) {
        write_private(&file(data), &serde_json::to_string(report).unwrap()).unwrap();
    }

    fn died_without_a_word(data: &DataDir) {
        // Nobody has this pid and this start time.
        let info = r#"{"pid":1,"started":18446744073709551615,"url":"","version":"0"}"#;
        write_private(&data.instance_file(), info).unwrap();
    }

    #[test]
    fn a_first_start_and_a_clean_end_say_nothing() {
        let (_place, data) = place();
        assert_eq!(LastRun::read(&data).tell(&swept(0)), None);
        write(&data, &report(EndHow::Terminated, 0));
        assert_eq!(LastRun::read(&data).tell(&swept(0)), None);
    }

    #[test]
    fn a_crash_is_told_with_what_was_ended_and_no_secrets() {
        let (_place, data) = place();
        died_without_a_word(&data);
        fs::write(data.logs.join("gantry.log"), "one\ntwo\n").unwrap();
        let told = LastRun::read(&data).tell(&swept(3)).unwrap();
        assert_eq!(told.summary, "Gantry ended unexpectedly; 3 leftover processes were ended.");
        assert!(told.crashed);
        assert!(told.report.contains("pid 2 node") && told.report.ends_with("one\ntwo\n"));
        assert!(!told.report.contains("s3cret"));
        let expected = Leftover { pid: 2, program: "node".into(), ended: true };
        assert_eq!((told.leftovers.len(), &told.leftovers[1]), (3, &expected));
    }

    #[test]
    fn what_was_forced_at_a_quit_is_told_by_name() {
        let (_place, data) = place();
        write(&data, &report(EndHow::Killed, 0));
        let last = LastRun::read(&data);
        let told = last.tell(&swept(0)).unwrap();
        assert!(told.summary.contains("were killed: fetch."), "{}", told.summary);
        assert!(!told.crashed && told.report.contains("fetch (server): killed, 2 processes"));
        assert_eq!((told.trees[0].how, told.cut_short), (EndHow::Killed, false));
        LastRun::forget(&data);
        LastRun::forget(&data);
        assert_eq!(LastRun::read(&data).tell(&swept(0)), None);
    }

    #[test]
    fn leftovers_of_another_run_are_told_in_whole_sentences() {
        let (_place, data) = place();
        let told = |count| LastRun::read(&data).tell(&swept(count)).unwrap().summary;
        assert_eq!(told(1), "1 leftover process of an earlier run was ended.");
        assert_eq!(told(4), "4 leftover processes of an earlier run were ended.");
    }

    #[test]
    fn a_store_that_was_not_closed_is_told() {
        let (_place, data) = place();
        let store = Some("closing it took too long and was abandoned".to_owned());
        write(&data, &ExitReport { store, ..report(EndHow::Exited, 1) });
        let told = LastRun::read(&data).tell(&swept(0)).unwrap();
        assert!(told.report.contains("the database: closing it took too long"), "{}", told.report);
    }

    #[test]
    fn a_shutdown_that_was_cut_short_is_no_crash() {
        let (_place, data) = place();
        died_without_a_word(&data);
        let mut cut = report(EndHow::Exited, 1);
        cut.cut_short = Some("the clean-up took too long".into());
        write(&data, &cut);
        let told = LastRun::read(&data).tell(&swept(0)).unwrap();
        assert!(!told.crashed && told.report.contains("cut short: the clean-up"));
        assert!(told.cut_short);
    }

    #[test]
    fn what_cannot_be_ended_is_said() {
        let (_place, data) = place();
        let left = SweepReport { ended: vec![], left: vec![ProcessId { pid: 9, start: 1 }] };
        let told = LastRun::read(&data).tell(&left).unwrap();
        assert!(told.summary.starts_with("1 leftover process of"), "{}", told.summary);
        assert!(told.report.contains("still there: pid 9"));
        assert!(!told.leftovers[0].ended);
    }
}
