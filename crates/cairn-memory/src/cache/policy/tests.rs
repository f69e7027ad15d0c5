//! Tests of the policy with a model of the shard.

use std::collections::HashMap;

use proptest::prelude::*;

use super::class::PARTS_IN_ORDER;
use super::*;

/// A shard without buffers.
struct Shard {
    policy: Policy,
    capacity: usize,
    /// Node by key.
    nodes: HashMap<u64, NodeId>,
    entries: HashMap<NodeId, Entry>,
    looks: usize,
    most_looks: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    key: u64,
    charge: usize,
    priority: CachePriority,
    touches: u8,
    in_use: bool,
}

impl Shard {
    fn new(capacity: usize) -> Shard {
        Shard {
            policy: Policy::new(),
            capacity,
            nodes: HashMap::new(),
            entries: HashMap::new(),
            looks: 0,
            most_looks: 0,
        }
    }

    /// Reads an entry of one byte. Returns true if it was cached.
    fn read(&mut self, key: u64) -> bool {
        self.touch(key) || {
            self.insert(key, 1, CachePriority::Low);
            false
        }
    }

    /// Reads entries and returns the number of hits.
    fn read_all(&mut self, keys: impl IntoIterator<Item = u64>) -> usize {
        keys.into_iter().filter(|key| self.read(*key)).count()
    }

    fn touch(&mut self, key: u64) -> bool {
        let Some(node) = self.nodes.get(&key) else {
            return false;
        };
        let entry = self.entries.get_mut(node).expect("a node has an entry");
        entry.touches = entry.touches.saturating_add(1);
        true
    }

