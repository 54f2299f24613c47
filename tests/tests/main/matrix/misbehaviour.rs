//! What a tree does to be hard to end, as a shell script around a fake program.

/// A misbehaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misbehaviour {
    Polite,
    IgnoresEndOfInput,
    IgnoresTerm,
    Wrapper,
    LoginShell,
    SetsidChild,
    OwnGroup,
    Daemon,
    DaemonWithoutEnvironment,
    ForkBomb,
    Stopped,
    FullPipe,
    Zombies,
    Respawns,
}

use Misbehaviour::*;

impl Misbehaviour {
    pub const ALL: [Self; 14] = [
        Polite,
        IgnoresEndOfInput,
        IgnoresTerm,
        Wrapper,
        LoginShell,
        SetsidChild,
        OwnGroup,
        Daemon,
        DaemonWithoutEnvironment,
        ForkBomb,
        Stopped,
        FullPipe,
        Zombies,
        Respawns,
    ];

    /// The script. `PROGRAM` stands for the program that speaks, `MARK` for what `sleep` is
    /// told: unique to the cell, and in the command line of all that are told it.
    pub fn script(self) -> &'static str {
        match self {
            Polite | Stopped => "exec PROGRAM",
            IgnoresEndOfInput => "PROGRAM; sleep MARK",
            IgnoresTerm => "trap '' TERM INT HUP; PROGRAM; sleep MARK; :",
            Wrapper => "sh -c 'PROGRAM; exit $?'; exit $?",
            LoginShell => "bash -lc 'PROGRAM; true'; true",
            SetsidChild => "setsid sh -c 'trap \"\" TERM; sleep MARK; :' & exec PROGRAM",
            // Job control gives each job a group of its own.
            OwnGroup => "set -m; sleep MARK & (trap '' TERM; sleep MARK; :) & exec PROGRAM",
            Daemon => "(setsid sh -c 'trap \"\" TERM HUP; sleep MARK; :' &); exec PROGRAM",
            DaemonWithoutEnvironment => {
                "(env -i setsid sh -c 'trap \"\" TERM HUP; sleep MARK; :' &); exec PROGRAM"
            }
            ForkBomb => "for i in $(seq 200); do sleep MARK & done; exec PROGRAM",
            // Both ends of a full pipe: one writes for ever, one never reads.
            FullPipe => "(yes MARK | (trap '' TERM; sleep MARK; :)) & exec PROGRAM",
            // Those that end first are never waited for: `sleep` knows no children.
            Zombies => "sh -c 'true & true & true & exec sleep MARK' & exec PROGRAM",
            Respawns => {
                "keep() { trap '' TERM; while :; do sleep MARK; done; }; keep & keep & exec PROGRAM"
            }
        }
    }

    /// How many processes with the mark there are at least when everything is done.
    pub fn marked(self) -> usize {
        match self {
            Polite | Stopped | IgnoresEndOfInput | IgnoresTerm | Wrapper | LoginShell => 0,
            SetsidChild | Daemon | DaemonWithoutEnvironment | OwnGroup | Respawns => 2,
            ForkBomb => 200,
            FullPipe => 2,
            Zombies => 1,
        }
    }
}
