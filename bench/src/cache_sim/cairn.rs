//! The policy of Cairn's clock cache, driven in the same way as by a shard of the cache.

use cairn_memory::cache::policy::{MAX_LOOKS, NodeId, Policy as ShardPolicy, Seen};

use crate::key_value_gen::mix;

use super::policy::Policy;
use super::trace::Request;

/// The node of a key that is not cached.
const NONE: NodeId = NodeId::MAX;

/// The cache.
pub struct Cairn {
    capacity: usize,
    policy: ShardPolicy,
    /// Node by key.
    nodes: Vec<NodeId>,
    /// Touch counter and key by node.
    entries: Vec<(u8, u32)>,
}

impl Cairn {
    /// Creates a cache of `capacity` bytes for keys below `keys`.
    pub fn new(keys: usize, capacity: u64) -> Cairn {
        Cairn {
            capacity: capacity as usize,
            policy: ShardPolicy::new(),
            nodes: vec![NONE; keys],
            entries: Vec::new(),
        }
    }
}

impl Policy for Cairn {
    fn request(&mut self, request: &Request) -> bool {
        let node = self.nodes[request.key as usize];
        if node != NONE {
            let touches = &mut self.entries[node as usize].0;
            *touches = touches.saturating_add(1);
            return true;
        }
        let charge = request.charge as usize;
        while self.policy.usage() + charge > self.capacity {
            let entries = &mut self.entries;
            let mut touches = |node: NodeId| std::mem::take(&mut entries[node as usize].0);
            let victim = self
                .policy
                .victim(MAX_LOOKS, |node| Seen::Touches(touches(node)));
            let Some(victim) = victim else {
                return false;
            };
            self.nodes[self.entries[victim as usize].1 as usize] = NONE;
            self.policy.evicted(victim);
        }
        let hash = mix(u64::from(request.key));
        let node = self.policy.insert(hash, charge, request.priority);
        self.nodes[request.key as usize] = node;
        let len = self.entries.len().max(node as usize + 1);
        self.entries.resize(len, (0, 0));
        self.entries[node as usize] = (0, request.key);
        false
    }

    fn erase(&mut self, key: u32) {
        let node = std::mem::replace(&mut self.nodes[key as usize], NONE);
        if node != NONE {
            self.policy.remove(node);
        }
    }
}
