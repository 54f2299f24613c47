use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn at(now: Instant) -> Moment {
    Moment { now, dice: 1.0, start_limit: Duration::from_secs(60), patient: false }
}

/// Drives a life by hand.
struct Walk {
    life: Life,
    now: Instant,
    effects: Vec<Effect>,
}

impl Walk {
    fn new() -> Self {
        Self { life: Life::default(), now: Instant::now(), effects: Vec::new() }
    }

    fn tell(&mut self, event: Event) -> &State {
        let (life, effects) = next(self.life.clone(), event, at(self.now));
        self.life = life;
        self.effects = effects;
        &self.life.state
    }

    fn pass(&mut self, span: Duration) {
        self.now += span;
    }

    fn generation(&self) -> u64 {
        self.life.generation
    }

    fn start(&mut self) {
        self.tell(Event::Start);
        self.tell(Event::Launched { generation: self.generation() });
    }

    fn become_ready(&mut self) {
        self.start();
        self.tell(Event::Handshaken { generation: self.generation() });
        assert!(matches!(self.life.state, State::Ready { .. }));
    }

    fn lose(&mut self) -> &State {
        let generation = self.generation();
        self.tell(Event::Lost { generation, why: "it exited".into() });
        self.tell(Event::Ended { generation, detail: ": last words".into(), left: false })
    }

    /// Waits for the alarm.
    fn wait(&mut self) -> Duration {
        let alarm = self.life.alarm().expect("an alarm");
        let span = alarm.duration_since(self.now);
        self.now = alarm;
        self.tell(Event::Tick);
        span
    }

    fn deadline(&self) -> Deadline {
        Deadline::at(self.now + Duration::from_secs(5))
    }
}

#[test]
fn back_off_doubles_and_ends_in_failed_with_the_last_words() {
    let mut walk = Walk::new();
    walk.become_ready();
    for attempt in 1..=RESTARTS_MOST {
        assert!(matches!(walk.lose(), State::Restarting { .. }), "attempt {attempt}");
        assert_eq!(walk.wait(), BACKOFF_FIRST * 2_u32.pow(attempt - 1));
        let generation = walk.generation();
        assert_eq!(walk.effects, [Effect::Launch { generation }]);
        walk.tell(Event::Launched { generation });
        walk.tell(Event::Handshaken { generation });
    }
    assert_eq!(*walk.lose(), State::Failed { why: "it exited: last words".into() });
    assert_eq!(walk.life.restarts, RESTARTS_MOST + 1);
    // By hand it begins anew.
    walk.tell(Event::Start);
    assert!(matches!(walk.life.state, State::Starting { attempt: 0, .. }));
}

/// One that wants its user is not tried again and again, and starts at once when told to.
#[test]
fn what_wants_its_user_waits_for_them() {
    let mut walk = Walk::new();
    walk.start();
    let generation = walk.generation();
    walk.tell(Event::SignIn { generation: generation + 1 });
    assert!(matches!(walk.life.state, State::Starting { .. }), "of another generation");
    walk.tell(Event::SignIn { generation });
    // That its process has ended is no news.
    walk.tell(Event::Lost { generation, why: "it exited".into() });
    walk.tell(Event::Ended { generation, detail: ": last words".into(), left: false });
    assert_eq!(walk.life.state, State::WantsUser);
    assert_eq!((walk.life.alarm(), walk.life.restarts), (None, 0));
    walk.tell(Event::Start);
    assert!(matches!(walk.life.state, State::Starting { attempt: 0, .. }));
}

#[test]
fn what_was_never_ready_is_given_up_sooner() {
    let mut walk = Walk::new();
    walk.start();
    for _ in 0..FIRST_RESTARTS_MOST {
        assert!(matches!(walk.lose(), State::Restarting { .. }));
        walk.wait();
        walk.tell(Event::Launched { generation: walk.generation() });
    }
    assert!(matches!(walk.lose(), State::Failed { .. }));
}

