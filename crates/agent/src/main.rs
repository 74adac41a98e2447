//! The binary `tas-agent`.

use std::process::ExitCode;

use agent::args::Args;
use clap::Parser;

fn main() -> ExitCode {
    let args = Args::parse();
    let logs = tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::INFO);
    if args.log_json {
        logs.json().init();
    } else {
        logs.with_ansi(false).init();
    }
    match agent::run::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tas-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}
