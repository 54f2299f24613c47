//! The tools of the recall server.

use super::time;
use futures::FutureExt;
use gantry_store::{Filter, MOST_HITS, Presence, ReadError, Reader, StoreError};
use gantry_supervisor::Scope;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    handler::server::{tool::ToolCallContext, wrapper::Parameters},
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        ServerCapabilities, ServerConfig,
    },
    schemars,
    service::RequestContext,
    tool, tool_handler, tool_router,
};
use serde::Deserialize;
use serde_json::json;
use std::{
    panic::AssertUnwindSafe,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Hits without a `limit`.
const HITS: u32 = 10;
/// Turns that `get` adds on one side at most.
const MOST_AROUND: u32 = 20;
/// The longest that one look into the database may take.
const LONGEST_LOOK: Duration = Duration::from_secs(20);
/// Longest text of one side of a turn in an answer, and of all together, in bytes.
const LONGEST_TEXT: usize = 16_000;
const LONGEST_ANSWER: usize = 96_000;

/// The server. Clones read the same database.
#[derive(Clone, Debug)]
pub(super) struct Recall {
    reader: Reader,
    scope: Scope,
}

/// Who said it.
#[derive(Clone, Copy, Debug, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Role {
    /// The user's prompts.
    User,
    /// The agents' answers.
    Agent,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct Search {
    /// Words that must all occur (parts of words count). "a phrase" in quotation
    /// marks, `a OR b`, and `-word` to exclude are understood.
    query: String,
    /// Only sessions of this project: its folder, id or name.
    project: Option<String>,
    /// Only what this side said.
    role: Option<Role>,
    /// Only what was said since then: a date (2026-11-30), a time
    /// (2026-11-30T18:00:00Z) or an age (90m, 24h, 7d, 2w).
    since: Option<String>,
    /// How many hits at most (default 10, at most 100).
    limit: Option<u32>,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct Get {
    /// The session's id, from a hit.
    session: String,
    /// The number of the turn, from a hit.
    turn: i64,
    /// Turns before it to show as well (at most 20).
    before: Option<u32>,
    /// Turns after it to show as well (at most 20).
    after: Option<u32>,
}

#[tool_router]
impl Recall {
    pub(super) fn new(reader: Reader, scope: Scope) -> Self {
        Self { reader, scope }
    }

    /// Search the user's past conversations with all agents in Gantry for words.
    /// Returns hits, best first, each with the session, the number of the turn and a
    /// snippet in which «» marks the match; `get` shows the whole turn.
    #[tool(annotations(
        title = "Search past sessions",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn search(&self, Parameters(asked): Parameters<Search>) -> CallToolResult {
        let mut filter = Filter { project: asked.project, ..Filter::default() };
        filter.role = asked.role.map(|role| {
            match role {
                Role::User => "user",
                Role::Agent => "agent",
            }
            .to_owned()
        });
        if let Some(since) = &asked.since {
            filter.since = time::parse(since, now());
            if filter.since.is_none() {
                return refused(format!(
                    "`since` is `{since}`, which is no time; write a date (2026-11-30), \
                     a time (2026-11-30T18:00:00Z) or an age (90m, 24h, 7d, 2w)"
                ));
            }
        }
        let limit = asked.limit.unwrap_or(HITS).clamp(1, MOST_HITS as u32) as usize;
        let query = asked.query;
        self.read(move |reader| {
            let hits = match reader.search(&query, &filter, limit) {
                Ok(hits) => hits,
                Err(ReadError::Query(problem)) => return Ok(refused(problem.to_string())),
                Err(ReadError::Store(error)) => return Err(error),
            };
            let mut answer = json!({"hits": hits.iter().map(|hit| json!({
                "session": hit.session_id,
                "turn": hit.turn,
                "role": hit.role,
                "at": time::show(hit.at),
                "title": hit.title,
                "project": hit.project,
                "snippet": hit.snippet,
            })).collect::<Vec<_>>()});
            if hits.is_empty() {
                answer["note"] = nothing_because(reader, "Nothing matches.")?.into();
            } else if hits.len() == limit {
                answer["note"] = "There may be more; narrow the query or raise `limit`.".into();
            }
            Ok(CallToolResult::structured(answer))
        })
        .await
    }

    /// Show what was said in one turn of a past session, and in turns around it.
    #[tool(annotations(
        title = "Show a past turn",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn get(&self, Parameters(asked): Parameters<Get>) -> CallToolResult {
        self.read(move |reader| {
            let around = |n: Option<u32>| n.unwrap_or(0).min(MOST_AROUND);
            let passages = reader.get(
                &asked.session,
                asked.turn,
                around(asked.before),
                around(asked.after),
            )?;
            let mut left = LONGEST_ANSWER;
            let mut cut = false;
            let mut shown = Vec::with_capacity(passages.len());
            for passage in &passages {
                let end = passage.text.floor_char_boundary(LONGEST_TEXT.min(left));
                cut |= end < passage.text.len();
                left -= end;
                shown.push(json!({
                    "turn": passage.turn,
                    "role": passage.role,
                    "at": time::show(passage.at),
                    "text": &passage.text[..end],
                }));
            }
            let mut answer = json!({"session": asked.session, "said": shown});
            if passages.is_empty() {
                answer["note"] =
                    nothing_because(reader, "There is no such turn, or it has not ended.")?.into();
            } else if cut {
                answer["note"] = "Long texts were cut; ask for fewer turns to see more.".into();
            }
            Ok(CallToolResult::structured(answer))
        })
        .await
    }

    /// Say how many past sessions and turns can be searched, and from when to when.
    #[tool(annotations(
        title = "What can be recalled",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn status(&self) -> CallToolResult {
        self.read(|reader| {
            let presence = reader.status()?;
            let extent = match presence {
                Presence::Ready(extent) => extent,
                Presence::Missing | Presence::Unprepared => Default::default(),
            };
            let mut answer = json!({
                "projects": extent.projects,
                "sessions": extent.sessions,
                "turns": extent.turns,
                "oldest": extent.oldest.map(time::show),
                "newest": extent.newest.map(time::show),
            });
            if let Some(note) = emptiness(presence) {
                answer["note"] = note.into();
            }
            Ok(CallToolResult::structured(answer))
        })
        .await
    }

    /// Has a thread that may block look into the database.
    async fn read(
        &self,
        look: impl FnOnce(&Reader) -> Result<CallToolResult, StoreError> + Send + 'static,
    ) -> CallToolResult {
        // Whoever drops this work, as a cancel does, ends the search as well.
        let (reader, _patience) = self.reader.patiently();
        let work = self.scope.spawn_blocking("recall", move || look(&reader)).join();
        let Ok(looked) = tokio::time::timeout(LONGEST_LOOK, work).await else {
            return refused(format!(
                "the search took longer than {} s and was given up; ask for fewer or longer words",
                LONGEST_LOOK.as_secs()
            ));
        };
        match looked {
            Some(Ok(result)) => result,
            Some(Err(error)) => refused(error.to_string()),
            None if self.scope.is_cancelled() => {
                refused("the search was given up: the server is shutting down".into())
            }
            None => refused("looking into the database failed inside; this is a bug".into()),
        }
    }
}

#[tool_handler]
impl ServerHandler for Recall {
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tools = Self::tool_router();
        let (tool, cancelled) = (request.name.to_string(), context.ct.clone());
        tokio::select! {
            answer = answered(&tool, tools.call(ToolCallContext::new(self, request, context))) => answer,
            () = cancelled.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
        }
    }

    fn get_info(&self) -> ServerConfig {
        let us = Implementation::new("gantry-recall", env!("CARGO_PKG_VERSION"))
            .with_title("Gantry recall");
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(us)
            .with_instructions(
                "Full-text search over what the user and agents said in past Gantry sessions. \
                 Use `search` to find turns and `get` to read them.",
            )
    }
}

/// A tool that panics is answered, too: the request would otherwise count as one that runs,
/// and hold up our end.
pub(super) async fn answered<T>(
    tool: &str,
    call: impl Future<Output = Result<T, ErrorData>>,
) -> Result<T, ErrorData> {
    AssertUnwindSafe(call).catch_unwind().await.unwrap_or_else(|_| {
        Err(ErrorData::internal_error(format!("`{tool}` failed inside; this is a bug"), None))
    })
}

/// A tool error: the caller can do something about it.
fn refused(why: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(why)])
}

fn nothing_because(reader: &Reader, otherwise: &str) -> Result<String, StoreError> {
    Ok(emptiness(reader.status()?).unwrap_or(otherwise).to_owned())
}

/// Why there is nothing to find at all.
fn emptiness(presence: Presence) -> Option<&'static str> {
    match presence {
        Presence::Missing => Some("There are no past sessions yet: Gantry has not stored any."),
        Presence::Unprepared => {
            Some("The past sessions are not prepared for search; this happens when Gantry starts.")
        }
        Presence::Ready(extent) if extent.turns == 0 => {
            Some("No turn has ended yet; what is said can be found once its turn has ended.")
        }
        Presence::Ready(_) => None,
    }
}

/// Milliseconds since the epoch.
fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}
