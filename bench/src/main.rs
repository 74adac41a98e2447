//! Measurements against the budgets of the design. Ratios and CPU time before wall time: machines are
//! noisy. `cargo xtask bench NAME`.

mod cpu;
mod engine_cost;

#[global_allocator]
static ALLOCATOR: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() -> std::process::ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    match name.as_str() {
        "engine" => engine_cost::run(),
        other => {
            eprintln!("no measurement is called {other:?}; there is: engine");
            return std::process::ExitCode::from(2);
        }
    }
    std::process::ExitCode::SUCCESS
}
