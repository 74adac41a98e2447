//! Prints `docs/metrics-agent.md`.

fn main() {
    print!("{}", agent::reference::page());
}
