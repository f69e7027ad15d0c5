//! The simulation of a cache of another capacity, over a real one (RocksDB's `SimCache`).
//!
//! The simulated cache holds keys and charges only, about 100 bytes for an entry. It follows every lookup, insertion and
//! erasure of the real cache and counts its own hits and misses, so that the effect of a larger or smaller capacity is
//! known without its memory. An entry that is only in the real cache enters the simulation when it is hit, as it would
//! have been read from storage and inserted.
//!
//! The simulated cache is a clock cache, whatever the kind of the real one. It has no readers, so that none of its
//! entries is in use, and no charges for other memory.
//!
//! A lookup in a simulated cache takes a lock: the simulation is a tool to choose a capacity. The real cache alone has no
//! cost from it.

use std::collections::HashMap;
use std::path::Path;

use cairn_platform::fs::FileMode;
use cairn_platform::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering};
use cairn_platform::{Buffer, FileSystem, WritableFile};
use cairn_types::{Error, Result};

use super::clock::ENTRY_OVERHEAD;
use super::policy::{MAX_LOOKS, NodeId, Policy, Seen};
use super::store::{Insertion, Store};
use super::{
    CacheEntry, CacheKey, CachePriority, CacheRole, Evicted, InsertOutcome, RoleCounts,
    auto_shards, shard_of,
};

/// The length of the activity log that is held in memory.
const LOG_BUFFER: usize = 16 << 10;

/// A cache and the simulation that follows it.
pub(super) struct Simulated {
    pub(super) real: Box<dyn Store>,
    pub(super) simulation: Simulation,
}

/// The simulation of a cache; see the module's documentation.
pub struct Simulation {
    /// A power of two.
    shards: Box<[Mutex<SimShard>]>,
    capacity: AtomicUsize,
    hits: AtomicU64,
    misses: AtomicU64,
    observers: Mutex<Vec<(usize, Observer)>>,
    /// True while there is a log.
    is_logging: AtomicBool,
    log: Mutex<Log>,
}

/// A function that is called with each lookup: true for a hit. It is dropped when it returns false.
type Observer = Box<dyn Fn(bool) -> bool + Send + Sync>;

/// One shard: the keys of entries, and their order of eviction.
struct SimShard {
    policy: Policy,
    nodes: HashMap<CacheKey, NodeId>,
    /// By node: the key, and the hits since the policy examined it.
    entries: Vec<(CacheKey, u8)>,
    capacity: usize,
}

impl SimShard {
    fn new() -> SimShard {
        SimShard {
            policy: Policy::new(),
            nodes: HashMap::new(),
            entries: Vec::new(),
            capacity: 0,
        }
    }

    /// Records a lookup. Returns true if it is a hit.
    fn lookup(&mut self, key: &CacheKey) -> bool {
        let Some(&node) = self.nodes.get(key) else {
            return false;
        };
        let touches = &mut self.entries[node as usize].1;
        *touches = touches.saturating_add(1);
        true
    }

    fn insert(&mut self, hash: u64, key: CacheKey, charge: usize, priority: CachePriority) {
        if let Some(&node) = self.nodes.get(&key) {
            self.policy.replace_charge(node, charge);
            return self.shrink_to(self.capacity);
        }
        if charge > self.capacity {
            return;
        }
        self.shrink_to(self.capacity - charge);
        let node = self.policy.insert(hash, charge, priority);
        let at = node as usize;
        if self.entries.len() <= at {
            self.entries.resize(at + 1, (key, 0));
        }
        self.entries[at] = (key, 0);
        self.nodes.insert(key, node);
    }

    /// Evicts entries until their charges are within `capacity`.
    fn shrink_to(&mut self, capacity: usize) {
        while self.policy.usage() > capacity {
            let entries = &mut self.entries;
            let victim = self.policy.victim(MAX_LOOKS, |node| {
                let touches = &mut entries[node as usize].1;
                Seen::Touches(std::mem::take(touches))
            });
            let Some(victim) = victim else { return };
            self.policy.evicted(victim);
            self.nodes.remove(&entries[victim as usize].0);
        }
        debug_assert!(self.nodes.len() == self.policy.len(), "a node for each key");
    }

    fn erase(&mut self, key: &CacheKey) {
        if let Some(node) = self.nodes.remove(key) {
            self.policy.remove(node);
        }
    }
}

/// The activity log.
#[derive(Default)]
struct Log {
    file: Option<Arc<dyn WritableFile>>,
    buffer: Vec<u8>,
    /// Bytes logged, and the maximum; 0 for none.
    len: u64,
    most: u64,
    error: Option<Error>,
}

