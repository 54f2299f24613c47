//! The Gantry that a command works through: the one that runs, or, without
//! one, a core of its own that ends with the command.

use crate::{arguments::Place, failure::Failure, interrupts::Interrupts, remote::Remote};
use gantry_core::{
    app::{App, AppOptions, StartError},
    instance::{Instance, InstanceError, InstanceInfo},
    logging,
    programs::Programs,
};
use gantry_http::HttpOptions;
use gantry_supervisor::ProcessId;
use std::time::Duration;

/// How long one that is just starting may take until it answers.
const STARTING: Duration = Duration::from_secs(5);
/// Between two looks for it.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Where a command works.
pub struct Host {
    /// How to ask it.
    pub remote: Remote,
    own: Option<App>,
}

impl Host {
    /// The running one, or one of our own, which listens on loopback for as long.
    ///
    /// # Errors
    /// It could not be started.
    pub async fn find_or_start(what: &'static str, place: &Place) -> Result<Self, Failure> {
        let data = place.data().ok_or_else(|| {
            Failure::new(what, "there is no data directory; name one with --data-dir")
        })?;
        if Instance::running(&data).is_some() {
            return Ok(Self { remote: Remote::find(what, place)?, own: None });
        }
        data.create().map_err(|error| Failure::new(what, error))?;
        logging::to_file(&data);
        let options = AppOptions { data, token_file: None, programs: Programs::beside_this_one() };
        let app = match App::start(options).await {
            Ok(app) => app,
            // Somebody else was faster, and will answer soon.
            Err(StartError::Instance(error @ InstanceError::Held { .. })) => {
                return Self::wait(what, place, &error).await;
            }
            Err(error) => return Err(Failure::new(what, error)),
        };
        match open(&app).await {
            Ok(info) => {
                let remote = Remote::at(what, info, app.token().to_owned())?;
                Ok(Self { remote, own: Some(app) })
            }
            Err(why) => {
                app.shutdown().request("the listener could not be opened");
                app.ended().await;
                Err(Failure::new(what, why))
            }
        }
    }

    async fn wait(
        what: &'static str,
        place: &Place,
        held: &InstanceError,
    ) -> Result<Self, Failure> {
        let found = async {
            loop {
                if let Ok(remote) = Remote::find(what, place) {
                    return remote;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        match tokio::time::timeout(STARTING, found).await {
            Ok(remote) => Ok(Self { remote, own: None }),
            Err(_) => Err(Failure::absent(what, held)),
        }
    }

    /// Whether it ends with the command.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Ends a core of our own with everything that it started; gives its exit code.
    pub async fn close(self, interrupts: &mut Interrupts) -> u8 {
        let Some(app) = self.own else { return 0 };
        app.shutdown().request("the command is over");
        loop {
            tokio::select! {
                report = app.ended() => return report.code,
                // Somebody is in a hurry.
                _ = interrupts.next() => { app.shutdown().request("a signal"); }
            }
        }
    }
}

async fn open(app: &App) -> Result<InstanceInfo, String> {
    let listener = gantry_http::bind("127.0.0.1", 0).await.map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let url = gantry_http::url(address);
    let options = HttpOptions { ui: false, auth: true };
    gantry_http::serve(app.clone(), listener, options, app.scope().child("http"))
        .map_err(|error| error.to_string())?;
    app.set_address(&url).await.map_err(|error| error.to_string())?;
    let me = ProcessId::current();
    Ok(InstanceInfo {
        pid: me.pid,
        started: me.start,
        url,
        version: gantry_core::VERSION.to_owned(),
    })
}
