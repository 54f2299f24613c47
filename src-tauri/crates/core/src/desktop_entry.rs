//! Starting with the desktop session where the XDG Autostart specification holds: a desktop
//! entry in `$XDG_CONFIG_HOME/autostart`. Elsewhere the shell uses a library (decision 0016).

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

/// The entry's file.
const FILE: &str = "Gantry.desktop";

/// The entry of the present user.
#[derive(Clone, Debug)]
pub struct DesktopEntry {
    file: PathBuf,
}

impl DesktopEntry {
    /// Below the user's directory of configurations (`$XDG_CONFIG_HOME`).
    pub fn below(config_dir: &Path) -> Self {
        Self { file: config_dir.join("autostart").join(FILE) }
    }

    /// Whether the desktop starts the program. An entry that the user's desktop has switched off
    /// itself is one that does not count.
    ///
    /// # Errors
    /// The entry is there and cannot be read.
    pub fn is_on(&self) -> io::Result<bool> {
        let text = match fs::read_to_string(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(self.named(error)),
        };
        let says = |key: &str, value: &str| {
            text.lines().any(|line| {
                line.split_once('=').is_some_and(|(name, said)| {
                    name.trim() == key && said.trim().eq_ignore_ascii_case(value)
                })
            })
        };
        Ok(!says("Hidden", "true") && !says("X-GNOME-Autostart-enabled", "false"))
    }

    /// Lets the desktop start this program with these arguments.
    ///
    /// # Errors
    /// The entry cannot be written, or a word is no text.
    pub fn switch_on(&self, program: &Path, arguments: &[OsString]) -> io::Result<()> {
        let mut command = vec![program.as_os_str().to_owned()];
        command.extend_from_slice(arguments);
        let text = text(&command).ok_or_else(|| {
            let why = "the path of the program or of the data directory is not valid Unicode";
            io::Error::new(io::ErrorKind::InvalidData, why)
        })?;
        if let Some(folder) = self.file.parent() {
            fs::create_dir_all(folder).map_err(|error| self.named(error))?;
        }
        // Never half of one: a desktop may read it at any moment.
        let draft = self.file.with_extension(format!("{}.new", std::process::id()));
        fs::write(&draft, text)
            .and_then(|()| fs::rename(&draft, &self.file))
            .map_err(|error| self.named(error))
    }

    /// Removes the entry.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn switch_off(&self) -> io::Result<()> {
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.named(error)),
            _ => Ok(()),
        }
    }

    fn named(&self, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.file.display()))
    }
}

/// The entry for this command.
fn text(command: &[OsString]) -> Option<String> {
    let words: Option<Vec<String>> = command.iter().map(|word| word.to_str().map(quoted)).collect();
    Some(format!(
        "[Desktop Entry]\nType=Application\nVersion=1.0\nName=Gantry\nExec={}\nIcon=gantry-desktop\n\
         Terminal=false\nStartupNotify=false\nX-GNOME-Autostart-enabled=true\n",
        words?.join(" ")
    ))
}

/// A word of `Exec`. Two layers, after the specification: the quotes of an argument, and the
/// escapes of any text value; and a percent sign begins a field code.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    let mut text = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '`' | '$' => text.extend(["\\\\", c.encode_utf8(&mut [0; 4])]),
            '\\' => text.push_str(r"\\\\"),
            '%' => text.push_str("%%"),
            '\n' => text.push_str(r"\n"),
            '\r' => text.push_str(r"\r"),
            '\t' => text.push_str(r"\t"),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_off_until_it_is_switched_on_and_off_again() {
        let place = tempfile::tempdir().unwrap();
        let entry = DesktopEntry::below(&place.path().join("config"));
        assert!(!entry.is_on().unwrap());
        entry.switch_off().unwrap();
        for _ in 0..2 {
            entry.switch_on(Path::new("/opt/gantry-desktop"), &["--hidden".into()]).unwrap();
            assert!(entry.is_on().unwrap());
        }
        let file = place.path().join("config/autostart/Gantry.desktop");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("\nExec=/opt/gantry-desktop --hidden\n"), "{text}");
        for off in ["Hidden=true", "X-GNOME-Autostart-enabled=false"] {
            fs::write(&file, format!("[Desktop Entry]\nType=Application\n{off}\n")).unwrap();
            assert!(!entry.is_on().unwrap(), "{off}");
        }
        entry.switch_off().unwrap();
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 0);
    }

    #[test]
    fn every_word_arrives_as_it_is() {
        for (word, wanted) in [
            ("/usr/bin/x", "/usr/bin/x"),
            ("", r#""""#),
            ("/opt/my gantry", r#""/opt/my gantry""#),
            ("数据", r#""数据""#),
            ("100%", r#""100%%""#),
            (r#"a"b"#, r#""a\\"b""#),
            ("$x`", r#""\\$x\\`""#),
            (r"a\b", r#""a\\\\b""#),
        ] {
            assert_eq!(quoted(word), wanted, "{word}");
        }
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("autostart"), "").unwrap();
        let entry = DesktopEntry::below(place.path());
        let why = entry.switch_on(Path::new("/x"), &[]).unwrap_err().to_string();
        assert!(why.contains("Gantry.desktop"), "{why}");
    }
}
