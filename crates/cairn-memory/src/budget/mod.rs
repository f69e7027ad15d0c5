//! One memory budget for the databases of a process.
//!
//! A [`MemoryBudget`] is shared by `Arc` between databases. It provides a block cache for every family that
//! has none, and a limit on all memtables, which are charged to that cache. All other memory of the databases
//! is charged to it too, so that the resident set of the process exceeds the budget by at most a tenth.
//!
//! The budget reserves memory for what cannot be charged (`split`): the process itself and the allocator. The
//! rest is divided into regions whose sizes adapt while the databases run: `reuse` observes which reads a
//! larger cache would have saved, `decide` chooses the move that saves the most, and [`MemoryBudget::tick`]
//! applies it. Sizes that a program sets explicitly do not change.
//!
//! ```
//! use cairn_memory::MemoryBudget;
//!
//! # fn main() -> cairn_types::Result<()> {
//! let budget = MemoryBudget::new(512 << 20)?;
//! // Set as `DbOptions::memory_budget` of each database.
//! assert_eq!(budget.bytes(), 512 << 20);
//! assert!(budget.cache().capacity() < budget.bytes());
//! budget.set_budget(256 << 20)?;
//! # Ok(())
//! # }
//! ```

mod decide;
mod reuse;
mod split;

use std::collections::VecDeque;
use std::sync::Weak;

use cairn_platform::memory_limit::memory_limit;
use cairn_platform::posix::trim_heap;
use cairn_platform::sync::{Arc, Mutex};
use cairn_types::{Error, Result};

pub use decide::{Damping, Move, Observations, ReadTimes, RegionBounds, decide};
pub(crate) use reuse::Ghosts;
pub use reuse::ReuseCurve;
pub use split::{DataSize, MemoryRegion, MemorySplit};

use crate::cache::{BlockCache, CacheCharge, CacheOptions, MemoryUse, Relief};
use crate::secondary::{CompressedCacheOptions, CompressedSecondaryCache};
use crate::write_buffer::{FlushPolicy, WriteBufferManager};

/// The share of the available memory that an automatic budget takes, in percent. The rest is for the
/// application, and for the tenth by which the resident set may exceed the budget.
pub const AUTOMATIC_PERCENT: u64 = 60;

/// The time between two moves, in nanoseconds.
pub const INTERVAL: u64 = 1_000_000_000;

/// The time after which observations of merges lose half of their weight, in nanoseconds.
const MERGES_OBSERVED: u64 = 20 * INTERVAL;

/// The time between two releases of memory after jobs, in nanoseconds.
const TRIM_INTERVAL: u64 = 50_000_000;

/// The largest budget for which free memory of the C library's allocator is returned to the kernel after jobs: in a
/// larger one it makes no difference, and the heaps of a large program take long to walk.
const MAX_TRIMMED: usize = 1 << 30;

/// The share of a budget that open tables may take, as a divisor, the memory of each, and the number that each database
/// may have open in any case.
const OPEN_TABLES_DIVISOR: usize = 16;
const OPEN_TABLE_BYTES: usize = 2_600;
const MIN_OPEN_TABLES: usize = 32;

/// The number of moves that are remembered.
const MAX_MOVES: usize = 1024;

/// A move of memory between regions, and the split after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoveRecord {
    /// The time of the monotonic clock, in nanoseconds.
    pub at: u64,
    /// The move, with its reason.
    pub made: Move,
    /// The split after the move.
    pub split: MemorySplit,
}

/// The work of a database since it was last observed.
#[derive(Clone, Copy, Debug, Default)]
pub struct DatabaseWork {
    /// Reads of blocks from files.
    pub reads: ReadTimes,
    /// Nanoseconds of flushes and compactions.
    pub merge_nanos: u64,
    /// The part of them in which compactions of level 0 rewrote data of sorted levels.
    pub overlap_nanos: u64,
    /// Bytes of the tables and blob files now.
    pub stored: u64,
    /// True if reads bypass the page cache.
    pub direct_reads: bool,
}

/// A database whose memory is part of a budget.
pub trait Budgeted: Send + Sync {
    /// The work since the last call.
    fn take_work(&self) -> DatabaseWork;

