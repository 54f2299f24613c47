//! A running `gantry-desktop`, its window, and WebDriver into its web view.

use crate::{
    Stage,
    api::Api,
    census,
    instance::{ended, ended_cleanly},
    stage::artifacts,
    wait_until,
};
use fantoccini::{
    Client, ClientBuilder, Locator, elements::Element, error::CmdError, wd::Capabilities,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    ops::Deref,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

/// Longest wait for anything that is not said to take time.
pub const BOUND: Duration = Duration::from_secs(20);

/// A running `gantry-desktop`. Killed when dropped.
pub struct Desktop {
    child: Child,
    /// Of the program.
    pub pid: u32,
    api: Api,
    log: PathBuf,
}

impl Deref for Desktop {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

fn command(stage: &Stage, program: &str) -> Command {
    let mut command =
        if program == "WebKitWebDriver" { stage.command(program) } else { stage.program(program) };
    command.env("NO_AT_BRIDGE", "1").env("GANTRY_DATA_DIR", stage.data_dir());
    command.stdin(Stdio::null());
    command
}

fn log_into(command: &mut Command, log: &Path) {
    let file = std::fs::File::create(log).unwrap_or_else(|why| panic!("{why}"));
    let other = file.try_clone().unwrap_or_else(|why| panic!("{why}"));
    command.stdout(file).stderr(other);
}

/// Where a desktop program on the stage's data directory listens, once it does.
async fn listener(stage: &Stage, log: &Path) -> (u32, Api) {
    let run = stage.data_dir().join("run");
    let found = wait_until("the desktop program listens", BOUND, async || {
        let facts = std::fs::read_to_string(run.join("instance.json")).ok()?;
        let facts: Value = serde_json::from_str(&facts).ok()?;
        let pid = u32::try_from(facts["pid"].as_u64()?).ok()?;
        let token = std::fs::read_to_string(run.join("token")).ok()?;
        let url = facts["url"].as_str()?.to_owned();
        census::row(pid).map(|_| (pid, Api::new(&url, &token)))
    });
    tokio::select! {
        found = found => found,
        () = async {
            tokio::time::sleep(BOUND - Duration::from_secs(1)).await;
            eprintln!("the log:\n{}", read(log));
            std::future::pending().await
        } => unreachable!(),
    }
}

/// The id of a program's visible window, as the window manager lists it.
pub async fn window_of(pid: u32) -> Option<String> {
    let list = Command::new("wmctrl").arg("-lp").output().await.ok()?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    list.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let id = fields.next()?;
        (fields.nth(1)? == pid.to_string()).then(|| id.to_owned())
    })
}

/// Closes a program's window as its X button does.
///
/// # Panics
/// When there is no window, or `wmctrl` fails.
pub async fn close_window_of(pid: u32) {
    let window = window_of(pid).await.unwrap_or_else(|| panic!("no window to close"));
    let closed = Command::new("wmctrl").args(["-ic", &window]).status().await;
    assert!(closed.is_ok_and(|status| status.success()), "wmctrl failed");
}

async fn knows_the_tray_host(log: &Path) {
    let what = "it knows the tray host";
    wait_until(what, BOUND, async || read(log).contains("host=true").then_some(())).await;
}

/// Waits until a program shows no window.
///
/// # Panics
/// When it still does after 20 s.
pub async fn hidden(pid: u32) {
    let what = "the window is hidden";
    wait_until(what, BOUND, async || window_of(pid).await.is_none().then_some(())).await;
}

/// Waits until a program shows its window.
///
/// # Panics
/// When it does not within 20 s.
pub async fn shown(pid: u32) {
    wait_until("the window is there", BOUND, async || window_of(pid).await).await;
}

impl Desktop {
    /// Starts it on the stage's data directory and waits for its window.
    ///
    /// # Panics
    /// When there is none within 20 s.
    pub async fn start(stage: &Stage) -> Self {
        let desktop = Self::start_with(stage, |_| {}).await;
        shown(desktop.pid).await;
        desktop
    }

