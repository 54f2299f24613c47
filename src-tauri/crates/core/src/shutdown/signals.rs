//! Signals ask for the end like every other gesture.

use super::Shutdown;
use gantry_supervisor::Scope;
use std::io;

/// Lets SIGTERM, SIGINT and SIGHUP ask for the end from now on. Must be called
/// within a runtime.
///
/// # Errors
/// A handler cannot be installed.
#[cfg(unix)]
pub fn on_signals(scope: &Scope, shutdown: &Shutdown) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    for (kind, name) in [
        (SignalKind::terminate(), "SIGTERM"),
        (SignalKind::interrupt(), "SIGINT"),
        (SignalKind::hangup(), "SIGHUP"),
    ] {
        let mut signals = signal(kind)?;
        let shutdown = shutdown.clone();
        // It listens until the very end, so that a third request still counts; the
        // scope is closed before that, which is why it is cancelled there and not awaited.
        let cancelled = scope.cancelled();
        scope.spawn(format!("wait for {name}"), async move {
            let listen = async {
                while signals.recv().await.is_some() {
                    shutdown.request(name);
                }
            };
            tokio::select! { () = listen => {}, () = cancelled => {} }
        });
    }
    Ok(())
}

/// Lets Ctrl+C ask for the end from now on. Untested: nothing here can build it.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn on_signals(scope: &Scope, shutdown: &Shutdown) -> io::Result<()> {
    let shutdown = shutdown.clone();
    let cancelled = scope.cancelled();
    scope.spawn("wait for Ctrl+C", async move {
        let listen = async {
            while tokio::signal::ctrl_c().await.is_ok() {
                shutdown.request("Ctrl+C");
            }
        };
        tokio::select! { () = listen => {}, () = cancelled => {} }
    });
    Ok(())
}
