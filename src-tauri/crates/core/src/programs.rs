//! The programs that are shipped together.

use std::path::{Path, PathBuf};

/// Where the others are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// `gantry`: the command line, also our built-in agent and servers.
    pub gantry: PathBuf,
    /// `gantry-warden`, where there is one.
    pub warden: Option<PathBuf>,
}

impl Programs {
    /// The programs beside this one.
    pub fn beside_this_one() -> Self {
        let folder = std::env::current_exe()
            .ok()
            .and_then(|path| path.parent().map(Path::to_path_buf))
            .unwrap_or_default();
        Self::in_folder(&folder)
    }

    /// The programs in a folder.
    pub fn in_folder(folder: &Path) -> Self {
        let path = |name: &str| folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
        let warden = path("gantry-warden");
        Self { gantry: path("gantry"), warden: warden.is_file().then_some(warden) }
    }
}
