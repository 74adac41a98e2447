//! Several `tas serve` are of one mind, whenever they were started.

use std::time::{Duration, Instant};

use e2e::PATIENCE;
use e2e::caller::{Caller, Filtered};
use e2e::manifests::policy;
use e2e::tas::{Attached, Payload};
use testbed::tas::Replica;

use crate::TAS;

const NODES: [&str; 3] = ["swinging", "calm", "quiet"];

/// How long replicas may differ: they take in one sample at slightly different moments. One that had to see the whole
/// `for` by itself, or none of it, would differ from the others for longer.
const MOST_APART: Duration = Duration::from_secs(4);

/// All replicas under watch, and what they have said so far.
struct Watch {
    caller: Caller,
    replicas: Vec<Replica>,
    differing_since: Option<Instant>,
    history: Vec<Filtered>,
}

impl Watch {
    /// Asks all at once until all say that exactly these nodes pass.
    async fn until_all_pass(&mut self, passed: &[&str]) {
        let deadline = Instant::now() + PATIENCE;
        while !self.look().await.iter().all(|answer| answer.passed == passed) {
            assert!(Instant::now() < deadline, "waited for {passed:?} to pass; so far {:?}", self.history);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// One answer of each; fails if they have differed for too long.
    async fn look(&mut self) -> Vec<Filtered> {
        let mut asked = tokio::task::JoinSet::new();
        for (place, replica) in self.replicas.iter().enumerate() {
            let (caller, port) = (self.caller.clone(), replica.port);
            asked.spawn(async move { (place, caller.filter(port, "swing", &NODES).await) });
        }
        let mut answers = asked.join_all().await;
        answers.sort_by_key(|(place, _)| *place);
        let answers: Vec<Filtered> =
            answers.into_iter().map(|(_, answer)| answer.expect("answered")).collect();
        if answers.windows(2).all(|pair| pair[0] == pair[1]) {
            self.differing_since = None;
            if self.history.last() != answers.first() {
                self.history.extend(answers.first().cloned());
            }
        } else {
            let since = *self.differing_since.get_or_insert_with(Instant::now);
            assert!(since.elapsed() < MOST_APART, "they differ for {:?}: {answers:?}", since.elapsed());
        }
        answers
    }
}

#[tokio::test]
async fn replicas_agree_through_for_and_clear_also_when_one_starts_in_the_middle() {
    let attached = Attached::start(TAS, &NODES, Payload::NamesOnly).await;
    let rule = "metricname: swing, operator: GreaterThan, target: 80, clear: 70, for: 15s";
    let values = NODES.map(|node| (node, 50.0));
    attached.policy(&policy("swing", "dontschedule", rule), "swing", &values).await;
    let authority = attached.installation.authority();
    let client = authority.client("kube-scheduler", None).expect("a certificate");
    let caller = Caller::new(&authority.certificate(), Some(&client));
    let second = attached.replica("tas-2").await;
    let replicas = vec![attached.tas.clone(), second];
    let mut watch = Watch { caller, replicas, differing_since: None, history: Vec::new() };
    watch.until_all_pass(&NODES).await;

    // Over the target: refused only once it has lasted. The third starts when it has lasted for a third of that.
    attached.set("swing", &[("swinging", 90.0)]).await;
    let risen = Instant::now();
    while risen.elapsed() < Duration::from_secs(5) {
        assert!(watch.look().await.iter().all(|answer| answer.passed == NODES), "too early");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let third = attached.replica("tas-3").await;
    watch.replicas.push(third);
    watch.until_all_pass(&NODES[1..]).await;

    // Between clear and target it stays refused; who starts now can know that only from the past.
    attached.set("swing", &[("swinging", 75.0)]).await;
    attached.read("swing").await;
    let fourth = attached.replica("tas-4").await;
    watch.replicas.push(fourth);
    watch.until_all_pass(&NODES[1..]).await;

    attached.set("swing", &[("swinging", 60.0)]).await;
    watch.until_all_pass(&NODES).await;
    assert_eq!(watch.history.len(), 3, "in, out, in: {:?}", watch.history);
}