    /// Limits its open tables to [`MemoryBudget::open_tables`].
    fn limit_open_tables(&self);
}

/// Nanoseconds of a hit in the compressed tier: the decompression of 4 KiB with LZ4, and an insertion.
const UNPACK_NANOS: f64 = 6_000.0;

/// A memory budget for several databases; see the module's documentation.
pub struct MemoryBudget {
    cache: Arc<BlockCache>,
    buffers: Arc<WriteBufferManager>,
    state: Mutex<State>,
    databases: Mutex<Vec<Weak<dyn Budgeted>>>,
}

struct State {
    bytes: usize,
    automatic: bool,
    /// Memory beyond the budget that the page cache may use.
    outside: usize,
    split: MemorySplit,
    /// Regions whose sizes were set explicitly.
    fixed: Vec<MemoryRegion>,
    data: DataSize,
    /// The charge of the compressed tier; `None` without one.
    tier: Option<CacheCharge>,
    /// The time of the last release of memory after a job.
    trimmed_at: u64,
    /// Caches of explicit sizes, which are charged to the budget.
    explicit: Vec<(Weak<BlockCache>, CacheCharge)>,
    damping: Damping,
    moves: VecDeque<MoveRecord>,
    observed: Observed,
}

/// Observations since the last move.
#[derive(Default)]
struct Observed {
    /// The time of the last tick.
    at: Option<u64>,
    nanos: u64,
    reuse: ReuseCurve,
    reads: ReadTimes,
    merges: ObservedMerges,
    /// Bytes inserted into the cache up to the beginning of the observations, and now.
    inserted: (u64, u64),
}

/// Observations of merges. They continue across moves: memtables fill and merges run in bursts of several
/// seconds, and an interval between two of them says nothing about either.
#[derive(Default)]
struct ObservedMerges {
    nanos: u64,
    merge_nanos: u64,
    overlap_nanos: u64,
    limit_flushes: usize,
    memtables_used: usize,
    /// Flushes because of the limit up to the last tick.
    flushes: usize,
}

impl MemoryBudget {
    /// A budget of `bytes`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if it is too small; the message names the smallest.
    pub fn new(bytes: usize) -> Result<Arc<MemoryBudget>> {
        MemoryBudget::create(bytes, false)
    }

    /// A budget of [`AUTOMATIC_PERCENT`] of the available memory: the smallest limit among the control groups of
    /// the process, or the machine's memory.
    ///
    /// # Errors
    ///
    /// `NotSupported` if the system does not state its memory, `InvalidArgument` if there is too little.
    pub fn automatic() -> Result<Arc<MemoryBudget>> {
        let limit = memory_limit().ok_or_else(|| {
            Error::not_supported("memory_budget=auto: the system does not state its memory")
        })?;
        let bytes = limit.bytes / 100 * AUTOMATIC_PERCENT;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        MemoryBudget::create(bytes, true).map_err(|error| {
            error.context(format_args!(
                "memory_budget=auto takes {AUTOMATIC_PERCENT} % of the {} bytes of {}",
                limit.bytes,
                limit.source.display()
            ))
        })
    }

    fn create(bytes: usize, automatic: bool) -> Result<Arc<MemoryBudget>> {
        let outside = outside(bytes);
        let data = DataSize::default();
        let split = split::initial(split::divided(bytes)?, outside, &data);
        let cache = Arc::new(cache_with_tier(split.sum()));
        let tier = cache.tier().is_some();
        let tier = tier.then(|| CacheCharge::new(cache.clone(), MemoryUse::CompressedTier, 0));
        let memtables = split.get(MemoryRegion::Memtables);
        let buffers = WriteBufferManager::new(memtables, Some(cache.clone()), true);
        buffers.set_flush_policy(FlushPolicy::LargestAcrossDatabases);
        cache.observe_evictions();
        cache.charge_free_memory(split::slack(bytes));
        let buffers = Arc::new(buffers);
        cache.set_relief(Box::new(MemtableRelief(Arc::downgrade(&buffers))));
        let budget = MemoryBudget {
            cache,
            buffers,
            state: Mutex::new(State {
                bytes,
                automatic,
                outside,
                split,
                fixed: Vec::new(),
                data,
                tier,
                trimmed_at: 0,
                explicit: Vec::new(),
                damping: Damping::default(),
                moves: VecDeque::new(),
                observed: Observed::default(),
            }),
            databases: Mutex::default(),
        };
        budget.put_in_force(budget.state.lock(), split);
        Ok(Arc::new(budget))
    }

