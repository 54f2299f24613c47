//! The turn itself.

use super::{
    Chat,
    ask::{Decision, Desk, refusal},
    screen::Screen,
    waiting::Waiting,
};
use crate::{
    events::{Event, Events},
    failure::Failure,
    host::Host,
    interrupts::{Interrupt, Interrupts},
    remote::Remote,
};
use serde_json::{Value, json};
use std::{pin::pin, time::Duration};

/// A prompt waits for servers and for an engine's start, which have limits of their own.
const HANDING_OVER: Duration = Duration::from_secs(3600);

/// Runs it; gives the exit code.
pub async fn run(
    host: &Host,
    options: &Chat,
    prompt: &str,
    interrupts: &mut Interrupts,
) -> Result<u8, Failure> {
    let remote = &host.remote;
    let (session, after) = match &options.session {
        Some(session) => {
            let about = json!({ "session": session, "limit": 1 });
            let history = remote.call("session_history", about).await?;
            (session.clone(), history["seq"].as_u64().unwrap_or_default())
        }
        None => (create(remote, options).await?, 0),
    };
    let events = remote.events(&path(&session, after)).await?;
    let mut turn = Turn {
        remote,
        session,
        request: format!("chat-{}-{:x}", std::process::id(), gantry_core::events::now()),
        events,
        last: after,
        screen: Screen::new(options.json),
        desk: Desk::new(),
        questions: Vec::new(),
        has_begun: false,
        is_continued: options.session.is_some(),
        cancels: 0,
    };
    let talked = turn.talk(options, prompt, interrupts).await;
    turn.screen.end();
    match talked {
        Ok(End { reason, .. }) if reason == "cancelled" => {
            if turn.screen.is_closed {
                return Ok(0);
            }
            turn.screen.note("cancelled");
            Ok(1)
        }
        Ok(End { reason, description }) if reason == "error" => {
            let why = description.unwrap_or_else(|| "the agent gave no reason".to_owned());
            Err(Failure::new("chat", why))
        }
        Ok(End { reason, description }) => {
            if reason != "end_turn" {
                turn.screen
                    .note(&format!("ended with {reason} {}", description.unwrap_or_default()));
            }
            if options.session.is_none() && !host.is_own() {
                turn.screen.note(&format!("session {}", turn.session));
            }
            Ok(0)
        }
        Err(failure) => {
            if !turn.has_begun {
                turn.drop_unused().await;
            }
            Err(failure)
        }
    }
}

fn path(session: &str, after: u64) -> String {
    // Any text can stand behind `--session`; an id has nothing that needs encoding.
    let id: String =
        session.chars().filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c)).collect();
    format!("/computer/progress/{id}?after={after}")
}

async fn create(remote: &Remote, options: &Chat) -> Result<String, Failure> {
    let folder = options.project.clone().unwrap_or_else(|| ".".into());
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    let created = remote
        .call(
            "session_create",
            json!({
                "project_dir": folder,
                "agent": options.agent,
                "permission": options.allow.policy(),
            }),
        )
        .await?;
    Ok(created["session"]["id"].as_str().unwrap_or_default().to_owned())
}

/// How a turn ended.
struct End {
    reason: String,
    description: Option<String>,
}

impl End {
    fn cancelled() -> Self {
        Self { reason: "cancelled".to_owned(), description: None }
    }
}

struct Turn<'a> {
    remote: &'a Remote,
    session: String,
    /// Our id of the turn: other turns of the session are not shown.
    request: String,
    events: Events,
    last: u64,
    screen: Screen,
    desk: Desk,
    /// Questions that were put before the person.
    questions: Vec<Value>,
    has_begun: bool,
    /// Whether the session was there before.
    is_continued: bool,
    cancels: u32,
}

