use super::*;
use crate::{Extent, Filter, Presence, Reader, migrations, open};
use std::{path::PathBuf, time::Duration};

fn file(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join("gantry.db")
}

fn project(id: &str) -> ProjectRow {
    ProjectRow { id: id.into(), path: format!("/home/me/{id}"), name: id.into(), created_at: 5 }
}

fn session(id: &str, at: i64) -> SessionRow {
    SessionRow {
        id: id.into(),
        acp_id: None,
        project_id: "p".into(),
        agent: "{}".into(),
        title: format!("title of {id}"),
        options: "null".into(),
        created_at: at,
        last_activity: at,
        closed: None,
    }
}

fn turn(id: &str, session: &str, number: i64, prompt: &str) -> TurnRow {
    TurnRow {
        id: id.into(),
        session_id: session.into(),
        number,
        prompt: serde_json::json!([{"type": "text", "text": prompt}]).to_string(),
        request_id: None,
        started_at: number * 1000,
        ended_at: None,
        stop_reason: None,
        description: None,
    }
}

fn ended(mut row: TurnRow) -> TurnRow {
    row.ended_at = Some(row.started_at + 500);
    row.stop_reason = Some("end_turn".into());
    row
}

fn chunk(session: &str, turn: &str, seq: i64, text: &str) -> UpdateRow {
    UpdateRow {
        session_id: session.into(),
        turn_id: Some(turn.into()),
        seq,
        at: seq,
        json: serde_json::json!({"sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": text}})
        .to_string(),
    }
}

async fn store_with_session(path: &Path) -> Store {
    let store = Store::open(path).unwrap();
    store.ensure_project(project("p")).await.unwrap();
    store.save_session(session("s", 10)).await.unwrap();
    store
}

fn integrity(path: &Path) -> String {
    Connection::open(path)
        .unwrap()
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap()
}

#[tokio::test]
async fn everything_saved_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with_session(&file(&dir)).await;
    store.save_server("b", "{}").await.unwrap();
    store.save_server("a", "{}").await.unwrap();
    store.save_server("b", r#"{"x":1}"#).await.unwrap();
    let agent = AgentRow { id: "echo".into(), config: "{}".into(), saved_at: 1 };
    store.save_agent(agent.clone()).await.unwrap();
    store.save_turn(turn("t1", "s", 1, "hello")).await.unwrap();
    store.append_updates(vec![chunk("s", "t1", 1, "wor"), chunk("s", "t1", 2, "ld")]);
    store.save_setting("k", "1").await.unwrap();
    store.save_setting("k", "2").await.unwrap();
    let mut changed = session("s", 10);
    changed.closed = Some("stopped".into());
    changed.acp_id = Some("acp".into());
    store.save_session(changed.clone()).await.unwrap();
    store.close().await.unwrap();

    let store = Store::open(&file(&dir)).unwrap();
    let servers = store.servers().await.unwrap();
    let names: Vec<_> = servers.iter().map(|s| (s.name.as_str(), s.config.as_str())).collect();
    assert_eq!(names, [("b", r#"{"x":1}"#), ("a", "{}")], "a change keeps the place");
    assert_eq!(store.agents().await.unwrap(), [agent]);
    assert_eq!(store.sessions().await.unwrap(), [changed.clone()]);
    assert_eq!(store.session("s").await.unwrap(), Some(changed));
    assert_eq!(store.session("x").await.unwrap(), None);
    assert_eq!(store.turns("s", None, 10).await.unwrap(), [turn("t1", "s", 1, "hello")]);
    assert_eq!(store.updates_of_turn("t1").await.unwrap().len(), 2, "an upsert keeps children");
    assert_eq!(store.last_seq("s").await.unwrap(), 2);
    assert_eq!(store.last_seq("x").await.unwrap(), 0);
    assert_eq!(store.setting("k").await.unwrap().as_deref(), Some("2"));
    assert_eq!(store.setting("none").await.unwrap(), None);
    assert_eq!(store.projects().await.unwrap(), [project("p")]);
    assert!(store.remove_server("a").await.unwrap());
    assert!(!store.remove_server("a").await.unwrap());
    assert!(store.remove_agent("echo").await.unwrap());
    assert!(store.remove_session("s").await.unwrap());
    assert!(store.turns("s", None, 10).await.unwrap().is_empty());
    assert!(store.updates_of_turn("t1").await.unwrap().is_empty());
    store.close().await.unwrap();
}

#[tokio::test]
async fn projects_come_last_used_first_and_are_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&file(&dir)).unwrap();
    store.ensure_project(project("old")).await.unwrap();
    store.ensure_project(project("p")).await.unwrap();
    store.ensure_project(ProjectRow { created_at: 7, ..project("new") }).await.unwrap();
    let again = ProjectRow { name: "other".into(), ..project("p") };
    assert_eq!(store.ensure_project(again).await.unwrap(), project("p"));
    store.save_session(session("s", 50)).await.unwrap();
    let ids: Vec<_> = store.projects().await.unwrap().into_iter().map(|p| p.id).collect();
    assert_eq!(ids, ["p", "new", "old"]);
}

#[tokio::test]
async fn turns_are_paged_backwards() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with_session(&file(&dir)).await;
    for number in 1..=7 {
        store.save_turn(turn(&format!("t{number}"), "s", number, "x")).await.unwrap();
    }
    let numbers = async |before, limit| -> Vec<i64> {
        store.turns("s", before, limit).await.unwrap().iter().map(|t| t.number).collect()
    };
    assert_eq!(numbers(None, 3).await, [5, 6, 7]);
    assert_eq!(numbers(Some(5), 3).await, [2, 3, 4]);
    assert_eq!(numbers(Some(2), 3).await, [1]);
    assert_eq!(numbers(None, usize::MAX).await.len(), 7);
}

