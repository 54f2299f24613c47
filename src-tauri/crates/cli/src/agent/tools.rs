//! The tools that a session can use now.

use super::upstream::{State, Upstream};
use gantry_supervisor::Deadline;
use rmcp::{Peer, RoleClient, model::Tool};

/// A tool and the server that has it.
#[derive(Clone)]
pub(super) struct Found {
    pub(super) server: String,
    pub(super) tool: Tool,
    pub(super) peer: Peer<RoleClient>,
}

impl Found {
    /// Whether the server says that it changes nothing.
    pub(super) fn is_read_only(&self) -> bool {
        self.tool.annotations.as_ref().and_then(|a| a.read_only_hint) == Some(true)
    }

    /// For people.
    pub(super) fn title(&self) -> String {
        let annotated = || self.tool.annotations.as_ref().and_then(|a| a.title.clone());
        let title = self.tool.title.clone().or_else(annotated).filter(|t| !t.is_empty());
        title.unwrap_or_else(|| self.tool.name.to_string())
    }
}

/// One server as it is now, with its tools when it is ready.
pub(super) struct Listed {
    pub(super) server: String,
    pub(super) state: State,
}

/// The servers of a session as they are at one moment.
pub(super) struct Toolbox {
    pub(super) servers: Vec<Listed>,
}

/// What a name meant.
pub(super) enum Lookup {
    /// One tool.
    One(Box<Found>),
    /// Several; these names tell them apart.
    Several(Vec<String>),
    /// None; these are near.
    None(Vec<String>),
}

impl Toolbox {
    /// Waits until every server has answered or failed, and looks. Those that are still busy at the deadline stay "connecting".
    pub(super) async fn gather(upstreams: &[Upstream], deadline: Deadline) -> Self {
        for upstream in upstreams {
            upstream.settled(deadline).await;
        }
        let servers = upstreams
            .iter()
            .map(|u| Listed { server: u.name().to_owned(), state: u.state() })
            .collect();
        Self { servers }
    }

    /// All tools that can be called, in the order of servers and lists.
    pub(super) fn tools(&self) -> impl Iterator<Item = Found> {
        self.servers.iter().flat_map(|listed| {
            let ready = match &listed.state {
                State::Ready(ready) => Some(ready),
                _ => None,
            };
            ready.into_iter().flat_map(|ready| {
                ready.tools.iter().map(|tool| Found {
                    server: listed.server.clone(),
                    tool: tool.clone(),
                    peer: ready.peer.clone(),
                })
            })
        })
    }

    /// Finds `tool` or `server/tool`.
    pub(super) fn find(&self, name: &str) -> Lookup {
        let mut exact: Vec<Found> = self.tools().filter(|found| found.tool.name == name).collect();
        if exact.is_empty() {
            exact = self.tools().filter(|found| qualified(found) == name).collect();
        }
        match exact.len() {
            1 => Lookup::One(Box::new(exact.remove(0))),
            0 => {
                let wanted = name.to_lowercase();
                let near = |found: &Found| {
                    let tool = found.tool.name.to_lowercase();
                    !wanted.is_empty() && (tool.contains(&wanted) || wanted.contains(&tool))
                };
                let names = self.tools().filter(near).map(|found| found.tool.name.to_string());
                Lookup::None(names.take(5).collect())
            }
            _ => Lookup::Several(exact.iter().map(qualified).collect()),
        }
    }
}

/// `server/tool`.
pub(super) fn qualified(found: &Found) -> String {
    format!("{}/{}", found.server, found.tool.name)
}
