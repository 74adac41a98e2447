//! Prints the flags of `tas-agent` for `docs/agent.md`, as a block of Markdown.

use clap::CommandFactory as _;

fn main() {
    // Unwrapped, whatever features of clap the rest of the workspace switches on, and without what the environment of
    // this moment says.
    let mut command = agent::args::Args::command().term_width(0).mut_args(|arg| arg.hide_env_values(true));
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    println!("```text\n{}\n```", lines.join("\n").trim());
}