    /// The smallest budget, in bytes.
    #[must_use]
    pub fn smallest() -> usize {
        split::smallest()
    }

    /// The budget in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// True if the budget was derived from the available memory.
    #[must_use]
    pub fn is_automatic(&self) -> bool {
        self.state.lock().automatic
    }

    /// Changes the budget. Regions keep their proportions, except those of explicit sizes. Memory beyond a smaller
    /// budget is freed in small steps while reads and writes continue.
    ///
    /// # Errors
    ///
    /// Those of [`MemoryBudget::new`]; the budget is then unchanged.
    pub fn set_budget(&self, bytes: usize) -> Result<()> {
        let divided = split::divided(bytes)?;
        let mut state = self.state.lock();
        state.bytes = bytes;
        state.automatic = false;
        state.outside = outside(bytes);
        state.follow_explicit_caches();
        let split = split::scaled(&state.split, divided, &state.fixed);
        self.put_in_force(state, split);
        Ok(())
    }

    /// The block cache of the families that have none of their own, to which all memory is charged.
    #[must_use]
    pub fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// The limit of the memtables of databases that set none of their own.
    #[must_use]
    pub fn write_buffer_manager(&self) -> &Arc<WriteBufferManager> {
        &self.buffers
    }

    /// Returns the current split. Its sum is less than the budget by the reserve for the process and the
    /// allocator.
    #[must_use]
    pub fn split(&self) -> MemorySplit {
        self.state.lock().split
    }

    /// The last moves, the oldest first.
    #[must_use]
    pub fn moves(&self) -> Vec<MoveRecord> {
        self.state.lock().moves.iter().copied().collect()
    }

    /// Sets the size of a region explicitly; it is no longer adapted. The block cache takes or provides the
    /// difference.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the others would have too little, or for [`MemoryRegion::BlockCache`], whose size
    /// follows from the others.
    pub fn fix(&self, region: MemoryRegion, bytes: usize) -> Result<()> {
        let mut state = self.state.lock();
        let cache = state.split.get(MemoryRegion::BlockCache) + state.split.get(region);
        let least = match region {
            MemoryRegion::Memtables => split::MIN_MEMTABLES,
            _ => 0,
        };
        if region == MemoryRegion::BlockCache
            || bytes < least
            || bytes.saturating_add(split::MIN_CACHE) > cache
        {
            return Err(Error::invalid_argument(format!(
                "{} of {bytes} bytes in a memory budget of {} bytes",
                region.name(),
                state.bytes
            )));
        }
        if !state.fixed.contains(&region) {
            state.fixed.push(region);
        }
        let split = state.split.with(region, bytes);
        let split = split.with(MemoryRegion::BlockCache, cache - bytes);
        self.put_in_force(state, split);
        Ok(())
    }

    /// The number of tables that each database may have open, unless it sets one of its own: all together take at most a
    /// sixteenth of the budget, if there are not very many databases.
    #[must_use]
    pub fn open_tables(&self) -> usize {
        let all = self.bytes() / OPEN_TABLES_DIVISOR / OPEN_TABLE_BYTES;
        let databases = self.databases.lock();
        let open = databases.iter().filter(|it| it.strong_count() > 0).count();
        (all / open.max(1)).max(MIN_OPEN_TABLES)
    }

    /// Charges memtables under `buffers`, a limit set by the program, to the budget, unless they are already charged
    /// to a cache.
    pub fn include_buffers(&self, buffers: &WriteBufferManager) {
        buffers.charge_to(&self.cache);
    }

