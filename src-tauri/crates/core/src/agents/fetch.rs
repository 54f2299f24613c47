//! A document from the network, for a core that speaks no HTTP: our own program fetches it.

use crate::{Error, Result};
use gantry_supervisor::{Cause, Child, Deadline, Exit, Launch, Role, Supervisor};
use std::{path::Path, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// How long it may take; the program gives up before.
const LIMIT: Duration = Duration::from_secs(30);
/// Longest document in bytes; the program refuses a longer one.
const LONGEST: u64 = 9 << 20;
/// How long the program may take to end when it is given up.
const CLEAN_UP: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_secs(1);

/// A document from the network, by our own program, which bounds its size and its time.
///
/// # Errors
/// Why it could not be fetched.
pub(crate) async fn fetch(supervisor: &Supervisor, gantry: &Path, url: &str) -> Result<String> {
    // As with a file that cannot be read: it is the caller's to name another.
    let failed = |why: String| Error::invalid(format!("url: {why}"));
    let launched = supervisor.launch(Launch {
        name: "fetch-agents".to_owned(),
        role: Role::Own,
        program: gantry.into(),
        args: vec!["fetch".into()],
        env: Vec::new(),
        cwd: None,
        grace: GRACE,
    });
    let child = launched.await.map_err(|error| failed(error.to_string()))?;
    let Child { tree, mut stdin, stdout, stderr } = child;
    let work = async {
        // One that ends at once reads nothing, and says why.
        let _ = stdin.write_all(format!("{url}\n").as_bytes()).await;
        drop(stdin);
        let mut document = Vec::new();
        let read = stdout.take(LONGEST).read_to_end(&mut document).await;
        let exit = tree.exited().await;
        // Somebody else reads standard error; at its end it says why.
        let mut seen = 0;
        while stderr.grown(seen).await {
            seen = stderr.since(seen).1;
        }
        (read, exit, document)
    };
    let fetched = Deadline::after(LIMIT).bound(work).await;
    tree.stop(Cause::Unused, Deadline::after(CLEAN_UP)).await;
    match fetched {
        Ok((Ok(_), Exit::Code(0), document)) => String::from_utf8(document)
            .map_err(|_| failed("the document is no text in UTF-8".to_owned())),
        Ok((_, exit, _)) => {
            let said = stderr.lines(1).pop();
            let why = said.map_or_else(
                || format!("{exit}"),
                |line| line.trim_start_matches("gantry: fetch: ").to_owned(),
            );
            Err(failed(why))
        }
        Err(_) => Err(failed(format!("it was not there after {} s", LIMIT.as_secs()))),
    }
}