    /// Starts it with further arguments or variables and waits until it listens.
    ///
    /// # Panics
    /// When it does not within 20 s.
    pub async fn start_with(stage: &Stage, change: impl FnOnce(&mut Command)) -> Self {
        let log = stage.path("desktop.log");
        let mut command = command(stage, "gantry-desktop");
        change(&mut command);
        log_into(&mut command, &log);
        let child = command.spawn().unwrap_or_else(|why| panic!("gantry-desktop: {why}"));
        let pid = child.id().unwrap_or_default();
        stage.owns(pid);
        let (found, api) = listener(stage, &log).await;
        assert_eq!(found, pid, "instance.json names another process");
        Self { child, pid, api, log }
    }

    /// Starts a second one on the same data directory and returns how it ended.
    ///
    /// # Panics
    /// When it does not end within 10 s.
    pub async fn start_again(stage: &Stage) -> ExitStatus {
        let log = stage.path("desktop-again.log");
        let mut command = command(stage, "gantry-desktop");
        log_into(&mut command, &log);
        let mut child = command.spawn().unwrap_or_else(|why| panic!("gantry-desktop: {why}"));
        ended(&mut child, &log, Duration::from_secs(10)).await.0
    }

    /// The id of the visible window, as the window manager lists it.
    pub async fn window(&self) -> Option<String> {
        window_of(self.pid).await
    }

    /// Closes the window as its X button does.
    ///
    /// # Panics
    /// When there is no window, or `wmctrl` fails.
    pub async fn close_window(&self) {
        close_window_of(self.pid).await;
    }

    /// Waits until it knows that something shows its tray icon: the answer is in its log.
    ///
    /// # Panics
    /// When it does not within 20 s.
    pub async fn knows_the_tray_host(&self) {
        knows_the_tray_host(&self.log).await;
    }

    /// Puts the window into the tray, as somebody does who has chosen that for the X.
    ///
    /// # Panics
    /// When it does not go there within 20 s.
    pub async fn hide_in_the_tray(&self) {
        self.knows_the_tray_host().await;
        self.api("settings_set", json!({ "on_close": "tray" })).await;
        self.close_window().await;
        hidden(self.pid).await;
    }

    /// Presses keys in the window.
    ///
    /// # Panics
    /// When there is no window, or `xdotool` fails.
    pub async fn press(&self, keys: &str) {
        let window = self.window().await.unwrap_or_else(|| panic!("no window for {keys}"));
        let pressed = Command::new("xdotool")
            .args(["windowactivate", "--sync", &window, "key", "--clearmodifiers", keys])
            .status()
            .await;
        assert!(pressed.is_ok_and(|status| status.success()), "xdotool failed");
    }

    /// What it wrote so far.
    pub fn log(&self) -> String {
        read(&self.log)
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        census::signal(self.pid, signal);
    }

    /// Waits for the end of the program.
    ///
    /// # Panics
    /// When it has not ended after `bound`.
    pub async fn ended(&mut self, bound: Duration) -> (ExitStatus, Duration) {
        ended(&mut self.child, &self.log, bound).await
    }

    /// Waits for the clean end that something has begun.
    ///
    /// # Panics
    /// When it does not come.
    pub async fn ended_cleanly(&mut self) -> Duration {
        ended_cleanly(&mut self.child, &self.log).await
    }
}

/// A picture of the whole display, kept as an artifact.
///
/// # Panics
/// When none can be taken.
pub async fn picture(stage: &Stage, name: &str) {
    let file = stage.path(format!("{name}.png"));
    let taken = Command::new("import").args(["-window", "root"]).arg(&file).status().await;
    assert!(taken.is_ok_and(|status| status.success()), "no picture of the display");
    stage.keep(&file);
}

/// WebDriver into the window of a desktop program that it starts.
pub struct Driver {
    driver: Child,
    client: Client,
    /// Of the desktop program.
    pub pid: u32,
    /// Its listener.
    pub api: Api,
    log: PathBuf,
}

