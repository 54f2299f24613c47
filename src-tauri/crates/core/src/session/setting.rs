//! Sets mode, model and options in the agent.

use super::{
    actor::save,
    cell::Cell,
    offered::{Setting, Way},
};
use crate::{Error, Result, engine::Engine};
use gantry_acp::PeerError;
use gantry_supervisor::Deadline;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// How long an agent may take to set something.
const LIMIT: Duration = Duration::from_secs(30);

/// Sets something now, when the session is open, and whenever it is opened again.
pub(super) async fn set(cell: &Arc<Cell>, setting: Setting) -> Result<()> {
    loop {
        let (way, target) = {
            let inner = cell.lock();
            let open = inner.open.as_ref().map(|open| open.acp_id.clone());
            (inner.offered.way(&setting), inner.engine.clone().zip(open))
        };
        let Some((engine, acp_id)) = target else {
            // What another agent will offer is not known; what this one offered is.
            let mut inner = cell.lock();
            if inner.open.is_some() {
                // Opened in between.
                continue;
            }
            if inner.offered.is_known() {
                inner.offered.done(&way?, &json!({}));
            }
            inner.kept.chosen.remember(setting);
            cell.announce(&inner);
            break;
        };
        let way = way?;
        let answer = tell(&engine, &acp_id, &way).await.map_err(|error| {
            Error::upstream(format!("the agent did not take the setting: {error}"))
                .with_detail(error.to_value())
        })?;
        let mut inner = cell.lock();
        if inner.open.as_ref().is_some_and(|open| open.acp_id == acp_id) {
            inner.offered.done(&way, &answer);
        }
        inner.kept.chosen.remember(setting);
        cell.announce(&inner);
        break;
    }
    save(cell).await;
    Ok(())
}

/// Chooses again what the user chose, in a session that was just opened.
pub(super) async fn choose_again(cell: &Arc<Cell>, engine: &Engine, acp_id: &str) {
    let settings = cell.lock().kept.chosen.settings();
    for setting in settings {
        let way = {
            let inner = cell.lock();
            let Ok(way) = inner.offered.way(&setting) else { continue };
            if inner.offered.is_set(&way) {
                continue;
            }
            way
        };
        match tell(engine, acp_id, &way).await {
            Ok(answer) => cell.lock().offered.done(&way, &answer),
            Err(error) => {
                tracing::warn!(session = cell.id, %error, "the agent did not take a setting again");
            }
        }
    }
}

async fn tell(engine: &Engine, acp_id: &str, way: &Way) -> std::result::Result<Value, PeerError> {
    let peer = engine.peer()?;
    let told = async {
        match way {
            Way::Mode(id) => peer.set_mode(acp_id, id).await.map(|()| json!({})),
            Way::Model(id) => peer.set_model(acp_id, id).await.map(|()| json!({})),
            Way::Option(id, value) => peer.set_option(acp_id, id, value).await,
        }
    };
    Deadline::after(LIMIT).bound(told).await.unwrap_or_else(|_| {
        Err(PeerError::Nonsense {
            method: "the setting".to_owned(),
            why: format!("it did not come within {} s", LIMIT.as_secs()),
        })
    })
}
