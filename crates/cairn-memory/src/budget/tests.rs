//! Tests of a budget through its public interface.

use cairn_platform::Buffer;
use cairn_platform::sync::AtomicU64;
use cairn_platform::sync::Ordering;

use super::*;
use crate::cache::{CacheKey, CachePriority, CacheRole};

const MIB: usize = 1 << 20;

/// A database with configurable work.
#[derive(Default)]
struct Database {
    slow: AtomicU64,
    merge_nanos: AtomicU64,
    /// The number of times that its open tables were limited.
    limited: AtomicU64,
}

impl Budgeted for Database {
    fn limit_open_tables(&self) {
        self.limited.fetch_add(1, Ordering::Relaxed);
    }

    fn take_work(&self) -> DatabaseWork {
        let slow = self.slow.swap(0, Ordering::Relaxed);
        DatabaseWork {
            reads: ReadTimes {
                slow,
                slow_nanos: 100_000 * slow,
                bytes: 2048 * slow,
                ..ReadTimes::default()
            },
            merge_nanos: self.merge_nanos.swap(0, Ordering::Relaxed),
            overlap_nanos: 0,
            stored: 1 << 30,
            direct_reads: true,
        }
    }
}

fn registered(budget: &MemoryBudget) -> Arc<Database> {
    let database = Arc::new(Database::default());
    let weak: Weak<Database> = Arc::downgrade(&database);
    budget.register(weak);
    database
}