impl Driver {
    /// Starts the driver and through it the desktop program.
    ///
    /// # Panics
    /// When the window does not open.
    pub async fn start(stage: &Stage, change: impl FnOnce(&mut Command)) -> Self {
        let log = stage.path("desktop.log");
        let port = free_port();
        let mut command = command(stage, "WebKitWebDriver");
        command.arg(format!("--port={port}")).arg("--host=127.0.0.1");
        command.env("TAURI_WEBVIEW_AUTOMATION", "true");
        change(&mut command);
        log_into(&mut command, &log);
        let driver = command.spawn().unwrap_or_else(|why| panic!("WebKitWebDriver: {why}"));
        wait_until("the driver listens", BOUND, async || {
            tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()
        })
        .await;
        let mut capabilities = Capabilities::new();
        let program = crate::programs::path("gantry-desktop");
        capabilities.insert(
            "webkitgtk:browserOptions".to_owned(),
            json!({ "binary": program, "args": ["--data-dir", stage.data_dir()] }),
        );
        let mut builder =
            ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new());
        builder.capabilities(capabilities);
        let address = format!("http://127.0.0.1:{port}");
        let client = tokio::time::timeout(BOUND, builder.connect(&address)).await;
        let client = match client {
            Ok(Ok(client)) => client,
            Ok(Err(why)) => panic!("no session: {why}; the log:\n{}", read(&log)),
            Err(_) => panic!("no session within {BOUND:?}; the log:\n{}", read(&log)),
        };
        let (pid, api) = listener(stage, &log).await;
        stage.owns(pid);
        // The tests are about what comes after the first steps.
        api.api("settings_set", json!({ "introduced": true })).await;
        Self { driver, client, pid, api, log }
    }

    /// What the desktop program wrote so far.
    pub fn log(&self) -> String {
        read(&self.log)
    }

    /// See [`Desktop::knows_the_tray_host`].
    ///
    /// # Panics
    /// As there.
    pub async fn knows_the_tray_host(&self) {
        knows_the_tray_host(&self.log).await;
    }

    /// The elements with this `data-testid`, further narrowed by attributes.
    pub async fn all(&self, id: &str) -> Vec<Element> {
        let css = match id.split_once('[') {
            Some((id, rest)) => format!("[data-testid='{id}'][{rest}"),
            None => format!("[data-testid='{id}']"),
        };
        self.client.find_all(Locator::Css(&css)).await.unwrap_or_default()
    }

    /// The last visible element with this `data-testid`.
    ///
    /// # Panics
    /// When there is none within 20 s.
    pub async fn see(&self, id: &str) -> Element {
        self.see_within(id, BOUND).await
    }

    /// The same with another bound.
    ///
    /// # Panics
    /// When there is none within `bound`.
    pub async fn see_within(&self, id: &str, bound: Duration) -> Element {
        let what = format!("{id} is visible");
        let looking = wait_until(&what, bound, async || {
            for element in self.all(id).await.into_iter().rev() {
                if element.is_displayed().await.unwrap_or(false) {
                    return Some(element);
                }
            }
            None
        });
        // A little earlier than the wait gives up, so that one can see why.
        let picture = async {
            tokio::time::sleep(bound.mul_f32(0.9)).await;
            let file = artifacts().join("not-seen.png");
            let _ = std::fs::create_dir_all(artifacts());
            let _ = Command::new("import").args(["-window", "root"]).arg(file).status().await;
            std::future::pending().await
        };
        tokio::select! { element = looking => element, never = picture => never }
    }

    /// Clicks it.
    ///
    /// # Panics
    /// When it cannot be clicked.
    pub async fn click(&self, id: &str) {
        let element = self.see(id).await;
        within(&format!("click on {id}"), element.click()).await;
    }

    /// Replaces the text of a field.
    ///
    /// # Panics
    /// When it is no field.
    pub async fn fill(&self, id: &str, text: &str) {
        let element = self.see(id).await;
        within(&format!("clear {id}"), element.clear()).await;
        within(&format!("type into {id}"), element.send_keys(text)).await;
    }

    /// Types a prompt and sends it with Enter.
    ///
    /// # Panics
    /// When there is no composer.
    pub async fn say(&self, text: &str) {
        self.fill("composer", text).await;
        let enter = char::from(fantoccini::key::Key::Enter).to_string();
        let composer = self.see("composer").await;
        within("Enter", composer.send_keys(&enter)).await;
    }

    /// Waits until the text of an element satisfies `wanted`, and returns it.
    ///
    /// # Panics
    /// When it does not within `bound`.
    pub async fn text(&self, id: &str, bound: Duration, wanted: impl Fn(&str) -> bool) -> String {
        wait_until(&format!("the text of {id}"), bound, async || {
            for element in self.all(id).await.into_iter().rev() {
                if let Some(text) = element.text().await.ok().filter(|text| wanted(text)) {
                    return Some(text);
                }
            }
            None
        })
        .await
    }

    /// What a script in the page returns.
    ///
    /// # Panics
    /// When it throws.
    pub async fn script(&self, text: &str) -> Value {
        within("script", self.client.execute(text, Vec::new())).await
    }

    /// Keeps a picture of the page as an artifact.
    ///
    /// # Panics
    /// When none can be taken.
    pub async fn picture(&self, stage: &Stage, name: &str) {
        let png = within("screenshot", self.client.screenshot()).await;
        let file = stage.path(format!("{name}.png"));
        std::fs::write(&file, png).unwrap_or_else(|why| panic!("{why}"));
        stage.keep(&file);
    }

    /// Waits until the desktop program has ended cleanly, then ends the driver.
    ///
    /// # Panics
    /// When it takes more than the five seconds, or the log does not end as it should.
    pub async fn ended_cleanly(mut self, stage: &Stage) {
        wait_until("the desktop program has ended", Duration::from_millis(5200), async || {
            census::row(self.pid).is_none().then_some(())
        })
        .await;
        let log = read(&self.log);
        assert!(log.contains("Cleanup complete, exiting"), "{log}");
        let driver = self.driver.id().unwrap_or_default();
        stage.empty_but(&[driver], Duration::from_secs(2)).await;
        // The session is gone with the program; asking the driver to end it would hang.
        let _ = self.driver.kill().await;
    }
}