#[tokio::test]
async fn open_turns_are_ended_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with_session(&file(&dir)).await;
    store.save_turn(ended(turn("t1", "s", 1, "done"))).await.unwrap();
    store.save_turn(turn("t2", "s", 2, "crashed")).await.unwrap();
    store.append_updates(vec![UpdateRow { at: 2345, ..chunk("s", "t2", 1, "half") }]);
    let ended = store.end_open_turns("Gantry was killed", "not sent").await.unwrap();
    let names: Vec<_> = ended.iter().map(|cut| (&*cut.session_id, &*cut.turn)).collect();
    assert_eq!(names, [("s", "t2")]);
    assert!(store.end_open_turns("again", "again").await.unwrap().is_empty());
    let turns = store.turns("s", None, 9).await.unwrap();
    assert_eq!(turns[1].stop_reason.as_deref(), Some("error"));
    assert_eq!(turns[1].description.as_deref(), Some("Gantry was killed"));
    assert_eq!(turns[1].ended_at, Some(2345));
    assert_eq!(turns[0].stop_reason.as_deref(), Some("end_turn"));
    assert_eq!(store.search("half", Filter::default(), 5).await.unwrap().len(), 1);
}

fn waiting(turn: &str, text: &str, at: i64) -> QueuedRow {
    let prompt = serde_json::json!([{ "type": "text", "text": text }]).to_string();
    let (turn, session_id, request_id) = (turn.to_owned(), "s".to_owned(), Some("r".to_owned()));
    QueuedRow { turn, session_id, prompt, request_id, at }
}

