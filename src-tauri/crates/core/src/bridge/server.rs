//! One server: the actor that carries out what [`next`] decides.
//!
//! It waits for nothing but its inbox and its alarm. Whatever takes time (a launch, an
//! ending, a ping, the connection itself) is a task of the bridge's scope that
//! reports back to the inbox.

mod process_tasks;
mod words;

use super::{
    facts::{Condition, Facts},
    next::{self, Effect, Event, Life, Moment, State, Then, next},
    process::{Tail, Tree, start_limit},
    registry::{Shared, SlotId},
    sign_in::NEEDED,
    sign_ins::{SIGN_IN_NOTICE, Standing},
    spec::is_remote,
    traffic::ServerTraffic,
};
use crate::{events::now, wire::ServerConfig};
use gantry_mcp::{Hub, Phase, ToolFilter};
use gantry_supervisor::{Cause, Deadline, Ended, How};
use process_tasks::Launched;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use words::{last_words, outdated};

/// Restarts in a row after which calls are no longer held for the next one.
const HOPEFUL: u32 = 6;

/// Answered when the process that lived at the time of asking has ended: how, or `None` when there
/// was none.
pub(super) type Ending = oneshot::Receiver<Option<Ended>>;

/// What a server's actor is told.
pub(super) enum Input {
    /// Somebody needs it. It waits for these to end first. `heard` is answered
    /// once the state shows it.
    Start { after: Vec<Ending>, heard: Option<oneshot::Sender<()>> },
    /// By hand. `done` is answered when the new process runs, or cannot be started.
    Restart { deadline: Deadline, done: oneshot::Sender<()> },
    /// Another configuration, which needs no restart.
    Adopt { config: ServerConfig },
    /// Another configuration, which does.
    Replace { config: ServerConfig, deadline: Deadline, ended: oneshot::Sender<Option<Ended>> },
    /// Nobody needs it any more.
    Stop { cause: Cause, deadline: Deadline, ended: oneshot::Sender<Option<Ended>> },
    /// Gantry ends.
    Close { deadline: Deadline, ended: oneshot::Sender<Option<Ended>> },
    /// A launch is over.
    Launched(Launched),
    /// `tools/list` is answered, or was again; the number of tools.
    Tools { generation: u64, tools: usize },
    /// What it does while it is starting.
    Note { generation: u64, note: String },
    /// A remote server needs its user to sign in, or does not any more; `over`: it ended for that.
    SignIn { generation: u64, needed: bool, over: bool },
    /// Its tools changed and could not be listed again, or could after all.
    Fault { generation: u64, fault: Option<String> },
    /// The ending of a tree is over.
    Ended { generation: u64, ended: Ended },
    /// A report of a task, as [`next`] takes it.
    Report(Event),
}

/// The process of a server, while there is one.
struct Live {
    generation: u64,
    tree: Arc<dyn Tree>,
    stderr: Arc<dyn Tail>,
    /// Its connection is read to the end.
    read_out: CancellationToken,
    /// Everything about it is over.
    over: CancellationToken,
}

/// One server.
pub(super) struct Server {
    shared: Arc<Shared>,
    id: SlotId,
    name: String,
    config: ServerConfig,
    life: Life,
    live: Option<Live>,
    begun: Option<Instant>,
    /// Calls off a launch that has not begun.
    launching: CancellationToken,
    facts: watch::Sender<Facts>,
    hub: Hub,
    /// A call waits for the user to sign in.
    wants_user: bool,
    /// Why its tools are not known as they are now.
    fault: Option<String>,
    traffic: ServerTraffic,
    announced: Option<(String, bool)>,
    sender: mpsc::UnboundedSender<Input>,
    /// Must have ended before the next launch.
    after: Vec<Ending>,
    endings: Vec<oneshot::Sender<Option<Ended>>>,
    /// Said once everything that follows from an ending can be seen.
    answers: Vec<(oneshot::Sender<Option<Ended>>, Option<Ended>)>,
    launches: Vec<oneshot::Sender<()>>,
}

/// How others reach a server's actor. What is sent is taken at once: the actor never waits
/// while it has something to read, so the inbox needs no bound.
#[derive(Clone)]
pub(super) struct Handle {
    pub inbox: mpsc::UnboundedSender<Input>,
    pub facts: watch::Receiver<Facts>,
    pub hub: Hub,
    pub traffic: ServerTraffic,
}

