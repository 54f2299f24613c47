//! Signing in to a remote server, and out of it.
//!
//! The sign-in itself is a program of ours (`gantry mcp --sign-in`), as the carrying of a remote
//! server is one: it finds the page, waits for the browser and writes the tokens down. Here is
//! who waits for it, and what follows from it for the servers that it is about.

use super::{
    Bridge,
    handover::CONFIG_VARIABLE,
    leases,
    next::END_SPAN,
    process::{Started, through_gantry},
    references,
    registry::{Place, Registry, Shared, Slot, SlotId},
    sign_ins::{self, SIGN_IN_LIMIT, SIGN_IN_OVER, SIGN_IN_VARIABLE, Standing},
};
use crate::{
    Error, Result,
    events::now,
    wire::{ServerConfig, ServerSignIn, ServerSignInState, SignInBegun},
};
use gantry_mcp::{Line, LineReader};
use gantry_supervisor::{Cause, Deadline, Launch, Role};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::oneshot, time::timeout};
use tokio_util::sync::CancellationToken;

/// What is said of a server that waits for its user.
pub(super) const NEEDED: &str = "it needs you to sign in";
/// How long it may take until the page is known.
const FOUND: Duration = Duration::from_secs(50);
/// The longest line that the program may say, bytes.
const LINE: usize = 64 * 1024;
/// What the program's warden waits between TERM and KILL when it acts on its own.
const GRACE: Duration = Duration::from_secs(1);

/// A sign-in that was begun, or how the last one failed.
#[derive(Default)]
pub(super) struct Attempt {
    number: u64,
    /// Page and end, once known.
    begun: Option<SignInBegun>,
    /// While it goes on.
    cancel: Option<CancellationToken>,
    error: Option<String>,
}

/// How it stands with the sign-in of a slot.
pub(super) fn view(registry: &Registry, slot: &Slot) -> Option<ServerSignIn> {
    let attempt = slot.sign_in_file.as_ref().and_then(|file| registry.sign_ins.get(file));
    let waits = attempt.filter(|attempt| attempt.cancel.is_some());
    let state = match (waits, slot.standing) {
        (Some(_), _) => ServerSignInState::Waiting,
        (None, Standing::None) => return None,
        (None, Standing::Needed) => ServerSignInState::Needed,
        (None, Standing::SignedIn) => ServerSignInState::SignedIn,
    };
    Some(ServerSignIn {
        state,
        until: waits.and_then(|attempt| attempt.begun.as_ref()).map(|begun| begun.until),
        error: attempt.and_then(|attempt| attempt.error.clone()),
    })
}

impl Bridge {
    /// Begins a sign-in; one that was begun already is the same one.
    ///
    /// # Errors
    /// Not found; invalid where there is nothing to sign in to; failed with the reason.
    pub async fn sign_in(&self, name: &str) -> Result<SignInBegun> {
        let (config, file, attempt, cancel) = {
            let mut registry = self.shared.registry();
            if registry.closed {
                return Err(Error::shutting_down());
            }
            let slot = registry.slot_of(name).ok_or_else(|| leases::missing(name))?;
            let (config, file) = (slot.config.clone(), slot.sign_in_file.clone());
            let file = file.ok_or_else(|| nothing_to_sign_in(name))?;
            let attempt = registry.sign_ins.entry(file.clone()).or_default();
            if let Some(begun) = attempt.begun.clone().filter(|_| attempt.cancel.is_some()) {
                return Ok(begun);
            }
            if attempt.cancel.is_some() {
                return Err(Error::busy(format!("a sign-in to `{name}` is just being begun")));
            }
            let cancel = CancellationToken::new();
            attempt.number += 1;
            attempt.error = None;
            attempt.cancel = Some(cancel.clone());
            let number = attempt.number;
            (config, file, number, cancel)
        };
        self.shared.announce_all(&file);
        let (told, begun) = oneshot::channel();
        let work = Work { name: name.to_owned(), config, file, attempt, cancel };
        let shared = self.shared.clone();
        self.shared.scope.spawn(format!("sign-in to {name}"), shared.sign_in(work, told));
        match begun.await {
            Ok(begun) => begun,
            Err(_) => Err(Error::shutting_down()),
        }
    }

