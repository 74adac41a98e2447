//! The program `tas` under the name by which Cargo hands it to these tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
