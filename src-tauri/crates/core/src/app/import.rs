//! `servers_import` and `servers_import_apply`.

use super::{App, commands::check_server};
use crate::{
    Error, Result,
    import::{self, Folders, Found, OtherApp},
    wire::*,
};
use std::path::Path;

impl App {
    /// Servers of another application, a file or a text; nothing is saved.
    ///
    /// # Errors
    /// Invalid, with line and column for what is no JSON; not found.
    pub async fn servers_import(&self, input: ServersImport) -> Result<ServersFound> {
        let found = self.find_servers(input).await?;
        let saved = self.saved_servers().await?;
        Ok(ServersFound { found: found.iter().map(|found| found.shown(&saved)).collect() })
    }

    /// Saves servers that were found, disabled.
    ///
    /// # Errors
    /// See [`App::servers_import`]; the store refuses.
    pub async fn servers_import_apply(&self, input: ServersImportApply) -> Result<ServersImported> {
        self.still_open()?;
        let found = self.find_servers(input.from).await?;
        let names = input.names.unwrap_or_default();
        let _order = self.inner.saving.lock().await;
        let (mut saved, mut skipped) = (Vec::new(), Vec::new());
        for name in names {
            // The first of its name: the file that was changed last comes first.
            let wanted = found.iter().find(|found| found.name == name);
            let taken = self.saved_servers().await?.iter().any(|spec| spec.name == name);
            let why = match wanted {
                None => Some("it is not among the servers found".to_owned()),
                Some(found) if found.is_refused => Some(found.problems.join("; ")),
                Some(_) if taken && input.replace != Some(true) => {
                    Some("a server of this name is saved already".to_owned())
                }
                Some(found) => check_server(&name, &found.config).err().map(|error| error.message),
            };
            match (why, wanted) {
                (None, Some(found)) => {
                    self.store_server(&name, &found.config).await?;
                    saved.push(self.server_view(&name)?);
                }
                (why, _) => skipped.push(NotImported { name, why: why.unwrap_or_default() }),
            }
        }
        Ok(ServersImported { saved, skipped })
    }

    async fn find_servers(&self, from: ServersImport) -> Result<Vec<Found>> {
        let work: Box<dyn FnOnce() -> Result<Vec<Found>> + Send> =
            match (from.text, from.app, from.path) {
                (Some(text), None, None) => Box::new(move || import::from_text(&text, "")),
                (None, Some(app), None) => {
                    let app = OtherApp::named(&app).ok_or_else(|| {
                        let known: Vec<_> = OtherApp::ALL.iter().map(|app| app.id()).collect();
                        Error::invalid(format!(
                            "app: `{app}` is not known; known are {}",
                            known.join(", ")
                        ))
                    })?;
                    let folders = Folders::of_the_user()
                        .ok_or_else(|| Error::not_found("app: there is no home directory"))?;
                    Box::new(move || import::from_app(app, &folders))
                }
                (None, None, Some(path)) => {
                    if !Path::new(&path).is_absolute() {
                        return Err(Error::invalid(format!(
                            "path: `{path}` is not an absolute path"
                        )));
                    }
                    Box::new(move || import::from_file(Path::new(&path)))
                }
                _ => return Err(Error::invalid("give exactly one of `text`, `app` and `path`")),
            };
        let reading = self.scope().spawn_blocking("import", work);
        let mut found = reading.join().await.unwrap_or_else(|| Err(Error::shutting_down()))?;
        // What could not be saved is said now, and not when somebody tries.
        for found in found.iter_mut().filter(|found| !found.is_refused) {
            if let Err(error) = check_server(&found.name, &found.config) {
                found.is_refused = true;
                found.problems.push(error.message);
            }
        }
        Ok(found)
    }
}
