//! What the bridge costs, against the direct way, in one run: `cargo xtask bench bridge`.
//!
//! Three ways are measured in turn, round by round, so that a busy moment of the machine
//! hits all of them: the server's own pipes (*direct*), a bare HTTP echo of the same size in a
//! process of its own (*echo*), and the server behind its bridge URL (*bridge*). Figures are
//! medians over the rounds. The ratios are what counts; the times are this machine's. With
//! `--check` a ratio over its limit fails the run.

#![allow(clippy::disallowed_methods, reason = "it starts the programs that it measures")]

mod light;

use gantry_tests::{
    Instance, McpClient, Stage, api,
    figures::{Report, median, private_mib, processor_seconds, status_mib},
    npm, programs, wait_until,
};
use light::Light;
use serde_json::{Value, json};
use std::{
    future::Future,
    io::{BufRead, BufReader},
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::sync::Mutex;

/// Set in the process that is the echo.
const ECHO: &str = "GANTRY_BENCH_ECHO";
const ROUNDS: usize = 9;
const CALLS: usize = 300;
const CALLERS: usize = 16;
const CALLS_EACH: usize = 40;
/// Of a server that has to get warm first, and that collects its garbage when it likes.
const REAL_CALLS_EACH: usize = 150;
/// What a call costs a server that does something, in microseconds: a tenth of a millisecond.
const WORK: u64 = 100;
const SERVERS: usize = 8;
const BIG: u64 = 20 << 20;
const BOUND: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() {
    if std::env::var_os(ECHO).is_some() {
        return echo().await;
    }
    let stage = Stage::alone().await;
    let mut report = Report::default();
    let ways = Ways::open(&stage).await;
    latency(&ways, &mut report).await;
    throughput(&ways, &mut report).await;
    working_throughput(&ways, &mut report).await;
    real_throughput(&stage, &ways.instance, &mut report).await;
    ways.close(&stage).await;
    readiness(&stage, &mut report).await;
    memory(&stage, &mut report).await;
    large(&stage, &mut report).await;
    stage.finish().await;
    report.print();
    if std::env::args().any(|arg| arg == "--check") && report.over() > 0 {
        std::process::exit(1);
    }
}

/// The three ways to 1 kB and back.
struct Ways {
    direct: McpClient,
    server: tokio::process::Child,
    echo: (reqwest::Client, String),
    echo_server: std::process::Child,
    bridge: Vec<McpClient>,
    instance: Instance,
}

impl Ways {
    async fn open(stage: &Stage) -> Self {
        let mut command = stage.program("fake_mcp");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn().unwrap_or_else(|why| panic!("fake_mcp: {why}"));
        let (Some(input), Some(output)) = (server.stdin.take(), server.stdout.take()) else {
            panic!("no pipes");
        };
        let direct = McpClient::stdio(input, output).await.unwrap_or_else(|why| panic!("{why:#}"));

        let this = std::env::current_exe().unwrap_or_else(|why| panic!("{why}"));
        let mut command = std::process::Command::new(this);
        command.env(ECHO, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut echo_server = command.spawn().unwrap_or_else(|why| panic!("echo: {why}"));
        let mut url = String::new();
        let output = echo_server.stdout.take().unwrap_or_else(|| panic!("no output"));
        BufReader::new(output).read_line(&mut url).unwrap_or_else(|why| panic!("echo: {why}"));

        let instance = Instance::start(stage).await;
        let mut config = programs::fake_mcp(&[]);
        config["persistent"] = json!(true);
        instance.api("servers_save", json!({ "name": "echo", "config": config })).await;
        instance.server_in("echo", "ready", BOUND).await;
        let mut bridge = Vec::new();
        for _ in 0..CALLERS {
            bridge.push(client(&instance, "echo").await);
        }
        let echo = (api::http_client(), url.trim().to_owned());
        Self { direct, server, echo, echo_server, bridge, instance }
    }

    async fn echo_once(&self, call: &Value) {
        let (client, url) = &self.echo;
        let answer = client.post(url).json(call).send().await;
        let answer = answer.unwrap_or_else(|why| panic!("{why}"));
        let answer: Value = answer.json().await.unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(answer["id"], call["id"]);
    }

    async fn close(mut self, stage: &Stage) {
        self.direct.close_input().await;
        let _ = self.server.wait().await;
        let _ = self.echo_server.kill();
        let _ = self.echo_server.wait();
        self.instance.quit().await;
        stage.empty_but(&[], BOUND).await;
    }
}

async fn client(instance: &Instance, name: &str) -> McpClient {
    let headers = [("authorization".to_owned(), format!("Bearer {}", instance.token))];
    let url = format!("{}/mcp/{name}", instance.url);
    McpClient::http(&url, &headers).await.unwrap_or_else(|why| panic!("{why:#}"))
}

async fn call(client: &McpClient, text: &str) {
    let result = client.call("echo", json!({ "text": text })).await;
    let result = result.unwrap_or_else(|why| panic!("{why:#}"));
    assert_eq!(result["content"][0]["text"].as_str().map(str::len), Some(text.len()));
}

/// Sixteen connections of next to no cost, each in the session of a client.
async fn light(instance: &Instance, name: &str, clients: &[McpClient]) -> Vec<Mutex<Light>> {
    let url = format!("{}/mcp/{name}", instance.url);
    let mut all = Vec::new();
    for client in clients {
        let session = client.session().unwrap_or_else(|| panic!("no session"));
        all.push(Mutex::new(Light::open(&url, &instance.token, &session).await));
    }
    all
}

/// One after the other.
async fn latency(ways: &Ways, report: &mut Report) {
    let text = "x".repeat(900);
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
                          "params": { "name": "echo", "arguments": { "text": text } } });
    let (mut direct, mut echo, mut bridge) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let times = [
            times(async || call(&ways.direct, &text).await).await,
            times(async || ways.echo_once(&message).await).await,
            times(async || call(&ways.bridge[0], &text).await).await,
        ];
        // The first is to warm up.
        if round > 0 {
            let [one, two, three] = times;
            direct.push(one);
            echo.push(two);
            bridge.push(three);
        }
    }
    for (share, name, limit) in [(50, "p50", 1.3), (99, "p99", 3.0)] {
        let of = |rounds: &[Vec<f64>]| {
            median(rounds.iter().map(|times| times[(times.len() - 1) * share / 100]).collect())
        };
        let (direct, echo, bridge) = (of(&direct), of(&echo), of(&bridge));
        let figure = format!(
            "direct {:.0} µs, echo {:.0} µs, bridge {:.0} µs",
            direct * 1e6,
            echo * 1e6,
            bridge * 1e6
        );
        let what = format!("1 kB `tools/call`, {name}: bridge ÷ (direct + echo)");
        report.at_most(&what, figure, bridge / (direct + echo), limit);
    }
}

