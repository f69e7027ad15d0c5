//! The order of eviction of a shard: for each priority a queue in which entries that were hit get another
//! round.

use super::super::role::CachePriority;

/// The maximum number of entries that an eviction examines.
const MAX_EXAMINED: usize = 256;
/// The number of examined entries after which hits are ignored.
const HITS_RESPECTED: usize = 32;

const NONE: u32 = u32::MAX;

/// The state of an entry when it is examined.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// True if it was hit since it was last examined.
    pub(super) is_hit: bool,
    /// True if a reader holds it, so that its eviction would free no memory.
    pub(super) is_held: bool,
}

#[derive(Clone, Copy)]
struct Node {
    prev: u32,
    next: u32,
    charge: usize,
    priority: CachePriority,
}

#[derive(Clone, Copy)]
struct Queue {
    /// The youngest entry.
    head: u32,
    /// The oldest entry.
    tail: u32,
}

/// The queues of a shard.
pub(super) struct Queues {
    nodes: Vec<Node>,
    /// The first free node; free nodes are chained through `next`.
    free: u32,
    queues: [Queue; 3],
    usage: usize,
    len: usize,
}

impl Queues {
    pub(super) fn new() -> Queues {
        Queues {
            nodes: Vec::new(),
            free: NONE,
            queues: [Queue {
                head: NONE,
                tail: NONE,
            }; 3],
            usage: 0,
            len: 0,
        }
    }

    /// Bytes of all entries.
    pub(super) fn usage(&self) -> usize {
        self.usage
    }

    /// Adds an entry.
    pub(super) fn insert(&mut self, charge: usize, priority: CachePriority) -> u32 {
        let node = Node {
            prev: NONE,
            next: NONE,
            charge,
            priority,
        };
        let at = match self.free {
            NONE => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).expect("a shard has fewer than 2^32 entries")
            }
            at => {
                self.free = self.nodes[at as usize].next;
                self.nodes[at as usize] = node;
                at
            }
        };
        self.link(at);
        self.usage += charge;
        self.len += 1;
        at
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, at: u32) {
        self.unlink(at);
        self.usage -= self.nodes[at as usize].charge;
        self.len -= 1;
        self.nodes[at as usize].next = self.free;
        self.free = at;
    }

    pub(super) fn charge(&self, at: u32) -> usize {
        self.nodes[at as usize].charge
    }

    pub(super) fn set_charge(&mut self, at: u32, charge: usize) {
        self.usage = self.usage - self.nodes[at as usize].charge + charge;
        self.nodes[at as usize].charge = charge;
    }

    /// Chooses the next entry to evict. `look` returns the state of an entry and clears its hits.
    pub(super) fn victim(&mut self, mut look: impl FnMut(u32) -> Seen) -> Option<u32> {
        let mut examined = 0;
        for priority in CachePriority::IN_ORDER {
            // A second round finds entries whose hits the first one has cleared.
            for _ in 0..=2 * self.len {
                let at = self.queues[priority as usize].tail;
                if at == NONE {
                    break;
                }
                if examined == MAX_EXAMINED {
                    return None;
                }
                examined += 1;
                let seen = look(at);
                if !seen.is_held && (!seen.is_hit || examined > HITS_RESPECTED) {
                    return Some(at);
                }
                self.unlink(at);
                self.link(at);
            }
        }
        None
    }

    fn link(&mut self, at: u32) {
        let node = &mut self.nodes[at as usize];
        let queue = &mut self.queues[node.priority as usize];
        node.prev = NONE;
        node.next = queue.head;
        let old_head = std::mem::replace(&mut queue.head, at);
        match old_head {
            NONE => queue.tail = at,
            old => self.nodes[old as usize].prev = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let Node {
            prev,
            next,
            priority,
            ..
        } = self.nodes[at as usize];
        let queue = &mut self.queues[priority as usize];
        match prev {
            NONE => queue.head = next,
            prev => self.nodes[prev as usize].next = next,
        }
        let queue = &mut self.queues[priority as usize];
        match next {
            NONE => queue.tail = prev,
            next => self.nodes[next as usize].prev = prev,
        }
    }
}