    /// Charges a cache of explicit size to the budget, until the cache is dropped. A capacity beyond the budget is
    /// charged as the whole budget.
    pub fn include_cache(&self, cache: &Arc<BlockCache>) {
        if Arc::ptr_eq(cache, &self.cache) {
            return;
        }
        let mut state = self.state.lock();
        state.follow_explicit_caches();
        if !state.has_explicit(cache) && !cache.is_charged() {
            let bytes = cache.capacity().min(state.bytes);
            let charge = CacheCharge::new(self.cache.clone(), MemoryUse::Other, bytes);
            state.explicit.push((Arc::downgrade(cache), charge));
        }
    }

    /// Charges the rows in `cache` to the budget, until the cache is dropped. A cache that also stores blocks is
    /// charged with its capacity by [`MemoryBudget::include_cache`] instead.
    pub fn include_rows(&self, cache: &Arc<BlockCache>) {
        // Under the lock, so that `include_cache` does not charge the same cache meanwhile.
        let state = self.state.lock();
        if !state.has_explicit(cache) {
            cache.charge_to(&self.cache, MemoryUse::RowCache);
        }
    }

    /// Places a database under the budget until it is dropped. Until the first move, the split is the initial
    /// one for the data of all databases.
    pub fn register(&self, database: Weak<dyn Budgeted>) {
        if let Some(database) = database.upgrade() {
            let work = database.take_work();
            let mut state = self.state.lock();
            let data = &mut state.data;
            data.stored += work.stored;
            // The usual compression ratio, until one is measured.
            data.uncompressed = 2 * data.stored;
            data.direct_reads |= work.direct_reads;
            if state.moves.is_empty() && state.fixed.is_empty() {
                let split = split::initial(state.split.sum(), state.outside, &state.data);
                self.put_in_force(state, split);
            }
        }
        let mut databases = self.databases.lock();
        databases.retain(|database| database.strong_count() > 0);
        databases.push(database);
    }

    /// Observes the databases and moves memory between regions if that saves storage time. Called about once
    /// per second by any of the databases, with the time of the monotonic clock; calls within an interval do
    /// nothing.
    pub fn tick(&self, now: u64) -> Option<MoveRecord> {
        let mut state = self.state.lock();
        let last = *state.observed.at.get_or_insert(now);
        if now < last.saturating_add(INTERVAL) {
            return None;
        }
        state.observed.at = Some(now);
        drop(state);
        // Without the lock: databases take their own locks.
        let databases: Vec<_> = {
            let databases = self.databases.lock();
            databases.iter().filter_map(Weak::upgrade).collect()
        };
        let works: Vec<_> = databases
            .iter()
            .map(|database| database.take_work())
            .collect();
        databases.iter().for_each(|it| it.limit_open_tables());
        drop(databases);
        self.release_free_memory(works.iter().any(|work| work.merge_nanos > 0));
        let (reuse, inserted) = self.cache.take_reuse();
        let mut state = self.state.lock();
        state.follow_explicit_caches();
        state.note(now - last, &works, &reuse, inserted, &self.buffers);
        let observations = state.observations(&self.cache);
        let made = decide(&observations, &state.damping);
        let Some(made) = made else {
            state.observed.fade();
            return None;
        };
        state.damping = state.damping.after(&made);
        let record = MoveRecord {
            at: now,
            made,
            split: state.split.moved(made.from, made.to, made.bytes),
        };
        if state.moves.len() == MAX_MOVES {
            state.moves.pop_front();
        }
        state.moves.push_back(record);
        state.observed.restart();
        self.put_in_force(state, record.split);
        Some(record)
    }

    /// Returns to the kernel the memory that a flush or compaction has freed. `now` is the time of the monotonic clock.
    /// A call soon after another one has no effect.
    pub fn job_ended(&self, now: u64) {
        let mut state = self.state.lock();
        if now < state.trimmed_at.saturating_add(TRIM_INTERVAL) {
            return;
        }
        state.trimmed_at = now;
        drop(state);
        self.release_free_memory(true);
    }

    /// Returns free memory to the kernel after jobs, and charges what stays resident.
    fn release_free_memory(&self, after_jobs: bool) {
        if after_jobs && self.bytes() <= MAX_TRIMMED {
            trim_heap();
        }
        self.cache.charge_free_memory(split::slack(self.bytes()));
    }