impl Log {
    /// Adds a line. Returns false if that was the last one.
    fn add(&mut self, line: &str) -> bool {
        if self.file.is_none() {
            return false;
        }
        self.buffer.extend_from_slice(line.as_bytes());
        self.len += line.len() as u64;
        let is_full = self.most > 0 && self.len >= self.most;
        let result = match self.buffer.len() >= LOG_BUFFER || is_full {
            true => self.flush(),
            false => Ok(()),
        };
        if result.is_err() || is_full {
            self.end(result);
        }
        self.file.is_some()
    }

    fn flush(&mut self) -> Result<()> {
        let written = self
            .file
            .as_ref()
            .map_or(Ok(()), |file| file.append(&self.buffer));
        self.buffer.clear();
        written
    }

    fn end(&mut self, result: Result<()>) {
        let Some(file) = self.file.take() else { return };
        let closed = file.close();
        self.error = result.and(closed).err();
        self.buffer = Vec::new();
    }
}

impl Simulation {
    pub(super) fn new(capacity: usize, num_shard_bits: Option<u32>) -> Simulation {
        let shards = auto_shards(capacity, num_shard_bits);
        let simulation = Simulation {
            shards: (0..shards).map(|_| Mutex::new(SimShard::new())).collect(),
            capacity: AtomicUsize::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            observers: Mutex::default(),
            is_logging: AtomicBool::new(false),
            log: Mutex::default(),
        };
        simulation.set_capacity(capacity);
        simulation
    }

    fn shard(&self, hash: u64) -> &Mutex<SimShard> {
        &self.shards[shard_of(hash, self.shards.len())]
    }

    /// The simulated capacity in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        // Relaxed, here and below: numbers that order nothing.
        self.capacity.load(Ordering::Relaxed)
    }

    /// Changes the simulated capacity, and evicts keys beyond it.
    pub fn set_capacity(&self, capacity: usize) {
        self.capacity.store(capacity, Ordering::Relaxed);
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.capacity = self.capacity().div_ceil(self.shards.len());
            let capacity = shard.capacity;
            shard.shrink_to(capacity);
        }
    }

    /// The charges of the simulated entries, in bytes.
    #[must_use]
    pub fn usage(&self) -> usize {
        let usage = |shard: &Mutex<SimShard>| shard.lock().policy.usage();
        self.shards.iter().map(usage).sum()
    }

    /// The number of simulated entries.
    #[must_use]
    pub fn entries(&self) -> usize {
        let entries = |shard: &Mutex<SimShard>| shard.lock().nodes.len();
        self.shards.iter().map(entries).sum()
    }

    /// Lookups that would have been hits.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Lookups that would have been misses.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Sets both counters to 0.
    pub fn reset_counts(&self) {
        self.hits.store(0, Ordering::Relaxed);
        self.misses.store(0, Ordering::Relaxed);
    }

    /// Calls `observer` with each further lookup, true for a hit, until it returns false. It replaces an earlier one
    /// with the same `id`. It must not use the cache.
    pub fn observe(&self, id: usize, observer: impl Fn(bool) -> bool + Send + Sync + 'static) {
        let mut observers = self.observers.lock();
        observers.retain(|(other, _)| *other != id);
        observers.push((id, Box::new(observer)));
    }

    /// Logs each lookup and each insertion of an entry into the file `path`, replacing an earlier log in progress, until
    /// [`Simulation::stop_activity_log`], or until the log has `max_size` bytes (0: no limit). The lines are RocksDB's:
    ///
    /// ```text
    /// LOOKUP - 00112233445566778899AABBCCDDEEFF
    /// ADD - 00112233445566778899AABBCCDDEEFF - 4096
    /// ```
    ///
    /// # Errors
    ///
    /// `IoError` if the file cannot be created. A later error ends the log ([`Simulation::activity_log_error`]).
    pub fn start_activity_log(
        &self,
        fs: &dyn FileSystem,
        path: &Path,
        max_size: u64,
    ) -> Result<()> {
        self.stop_activity_log();
        let mut log = self.log.lock();
        *log = Log {
            file: Some(fs.create(path, FileMode::default())?),
            most: max_size,
            ..Log::default()
        };
        self.is_logging.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the activity log, if there is one.
    pub fn stop_activity_log(&self) {
        self.is_logging.store(false, Ordering::Relaxed);
        let mut log = self.log.lock();
        let flushed = log.flush();
        log.end(flushed);
    }

    /// The error that ended the last activity log, if one did.
    #[must_use]
    pub fn activity_log_error(&self) -> Option<Error> {
        self.log.lock().error.clone()
    }

    fn note(&self, line: impl FnOnce() -> String) {
        if self.is_logging.load(Ordering::Relaxed) && !self.log.lock().add(&line()) {
            self.is_logging.store(false, Ordering::Relaxed);
        }
    }

    fn lookup(&self, hash: u64, key: &CacheKey) -> bool {
        self.note(|| format!("LOOKUP - {:016X}{:016X}\n", key.high, key.low));
        let is_hit = self.shard(hash).lock().lookup(key);
        let count = if is_hit { &self.hits } else { &self.misses };
        count.fetch_add(1, Ordering::Relaxed);
        let mut observers = self.observers.lock();
        observers.retain(|(_, observer)| observer(is_hit));
        is_hit
    }

    fn insert(&self, hash: u64, key: CacheKey, len: usize, priority: CachePriority) {
        let charge = len + ENTRY_OVERHEAD;
        self.note(|| format!("ADD - {:016X}{:016X} - {charge}\n", key.high, key.low));
        let mut shard = self.shard(hash).lock();
        shard.insert(hash, key, charge, priority);
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        self.stop_activity_log();
    }
}

