//! One connection: the handshake, then messages until it ends.

use super::{
    Disconnected, Shared, WeakShared,
    input::{self, server_input},
    modern,
    state::{Caller, Speech, Upstream},
};
use crate::{
    Envelope, Kind, Line, LineReader,
    catalogue::{self, Page, declares},
    frame::{self, METHOD_NOT_FOUND, UNSUPPORTED_VERSION},
    revision,
};
use bytes::BytesMut;
use serde_json::{json, value::RawValue};
use std::{pin::pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::{Notify, mpsc, oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

pub(super) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(super) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Small messages that were queued together are written together, up to this size.
const BATCH: usize = 64 * 1024;
/// What a server may list before it is taken for endless.
const PAGES: usize = 1000;
/// After the server stopped reading, how long its last words may take.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long a server may take to list its tools again after it said that they changed.
const RELIST: Duration = Duration::from_secs(30);
/// Before a list that could not be used is asked for again, doubled with each.
const AGAIN: Duration = Duration::from_secs(1);
/// How often it is doubled: to about a minute.
const AGAIN_DOUBLED: u32 = 6;
/// A change that is told so soon after a list may be the list's own doing.
const CALM: Duration = Duration::from_secs(1);
/// How many such changes in a row are followed at once.
const HASTY: u32 = 8;
/// Before the next list of a server that goes on so, doubled up to [`HASTE_DOUBLED`] times.
const HASTE: Duration = Duration::from_millis(50);
/// To about three seconds.
const HASTE_DOUBLED: u32 = 6;
/// How long a server that refused `initialize` may take to say that it is of the other era.
const DISCOVER: Duration = Duration::from_secs(5);
/// Noise lines that are logged per connection.
const LOGGED_NOISE: u32 = 20;

/// Ends the connection also when the future is dropped half-way.
struct Ending {
    shared: Arc<Shared>,
    generation: u64,
    why: String,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.shared.act(|state, effects| state.disconnected(self.generation, &self.why, effects));
    }
}

pub(super) fn begin(
    shared: &Arc<Shared>,
    generation: u64,
    reader: Reader,
    writer: Writer,
) -> impl Future<Output = Disconnected> + Send + 'static {
    let (input, outgoing, glut) = server_input();
    let (stop, refetch) = (CancellationToken::new(), Arc::new(Notify::new()));
    let upstream = Upstream {
        generation,
        ready: false,
        speech: Speech::Initialized { modern: None },
        listening: None,
        input,
        stop: stop.clone(),
        refetch: refetch.clone(),
    };
    let current = shared.act(|state, effects| state.connected(upstream, effects));
    let why = "its connection was given up".to_owned();
    let ending = current.then(|| Ending { shared: shared.clone(), generation, why });
    async move {
        let Some(mut ending) = ending else {
            let why = "a newer start had connected already".to_owned();
            return Disconnected { generation, why };
        };
        let shared = ending.shared.clone();
        let why =
            carry(&shared, generation, reader, (writer, outgoing), (&stop, &glut), &refetch).await;
        ending.why.clone_from(&why);
        drop(ending);
        Disconnected { generation, why }
    }
}

async fn carry(
    shared: &Arc<Shared>,
    generation: u64,
    reader: Reader,
    (writer, outgoing): (Writer, mpsc::UnboundedReceiver<input::Line>),
    (stop, glut): (&CancellationToken, &CancellationToken),
    refetch: &Notify,
) -> String {
    let mut reading = pin!(read(shared, generation, reader));
    let clock = clock(Arc::downgrade(shared), shared.due.subscribe());
    tokio::select! {
        biased;
        () = stop.cancelled() => "it was ended by its owner".to_owned(),
        () = glut.cancelled() => "does not read what it is told".to_owned(),
        why = &mut reading => why,
        why = write(writer, outgoing) => {
            // What it still says, an answer or the end of its output, is the better reason.
            tokio::time::timeout(LAST_WORDS, reading).await.unwrap_or(why)
        }
        why = keep(shared, generation, refetch) => why,
        () = clock => "its hub is gone".to_owned(),
    }
}

