//! Signals of a command that works for a while.

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// Ctrl+C: what runs now.
    Cancel,
    /// SIGTERM, SIGHUP: the whole command.
    End,
}

/// The signals from now on; they do not end the program any more.
#[cfg(unix)]
pub struct Interrupts {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Interrupts {
    /// Takes them over.
    ///
    /// # Errors
    /// What the system said.
    pub fn take() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub async fn next(&mut self) -> Interrupt {
        tokio::select! {
            _ = self.interrupt.recv() => Interrupt::Cancel,
            _ = self.terminate.recv() => Interrupt::End,
            _ = self.hang_up.recv() => Interrupt::End,
        }
    }
}

/// The signals from now on.
#[cfg(not(unix))]
pub struct Interrupts;

#[cfg(not(unix))]
impl Interrupts {
    /// Takes them over.
    ///
    /// # Errors
    /// None.
    pub fn take() -> std::io::Result<Self> {
        Ok(Self)
    }

    /// The next one.
    pub async fn next(&mut self) -> Interrupt {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Interrupt::Cancel,
            Err(_) => std::future::pending().await,
        }
    }
}
