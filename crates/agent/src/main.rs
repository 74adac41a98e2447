//! The binary `tas-agent`.

use std::process::ExitCode;

fn main() -> ExitCode {
    agent::run::main()
}