async fn read(shared: &Shared, generation: u64, reader: Reader) -> String {
    let server = &shared.options.name;
    let mut lines = LineReader::new(reader, shared.options.line_limit);
    let mut noise = 0;
    loop {
        match lines.next().await {
            Ok(Some(Line::Full(line))) => match Envelope::parse(line) {
                Ok(message) if shared.takes_aside(&message) => {}
                Ok(message) => {
                    let now = Instant::now();
                    shared.act(|state, effects| {
                        state.take_from_server(generation, message, now, effects);
                    });
                }
                Err(why) => {
                    noise += 1;
                    if noise <= LOGGED_NOISE {
                        let last = noise == LOGGED_NOISE;
                        tracing::info!(server, %why, last, "a line on its output was skipped");
                    }
                }
            },
            Ok(Some(Line::TooLong { length, head, tail })) => {
                let limit = shared.options.line_limit;
                let why = format!("sent a message of {length} bytes; the limit is {limit}");
                tracing::warn!(server, length, limit, "a message over the limit was dropped");
                if !shared.act(|state, effects| state.too_long(&head, &tail, &why, effects)) {
                    return why;
                }
            }
            Ok(None) => return "closed its output".to_owned(),
            Err(error) => return format!("its output could not be read: {error}"),
        }
    }
}

async fn write(mut writer: Writer, mut outgoing: mpsc::UnboundedReceiver<input::Line>) -> String {
    let failed = |error: std::io::Error| format!("does not take input any more: {error}");
    while let Some(first) = outgoing.recv().await {
        // Whoever is about to call too gets a word in: the server has less to do with ten
        // requests that come together than with ten that come one by one.
        if first.in_company {
            tokio::task::yield_now().await;
        }
        let mut batch = BytesMut::new();
        let mut large = None;
        let mut next = Some(first);
        while let Some(input::Line { bytes: line, .. }) = next.take() {
            if line.len() + batch.len() > BATCH {
                large = Some(line);
                break;
            }
            batch.extend_from_slice(&line);
            next = outgoing.try_recv().ok();
        }
        for part in [Some(batch.freeze()), large].into_iter().flatten() {
            if let Err(error) = writer.write_all(&part).await {
                return failed(error);
            }
        }
        if let Err(error) = writer.flush().await {
            return failed(error);
        }
    }
    "its hub is gone".to_owned()
}

/// The handshake, then the tools again whenever the server says that they changed.
/// Comes back only when the handshake failed.
async fn keep(shared: &Arc<Shared>, generation: u64, refetch: &Notify) -> String {
    let begun = Instant::now();
    if let Err(why) = handshake(shared, generation).await {
        return why;
    }
    let server = &shared.options.name;
    let (ms, tools) = (begun.elapsed().as_millis(), shared.act(|state, _| state.tool_count()));
    tracing::debug!(server, generation, tools, ms, "ready");
    let (mut faults, mut hasty) = (0, 0_u32);
    let mut listed = None::<Instant>;
    loop {
        // It says only once that they changed: what went wrong is tried again.
        let again = AGAIN * 2_u32.pow(faults.min(AGAIN_DOUBLED));
        if faults == 0 {
            refetch.notified().await;
            // One that says after every list that it changed would be listed without end.
            let is_hasty = listed.is_some_and(|listed| listed.elapsed() < CALM);
            hasty = if is_hasty { hasty.saturating_add(1) } else { 0 };
            if let Some(more) = hasty.checked_sub(HASTY) {
                tokio::time::sleep(HASTE * 2_u32.pow(more.min(HASTE_DOUBLED))).await;
            }
        } else if tokio::time::timeout(again, refetch.notified()).await.is_ok() {
            tracing::debug!(server, "its tools changed once more");
        }
        let list = relisted(shared, generation).await;
        listed = Some(Instant::now());
        match list {
            Ok(pages) => {
                faults = 0;
                shared.fault.send_if_modified(|fault| fault.take().is_some());
                shared.act(|state, effects| state.refetched(generation, pages, effects));
            }
            Err(why) => {
                faults += 1;
                tracing::warn!(server, why, faults, "its tools changed but could not be listed");
                let fault = Some((generation, why));
                shared
                    .fault
                    .send_if_modified(|known| std::mem::replace(known, fault.clone()) != fault);
            }
        }
    }
}

