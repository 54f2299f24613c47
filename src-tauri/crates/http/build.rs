//! Makes sure that the folder of the built user interface is there: a program
//! without it still builds, and says at `GET /` how to add it.

use std::path::Path;

fn main() {
    let dist = Path::new("../../../ui/dist");
    if let Err(error) = std::fs::create_dir_all(dist) {
        println!("cargo::warning={} could not be created: {error}", dist.display());
    }
    // A release build holds the files themselves, so it must notice new ones.
    println!("cargo::rerun-if-changed=../../../ui/dist");
    println!("cargo::rerun-if-changed=build.rs");
}
