//! How far the requests of one node's change came, so that nothing is told that did not happen, and nothing that did is
//! left out.

use api::marks::label_key;
use engine::plan::{Deed, MarkKey, NodeChange};

/// What was stored.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// The labels that we own.
    pub(super) labels: bool,
    /// Except these, which belong to somebody else.
    pub(super) left_alone: Vec<String>,
    /// The taints, and that leftovers are taken off.
    pub(super) rest: bool,
}

impl Stored {
    /// The change with the deeds that were done; nothing if none was.
    pub(super) fn of(&self, change: &NodeChange) -> Option<NodeChange> {
        let deeds: Box<[Deed]> =
            change.deeds.iter().filter(|deed| self.holds(deed, change)).cloned().collect();
        (!deeds.is_empty()).then(|| NodeChange { deeds, ..change.clone() })
    }

    fn holds(&self, deed: &Deed, change: &NodeChange) -> bool {
        match &deed.mark {
            MarkKey::Taint(_) => self.rest,
            // Off it is only once it was taken off, not when we let go of it.
            MarkKey::Label(key) if change.leftovers.iter().any(|label| label.key == *key) => self.rest,
            MarkKey::Label(key) => self.labels && !self.left_alone.contains(&label_key(key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::names::NodeName;
    use engine::plan::{Act, LabelKey, NodeLabel};

    use super::*;

    fn violating(policy: &str) -> LabelKey {
        LabelKey::Violating(policy.into())
    }

    fn change() -> NodeChange {
        let deed = |act, mark| Deed { act, mark, policy: None, reason: None };
        NodeChange {
            node: NodeName::new("n1").unwrap(),
            labels: Some(Box::default()),
            adopts: Box::default(),
            leftovers: [NodeLabel { key: violating("old"), value: "violating".into() }].into(),
            taints: Some(Box::default()),
            kick: None,
            deeds: [
                deed(Act::Added, MarkKey::Label(violating("gpu"))),
                deed(Act::Removed, MarkKey::Label(violating("old"))),
                deed(Act::Added, MarkKey::Label(violating("power"))),
                deed(Act::Added, MarkKey::Taint("power".into())),
            ]
            .into(),
        }
    }

    fn told(stored: &Stored) -> Vec<usize> {
        let (change, done) = (change(), stored.of(&change()));
        let deeds = done.map(|done| done.deeds).unwrap_or_default();
        deeds.iter().map(|deed| change.deeds.iter().position(|other| other == deed).unwrap()).collect()
    }

    #[test]
    fn what_is_told_is_what_was_stored() {
        let left_alone = || vec![label_key(&violating("gpu"))];
        assert_eq!(told(&Stored::default()), [0; 0]);
        assert_eq!(told(&Stored { labels: true, ..Stored::default() }), [0, 2]);
        assert_eq!(told(&Stored { labels: true, left_alone: left_alone(), ..Stored::default() }), [2]);
        assert_eq!(told(&Stored { labels: true, left_alone: left_alone(), rest: true }), [1, 2, 3]);
        assert_eq!(told(&Stored { rest: true, ..Stored::default() }), [1, 3]);
    }
}