    fn put_in_force(
        &self,
        mut state: cairn_platform::sync::MutexGuard<'_, State>,
        split: MemorySplit,
    ) {
        state.split = split;
        self.buffers
            .set_buffer_size(split.get(MemoryRegion::Memtables));
        let capacity = split.sum() - split.get(MemoryRegion::PageCache);
        let tier = split.get(MemoryRegion::Compressed);
        let shrinks = capacity < self.cache.capacity();
        if shrinks {
            self.cache.set_capacity(capacity);
        }
        if let (Some(charge), Some(below)) = (&mut state.tier, self.cache.tier()) {
            // The region that shrinks is changed first.
            if tier < charge.bytes() {
                below.set_capacity(tier);
                charge.set(tier);
            } else {
                charge.set(tier);
                below.set_capacity(tier);
            }
        }
        if !shrinks {
            self.cache.set_capacity(capacity);
        }
    }
}

/// Makes room for charges by means of the databases of a budget.
struct MemtableRelief(Weak<WriteBufferManager>);

impl Relief for MemtableRelief {
    fn flush(&self) {
        if let Some(buffers) = self.0.upgrade() {
            buffers.give_way();
        }
    }

    fn trim_heap(&self, capacity: usize) {
        if capacity <= MAX_TRIMMED
            && let Some(buffers) = self.0.upgrade()
        {
            buffers.in_background(|_| trim_heap());
        }
    }
}

/// Creates the cache of a budget, with a compressed tier if its codec is compiled in.
fn cache_with_tier(capacity: usize) -> BlockCache {
    let options = CacheOptions::default();
    let tier = CompressedSecondaryCache::new(&CompressedCacheOptions {
        capacity: 0,
        ..CompressedCacheOptions::default()
    });
    match tier {
        Ok(tier) => BlockCache::with_tier(capacity, options, Arc::new(tier)),
        Err(_) => BlockCache::new(capacity, options),
    }
}

/// The available memory beyond a budget of `bytes`.
fn outside(bytes: usize) -> usize {
    let limit = memory_limit().map_or(0, |limit| limit.bytes);
    usize::try_from(limit)
        .unwrap_or(usize::MAX)
        .saturating_sub(bytes)
}

impl State {
    /// Adjusts the charges of caches with explicit sizes.
    fn follow_explicit_caches(&mut self) {
        let most = self.bytes;
        self.explicit.retain_mut(|(cache, charge)| {
            let cache = cache.upgrade();
            let capacity = cache.as_ref().map_or(0, |cache| cache.capacity());
            charge.set(capacity.min(most));
            cache.is_some()
        });
    }

    /// True if the capacity of `cache` is charged.
    fn has_explicit(&self, cache: &Arc<BlockCache>) -> bool {
        let mut caches = self.explicit.iter();
        caches.any(|(one, _)| std::ptr::eq(one.as_ptr(), Arc::as_ptr(cache)))
    }

    /// Adds the observations of the last `nanos`.
    fn note(
        &mut self,
        nanos: u64,
        works: &[DatabaseWork],
        reuse: &ReuseCurve,
        inserted: u64,
        buffers: &WriteBufferManager,
    ) {
        let observed = &mut self.observed;
        observed.nanos += nanos;
        observed.reuse.merge(reuse);
        // A concurrent tick may have noted a later number.
        observed.inserted.1 = observed.inserted.1.max(inserted);
        for work in works {
            observed.reads.add(&work.reads);
        }
        observed.merges.note(nanos, works, buffers);
        if !works.is_empty() {
            self.data.stored = works.iter().map(|work| work.stored).sum();
            self.data.direct_reads = works.iter().all(|work| work.direct_reads);
        }
    }

