//! System packages: installed on Debian and its relatives, named elsewhere.

use crate::command::{output, run};
use std::process::Command;

/// What compiling the shell and opening its window need.
pub const BUILD: &[&str] = &[
    "build-essential",
    "pkg-config",
    "file",
    "libwebkit2gtk-4.1-dev",
    "libayatana-appindicator3-1",
];

/// What the tests need on top: a display, a session bus, a window manager, the
/// drivers, fonts for the screenshots, and the login shells that people have. Not `dbus-x11`: it would start a
/// stray session bus that outlives the application.
pub const TEST: &[&str] = &[
    "chromium",
    "dbus-daemon",
    "fish",
    "fonts-dejavu-core",
    "fonts-noto-cjk",
    "imagemagick",
    "openbox",
    "procps",
    "python3",
    "python3-venv",
    "tcsh",
    "webkit2gtk-driver",
    "wmctrl",
    "xauth",
    "xdotool",
    "xvfb",
    "zsh",
];

/// Makes sure that the packages are there. On a system that is not Debian's
/// it only checks what it can and says what is needed.
pub fn need(packages: &[&str]) -> Result<(), String> {
    if cfg!(target_os = "macos") {
        return output(Command::new("xcode-select").arg("-p")).map(drop).ok_or_else(|| {
            "the Xcode command line tools are missing; run `xcode-select --install`".into()
        });
    }
    if cfg!(windows) {
        println!(
            "Needed on Windows: the Visual Studio build tools with \"Desktop development with \
             C++\", and the WebView2 runtime (part of Windows 11)."
        );
        return Ok(());
    }
    match output(Command::new("dpkg-query").arg("--version")) {
        Some(_) => debian(packages),
        None => other_linux(),
    }
}

fn debian(packages: &[&str]) -> Result<(), String> {
    let missing = missing(packages);
    if missing.is_empty() {
        return Ok(());
    }
    println!("Missing system packages: {}", missing.join(" "));
    let sudo = !is_root();
    if sudo && output(Command::new("sudo").args(["-n", "true"])).is_none() {
        return Err(format!(
            "system packages are missing; run this, then try again:\n  \
             sudo apt-get update && sudo apt-get install -y --no-install-recommends {}",
            missing.join(" ")
        ));
    }
    run(apt(sudo).arg("update"))?;
    run(apt(sudo).args(["install", "-y", "--no-install-recommends"]).args(&missing))
}

fn missing<'a>(packages: &[&'a str]) -> Vec<&'a str> {
    // One query for all; it fails when one is unknown but still prints the others.
    let found = Command::new("dpkg-query")
        .args(["-W", "-f", "${Package} ${db:Status-Status}\n"])
        .args(packages)
        .output();
    let found = found.map(|found| String::from_utf8_lossy(&found.stdout).into_owned());
    let found = found.unwrap_or_default();
    let is_there = |name: &str| {
        found.lines().any(|line| {
            line.split_once(' ').is_some_and(|(n, status)| n == name && status == "installed")
        })
    };
    packages.iter().copied().filter(|name| !is_there(name)).collect()
}

fn apt(sudo: bool) -> Command {
    let mut command = if sudo {
        let mut command = Command::new("sudo");
        command.args(["-n", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]);
        command
    } else {
        let mut command = Command::new("apt-get");
        command.arg("-q").env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    command.stdin(std::process::Stdio::null());
    command
}

fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0")
}

fn other_linux() -> Result<(), String> {
    if output(Command::new("pkg-config").args(["--exists", "webkit2gtk-4.1"])).is_some() {
        return Ok(());
    }
    Err("WebKitGTK 4.1 was not found (`pkg-config --exists webkit2gtk-4.1` fails). Install a C \
         compiler, pkg-config, the development files of WebKitGTK 4.1, and the Ayatana \
         appindicator library, then try again:\n  \
         Fedora: sudo dnf install gcc pkgconf webkit2gtk4.1-devel libayatana-appindicator-gtk3\n  \
         Arch:   sudo pacman -S --needed base-devel webkit2gtk-4.1 libayatana-appindicator\n  \
         SUSE:   sudo zypper install gcc pkgconf webkit2gtk3-devel libayatana-appindicator3-1"
        .into())
}
