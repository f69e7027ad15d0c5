//! The nodes of the entries, in circular queues that are linked by index.
//!
//! Each queue has a sentinel node at the start of the slab, so that a node can be unlinked without knowing
//! its queue, and all nodes of a queue can be appended to another in constant time.

use super::score::Score;

/// The index of an entry's node.
pub type NodeId = u32;

/// The place of an entry: its class and the part of the class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) class: u8,
    pub(super) part: Part,
}

/// The parts of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Part {
    /// The young half of the window.
    Fresh,
    /// The old half of the window.
    Aged,
    /// The entries of the main part with the lowest scores.
    Edge,
    /// The rest of the main part.
    Main,
}

/// Number of parts.
pub(super) const PARTS: usize = 4;

/// An entry. A free node has no place; free nodes are chained through `next`.
#[derive(Clone, Copy)]
pub(super) struct Node {
    pub(super) hash: u64,
    prev: NodeId,
    next: NodeId,
    pub(super) charge: u32,
    pub(super) score: Score,
    /// The tick at which the score was current.
    pub(super) tick: u16,
    /// The turn in which a read was seen last.
    pub(super) turn: u16,
    pub(super) place: Option<Place>,
}

/// The queues; see the module's documentation.
pub(super) struct Queues {
    nodes: Vec<Node>,
    sentinels: NodeId,
    /// The first free node; a sentinel if there is none.
    free: NodeId,
    /// The number of entries.
    len: usize,
}

impl Queues {
    /// Creates a number of empty queues.
    pub(super) fn new(queues: usize) -> Queues {
        let sentinels = queues as NodeId;
        let sentinel = |at| Node {
            hash: 0,
            prev: at,
            next: at,
            charge: 0,
            score: 0,
            tick: 0,
            turn: 0,
            place: None,
        };
        Queues {
            nodes: (0..sentinels).map(sentinel).collect(),
            sentinels,
            free: 0,
            len: 0,
        }
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory of the nodes.
    pub(super) fn memory_usage(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    /// The place of a node that is in a queue.
    pub(super) fn place(&self, id: NodeId) -> Place {
        self.node(id).place.expect("the node is in a queue")
    }

    /// Creates a node that is in no queue.
    pub(super) fn create(&mut self, hash: u64, charge: u32, score: Score) -> NodeId {
        let node = Node {
            hash,
            prev: 0,
            next: 0,
            charge,
            score,
            tick: 0,
            turn: 0,
            place: None,
        };
        self.len += 1;
        if self.free >= self.sentinels {
            let id = self.free;
            self.free = self.nodes[id as usize].next;
            self.nodes[id as usize] = node;
            return id;
        }
        self.nodes.push(node);
        NodeId::try_from(self.nodes.len() - 1).expect("a shard has fewer than 2^32 entries")
    }

    /// Deletes a node that is in no queue.
    pub(super) fn delete(&mut self, id: NodeId) {
        debug_assert!(self.node(id).place.is_none(), "the node was unlinked");
        self.nodes[id as usize].next = self.free;
        self.free = id;
        self.len -= 1;
    }

    /// Inserts a node at the young end of a queue.
    pub(super) fn push(&mut self, queue: usize, id: NodeId, place: Place) {
        let sentinel = queue as NodeId;
        let next = self.nodes[queue].next;
        let node = &mut self.nodes[id as usize];
        debug_assert!(node.place.is_none(), "the node is in no queue");
        node.place = Some(place);
        node.prev = sentinel;
        node.next = next;
        self.nodes[next as usize].prev = id;
        self.nodes[queue].next = id;
    }

    /// Removes a node from its queue and returns its place.
    pub(super) fn unlink(&mut self, id: NodeId) -> Place {
        let node = &mut self.nodes[id as usize];
        let place = node.place.take().expect("the node is in a queue");
        let (prev, next) = (node.prev, node.next);
        self.nodes[prev as usize].next = next;
        self.nodes[next as usize].prev = prev;
        place
    }

    /// The oldest node of a queue.
    pub(super) fn oldest(&self, queue: usize) -> Option<NodeId> {
        let id = self.nodes[queue].prev;
        (id >= self.sentinels).then_some(id)
    }

    /// Moves all nodes of the queue `from` to the young end of `to`, in their order.
    pub(super) fn append(&mut self, from: usize, to: usize) {
        let (youngest, oldest) = (self.nodes[from].next, self.nodes[from].prev);
        if youngest < self.sentinels {
            return;
        }
        let next = self.nodes[to].next;
        self.nodes[oldest as usize].next = next;
        self.nodes[next as usize].prev = oldest;
        self.nodes[youngest as usize].prev = to as NodeId;
        self.nodes[to].next = youngest;
        self.nodes[from].next = from as NodeId;
        self.nodes[from].prev = from as NodeId;
    }

    /// The nodes of a queue, oldest first.
    pub(super) fn iter(&self, queue: usize) -> impl Iterator<Item = NodeId> {
        let older = |id: &NodeId| Some(self.nodes[*id as usize].prev);
        let first = self.nodes[queue].prev;
        std::iter::successors(Some(first), older).take_while(|id| *id >= self.sentinels)
    }
}
