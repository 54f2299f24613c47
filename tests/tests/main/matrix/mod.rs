//! The fault matrix: role × misbehaviour × cause of the end, generated. Each cell is a real
//! process tree in a real `gantry serve`. Survivors: none; bystanders with the same command
//! lines: unharmed; time: within the budget of its cause.
//!
//! There is a cell wherever the cause ends a tree of that role: a server that is removed,
//! restarted or crashes ends no engine and no terminal, and a terminal's crash only itself.
//!
//! A plain run takes a part of the cells, so that every misbehaviour meets several causes and
//! every cause several misbehaviours; `GANTRY_TEST_FULL=1` takes them all.

mod cell;
mod misbehaviour;

use cell::{Cell, Role};
use gantry_tests::{Instance, Stage, census, wait_until};
use misbehaviour::Misbehaviour;
use rustix::process::Signal;
use serde_json::json;
use std::time::{Duration, Instant};

/// Why a tree ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    SessionStop,
    ServerRemove,
    ServerRestart,
    /// Its own program is killed.
    Crash,
    /// The engine of its session is killed.
    EngineCrash,
    WardenKilled,
    Quit,
    SecondQuit,
    Sigterm,
    AppKilled,
    AppAndWardensKilled,
}

/// The causes that leave the app alive.
const WHILE_IT_RUNS: [Cause; 6] = [
    Cause::SessionStop,
    Cause::ServerRemove,
    Cause::ServerRestart,
    Cause::Crash,
    Cause::EngineCrash,
    Cause::WardenKilled,
];

/// The causes that end the app.
const ITS_ENDS: [Cause; 5] =
    [Cause::Quit, Cause::SecondQuit, Cause::Sigterm, Cause::AppKilled, Cause::AppAndWardensKilled];

impl Cause {
    fn of(self, role: Role) -> bool {
        match self {
            Self::ServerRemove | Self::ServerRestart => role == Role::Server,
            // An engine's own crash is `Crash`.
            Self::EngineCrash => role != Role::Engine,
            _ => true,
        }
    }

    /// The contract's budget.
    fn budget(self) -> Duration {
        Duration::from_millis(match self {
            // A stop may take five seconds, and an answer is on its way, too.
            Self::SessionStop | Self::ServerRemove | Self::ServerRestart => 5200,
            // What a session had is stopped in order when its engine is gone, which has to be
            // seen first: with the last words of a dead program.
            Self::EngineCrash => 6000,
            // The second request comes after more than a second.
            Self::SecondQuit => 3000,
            Self::Quit | Self::Sigterm => 5200,
            // One second of grace, and the kill.
            Self::Crash | Self::WardenKilled | Self::AppKilled => 2000,
            // The sweep of the next start, after its start.
            Self::AppAndWardensKilled => 2000,
        })
    }
}

fn is_full() -> bool {
    std::env::var_os("GANTRY_TEST_FULL").is_some()
}

/// One cell in so many is in a plain run.
const PART: usize = 4;

/// The cells of a cause.
fn cells(cause: Cause) -> Vec<Cell> {
    let roles = Role::ALL.into_iter().filter(|role| cause.of(*role));
    roles
        .flat_map(|role| Misbehaviour::ALL.into_iter().enumerate().map(move |of| (role, of)))
        .filter(|(role, (index, _))| {
            is_full() || (index + cause as usize + *role as usize).is_multiple_of(PART)
        })
        .map(|(role, (_, misbehaviour))| Cell::new(role, misbehaviour))
        .collect()
}

/// The cells that are started together: all of a plain run, those of a role when there are more
/// than a machine takes at once.
fn parties(cause: Cause) -> Vec<(Cause, Vec<Cell>)> {
    let cells = cells(cause);
    if !is_full() {
        return vec![(cause, cells)];
    }
    let mut parties: Vec<(Cause, Vec<Cell>)> = Vec::new();
    for cell in cells {
        match parties.last_mut() {
            Some((_, party)) if party[0].role() == cell.role() => party.push(cell),
            _ => parties.push((cause, vec![cell])),
        }
    }
    parties
}

/// Starts the cells and waits until each has done what it does.
async fn begin(stage: &Stage, instance: &Instance, cells: &mut [Cell], cause: Cause) {
    let in_session = matches!(cause, Cause::SessionStop | Cause::EngineCrash);
    let starts = cells.iter_mut().map(|cell| cell.start(stage, instance, in_session));
    futures::future::join_all(starts).await;
}

#[tokio::test]
async fn trees_end_while_the_app_runs() {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    for (cause, mut cells) in WHILE_IT_RUNS.into_iter().flat_map(parties) {
        begin(&stage, &instance, &mut cells, cause).await;
        let ends = cells.iter().map(|cell| end(&instance, cell, cause));
        futures::future::join_all(ends).await;
        // What a crash or a restart brought back is not needed any more.
        for cell in &cells {
            cell.leave(&instance).await;
        }
        for cell in cells {
            cell.finish(Duration::from_millis(5200)).await;
        }
    }
    assert_eq!(instance.api("processes", json!({})).await["strays"], 0);
    instance.quit().await;
    stage.finish().await;
}

