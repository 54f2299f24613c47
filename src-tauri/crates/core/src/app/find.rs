//! `search` and `project_files`.

use super::App;
use crate::{Error, Result, wire::*};
use gantry_store::{Filter, ReadError};
use std::path::PathBuf;

/// Hits when the caller does not say.
const HITS: u32 = 30;
/// Files when the caller does not say.
const FILES: u32 = 20;
/// Files at most.
const MOST_FILES: u32 = 200;

impl App {
    /// What was said in any session.
    ///
    /// # Errors
    /// A query that means nothing, with what to change.
    pub async fn search(&self, input: Search) -> Result<SearchHits> {
        let filter = Filter { project: input.project, ..Filter::default() };
        let limit = input.limit.unwrap_or(HITS) as usize;
        let hits = match self.store().search(&input.query, filter, limit).await {
            Ok(hits) => hits,
            Err(ReadError::Query(problem)) => {
                return Err(Error::invalid(format!("query: {problem}")));
            }
            Err(ReadError::Store(error)) => return Err(error.into()),
        };
        let hit = |hit: gantry_store::SearchHit| SearchHit {
            session: hit.session_id,
            title: hit.title,
            project: hit.project,
            turn: hit.turn,
            role: hit.role,
            at: hit.at,
            snippet: hit.snippet,
        };
        Ok(SearchHits { hits: hits.into_iter().map(hit).collect() })
    }

    /// Files of a session's project, without those that its `.gitignore` names.
    ///
    /// # Errors
    /// Not found; invalid without a session.
    pub async fn project_files(&self, input: ProjectFiles) -> Result<ProjectFilesFound> {
        if input.session.is_empty() {
            return Err(Error::invalid("`session` is missing; it says whose project is meant"));
        }
        let sessions = self.sessions().views();
        let session = sessions
            .into_iter()
            .find(|view| view.id == input.session)
            .ok_or_else(|| Error::not_found(format!("there is no session `{}`", input.session)))?;
        let folder = PathBuf::from(session.project);
        let limit = input.limit.unwrap_or(FILES).clamp(1, MOST_FILES) as usize;
        let known = self.inner.files.clone();
        let looking = self.scope().spawn_blocking("look for files", move || {
            let listing = known.of(&folder);
            let files = listing.matching(&input.query, limit);
            ProjectFilesFound { files, cut: listing.is_cut }
        });
        looking.join().await.ok_or_else(Error::shutting_down)
    }
}