/// The simulated capacity, usage and counters, in one line.
impl std::fmt::Display for Simulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (hits, misses) = (self.hits(), self.misses());
        // Counts of lookups: the loss of precision is irrelevant.
        let share = hits as f64 * 100.0 / (hits + misses).max(1) as f64;
        write!(
            f,
            "simulated cache: {} of {} bytes, {} entries, {hits} hits, {misses} misses, {share:.2} % hits",
            self.usage(),
            self.capacity(),
            self.entries(),
        )
    }
}

impl std::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Simulation({self})")
    }
}

/// The priority with which an entry of `role` is usually inserted.
fn usual_priority(role: CacheRole) -> CachePriority {
    match role {
        CacheRole::Blob => CachePriority::Bottom,
        CacheRole::Data => CachePriority::Low,
        _ => CachePriority::High,
    }
}

impl Store for Simulated {
    fn lookup(&self, hash: u64, key: &CacheKey, role: CacheRole) -> Option<Buffer> {
        let is_hit = self.simulation.lookup(hash, key);
        let found = self.real.lookup(hash, key, role)?;
        if !is_hit {
            let priority = usual_priority(role);
            self.simulation
                .insert(hash, *key, found.memory_usage(), priority);
        }
        Some(found)
    }

    fn announce(&self, hash: u64) {
        self.real.announce(hash);
    }

    fn prefetch(&self, hash: u64, key: &CacheKey) {
        self.real.prefetch(hash, key);
    }

    fn contains(&self, hash: u64, key: &CacheKey) -> bool {
        self.real.contains(hash, key)
    }

    fn insert(&self, entry: Insertion, evicted: &mut Vec<Evicted>) -> InsertOutcome {
        let len = entry.buffer.memory_usage();
        self.simulation
            .insert(entry.hash, entry.key, len, entry.priority);
        self.real.insert(entry, evicted)
    }

    fn lay_tail(
        &self,
        hash: u64,
        key: &CacheKey,
        buffer: Buffer,
        tail: &[u8],
        evicted: &mut Vec<Evicted>,
    ) -> Buffer {
        self.real.lay_tail(hash, key, buffer, tail, evicted)
    }

    fn erase(&self, hash: u64, key: &CacheKey) -> Option<Evicted> {
        self.simulation.shard(hash).lock().erase(key);
        self.real.erase(hash, key)
    }

    fn erase_unused(&self, evicted: &mut Vec<Evicted>) {
        for shard in &self.simulation.shards {
            let capacity = std::mem::replace(&mut *shard.lock(), SimShard::new()).capacity;
            shard.lock().capacity = capacity;
        }
        self.real.erase_unused(evicted);
    }

    fn usage(&self) -> usize {
        self.real.usage()
    }

    fn pinned_usage(&self) -> usize {
        self.real.pinned_usage()
    }

    fn entries(&self) -> usize {
        self.real.entries()
    }

    fn places(&self) -> usize {
        self.real.places()
    }

    fn set_capacity(&self, capacity: usize, evicted: &mut Vec<Evicted>) {
        self.real.set_capacity(capacity, evicted);
    }

    fn reserve(&self, before: usize, now: usize, evicted: &mut Vec<Evicted>) {
        self.real.reserve(before, now, evicted);
    }

    fn counts(&self, role: CacheRole) -> RoleCounts {
        self.real.counts(role)
    }

