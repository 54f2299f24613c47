//! The environment that children inherit: ours, cleaned.

use crate::{COOKIE_VARIABLE, resolve};
use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

pub use crate::login_shell::{
    LOGIN_SHELL_VARIABLE, LoginShell, ask_login_shell, consult_login_shell, login_shell,
};

/// What an AppImage's runtime and its start script set for themselves alone.
const LAUNCHER: &[&str] = &["APPDIR", "APPIMAGE", "APPIMAGE_UUID", "ARGV0", "OWD"];

/// Set without a path by the start scripts of the toolkit; inside an AppImage the
/// user's own value of these is lost already.
const TOOLKIT: &[&str] = &["GTK_THEME", "GDK_BACKEND", "GTK_IM_MODULE_FILE"];

/// Set by the desktop program, or by its tests, for itself alone.
const OURS: &[&str] = &[COOKIE_VARIABLE, "TAURI_WEBVIEW_AUTOMATION"];

/// What this program has set for itself, see [`keep_from_children`].
static OWN: Mutex<Vec<&str>> = Mutex::new(Vec::new());

/// Children do not get this variable: this program has set it for itself alone, and the user
/// had not set it.
pub fn keep_from_children(name: &'static str) {
    OWN.lock().unwrap_or_else(PoisonError::into_inner).push(name);
}

/// Our environment without what a launcher left in it (AppImage and toolkit
/// variables, entries under `$APPDIR`), with proxy and CA variables and
/// everything of the user's own kept. Where the login shell was asked
/// ([`ask_login_shell`]), its `PATH` comes before ours, and what it has and we lack is added.
pub fn for_children() -> Vec<(OsString, OsString)> {
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let ours = cleaned(std::env::vars_os(), &own);
    match login_shell() {
        Some(shell) => completed(ours, shell),
        None => ours,
    }
}

/// Where a child would find a program, by name or by path.
pub fn find_program(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let env = for_children();
    let path = resolve::value(&env, "PATH").unwrap_or_default();
    let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    which::which_in(name, Some(path), folder).ok()
}

