//! Where samples come from, whoever it is that has them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use engine::NodeIndex;
use engine::names::MetricName;
use engine::time::Timestamp;

use crate::directory::Directory;
use crate::mapping::Gathered;
use crate::prometheus::decode::DecodeError;

/// How many times the timeout of a request one reading may take before it gives the rest up.
pub(crate) const READING_TIMEOUTS: u32 = 2;

/// Brings samples of the metrics asked for. What fails for one metric is told of that metric alone.
pub trait MetricSource: Send + Sync + 'static {
    /// Reads all that is asked for. Returns within the source's own deadlines, whatever the backend does.
    fn read(&self, ask: Ask) -> impl Future<Output = Reading> + Send;
}

/// What to bring.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The moment to read for; the same in every replica.
    pub at: Timestamp,
    /// How far apart such moments are.
    pub step: Duration,
    /// Which metrics.
    pub wants: Vec<Want>,
    /// The nodes there are.
    pub directory: Arc<Directory>,
}

/// One metric to bring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// Which.
    pub metric: MetricName,
    /// How far back; zero for the newest alone.
    pub history: Duration,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The moment it was read for.
    pub at: Timestamp,
    /// The nodes that the samples are numbered by.
    pub nodes: Arc<NodeIndex>,
    /// An outcome for each metric asked for, in that order.
    pub metrics: Vec<MetricReading>,
    /// What the backend warned of; the samples are good, but some may lack.
    pub warnings: Vec<String>,
}

/// What came of one metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricReading {
    /// Which.
    pub metric: MetricName,
    /// Samples, or why there are none.
    pub outcome: Result<Answered, MetricError>,
}

/// Samples, and who answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The query or name that had them.
    pub by: String,
    /// How far back the samples go.
    pub history: Duration,
    /// The samples.
    pub gathered: Gathered,
}

/// Why there are no samples of a metric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricError {
    /// The source as a whole did not answer.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// It answered, and has nothing by that name.
    #[error("no series found; looked for {looked_for}")]
    NotFound {
        /// The names or the query tried.
        looked_for: String,
    },
    /// Series came, and none belongs to a node we know.
    #[error(
        "{count} series found, none of a known node, such as {example}; a label of the series must name its node"
    )]
    NoNode {
        /// How many.
        count: u64,
        /// One of them.
        example: String,
    },
    /// Series came without a single value that is a number.
    #[error("no usable value: {not_finite} not finite, {histograms} native histograms, {other} unreadable")]
    NoValue {
        /// NaN and infinities.
        not_finite: u64,
        /// Native histograms.
        histograms: u64,
        /// The rest.
        other: u64,
    },
    /// Several series of one node.
    #[error(
        "several series of one node, such as {one} and {other}; configure an aggregation or a narrower query"
    )]
    Ambiguous {
        /// One of them.
        one: String,
        /// Another of the same node.
        other: String,
    },
}

/// Why a source did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// No connection, or it broke before an answer.
    #[error("cannot reach {host}: {reason}")]
    Unreachable {
        /// Whom.
        host: String,
        /// Why not.
        reason: String,
    },
    /// Not within the deadline.
    #[error("no answer within {seconds} s")]
    Late {
        /// The deadline.
        seconds: u64,
    },
    /// The connection ended in the middle of the answer.
    #[error("the connection ended in the middle of the answer")]
    Broken,
    /// Longer than we take.
    #[error("the answer is longer than {limit} bytes; narrow the query")]
    TooLarge {
        /// How long it may be.
        limit: usize,
    },
    /// Sent elsewhere, as by a login page; not followed, because the token is not for others.
    #[error("redirected ({status}) to {to:?}, which is not followed; give the final URL")]
    Redirected {
        /// The status.
        status: u16,
        /// Where to, shortened.
        to: String,
    },
    /// Told to come back later.
    #[error("told to wait ({status}); asking again in {seconds} s")]
    Busy {
        /// The status.
        status: u16,
        /// How long we wait.
        seconds: u64,
    },
    /// Not asked, because it told us to wait.
    #[error("waiting, as told, for {seconds} s more")]
    Waiting {
        /// How long still.
        seconds: u64,
    },
    /// A status that is no answer.
    #[error("answered with status {status}: {said}")]
    Status {
        /// The status.
        status: u16,
        /// The beginning of what came with it.
        said: String,
    },
    /// The token was not accepted.
    #[error("not allowed in ({status}); {hint}")]
    Denied {
        /// The status.
        status: u16,
        /// What to look at.
        hint: String,
    },
    /// A token or CA file that cannot be used.
    #[error("{0}")]
    Credentials(String),
    /// An answer that is of no use.
    #[error(transparent)]
    Answer(#[from] DecodeError),
    /// An answer that is no list of metric values.
    #[error("the answer is not what the custom metrics API sends: {reason}")]
    NoMetricList {
        /// What was expected where.
        reason: String,
    },
    /// No backend is configured.
    #[error(
        "no metric source is configured; give --prometheus-url or prometheus.url in the configuration file"
    )]
    NotConfigured,
}

impl SourceError {
    /// Nothing came for this long.
    pub(crate) fn late(patience: Duration) -> Self {
        Self::Late { seconds: patience.as_secs().max(1) }
    }

    /// Whether asking for fewer metrics at once might help.
    pub(crate) fn is_about_the_query(&self) -> bool {
        match self {
            Self::TooLarge { .. } => true,
            Self::Answer(error) => {
                !matches!(error, DecodeError::Empty | DecodeError::WebPage | DecodeError::NotJson { .. })
            }
            _ => false,
        }
    }
}