/// Sorted, in seconds.
async fn times<F: Future<Output = ()>>(mut once: impl FnMut() -> F) -> Vec<f64> {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let began = Instant::now();
        once().await;
        times.push(began.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    times
}

/// Sixteen callers at once, of a server that does nothing: what HTTP itself lets through. The
/// bare echo shares the cores with one process, the bridge with two.
async fn throughput(ways: &Ways, report: &mut Report) {
    let text = "x".repeat(900);
    let message = json!({ "id": 1, "params": { "arguments": { "text": text } } });
    let light = light(&ways.instance, "echo", &ways.bridge).await;
    let arguments = json!({ "text": text });
    let (mut direct, mut echo, mut bridge) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let rates = [
            rate(CALLS_EACH, (0..CALLERS).map(|_| async || call(&ways.direct, &text).await)).await,
            rate(CALLS_EACH, (0..CALLERS).map(|_| async || ways.echo_once(&message).await)).await,
            rate(
                CALLS_EACH,
                light.iter().map(|one| {
                    async || {
                        let result = one.lock().await.call("echo", &arguments).await;
                        assert_eq!(
                            result["content"][0]["text"].as_str().map(str::len),
                            Some(text.len())
                        );
                    }
                }),
            )
            .await,
        ];
        if round > 0 {
            direct.push(rates[0]);
            echo.push(rates[1]);
            bridge.push(rates[2]);
        }
    }
    let (direct, echo, bridge) = (median(direct), median(echo), median(bridge));
    let figure = format!(
        "direct {direct:.0}/s, echo {echo:.0}/s, bridge {bridge:.0}/s ({:.2} of direct, {:.2} of \
         the echo)",
        bridge / direct,
        bridge / echo
    );
    report.tell("calls of 16 callers, a server that does nothing", figure);
}