    /// Gives up a sign-in that was begun; none is none.
    ///
    /// # Errors
    /// Not found.
    pub fn cancel_sign_in(&self, name: &str) -> Result<()> {
        let registry = self.shared.registry();
        let slot = registry.slot_of(name).ok_or_else(|| leases::missing(name))?;
        let attempt = slot.sign_in_file.as_ref().and_then(|file| registry.sign_ins.get(file));
        if let Some(cancel) = attempt.and_then(|attempt| attempt.cancel.as_ref()) {
            cancel.cancel();
        }
        Ok(())
    }

    /// Forgets a sign-in, and starts the servers that run with it anew.
    ///
    /// # Errors
    /// Not found; failed when the file cannot be removed.
    pub async fn sign_out(&self, name: &str, deadline: Deadline) -> Result<()> {
        let (file, restarts) = {
            let mut registry = self.shared.registry();
            let slot = registry.slot_of(name).ok_or_else(|| leases::missing(name))?;
            let file = slot.sign_in_file.clone().ok_or_else(|| nothing_to_sign_in(name))?;
            if let Some(attempt) = registry.sign_ins.remove(&file)
                && let Some(cancel) = attempt.cancel
            {
                cancel.cancel();
            }
            forget(&file)?;
            let mut restarts = Vec::new();
            for slot in of_file(&mut registry, &file) {
                slot.standing = Standing::None;
                if slot.is_needed() {
                    restarts.push(slot.restart(deadline));
                }
            }
            (file, restarts)
        };
        let _ = deadline.bound(futures::future::join_all(restarts)).await;
        // What was just renewing the token may have written it down once more.
        if sign_ins::standing(Some(&file)) == Standing::SignedIn {
            forget(&file)?;
        }
        self.shared.announce_all(&file);
        Ok(())
    }
}

fn forget(file: &Path) -> Result<()> {
    sign_ins::forget(file)
        .map_err(|error| Error::failed(format!("the sign-in cannot be forgotten: {error}")))
}

fn nothing_to_sign_in(name: &str) -> Error {
    Error::invalid(format!(
        "there is nothing to sign in to at `{name}`: it is no remote server, or has an \
         authorization of its own in its configuration"
    ))
}

fn of_file<'a>(registry: &'a mut Registry, file: &'a Path) -> impl Iterator<Item = &'a mut Slot> {
    registry.slots.values_mut().filter(move |slot| slot.sign_in_file.as_deref() == Some(file))
}

/// One sign-in.
struct Work {
    name: String,
    config: ServerConfig,
    file: PathBuf,
    attempt: u64,
    cancel: CancellationToken,
}

type Told = oneshot::Sender<Result<SignInBegun>>;

impl Shared {
    /// Notes how it stands with a slot's sign-in, for all that share it.
    pub fn note_standing(&self, id: SlotId, standing: Standing) {
        let file = {
            let mut registry = self.registry();
            let Some(slot) = registry.slots.get_mut(&id) else { return };
            let Some(file) = slot.sign_in_file.clone() else { return };
            for slot in of_file(&mut registry, &file) {
                slot.standing = standing;
            }
            file
        };
        self.announce_all(&file);
    }

    fn announce_all(&self, file: &Path) {
        let registry = self.registry();
        let of_it = |slot: &&Slot| slot.sign_in_file.as_deref() == Some(file);
        for id in registry.slots.values().filter(of_it).map(|slot| slot.id) {
            self.announce(&registry, id);
        }
    }

    /// Forgets the sign-ins of configurations that no saved server has any more. A session that
    /// still runs with one has to sign in anew when its token is over.
    pub fn forget_unused(&self, registry: &mut Registry, before: &[super::ServerSpec]) {
        let data_dir = &self.parts.data_dir;
        let files = before.iter().filter_map(|spec| sign_ins::file_of(data_dir, &spec.config));
        for file in files {
            let is_kept = |config: &ServerConfig| {
                sign_ins::file_of(data_dir, config).is_some_and(|other| other == file)
            };
            let saved = registry.saved.iter().any(|spec| is_kept(&spec.config));
            if saved {
                continue;
            }
            if let Some(cancel) = registry.sign_ins.remove(&file).and_then(|one| one.cancel) {
                cancel.cancel();
            }
            if let Err(error) = sign_ins::forget(&file) {
                tracing::warn!(%error, "the sign-in of a removed server cannot be forgotten");
            }
        }
    }