impl Handle {
    /// Tells the actor something. One that is gone has nothing running.
    pub fn tell(&self, input: Input) {
        let _ = self.inbox.send(input);
    }

    /// Asks for something that is answered when the present process has ended.
    pub fn end(&self, ask: impl FnOnce(oneshot::Sender<Option<Ended>>) -> Input) -> Ending {
        let (sender, ending) = oneshot::channel();
        self.tell(ask(sender));
        ending
    }
}

/// The filter of a configuration.
pub(super) fn filter_of(config: &ServerConfig) -> ToolFilter {
    ToolFilter { allow: config.allow_tools.clone(), deny: config.deny_tools.clone() }
}

impl Server {
    /// Starts the actor of a server, which is stopped at first.
    pub fn spawn(
        shared: &Arc<Shared>,
        id: SlotId,
        name: &str,
        config: ServerConfig,
        hub: Hub,
    ) -> Handle {
        let (sender, inbox) = mpsc::unbounded_channel();
        let (facts, watched) = watch::channel(Facts::stopped(now()));
        hub.announce_down("it is not running", false);
        let traffic = ServerTraffic::default();
        let handle = Handle {
            inbox: sender.clone(),
            facts: watched,
            hub: hub.clone(),
            traffic: traffic.clone(),
        };
        let (inform, phase) = (sender.clone(), hub.phase());
        hub.set_aside(SIGN_IN_NOTICE, move |notice| {
            let needed = notice.param(&["needed"]) == Some("true");
            if let Phase::Handshake { generation } | Phase::Ready { generation, .. } =
                *phase.borrow()
            {
                let _ = inform.send(Input::SignIn { generation, needed, over: false });
            }
        });
        let server = Self {
            shared: shared.clone(),
            id,
            name: name.to_owned(),
            config,
            life: Life::default(),
            live: None,
            begun: None,
            launching: CancellationToken::new(),
            facts,
            hub,
            wants_user: false,
            fault: None,
            traffic,
            announced: None,
            sender,
            after: Vec::new(),
            endings: Vec::new(),
            answers: Vec::new(),
            launches: Vec::new(),
        };
        shared.scope.spawn(format!("server {name}"), server.run(inbox));
        handle
    }

    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Input>) {
        let mut cancelled = std::pin::pin!(self.shared.scope.cancelled());
        loop {
            let alarm = self.life.alarm();
            let input = tokio::select! {
                biased;
                () = &mut cancelled => return,
                Some(input) = inbox.recv() => input,
                () = tokio::time::sleep_until(alarm.unwrap_or_else(Instant::now)),
                    if alarm.is_some() => Input::Report(Event::Tick),
            };
            self.take(input);
            let gone = self.life.state == State::Stopped && self.shared.retire(self.id);
            for (waiter, ended) in self.answers.drain(..) {
                let _ = waiter.send(ended);
            }
            if gone {
                return;
            }
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Start { after, heard } => {
                self.after.extend(after);
                self.turn(Event::Start);
                if let Some(heard) = heard {
                    let _ = heard.send(());
                }
            }
            Input::Restart { deadline, done } => {
                self.launches.push(done);
                self.turn(Event::Restart { deadline });
            }
            Input::Adopt { config } => self.config = config,
            Input::Replace { config, deadline, ended } => {
                self.config = config;
                self.when_ended(ended);
                self.turn(Event::Replace { deadline });
            }
            Input::Stop { cause, deadline, ended } => {
                self.when_ended(ended);
                self.turn(Event::Stop { cause, deadline });
            }
            Input::Close { deadline, ended } => {
                self.when_ended(ended);
                self.turn(Event::Close { deadline });
            }
            Input::Launched(launched) => self.launched(launched),
            Input::Tools { generation, tools } => {
                if self.live.as_ref().is_some_and(|live| live.generation == generation) {
                    self.facts.send_modify(|facts| facts.tools = Some(tools));
                    self.turn(Event::Handshaken { generation });
                }
            }
            Input::Note { generation, note } => {
                if self.live.as_ref().is_some_and(|live| live.generation == generation) {
                    self.facts.send_modify(|facts| facts.note = Some(note));
                    self.show();
                }
            }
            Input::SignIn { generation, needed, over } => {
                let is_live = |live: &Live| live.generation == generation;
                if is_remote(&self.config) && self.live.as_ref().is_some_and(is_live) {
                    self.sign_in(generation, needed, over);
                }
            }
            Input::Fault { generation, fault } => {
                if self.live.as_ref().is_some_and(|live| live.generation == generation) {
                    self.fault = fault;
                    self.show();
                }
            }
            Input::Ended { generation, ended } => self.ended(generation, ended),
            Input::Report(event) => self.turn(event),
        }
    }

    fn sign_in(&mut self, generation: u64, needed: bool, over: bool) {
        self.wants_user = needed && !over;
        let standing = if needed { Standing::Needed } else { Standing::SignedIn };
        self.shared.note_standing(self.id, standing);
        if over {
            self.turn(Event::SignIn { generation });
        } else {
            self.show();
        }
    }

    /// Answers when the process that lives now has ended.
    fn when_ended(&mut self, waiter: oneshot::Sender<Option<Ended>>) {
        if self.life.process().is_some() {
            self.endings.push(waiter);
        } else {
            self.answers.push((waiter, None));
        }
    }

    fn turn(&mut self, event: Event) {
        let at = Moment {
            now: Instant::now(),
            dice: next::dice(),
            start_limit: start_limit(&self.config),
            patient: is_remote(&self.config),
        };
        let (life, effects) = next(std::mem::take(&mut self.life), event, at);
        self.life = life;
        for effect in effects {
            match effect {
                Effect::Launch { generation } => self.launch(generation),
                Effect::End { generation, cause, deadline } => {
                    self.end(generation, cause, deadline);
                }
                Effect::Ping { generation } => self.ping(generation),
            }
        }
        if matches!(self.life.state, State::Stopping { launched: false, .. }) {
            self.launching.cancel();
        }
        self.announce();
        self.show();
        let waiting =
            matches!(self.life.state, State::Stopping { .. } | State::Starting { until: None, .. });
        if !waiting {
            for done in self.launches.drain(..) {
                let _ = done.send(());
            }
        }
    }

    fn launched(&mut self, launched: Launched) {
        let generation = launched.generation;
        match launched.result {
            Ok(started) if self.life.process() == Some(generation) && self.live.is_none() => {
                let live = Live {
                    generation,
                    tree: started.tree.clone(),
                    stderr: started.stderr.clone(),
                    read_out: CancellationToken::new(),
                    over: CancellationToken::new(),
                };
                self.facts.send_modify(|facts| {
                    facts.pid = Some(started.tree.pid());
                    facts.tree = Some(started.tree.id());
                    facts.log.begin(started.stderr.clone());
                });
                tracing::info!(
                    server = self.name,
                    pid = live.tree.pid(),
                    executable = %live.tree.executable().display(),
                    "server launched"
                );
                self.carry(&live, started, launched.place);
                self.watch_start(&live);
                self.live = Some(live);
                self.turn(Event::Launched { generation });
            }
            Ok(stray) => self.end_stray(stray),
            Err((why, fatal)) => {
                self.answer_endings(None);
                self.turn(Event::LaunchFailed { generation, why, fatal });
            }
        }
    }

    fn ended(&mut self, generation: u64, ended: Ended) {
        let Some(live) = self.live.take_if(|live| live.generation == generation) else { return };
        live.over.cancel();
        let detail = self.traffic.masked(&last_words(&*live.stderr));
        let left = matches!(ended.how, How::Left(_));
        tracing::info!(
            server = self.name,
            how = ?ended.how,
            processes = ended.processes,
            forced = ended.forced,
            ms = ended.took.as_millis(),
            "server ended"
        );
        self.wants_user = false;
        self.fault = None;
        self.facts.send_modify(|facts| {
            facts.pid = None;
            facts.tree = None;
        });
        // They asked about this process, not about one that follows it.
        self.answer_endings(Some(&ended));
        self.turn(Event::Ended { generation, detail, left });
    }

    fn answer_endings(&mut self, ended: Option<&Ended>) {
        self.answers.extend(self.endings.drain(..).map(|waiter| (waiter, ended.cloned())));
    }

    /// Tells the hub what calls may expect while there is no connection.
    fn announce(&mut self) {
        let down = match &self.life.state {
            State::Stopped => Some(("it is not running".to_owned(), false)),
            State::Starting { until: None, .. } => Some(("it is starting".to_owned(), true)),
            State::Starting { .. } | State::Ready { .. } => None,
            State::Restarting { why, attempt, .. } => {
                Some((format!("it restarts: {why}"), *attempt <= HOPEFUL))
            }
            State::Failed { why } => Some((why.clone(), false)),
            // Whoever asks now is told later: a sign-in may come any moment.
            State::WantsUser => Some((NEEDED.to_owned(), true)),
            State::Stopping { then, .. } => Some(match then {
                Then::Stopped => ("it is being stopped".to_owned(), false),
                Then::Start => ("it restarts".to_owned(), true),
                Then::Retry { why, attempt } => {
                    (format!("it restarts: {why}"), *attempt <= HOPEFUL)
                }
                Then::Failed { why } => (why.clone(), false),
                Then::WantsUser => (NEEDED.to_owned(), true),
            }),
        };
        if let Some((why, starting)) = &down
            && down != self.announced
        {
            self.hub.announce_down(why, *starting);
        }
        self.announced = down;
    }

    /// A reason with the last lines of standard error, for a process that has not ended yet.
    fn with_words(&self, why: &str) -> String {
        let words = self.live.as_ref().map(|live| last_words(&*live.stderr));
        self.traffic.masked(&format!("{why}{}", words.unwrap_or_default()))
    }

    /// Shows the state to others.
    fn show(&mut self) {
        let (condition, error) = match &self.life.state {
            State::Stopped => (Condition::Stopped, None),
            State::Starting { attempt: 0, .. } => (Condition::Starting, None),
            State::Starting { .. } => (Condition::Starting, self.facts.borrow().error.clone()),
            State::Ready { missed: 0, .. } if self.wants_user => {
                (Condition::Degraded, Some(NEEDED.to_owned()))
            }
            State::Ready { missed: 0, .. } => match &self.fault {
                Some(why) => (Condition::Degraded, Some(outdated(why))),
                None => (Condition::Ready, None),
            },
            State::Ready { missed, .. } => {
                (Condition::Degraded, Some(format!("it did not answer {missed} ping(s)")))
            }
            State::Restarting { why, .. } => (Condition::Restarting, Some(why.clone())),
            State::Failed { why } => (Condition::Failed, Some(why.clone())),
            // There is nothing in its log about that.
            State::WantsUser => (Condition::Failed, Some(NEEDED.to_owned())),
            State::Stopping { then, .. } => match then {
                Then::Stopped => (Condition::Stopping, Some("stopping".to_owned())),
                Then::Start => (Condition::Restarting, None),
                Then::Retry { why, .. } => (Condition::Restarting, Some(self.with_words(why))),
                Then::Failed { why } => (Condition::Failing, Some(self.with_words(why))),
                Then::WantsUser => (Condition::Failing, Some(NEEDED.to_owned())),
            },
        };
        let before = self.facts.borrow().condition;
        let ready_ms = (condition == Condition::Ready && before == Condition::Starting)
            .then(|| self.begun.map(|begun| millis(begun.elapsed())))
            .flatten();
        let restarts = self.life.restarts;
        let changed = self.facts.send_if_modified(|facts| {
            if condition != Condition::Starting {
                facts.note = None;
            }
            let seen = (facts.pid, facts.tools, facts.note.clone());
            let changed = facts.condition != condition
                || facts.error != error
                || facts.restarts != restarts
                || facts.shown != seen;
            if facts.condition.wire() != condition.wire() {
                facts.since = now();
            }
            if condition == Condition::Starting && before != condition {
                facts.ready_ms = None;
            }
            facts.ready_ms = ready_ms.or(facts.ready_ms);
            facts.condition = condition;
            facts.error = error;
            facts.restarts = restarts;
            facts.shown = seen;
            changed
        });
        if before != condition {
            tracing::info!(
                server = self.name,
                from = ?before,
                to = ?condition,
                ms = ready_ms,
                "server changed its state"
            );
        }
        if changed {
            self.shared.publish(self.id);
        }
        if before != condition {
            self.shared.tell_holders(self.id);
        }
    }
}

/// Whole milliseconds.
pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