/// A remote server that vanished is asked again and again, ever more rarely.
#[test]
fn a_patient_one_is_not_given_up_once_it_was_ready() {
    let (mut life, mut now) = (Life::default(), Instant::now());
    let mut tell = |life: &mut Life, now: Instant, event: Event| {
        let moment = Moment { patient: true, ..at(now) };
        *life = next(std::mem::take(life), event, moment).0;
    };
    let fail = |tell: &mut dyn FnMut(&mut Life, Instant, Event), life: &mut Life, now| {
        let generation = life.generation;
        tell(life, now, Event::Lost { generation, why: "gone".into() });
        tell(life, now, Event::Ended { generation, detail: String::new(), left: false });
    };
    tell(&mut life, now, Event::Start);
    tell(&mut life, now, Event::Launched { generation: 1 });
    tell(&mut life, now, Event::Handshaken { generation: 1 });
    let mut longest = Duration::ZERO;
    for _ in 0..50 {
        fail(&mut tell, &mut life, now);
        assert!(matches!(life.state, State::Restarting { .. }), "{:?}", life.state);
        let alarm = life.alarm().expect("an alarm");
        longest = longest.max(alarm.duration_since(now));
        now = alarm;
        tell(&mut life, now, Event::Tick);
        let generation = life.generation;
        tell(&mut life, now, Event::Launched { generation });
    }
    assert_eq!(longest, BACKOFF_LONGEST);
    // One that never was ready is given up like any other.
    let mut life = Life::default();
    tell(&mut life, now, Event::Start);
    for _ in 0..=FIRST_RESTARTS_MOST {
        let generation = life.generation;
        tell(&mut life, now, Event::Launched { generation });
        fail(&mut tell, &mut life, now);
        now = life.alarm().unwrap_or(now);
        tell(&mut life, now, Event::Tick);
    }
    assert!(matches!(life.state, State::Failed { .. }), "{:?}", life.state);
}

#[test]
fn attempts_are_forgotten_only_after_ready_has_lasted() {
    let mut walk = Walk::new();
    walk.become_ready();
    for (lasted, back_off) in [(0, 100), (29, 200), (1, 400), (30, 100), (2, 200)] {
        walk.pass(Duration::from_secs(lasted));
        walk.lose();
        assert_eq!(walk.wait(), Duration::from_millis(back_off), "after {lasted} s");
        let generation = walk.generation();
        walk.tell(Event::Launched { generation });
        walk.tell(Event::Handshaken { generation });
    }
}

#[test]
fn a_missing_command_fails_at_once() {
    let mut walk = Walk::new();
    walk.tell(Event::Start);
    let why = "`nope` was not found in /bin".to_owned();
    walk.tell(Event::LaunchFailed { generation: 1, why: why.clone(), fatal: true });
    assert_eq!(walk.life.state, State::Failed { why });
    assert_eq!(walk.life.restarts, 0);
    walk.tell(Event::Start);
    assert_eq!(walk.effects, [Effect::Launch { generation: 2 }]);
}

#[test]
fn a_silent_server_fails_at_its_limit_and_is_not_tried_again() {
    let mut walk = Walk::new();
    walk.tell(Event::Start);
    assert_eq!(walk.life.alarm(), None, "the limit counts from the launch");
    walk.pass(Duration::from_secs(100));
    walk.tell(Event::Launched { generation: 1 });
    assert_eq!(walk.wait(), Duration::from_secs(60));
    assert!(matches!(walk.effects[..], [Effect::End { generation: 1, .. }]));
    walk.tell(Event::Ended { generation: 1, detail: String::new(), left: false });
    let State::Failed { why } = &walk.life.state else { panic!("{:?}", walk.life.state) };
    assert!(why.contains("within 60 s") && why.contains("startTimeoutMs"), "{why}");
}

#[test]
fn two_missed_pings_restart_an_idle_server_and_no_busy_one() {
    let mut walk = Walk::new();
    walk.become_ready();
    for _ in 0..20 {
        walk.wait();
        assert_eq!(walk.effects, [Effect::Ping { generation: 1 }]);
        walk.tell(Event::Pong { generation: 1, answered: false, busy: true });
        assert!(matches!(walk.life.state, State::Ready { missed: 1.., .. }));
    }
    walk.wait();
    walk.tell(Event::Pong { generation: 1, answered: true, busy: false });
    assert!(matches!(walk.life.state, State::Ready { missed: 0, .. }));
    walk.wait();
    walk.tell(Event::Pong { generation: 1, answered: false, busy: false });
    assert!(matches!(walk.life.state, State::Ready { missed: 1, .. }));
    assert_eq!(walk.wait(), Duration::ZERO);
    walk.tell(Event::Pong { generation: 1, answered: false, busy: false });
    assert!(matches!(
        walk.life.state,
        State::Stopping { then: Then::Retry { .. }, cause: Cause::Failed, .. }
    ));
}

#[test]
fn a_replaced_one_ends_before_the_next_starts() {
    let mut walk = Walk::new();
    walk.become_ready();
    let deadline = walk.deadline();
    walk.tell(Event::Replace { deadline });
    assert_eq!(walk.effects, [Effect::End { generation: 1, cause: Cause::Restart, deadline }]);
    walk.tell(Event::Start);
    assert_eq!(walk.effects, []);
    walk.tell(Event::Ended { generation: 1, detail: String::new(), left: false });
    assert_eq!(walk.effects, [Effect::Launch { generation: 2 }]);
    // One that does not run stays so.
    walk.tell(Event::Stop { cause: Cause::Unused, deadline });
    walk.tell(Event::LaunchFailed { generation: 2, why: String::new(), fatal: true });
    walk.tell(Event::Replace { deadline });
    assert_eq!(walk.life.state, State::Stopped);
}

