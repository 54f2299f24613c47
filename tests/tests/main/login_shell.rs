//! What children get from the environment when a desktop, and no terminal, started Gantry.

use gantry_tests::{Instance, Stage, programs};
use serde_json::{Value, json};
use std::{
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    time::Duration,
};
use tokio::process::Command;

/// Only the login shell knows this directory and this variable. It also says things that
/// nobody asked for, and leaves a process behind.
const PROFILE: &str = r#"
echo "Welcome back!"
export PATH="$HOME/.versions/bin:$PATH"
export LOGIN_ONLY="from the login shell"
export HTTPS_PROXY="http://profile:1"
(STUBBORN setsid ignore-term >&2 &)
"#;

fn write(path: &Path, text: &str, mode: u32) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A home with a version manager that only a login shell adds.
fn furnish(stage: &Stage) {
    let home = stage.path("home");
    let stubborn = programs::path("stubborn");
    let profile = PROFILE.replace("STUBBORN", &stubborn.display().to_string());
    write(&home.join(".profile"), &profile, 0o644);
    write(&home.join(".bash_profile"), &profile, 0o644);
    // Like the real one: its own argument, and then the server's.
    let npx = format!("#!/bin/sh\nshift\nexec {} \"$@\"\n", programs::path("fake_mcp").display());
    write(&home.join(".versions/bin/npx"), &npx, 0o755);
    symlink(programs::path("fake_agent"), home.join(".versions/bin/my-agent")).unwrap();
}

/// As a desktop starts programs.
fn from_desktop(command: &mut Command) {
    command.env("PATH", "/usr/bin:/bin").env("SHELL", "/bin/bash");
    for name in ["TERM", "SHLVL", "LOGIN_ONLY", "HTTPS_PROXY"] {
        command.env_remove(name);
    }
}

async fn save(instance: &Instance, name: &str, config: Value) {
    let mut config = config;
    config["persistent"] = json!(true);
    config["enabled"] = json!(true);
    instance.api("servers_save", json!({ "name": name, "config": config })).await;
}

