//! One session in memory: its state, what the agent asked, and what is still to
//! be written down. Everything here is short and never waits; what has to wait
//! becomes a [`Chore`] of the session's actor.

use super::{
    EngineRules, Prompt,
    adopt::Replay,
    client::Client,
    conversation::OpenAsk,
    notes::Note,
    offered::Offered,
    questions::Questions,
    records::Kept,
    state::{Effect, Event, Outcome, State},
};
use crate::{
    Result,
    bridge::{Bridge, HandedServer},
    engine::{Engine, Engines, WireLog},
    events::Events,
    wire::*,
};
use gantry_acp::{PeerError, SentRequest};
use gantry_store::{Store, TurnRow};
use gantry_supervisor::{Deadline, Ended, Scope, Supervisor};
use serde_json::Value;
use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// How long an agent may take to end a cancelled turn before it is over for everybody else.
pub(super) const CANCEL_GRACE: Duration = Duration::from_secs(3);

/// What all sessions share.
pub(super) struct Deps {
    pub(super) scope: Scope,
    pub(super) supervisor: Supervisor,
    pub(super) bridge: Bridge,
    pub(super) store: Store,
    pub(super) events: Events,
    pub(super) engines: Engines,
    /// How engines are shared and how long they may be idle; can change at any time.
    pub(super) rules: watch::Sender<EngineRules>,
    /// How long a working agent may say nothing before that is shown.
    pub(super) quiet_after: Duration,
}

/// What a session's actor is asked to do, one after the other.
pub(super) enum Command {
    /// Open it ahead of the first prompt.
    Open { epoch: u64 },
    /// Send this prompt; it was claimed.
    Prompt(Box<Job>),
    /// Stop it; the answer goes to everybody who waits. `warm`: its engine may be followed by one
    /// that waits for a session.
    Stop { deadline: Deadline, warm: bool },
    /// Sign in to its agent, then open it.
    SignIn { method: String, epoch: u64, reply: oneshot::Sender<Result<Authenticated>> },
    /// Nothing has happened in it for this long: it gives its engine back.
    Park(Duration),
    /// The session is no more.
    End,
}

/// A prompt on its way.
pub(super) struct Job {
    pub(super) turn: String,
    pub(super) prompt: Prompt,
    /// The stop before which it was asked for; a later stop takes it along.
    pub(super) epoch: u64,
    /// When it was asked for.
    pub(super) at: i64,
    /// Who waits for the acceptance; nobody when it was queued.
    pub(super) reply: Option<oneshot::Sender<Result<PromptAccepted>>>,
}

