//! The development entry point: `cargo xtask <task>`.

fn main() {}
