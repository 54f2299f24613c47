//! Prepares what the shell embeds.

use std::{fs, path::Path};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The interface is built by npm before this crate; a plain `cargo build` of
    // a fresh clone must work too and says in the window what is missing.
    let dist = Path::new("../ui/dist");
    if !dist.join("index.html").exists() {
        fs::create_dir_all(dist)?;
        fs::write(
            dist.join("index.html"),
            "<!doctype html><title>Gantry</title><p>The interface is not built. Run <code>cargo xtask run</code>.",
        )?;
    }
    println!("cargo:rerun-if-changed=../ui/dist");
    let commands: &[&str] = &[
        "command",
        "events",
        "pick_folder",
        "open_external",
        "open_data_folder",
        "save_file",
        "hide",
        "close_heard",
        "shown",
        "autostart",
        "set_autostart",
    ];
    tauri_build::try_build(
        tauri_build::Attributes::new()
            .app_manifest(tauri_build::AppManifest::new().commands(commands)),
    )?;
    Ok(())
}