    fn for_each(&self, visit: &mut dyn FnMut(CacheEntry)) {
        self.real.for_each(visit);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::{BlockCache, CacheKind, CacheOptions};
    use super::*;
    use cairn_platform::World;

    const LEN: usize = 4000;

    fn key(n: u64) -> CacheKey {
        CacheKey {
            high: 0x1122_3344,
            low: n,
        }
    }

    fn options(kind: CacheKind) -> CacheOptions {
        CacheOptions {
            kind,
            num_shard_bits: Some(0),
            ..CacheOptions::default()
        }
    }

    /// Reads `n`, from storage if it is not cached.
    fn read(cache: &BlockCache, n: u64) -> bool {
        let found = cache.lookup(&key(n), CacheRole::Data);
        if found.is_none() {
            let block = Buffer::from(vec![n as u8; LEN]);
            cache.insert(key(n), block, CacheRole::Data, CachePriority::Low);
        }
        found.is_some()
    }

    /// Reads skewed numbers, and returns the hits.
    fn load(cache: &BlockCache) -> u64 {
        let mut random = 7u64;
        let mut hits = 0;
        for _ in 0..if cfg!(miri) { 300 } else { 20_000 } {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let at = (random >> 40) as f64 / (1u64 << 24) as f64;
            hits += u64::from(read(cache, (at * at * at * 2000.0) as u64));
        }
        hits
    }

    #[test]
    fn a_simulation_has_the_hits_of_a_real_cache_of_its_capacity() {
        let bytes = |blocks: usize| blocks * (LEN + 300);
        for kind in [CacheKind::Clock, CacheKind::Lru] {
            for (real, simulated) in [(100, 400), (400, 100), (200, 200)] {
                let simulated = bytes(simulated);
                let cache = BlockCache::simulating(bytes(real), options(kind), simulated);
                let hits = load(&cache);
                let simulation = cache.simulation().expect("it has one");
                let other = BlockCache::new(simulated, options(CacheKind::Clock));
                let expected = load(&other);
                let all = simulation.hits() + simulation.misses();
                assert_eq!(all, cache.counts().hits + cache.counts().misses);
                assert_eq!(cache.counts().hits, hits);
                let error = simulation.hits().abs_diff(expected);
                assert!(error * 50 <= all, "{simulation} {expected}");
                assert!(simulation.usage() <= simulation.capacity());
                assert!(
                    other.entries().abs_diff(simulation.entries()) < 5,
                    "{simulation}"
                );
                simulation.reset_counts();
                assert_eq!((simulation.hits(), simulation.misses()), (0, 0));
            }
        }
    }

    #[test]
    fn the_simulated_capacity_can_be_changed_and_erasures_are_followed() {
        let cache = BlockCache::simulating(1 << 20, options(CacheKind::Clock), 1 << 20);
        let simulation = cache.simulation().expect("it has one");
        (0..100).for_each(|n| assert!(!read(&cache, n)));
        assert_eq!(simulation.entries(), cache.entries());
        assert_eq!(simulation.usage(), cache.usage());
        cache.erase(&key(3));
        assert_eq!(simulation.entries(), 99);
        simulation.set_capacity(10 * (LEN + 500));
        assert!(simulation.entries() <= 11 && cache.entries() == 99);
        let before = simulation.hits();
        (10..100).for_each(|n| assert!(read(&cache, n)));
        assert!(simulation.hits() - before < 30);
        simulation.set_capacity(0);
        assert_eq!((simulation.entries(), simulation.usage()), (0, 0));
        assert!(!read(&cache, 200) && read(&cache, 200));
        simulation.set_capacity(1 << 20);
        cache.erase_unused();
        assert_eq!((cache.entries(), simulation.entries()), (0, 0));
        assert!(!read(&cache, 1) && simulation.entries() == 1);
    }

    #[test]
    fn lookups_are_observed() {
        let cache = BlockCache::simulating(1 << 20, options(CacheKind::Lru), 1 << 20);
        let seen = Arc::new(AtomicU64::new(0));
        for _ in 0..2 {
            let seen = seen.clone();
            let simulation = cache.simulation().expect("it has one");
            simulation.observe(1, move |is_hit| {
                let step = if is_hit { 100 } else { 1 };
                seen.fetch_add(step, Ordering::Relaxed) < 202
            });
        }
        for n in [1, 2, 1, 2, 2, 2] {
            read(&cache, n);
        }
        assert_eq!(
            seen.load(Ordering::Relaxed),
            302,
            "the second replaces the first"
        );
    }

    #[test]
    fn activities_are_logged_up_to_a_size() {
        let world = World::in_memory();
        let cache = BlockCache::simulating(1 << 20, options(CacheKind::Clock), 1 << 20);
        let simulation = cache.simulation().expect("it has one");
        let path = Path::new("/activities");
        let text = || {
            let file = world.fs.open(path, FileMode::default()).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
            String::from_utf8(bytes).unwrap()
        };
        simulation
            .start_activity_log(&*world.fs, path, 100)
            .unwrap();
        (0..50).for_each(|n| {
            read(&cache, n);
        });
        assert!((100..200).contains(&text().len()), "{}", text());
        assert!(simulation.activity_log_error().is_none());
        let missing = Path::new("/no/such/file");
        assert!(
            simulation
                .start_activity_log(&*world.fs, missing, 0)
                .is_err()
        );
    }
}
