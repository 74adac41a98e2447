//! The program `tas-agent` under the name by which Cargo hands it to these tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    agent::run::main()
}