#[tokio::test]
async fn prompts_that_waited_outlive_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with_session(&file(&dir)).await;
    store.save_turn(turn("t1", "s", 1, "runs")).await.unwrap();
    // The order of the calls counts, not that of the waiting.
    let first = store.keep_queued(waiting("t2", "before", 10));
    store.keep_queued(waiting("t3", "sent", 11)).await.unwrap();
    store.keep_queued(waiting("t4", "taken back", 12)).await.unwrap();
    store.keep_queued(waiting("t5", "second", 13)).await.unwrap();
    store.keep_queued(waiting("t2", "changed", 99)).await.unwrap();
    first.await.unwrap();
    store.save_turn(ended(turn("t3", "s", 2, "sent"))).await.unwrap();
    store.keep_queued(waiting("t3", "late", 14)).await.unwrap();
    store.forget_queued("t4").await.unwrap();
    let cut_off = store.end_open_turns("cut off", "not sent").await.unwrap();
    let told: Vec<_> = cut_off.iter().map(|cut| (&*cut.turn, &*cut.description)).collect();
    assert_eq!(told, [("t1", "cut off"), ("t2", "not sent"), ("t5", "not sent")]);
    let turns = store.turns("s", None, 9).await.unwrap();
    let numbers: Vec<_> = turns.iter().map(|turn| (&*turn.id, turn.number)).collect();
    assert_eq!(numbers, [("t1", 1), ("t3", 2), ("t2", 3), ("t5", 4)]);
    assert!(turns[2].prompt.contains("changed"));
    assert_eq!((turns[2].started_at, turns[2].ended_at), (10, Some(10)));
    assert_eq!(turns[2].request_id.as_deref(), Some("r"));
    assert!(cut_off[0].unsent.is_none() && cut_off[1].unsent.as_ref() == Some(&turns[2]));
    assert!(store.end_open_turns("", "").await.unwrap().is_empty());
    // One row of nobody's does not keep the rest from being read.
    let foreign = rusqlite::Connection::open(file(&dir)).unwrap();
    foreign
        .execute_batch(
            "PRAGMA foreign_keys = OFF;
         INSERT INTO queued VALUES ('t9', 'gone', '[]', NULL, 1), ('t8', 's', 'not JSON', NULL, 2)",
        )
        .unwrap();
    let odd = store.end_open_turns("cut off", "not sent").await.unwrap();
    assert_eq!(odd.iter().map(|cut| &*cut.turn).collect::<Vec<_>>(), ["t8"]);
    assert_eq!(store.search("changed", Filter::default(), 5).await.unwrap().len(), 1);
}

#[tokio::test]
async fn one_refused_update_does_not_take_the_others_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with_session(&file(&dir)).await;
    store.append_updates(vec![
        chunk("s", "t", 1, "a"),
        chunk("no such session", "t", 2, "b"),
        chunk("s", "t", 1, "same number"),
        chunk("s", "t", 3, "c"),
    ]);
    let seqs: Vec<_> = store.updates_of_turn("t").await.unwrap().iter().map(|u| u.seq).collect();
    assert_eq!(seqs, [1, 3]);
}

#[tokio::test]
async fn updates_reach_the_disk_without_being_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with_session(&file(&dir)).await;
    store.append_updates(vec![chunk("s", "t", 1, "a")]);
    let other = Connection::open(file(&dir)).unwrap();
    let arrived = async {
        loop {
            let rows: i64 =
                other.query_row("SELECT count(*) FROM updates", [], |row| row.get(0)).unwrap();
            if rows == 1 {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    // 50 ms is the promise; the rest is for a busy machine.
    tokio::time::timeout(Duration::from_secs(5), arrived).await.expect("written by itself");
}

// Case 79.
#[cfg(unix)]
#[tokio::test]
async fn the_data_directory_may_be_a_symbolic_link() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().join("real dir?#%");
    std::fs::create_dir(&real).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    for round in 1..=3 {
        let store = store_with_session(&link.join("gantry.db")).await;
        store.save_turn(ended(turn(&format!("t{round}"), "s", round, "through"))).await.unwrap();
        store.close().await.unwrap();
        let reader = Reader::new(link.join("gantry.db"));
        let hits = reader.search("through", &Filter::default(), 9).unwrap();
        assert_eq!(hits.len(), usize::try_from(round).unwrap());
    }
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    let names: Vec<_> = std::fs::read_dir(&real).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["gantry.db"]);
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_may_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(file(&dir), "").unwrap();
    std::fs::set_permissions(file(&dir), std::fs::Permissions::from_mode(0o644)).unwrap();
    let store = store_with_session(&file(&dir)).await;
    let modes: Vec<(String, u32)> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            (entry.file_name().into_string().unwrap(), mode)
        })
        .collect();
    assert_eq!(modes.len(), 3, "{modes:?}");
    assert!(modes.iter().all(|(_, mode)| *mode == 0o600), "{modes:?}");
    store.close().await.unwrap();
}

