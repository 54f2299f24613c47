//! The environment that children inherit: ours, cleaned.

use std::ffi::OsString;

/// Our environment without what a launcher left in it (AppImage and toolkit
/// variables, entries under `$APPDIR`), with proxy and CA variables and
/// everything of the user's own kept.
pub fn for_children() -> Vec<(OsString, OsString)> {
    unimplemented!()
}
