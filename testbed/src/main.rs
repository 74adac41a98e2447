//! The command `testbed`: builds the programs, and keeps clusters for people who want to try something.

use std::process::ExitCode;

fn main() -> ExitCode {
    testbed::command::main()
}