/// The tools after they changed.
///
/// # Errors
/// Why they cannot be known.
async fn relisted(shared: &Arc<Shared>, generation: u64) -> Result<Vec<Page>, String> {
    match tokio::time::timeout(RELIST, tool_pages(shared, generation)).await {
        Ok(Ok(Some(pages))) => Ok(pages),
        Ok(Ok(None)) => Err("does not know tools/list any more".to_owned()),
        Ok(Err(why)) => Err(why),
        Err(_) => Err(format!("did not answer tools/list within {} s", RELIST.as_secs())),
    }
}

async fn handshake(shared: &Arc<Shared>, generation: u64) -> Result<(), String> {
    // Everything a client of ours may be able to do: the server is initialised once, for all.
    let params = json!({
        "protocolVersion": revision::LATEST_WITH_INITIALIZE,
        "capabilities": {
            "roots": { "listChanged": true },
            "sampling": { "context": {}, "tools": {} },
            "elicitation": { "form": {}, "url": {} },
        },
        "clientInfo": { "name": "gantry", "title": "Gantry", "version": env!("CARGO_PKG_VERSION") },
    });
    let answered = ask(shared, generation, "initialize", Some(&params.to_string())).await?;
    // The specification would have `server/discover` go first. There are servers of the older
    // era that end when anything comes before `initialize`, and none of this that do (decision 0006).
    let discover = match answered.kind() {
        Kind::Error => Some(discover(shared, generation, &answered).await?),
        _ => None,
    };
    let initialize = match &discover {
        Some(discover) => modern::as_initialize(discover.get(), &shared.options.name),
        None => outcome(&answered, "initialize")?,
    };
    if frame::fields(initialize.get()).is_none() {
        return Err("answered initialize with something that is not an object".to_owned());
    }
    shared.act(|state, _| {
        if discover.is_some() {
            state.is_of_today(generation);
        } else {
            state.push(frame::notification("notifications/initialized", None));
        }
    });
    let pages =
        if declares(&initialize, "tools") { tool_pages(shared, generation).await? } else { None };
    let now = Instant::now();
    shared.fault.send_if_modified(|fault| fault.take().is_some());
    shared.act(|state, effects| {
        state.ready(generation, (initialize, discover), pages, now, effects);
    });
    Ok(())
}