// Case 80.
#[tokio::test]
async fn an_older_schema_is_migrated_and_a_broken_row_does_not_stop_it() {
    let dir = tempfile::tempdir().unwrap();
    {
        let mut old = Connection::open(file(&dir)).unwrap();
        migrations::apply_up_to(&mut old, 1).unwrap();
        old.execute_batch(
            r#"INSERT INTO projects VALUES ('p', '/p', 'p', 1, 1);
               INSERT INTO sessions VALUES ('s', NULL, 'p', '{}', 'good', 'null', 1, 1, NULL);
               INSERT INTO sessions VALUES ('bad', NULL, 'p', '{}', CAST(x'ff00fe' AS TEXT), 'null', 1, 1, NULL);
               INSERT INTO turns VALUES ('t1', 's', 1, '[{"type":"text","text":"before the search"}]', NULL, 1, 2, 'end_turn', NULL);
               INSERT INTO turns VALUES ('t2', 's', 2, CAST(x'ff00fe' AS TEXT), NULL, 3, 4, 'end_turn', NULL);
               INSERT INTO turns VALUES ('t3', 's', 3, '[{"type":"text","text":"after the broken row"}]', NULL, 5, 6, 'end_turn', NULL);"#,
        )
        .unwrap();
    }
    let reader = Reader::new(file(&dir));
    assert_eq!(reader.status().unwrap(), Presence::Unprepared);
    assert!(reader.search("search", &Filter::default(), 5).unwrap().is_empty());

    let store = Store::open(&file(&dir)).unwrap();
    let sessions = store.sessions().await.unwrap();
    assert_eq!(sessions.iter().map(|s| s.id.as_str()).collect::<Vec<_>>(), ["s"]);
    let numbers: Vec<_> =
        store.turns("s", None, 9).await.unwrap().iter().map(|t| t.number).collect();
    assert_eq!(numbers, [1, 3]);
    let indexed = async {
        while !matches!(reader.status().unwrap(), Presence::Ready(Extent { turns: 3, .. })) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), indexed).await.expect("older turns are indexed");
    assert_eq!(store.search("the search", Filter::default(), 5).await.unwrap().len(), 1);
    assert_eq!(store.search("broken row", Filter::default(), 5).await.unwrap().len(), 1);
    store.close().await.unwrap();
    assert_eq!(
        migrations::version(&Connection::open(file(&dir)).unwrap()).unwrap(),
        migrations::KNOWN
    );
}

// Case 80.
#[tokio::test]
async fn a_newer_schema_is_refused_and_untouched() {
    let dir = tempfile::tempdir().unwrap();
    store_with_session(&file(&dir)).await.close().await.unwrap();
    Connection::open(file(&dir)).unwrap().pragma_update(None, "user_version", 999).unwrap();
    let before = std::fs::read(file(&dir)).unwrap();
    let error = Store::open(&file(&dir)).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 999, .. }), "{error}");
    assert!(error.to_string().contains("newer Gantry"), "{error}");
    assert!(matches!(Reader::new(file(&dir)).status(), Err(StoreError::Newer { .. })));
    assert_eq!(std::fs::read(file(&dir)).unwrap(), before);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing beside it");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_untouched() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(file(&dir), "these are my notes, not a database".repeat(100)).unwrap();
    let before = std::fs::read(file(&dir)).unwrap();
    let error = Store::open(&file(&dir)).unwrap_err().to_string();
    assert!(error.contains("not a database"), "{error}");
    assert_eq!(std::fs::read(file(&dir)).unwrap(), before);
    let error = Store::open(&dir.path().join("none/gantry.db")).unwrap_err();
    assert!(matches!(error, StoreError::File { .. }), "{error}");
}

// Case 81.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_writers_in_two_instances_leave_a_sound_file() {
    let dir = tempfile::tempdir().unwrap();
    let first = store_with_session(&file(&dir)).await;
    let second = Store::open(&file(&dir)).unwrap();
    let writers = (0..1000_i64).map(|n| {
        let store = if n % 2 == 0 { first.clone() } else { second.clone() };
        async move {
            let id = format!("t{n}");
            store.save_turn(turn(&id, "s", n, "concurrent")).await.unwrap();
            store.append_updates(vec![chunk("s", &id, n + 1, "written")]);
            assert_eq!(store.updates_of_turn(&id).await.unwrap().len(), 1);
            if n % 10 == 0 {
                store.save_turn(ended(turn(&id, "s", n, "concurrent"))).await.unwrap();
            }
        }
    });
    #[expect(clippy::disallowed_methods, reason = "the writers of this test are its own")]
    let writers: Vec<_> = writers.map(tokio::spawn).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(first.last_seq("s").await.unwrap(), 1000);
    assert_eq!(second.turns("s", None, 2000).await.unwrap().len(), 1000);
    assert_eq!(first.search("concurrent", Filter::default(), 500).await.unwrap().len(), 100);
    first.close().await.unwrap();
    second.close().await.unwrap();
    assert_eq!(integrity(&file(&dir)), "ok");
}

