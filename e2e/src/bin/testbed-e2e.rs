//! The program `testbed` under the name by which Cargo hands it to these tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    testbed::command::main()
}
