//! What is told of a policy: from what compiling and planning found to the status that everybody reads.
//!
//! A pure function: the same findings beside the same earlier status give the same status, so that whoever compares the
//! two writes nothing when nothing changed.

use engine::names::NodeName;
use engine::plan::{HeldBy, Outcome};
use engine::policy::Mode;
use engine::time::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff;

use crate::policy::{MAX_LISTED_NODES, TasPolicyStatus, Violating, ViolatingNode};
use crate::problem::{Code, Problem, Severity};

/// Most problems that a message repeats.
const LISTED_PROBLEMS: usize = 5;
/// Most nodes that a message names; the list beside it holds more.
const NAMED_NODES: usize = 3;

/// What the conditions are about. Their names and reasons do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Whether the policy can be understood.
    Accepted,
    /// Whether its metrics have fresh samples.
    MetricsAvailable,
    /// Whether it does what it says.
    Enforced,
    /// Whether nodes violate it.
    Violating,
}

impl About {
    /// The type of the condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::MetricsAvailable => "MetricsAvailable",
            Self::Enforced => "Enforced",
            Self::Violating => "Violating",
        }
    }
}

/// The status of a policy: `problems` are what compiling found, `outcome` what planning found, `before` what was written
/// last.
pub fn status(
    problems: &[Problem],
    outcome: &Outcome,
    before: Option<&TasPolicyStatus>,
    now: Timestamp,
) -> TasPolicyStatus {
    let facts = Facts { problems, outcome };
    let claims = [facts.accepted(), facts.metrics_available(), facts.enforced(), facts.violating()];
    let condition = |claim: &Claim| {
        let earlier = before
            .into_iter()
            .flat_map(|status| &status.conditions)
            .find(|condition| condition.type_ == claim.about.as_str());
        let unchanged = earlier.filter(|condition| condition.status == claim.status.as_str());
        Condition {
            type_: claim.about.as_str().to_owned(),
            status: claim.status.as_str().to_owned(),
            reason: claim.reason.to_owned(),
            message: claim.message.clone(),
            observed_generation: Some(outcome.generation),
            last_transition_time: unchanged
                .map_or_else(|| moment(now), |condition| condition.last_transition_time.clone()),
        }
    };
    let [accepted, metrics, enforced, violating] = &claims;
    let compliance = match violating.status {
        Truth::True => "Violating",
        Truth::False => "Compliant",
        Truth::Unknown => "Unknown",
    };
    // The first that needs attention, then the state of the nodes.
    let alarms = [accepted, metrics, enforced].into_iter().filter(|claim| claim.status == Truth::False);
    let sentences: Vec<&str> = match alarms.map(|claim| claim.message.as_str()).next() {
        Some(alarm) if !outcome.judged => vec![alarm],
        Some(alarm) => vec![alarm, &violating.message],
        None => vec![&violating.message],
    };
    TasPolicyStatus {
        observed_generation: Some(outcome.generation),
        conditions: claims.iter().map(condition).collect(),
        violating: outcome.judged.then(|| listed(outcome)),
        compliance: Some(compliance.to_owned()),
        message: Some(sentences.join("; ")),
    }
}

/// The status as the definition of Intel TAS keeps it: two texts. Compare with this where that one is installed,
/// because the API server drops the rest in silence.
#[must_use]
pub fn legacy(status: TasPolicyStatus) -> TasPolicyStatus {
    TasPolicyStatus { compliance: status.compliance, message: status.message, ..TasPolicyStatus::default() }
}

/// Since when the nodes that a status lists violate: what a new leader goes on from. Names that are none are left out.
pub fn since(status: &TasPolicyStatus) -> Box<[(NodeName, Timestamp)]> {
    let listed = status.violating.iter().flat_map(|violating| &violating.nodes);
    listed
        .filter_map(|node| {
            let since = Timestamp::from_millis(node.since.0.as_millisecond());
            Some((NodeName::new(&node.name).ok()?, since))
        })
        .collect()
}