#[test]
fn an_earlier_deadline_shortens_an_ending() {
    let mut walk = Walk::new();
    walk.become_ready();
    let late = walk.deadline();
    let early = Deadline::at(walk.now + Duration::from_secs(1));
    walk.tell(Event::Stop { cause: Cause::Unused, deadline: late });
    walk.tell(Event::Close { deadline: early });
    let cause = Cause::Quit;
    assert_eq!(walk.effects, [Effect::End { generation: 1, cause, deadline: early }]);
    walk.tell(Event::Stop { cause, deadline: late });
    assert_eq!(walk.effects, [Effect::End { generation: 1, cause, deadline: early }]);
}

#[test]
fn what_could_not_be_ended_is_not_started_beside() {
    let mut walk = Walk::new();
    walk.become_ready();
    let deadline = walk.deadline();
    walk.tell(Event::Restart { deadline });
    walk.tell(Event::Ended { generation: 1, detail: String::new(), left: true });
    assert!(matches!(walk.life.state, State::Failed { .. }));
}

/// The world around a life: what was launched, what lives.
#[derive(Default)]
struct World {
    launching: Vec<u64>,
    /// Live processes, and whether their end was asked for.
    alive: BTreeMap<u64, bool>,
}

impl World {
    fn carry_out(&mut self, effects: Vec<Effect>) -> Result<(), TestCaseError> {
        for effect in effects {
            match effect {
                Effect::Launch { generation } => {
                    prop_assert!(self.launching.is_empty(), "two launches at once");
                    prop_assert!(self.alive.is_empty(), "launched beside a living process");
                    self.launching.push(generation);
                }
                Effect::End { generation, .. } => {
                    let asked = self.alive.get_mut(&generation);
                    prop_assert!(asked.is_some(), "the end of nothing");
                    asked.into_iter().for_each(|asked| *asked = true);
                }
                Effect::Ping { generation } => {
                    prop_assert!(self.alive.contains_key(&generation), "a ping to nothing");
                }
            }
        }
        Ok(())
    }
}

