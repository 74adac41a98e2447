//! What came of it, for machines: one JSON object.

use serde::Serialize;
use sim::Cluster;

use super::stage::Stage;

/// The object that `--output json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    seed: u64,
    nodes: usize,
    virtual_seconds: u32,
    policy: String,
    with_policy: Side,
    without_policy: Side,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Side {
    pods_placed: u32,
    pods_waiting: usize,
    pods_moved: u32,
    node_seconds_over_target: u32,
    refusals: u32,
    flaps: u32,
}

impl Side {
    fn of(cluster: &Cluster) -> Self {
        let tally = cluster.tally();
        Self {
            pods_placed: tally.pods_placed,
            pods_waiting: cluster.waiting(),
            pods_moved: tally.pods_moved,
            node_seconds_over_target: tally.node_seconds_over,
            refusals: tally.refusals,
            flaps: tally.flaps,
        }
    }
}

/// The report of a stage; the same bytes for the same seed.
pub(super) fn json(stage: &Stage) -> Result<String, serde_json::Error> {
    let trial = &stage.trial;
    serde_json::to_string_pretty(&Report {
        seed: trial.scenario().seed,
        nodes: trial.scenario().machines.len(),
        virtual_seconds: trial.passed_s(),
        policy: trial.policy().name.to_string(),
        with_policy: Side::of(trial.with()),
        without_policy: Side::of(trial.without()),
    })
}
