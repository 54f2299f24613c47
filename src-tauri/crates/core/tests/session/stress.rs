//! Everything at once, in an order that a seed decides.

use crate::world::*;
use gantry_core::wire::*;
use std::{collections::HashMap, time::Duration};

/// A small generator of numbers, so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

async fn player(world: &World, session: &str, seed: u64) {
    let mut dice = Dice(seed);
    for _ in 0..60 {
        match dice.roll(12) {
            0..5 => {
                let words =
                    ["say hi", "hang", "ask edit", "count 50", "endturn", "askafter", "die 4"];
                let mut prompt = World::prompt_of(words[usize::try_from(dice.roll(7)).unwrap()]);
                prompt.queue = dice.roll(2) == 0;
                if dice.roll(4) == 0 {
                    let name = if dice.roll(2) == 0 { "a" } else { "b" };
                    prompt.servers = Some(Some(vec![world.server(name, 0.0)]));
                }
                // Refused, interrupted or accepted: it must come back.
                let asked = world.sessions.prompt(session, prompt);
                let answered = tokio::time::timeout(LIMIT, asked).await;
                assert!(answered.is_ok(), "seed {seed}: a prompt hangs: {:?}", world.view(session));
            }
            5..8 => world.sessions.cancel(session).await.unwrap(),
            8..10 => {
                if let Some(permission) = world.view(session).permissions.first() {
                    let _ = world.sessions.permit(session, &permission.request, "yes").await;
                }
            }
            10 => {
                world.stop(session).await;
            }
            _ => tokio::time::sleep(Duration::from_millis(dice.roll(40))).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_happens_every_turn_ends_once_and_nothing_is_left() {
    for seed in 1..=5 {
        let world = World::new().await;
        let mut sessions = Vec::new();
        for _ in 0..3 {
            sessions.push(world.create("http,close,resume", Vec::new()).await);
        }
        let players = sessions.iter().enumerate().flat_map(|(n, session)| {
            let world = &world;
            (0..2).map(move |m| player(world, session, seed * 100 + n as u64 * 10 + m))
        });
        futures::future::join_all(players).await;
        for session in &sessions {
            world.stop(session).await;
            world.until_state(session, SessionState::Stopped).await;
        }
        assert!(world.sessions.engines().is_empty());
        world.no_survivors().await;
        for session in &sessions {
            let ask = SessionHistory { session: session.clone(), before: None, limit: Some(200) };
            let history = world.sessions.history(ask).await.unwrap();
            for turn in &history.turns {
                assert!(turn.stop_reason.is_some(), "seed {seed}: {turn:?}");
            }
            let mut seen: HashMap<String, (usize, usize)> = HashMap::new();
            let mut reader = world.reader(session);
            let last = world.events.publish(Happening::TurnEnded {
                session: session.clone(),
                turn: "the last event".into(),
                reason: String::new(),
                description: None,
            });
            assert!(last > 0);
            loop {
                match reader.next().await {
                    Happening::TurnStarted { turn, .. } => seen.entry(turn).or_default().0 += 1,
                    Happening::TurnEnded { turn, .. } if turn == "the last event" => break,
                    Happening::TurnEnded { turn, .. } => seen.entry(turn).or_default().1 += 1,
                    _ => {}
                }
            }
            assert_eq!(seen.len(), history.turns.len(), "seed {seed}");
            for (turn, counts) in seen {
                assert_eq!(counts, (1, 1), "seed {seed}, turn {turn}: started, ended");
            }
        }
        world.end().await;
    }
}
