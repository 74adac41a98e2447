//! `tas completion`: scripts that let a shell complete commands and flags.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::terminal;

/// Prints a script that completes commands and flags by tab.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(tas completion bash)
  tas completion zsh > \"${fpath[1]}/_tas\"
  tas completion fish > ~/.config/fish/completions/tas.fish")]
pub(crate) struct Arguments {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::Arguments::command(), "tas", &mut script);
    terminal::print(&script);
    ExitCode::SUCCESS
}
