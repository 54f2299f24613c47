//! Where other applications keep their configurations.

use std::path::{Path, PathBuf};

/// An application whose file can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum App {
    /// Claude Desktop.
    ClaudeDesktop,
    /// Claude Code.
    ClaudeCode,
    /// Cursor.
    Cursor,
}

impl App {
    /// All of them.
    pub const ALL: &[Self] = &[Self::ClaudeDesktop, Self::ClaudeCode, Self::Cursor];

    /// Its name in commands.
    pub fn id(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
        }
    }

    /// By its name in commands.
    pub fn named(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|app| app.id() == id)
    }

    /// The files that it may have, below these folders of the user.
    pub fn candidates(self, folders: &Folders) -> Vec<PathBuf> {
        let Folders { home, config, data } = folders;
        match self {
            Self::ClaudeDesktop => {
                let file = "claude_desktop_config.json";
                let mut files = vec![
                    config.join("Claude").join(file),
                    home.join("Library/Application Support/Claude").join(file),
                ];
                // The packaged application of Windows keeps its own view of the folder.
                let packages = data.join("Packages");
                for package in std::fs::read_dir(&packages).into_iter().flatten().flatten() {
                    if package.file_name().to_string_lossy().starts_with("Claude_") {
                        files.push(package.path().join("LocalCache/Roaming/Claude").join(file));
                    }
                }
                files
            }
            Self::ClaudeCode => vec![home.join(".claude.json")],
            Self::Cursor => vec![home.join(".cursor/mcp.json")],
        }
    }

    /// The files that are there, the one changed last first.
    pub fn files(self, folders: &Folders) -> Vec<PathBuf> {
        let changed = |path: &Path| std::fs::metadata(path).and_then(|file| file.modified()).ok();
        let mut files: Vec<_> = self
            .candidates(folders)
            .into_iter()
            .filter(|path| path.is_file())
            .map(|path| (changed(&path), path))
            .collect();
        files.sort_by_key(|(changed, _)| std::cmp::Reverse(*changed));
        files.dedup_by(|one, other| one.1 == other.1);
        files.into_iter().map(|(_, path)| path).collect()
    }
}

/// The user's folders.
#[derive(Clone, Debug)]
pub struct Folders {
    /// The home directory.
    pub home: PathBuf,
    /// Configurations (`~/.config`, `%APPDATA%`).
    pub config: PathBuf,
    /// Local data (`%LOCALAPPDATA%`).
    pub data: PathBuf,
}

impl Folders {
    /// Those of the user; `None` without a home directory.
    pub fn of_the_user() -> Option<Self> {
        let home = dirs::home_dir()?;
        let config = dirs::config_dir().unwrap_or_else(|| home.join(".config"));
        let data = dirs::data_local_dir().unwrap_or_else(|| home.join(".local/share"));
        Some(Self { home, config, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_files_of_one_application_both_are_found_the_newer_first() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let folders = Folders { home: at("home"), config: at("config"), data: at("data") };
        assert!(App::ClaudeDesktop.files(&folders).is_empty());
        let file = "claude_desktop_config.json";
        let old = at("config/Claude").join(file);
        let new = at("data/Packages/Claude_x/LocalCache/Roaming/Claude").join(file);
        for (path, age) in [(&old, 100), (&new, 1)] {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "{}").unwrap();
            let then = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
            std::fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
        }
        assert_eq!(App::ClaudeDesktop.files(&folders), [new, old]);
    }

    #[test]
    fn names_are_those_of_commands() {
        for app in App::ALL {
            assert_eq!(App::named(app.id()), Some(*app));
        }
        assert_eq!(App::named("word"), None);
    }
}
