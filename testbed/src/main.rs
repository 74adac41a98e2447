//! The command `testbed`: builds the programs, and keeps clusters for people who want to try something.

mod command;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match command::Command::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
