//! Random interleavings of everything that callers can do, over real actors under paused time.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// Session, servers: `None` the saved ones.
    Lease(u8, Option<Vec<(u8, u8)>>),
    Release(u8),
    /// Name, script, persistent, enabled.
    Configure(Vec<(u8, u8, bool, bool)>),
    Restart(u8),
    Try(u8),
    Call(u8),
    Crash(u8),
    Wait(u16),
}

const SCRIPTS: [&str; 5] = ["mark=a", "mark=b delay=300", "mark=c slow-end=700", "dies", "missing"];

fn step() -> impl Strategy<Value = Step> {
    let server = || (0..3_u8, 0..15_u8);
    let saved = (0..3_u8, 0..15_u8, any::<bool>(), prop::bool::weighted(0.8));
    prop_oneof![
        4 => (0..4_u8, prop::option::of(prop::collection::vec(server(), 0..3)))
            .prop_map(|(session, servers)| Step::Lease(session, servers)),
        3 => (0..4_u8).prop_map(Step::Release),
        3 => prop::collection::vec(saved, 0..4).prop_map(Step::Configure),
        1 => (0..3_u8).prop_map(Step::Restart),
        1 => (0..3_u8).prop_map(Step::Try),
        1 => (0..3_u8).prop_map(Step::Call),
        2 => (0..3_u8).prop_map(Step::Crash),
        4 => (0..1500_u16).prop_map(Step::Wait),
    ]
}

/// A server by its numbers: how it behaves, and (beyond the scripts) on other terms or remote.
fn numbered(name: u8, number: u8, more: Value) -> ServerSpec {
    let (script, kind) = (usize::from(number) % SCRIPTS.len(), usize::from(number) / SCRIPTS.len());
    let mut spec = match kind {
        2 => far(&named(name), SCRIPTS[script], more),
        _ => spec_with(&named(name), SCRIPTS[script], more),
    };
    if kind == 1 {
        spec.config.deny_tools = vec!["other".into()];
    }
    spec
}

fn script_of(config: &ServerConfig) -> String {
    let fragment = || Some(config.url.as_ref()?.split_once('#')?.1.to_owned());
    config.args.first().cloned().or_else(fragment).unwrap_or_default()
}

fn named(name: u8) -> String {
    format!("n{name}")
}

/// Carries a step out in the background, so that steps overlap.
fn carry_out(fixture: &Fixture, step: Step) {
    let (bridge, world) = (fixture.bridge.clone(), fixture.world.clone());
    let work = async move {
        match step {
            Step::Lease(session, servers) => {
                let servers = servers.map(|servers| {
                    servers
                        .into_iter()
                        .map(|(name, number)| numbered(name, number, json!({})))
                        .collect()
                });
                bridge.lease(&format!("s{session}"), servers).await;
                bridge.ready(&format!("s{session}"), Deadline::after(Duration::from_secs(1))).await;
                bridge.handover(&format!("s{session}"), session.is_multiple_of(2));
            }
            Step::Release(session) => drop(bridge.release(&format!("s{session}"), soon()).await),
            Step::Configure(saved) => {
                let saved = saved
                    .into_iter()
                    .map(|(name, script, persistent, enabled)| {
                        let more = json!({ "persistent": persistent, "enabled": enabled });
                        numbered(name, script, more)
                    })
                    .collect();
                bridge.configure(saved).await;
            }
            Step::Restart(name) => drop(bridge.restart(&named(name), soon()).await),
            Step::Try(name) => bridge.try_out(&named(name)).await,
            Step::Call(name) => drop(bridge.call(&named(name), "who", Value::Null).await),
            Step::Crash(name) => world.crash(&named(name)),
            Step::Wait(_) => {}
        }
    };
    fixture.scope.spawn("step", work);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(150), ..ProptestConfig::default() })]

    /// Never two processes for one slot, the wanted ones run in the end, and after the
    /// end there are none.
    #[test]
    fn wanted_and_actual_agree(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async move {
            let fixture = Fixture::new();
            for step in steps {
                match step {
                    Step::Wait(ms) => tokio::time::sleep(Duration::from_millis(ms.into())).await,
                    step => {
                        carry_out(&fixture, step);
                        tokio::task::yield_now().await;
                    }
                }
            }
            // Long enough for every back-off, ending and try.
            tokio::time::sleep(Duration::from_secs(180)).await;
            let (needed, running): (Vec<_>, usize) = {
                let registry = fixture.bridge.shared.registry();
                let needed = registry
                    .slots
                    .values()
                    .filter(|slot| slot.is_needed())
                    .map(|slot| (slot.name.clone(), slot.condition(), script_of(&slot.config)))
                    .collect();
                let idle = registry.slots.values().filter(|slot| !slot.is_needed());
                for slot in idle {
                    assert_eq!(slot.condition(), facts::Condition::Stopped, "{}", slot.name);
                    assert_eq!(slot.place, registry::Place::Saved, "{} is left over", slot.name);
                }
                (needed, fixture.world.alive().len())
            };
            for (name, condition, script) in &needed {
                let fails = script == "dies" || script == "missing";
                assert_eq!(condition.has_failed(), fails, "{name}: {condition:?}, {script}");
                assert_eq!(condition.is_ready(), !fails, "{name}: {condition:?}, {script}");
            }
            let working = needed.iter().filter(|(_, condition, _)| condition.is_ready()).count();
            assert_eq!(running, working, "{needed:?} {:?}", fixture.world.alive());
            fixture.close().await;
        });
    }
}
