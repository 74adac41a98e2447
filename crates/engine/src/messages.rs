//! The words of every refusal a policy can lead to, made once so that answering only copies them.
//!
//! They hold no number that varies by node: the scheduler adds equal texts up in a pod's event.

use crate::policy::Policy;
use crate::reason::Reason;
use crate::verdict::{Cause, Ground};

/// The texts of one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Messages {
    rules: Box<[Texts]>,
    node_unknown: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Texts {
    breaks: Box<str>,
    expected: Box<str>,
    unknown: Box<str>,
}

impl Messages {
    pub(crate) fn of(policy: &Policy) -> Self {
        let text = |reason: &Reason| format!("{}: {}", policy.name, reason.stable()).into_boxed_str();
        let rules = policy.dontschedule.iter().flat_map(|set| &set.rules).map(|rule| {
            let (metric, threshold, target) = (rule.metric.clone(), rule.threshold, rule.threshold.target());
            Texts {
                breaks: text(&rule.breaks(target)),
                expected: text(&Reason::Expected {
                    metric: metric.clone(),
                    threshold,
                    expected: target,
                    pods: 0,
                }),
                unknown: text(&Reason::Missing { metric }),
            }
        });
        Self { rules: rules.collect(), node_unknown: text(&Reason::NodeUnknown) }
    }

    pub(crate) fn of_cause(&self, cause: Cause) -> &str {
        let Cause::Rule { place, ground } = cause else { return &self.node_unknown };
        let Some(texts) = self.rules.get(usize::from(place)) else { return &self.node_unknown };
        match ground {
            Ground::Observed | Ground::Held => &texts.breaks,
            Ground::Expected => &texts.expected,
            Ground::Missing | Ground::Stale => &texts.unknown,
        }
    }
}
