//! The files of a project, as somebody looks for them who knows a part of the name.

use crate::wire::ProjectFile;
use ignore::WalkBuilder;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Files and folders that are looked at of one project.
const MOST: usize = 50_000;
/// How long looking at them may take.
const LONGEST: Duration = Duration::from_secs(3);
/// For how long a listing is good: somebody is typing.
const FRESH: Duration = Duration::from_secs(10);
/// Folders that nobody looks into for a file, also where no `.gitignore` says so.
const SKIPPED: &[&str] = &[".git", ".hg", ".svn", "node_modules", "__pycache__"];
/// What an address does not hold as it is.
const NOT_IN_ADDRESS: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'[')
    .add(b']')
    .add(b'{')
    .add(b'}')
    .add(b'|')
    .add(b'\\')
    .add(b'^');

/// The listing of the project that was asked for last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listings(Arc<Mutex<Option<Read>>>);

/// When a folder was read, and what was there.
type Read = (Instant, Arc<Listing>);

impl Listings {
    /// The files of this folder; reads the disk when what is known is not of now.
    pub(crate) fn of(&self, folder: &Path) -> Arc<Listing> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, listing)) = &*last
            && listing.folder == folder
            && at.elapsed() < FRESH
        {
            return listing.clone();
        }
        let listing = Arc::new(Listing::read(folder, MOST));
        *last = Some((Instant::now(), listing.clone()));
        listing
    }
}

/// Files and folders below a folder.
#[derive(Debug)]
pub(crate) struct Listing {
    folder: PathBuf,
    /// With `/` between the names, and whether it is a folder.
    paths: Vec<(String, bool)>,
    /// There are more.
    pub(crate) is_cut: bool,
}

impl Listing {
    fn read(folder: &Path, most: usize) -> Self {
        let began = Instant::now();
        let mut paths = Vec::new();
        let mut is_cut = false;
        let walk = WalkBuilder::new(folder)
            .hidden(false)
            // Also a folder that is no repository may say what is not worth a look.
            .require_git(false)
            .filter_entry(|entry| !SKIPPED.iter().any(|name| entry.file_name() == *name))
            .build();
        // What cannot be read is left out: nobody can name it to an agent either.
        for entry in walk.flatten().filter(|entry| entry.depth() > 0) {
            if paths.len() == most || began.elapsed() > LONGEST {
                is_cut = true;
                break;
            }
            let Ok(path) = entry.path().strip_prefix(folder) else { continue };
            // A name that is no text cannot be written into a message.
            let Some(names) = path.iter().map(|name| name.to_str()).collect::<Option<Vec<_>>>()
            else {
                continue;
            };
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            paths.push((names.join("/"), is_folder));
        }
        Self { folder: folder.to_owned(), paths, is_cut }
    }

    /// The best matches.
    pub(crate) fn matching(&self, query: &str, limit: usize) -> Vec<ProjectFile> {
        let query = query.trim_start_matches("./").to_lowercase();
        let mut found: Vec<_> = self
            .paths
            .iter()
            .filter_map(|(path, is_folder)| {
                let rank = rank(&query, &path.to_lowercase())?;
                let depth = path.matches('/').count();
                Some(((rank, *is_folder, depth, path.len()), path, *is_folder))
            })
            .collect();
        found.sort_unstable();
        found.truncate(limit);
        let file = |path: &str, folder| ProjectFile {
            path: path.to_owned(),
            uri: address(&self.folder.join(path)),
            folder,
        };
        found.into_iter().map(|(_, path, folder)| file(path, folder)).collect()
    }
}

/// How well a path matches; the lower, the better. Both in lower case.
fn rank(query: &str, path: &str) -> Option<u8> {
    let name = path.rsplit('/').next().unwrap_or(path);
    Some(match () {
        () if query.is_empty() => 0,
        () if name == query => 0,
        () if name.starts_with(query) => 1,
        () if path.starts_with(query) => 2,
        () if name.contains(query) => 3,
        () if path.contains(query) => 4,
        () if has_in_order(name, query) => 5,
        () if has_in_order(path, query) => 6,
        () => return None,
    })
}

fn has_in_order(text: &str, letters: &str) -> bool {
    let mut text = text.chars();
    letters.chars().all(|wanted| text.any(|letter| letter == wanted))
}

/// A path as a `file:` address.
fn address(path: &Path) -> String {
    let text = path.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "/");
    let slash = if text.starts_with('/') { "" } else { "/" };
    format!("file://{slash}{}", utf8_percent_encode(&text, NOT_IN_ADDRESS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn project() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for path in [
            "src/feed.rs",
            "src/feed/parser.rs",
            "src/main.rs",
            "tests/feeder_test.rs",
            ".github/workflows/ci.yml",
            "node_modules/feed/index.js",
            "build/feed.o",
            "notes/a b#1.md",
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        fs::write(folder.path().join(".gitignore"), "/build\n").unwrap();
        folder
    }

    fn paths(listing: &Listing, query: &str) -> Vec<String> {
        listing.matching(query, 50).into_iter().map(|file| file.path).collect()
    }

    #[test]
    fn the_name_counts_more_than_the_folder_and_letters_in_order_count_last() {
        let folder = project();
        let listing = Listing::read(folder.path(), MOST);
        assert_eq!(
            paths(&listing, "feed"),
            ["src/feed", "src/feed.rs", "tests/feeder_test.rs", "src/feed/parser.rs"]
        );
        assert_eq!(paths(&listing, "FEED.RS")[0], "src/feed.rs");
        assert_eq!(paths(&listing, "src/m"), ["src/main.rs"]);
        assert_eq!(paths(&listing, "./src/m"), ["src/main.rs"]);
        assert_eq!(paths(&listing, "prs"), ["src/feed/parser.rs"]);
        assert!(paths(&listing, "xyz").is_empty());
        assert_eq!(listing.matching("", 2).len(), 2);
    }

    #[test]
    fn what_gitignore_names_and_what_nobody_looks_into_is_left_out() {
        let folder = project();
        let all = paths(&Listing::read(folder.path(), MOST), "");
        assert!(all.iter().any(|path| path == ".github/workflows/ci.yml"), "{all:?}");
        assert!(!all.iter().any(|path| path.contains("node_modules") || path.contains("build")));
    }

    #[test]
    fn an_address_is_readable_by_others_and_a_large_project_is_cut() {
        let folder = project();
        let listing = Listing::read(folder.path(), MOST);
        let file = &listing.matching("a b#1", 1)[0];
        assert_eq!(file.path, "notes/a b#1.md");
        assert!(file.uri.starts_with("file:///") && file.uri.ends_with("/notes/a%20b%231.md"));
        assert!(!listing.is_cut);
        assert!(Listing::read(folder.path(), 2).is_cut);
    }

    #[test]
    fn a_listing_is_read_once_while_somebody_types() {
        let folder = project();
        let listings = Listings::default();
        let first = listings.of(folder.path());
        assert!(Arc::ptr_eq(&first, &listings.of(folder.path())));
        let other = project();
        assert!(!Arc::ptr_eq(&first, &listings.of(other.path())));
    }
}