    fn insert(&mut self, key: u64, charge: usize, priority: CachePriority) {
        self.erase(key);
        while self.policy.usage() + charge > self.capacity && self.evict().is_some() {}
        let hash = (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let node = self.policy.insert(hash, charge, priority);
        let entry = Entry {
            key,
            charge,
            priority,
            touches: 0,
            in_use: false,
        };
        assert!(self.entries.insert(node, entry).is_none());
        self.nodes.insert(key, node);
    }

    /// Evicts an entry and returns it.
    fn evict(&mut self) -> Option<Entry> {
        self.looks = 0;
        let victim = self.policy.victim(MAX_LOOKS, |node| {
            self.looks += 1;
            let entry = self.entries.get_mut(&node).expect("a node has an entry");
            match entry.in_use {
                true => Seen::InUse,
                false => Seen::Touches(std::mem::take(&mut entry.touches)),
            }
        });
        self.most_looks = self.most_looks.max(self.looks);
        let victim = victim?;
        self.policy.evicted(victim);
        let entry = self.entries.remove(&victim).expect("a victim is an entry");
        self.nodes.remove(&entry.key);
        Some(entry)
    }

    fn erase(&mut self, key: u64) {
        if let Some(node) = self.nodes.remove(&key) {
            self.entries.remove(&node);
            self.policy.remove(node);
        }
    }

    fn has(&self, key: u64) -> bool {
        self.nodes.contains_key(&key)
    }

    /// Compares the policy with the model.
    fn check(&self) {
        let policy = &self.policy;
        assert_eq!(policy.len(), self.entries.len());
        let charges: usize = self.entries.values().map(|entry| entry.charge).sum();
        assert_eq!(policy.usage(), charges);
        let mut seen = 0;
        for (at, class) in policy.classes.iter().enumerate() {
            let mut len = 0;
            for part in PARTS_IN_ORDER {
                let ids = class.ids_of(part, &policy.queues);
                for id in &ids {
                    let place = policy.queues.place(*id);
                    assert_eq!((usize::from(place.class), place.part), (at, part));
                    assert!(self.entries[id].priority as usize >= at);
                }
                let bytes: usize = ids.iter().map(|id| self.entries[id].charge).sum();
                assert_eq!(class.bytes_of(part), bytes);
                len += ids.len();
            }
            assert_eq!(class.len(), len);
            seen += len;
        }
        assert_eq!(seen, self.entries.len());
        assert!(self.most_looks <= CLASSES * MAX_LOOKS);
    }
}

#[test]
fn a_node_is_small() {
    assert_eq!(size_of::<queues::Node>(), 32);
}

#[test]
fn a_scan_does_not_evict_a_hot_set() {
    let mut shard = Shard::new(1000);
    for _ in 0..5 {
        shard.read_all(0..600);
    }
    for scanned in 0..100_000 {
        shard.read(10_000 + scanned);
        shard.read(scanned % 600);
    }
    let hot = (0..600).filter(|key| shard.has(*key)).count();
    assert!(hot >= 595, "{hot}");
    // A scan alone: the clock advances, but no hot entries compete.
    shard.read_all(200_000..210_000);
    let hot = (0..600).filter(|key| shard.has(*key)).count();
    assert!(hot >= 590, "{hot}");
    shard.check();
}

#[test]
fn part_of_a_loop_larger_than_the_cache_stays_cached() {
    for (blocks, least) in [(1200, 0.78), (2000, 0.45)] {
        let mut shard = Shard::new(1000);
        shard.read_all((0..blocks * 20).map(|at| at % blocks));
        let hits = shard.read_all((0..blocks * 20).map(|at| at % blocks));
        let ratio = hits as f64 / (blocks * 20) as f64;
        assert!(ratio > least, "{ratio} of {blocks}");
    }
}

#[test]
fn a_loop_that_fits_is_cached_after_another_hot_set() {
    let mut shard = Shard::new(1000);
    for _ in 0..50 {
        shard.read_all(0..1000);
    }
    shard.read_all((0..30).flat_map(|_| 5000..5900));
    let hits = shard.read_all(5000..5900);
    assert!(hits > 890, "{hits}");
}

#[test]
fn a_shift_of_the_hot_set_is_followed() {
    let mut shard = Shard::new(1000);
    let mut random = 1u64;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    for shift in 0..5 {
        let mut hits = 0;
        for at in 0..40_000 {
            // Nine of ten reads are of 700 hot blocks.
            let key = match next(10) {
                0 => 1_000_000 + next(100_000),
                _ => shift * 10_000 + next(700),
            };
            let hit = shard.read(key);
            hits += usize::from(hit && at >= 20_000);
        }
        assert!(hits > 17_000, "{hits}");
    }
    shard.check();
}

#[test]
fn lower_priorities_are_evicted_first() {
    let [bottom, low, high] = CachePriority::IN_ORDER;
    let mut shard = Shard::new(300);
    for key in 0..100 {
        shard.insert(1000 + key, 1, high);
        shard.insert(2000 + key, 1, low);
        shard.insert(3000 + key, 1, bottom);
    }
    // Reads of lower priorities do not change the order.
    for key in 0..300 {
        shard.touch(2000 + key % 100);
        shard.touch(3000 + key % 100);
    }
    let evicted: Vec<CachePriority> = (0..300)
        .filter_map(|_| shard.evict())
        .map(|entry| entry.priority)
        .collect();
    assert!(evicted.is_sorted(), "{evicted:?}");
    assert_eq!(evicted.len(), 300);
}

#[test]
fn metadata_outlives_data_and_data_outlive_blobs() {
    let [bottom, low, high] = CachePriority::IN_ORDER;
    let mut shard = Shard::new(300);
    for key in 0..100 {
        shard.insert(key, 1, high);
    }
    for key in 0..1000 {
        shard.insert(1000 + key, 1, low);
        shard.insert(10_000 + key, 1, bottom);
    }
    assert!((0..100).all(|key| shard.has(key)));
    let data = (1000..2000).filter(|key| shard.has(*key)).count();
    assert!(data >= 199, "{data}");
    shard.check();
}

/// Regression: blocks of deleted tables stayed cached as long as there was any data to evict.
#[test]
fn metadata_that_is_no_longer_read_is_evicted() {
    let [_, low, high] = CachePriority::IN_ORDER;
    let mut shard = Shard::new(300);
    for key in 0..200 {
        shard.insert(key, 1, high);
    }
    for key in 0..60_000 {
        shard.insert(1000 + key, 1, low);
        shard.touch(key % 50);
    }
    assert!(
        (0..50).all(|key| shard.has(key)),
        "those that are read stay"
    );
    let stale = (50..200).filter(|key| shard.has(*key)).count();
    assert!(stale < 10, "{stale}");
    shard.check();
}

#[test]
fn entries_in_use_are_skipped() {
    let mut shard = Shard::new(100);
    shard.read_all(0..100);
    for entry in shard.entries.values_mut() {
        entry.in_use = entry.key != 55;
    }
    let victim = shard.evict().expect("one entry is not in use");
    assert_eq!(victim.key, 55);
    assert!(shard.evict().is_none());
    shard.check();
}

/// Regression: readers that held more entries of a low priority than one call examines stopped all evictions.
#[test]
fn readers_of_a_low_priority_do_not_keep_higher_ones_cached() {
    let [bottom, low, _] = CachePriority::IN_ORDER;
    for held in [1, 400] {
        let mut shard = Shard::new(500);
        for key in 0..held {
            shard.insert(key, 1, bottom);
        }
        for entry in shard.entries.values_mut() {
            entry.in_use = true;
        }
        for key in 0..100 {
            shard.insert(1000 + key, 1, low);
        }
        for _ in 0..100 {
            let victim = shard
                .evict()
                .expect("entries of the next priority are free");
            assert_eq!((victim.priority, victim.in_use), (low, false), "{held}");
        }
        assert!(shard.evict().is_none());
        shard.check();
        // Calls that find nothing proceed through the held entries, to one that is free again.
        let node = shard.nodes[&(held / 2)];
        shard.entries.get_mut(&node).expect("it is held").in_use = false;
        let victim = (0..10).find_map(|_| shard.evict());
        assert_eq!(victim.map(|entry| entry.key), Some(held / 2));
    }
}

/// A choice that ends early, because all entries looked at were read, evicts none of a higher priority.
#[test]
fn few_looks_do_not_evict_a_higher_priority() {
    let [_, low, high] = CachePriority::IN_ORDER;
    let mut shard = Shard::new(100);
    (0..20).for_each(|key| shard.insert(key, 1, low));
    shard.insert(1000, 1, high);
    for _ in 0..20 {
        let mut seen = Vec::new();
        let victim = shard.policy.victim(8, |node| {
            seen.push(node);
            Seen::Touches(1)
        });
        assert!(victim.is_none_or(|node| shard.entries[&node].priority == low));
        assert!(seen.iter().all(|node| shard.entries[node].priority == low));
    }
    shard.check();
}

#[test]
fn a_growing_cache_fills_with_hot_entries() {
    let mut shard = Shard::new(100);
    shard.read_all((0..40).flat_map(|_| 0..1000));
    shard.capacity = 900;
    shard.read_all((0..40).flat_map(|_| 0..1000));
    let hits = shard.read_all(0..1000);
    assert!(hits > 840, "{hits}");
}

#[test]
fn memory_is_bounded() {
    let mut shard = Shard::new(10_000);
    shard.read_all((0..400_000).map(|at| at * 7));
    let per_entry = shard.policy.memory_usage() as f64 / shard.policy.len() as f64;
    // Vectors grow by doubling.
    assert!(per_entry < 80.0, "{per_entry}");
}

#[derive(Clone, Debug)]
enum Operation {
    Read(u64),
    Insert(u64, usize, usize),
    Erase(u64),
    Use(u64, bool),
    Charge(u64, usize),
    Capacity(usize),
    Evict,
}

fn operation() -> impl Strategy<Value = Operation> {
    let key = || 0u64..60;
    prop_oneof![
        4 => key().prop_map(Operation::Read),
        4 => (key(), 1usize..30, 0usize..3).prop_map(|(key, charge, priority)| {
            Operation::Insert(key, charge, priority)
        }),
        1 => key().prop_map(Operation::Erase),
        1 => (key(), any::<bool>()).prop_map(|(key, used)| Operation::Use(key, used)),
        1 => (key(), 1usize..30).prop_map(|(key, charge)| Operation::Charge(key, charge)),
        1 => (150usize..400).prop_map(Operation::Capacity),
        1 => Just(Operation::Evict),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 128 }))]
    #[test]
    fn queues_are_consistent_and_priorities_absolute(
        operations in proptest::collection::vec(operation(), 1..300),
    ) {
        let mut shard = Shard::new(200);
        for operation in operations {
            match operation {
                Operation::Read(key) => { shard.touch(key); }
                Operation::Insert(key, charge, priority) => {
                    shard.insert(key, charge, CachePriority::IN_ORDER[priority]);
                }
                Operation::Erase(key) => shard.erase(key),
                Operation::Use(key, used) => if let Some(node) = shard.nodes.get(&key) {
                    shard.entries.get_mut(node).expect("a node has an entry").in_use = used;
                },
                Operation::Charge(key, charge) => if let Some(node) = shard.nodes.get(&key) {
                    shard.entries.get_mut(node).expect("a node has an entry").charge = charge;
                    shard.policy.replace_charge(*node, charge);
                },
                Operation::Capacity(capacity) => {
                    shard.capacity = capacity;
                }
                Operation::Evict => {
                    let unused = shard.entries.values().filter(|entry| !entry.in_use);
                    let lowest = unused.map(|entry| entry.priority).min();
                    let victim = shard.evict();
                    prop_assert_eq!(victim.map(|entry| entry.priority), lowest);
                    prop_assert!(victim.is_none_or(|entry| !entry.in_use));
                }
            }
            shard.check();
        }
    }

    #[test]
    fn ghosts_are_bounded(keys in proptest::collection::vec(0u64..5000, 500..3000)) {
        let mut shard = Shard::new(100);
        shard.read_all(keys);
        prop_assert!(shard.policy.ghosts.capacity() <= 512);
        shard.check();
    }
}