/// A WebDriver command that succeeds in time.
async fn within<T>(what: &str, command: impl Future<Output = Result<T, CmdError>>) -> T {
    match tokio::time::timeout(BOUND, command).await {
        Ok(Ok(value)) => value,
        Ok(Err(why)) => panic!("{what}: {why}"),
        Err(_) => panic!("{what}: no answer within {BOUND:?}"),
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.unwrap_or_else(|why| panic!("no free port: {why}")).port()
}

fn read(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_default()
}

/// A display of its own, without a window manager. Ended when dropped.
pub struct Display {
    server: Child,
    /// For `DISPLAY`.
    pub name: String,
}

impl Display {
    /// # Panics
    /// When Xvfb does not start.
    pub async fn start(stage: &Stage) -> Self {
        let mut command = stage.command("Xvfb");
        command.args(["-displayfd", "1", "-screen", "0", "1280x800x24", "-nolisten", "tcp"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().unwrap_or_else(|why| panic!("Xvfb: {why}"));
        let output = server.stdout.take().unwrap_or_else(|| panic!("no stdout"));
        let mut line = String::new();
        let mut output = BufReader::new(output);
        let read = tokio::time::timeout(BOUND, output.read_line(&mut line)).await;
        assert!(matches!(read, Ok(Ok(1..))), "Xvfb named no display");
        Self { server, name: format!(":{}", line.trim()) }
    }

    /// # Panics
    /// When it is gone already.
    pub async fn kill(&mut self) {
        self.server.kill().await.unwrap_or_else(|why| panic!("Xvfb: {why}"));
    }
}
