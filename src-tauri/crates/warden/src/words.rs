//! The lines on the control socket between the app and a warden.
//!
//! Before anything else the app sends one byte that carries the program's
//! standard input (`SCM_RIGHTS`); from then on both sides send lines of text.
//! End of the socket at the warden means that the app is gone.

use std::{fmt, str::FromStr, time::Duration};

/// What the warden tells the app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// `pid <pid> <start>`: the program runs.
    Started {
        /// Its process id.
        pid: u32,
        /// Its start time in clock ticks since boot.
        start: u64,
    },
    /// `error <errno> <text>`: the program could not be started; the last report.
    Refused {
        /// The system's error number, 0 when there is none.
        errno: i32,
        /// The system's words.
        text: String,
    },
    /// `exit code <n>`: the program ended by itself.
    Code(i32),
    /// `exit signal <n>`: a signal ended the program.
    Signal(i32),
    /// `asked <n>`: this many members got TERM.
    Asked(usize),
    /// `killed <n>`: this many members got KILL.
    Killed(usize),
}

/// What the app tells a warden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// `term <ms>`: TERM to every member now, KILL after this time.
    Term(Duration),
    /// `kill`: KILL now, until none is left.
    Kill,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started { pid, start } => write!(f, "pid {pid} {start}"),
            Self::Refused { errno, text } => {
                write!(f, "error {errno} {}", text.replace('\n', " "))
            }
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "exit signal {signal}"),
            Self::Asked(count) => write!(f, "asked {count}"),
            Self::Killed(count) => write!(f, "killed {count}"),
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Term(grace) => write!(f, "term {}", grace.as_millis()),
            Self::Kill => f.write_str("kill"),
        }
    }
}

/// A line that is none of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownWord;

impl FromStr for Report {
    type Err = UnknownWord;

    fn from_str(line: &str) -> Result<Self, UnknownWord> {
        let (word, rest) = line.split_once(' ').ok_or(UnknownWord)?;
        let number = |text: &str| text.parse().map_err(|_| UnknownWord);
        match word {
            "pid" => {
                let (pid, start) = rest.split_once(' ').ok_or(UnknownWord)?;
                Ok(Self::Started {
                    pid: pid.parse().map_err(|_| UnknownWord)?,
                    start: start.parse().map_err(|_| UnknownWord)?,
                })
            }
            "error" => {
                let (errno, text) = rest.split_once(' ').ok_or(UnknownWord)?;
                Ok(Self::Refused { errno: number(errno)?, text: text.to_owned() })
            }
            "exit" => match rest.split_once(' ').ok_or(UnknownWord)? {
                ("code", code) => Ok(Self::Code(number(code)?)),
                ("signal", signal) => Ok(Self::Signal(number(signal)?)),
                _ => Err(UnknownWord),
            },
            "asked" => Ok(Self::Asked(rest.parse().map_err(|_| UnknownWord)?)),
            "killed" => Ok(Self::Killed(rest.parse().map_err(|_| UnknownWord)?)),
            _ => Err(UnknownWord),
        }
    }
}

impl FromStr for Order {
    type Err = UnknownWord;

    fn from_str(line: &str) -> Result<Self, UnknownWord> {
        match line.split_once(' ') {
            Some(("term", grace)) => grace
                .parse()
                .map(|ms| Self::Term(Duration::from_millis(ms)))
                .map_err(|_| UnknownWord),
            None if line == "kill" => Ok(Self::Kill),
            _ => Err(UnknownWord),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_the_socket() {
        for report in [
            Report::Started { pid: 4_194_303, start: u64::MAX },
            Report::Refused { errno: 2, text: "No such file or directory".into() },
            Report::Code(-1),
            Report::Signal(9),
            Report::Asked(0),
            Report::Killed(200),
        ] {
            assert_eq!(report.to_string().parse(), Ok(report));
        }
    }

    #[test]
    fn orders_survive_the_socket() {
        for order in [Order::Term(Duration::from_millis(1500)), Order::Kill] {
            assert_eq!(order.to_string().parse(), Ok(order));
        }
    }

    #[test]
    fn an_error_text_stays_on_its_line() {
        let report = Report::Refused { errno: 0, text: "two\nlines".into() };
        assert_eq!(report.to_string(), "error 0 two lines");
    }

    #[test]
    fn other_words_are_refused() {
        for line in ["", "pid", "pid 1", "pid x 2", "exit", "exit code", "exit code x", "quit 1"] {
            assert_eq!(line.parse::<Report>(), Err(UnknownWord), "{line}");
        }
        for line in ["", "term", "term -1", "kill 1", "stop"] {
            assert_eq!(line.parse::<Order>(), Err(UnknownWord), "{line}");
        }
    }
}