/// Something that has to wait for the store or the bridge.
pub(super) enum Chore {
    /// A turn is over.
    EndTurn { turn: String, reason: String, description: Option<String> },
    /// A queued prompt will never be sent.
    Unsent { job: Box<Job>, reason: &'static str, description: String },
    /// The agent is gone: what runs for it ends.
    EndTerminals,
    /// The session's servers are not needed any more.
    Release,
    /// The session's row changed.
    Save,
}

/// The session as the agent has it open.
#[derive(Clone)]
pub(super) struct OpenInAgent {
    pub(super) acp_id: String,
    /// What it was opened with.
    pub(super) handed: Vec<HandedServer>,
}

/// One session.
pub(super) struct Cell {
    pub(super) id: String,
    pub(super) deps: Arc<Deps>,
    /// What it does for its agent.
    pub(super) client: Client,
    inner: Mutex<Inner>,
    /// The actor has something to do.
    pub(super) wake: Notify,
    /// Counts changes, for whoever waits for one.
    changed: watch::Sender<u64>,
    mailbox: OnceLock<mpsc::Sender<Command>>,
}

/// The part behind the lock.
pub(super) struct Inner {
    pub(super) kept: Kept,
    pub(super) project_path: String,
    pub(super) state: State,
    pub(super) engine: Option<Engine>,
    pub(super) open: Option<OpenInAgent>,
    /// Its last engine ended by itself.
    pub(super) lost_engine: bool,
    /// The agent ended while it was asked to go on with the conversation, by this method: it is
    /// not asked so again before the session is open.
    pub(super) died_in: Option<&'static str>,
    /// What the agent replays of a conversation that it had before us, while it is opened.
    pub(super) replay: Option<Replay>,
    /// The agent has heard nothing of it yet: the system prompt goes first.
    pub(super) fresh: bool,
    pub(super) readiness: Vec<ServerReadiness>,
    pub(super) commands: Vec<Value>,
    pub(super) asks: BTreeMap<u64, OpenAsk>,
    /// How long one of them may be without an answer; as the last prompt said.
    pub(super) permission_timeout: Option<Duration>,
    pub(super) questions: Questions,
    /// Permission requests and questions so far.
    pub(super) asked: u64,
    pub(super) kinds: HashMap<String, String>,
    pub(super) offered: Offered,
    /// What of it everybody was told last.
    told_settings: RefCell<Option<SessionSettings>>,
    pub(super) capabilities: Option<PromptCapabilities>,
    pub(super) sign_in: Option<SignIn>,
    /// What became of the conversation when it was last opened.
    pub(super) context: Option<ContextOutcome>,
    /// The same, until a prompt has told it.
    pub(super) untold: Option<ContextOutcome>,
    /// The running turn's request.
    pub(super) sent: Option<SentRequest>,
    /// What was said in its engine, also after the engine's end.
    pub(super) wire: Option<(Arc<WireLog>, String)>,
    /// When the agent was last heard of, or the session was last used.
    pub(super) heard: Instant,
    /// When the agent last said something in it.
    pub(super) spoke: Instant,
    /// Tool calls of a turn that is over while the agent may still work at it.
    pub(super) late_calls: HashSet<String>,
    pub(super) quiet_since: Option<i64>,
    /// `None` until they were read from the store.
    pub(super) counters: Option<Counters>,
    pub(super) turn_row: Option<TurnRow>,
    /// What the running turn began with.
    pub(super) opening: Option<TurnOpening>,
    pub(super) queue: VecDeque<Job>,
    pub(super) chores: VecDeque<Chore>,
    /// A chore is being done.
    pub(super) doing: bool,
    /// When a cancelled turn is over whatever the agent does.
    pub(super) force_at: Option<Instant>,
    /// Ends with the next stop.
    pub(super) life: CancellationToken,
    /// Of the claimed prompt; ends with `life`, or with a cancel.
    pub(super) interrupt: CancellationToken,
    /// Interrupts the waiting of an opening that no prompt has asked for yet.
    pub(super) ahead: CancellationToken,
    pub(super) epoch: u64,
    /// What ended when a stop interrupted the opening.
    pub(super) given_up: GivenUp,
    pub(super) stopping: Option<watch::Sender<Option<SessionStopped>>>,
    pub(super) deleted: bool,
}

/// See [`Inner::given_up`].
#[derive(Debug, Default)]
pub(super) struct GivenUp {
    pub(super) engine_stopped: bool,
    pub(super) servers: Vec<String>,
    pub(super) ended: Vec<Ended>,
}

/// Numbers that go on where the store left off.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) turn: i64,
    pub(super) seq: i64,
}

impl Cell {
    pub(super) fn new(
        deps: Arc<Deps>,
        kept: Kept,
        project_path: String,
        counters: Option<Counters>,
    ) -> Self {
        Self {
            id: kept.id.clone(),
            deps,
            client: Client::default(),
            inner: Mutex::new(Inner {
                kept,
                project_path,
                state: State::closed(),
                engine: None,
                open: None,
                lost_engine: false,
                died_in: None,
                replay: None,
                fresh: true,
                readiness: Vec::new(),
                commands: Vec::new(),
                asks: BTreeMap::new(),
                questions: Questions::default(),
                permission_timeout: None,
                asked: 0,
                kinds: HashMap::new(),
                offered: Offered::default(),
                told_settings: RefCell::default(),
                capabilities: None,
                sign_in: None,
                context: None,
                untold: None,
                sent: None,
                wire: None,
                heard: Instant::now(),
                spoke: Instant::now(),
                late_calls: HashSet::new(),
                quiet_since: None,
                counters,
                turn_row: None,
                opening: None,
                queue: VecDeque::new(),
                chores: VecDeque::new(),
                doing: false,
                force_at: None,
                life: CancellationToken::new(),
                interrupt: CancellationToken::new(),
                ahead: CancellationToken::new(),
                epoch: 0,
                given_up: GivenUp::default(),
                stopping: None,
                deleted: false,
            }),
            wake: Notify::new(),
            changed: watch::Sender::new(0),
            mailbox: OnceLock::new(),
        }
    }

    /// A short lock: nothing waits and no other session is called under it.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The actor's mailbox; the actor starts with the first command.
    pub(super) fn mailbox(self: &Arc<Self>) -> &mpsc::Sender<Command> {
        self.mailbox.get_or_init(|| {
            let (sender, receiver) = mpsc::channel(16);
            let name = format!("session-{}", self.id);
            self.deps.scope.spawn(name, super::actor::run(self.clone(), receiver));
            sender
        })
    }

    /// Whether it ever had anything to do in this run.
    pub(super) fn has_actor(&self) -> bool {
        self.mailbox.get().is_some()
    }

