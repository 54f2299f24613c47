//! Prints `ui/src/wire.ts`; see `cargo xtask wire`.

fn main() {
    print!("{}", gantry_core::api::typescript());
}