/// The same with a server that does something, on one thread, as most do.
async fn working_throughput(ways: &Ways, report: &mut Report) {
    let arguments = json!({ "text": "x".repeat(900), "us": WORK });
    let light = light(&ways.instance, "echo", &ways.bridge).await;
    let once = async || {
        let result = ways.direct.call("work", arguments.clone()).await;
        result.unwrap_or_else(|why| panic!("{why:#}"));
    };
    let (mut direct, mut bridge) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let one = rate(CALLS_EACH, (0..CALLERS).map(|_| &once)).await;
        let through = light.iter().map(|light| {
            async || {
                let result = light.lock().await.call("work", &arguments).await;
                assert!(result["content"].is_array(), "{result}");
            }
        });
        let other = rate(CALLS_EACH, through).await;
        if round > 0 {
            direct.push(one);
            bridge.push(other);
        }
    }
    let (direct, bridge) = (median(direct), median(bridge));
    let figure = format!("direct {direct:.0}/s, bridge {bridge:.0}/s");
    let what = "calls of 16 callers that cost the server 0.1 ms each: bridge ÷ direct";
    report.at_least(what, figure, bridge / direct, 0.6);
}

/// The same with a real server whose tool does next to nothing: its program gets faster and
/// faster, until there is hardly anything but the transport.
async fn real_throughput(stage: &Stage, instance: &Instance, report: &mut Report) {
    let script = npm::server_everything();
    let mut command = stage.command("node");
    command.arg(&script).arg("stdio");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = command.spawn().unwrap_or_else(|why| panic!("node: {why}"));
    let (Some(input), Some(output)) = (server.stdin.take(), server.stdout.take()) else {
        panic!("no pipes");
    };
    let own = McpClient::stdio(input, output).await.unwrap_or_else(|why| panic!("{why:#}"));
    let config = json!({ "command": "node", "args": [script, "stdio"], "persistent": true });
    instance.api("servers_save", json!({ "name": "real", "config": config })).await;
    instance.server_in("real", "ready", BOUND).await;
    let mut clients = Vec::new();
    for _ in 0..CALLERS {
        clients.push(client(instance, "real").await);
    }
    let arguments = json!({ "message": "x".repeat(900) });
    let light = light(instance, "real", &clients).await;
    let once = async |client: &McpClient| {
        let result = client.call("echo", arguments.clone()).await;
        result.unwrap_or_else(|why| panic!("{why:#}"));
    };
    let (mut direct, mut bridge, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let one = rate(REAL_CALLS_EACH, (0..CALLERS).map(|_| async || once(&own).await)).await;
        let before = processor_seconds(instance.pid);
        let other = rate(
            REAL_CALLS_EACH,
            light.iter().map(|light| {
                async || {
                    let result = light.lock().await.call("echo", &arguments).await;
                    assert!(result["content"].is_array(), "{result}");
                }
            }),
        )
        .await;
        let cost = processor_seconds(instance.pid) - before;
        if round > 0 {
            direct.push(one);
            bridge.push(other);
            costs.push(cost * 1e6 / (CALLERS * REAL_CALLS_EACH) as f64);
        }
    }
    own.close_input().await;
    let _ = server.kill().await;
    let (direct, bridge, cost) = (median(direct), median(bridge), median(costs));
    let figure = format!(
        "direct {direct:.0}/s, bridge {bridge:.0}/s; a call costs the core {cost:.0} µs of processor"
    );
    let figure = format!("{figure} ({:.2} of direct)", bridge / direct);
    report.tell("calls of 16 callers, the echo of a Node.js server", figure);
}

/// Calls a second when each caller makes so many.
async fn rate(each: usize, callers: impl Iterator<Item = impl AsyncFn()>) -> f64 {
    let began = Instant::now();
    let callers = callers.map(|once| async move {
        for _ in 0..each {
            once().await;
        }
    });
    let callers = futures::future::join_all(callers).await.len();
    (callers * each) as f64 / began.elapsed().as_secs_f64()
}

