//! Real signals to this very process, so one test in a process of its own.

mod wire;

use std::time::Duration;

use chassis::Phase;
use chassis::shutdown::{Signal, Signals, channel};
use wire::soon;

fn signal_myself(name: &str) {
    let status =
        std::process::Command::new("kill").args(["-s", name, &std::process::id().to_string()]).status();
    assert!(status.expect("kill exists").success());
}

#[tokio::test]
async fn sigterm_leaves_before_it_drains_and_a_second_signal_or_sigint_drains_at_once() {
    const FOR_EVER: Duration = Duration::from_hours(1);

    // SIGTERM: leave, wait for the load balancers, drain.
    let (trigger, mut shutdown) = channel();
    let driving =
        tokio::spawn(Signals::install().expect("signals").drive(trigger, Duration::from_millis(10)));
    signal_myself("TERM");
    soon("draining", shutdown.reached(Phase::Draining)).await;
    assert_eq!(soon("the end", driving).await.expect("no panic"), Signal::Terminate);

    // A second signal cuts the wait short.
    let (trigger, mut shutdown) = channel();
    let driving = tokio::spawn(Signals::install().expect("signals").drive(trigger, FOR_EVER));
    signal_myself("TERM");
    soon("leaving", shutdown.reached(Phase::Leaving)).await;
    assert_eq!(shutdown.phase(), Phase::Leaving);
    signal_myself("TERM");
    soon("draining", shutdown.reached(Phase::Draining)).await;
    assert_eq!(soon("the end", driving).await.expect("no panic"), Signal::Terminate);

    // A person at a terminal does not wait.
    let (trigger, mut shutdown) = channel();
    let driving = tokio::spawn(Signals::install().expect("signals").drive(trigger, FOR_EVER));
    signal_myself("INT");
    soon("draining", shutdown.reached(Phase::Draining)).await;
    assert_eq!(soon("the end", driving).await.expect("no panic"), Signal::Interrupt);
}
