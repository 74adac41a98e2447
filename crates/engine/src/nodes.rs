//! The nodes of a cluster, numbered: everything per node is an array, everything by name is one lookup.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use crate::names::NodeName;

/// A node's number within one [`NodeIndex`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIx(u32);

impl NodeIx {
    /// As a place in an array with a cell per node.
    pub const fn place(self) -> usize {
        self.0 as usize
    }

    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    pub(crate) const fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// All nodes, in the order of their names, so that the order in which they were learnt leaves no trace.
#[derive(Default)]
pub struct NodeIndex {
    names: Box<[NodeName]>,
    numbers: HashMap<NodeName, u32, BuildHasherDefault<NameHasher>>,
}

impl NodeIndex {
    /// Numbers the nodes; repeats count once.
    pub fn new(names: impl IntoIterator<Item = NodeName>) -> Self {
        let mut names: Vec<NodeName> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        let numbers = (0..).zip(&names).map(|(number, name)| (name.clone(), number)).collect();
        Self { names: names.into_boxed_slice(), numbers }
    }

    /// The number of the node of that name.
    pub fn find(&self, name: &str) -> Option<NodeIx> {
        self.numbers.get(name).copied().map(NodeIx)
    }

    /// The name behind a number of this index.
    pub fn name(&self, node: NodeIx) -> &NodeName {
        &self.names[node.place()]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// All numbers, in the order of the names.
    pub fn all(&self) -> impl Iterator<Item = NodeIx> + use<> {
        (0..).take(self.names.len()).map(NodeIx)
    }

    /// All names, in order.
    pub fn names(&self) -> &[NodeName] {
        &self.names
    }
}

/// Hashes a name eight bytes at a time. The keys are names of Node objects, which only an administrator
/// makes, so speed counts more here than resistance to made-up collisions: the scheduler asks for thousands
/// of names per pod.
#[derive(Default)]
struct NameHasher(u64);

impl NameHasher {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            self.mix(rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.mix(u64::from(byte));
    }

    fn finish(&self) -> u64 {
        // The table uses both ends of the hash; a product is only well mixed at the upper one.
        self.0 ^ self.0 >> 32
    }
}

/// Only the names: the lookup beside them has no order of its own.
impl fmt::Debug for NodeIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.names).finish()
    }
}

impl PartialEq for NodeIndex {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names
    }
}

impl Eq for NodeIndex {}

/// Where each node of a new index stood in the one before.
#[derive(Debug)]
pub(crate) struct Moved(Vec<Option<usize>>);

impl Moved {
    /// Nothing if both number the nodes alike.
    pub(crate) fn between(before: &NodeIndex, now: &NodeIndex) -> Option<Self> {
        (before != now)
            .then(|| Self(now.names.iter().map(|n| before.find(n.as_str()).map(NodeIx::place)).collect()))
    }

    /// The cells of the new order; a node that was not there before gets `empty`.
    pub(crate) fn rearrange<T: Copy>(&self, cells: &[T], empty: T) -> Box<[T]> {
        self.0
            .iter()
            .map(|before| before.and_then(|place| cells.get(place).copied()).unwrap_or(empty))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Moved, NodeIndex};
    use crate::names::NodeName;

    fn index(names: &[&str]) -> NodeIndex {
        NodeIndex::new(names.iter().map(|name| NodeName::new(name).unwrap()))
    }

    #[test]
    fn the_order_in_which_nodes_are_learnt_leaves_no_trace() {
        assert_eq!(index(&["c", "a", "b", "a"]), index(&["a", "b", "c"]));
        let nodes = index(&["c", "a", "b"]);
        assert_eq!(nodes.find("b").map(|ix| nodes.name(ix).as_str().to_owned()), Some("b".to_owned()));
        assert_eq!(nodes.find("d"), None);
    }

    #[test]
    fn what_is_known_of_a_node_moves_with_it() {
        let moved = Moved::between(&index(&["a", "b", "c"]), &index(&["b", "c", "d"])).unwrap();
        assert_eq!(*moved.rearrange(&[1, 2, 3], 0), [2, 3, 0]);
        assert!(Moved::between(&index(&["a"]), &index(&["a"])).is_none());
    }
}