/// From the request until all are ready; the slowest takes a second.
async fn readiness(stage: &Stage, report: &mut Report) {
    let mut instance = Instance::start(stage).await;
    let (mut alone, mut all) = (Vec::new(), Vec::new());
    for round in 0..5 {
        for (count, into) in [(1, &mut alone), (SERVERS, &mut all)] {
            let servers: serde_json::Map<String, Value> = (0..count)
                .map(|n| {
                    let delay = (1_000 - n * 100).to_string();
                    let label = format!("{round}-{count}-{n}");
                    let args = ["--start-delay", delay.as_str(), "--label", label.as_str()];
                    (format!("n{n}"), programs::fake_mcp(&args))
                })
                .collect();
            let request = json!({
                "project_id": "bench", "prompt": "hello",
                "agent_config": { "agent_server": programs::fake_agent(json!({ "FAKE_AGENT_LAZY": "1" })),
                                  "context_servers": servers } });
            let (answer, _) = instance.turn(request, BOUND).await;
            let servers = answer["servers"].as_array().cloned().unwrap_or_default();
            assert!(servers.iter().all(|server| server["state"] == "ready"), "{answer}");
            let ms = servers.iter().filter_map(|server| server["ms"].as_f64()).fold(0.0, f64::max);
            into.push(ms);
            let session = json!({ "session": answer["session_id"] });
            instance.api("session_stop", session).await;
        }
    }
    instance.quit().await;
    let (alone, all) = (median(alone), median(all));
    let figure = format!("alone {alone:.0} ms, eight {all:.0} ms");
    report.at_most("eight servers ready ÷ the slowest alone", figure, all / alone, 1.15);
}

/// What the core needs for itself: memory that nobody else has and that cannot be dropped
/// (private and dirty). Its program text, which comes from the file and is shared by all that
/// run it, is told beside it.
async fn memory(stage: &Stage, report: &mut Report) {
    let mut instance = Instance::start(stage).await;
    let (empty, _) = private_mib(instance.pid);
    for n in 0..SERVERS {
        let mut config = programs::fake_mcp(&[]);
        config["persistent"] = json!(true);
        let name = format!("n{n}");
        instance.api("servers_save", json!({ "name": name, "config": config })).await;
        instance.server_in(&name, "ready", BOUND).await;
    }
    let (full, text) = private_mib(instance.pid);
    instance.quit().await;
    let figure =
        format!("{full:.1} MiB (without servers {empty:.1}); {text:.1} MiB of program text");
    report.at_most("core with eight servers, private MiB", figure, full, 12.0);
}

/// A result of 20 MB through the core: how much it needs for it at its peak.
async fn large(stage: &Stage, report: &mut Report) {
    let mut instance = Instance::start(stage).await;
    let mut config = programs::fake_mcp(&[]);
    config["persistent"] = json!(true);
    instance.api("servers_save", json!({ "name": "big", "config": config })).await;
    instance.server_in("big", "ready", BOUND).await;
    let client = client(&instance, "big").await;
    call(&client, "warm").await;
    let mut peaks = Vec::new();
    let mut times = Vec::new();
    for _ in 0..3 {
        let before = status_mib(instance.pid, "VmRSS:");
        // Forgets the peak so far.
        let _ = std::fs::write(format!("/proc/{}/clear_refs", instance.pid), "5");
        let began = Instant::now();
        let result = client.call("big", json!({ "bytes": BIG })).await;
        let result = result.unwrap_or_else(|why| panic!("{why:#}"));
        let length = result["content"][0]["text"].as_str().map(str::len);
        assert_eq!(length.map(|length| length as u64), Some(BIG));
        times.push(began.elapsed().as_secs_f64());
        peaks.push(status_mib(instance.pid, "VmHWM:") - before);
        wait_until("the memory is given back", BOUND, async || {
            (status_mib(instance.pid, "VmRSS:") < before + 8.0).then_some(())
        })
        .await;
    }
    instance.quit().await;
    let copies = median(peaks) / (BIG >> 20) as f64;
    let figure = format!("{:.1} copies at the peak, {:.0} ms", copies, median(times) * 1e3);
    report.at_most("a 20 MiB result, copies in the core at its peak", figure, copies, 2.0);
}

/// The bare echo: what HTTP on loopback costs by itself.
async fn echo() {
    use axum::serve::ListenerExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.unwrap_or_else(|why| panic!("{why}"));
    let address = listener.local_addr().unwrap_or_else(|why| panic!("{why}"));
    println!("http://{address}/");
    // It ends with whoever started it, also when that ends early.
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let answer = async |body: axum::body::Bytes| ([("content-type", "application/json")], body);
    let routes = axum::Router::new().route("/", axum::routing::post(answer));
    let _ = axum::serve(listener, routes).await;
}
