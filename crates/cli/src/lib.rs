//! The command `tas`. One file per subcommand; this one only picks among them.

mod check;
mod completion;
pub mod demo;
mod terminal;

use std::process::{ExitCode, Termination};

use clap::{CommandFactory, Parser, Subcommand};

/// Places Kubernetes pods by what the machines are really doing.
#[derive(Debug, Parser)]
#[command(
    name = "tas",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  tas demo                              see it work in this terminal, without a cluster
  tas serve --help                      answer kube-scheduler in a cluster
  tas check policy.yaml                 all that is wrong with a policy, and the traps in it
  helm template . | tas check -         the same for what a chart renders
  source <(tas completion bash)         commands and flags by tab, in bash"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Arguments),
    Demo(demo::Arguments),
    Serve(Box<server::args::ServeArgs>),
    Completion(completion::Arguments),
}

/// The command line as clap knows it, for what is generated from it.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Does what the command line asks for.
pub fn main() -> ExitCode {
    // Intel's manifests write flags as Go takes them: -port 9001.
    let words = chassis::args::normalise(std::env::args_os(), &chassis::args::long_flags(&command()));
    match Arguments::parse_from(words).command {
        Command::Check(arguments) => check::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Serve(arguments) => server::run(&arguments).report(),
        Command::Completion(arguments) => completion::run(&arguments),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_arguments_are_consistent() {
        super::command().debug_assert();
    }
}
