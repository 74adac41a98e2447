//! The command `testbed`: builds the programs, and keeps clusters for people who want to try something.

mod command;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match command::Command::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            command::terminal::mention(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