    /// As it is now.
    pub(super) fn view(&self) -> SessionView {
        self.lock().view(&self.deps)
    }

    /// Tells everybody how it is now.
    pub(super) fn announce(&self, inner: &Inner) {
        let mut session = inner.view(&self.deps);
        let mut told = inner.told_settings.borrow_mut();
        if *told == session.settings {
            session.settings = None;
        } else {
            told.clone_from(&session.settings);
        }
        self.deps.events.publish(Happening::SessionChanged { session: Box::new(session) });
        self.changed.send_modify(|n| *n += 1);
    }

    /// Lets an event happen to it, does what can be done at once, and leaves the rest to the actor.
    pub(super) fn apply(&self, inner: &mut Inner, event: Event) {
        let why = match &event {
            Event::Cancel => "the turn was cancelled",
            Event::EngineGone(_) => "the agent ended",
            Event::Stopped => "the session was stopped",
            Event::OpeningFailed(_) => "the session could not be opened",
            _ => "the turn ended",
        };
        let before = inner.state.clone();
        let (after, effects) = before.clone().next(event);
        let changed = after != before;
        inner.state = after;
        if changed {
            inner.heard = Instant::now();
            inner.quiet_since = None;
            // Its alarms may be others now.
            self.wake.notify_one();
        }
        let mut turn_ends = false;
        for effect in effects {
            match effect {
                Effect::CancelAsks => {
                    self.cancel_asks(inner, why);
                    self.cancel_questions(inner, why);
                }
                Effect::SendCancel => {
                    if let (Some(engine), Some(open)) = (&inner.engine, &inner.open) {
                        engine.cancel(&open.acp_id);
                    }
                    inner.force_at = Some(Instant::now() + CANCEL_GRACE);
                    self.wake.notify_one();
                }
                Effect::EndTurn { turn, reason, description } => {
                    turn_ends = true;
                    inner.force_at = None;
                    self.chore(inner, Chore::EndTurn { turn, reason, description });
                }
                Effect::Release => self.chore(inner, Chore::Release),
            }
        }
        // The end of a turn is announced by the actor, once it is stored.
        if changed && !turn_ends {
            self.announce(inner);
        }
    }

    /// Leaves something to the actor.
    pub(super) fn chore(&self, inner: &mut Inner, chore: Chore) {
        inner.chores.push_back(chore);
        self.wake.notify_one();
    }

    /// Cancels the running turn, or the prompt that is on its way.
    pub(super) fn cancel(&self) {
        let mut inner = self.lock();
        // On its way it waits for servers, for the engine, or for an agent that does not read.
        inner.interrupt.cancel();
        self.apply(&mut inner, Event::Cancel);
    }

    /// Gantry ends: whatever it was doing is over.
    pub(super) fn quit(&self) {
        let mut inner = self.lock();
        inner.engine = None;
        inner.open = None;
        self.apply(&mut inner, Event::Stopped);
    }

    /// The agent answered a prompt.
    pub(super) fn replied(&self, turn: &str, answer: std::result::Result<Value, PeerError>) {
        let mut usage = None;
        let outcome = match answer {
            Ok(answer) => {
                usage = answer.get("usage").filter(|usage| usage.is_object()).cloned();
                let reason = answer.get("stopReason").and_then(Value::as_str);
                Outcome::Done(reason.unwrap_or("end_turn").to_owned())
            }
            // The engine's end says more than the end of the connection.
            Err(PeerError::Lost) => return,
            Err(error) => Outcome::Error(error.to_string()),
        };
        let mut inner = self.lock();
        if let Some(usage) = usage {
            self.note(&mut inner, Some(turn), &Note::Usage { usage });
        }
        self.apply(&mut inner, Event::Replied(turn.to_owned(), outcome));
    }

    /// The next thing that the actor has to do. [`Cell::chore_done`] ends it.
    pub(super) fn next_chore(&self) -> Option<Chore> {
        let mut inner = self.lock();
        let chore = inner.chores.pop_front();
        inner.doing = chore.is_some();
        chore
    }

    pub(super) fn chore_done(&self) {
        self.lock().doing = false;
        self.changed.send_modify(|n| *n += 1);
    }

    /// Waits until no turn runs and everything is stored; false when the deadline came first.
    pub(super) async fn settled(&self, deadline: Deadline) -> bool {
        let mut changed = self.changed.subscribe();
        let settled = async {
            loop {
                changed.borrow_and_update();
                {
                    let inner = self.lock();
                    if inner.state.is_free() && inner.chores.is_empty() && !inner.doing {
                        return;
                    }
                }
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        deadline.bound(settled).await.is_ok()
    }
}