// Case 82.
#[tokio::test]
async fn a_thousand_sessions_are_listed_without_a_sort() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with_session(&file(&dir)).await;
    for n in 0..1000 {
        store.save_session(session(&format!("s{n}"), (n * 7919) % 1000)).await.unwrap();
    }
    let listed = store.sessions().await.unwrap();
    assert_eq!(listed.len(), 1001);
    assert!(listed.is_sorted_by_key(|s| std::cmp::Reverse(s.last_activity)));

    let connection = Connection::open(file(&dir)).unwrap();
    let plan: Vec<String> = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {}", sessions_sql()))
        .unwrap()
        .query_map([], |row| row.get(3))
        .unwrap()
        .collect::<rusqlite::Result<_>>()
        .unwrap();
    assert_eq!(plan, ["SCAN sessions USING INDEX sessions_by_activity"]);
}

// Case 82.
#[tokio::test]
async fn nothing_is_written_while_idle() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with_session(&file(&dir)).await;
    store.append_updates(vec![chunk("s", "t", 1, "a")]);
    store.sessions().await.unwrap();
    let watcher = Connection::open(file(&dir)).unwrap();
    let version =
        || -> i64 { watcher.query_row("PRAGMA data_version", [], |row| row.get(0)).unwrap() };
    let start = version();
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    for _ in 0..20 {
        ticks.tick().await;
        assert_eq!(version(), start, "somebody wrote");
    }
    store.save_setting("k", "1").await.unwrap();
    assert_ne!(version(), start, "the watcher would have seen a write");
}

#[tokio::test]
async fn close_writes_everything_leaves_no_journal_and_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with_session(&file(&dir)).await;
    let rows = (1..=5000).map(|n| chunk("s", "t", n, "x")).collect();
    store.append_updates(rows);
    let (a, b) = tokio::join!(store.close(), store.close());
    a.unwrap();
    b.unwrap();
    store.close().await.unwrap();
    assert!(matches!(store.sessions().await, Err(StoreError::Closed)));
    store.append_updates(vec![chunk("s", "t", 9999, "too late")]);
    let names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["gantry.db"]);
    let count: i64 = Connection::open(file(&dir))
        .unwrap()
        .query_row("SELECT count(*) FROM updates", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 5000);
}