/// One step of a random walk.
#[derive(Clone, Debug)]
enum Step {
    Start,
    Restart,
    Replace,
    Stop,
    Launch {
        works: bool,
        fatal: bool,
    },
    Handshake,
    Crash,
    End {
        left: bool,
    },
    Pong {
        answered: bool,
        busy: bool,
    },
    /// Time passes, to the alarm or only a little.
    Wait {
        to_alarm: bool,
    },
    /// Something that an old generation says.
    Echo {
        back: u64,
        what: u8,
    },
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Start),
        2 => Just(Step::Restart),
        2 => Just(Step::Replace),
        3 => Just(Step::Stop),
        8 => (prop::bool::weighted(0.8), any::<bool>())
            .prop_map(|(works, fatal)| Step::Launch { works, fatal }),
        6 => Just(Step::Handshake),
        3 => Just(Step::Crash),
        6 => prop::bool::weighted(0.02).prop_map(|left| Step::End { left }),
        3 => (any::<bool>(), any::<bool>())
            .prop_map(|(answered, busy)| Step::Pong { answered, busy }),
        5 => any::<bool>().prop_map(|to_alarm| Step::Wait { to_alarm }),
        3 => (1..4_u64, 0..5_u8).prop_map(|(back, what)| Step::Echo { back, what }),
        1 => prop::bool::weighted(0.2).prop_map(|close| if close { Step::Close } else { Step::Start }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Exactly one live process in Starting, Ready and Stopping, none in the others.
    #[test]
    fn one_process_whatever_happens(steps in prop::collection::vec(step(), 1..120)) {
        let mut life = Life::default();
        let mut world = World::default();
        let mut now = Instant::now();
        let mut closed = false;
        for step in steps {
            let deadline = Deadline::at(now + Duration::from_secs(5));
            let event = match step {
                Step::Start => Some(Event::Start),
                Step::Restart => Some(Event::Restart { deadline }),
                Step::Replace => Some(Event::Replace { deadline }),
                Step::Stop => Some(Event::Stop { cause: Cause::Unused, deadline }),
                Step::Close => {
                    closed = true;
                    Some(Event::Close { deadline })
                }
                Step::Launch { works, fatal } => world.launching.pop().map(|generation| {
                    if works {
                        world.alive.insert(generation, false);
                        Event::Launched { generation }
                    } else {
                        Event::LaunchFailed { generation, why: "no".into(), fatal }
                    }
                }),
                Step::Handshake => {
                    world.alive.keys().next().map(|&generation| Event::Handshaken { generation })
                }
                Step::Crash => world
                    .alive
                    .keys()
                    .next()
                    .map(|&generation| Event::Lost { generation, why: "crash".into() }),
                Step::End { left } => {
                    let ending = world.alive.iter().find(|(_, asked)| **asked).map(|(g, _)| *g);
                    ending.map(|generation| {
                        world.alive.remove(&generation);
                        Event::Ended { generation, detail: String::new(), left }
                    })
                }
                Step::Pong { answered, busy } => world
                    .alive
                    .keys()
                    .next()
                    .map(|&generation| Event::Pong { generation, answered, busy }),
                Step::Wait { to_alarm } => {
                    match life.alarm().filter(|_| to_alarm) {
                        Some(alarm) => now = now.max(alarm),
                        None => now += Duration::from_millis(70),
                    }
                    Some(Event::Tick)
                }
                Step::Echo { back, what } => {
                    let generation = life.generation.saturating_sub(back);
                    Some(match what {
                        0 => Event::Lost { generation, why: "old".into() },
                        1 => Event::Handshaken { generation },
                        2 => Event::Ended { generation, detail: String::new(), left: false },
                        3 => Event::Pong { generation, answered: false, busy: false },
                        _ => Event::LaunchFailed { generation, why: "old".into(), fatal: true },
                    })
                }
            };
            let Some(event) = event else { continue };
            let (after, effects) = next(life, event, Moment { now, dice: 0.5, start_limit: Duration::from_secs(60), patient: false });
            life = after;
            world.carry_out(effects)?;
            let processes = world.alive.len() + world.launching.len();
            let expected = usize::from(life.process().is_some());
            prop_assert_eq!(processes, expected, "{:?}", life.state);
            if closed {
                let quiet = matches!(
                    life.state,
                    State::Stopped | State::Stopping { then: Then::Stopped, .. }
                );
                prop_assert!(quiet, "alive after the end: {:?}", life.state);
            }
        }
    }

    /// Whatever happened, a stop that is carried out leaves nothing, and nothing comes back.
    #[test]
    fn a_stop_is_final_until_somebody_asks(
        before in prop::collection::vec(step(), 0..40),
        late in 0..1300_u64,
    ) {
        let mut life = Life::default();
        let mut launching = None;
        let mut alive = None;
        let mut now = Instant::now();
        let tell = |event: Event, life: &mut Life, launching: &mut Option<u64>, now: Instant| {
            let (after, effects) = next(life.clone(), event, Moment { now, dice: 0.0, start_limit: Duration::from_secs(1), patient: false });
            *life = after;
            let mut end = None;
            for effect in effects {
                match effect {
                    Effect::Launch { generation } => *launching = Some(generation),
                    Effect::End { generation, .. } => end = Some(generation),
                    Effect::Ping { .. } => {}
                }
            }
            end
        };
        for step in before {
            let deadline = Deadline::at(now + Duration::from_secs(5));
            let event = match step {
                Step::Start | Step::Close => Event::Start,
                Step::Restart => Event::Restart { deadline },
                Step::Replace => Event::Replace { deadline },
                Step::Stop => Event::Stop { cause: Cause::Unused, deadline },
                Step::Launch { .. } => match launching.take() {
                    Some(generation) => {
                        alive = Some(generation);
                        Event::Launched { generation }
                    }
                    None => continue,
                },
                Step::Handshake => match alive {
                    Some(generation) => Event::Handshaken { generation },
                    None => continue,
                },
                Step::Crash => match alive {
                    Some(generation) => Event::Lost { generation, why: "crash".into() },
                    None => continue,
                },
                Step::Wait { .. } => {
                    now = life.alarm().unwrap_or(now).max(now);
                    Event::Tick
                }
                _ => continue,
            };
            if let Some(ending) = tell(event, &mut life, &mut launching, now) {
                tell(Event::Ended { generation: ending, detail: String::new(), left: false }, &mut life, &mut launching, now);
                alive = None;
            }
        }
        now += Duration::from_millis(late);
        let deadline = Deadline::at(now + Duration::from_secs(5));
        let mut ending = tell(Event::Stop { cause: Cause::Unused, deadline }, &mut life, &mut launching, now);
        if let Some(generation) = launching.take() {
            ending = tell(Event::Launched { generation }, &mut life, &mut launching, now).or(ending);
        }
        if let Some(generation) = ending {
            tell(Event::Ended { generation, detail: String::new(), left: false }, &mut life, &mut launching, now);
        }
        prop_assert_eq!(&life.state, &State::Stopped);
        for _ in 0..10 {
            now += Duration::from_secs(40);
            tell(Event::Tick, &mut life, &mut launching, now);
        }
        prop_assert_eq!(&life.state, &State::Stopped);
        prop_assert_eq!(launching, None);
    }
}
