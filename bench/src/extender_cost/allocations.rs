//! How often the extender allocates for one answer, from the bytes of the question to those of the answer.

use divan::Bencher;
use engine::fixtures::at;

use super::bodies::Call;
use super::servers;

/// Prints the table of the functions below and of no others.
pub(crate) fn print() {
    println!("\nallocations of one answer");
    divan::Divan::default().skip_regex("engine_cost|plan_cost").run_benches();
}

#[divan::bench(args = [100, 1_000, 5_000])]
fn filter_names(bencher: Bencher, names: usize) {
    answer(bencher, Call::FilterNames(names));
}

#[divan::bench(args = [100, 1_000, 5_000])]
fn prioritize_names(bencher: Bencher, names: usize) {
    answer(bencher, Call::PrioritizeNames(names));
}

#[divan::bench(args = [100, 1_000])]
fn filter_nodes(bencher: Bencher, nodes: usize) {
    answer(bencher, Call::FilterNodes(nodes));
}

fn answer(bencher: Bencher, call: Call) {
    let extender = servers::extender();
    let head = http::Request::post(call.path()).header(http::header::CONTENT_TYPE, "application/json");
    let route = head.body(()).ok().and_then(|request| extender.admit(&request.into_parts().0).ok());
    let (route, body) = (route.expect("a route of ours"), call.body());
    bencher.bench(|| extender.answer(&route, body.as_bytes(), at(1)));
}