impl Turn<'_> {
    async fn talk(
        &mut self,
        options: &Chat,
        prompt: &str,
        interrupts: &mut Interrupts,
    ) -> Result<End, Failure> {
        let remote = self.remote;
        let mut input = json!({
            "session": self.session,
            "content": [{ "type": "text", "text": prompt }],
            "queue": options.queue,
            "request_id": self.request,
        });
        if options.session.is_some() {
            input["permission"] = json!(options.allow.policy());
        }
        let mut waiting = Waiting::look(remote).await;
        let mut handing = pin!(remote.call_within(HANDING_OVER, "session_prompt", input));
        let mut is_accepted = false;
        loop {
            tokio::select! {
                answer = &mut handing, if !is_accepted => {
                    is_accepted = true;
                    waiting.clear();
                    match answer {
                        Ok(accepted) => self.tell_servers(&accepted),
                        // Cancelled on its way: there was no turn that could say so.
                        Err(_) if self.cancels > 0 && !self.has_begun => {
                            self.drop_unused().await;
                            return Ok(End::cancelled());
                        }
                        Err(failure) => return Err(failure),
                    }
                }
                event = self.events.next() => {
                    waiting.clear();
                    if let Some(end) = self.hear(event).await? {
                        return Ok(end);
                    }
                    // Nobody reads the answer: it need not be finished.
                    if self.screen.is_closed && self.cancels == 0 {
                        self.cancels += 1;
                        let about = json!({ "session": self.session });
                        self.remote.call("session_cancel", about).await?;
                    }
                }
                (request, decision) = self.desk.decided() => self.decide(&request, decision).await?,
                interrupt = interrupts.next() => {
                    waiting.clear();
                    if let Some(end) = self.interrupted(interrupt).await? {
                        return Ok(end);
                    }
                }
                never = waiting.follow(), if !is_accepted => match never {},
            }
        }
    }

    /// What was opened for nothing is not left in the list.
    async fn drop_unused(&self) {
        if !self.is_continued {
            let about = json!({ "session": self.session });
            let _ = self.remote.call("session_delete", about).await;
        }
    }

    /// Servers that the agent has to do without.
    fn tell_servers(&mut self, accepted: &Value) {
        if self.screen.is_json() {
            return;
        }
        for server in accepted["servers"].as_array().into_iter().flatten() {
            let name = server["name"].as_str().unwrap_or_default();
            let why = server["error"].as_str().unwrap_or_default();
            let why = why.lines().next().unwrap_or_default();
            match server["state"].as_str() {
                Some("failed") => self.screen.note(&format!("server {name} failed: {why}")),
                Some("starting") => self.screen.note(&format!("server {name} is still starting")),
                _ => {}
            }
        }
        if accepted["context"] == "lost" {
            self.screen.note("the agent could not restore the conversation; it begins anew");
        }
    }

    /// An event of the session's stream; some when it was the end.
    async fn hear(&mut self, event: Option<Event>) -> Result<Option<End>, Failure> {
        let Some(event) = event else {
            // Broken off: what was missed is kept there.
            self.events = self.remote.events(&path(&self.session, self.last)).await?;
            return Ok(None);
        };
        if let Some(id) = event.id.as_ref().and_then(|id| id.parse().ok()) {
            self.last = id;
        }
        let message: Value = serde_json::from_str(&event.data).unwrap_or_default();
        let data = &message["data"];
        match message["messageType"].as_str().unwrap_or_default() {
            "sessionPromptStart" => {
                let is_ours = data["request_id"].as_str() == Some(self.request.as_str());
                // A cancel may have overtaken its prompt.
                if is_ours && !self.has_begun && self.cancels > 0 {
                    let about = json!({ "session": self.session });
                    self.remote.call("session_cancel", about).await?;
                }
                self.has_begun |= is_ours;
            }
            "sessionRemoved" | "shuttingDown" => {
                return Err(Failure::new(
                    "chat",
                    format!("it was ended from elsewhere ({})", event.name),
                ));
            }
            _ => {}
        }
        if !self.has_begun {
            return Ok(None);
        }
        self.screen.event(&event.data, &message);
        match message["subType"].as_str().unwrap_or_default() {
            "permission_request" if self.desk.has_somebody() => {
                self.screen.end();
                self.desk.put(data);
            }
            "permission_request" => {
                let title = data["toolCall"]["title"].as_str().unwrap_or("a tool");
                self.screen
                    .note(&format!("refused: {title} (nobody can be asked here; see --allow)"));
                let options = data["options"].as_array().cloned().unwrap_or_default();
                let request = data["request"].as_str().unwrap_or_default();
                self.decide(request, refusal(&options)).await?;
            }
            "question_request" if self.desk.has_somebody() => {
                self.screen.end();
                self.questions.push(data.clone());
                self.desk.put_question(data, None);
            }
            "question_request" => {
                let asked = data["message"].as_str().unwrap_or("a question");
                self.screen.note(&format!("declined: {asked} (nobody can be asked here)"));
                let request = data["request"].as_str().unwrap_or_default();
                self.decide(request, Decision::Answer("decline", None)).await?;
            }
            "question_answered" => {
                self.desk.take_away(data["request"].as_str().unwrap_or_default());
            }
            "permission_resolved" => {
                self.desk.take_away(data["request"].as_str().unwrap_or_default());
            }
            _ => {}
        }
        if message["messageType"] != "sessionPromptEnd" {
            return Ok(None);
        }
        Ok(Some(End {
            reason: data["reason"].as_str().unwrap_or_default().to_owned(),
            description: data["description"].as_str().map(str::to_owned),
        }))
    }

    async fn decide(&mut self, request: &str, decision: Decision) -> Result<(), Failure> {
        let answered = match decision {
            Decision::Option(option) => {
                let answer =
                    json!({ "session": self.session, "request": request, "option": option });
                self.remote.call("session_permit", answer).await
            }
            Decision::Answer(action, content) => {
                let mut answer =
                    json!({ "session": self.session, "request": request, "action": action });
                if let Some(content) = content {
                    answer["content"] = content;
                }
                let answered = self.remote.call("session_answer", answer).await;
                let question =
                    self.questions.iter().find(|question| question["request"] == request);
                match (answered, question) {
                    // A value that the agent does not take: it is asked for again.
                    (Err(failure), Some(question)) if failure.is_invalid() => {
                        self.desk.put_question(question, Some(&failure.sentence()));
                        return Ok(());
                    }
                    (answered, _) => answered,
                }
            }
            Decision::Cancel => {
                self.remote.call("session_cancel", json!({ "session": self.session })).await
            }
        };
        // Somebody else may have been faster; the stream says who it was.
        if let Err(failure) = answered {
            self.screen.note(&failure.sentence());
        }
        Ok(())
    }

    /// The first cancels the turn, the second stops the session.
    async fn interrupted(&mut self, interrupt: Interrupt) -> Result<Option<End>, Failure> {
        self.cancels += 1;
        let about = json!({ "session": self.session });
        if interrupt == Interrupt::End {
            // Whoever ends us waits; the turn is cancelled and not waited for.
            let _ = self.remote.call("session_cancel", about).await;
            return Ok(Some(End::cancelled()));
        }
        if !self.has_begun && self.cancels == 1 && self.is_continued {
            // What runs in that session now is somebody else's turn.
            self.screen.note("given up; a prompt that was queued stays queued");
            return Ok(Some(End::cancelled()));
        }
        if self.cancels == 1 {
            self.screen.note("cancelling; Ctrl+C again stops the session");
            self.remote.call("session_cancel", about).await?;
            return Ok(None);
        }
        self.screen.note("stopping the session");
        self.remote.call("session_stop", about).await?;
        Ok(Some(End::cancelled()))
    }
}
