//! Metric values that a test sets are what Prometheus answers with.

use e2e::{PATIENCE, started};
use testbed::Options;
use testbed::wait::until;

#[tokio::test]
async fn prometheus_answers_with_the_value_that_was_set_and_forgets_what_was_taken_away() {
    let cluster = started(Options::default()).await;
    cluster.set_metric("node_power_watts", "node-7", 32.59).await.expect("scraped");
    cluster.set_metric("node_power_watts", "node-8", 20.2).await.expect("scraped");
    let found = cluster.query("node_power_watts > 30").await.expect("an answer");
    let found: Vec<_> =
        found.iter().map(|series| (series.labels["node"].as_str(), series.value.1.as_str())).collect();
    assert_eq!(found, [("node-7", "32.59")]);
    cluster.exporter().expect("there is one").forget("node_power_watts", "node-7");
    until("the series to end", PATIENCE, || async {
        let found = cluster.query("node_power_watts > 30").await.map_err(|error| error.to_string())?;
        if found.is_empty() { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await
    .expect("a series that is no longer scraped ends");
}