    async fn sign_in(self: Arc<Self>, work: Work, told: Told) {
        let mut told = Some(told);
        let done = self.run_sign_in(&work, &mut told).await;
        let tried = {
            let mut registry = self.registry();
            let attempt = registry.sign_ins.get_mut(&work.file);
            // Signed out, removed, or begun anew meanwhile.
            let Some(attempt) = attempt.filter(|attempt| attempt.number == work.attempt) else {
                return;
            };
            attempt.cancel = None;
            attempt.begun = None;
            attempt.error = done.as_ref().err().cloned();
            if done.is_ok() { signed_in(&mut registry, &work.file) } else { Vec::new() }
        };
        for id in tried {
            self.linger(id);
        }
        tracing::info!(server = work.name, ok = done.is_ok(), "sign-in over");
        self.announce_all(&work.file);
        if let (Some(told), Err(why)) = (told, done) {
            let why = format!("the sign-in to `{}` did not begin: {why}", work.name);
            let _ = told.send(Err(Error::upstream(why)));
        }
    }

    async fn run_sign_in(
        self: &Arc<Self>,
        work: &Work,
        told: &mut Option<Told>,
    ) -> std::result::Result<(), String> {
        let launch = self.sign_in_program(work)?;
        let started = self.launcher.launch(launch).await.map_err(|error| error.to_string())?;
        let Started { tree, stdin, stdout, .. } = started;
        let mut lines = LineReader::new(stdout, LINE);
        let talk = async {
            let page = timeout(FOUND, line(&mut lines)).await;
            let said = page.map_err(|_| "it does not say where to sign in".to_owned())??;
            let url = said.get("url").and_then(Value::as_str).ok_or_else(|| failure(&said))?;
            let millis = i64::try_from(SIGN_IN_LIMIT.as_millis()).unwrap_or(i64::MAX);
            let begun = SignInBegun { url: url.to_owned(), until: now() + millis };
            if let Some(attempt) = self.registry().sign_ins.get_mut(&work.file) {
                attempt.begun = Some(begun.clone());
            }
            self.announce_all(&work.file);
            if let Some(told) = told.take() {
                let _ = told.send(Ok(begun));
            }
            // The program itself ends a little later.
            let end = timeout(SIGN_IN_LIMIT, line(&mut lines)).await;
            let said = end.map_err(|_| SIGN_IN_OVER.to_owned())??;
            if said.get("done").is_some() { Ok(()) } else { Err(failure(&said)) }
        };
        let done = tokio::select! {
            done = talk => done,
            () = work.cancel.cancelled() => Err("it was given up".to_owned()),
            () = self.scope.cancelled() => Err("Gantry ends".to_owned()),
        };
        drop(stdin);
        tree.stop(Cause::Unused, Deadline::after(END_SPAN)).await;
        done
    }

    fn sign_in_program(&self, work: &Work) -> std::result::Result<Launch, String> {
        let full = references::resolved(&work.config, &references::from_environment)?;
        let data_dir = &self.parts.data_dir;
        let config = through_gantry(&work.name, &full);
        Ok(Launch {
            name: format!("sign-in to {}", work.name),
            role: Role::Own,
            program: self.parts.gantry.as_os_str().to_owned(),
            args: ["mcp", "--sign-in"].map(Into::into).into(),
            env: vec![
                (CONFIG_VARIABLE.into(), config.into()),
                (SIGN_IN_VARIABLE.into(), work.file.clone().into_os_string()),
            ],
            cwd: Some(data_dir.clone()),
            grace: GRACE,
        })
    }
}

/// Starts what waited for it; what runs sees the new token by itself. Returns those that are only
/// tried, and end again when nobody needs them.
fn signed_in(registry: &mut Registry, file: &Path) -> Vec<SlotId> {
    let mut tried = Vec::new();
    for slot in of_file(registry, file) {
        slot.standing = Standing::SignedIn;
        if !slot.condition().has_failed() || !slot.config.enabled {
            continue;
        }
        if !slot.is_needed() && slot.place == Place::Saved {
            slot.tried = Some(leases::new_look());
            tried.push(slot.id);
        }
        if slot.is_needed() {
            drop(slot.start(Vec::new()));
        }
    }
    tried
}

async fn line(
    lines: &mut LineReader<Box<dyn tokio::io::AsyncRead + Send + Unpin>>,
) -> std::result::Result<Value, String> {
    match lines.next().await {
        Ok(Some(Line::Full(line))) => {
            serde_json::from_slice(&line).map_err(|_| "its program said nonsense".to_owned())
        }
        _ => Err("its program ended".to_owned()),
    }
}

fn failure(said: &Value) -> String {
    said.get("error").and_then(Value::as_str).unwrap_or("it does not say why").to_owned()
}
