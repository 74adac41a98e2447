//! Who sees what stands on nodes: one watch, as anybody with the right to it has it.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use cluster::lite::NodeLite;
use cluster::watch::{self, News};
use engine::plan::VIOLATING;
use futures::StreamExt as _;
use testbed::Cluster;
use testbed::wait::{TimedOut, until};
use tokio::task::JoinHandle;

use crate::arena::PATIENCE;

/// See the module.
pub(super) struct Witness {
    seen: Arc<Mutex<Seen>>,
    watching: JoinHandle<()>,
}

/// How many labels say of each node that it violates, and when that last changed.
struct Seen {
    labels: BTreeMap<String, usize>,
    changed: Instant,
}

impl Witness {
    pub(super) fn start(cluster: &Cluster) -> Self {
        let seen = Arc::new(Mutex::new(Seen { labels: BTreeMap::new(), changed: Instant::now() }));
        let (client, noted) = (cluster.client(), Arc::clone(&seen));
        let watching = tokio::spawn(async move {
            let mut news = pin!(watch::nodes(&client));
            while let Some(news) = news.next().await {
                held(&noted).note(news);
            }
        });
        Self { seen, watching }
    }

    /// Waits until every node carries as many labels as it should, and says when the last of them came or went.
    pub(super) async fn right(&self, wanted: &BTreeMap<String, usize>) -> Result<Instant, TimedOut> {
        until("all labels to be right", PATIENCE, || {
            let seen = held(&self.seen);
            let wrong = wanted.iter().filter(|(node, labels)| seen.labels.get(*node) != Some(labels)).count();
            std::future::ready(match wrong {
                0 => Ok(seen.changed),
                some => Err(format!("{some} of {} nodes are wrong", wanted.len())),
            })
        })
        .await
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl Seen {
    fn note(&mut self, news: News<NodeLite>) {
        let nodes = match news {
            News::All(nodes) => nodes,
            News::Changed(node) => vec![node],
            // No node goes while we measure, and the watch begins again by itself.
            News::Gone(_) | News::Trouble(_) => return,
        };
        for node in nodes {
            let labels = node.labels.iter().filter(|label| label.value == VIOLATING).count();
            if self.labels.insert(node.name().to_owned(), labels) != Some(labels) {
                self.changed = Instant::now();
            }
        }
    }
}

fn held(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
