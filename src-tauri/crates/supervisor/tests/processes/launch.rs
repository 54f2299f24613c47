//! What a launched program gets, and what a caller hears when it cannot be launched.

use crate::world::{LIMIT, World, echo, script, soon, until};
use gantry_supervisor::{
    COOKIE_VARIABLE, Cause, Cookie, Exit, LaunchError, ProcessId, Role, table::Table,
};
use std::{
    ffi::OsString, os::unix::ffi::OsStringExt, os::unix::fs::PermissionsExt, time::Duration,
};
use tokio::io::AsyncReadExt;

#[tokio::test(flavor = "multi_thread")]
async fn arguments_arrive_byte_for_byte() {
    let world = World::new();
    let args = ["a b", "", "'q\"", "&%$HOME", "two\nlines", "网页", "-x"];
    let mut launch = script("for one; do printf '%s\\0' \"$one\"; done");
    launch.args.push("sh".into());
    launch.args.extend(args.iter().map(OsString::from));
    launch.args.push(OsString::from_vec(vec![0xff, 0xfe]));
    let mut child = world.supervisor.launch(launch).await.expect("starts");
    let mut output = Vec::new();
    child.stdout.read_to_end(&mut output).await.expect("reads");
    let mut expected: Vec<u8> =
        args.iter().flat_map(|arg| [arg.as_bytes(), b"\0"].concat()).collect();
    expected.extend([0xff, 0xfe, 0]);
    assert_eq!(output, expected);
    assert_eq!(child.tree.exited().await, Exit::Code(0));
    child.tree.stop(Cause::Unused, soon(LIMIT)).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn environment_directory_and_cookie() {
    let world = World::new();
    let folder = tempfile::tempdir().expect("a folder");
    let mut launch = script("pwd; echo $GREETING; echo $GANTRY_TREE; echo $HOME");
    launch.name = "Fetch 网页 a/b".into();
    launch.role = Role::Engine;
    launch.cwd = Some(folder.path().to_owned());
    launch.env = vec![("GREETING".into(), "hello".into()), ("HOME".into(), "/elsewhere".into())];
    launch.env.push((COOKIE_VARIABLE.into(), "not.mine".into()));
    let mut child = world.supervisor.launch(launch).await.expect("starts");
    let mut output = String::new();
    child.stdout.read_to_string(&mut output).await.expect("reads");
    let lines: Vec<&str> = output.lines().collect();
    let folder = folder.path().canonicalize().expect("a path");
    assert_eq!(lines[0], folder.to_str().unwrap());
    assert_eq!((lines[1], lines[3]), ("hello", "/elsewhere"));
    let cookie: Cookie = lines[2].parse().expect("a cookie");
    assert_eq!(cookie.owner, ProcessId::current());
    assert_eq!(cookie.tree, child.tree.id());
    assert_eq!((child.tree.name(), child.tree.role()), ("Fetch 网页 a/b", Role::Engine));
    assert!(child.tree.executable().is_absolute());
    child.tree.stop(Cause::Unused, soon(LIMIT)).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_are_as_a_program_expects_them() {
    let world = World::new();
    let read = async |text: &str| {
        let mut child = world.supervisor.launch(script(text)).await.expect("starts");
        let mut output = String::new();
        child.stdout.read_to_string(&mut output).await.expect("reads");
        child.tree.stop(Cause::Unused, soon(LIMIT)).await;
        output
    };
    let output = read("exec cat /proc/self/status").await;
    let field = |name: &str| {
        let line = output.lines().find(|line| line.starts_with(name)).expect("a field");
        u64::from_str_radix(line[name.len()..].trim(), 16).expect("a mask")
    };
    // The C library ignores its own two, 32 and 33, in whatever it spawns.
    assert_eq!((field("SigBlk:"), field("SigIgn:") & 0x7fff_ffff), (0, 0));
    // 0, 1, 2 and the one that `ls` opens: nothing of ours leaks into a program.
    let output = read("exec ls -l /proc/self/fd").await;
    assert_eq!(output.lines().filter(|line| line.contains(" -> ")).count(), 4, "{output}");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_of_stream_are_seen_both_ways() {
    for world in [World::new(), World::without_wardens()] {
        // Closes its output and lives on.
        let mut child = world.start("exec >&-; sleep MARK; :", 1).await;
        let mut output = Vec::new();
        child.stdout.read_to_end(&mut output).await.expect("reads");
        assert_eq!(output, b"");
        assert_eq!(child.tree.exit(), None);
        child.tree.stop(Cause::Unused, soon(Duration::from_secs(2))).await;

        // Dropping the input ends a program that waits for it.
        let mut child = world.start("cat; : MARK", 0).await;
        echo(&mut child).await;
        drop(child.stdin);
        assert_eq!(child.tree.exited().await, Exit::Code(0));
        assert!(until(LIMIT, || world.supervisor.trees().is_empty()).await);
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn how_a_program_ended_is_known() {
    for world in [World::new(), World::without_wardens()] {
        for (text, exit) in [
            ("exit 0", Exit::Code(0)),
            ("exit 42", Exit::Code(42)),
            ("kill -9 $$", Exit::Signal(9)),
            ("kill -TERM $$", Exit::Signal(15)),
        ] {
            let child = world.supervisor.launch(script(text)).await.expect("starts");
            assert_eq!(child.tree.exited().await, exit, "{text}");
            assert_eq!(child.tree.exit(), Some(exit));
        }
        assert!(until(LIMIT, || world.supervisor.trees().is_empty()).await);
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_words_of_a_program_are_kept() {
    let world = World::new();
    let text =
        "echo first >&2; printf 'no key: set KEY\\r\\n' >&2; printf '\\377 unfinished' >&2; exit 1";
    let child = world.supervisor.launch(script(text)).await.expect("starts");
    child.tree.exited().await;
    assert!(until(LIMIT, || child.stderr.seen() == 3).await);
    assert_eq!(child.stderr.lines(2), ["no key: set KEY", "\u{fffd} unfinished"]);
    assert_eq!(child.stderr.since(2), (vec!["\u{fffd} unfinished".to_owned()], 3));
    assert!(!child.stderr.grown(3).await);
    assert!(until(LIMIT, || world.supervisor.trees().is_empty()).await);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_says_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("writes");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("chmod");
        path
    };
    let plain = file("plain", "x", 0o644);
    let orphan = file("orphan", "#!/no/such/interpreter\n", 0o755);
    for world in [World::new(), World::without_wardens()] {
        let refused = async |program: OsString, cwd: Option<&str>| {
            let mut launch = script("");
            (launch.program, launch.args) = (program, Vec::new());
            launch.cwd = cwd.map(Into::into);
            launch.env = vec![("PATH".into(), "/some/where:/else".into())];
            world.supervisor.launch(launch).await.expect_err("must be refused")
        };
        let error = refused("no-such-program".into(), None).await;
        assert!(matches!(error, LaunchError::NotFound { .. }), "{error:?}");
        assert!(error.to_string().contains("/some/where:/else"), "{error}");
        let error = refused("/bin/sh".into(), Some("/no/such/folder")).await;
        assert!(matches!(error, LaunchError::NoDirectory(_)), "{error:?}");
        let error = refused(plain.clone().into(), None).await;
        assert!(error.to_string().contains("chmod +x"), "{error}");
        let error = refused(orphan.clone().into(), None).await;
        assert!(error.to_string().contains("interpreter"), "{error}");
        assert!(until(LIMIT, || world.supervisor.trees().is_empty()).await);
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_that_nobody_waits_for_leaves_nothing() {
    let world = World::new();
    for delay in 0..20 {
        let launch = script(&format!("trap '' TERM; sleep {}; :", world.mark));
        let wait = Duration::from_micros(delay * 300);
        // Whether it was done by then or not, nobody holds the tree any more.
        drop(tokio::time::timeout(wait, world.supervisor.launch(launch)).await);
    }
    assert!(
        until(LIMIT, || world.marked().is_empty() && world.supervisor.trees().is_empty()).await
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_shows_the_tree() {
    let world = World::new();
    let child =
        world.start("(env -i setsid sleep MARK &); (while :; do :; done) & sleep MARK; :", 2).await;
    let mut table = Table::default();
    table.read();
    assert!(until(LIMIT, || child.tree.members().len() == 4).await);
    let busy = || {
        let rows = table.read();
        let ours: Vec<_> = child.tree.members();
        let rows: Vec<_> = rows.into_iter().filter(|row| ours.contains(&row.id)).collect();
        rows.len() == 4 && rows.iter().any(|row| row.cpu > 10.0)
    };
    assert!(until(LIMIT, busy).await);
    let rows = table.read();
    let row = |id| rows.iter().find(|row| row.id == id).expect("a row");
    let (program, warden) = (child.tree.program(), child.tree.warden().expect("a warden"));
    assert_eq!(row(program).parent, warden.pid);
    assert_eq!(row(program).cookie.as_ref().map(|cookie| &*cookie.tree), Some(child.tree.id()));
    assert_eq!(row(warden).name, "gantry-warden");
    // The one that cleared its environment is known by its stamp, which has no name.
    let unnamed =
        |cookie: &Cookie| cookie.tree != child.tree.id() && child.tree.is_marked_by(cookie);
    let mut of_ours = rows.iter().filter(|row| row.command.contains(&world.mark));
    assert!(of_ours.any(|row| row.cookie.as_ref().is_some_and(unnamed)));
    child.tree.stop(Cause::Unused, soon(Duration::from_secs(2))).await;
    world.finish().await;
}
