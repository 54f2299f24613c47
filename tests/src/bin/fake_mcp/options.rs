//! The arguments of `fake_mcp`.

use crate::era::Era;
use std::{path::PathBuf, time::Duration};

/// How the server behaves.
#[derive(Default)]
pub struct Options {
    /// `--label L`: `echo` answers `L: text`, so that it is known who answered.
    pub label: String,
    /// `--word W`: means nothing (not kept; `args` shows it).
    /// `--start-delay MS`: says nothing for so long.
    pub start_delay: Duration,
    /// `--tools N`: so many tools `tool_0`, `tool_1`, … besides the standard ones.
    pub tools: usize,
    /// `--pages N`: the list comes in so many pages.
    pub pages: usize,
    /// `--pid-file F`: appends its pid at the start.
    pub pid_file: Option<PathBuf>,
    /// `--lock F`: holds it; when another holds it, fails and notes the conflict
    /// in `F` with the extension `conflicts`.
    pub lock: Option<PathBuf>,
    /// `--fail-starts N F`: the first N starts (counted in F) end with 3.
    pub fail_starts: Option<(usize, PathBuf)>,
    /// `--crash-after N`: ends with 5 in the call after N calls.
    pub crash_after: Option<u64>,
    /// `--record F`: writes down what it receives and answers.
    pub record: Option<PathBuf>,
    /// `--spawn KINDS`: children, see `gantry_tests::misbehave`.
    pub spawn: String,
    /// `--stderr-lines N`: so many lines on standard error at the start.
    pub stderr_lines: usize,
    /// `--flood`: lines on standard error without end.
    pub flood: bool,
    /// `--noise`: a line on standard output that is no JSON.
    pub noise: bool,
    /// `--silent`: never answers.
    pub silent: bool,
    /// `--ignore-eof`: lives on when its input ends.
    pub ignore_eof: bool,
    /// `--ignore-term`: lives on after TERM, INT and HUP.
    pub ignore_term: bool,
    /// `--era initialize|both|modern`: see [`crate::era`].
    pub era: Era,
    /// `--asks`: two more tools, `ask` and `change`.
    pub asks: bool,
    /// `--broken-list`: `tools/list` is answered with something that is no list.
    pub broken_list: bool,
    /// `--term-delay MS`: needs so long to end after TERM.
    pub term_delay: Option<Duration>,
}

impl Options {
    /// # Panics
    /// On an unknown argument or a bad value, so that a test cannot be wrong in silence.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Self {
        fn next<T: std::str::FromStr>(args: &mut impl Iterator<Item = String>, name: &str) -> T {
            let value = args.next().and_then(|value| value.parse().ok());
            value.unwrap_or_else(|| panic!("fake_mcp: {name} needs a value"))
        }
        let mut options = Self { pages: 1, ..Self::default() };
        while let Some(arg) = args.next() {
            let (name, args) = (arg.as_str(), &mut args);
            match name {
                "--label" => options.label = next(args, name),
                // Only to see whether it arrives.
                "--word" => drop(next::<String>(args, name)),
                "--start-delay" => options.start_delay = Duration::from_millis(next(args, name)),
                "--tools" => options.tools = next(args, name),
                "--pages" => options.pages = next::<usize>(args, name).max(1),
                "--pid-file" => options.pid_file = Some(next(args, name)),
                "--lock" => options.lock = Some(next(args, name)),
                "--fail-starts" => options.fail_starts = Some((next(args, name), next(args, name))),
                "--crash-after" => options.crash_after = Some(next(args, name)),
                "--record" => options.record = Some(next(args, name)),
                "--spawn" => options.spawn = next(args, name),
                "--stderr-lines" => options.stderr_lines = next(args, name),
                "--flood" => options.flood = true,
                "--noise" => options.noise = true,
                "--silent" => options.silent = true,
                "--ignore-eof" => options.ignore_eof = true,
                "--ignore-term" => options.ignore_term = true,
                "--era" => options.era = next(args, name),
                "--asks" => options.asks = true,
                "--broken-list" => options.broken_list = true,
                "--term-delay" => {
                    options.term_delay = Some(Duration::from_millis(next(args, name)))
                }
                other => panic!("fake_mcp: unknown argument {other}"),
            }
        }
        options
    }
}