/// Ends one tree and waits until nothing of it is left.
async fn end(instance: &Instance, cell: &Cell, cause: Cause) {
    let began = Instant::now();
    match cause {
        Cause::SessionStop => {
            let stopped = instance.api("session_stop", json!({ "session": cell.session() })).await;
            assert!(stopped["processes_ended"].as_u64() > Some(0), "{cell}: {stopped}");
        }
        Cause::ServerRemove => {
            instance.api("servers_remove", json!({ "name": cell.name() })).await;
        }
        Cause::ServerRestart => {
            instance.api("servers_restart", json!({ "name": cell.name() })).await;
        }
        Cause::Crash => cell.kill_program(),
        Cause::EngineCrash => cell.kill_engine(instance).await,
        Cause::WardenKilled => cell.kill_warden(),
        _ => unreachable!("{cause:?} ends the app"),
    }
    cell.gone(cause.budget().saturating_sub(began.elapsed()), cause).await;
}

async fn app_ends(cause: Cause, by: impl AsyncFn(&Stage, &mut Instance, &[Cell])) {
    for (cause, cells) in parties(cause) {
        app_ends_with(cells, cause, &by).await;
    }
}

async fn app_ends_with(
    mut cells: Vec<Cell>,
    cause: Cause,
    by: &impl AsyncFn(&Stage, &mut Instance, &[Cell]),
) {
    let stage = Stage::alone().await;
    let mut instance = Instance::start(&stage).await;
    begin(&stage, &instance, &mut cells, cause).await;
    let began = Instant::now();
    by(&stage, &mut instance, &cells).await;
    if cause != Cause::AppAndWardensKilled {
        for cell in &cells {
            cell.gone(cause.budget().saturating_sub(began.elapsed()), cause).await;
        }
    }
    for cell in cells {
        cell.finish(Duration::ZERO).await;
    }
    stage.finish().await;
}

#[tokio::test]
async fn trees_end_with_a_quit() {
    app_ends(Cause::Quit, async |_: &Stage, instance: &mut Instance, _: &[Cell]| {
        instance.api("quit", json!({})).await;
        instance.ended_cleanly().await;
    })
    .await;
}

#[tokio::test]
async fn trees_end_with_sigterm() {
    app_ends(Cause::Sigterm, async |_: &Stage, instance: &mut Instance, _: &[Cell]| {
        instance.quit().await;
    })
    .await;
}

#[tokio::test]
async fn trees_end_with_a_second_quit_during_the_first() {
    app_ends(Cause::SecondQuit, async |_: &Stage, instance: &mut Instance, _: &[Cell]| {
        instance.signal(Signal::TERM);
        // Later than what counts as the same gesture. Polite trees are gone by then.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        instance.signal(Signal::TERM);
        let (status, took) = instance.ended(Duration::from_millis(1900)).await;
        assert_eq!(status.code(), Some(0), "after {took:?}: {}", instance.log());
    })
    .await;
}

#[tokio::test]
async fn trees_end_when_the_app_is_killed() {
    app_ends(Cause::AppKilled, async |_: &Stage, instance: &mut Instance, _: &[Cell]| {
        instance.signal(Signal::KILL);
        instance.ended(Duration::from_secs(1)).await;
    })
    .await;
}

/// Nobody is left to end anything: the next start does.
#[tokio::test]
async fn trees_end_with_the_next_start_when_the_app_and_all_wardens_are_killed() {
    let cause = Cause::AppAndWardensKilled;
    app_ends(cause, async |stage: &Stage, instance: &mut Instance, cells: &[Cell]| {
        // Held, so that no warden acts on the app's end before it is killed itself.
        let wardens: Vec<u32> = cells.iter().map(Cell::warden).collect();
        for warden in &wardens {
            census::signal(*warden, Signal::STOP);
        }
        instance.signal(Signal::KILL);
        for warden in &wardens {
            census::signal(*warden, Signal::KILL);
        }
        instance.ended(Duration::from_secs(1)).await;
        let mut next = Instance::start(stage).await;
        for cell in cells {
            cell.gone(cause.budget(), cause).await;
        }
        let snapshot = next.api("snapshot", json!({})).await;
        let summary = snapshot["last_exit"]["summary"].as_str().unwrap_or_default();
        assert!(summary.starts_with("Gantry ended unexpectedly; "), "{snapshot}");
        assert_eq!(snapshot["last_exit"]["crashed"], true);
        next.quit().await;
    })
    .await;
}

/// The part that a plain run takes leaves nobody out.
#[test]
fn every_misbehaviour_and_every_cause_has_cells() {
    let mut met = std::collections::BTreeMap::<String, usize>::new();
    let (mut whole, mut taken) = (0, 0);
    for cause in WHILE_IT_RUNS.into_iter().chain(ITS_ENDS) {
        let roles = Role::ALL.into_iter().filter(|role| cause.of(*role)).count();
        let cells = cells(cause);
        whole += roles * Misbehaviour::ALL.len();
        taken += cells.len();
        assert!(cells.len() >= 3 * roles, "{cause:?}");
        for cell in cells {
            *met.entry(cell.to_string()).or_default() += 1;
        }
    }
    println!("{taken} of {whole} cells");
    // Servers end for all causes, engines for all but three, terminals for all but two.
    assert_eq!(whole, Misbehaviour::ALL.len() * (11 + 8 + 9));
    assert!(if is_full() { taken == whole } else { taken >= whole / PART - 3 }, "{taken}");
    assert_eq!(met.len(), Misbehaviour::ALL.len() * Role::ALL.len());
    assert!(met.values().all(|count| *count >= 2), "{met:?}");
}

/// Waits for a state of a cell.
async fn until(what: String, bound: Duration, is_so: impl Fn() -> bool) {
    let is_so = &is_so;
    wait_until(&what, bound, || async move { is_so().then_some(()) }).await;
}