/// What a tool of a server answers.
async fn call(instance: &Instance, server: &str, tool: &str, arguments: Value) -> String {
    let input = json!({ "name": server, "tool": tool, "arguments": arguments });
    let result = instance.api("servers_call", input).await;
    result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

async fn variable(instance: &Instance, server: &str, name: &str) -> String {
    call(instance, server, "env", json!({ "name": name })).await
}

const BOUND: Duration = Duration::from_secs(15);

/// Cases 51, 52, 54 and 56.
#[tokio::test]
async fn a_desktop_start_finds_what_the_login_shell_finds() {
    let stage = Stage::shared().await;
    furnish(&stage);
    let mut instance = Instance::start_with(&stage, from_desktop).await;
    // The shell was asked, and nothing that it started is left.
    assert!(stage.running("stubborn").is_empty() && stage.running("bash").is_empty());

    let odd = "a b \"c\" 'd' & % $HOME ` \\ \n网页";
    let config = json!({ "command": "npx", "args": ["-y", "--label", odd],
                         "env": { "KEY": "${env:LOGIN_ONLY}", "OWN": "mine" } });
    save(&instance, "versioned", config).await;
    instance.server_in("versioned", "ready", BOUND).await;
    let args = call(&instance, "versioned", "args", json!({})).await;
    assert_eq!(serde_json::from_str::<Value>(&args).unwrap(), json!(["--label", odd]));
    assert_eq!(variable(&instance, "versioned", "KEY").await, "from the login shell");
    assert_eq!(variable(&instance, "versioned", "LOGIN_ONLY").await, "from the login shell");
    assert_eq!(variable(&instance, "versioned", "HTTPS_PROXY").await, "http://profile:1");
    assert_eq!(variable(&instance, "versioned", "OWN").await, "mine");
    let path = variable(&instance, "versioned", "PATH").await;
    assert!(path.starts_with(&stage.text("home/.versions/bin")), "{path}");
    assert!(path.ends_with("/bin") && path.matches("/usr/bin").count() == 1, "{path}");

    // The agent, too, is found by its name alone.
    let request = json!({ "project_id": "p", "prompt": "ENV LOGIN_ONLY",
        "agent_config": { "agent_server": { "agent_id": "mine", "command": "my-agent" } } });
    let (_, text) = instance.turn(request, BOUND).await;
    assert_eq!(text.trim(), "from the login shell");

    // What is missing is named with where it was looked for, and where it comes from.
    save(&instance, "missing", json!({ "command": "bunx", "args": ["x"] })).await;
    let missing = instance.server_in("missing", "failed", BOUND).await;
    let error = missing["error"].as_str().unwrap_or_default();
    for part in ["`bunx`", "/.versions/bin", "install Bun"] {
        assert!(error.contains(part), "{part}: {error}");
    }

    // What is set nowhere is never sent as it stands.
    let config =
        json!({ "command": "npx", "args": ["-y"], "env": { "KEY": "${env:SET_NOWHERE}" } });
    save(&instance, "unset", config).await;
    let unset = instance.server_in("unset", "failed", BOUND).await;
    let error = unset["error"].as_str().unwrap_or_default();
    assert!(error.contains("env.KEY") && error.contains("SET_NOWHERE"), "{error}");
    assert_eq!(unset["pid"], Value::Null);

    instance.quit().await;
    stage.finish().await;
}

/// Each has its own start-up files, its own syntax and its own ideas of `-l` and `-c`.
#[tokio::test]
async fn every_login_shell_is_understood() {
    let posix =
        "echo Welcome\nexport PATH=\"$HOME/.versions/bin:$PATH\"\nexport LOGIN_ONLY=\"$0 it's\"\n";
    let csh =
        "echo Welcome\nsetenv PATH \"$HOME/.versions/bin:$PATH\"\nsetenv LOGIN_ONLY \"$0 it's\"\n";
    let fish =
        "echo Welcome\nset -gx PATH $HOME/.versions/bin $PATH\nset -gx LOGIN_ONLY \"it's\"\n";
    let shells = [
        ("bash", ".bash_profile", posix),
        ("dash", ".profile", posix),
        // What an interactive shell reads, where most version managers write.
        ("zsh", ".zshrc", posix),
        ("tcsh", ".tcshrc", csh),
        ("tcsh", ".login", csh),
        ("fish", ".config/fish/config.fish", fish),
    ];
    for (name, file, text) in shells {
        let Some(shell) = program_of(name) else {
            println!("not run: there is no {name} here");
            continue;
        };
        let stage = Stage::shared().await;
        furnish(&stage);
        for other in [".profile", ".bash_profile"] {
            std::fs::remove_file(stage.path("home").join(other)).unwrap();
        }
        write(&stage.path("home").join(file), text, 0o644);
        let mut instance = Instance::start_with(&stage, |command| {
            from_desktop(command);
            command.env("SHELL", &shell);
        })
        .await;
        save(&instance, "versioned", json!({ "command": "npx", "args": ["-y"] })).await;
        let server = instance.server_in("versioned", "ready", BOUND).await;
        let value = variable(&instance, "versioned", "LOGIN_ONLY").await;
        assert!(value.ends_with("it's"), "{name} {file}: {value:?} {server}\n{}", instance.log());
        let path = variable(&instance, "versioned", "PATH").await;
        assert!(path.starts_with(&stage.text("home/.versions/bin:")), "{name} {file}: {path}");
        assert!(path.split(':').any(|entry| entry == "/usr/bin"), "{name} {file}: {path}");
        instance.quit().await;
        stage.finish().await;
    }
}

fn program_of(name: &str) -> Option<std::path::PathBuf> {
    let folders = ["/bin", "/usr/bin", "/usr/local/bin"];
    folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
}

/// Launcher leftovers go, the user's own stays, and the server's own `env` wins.
#[tokio::test]
async fn children_get_the_users_environment_and_not_the_launchers() {
    let stage = Stage::shared().await;
    furnish(&stage);
    let mount = "/tmp/.mount_gantryX";
    let mut instance = Instance::start_with(&stage, |command| {
        from_desktop(command);
        command
            .env("APPDIR", mount)
            .env("APPIMAGE", "/home/u/Gantry.AppImage")
            .env("LD_LIBRARY_PATH", format!("{mount}/usr/lib"))
            .env("PYTHONHOME", format!("{mount}/usr"))
            .env("PYTHONPATH", format!("{mount}/py:/home/u/py"))
            .env("GTK_PATH", format!("{mount}/gtk"))
            .env("PATH", format!("{mount}/usr/bin:/usr/bin:/bin"))
            .env("NODE_EXTRA_CA_CERTS", "/etc/ca.pem")
            .env("HTTPS_PROXY", "http://own:2")
            .env("USERS_OWN", "kept");
    })
    .await;
    let mut config = programs::fake_mcp(&[]);
    config["env"] = json!({ "LOGIN_ONLY": "explicit", "USERS_OWN": "" });
    save(&instance, "explicit", config).await;
    save(&instance, "plain", programs::fake_mcp(&[])).await;
    for name in ["explicit", "plain"] {
        instance.server_in(name, "ready", BOUND).await;
    }
    for (name, expected) in [
        ("APPDIR", ""),
        ("APPIMAGE", ""),
        ("LD_LIBRARY_PATH", ""),
        ("PYTHONHOME", ""),
        ("PYTHONPATH", "/home/u/py"),
        ("GTK_PATH", ""),
        ("NODE_EXTRA_CA_CERTS", "/etc/ca.pem"),
        // Ours, although the login shell's profile sets it, too.
        ("HTTPS_PROXY", "http://own:2"),
        ("USERS_OWN", "kept"),
        ("LOGIN_ONLY", "from the login shell"),
    ] {
        assert_eq!(variable(&instance, "plain", name).await, expected, "{name}");
    }
    assert!(!variable(&instance, "plain", "PATH").await.contains(mount));
    assert_eq!(variable(&instance, "explicit", "LOGIN_ONLY").await, "explicit");
    assert_eq!(variable(&instance, "explicit", "USERS_OWN").await, "");
    instance.quit().await;
    stage.finish().await;
}

#[tokio::test]
async fn a_login_shell_that_hangs_delays_the_start_and_nothing_else() {
    let stage = Stage::shared().await;
    let shell = stage.path("shell");
    let stubborn = programs::path("stubborn");
    let text = format!(
        "#!/bin/sh\n{0} daemon setsid ignore-term\nexec {0} ignore-term\n",
        stubborn.display()
    );
    write(&shell, &text, 0o755);
    let mut instance = Instance::start_with(&stage, |command| {
        from_desktop(command);
        command.env("SHELL", &shell);
    })
    .await;
    // Two and a half seconds, and what a busy machine adds.
    assert!(instance.started_in < Duration::from_secs(8), "{:?}", instance.started_in);
    assert!(instance.log().contains("did not answer"), "{}", instance.log());
    assert!(stage.running("stubborn").is_empty());
    save(&instance, "own", programs::fake_mcp(&[])).await;
    instance.server_in("own", "ready", BOUND).await;
    instance.quit().await;
    stage.finish().await;
}

/// A start-up file that writes megabytes before the answer, or without an end.
#[tokio::test]
async fn a_login_shell_that_floods_delays_no_start() {
    let stage = Stage::shared().await;
    let shell = stage.path("shell");
    for (text, is_answer) in [("yes | head -c 10000000; exec /bin/sh \"$@\"", true), ("yes", false)]
    {
        write(&shell, &format!("#!/bin/sh\n{text}\n"), 0o755);
        let mut instance = Instance::start_with(&stage, |command| {
            from_desktop(command);
            command.env("SHELL", &shell);
        })
        .await;
        assert!(instance.started_in < Duration::from_secs(8), "{:?}", instance.started_in);
        let log = instance.log();
        assert_eq!(log.contains("environment is used"), is_answer, "{log}");
        assert!(stage.running("yes").is_empty());
        instance.quit().await;
    }
    stage.finish().await;
}

#[tokio::test]
async fn a_start_from_a_terminal_asks_no_shell() {
    let stage = Stage::shared().await;
    furnish(&stage);
    for change in [("TERM", "xterm"), ("GANTRY_LOGIN_SHELL", "no")] {
        let mut instance = Instance::start_with(&stage, |command| {
            from_desktop(command);
            command.env("SHLVL", "1").env(change.0, change.1);
        })
        .await;
        save(&instance, "own", programs::fake_mcp(&[])).await;
        instance.server_in("own", "ready", BOUND).await;
        assert_eq!(variable(&instance, "own", "LOGIN_ONLY").await, "", "{change:?}");
        assert_eq!(variable(&instance, "own", "PATH").await, "/usr/bin:/bin", "{change:?}");
        instance.quit().await;
    }
    stage.finish().await;
}
