//! Where an engine is in its life: one pure function.

/// Where an engine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EngineState {
    /// Its process starts, or has not answered `initialize` yet.
    Starting,
    /// Takes sessions.
    Ready,
    /// Is being ended.
    Stopping,
    /// Ended as asked.
    Stopped,
    /// Did not start, or ended by itself.
    Failed {
        /// For people: what happened, with the last lines of its standard error.
        why: String,
    },
}

/// What happens to an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EngineEvent {
    /// It answered `initialize`.
    Initialized,
    /// It could not be started, or it ended.
    Ended {
        /// For people.
        why: String,
    },
    /// Somebody wants it to end.
    StopAsked,
    /// Its process tree has ended after a stop.
    TreeEnded,
}

impl EngineState {
    /// The state after `event`. Final states stay.
    pub(crate) fn next(self, event: EngineEvent) -> Self {
        match (self, event) {
            (Self::Starting, EngineEvent::Initialized) => Self::Ready,
            (Self::Starting | Self::Ready, EngineEvent::Ended { why }) => Self::Failed { why },
            (Self::Starting | Self::Ready, EngineEvent::StopAsked) => Self::Stopping,
            // An end while stopping is the end that was asked for.
            (Self::Stopping, EngineEvent::TreeEnded | EngineEvent::Ended { .. }) => Self::Stopped,
            (state, _) => state,
        }
    }

    /// Whether nothing changes any more.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Stopped | Self::Failed { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event() -> impl Strategy<Value = EngineEvent> {
        prop_oneof![
            Just(EngineEvent::Initialized),
            Just(EngineEvent::Ended { why: "x".into() }),
            Just(EngineEvent::StopAsked),
            Just(EngineEvent::TreeEnded),
        ]
    }

    proptest! {
        #[test]
        fn a_final_state_stays_and_a_stopping_engine_is_never_ready_again(
            events in prop::collection::vec(event(), 0..20)
        ) {
            let mut state = EngineState::Starting;
            let mut stop_asked = false;
            for event in events {
                let before = state.clone();
                stop_asked |= event == EngineEvent::StopAsked && !before.is_final();
                state = state.next(event);
                if before.is_final() {
                    prop_assert_eq!(&state, &before);
                }
                if stop_asked {
                    prop_assert!(!matches!(state, EngineState::Ready | EngineState::Starting));
                    let failed = matches!(state, EngineState::Failed { .. });
                    prop_assert!(!failed);
                }
            }
        }
    }
}
