//! The binary `tas-agent`.

fn main() {}
