//! Measurements against the budgets of the design. Ratios and CPU time before wall time: machines are
//! noisy. `cargo xtask bench NAME`.

mod agent_cost;
mod arena;
mod cpu;
mod enforcement_cost;
mod engine_cost;
mod extender_cost;
mod peers;
mod plan_cost;
mod scheduling_cost;
mod serve_cost;
mod spread;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["agent"] => agent_cost::run(),
        ["enforcement", rest @ ..] => enforcement_cost::run(rest),
        ["engine"] => {
            engine_cost::run();
            Ok(())
        }
        ["extender"] => extender_cost::run(),
        ["scheduling", rest @ ..] => scheduling_cost::run(rest),
        ["serve", rest @ ..] => serve_cost::run(rest),
        // How `extender` starts the servers it measures.
        ["extender-server", kind] => extender_cost::serve(kind, None),
        ["extender-server", kind, tls] => extender_cost::serve(kind, Some(tls)),
        other => {
            eprintln!(
                "no measurement is called {:?}; there are: agent, enforcement, engine, extender, scheduling, serve",
                other.join(" ")
            );
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