    fn observations(&self, cache: &BlockCache) -> Observations {
        let observed = &self.observed;
        let inserted = observed.inserted.1 - observed.inserted.0;
        let stored_share = match inserted {
            0 => 0.5,
            inserted => (observed.reads.bytes as f64 / inserted as f64).clamp(0.1, 1.0),
        };
        Observations {
            nanos: observed.nanos,
            split: self.split,
            bounds: MemoryRegion::ALL.map(|region| self.bounds(region, cache, self.tier.is_some())),
            reuse: observed.reuse.clone(),
            reads: observed.reads,
            stored_share,
            unpack_nanos: UNPACK_NANOS,
            merge_nanos: observed
                .merges
                .within(observed.nanos, observed.merges.merge_nanos),
            overlap_nanos: observed
                .merges
                .within(observed.nanos, observed.merges.overlap_nanos),
            data_bytes: self.data.stored,
            limit_flushes: observed.merges.limit_flushes > 0,
            memtables_used: observed.merges.memtables_used,
        }
    }

    fn bounds(&self, region: MemoryRegion, cache: &BlockCache, has_tier: bool) -> RegionBounds {
        let sum = self.split.sum();
        let own = self.split.get(region);
        let exists = match region {
            MemoryRegion::Compressed => has_tier,
            // If all files fit in memory outside the budget, giving part of the budget to the page cache
            // changes nothing.
            MemoryRegion::PageCache => {
                !self.data.direct_reads && self.data.stored > self.outside as u64
            }
            MemoryRegion::Memtables | MemoryRegion::BlockCache => true,
        };
        let least = match region {
            _ if self.fixed.contains(&region) => {
                return RegionBounds {
                    least: own,
                    most: own,
                };
            }
            MemoryRegion::Memtables => split::MIN_MEMTABLES.max(sum / 64),
            // Charges that belong to no region, and a minimum for blocks.
            MemoryRegion::BlockCache => {
                let regions = cache.charged(MemoryUse::WriteBuffer)
                    + cache.charged(MemoryUse::CompressedTier);
                let charged = cache.all_charged().saturating_sub(regions);
                charged.saturating_add(split::MIN_CACHE.max(sum / 32))
            }
            MemoryRegion::Compressed | MemoryRegion::PageCache => 0,
        };
        RegionBounds {
            least,
            most: if exists { sum } else { 0 },
        }
    }
}

impl Observed {
    /// Starts over after a move: earlier distances were measured from a different cache size.
    fn restart(&mut self) {
        *self = Observed {
            at: self.at,
            merges: std::mem::take(&mut self.merges),
            inserted: (self.inserted.1, self.inserted.1),
            ..Observed::default()
        };
    }

    /// Halves the weight of the past, once there is enough of it.
    fn fade(&mut self) {
        if self.nanos < 10 * INTERVAL {
            return;
        }
        self.nanos /= 2;
        self.reuse.scale(0.5);
        let reads = &mut self.reads;
        for count in [
            &mut reads.fast,
            &mut reads.fast_nanos,
            &mut reads.slow,
            &mut reads.slow_nanos,
            &mut reads.bytes,
        ] {
            *count /= 2;
        }
        self.inserted.0 += (self.inserted.1 - self.inserted.0) / 2;
    }
}

impl ObservedMerges {
    /// Adds the observations of the last `nanos`, and halves the weight of the past once there is enough of it.
    fn note(&mut self, nanos: u64, works: &[DatabaseWork], buffers: &WriteBufferManager) {
        if self.nanos >= MERGES_OBSERVED {
            self.nanos /= 2;
            self.merge_nanos /= 2;
            self.overlap_nanos /= 2;
            self.limit_flushes /= 2;
            self.memtables_used = self.memtables_used / 4 * 3;
        }
        self.nanos += nanos;
        for work in works {
            self.merge_nanos += work.merge_nanos;
            self.overlap_nanos += work.overlap_nanos;
        }
        let flushes = buffers.flushes();
        self.limit_flushes += flushes - self.flushes;
        self.flushes = flushes;
        self.memtables_used = self.memtables_used.max(buffers.take_peak());
    }

    /// The part of `count` that belongs to an interval of `nanos`.
    fn within(&self, nanos: u64, count: u64) -> u64 {
        (count as f64 * nanos as f64 / self.nanos.max(1) as f64) as u64
    }
}

impl std::fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.lock();
        write!(f, "MemoryBudget({} bytes, {:?})", state.bytes, state.split)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