#[tokio::test]
async fn a_reader_finds_what_the_writer_has_just_ended() {
    let dir = tempfile::tempdir().unwrap();
    let reader = Reader::new(file(&dir));
    assert_eq!(reader.status().unwrap(), Presence::Missing);
    assert!(reader.search("anything", &Filter::default(), 5).unwrap().is_empty());
    assert!(!file(&dir).exists(), "looking creates nothing");

    let store = store_with_session(&file(&dir)).await;
    store.save_session(SessionRow { title: "other".into(), ..session("s2", 20) }).await.unwrap();
    store.save_turn(turn("t1", "s", 1, "如何配置数据库连接?")).await.unwrap();
    store.append_updates(vec![
        chunk("s", "t1", 1, "Use the pool "),
        chunk("s", "t1", 2, "size of 100% \"exactly\"."),
    ]);
    assert!(reader.search("pool", &Filter::default(), 5).unwrap().is_empty(), "not ended yet");
    store.save_turn(ended(turn("t1", "s", 1, "如何配置数据库连接?"))).await.unwrap();
    store.save_turn(ended(turn("t2", "s", 2, "and the pool?"))).await.unwrap();
    store.save_turn(ended(turn("u1", "s2", 1, "swimming pool"))).await.unwrap();

    let find = |text: &str, filter: &Filter| -> Vec<(String, i64, String)> {
        let hits = reader.search(text, filter, 9).unwrap();
        let mut found: Vec<_> = hits.into_iter().map(|h| (h.session_id, h.turn, h.role)).collect();
        found.sort();
        found
    };
    let any = Filter::default();
    let hit = |s: &str, n, r: &str| (s.to_owned(), n, r.to_owned());
    assert_eq!(find("数据库连接", &any), [hit("s", 1, "user")]);
    assert_eq!(find("连接", &any), [hit("s", 1, "user")]);
    assert_eq!(find("POOL -swim", &any), [hit("s", 1, "agent"), hit("s", 2, "user")]);
    assert_eq!(find("pool of", &any), [hit("s", 1, "agent")]);
    assert_eq!(find("0% OR swimming", &any), [hit("s", 1, "agent"), hit("s2", 1, "user")]);
    let users = Filter { role: Some("user".into()), ..any.clone() };
    assert_eq!(find("pool", &users), [hit("s", 2, "user"), hit("s2", 1, "user")]);
    let late = Filter { since: Some(1600), ..any.clone() };
    assert_eq!(find("pool", &late), [hit("s", 2, "user")]);
    let here = Filter { project: Some("/home/me/p".into()), ..any.clone() };
    assert_eq!(find("pool", &here).len(), 3);
    let nowhere = Filter { project: Some("q".into()), ..any.clone() };
    assert!(find("pool", &nowhere).is_empty());
    assert_eq!(reader.search("pool", &any, 1).unwrap().len(), 1);
    let hits = reader.search("the pool size", &any, 9).unwrap();
    assert_eq!(hits[0].snippet, "Use «the» «pool» «size» of 100% \"exactly\".");
    assert_eq!((hits[0].title.as_str(), hits[0].project.as_str()), ("title of s", "/home/me/p"));
    assert!(matches!(reader.search("\"open", &any, 5), Err(ReadError::Query(_))));

    let said: Vec<_> =
        reader.get("s", 2, 1, 1).unwrap().into_iter().map(|p| (p.turn, p.role)).collect();
    assert_eq!(said, [(1, "user".into()), (1, "agent".into()), (2, "user".into())]);
    assert_eq!(reader.get("s", 2, 0, 9).unwrap().len(), 1);
    assert!(reader.get("none", i64::MAX, 9, u32::MAX).unwrap().is_empty());

    assert!(store.remove_session("s2").await.unwrap());
    assert_eq!(find("swimming", &any), []);
    let expected =
        Extent { projects: 1, sessions: 1, turns: 2, oldest: Some(1000), newest: Some(2000) };
    assert_eq!(reader.status().unwrap(), Presence::Ready(expected));
    store.close().await.unwrap();
    assert_eq!(find("pool", &any).len(), 2);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "a reader leaves nothing");
    assert_eq!(integrity(&file(&dir)), "ok");
    let words = Connection::open(file(&dir)).unwrap();
    words
        .execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)", [])
        .expect("the index and the texts agree");
}

#[tokio::test]
async fn a_reader_answers_while_a_writer_writes_and_cannot_write() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with_session(&file(&dir)).await;
    let mut writer = Connection::open(file(&dir)).unwrap();
    let transaction = begin(&mut writer).unwrap();
    transaction.execute("INSERT INTO settings VALUES ('held', '1')", []).unwrap();
    let reader = Reader::new(file(&dir));
    assert!(matches!(reader.status().unwrap(), Presence::Ready(Extent { sessions: 1, .. })));
    let refused = open::read(
        &file(&dir).canonicalize().unwrap(),
        |_| Ok(()),
        |c| c.execute("INSERT INTO settings VALUES ('x', '1')", []),
    );
    assert!(refused.unwrap_err().to_string().contains("readonly"));
    transaction.rollback().unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn the_last_handle_dropped_closes_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with_session(&file(&dir)).await;
    store.append_updates(vec![chunk("s", "t", 1, "kept")]);
    drop(store);
    let closed = async {
        while dir.path().join("gantry.db-wal").exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), closed).await.expect("closed by itself");
    let store = Store::open(&file(&dir)).unwrap();
    assert_eq!(store.last_seq("s").await.unwrap(), 1);
}
