//! The program `tas`. What it does is in the library beside it, where examples and generators can reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
