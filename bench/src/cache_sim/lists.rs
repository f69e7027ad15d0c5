//! Queues of keys, linked by index.

/// Marks the end of a queue.
const NONE: u32 = u32::MAX;
/// The queue of a key that is in no queue.
const NOWHERE: u8 = u8::MAX;

/// Several queues; each key is in at most one of them. Keys are small numbers.
pub struct Lists {
    nodes: Vec<Node>,
    queues: Vec<Queue>,
}

#[derive(Clone, Copy)]
struct Node {
    newer: u32,
    older: u32,
    queue: u8,
    charge: u32,
}

#[derive(Clone, Copy)]
struct Queue {
    newest: u32,
    oldest: u32,
    bytes: u64,
    len: usize,
}

impl Lists {
    /// Creates `queues` empty queues for keys below `keys`.
    pub fn new(keys: usize, queues: usize) -> Lists {
        Lists {
            nodes: vec![
                Node {
                    newer: NONE,
                    older: NONE,
                    queue: NOWHERE,
                    charge: 0,
                };
                keys
            ],
            queues: vec![
                Queue {
                    newest: NONE,
                    oldest: NONE,
                    bytes: 0,
                    len: 0,
                };
                queues
            ],
        }
    }

    /// Inserts `key`, which is in no queue, at the young end of `queue`.
    pub fn push(&mut self, queue: usize, key: u32, charge: u32) {
        debug_assert_eq!(self.nodes[key as usize].queue, NOWHERE);
        let ends = &mut self.queues[queue];
        let older = std::mem::replace(&mut ends.newest, key);
        if older == NONE {
            ends.oldest = key;
        } else {
            self.nodes[older as usize].newer = key;
        }
        ends.bytes += u64::from(charge);
        ends.len += 1;
        self.nodes[key as usize] = Node {
            newer: NONE,
            older,
            queue: queue as u8,
            charge,
        };
    }

    /// Removes `key` from its queue, if it is in one, and returns the queue.
    pub fn remove(&mut self, key: u32) -> Option<usize> {
        let node = self.nodes[key as usize];
        if node.queue == NOWHERE {
            return None;
        }
        let ends = &mut self.queues[usize::from(node.queue)];
        ends.bytes -= u64::from(node.charge);
        ends.len -= 1;
        match node.newer {
            NONE => ends.newest = node.older,
            newer => self.nodes[newer as usize].older = node.older,
        }
        match node.older {
            NONE => ends.oldest = node.newer,
            older => self.nodes[older as usize].newer = node.newer,
        }
        self.nodes[key as usize].queue = NOWHERE;
        Some(usize::from(node.queue))
    }

    /// Moves `key` to the young end of `queue`.
    pub fn shift(&mut self, queue: usize, key: u32) {
        let charge = self.nodes[key as usize].charge;
        self.remove(key);
        self.push(queue, key, charge);
    }

    /// The queue of `key`.
    pub fn queue_of(&self, key: u32) -> Option<usize> {
        match self.nodes[key as usize].queue {
            NOWHERE => None,
            queue => Some(usize::from(queue)),
        }
    }

    /// The charge with which `key` was inserted.
    pub fn charge_of(&self, key: u32) -> u32 {
        self.nodes[key as usize].charge
    }

    /// The oldest key of `queue`.
    pub fn oldest(&self, queue: usize) -> Option<u32> {
        some(self.queues[queue].oldest)
    }

    /// The youngest key of `queue`.
    pub fn newest(&self, queue: usize) -> Option<u32> {
        some(self.queues[queue].newest)
    }

    /// The key inserted after `key` into its queue.
    pub fn newer(&self, key: u32) -> Option<u32> {
        some(self.nodes[key as usize].newer)
    }

    /// The bytes of `queue`.
    pub fn bytes(&self, queue: usize) -> u64 {
        self.queues[queue].bytes
    }

    /// The number of keys of `queue`.
    pub fn len(&self, queue: usize) -> usize {
        self.queues[queue].len
    }
}

fn some(key: u32) -> Option<u32> {
    (key != NONE).then_some(key)
}