/// Reads blocks of 4 KiB through the cache.
fn read(budget: &MemoryBudget, database: &Database, blocks: impl Iterator<Item = u64>) {
    for n in blocks {
        let key = CacheKey { high: 9, low: n };
        if budget.cache().lookup(&key, CacheRole::Data).is_none() {
            let block = Buffer::from(vec![1; 4096]);
            budget
                .cache()
                .insert(key, block, CacheRole::Data, CachePriority::Low);
            database.slow.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn databases_share_the_number_of_open_tables() {
    let budget = MemoryBudget::new(64 * MIB).unwrap();
    let alone = budget.open_tables();
    assert_eq!(alone * OPEN_TABLE_BYTES / MIB, 3, "{alone}");
    let databases: Vec<_> = (0..4).map(|_| registered(&budget)).collect();
    assert_eq!(budget.open_tables(), alone / 4);
    let _move = budget.tick(0);
    let _move = budget.tick(INTERVAL);
    let limited = |it: &Arc<Database>| it.limited.load(Ordering::Relaxed);
    assert!(databases.iter().all(|it| limited(it) == 1));
    drop(databases);
    assert_eq!(budget.open_tables(), alone);
    budget.set_budget(32 * MIB).unwrap();
    assert_eq!(budget.open_tables(), alone / 2);
    let many: Vec<_> = (0..200).map(|_| registered(&budget)).collect();
    assert_eq!(budget.open_tables(), MIN_OPEN_TABLES);
    drop(many);
}

#[test]
fn a_budget_that_is_too_small_names_the_smallest() {
    let smallest = MemoryBudget::smallest();
    assert!(MemoryBudget::new(smallest).is_ok());
    let error = MemoryBudget::new(smallest - 1).unwrap_err().to_string();
    assert!(error.contains(&smallest.to_string()), "{error}");
    let budget = MemoryBudget::new(64 * MIB).unwrap();
    assert!(budget.set_budget(10).is_err());
    assert_eq!(budget.bytes(), 64 * MIB);
}

#[test]
#[cfg_attr(miri, ignore = "reads files of the system")]
fn an_automatic_budget_is_a_share_of_the_available_memory() {
    let budget = MemoryBudget::automatic().unwrap();
    assert!(budget.is_automatic());
    let limit = memory_limit().unwrap().bytes;
    assert_eq!(budget.bytes() as u64, limit / 100 * AUTOMATIC_PERCENT);
    budget.set_budget(64 * MIB).unwrap();
    assert!(!budget.is_automatic());
}

#[test]
fn a_lowered_budget_takes_effect_at_once() {
    let budget = MemoryBudget::new(64 * MIB).unwrap();
    let database = registered(&budget);
    read(&budget, &database, 0..20_000);
    assert!(budget.cache().usage() > 40 * MIB);
    budget.set_budget(32 * MIB).unwrap();
    assert!(budget.cache().usage() <= budget.cache().capacity());
    assert!(budget.cache().capacity() < 32 * MIB);
    let memtables = budget.split().get(MemoryRegion::Memtables);
    assert_eq!(budget.write_buffer_manager().buffer_size(), memtables);
    assert!(memtables < 9 * MIB);
}

#[test]
fn memtables_and_explicit_caches_take_from_the_cache() {
    let budget = MemoryBudget::new(64 * MIB).unwrap();
    budget.write_buffer_manager().reserve(5 * MIB);
    assert_eq!(budget.cache().charged(MemoryUse::WriteBuffer), 5 * MIB);
    let own = Arc::new(BlockCache::new(8 * MIB, CacheOptions::default()));
    budget.include_cache(&own);
    budget.include_cache(&own);
    budget.include_cache(budget.cache());
    assert_eq!(budget.cache().charged(MemoryUse::Other), 8 * MIB);
    own.set_capacity(4 * MIB);
    budget.tick(0);
    budget.tick(2 * INTERVAL);
    assert_eq!(budget.cache().charged(MemoryUse::Other), 4 * MIB);
    drop(own);
    budget.tick(4 * INTERVAL);
    assert_eq!(budget.cache().charged(MemoryUse::Other), 0);
}

/// Regression: caches of unlimited capacity are charged as the whole budget, in few steps and without overflow.
#[test]
fn unlimited_explicit_caches_are_charged_as_the_whole_budget() {
    let budget = MemoryBudget::new(64 * MIB).unwrap();
    let database = registered(&budget);
    let others = || budget.cache().charged(MemoryUse::Other);
    let unlimited = || Arc::new(BlockCache::new(usize::MAX, CacheOptions::default()));
    let caches = [unlimited(), unlimited()];
    caches.iter().for_each(|cache| budget.include_cache(cache));
    assert_eq!(others(), 2 * 64 * MIB);
    budget.tick(0);
    budget.tick(2 * INTERVAL);
    assert_eq!(others(), 2 * 64 * MIB);
    budget.set_budget(32 * MIB).unwrap();
    assert_eq!(others(), 2 * 32 * MIB);
    // The capacities of explicit caches may also change while the databases run.
    let grown = Arc::new(BlockCache::new(MIB, CacheOptions::default()));
    budget.include_cache(&grown);
    grown.set_capacity(usize::MAX);
    budget.tick(4 * INTERVAL);
    assert_eq!(others(), 3 * 32 * MIB);
    read(&budget, &database, 0..10);
    drop((caches, grown));
    budget.tick(6 * INTERVAL);
    assert_eq!(others(), 0);
}

/// Regression: the rows of a cache are charged as they are used, and a cache that also stores blocks is charged once.
#[test]
fn rows_are_charged_unless_the_capacity_of_their_cache_is() {
    let budget = MemoryBudget::new(64 * MIB).unwrap();
    let charged = |what| budget.cache().charged(what);
    let insert = |cache: &BlockCache| {
        let (key, row) = (CacheKey { high: 1, low: 2 }, Buffer::from(vec![0; MIB]));
        cache.insert(key, row, CacheRole::Other, CachePriority::Low);
    };
    let rows = Arc::new(BlockCache::new(8 * MIB, CacheOptions::default()));
    budget.include_rows(&rows);
    assert_eq!(charged(MemoryUse::RowCache), 0);
    insert(&rows);
    assert_eq!(charged(MemoryUse::RowCache), rows.usage());
    budget.include_cache(&rows);
    assert_eq!(charged(MemoryUse::Other), 0);
    let both = Arc::new(BlockCache::new(8 * MIB, CacheOptions::default()));
    budget.include_cache(&both);
    budget.include_rows(&both);
    insert(&both);
    assert_eq!(charged(MemoryUse::Other), 8 * MIB);
    assert_eq!(charged(MemoryUse::RowCache), rows.usage());
    drop(rows);
    assert_eq!(charged(MemoryUse::RowCache), 0);
}

/// A cyclic scan slightly larger than the cache makes the cache take the memory that memtables do not need.
#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn the_cache_grows_where_it_saves_reads() {
    let budget = MemoryBudget::new(64 * MIB).unwrap();
    let database = registered(&budget);
    // Memtables in use, so that the cache cannot use their share.
    budget.write_buffer_manager().reserve(13 * MIB);
    let before = budget.split();
    assert_eq!(budget.tick(0), None);
    for second in 1..40 {
        let place = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let reads = (second * 5_000..(second + 1) * 5_000).map(|n| place(n) % 14_000);
        read(&budget, &database, reads);
        budget.tick(second * INTERVAL);
    }
    let after = budget.split();
    assert_eq!(after.sum(), before.sum());
    assert!(
        after.get(MemoryRegion::Memtables) <= 3 * MIB,
        "{before:?} {after:?}"
    );
    let moves = budget.moves();
    assert_eq!(moves.last().map(|last| last.split), Some(after));
    assert!(
        moves
            .iter()
            .all(|one| one.made.to != MemoryRegion::Memtables)
    );
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn memtables_grow_where_merges_take_long() {
    let budget = MemoryBudget::new(64 * MIB).unwrap();
    let database = registered(&budget);
    let before = budget.split();
    budget.tick(0);
    for second in 1..10 {
        budget.write_buffer_manager().note_flush();
        database.merge_nanos.store(900_000_000, Ordering::Relaxed);
        budget.tick(second * INTERVAL);
    }
    let after = budget.split();
    assert!(after.get(MemoryRegion::Memtables) > before.get(MemoryRegion::Memtables));
    let buffers = budget.write_buffer_manager();
    assert_eq!(buffers.buffer_size(), after.get(MemoryRegion::Memtables));
}

/// Merges run in bursts. A second without one, after a move, does not show that memtables are too large.
#[test]
fn merges_are_observed_across_moves() {
    let buffers = WriteBufferManager::new(16 * MIB, None, false);
    let work = |merge_nanos| DatabaseWork {
        merge_nanos,
        overlap_nanos: merge_nanos / 2,
        ..DatabaseWork::default()
    };
    let mut observed = Observed::default();
    buffers.note_flush();
    observed.merges.note(INTERVAL, &[work(900)], &buffers);
    observed.restart();
    observed.merges.note(INTERVAL, &[work(0)], &buffers);
    observed.restart();
    observed.merges.note(INTERVAL, &[work(0)], &buffers);
    let merges = &observed.merges;
    assert_eq!(merges.limit_flushes, 1);
    assert_eq!(merges.within(INTERVAL, merges.merge_nanos), 300);
    assert_eq!(merges.within(2 * INTERVAL, merges.overlap_nanos), 300);
    for _ in 0..3 * MERGES_OBSERVED / INTERVAL {
        observed.merges.note(INTERVAL, &[work(0)], &buffers);
    }
    assert_eq!(observed.merges.limit_flushes, 0, "the past is forgotten");
    assert!(
        observed
            .merges
            .within(INTERVAL, observed.merges.merge_nanos)
            < 30
    );
}

#[test]
fn explicit_sizes_are_not_adapted() {
    let budget = MemoryBudget::new(64 * MIB).unwrap();
    let database = registered(&budget);
    budget.fix(MemoryRegion::Memtables, 10 * MIB).unwrap();
    assert!(budget.fix(MemoryRegion::BlockCache, MIB).is_err());
    assert!(budget.fix(MemoryRegion::Memtables, 64 * MIB).is_err());
    let sum = budget.split().sum();
    budget.tick(0);
    for second in 1..10 {
        budget.write_buffer_manager().note_flush();
        database.merge_nanos.store(900_000_000, Ordering::Relaxed);
        budget.tick(second * INTERVAL);
    }
    assert_eq!(budget.split().get(MemoryRegion::Memtables), 10 * MIB);
    assert_eq!((budget.split().sum(), budget.moves().len()), (sum, 0));
}

#[test]
fn the_compressed_tier_takes_its_size_from_the_cache() {
    let budget = MemoryBudget::new(64 * MIB).unwrap();
    let tier = budget.cache().tier().expect("there is one");
    assert_eq!(tier.capacity(), 0);
    budget.fix(MemoryRegion::Compressed, 5 * MIB).unwrap();
    assert_eq!(tier.capacity(), 5 * MIB);
    assert_eq!(budget.cache().charged(MemoryUse::CompressedTier), 5 * MIB);
    budget.fix(MemoryRegion::Compressed, MIB).unwrap();
    assert_eq!(tier.capacity(), MIB);
    assert_eq!(budget.cache().charged(MemoryUse::CompressedTier), MIB);
}