/// With what the login shell has.
fn completed(ours: Vec<(OsString, OsString)>, shell: &LoginShell) -> Vec<(OsString, OsString)> {
    let mut entries: Vec<PathBuf> = Vec::new();
    let own_path = resolve::value(&ours, "PATH").unwrap_or_default().to_owned();
    for entry in std::env::split_paths(&shell.path).chain(std::env::split_paths(&own_path)) {
        if !entry.as_os_str().is_empty() && !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    // What came from `split_paths` can be joined again.
    let path = std::env::join_paths(entries).unwrap_or_else(|_| shell.path.clone());
    let mut all: Vec<_> = ours.into_iter().filter(|(name, _)| name != "PATH").collect();
    all.push(("PATH".into(), path));
    all.extend(shell.variables.iter().cloned());
    all
}

/// The same for any environment, without what is our `own`.
fn cleaned(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    own: &[&str],
) -> Vec<(OsString, OsString)> {
    let variables: Vec<_> = variables.into_iter().collect();
    let mount = variables
        .iter()
        .find(|(name, _)| name == "APPDIR")
        .map(|(_, value)| PathBuf::from(value))
        // A relative or empty one would match the user's own entries.
        .filter(|mount| mount.is_absolute() && mount.parent().is_some());
    variables
        .into_iter()
        .filter(|(name, _)| !OURS.iter().chain(own).any(|ours| name == ours))
        .filter_map(|(name, value)| match &mount {
            Some(mount) => outside(mount, &name, value).map(|value| (name, value)),
            None => Some((name, value)),
        })
        .collect()
}

/// The value without what lies under the mount; `None` when nothing is left of it.
fn outside(mount: &Path, name: &OsStr, value: OsString) -> Option<OsString> {
    if LAUNCHER.iter().chain(TOOLKIT).any(|left| name == *left) {
        return None;
    }
    let entries: Vec<PathBuf> = std::env::split_paths(&value).collect();
    let kept: Vec<&PathBuf> = entries.iter().filter(|entry| !entry.starts_with(mount)).collect();
    if kept.len() == entries.len() {
        return Some(value);
    }
    // What the start script leaves of a list that the user had not set is `:` only.
    if kept.iter().all(|entry| entry.as_os_str().is_empty()) {
        return None;
    }
    std::env::join_paths(kept).ok()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn clean(variables: &[(&str, &str)]) -> Vec<(String, String)> {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        cleaned(variables, &["SET_BY_THE_PROGRAM"])
            .into_iter()
            .map(|(name, value)| (name.into_string().unwrap(), value.into_string().unwrap()))
            .collect()
    }

    fn pairs(variables: &[(&str, &str)]) -> Vec<(String, String)> {
        variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn the_users_own_are_kept_when_there_is_no_app_image() {
        let own = [
            ("PATH", "/usr/bin:/bin"),
            ("LD_LIBRARY_PATH", "/opt/cuda/lib64"),
            ("PYTHONPATH", "/home/u/lib"),
            ("GTK_THEME", "Adwaita:dark"),
            ("HTTPS_PROXY", "http://proxy:3128"),
            ("NODE_EXTRA_CA_CERTS", "/etc/ca.pem"),
            ("EMPTY", ""),
        ];
        assert_eq!(clean(&own), pairs(&own));
    }

    #[test]
    fn what_an_app_image_left_goes() {
        let left = clean(&[
            ("APPDIR", "/tmp/.mount_gantryX"),
            ("APPIMAGE", "/home/u/Gantry.AppImage"),
            ("ARGV0", "gantry"),
            ("OWD", "/home/u"),
            ("PATH", "/tmp/.mount_gantryX/usr/bin:/home/u/.nvm/bin:/usr/bin"),
            ("LD_LIBRARY_PATH", "/tmp/.mount_gantryX/usr/lib:"),
            ("PYTHONHOME", "/tmp/.mount_gantryX/usr"),
            ("PYTHONPATH", "/tmp/.mount_gantryX/py:/home/u/lib"),
            ("GTK_PATH", "/tmp/.mount_gantryX/gtk"),
            ("GTK_THEME", "Adwaita:light"),
            ("GST_PLUGIN_SYSTEM_PATH_1_0", "/tmp/.mount_gantryX/gst"),
            ("XDG_DATA_DIRS", "/tmp/.mount_gantryX/usr/share:/usr/share"),
            ("GTK_IM_MODULE", "ibus"),
            ("ODD", "a=/tmp/.mount_gantryX"),
        ]);
        let expected = [
            ("PATH", "/home/u/.nvm/bin:/usr/bin"),
            ("PYTHONPATH", "/home/u/lib"),
            ("XDG_DATA_DIRS", "/usr/share"),
            ("GTK_IM_MODULE", "ibus"),
            ("ODD", "a=/tmp/.mount_gantryX"),
        ];
        assert_eq!(left, pairs(&expected));
    }

    #[test]
    fn an_odd_appdir_takes_nothing_away() {
        for odd in ["", "/", "relative"] {
            let left = clean(&[("APPDIR", odd), ("PATH", "/usr/bin"), ("HOME", "/home/u")]);
            assert!(left.contains(&("PATH".into(), "/usr/bin".into())), "{odd}");
        }
    }

    #[test]
    fn the_login_shells_path_comes_first_and_ours_wins_elsewhere() {
        let shell = LoginShell {
            program: "/bin/bash".into(),
            path: "/home/u/.nvm/bin:/usr/bin".into(),
            variables: vec![("KEY".into(), "k".into())],
        };
        let ours = vec![("A".into(), "1".into()), ("PATH".into(), "/bin::/usr/bin:/opt/x".into())];
        let all: Vec<_> = completed(ours, &shell);
        let expected: Vec<(OsString, OsString)> =
            [("A", "1"), ("PATH", "/home/u/.nvm/bin:/usr/bin:/bin:/opt/x"), ("KEY", "k")]
                .map(|(name, value)| (name.into(), value.into()))
                .to_vec();
        assert_eq!(all, expected);
    }

    #[test]
    fn a_program_is_found_where_a_child_would_find_it() {
        assert!(find_program("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find_program("no-such-program-anywhere"), None);
    }

    #[test]
    fn what_this_program_set_for_itself_stays_with_it() {
        assert_eq!(clean(&[("SET_BY_THE_PROGRAM", "1"), ("A", "1")]), pairs(&[("A", "1")]));
    }

    #[test]
    fn a_cookie_of_another_instance_is_not_handed_on() {
        assert_eq!(clean(&[("GANTRY_TREE", "1.2.x"), ("A", "1")]), pairs(&[("A", "1")]));
    }
}