/// What a server that refused `initialize` says to `server/discover`.
///
/// # Errors
/// Why it cannot be used at all.
async fn discover(
    shared: &Arc<Shared>,
    generation: u64,
    refused: &Envelope,
) -> Result<Box<RawValue>, String> {
    let Err(refused) = outcome(refused, "initialize") else {
        return Err("answered initialize wrongly".to_owned());
    };
    let params = format!(r#"{{"_meta":{}}}"#, crate::modern::own_meta());
    let asked = ask(shared, generation, "server/discover", Some(&params));
    let Ok(Ok(answered)) = tokio::time::timeout(DISCOVER, asked).await else {
        return Err(refused);
    };
    let discover = outcome(&answered, "server/discover").map_err(|why| {
        // A server of a revision that we do not know says which it speaks.
        let code = answered.outcome().and_then(|error| frame::field(error, "code"));
        let is_of_another = code == Some(&UNSUPPORTED_VERSION.to_string());
        if is_of_another { format!("{refused}; {why}") } else { refused.clone() }
    })?;
    if modern::offers(discover.get()) { Ok(discover) } else { Err(refused) }
}

/// Every page of `tools/list`; `None` from a server that does not know the method after all.
async fn tool_pages(shared: &Arc<Shared>, generation: u64) -> Result<Option<Vec<Page>>, String> {
    let mut pages: Vec<Page> = Vec::new();
    let mut cursor: Option<String> = None;
    while pages.len() < PAGES {
        let params = cursor.as_ref().map(|cursor| format!(r#"{{"cursor":{cursor}}}"#));
        let answered = ask(shared, generation, "tools/list", params.as_deref()).await?;
        let unknown = answered.kind() == Kind::Error
            && answered.outcome().and_then(|error| frame::field(error, "code"))
                == Some(&METHOD_NOT_FOUND.to_string());
        if unknown && pages.is_empty() {
            return Ok(None);
        }
        let page = outcome(&answered, "tools/list")?;
        if frame::fields(page.get()).is_none() {
            return Err("answered tools/list with something that is not an object".to_owned());
        }
        if let Some(fault) = catalogue::fault(&page) {
            return Err(format!("answered tools/list with a list that cannot be used: {fault}"));
        }
        let next = frame::field(page.get(), "nextCursor").filter(|next| *next != "\"\"");
        let next = next.map(str::to_owned);
        pages.push(page);
        if next.is_none() || next == cursor {
            return Ok(Some(pages));
        }
        cursor = next;
    }
    Err(format!("tools/list has more than {PAGES} pages"))
}

async fn ask(
    shared: &Arc<Shared>,
    generation: u64,
    method: &str,
    params: Option<&str>,
) -> Result<Envelope, String> {
    let asked = shared.act(|state, _| state.ask(Some(generation), method, params, false))?;
    answer(shared, asked).await
}

fn outcome(answered: &Envelope, method: &str) -> Result<Box<RawValue>, String> {
    let outcome = answered.outcome().unwrap_or("null");
    if answered.kind() == Kind::Error {
        let message = frame::field(outcome, "message").and_then(frame::string);
        let message = message.unwrap_or_else(|| outcome.to_owned());
        return Err(format!("answered {method} with an error: {message}"));
    }
    serde_json::from_str(outcome).map_err(|error| format!("answered {method} wrongly: {error}"))
}

/// Tells the server when nobody waits any more for one of our own requests.
struct Waiting<'a> {
    shared: &'a Arc<Shared>,
    id: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.act(|state, _| state.abandon(self.id, "no longer needed"));
    }
}

/// The answer to a request of our own. Dropping this cancels the request.
pub(super) async fn answer(
    shared: &Arc<Shared>,
    (id, receiver): (u64, oneshot::Receiver<Envelope>),
) -> Result<Envelope, String> {
    let _waiting = Waiting { shared, id };
    receiver.await.map_err(|_| shared.act(|state, _| state.why_not_ready()))
}

pub(super) async fn clock(hub: WeakShared, mut due: watch::Receiver<Option<Instant>>) {
    loop {
        let next = *due.borrow_and_update();
        let over = async {
            match next {
                Some(next) => tokio::time::sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // The sender lives in the hub.
            changed = due.changed() => if changed.is_err() { return },
            () = over => match hub.upgrade() {
                Some(shared) => shared.ring(),
                None => return,
            },
        }
    }
}

impl super::State {
    /// Finds the call that a message over the limit would have answered and fails it;
    /// `false` when it cannot be told which one.
    fn too_long(
        &mut self,
        head: &[u8],
        tail: &[u8],
        why: &str,
        effects: &mut super::Effects,
    ) -> bool {
        let ends = [String::from_utf8_lossy(head), String::from_utf8_lossy(tail)];
        let named = |id: &u64| {
            let id = id.to_string();
            ends.iter().any(|end| {
                end.match_indices("\"id\"").any(|(at, key)| {
                    let rest = end[at + key.len()..].trim_start_matches([' ', ':', '"']);
                    rest.strip_prefix(id.as_str())
                        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
                })
            })
        };
        let found = self.calls.keys().copied().find(named);
        let Some((_, call)) = found.and_then(|id| self.calls.remove_entry(&id)) else {
            return false;
        };
        match call.caller {
            Caller::Client { key, id } => {
                if let Some(client) = self.clients.get_mut(&key) {
                    client.calls.remove(&id);
                }
                let why = format!("the server `{}` {why}", self.name);
                let line = frame::error(&id, frame::INTERNAL_ERROR, &why, None).freeze();
                self.deliver(key, line, Some(id), true, effects);
            }
            Caller::Own(waiting) => {
                let line = frame::error("0", frame::INTERNAL_ERROR, why, None).freeze();
                if let Ok(error) = Envelope::parse(line) {
                    // Who waited may have given up.
                    let _ = waiting.send(error);
                }
            }
            Caller::Probe | Caller::Listen => {}
        }
        true
    }
}