fn listed(outcome: &Outcome) -> Violating {
    let node = |violating: &engine::plan::ViolatingNode| ViolatingNode {
        name: violating.node.to_string(),
        since: moment(violating.since),
        reason: violating.why.to_string(),
    };
    Violating {
        count: count(outcome.violating),
        unknown: count(outcome.unknown),
        nodes: outcome.listed.iter().take(MAX_LISTED_NODES).map(node).collect(),
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// To the second, as the API server keeps it: a finer moment would differ from what is read back.
fn moment(at: Timestamp) -> Time {
    Time(jiff::Timestamp::from_second(at.millis().div_euclid(1000)).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

/// What a condition says.
struct Claim {
    about: About,
    status: Truth,
    reason: &'static str,
    message: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Truth {
    True,
    False,
    Unknown,
}

impl Truth {
    const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

struct Facts<'a> {
    problems: &'a [Problem],
    outcome: &'a Outcome,
}

impl Facts<'_> {
    fn refused(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// What is unknown of a policy that cannot be understood, or that was not looked at yet.
    fn unjudged(&self, about: About) -> Option<Claim> {
        let (reason, message) = if self.refused() {
            ("NotAccepted", "the policy is not accepted")
        } else if !self.outcome.judged {
            ("NotJudgedYet", "the policy was not looked at yet")
        } else {
            return None;
        };
        Some(Claim { about, status: Truth::Unknown, reason, message: message.to_owned() })
    }

    fn accepted(&self) -> Claim {
        let (status, reason, least) = if self.refused() {
            (Truth::False, "Invalid", Severity::Error)
        } else if self.problems.iter().any(|problem| problem.severity == Severity::Warning) {
            (Truth::True, "ValidWithWarnings", Severity::Warning)
        } else {
            let message = "the policy is valid".to_owned();
            return Claim { about: About::Accepted, status: Truth::True, reason: "Valid", message };
        };
        let texts: Vec<String> = self
            .problems
            .iter()
            .filter(|problem| problem.severity >= least)
            .map(|problem| format!("{}: {}", problem.path, problem.message))
            .collect();
        let mut message = texts.iter().take(LISTED_PROBLEMS).cloned().collect::<Vec<_>>().join("; ");
        if texts.len() > LISTED_PROBLEMS {
            message = format!("{message}; and {} more", texts.len() - LISTED_PROBLEMS);
        }
        Claim { about: About::Accepted, status, reason, message }
    }

    fn metrics_available(&self) -> Claim {
        let about = About::MetricsAvailable;
        if let Some(claim) = self.unjudged(about) {
            return claim;
        }
        let Outcome { dry, nodes, unknown, .. } = self.outcome;
        let (status, reason, message) = if *nodes == 0 {
            (Truth::Unknown, "NoNodes", "there are no nodes".to_owned())
        } else if !dry.is_empty() {
            let names = dry.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            (Truth::False, "NoFreshSamples", format!("no node has a fresh sample of {names}"))
        } else if *unknown > 0 {
            let message = format!("{unknown} of {nodes} nodes cannot be judged for want of fresh samples");
            (Truth::True, "SomeNodesUnknown", message)
        } else {
            (Truth::True, "Fresh", "every node has fresh samples".to_owned())
        };
        Claim { about, status, reason, message }
    }

    fn enforced(&self) -> Claim {
        let about = About::Enforced;
        if let Some(mut claim) = self.unjudged(about) {
            // Of one that is only new, nobody knows yet: that is no cause for alarm.
            if self.refused() {
                claim.status = Truth::False;
            }
            return claim;
        }
        let Outcome { held, asks, refused, shares, foreign, unwritable, .. } = self.outcome;
        let no = |reason, message: &str| (Truth::False, reason, message.to_owned());
        let too_long = self.problems.iter().any(|problem| {
            problem.code == Code::NameTooLong && problem.path.to_string().contains("strategies")
        });
        let (status, reason, message) = if self.outcome.paused {
            no("Paused", "everything is paused: nothing is written on nodes")
        } else if self.outcome.mode == Mode::Shadow {
            no("Shadow", "mode Shadow: nothing is refused, scored or written")
        } else if refused.labels || refused.taints {
            let what = match (refused.labels, refused.taints) {
                (true, true) => "labels and taints",
                (true, false) => "labels",
                _ => "taints",
            };
            let message = format!(
                "policies of this namespace may not write {what} on nodes; ask for the namespace to be allowed, or remove what asks for them"
            );
            (Truth::False, "NamespaceNotAllowed", message)
        } else if too_long {
            no("NameTooLong", "the policy's name does not fit into a node label or taint; shorten it")
        } else if let Some(node) = foreign {
            let message = format!(
                "the node {node} carries a label of the same key that somebody else has set, and so it stays as it is; rename the policy, or remove the label"
            );
            (Truth::False, "ForeignLabel", message)
        } else if let Some((node, why)) = unwritable {
            (Truth::False, "WriteRefused", format!("the node {node} cannot be written: {why}"))
        } else if !shares.is_empty() {
            let message = format!(
                "node labels carry no namespace: a node that violates this policy or the one of the same name in {} is marked for both; rename one",
                shares.join(", ")
            );
            (Truth::True, "SharedName", message)
        } else if held.by(HeldBy::RateLimit) > 0 {
            (Truth::True, "CatchingUp", "more is to be written than the rate limit allows".to_owned())
        } else if asks.labels || asks.taints {
            (Truth::True, "Enforcing", "placement follows the policy, and nodes are marked".to_owned())
        } else {
            (Truth::True, "Enforcing", "placement follows the policy".to_owned())
        };
        let message =
            if held.causes().next().is_some() { format!("{message}; held back: {held}") } else { message };
        Claim { about, status, reason, message }
    }

    fn violating(&self) -> Claim {
        let about = About::Violating;
        if let Some(claim) = self.unjudged(about) {
            return claim;
        }
        let Outcome { nodes, violating, unknown, labelled, listed, .. } = self.outcome;
        let (status, reason, message) = match (*violating, *unknown) {
            (0, unknown) if unknown > 0 && unknown == *nodes => {
                (Truth::Unknown, "NoFreshSamples", "no node can be judged".to_owned())
            }
            (0, 0) => (Truth::False, "NoneViolates", "no node violates the policy".to_owned()),
            (0, unknown) => {
                let message = format!(
                    "no node violates the policy as far as known; {unknown} of {nodes} cannot be judged"
                );
                (Truth::False, "NoneViolates", message)
            }
            (violating, _) => {
                let named: Vec<String> = listed
                    .iter()
                    .take(NAMED_NODES)
                    .map(|node| format!("{} ({})", node.node, node.why))
                    .collect();
                let more = violating.saturating_sub(named.len());
                let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
                let verb = if violating == 1 { "violates" } else { "violate" };
                let message = format!("{violating} of {nodes} nodes {verb}: {}{rest}", named.join(", "));
                (Truth::True, "NodesViolate", message)
            }
        };
        let message =
            if *labelled > 0 { format!("{message}; labels are won on {labelled}") } else { message };
        Claim { about, status, reason, message }
    }
}

#[cfg(test)]
mod tests;
