//! `gantry serve`: the core without a window.

use crate::{arguments::Place, failure::Failure};
use clap::Args;
use gantry_core::{
    app::{App, AppOptions, StartError},
    instance::InstanceError,
    logging,
    programs::Programs,
    shutdown,
};
use gantry_http::{Door, HttpOptions};
use serde_json::json;
use std::{
    io::{ErrorKind, Write as _},
    net::SocketAddr,
    path::PathBuf,
};

/// The environment variable that names a token file.
const TOKEN_FILE_VARIABLE: &str = "GANTRY_TOKEN_FILE";

/// Options of `gantry serve`.
#[derive(Debug, Args)]
pub struct Serve {
    #[command(flatten)]
    place: Place,
    /// The address to listen on
    #[arg(long, value_name = "H", default_value = "127.0.0.1")]
    host: String,
    /// The port to listen on; 0 for any free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// Where the token lies [default: $GANTRY_TOKEN_FILE, else a new one in run/token]
    #[arg(long, value_name = "F")]
    token_file: Option<PathBuf>,
    /// Ask for no token (on loopback only)
    #[arg(long)]
    no_auth: bool,
    /// Do not serve the user interface
    #[arg(long)]
    no_ui: bool,
}

/// Runs until the shutdown is over.
pub async fn run(options: Serve) -> Result<u8, Failure> {
    if options.no_auth && !is_loopback(&options.host).await? {
        return Err(Failure::usage(
            "serve",
            format!(
                "--no-auth is refused together with --host {}: everybody on the network could use this computer; leave one of them out",
                options.host
            ),
        ));
    }
    let data = options.place.data().ok_or_else(|| {
        Failure::new("serve", "there is no data directory; name one with --data-dir")
    })?;
    data.create().map_err(|error| Failure::new("serve", error))?;
    logging::start(&data);

    // Whoever looks for it on a fixed port learns that it is starting. A port that is in use is
    // told after who may hold the directory, which is the better reason.
    let door = Door::bind(&options.host, options.port).await;
    let app = App::start(AppOptions {
        data,
        token_file: options.token_file.clone().or_else(token_file_from_environment),
        programs: Programs::beside_this_one(),
    })
    .await
    .map_err(could_not_start)?;

    if let Err(failure) = open(&app, &options, door).await {
        app.shutdown().request("the listener could not be opened");
        app.ended().await;
        return Err(failure);
    }
    Ok(app.ended().await.code)
}

/// Takes signals, lets requests in, and says that it is ready.
async fn open(app: &App, options: &Serve, door: std::io::Result<Door>) -> Result<(), Failure> {
    shutdown::on_signals(app.scope(), app.shutdown())
        .map_err(|error| Failure::new("serve: signals", error))?;
    let place = format!("serve: {}:{}", options.host, options.port);
    let door = door.map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::AddrInUse | ErrorKind::PermissionDenied => {
                "choose another --port, or 0 for any free one"
            }
            _ => "choose another --host; 127.0.0.1 is this computer",
        };
        Failure::new(&place, format!("{error}; {advice}"))
    })?;
    let url = door.url();
    app.set_address(&url).await.map_err(|error| Failure::of(&place, &error))?;
    app.shows_notices();
    let http = HttpOptions { ui: !options.no_ui, auth: !options.no_auth };
    door.open(app.clone(), http, app.scope().child("http"))
        .await
        .map_err(|error| Failure::new(&place, error))?;
    tracing::info!(url, "listening");
    say_ready(app, &url);
    Ok(())
}

/// The one line on standard output.
fn say_ready(app: &App, url: &str) {
    let line = json!({
        "ready": true,
        "url": url,
        "token_file": app.token_file(),
        "pid": std::process::id(),
    });
    let mut out = std::io::stdout().lock();
    if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush()) {
        tracing::warn!("the ready line could not be written: {error}");
    }
}

fn token_file_from_environment() -> Option<PathBuf> {
    std::env::var_os(TOKEN_FILE_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn could_not_start(error: StartError) -> Failure {
    match &error {
        StartError::Instance(InstanceError::Held { .. }) => Failure::absent("serve", error),
        _ => Failure::new("serve", error),
    }
}

async fn is_loopback(host: &str) -> Result<bool, Failure> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host, 0))
        .await
        .map_err(|error| Failure::usage(format!("serve: --host {host}"), error))?
        .collect();
    Ok(addresses.iter().all(|address| address.ip().is_loopback()))
}
