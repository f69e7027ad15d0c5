//! A memory budget for the memtables of several column families and databases.
//!
//! Memtables report the memory they allocate. A database that uses the manager flushes when the mutable
//! memtables exceed seven eighths of the budget, or when all memtables together have reached it. With
//! `allow_stall`, writes are then stalled until memory is freed. With a cache, memtable memory is charged to
//! the cache, so that both stay within its capacity.
//!
//! Flushed memtables that readers still hold count as memory but do not stall writes: only the readers can
//! free them, and the readers may depend on the stalled writes. The same holds for the memtables of other
//! databases whose flushes fail: only a repair of those databases can free them.
//!
//! ```
//! use std::sync::Arc;
//! use cairn_memory::{BlockCache, CacheOptions, WriteBufferManager};
//!
//! let cache = Arc::new(BlockCache::new(1 << 30, CacheOptions::default()));
//! // Set as `DbOptions::write_buffer_manager` of each database.
//! let manager = Arc::new(WriteBufferManager::new(256 << 20, Some(cache), true));
//! assert!(manager.enabled() && manager.cost_to_cache());
//! ```

use cairn_platform::sync::{Arc, AtomicBool, AtomicUsize, Mutex, OnceLock, Ordering};

use crate::cache::{BlockCache, CacheCharge, MemoryUse};

/// The granularity in bytes of charges to the cache.
const STEP: usize = 256 << 10;

/// The least part of the limit, as a divisor, that mutable memtables have when they give way to other memory: many
/// small flushes would cost more than the memory is worth.
const LEAST_GIVEN: usize = 8;

/// A database that uses a manager.
pub trait MemtableOwner: Send + Sync {
    /// Called after memory was freed, possibly with locks held: an implementation must neither acquire locks
    /// nor block.
    fn wake(self: Arc<Self>);

    /// Returns the number of bytes that a flush of the largest mutable memtable would free, or of all of them
    /// if they are flushed together. 0 if no flush can start. Must not block.
    fn flushable(&self) -> usize;

    /// Returns the number of bytes of memtables that errors keep from being flushed. Must not block.
    fn stuck(&self) -> usize;

    /// Starts a flush of the largest mutable memtable in the background, and drops `request` when the memtable is
    /// immutable. Must not block.
    fn flush_largest(self: Arc<Self>, request: FlushRequest);

    /// Runs `job` on another thread, which drops `self`. Called like `wake`.
    fn run(self: Arc<Self>, job: Box<dyn FnOnce() + Send>);
}

/// The memtable that is flushed when the budget is exceeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum FlushPolicy {
    /// The oldest mutable memtable of the database whose write exceeds the budget.
    #[default]
    Oldest,
    /// The largest mutable memtable of that database.
    Largest,
    /// The largest mutable memtable of all databases that share the manager.
    LargestAcrossDatabases,
}

impl FlushPolicy {
    /// Every policy.
    pub const ALL: [FlushPolicy; 3] = [
        FlushPolicy::Oldest,
        FlushPolicy::Largest,
        FlushPolicy::LargestAcrossDatabases,
    ];
}

/// A flush request to another database. At most one exists at a time; dropping it permits the next, and wakes
/// stalled writers, because the database may have been unable to flush.
pub struct FlushRequest(Arc<Owners>);

impl Drop for FlushRequest {
    fn drop(&mut self) {
        self.0.pending.store(false, Ordering::Release);
        self.0.let_check();
    }
}

/// The databases of a manager, and the request to one of them.
#[derive(Default)]
struct Owners {
    all: Mutex<Vec<std::sync::Weak<dyn MemtableOwner>>>,
    /// True while a requested flush is pending.
    pending: AtomicBool,
    /// The number of calls of `let_check`.
    checks: Mutex<u64>,
}

impl Owners {
    fn alive(&self) -> Vec<Arc<dyn MemtableOwner>> {
        let all = self.all.lock();
        all.iter().filter_map(std::sync::Weak::upgrade).collect()
    }

    /// Wakes stalled writers, which check again if they must wait.
    fn let_check(&self) {
        *self.checks.lock() += 1;
        self.alive().into_iter().for_each(MemtableOwner::wake);
    }
}

/// A memory budget for memtables, shared by `Arc` between the databases.
pub struct WriteBufferManager {
    buffer_size: AtomicUsize,
    allow_stall: AtomicBool,
    /// A [`FlushPolicy`].
    policy: AtomicUsize,
    /// Bytes of all memtables.
    used: AtomicUsize,
    /// The largest value of `used` since it was last taken.
    peak: AtomicUsize,
    /// Bytes of memtables that are flushed and not yet freed.
    flushed: AtomicUsize,
    /// Bytes of mutable memtables.
    active: AtomicUsize,
    /// The charge to the cache, if there is one.
    charge: OnceLock<Mutex<CacheCharge>>,
    /// True if the cache is one given at creation.
    costs: bool,
    owners: Arc<Owners>,
    /// The number of flushes triggered by the budget.
    flushes: AtomicUsize,
}

impl WriteBufferManager {
    /// Creates a budget of `buffer_size` bytes. 0 means no limit; memory is then counted only if there is a
    /// cache to charge.
    #[must_use]
    pub fn new(
        buffer_size: usize,
        cache: Option<Arc<BlockCache>>,
        allow_stall: bool,
    ) -> WriteBufferManager {
        WriteBufferManager {
            buffer_size: AtomicUsize::new(buffer_size),
            allow_stall: AtomicBool::new(allow_stall),
            policy: AtomicUsize::new(FlushPolicy::default() as usize),
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            flushed: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            costs: cache.is_some(),
            charge: cache.map_or_else(OnceLock::new, |cache| charge_of(cache, 0).into()),
            owners: Arc::default(),
            flushes: AtomicUsize::new(0),
        }
    }

    /// True if there is a limit.
    #[must_use]
    pub fn enabled(&self) -> bool {
        self.buffer_size() > 0
    }

    /// True if memtables are charged to a cache.
    #[must_use]
    pub fn cost_to_cache(&self) -> bool {
        self.costs
    }

    /// Charges the memtables to `cache` from now on, unless they are charged already.
    pub(crate) fn charge_to(&self, cache: &Arc<BlockCache>) {
        let used = self.memory_usage().next_multiple_of(STEP);
        self.charge.get_or_init(|| charge_of(cache.clone(), used));
    }

    /// True if writes are stalled when the budget is exhausted.
    #[must_use]
    pub fn allow_stall(&self) -> bool {
        self.allow_stall.load(Ordering::Relaxed)
    }

    /// The budget in bytes.
    #[must_use]
    pub fn buffer_size(&self) -> usize {
        self.buffer_size.load(Ordering::Relaxed)
    }

    /// Changes the budget.
    pub fn set_buffer_size(&self, bytes: usize) {
        self.buffer_size.store(bytes, Ordering::Relaxed);
        self.owners.let_check();
    }

    /// Changes whether writes are stalled.
    pub fn set_allow_stall(&self, allow: bool) {
        self.allow_stall.store(allow, Ordering::Relaxed);
        self.owners.let_check();
    }

    /// The policy that selects the memtable to flush.
    #[must_use]
    pub fn flush_policy(&self) -> FlushPolicy {
        FlushPolicy::ALL[self.policy.load(Ordering::Relaxed)]
    }

    /// Changes the flush policy.
    pub fn set_flush_policy(&self, policy: FlushPolicy) {
        self.policy.store(policy as usize, Ordering::Relaxed);
    }

    /// Bytes of all memtables.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes of the mutable memtables.
    #[must_use]
    pub fn mutable_memtable_memory_usage(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// Bytes charged to the cache.
    #[must_use]
    pub fn dummy_entries_in_cache_usage(&self) -> usize {
        self.charge.get().map_or(0, |charge| charge.lock().bytes())
    }

    /// True if a memtable should be flushed to keep within the budget.
    #[inline]
    #[must_use]
    pub fn should_flush(&self) -> bool {
        let limit = self.buffer_size();
        if limit == 0 {
            return false;
        }
        let active = self.mutable_memtable_memory_usage();
        // Once most of the memory is being flushed, another flush would not help.
        active > limit / 8 * 7 || (self.memory_usage() >= limit && active >= limit / 2)
    }

    /// True if writes must stall: memtables that are not flushed yet have reached the budget.
    #[inline]
    #[must_use]
    pub fn should_stall(&self) -> bool {
        self.allow_stall() && self.enabled() && self.unflushed() >= self.buffer_size()
    }

    /// True if the writes of `own` must stall: like [`WriteBufferManager::should_stall`], but without the
    /// memtables of other databases whose flushes fail, because waiting does not free them. A database may be dropped
    /// here, so the caller holds no lock except the lead.
    #[must_use]
    pub fn must_wait(&self, own: &dyn MemtableOwner) -> bool {
        if !self.should_stall() {
            return false;
        }
        let owners = self.owners.alive();
        let others = owners.iter().filter(|owner| !is_same(owner, own));
        let stuck: usize = others.map(|owner| owner.stuck()).sum();
        self.unflushed().saturating_sub(stuck) >= self.buffer_size()
    }

    /// Returns the number of events after which stalled writers check again if they must wait: memory was freed, the
    /// limit was changed, a flush request has ended, possibly without a flush, or flushes of a database fail.
    #[must_use]
    pub fn checks(&self) -> u64 {
        *self.owners.checks.lock()
    }

    /// Lets stalled writers check again if they must wait, because flushes of a database fail.
    pub fn flush_failed(&self) {
        self.owners.let_check();
    }

    /// Bytes of the memtables that are not flushed yet.
    fn unflushed(&self) -> usize {
        let flushed = self.flushed.load(Ordering::Relaxed);
        self.memory_usage().saturating_sub(flushed)
    }

    /// Counts a flush triggered by the budget.
    pub fn note_flush(&self) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of flushes triggered by the budget so far.
    #[must_use]
    pub fn flushes(&self) -> usize {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Returns the peak memory of all memtables since the last call.
    #[must_use]
    pub fn take_peak(&self) -> usize {
        let now = self.memory_usage();
        self.peak.swap(now, Ordering::Relaxed).max(now)
    }

    /// Requests a flush from the database with the largest memtable, if the policy is
    /// [`FlushPolicy::LargestAcrossDatabases`] and it is larger than that of `own`. Returns false if `own` should
    /// flush.
    pub fn request_flush(&self, own: &dyn MemtableOwner) -> bool {
        if self.flush_policy() != FlushPolicy::LargestAcrossDatabases {
            return false;
        }
        // Acquire pairs with the release when the previous request is dropped.
        if self.owners.pending.swap(true, Ordering::AcqRel) {
            // While that flush is pending, memory may grow up to the budget but not beyond: this database
            // then flushes its own memtable. It must not wait for the other one, whose log may be locked.
            return self.mutable_memtable_memory_usage() < self.buffer_size()
                && !self.should_stall();
        }
        let request = FlushRequest(self.owners.clone());
        let others = self.owners.alive().into_iter();
        let others = others.filter(|owner| !is_same(owner, own));
        let sized = others.map(|owner| (owner.flushable(), owner));
        match sized.max_by_key(|(bytes, _)| *bytes) {
            Some((bytes, largest)) if bytes > own.flushable() => {
                largest.flush_largest(request);
                true
            }
            _ => false,
        }
    }

    /// Starts a flush of the largest memtable of all databases, because other memory charged to the same cache needs
    /// the memory. Without effect while a requested flush is pending, and if a flush would free little. Locks may be
    /// held.
    pub(crate) fn give_way(&self) {
        let active = self.mutable_memtable_memory_usage();
        let is_enough =
            active >= self.buffer_size() / LEAST_GIVEN && active >= self.unflushed() / 2;
        // Acquire pairs with the release when the previous request is dropped.
        if !is_enough || self.owners.pending.swap(true, Ordering::AcqRel) {
            return;
        }
        let request = FlushRequest(self.owners.clone());
        self.in_background(move |owners| {
            let sized = owners.into_iter().map(|owner| (owner.flushable(), owner));
            let largest = sized.max_by_key(|(bytes, _)| *bytes);
            if let Some((_, largest)) = largest.filter(|(bytes, _)| *bytes > 0) {
                largest.flush_largest(request);
            }
        });
    }

    /// Runs `job` with the databases on a thread of one of them, if there is one. Locks may be held: no database is
    /// dropped here.
    pub(crate) fn in_background(
        &self,
        job: impl FnOnce(Vec<Arc<dyn MemtableOwner>>) + Send + 'static,
    ) {
        let owners = self.owners.alive();
        if let Some(runner) = owners.first().cloned() {
            runner.run(Box::new(move || job(owners)));
        }
    }

    /// Adds `bytes` to the memory of a mutable memtable.
    pub fn reserve(&self, bytes: usize) {
        self.active.fetch_add(bytes, Ordering::Relaxed);
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(used, Ordering::Relaxed);
        self.charge();
    }

    /// Moves `bytes` of memory from mutable to immutable.
    pub fn seal(&self, bytes: usize) {
        let before = self.active.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "only reserved memory is sealed");
    }

    /// Marks `bytes` of memory of an immutable memtable as flushed. They are freed when no reader holds the
    /// memtable.
    pub fn flushed(&self, bytes: usize) {
        let before = self.unflushed();
        self.flushed.fetch_add(bytes, Ordering::Relaxed);
        self.freed(before);
    }

    /// Frees `bytes` of memory of an immutable memtable that is not flushed.
    pub fn release(&self, bytes: usize) {
        let unflushed = self.unflushed();
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "only reserved memory is released");
        self.charge();
        self.freed(unflushed);
    }

    /// Frees `bytes` of memory of a flushed memtable.
    pub fn release_flushed(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "only reserved memory is released");
        let before = self.flushed.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "only flushed memory is released");
        self.charge();
    }

    /// Lets stalled writers check again after memory was freed, if unflushed memtables took `before` bytes. They may
    /// proceed with less than the budget, or with more if memtables are stuck.
    fn freed(&self, before: usize) {
        if self.allow_stall() && self.enabled() && before >= self.buffer_size() {
            self.owners.let_check();
        }
    }

    /// Registers a database until it is dropped.
    pub fn register(&self, owner: std::sync::Weak<dyn MemtableOwner>) {
        let mut owners = self.owners.all.lock();
        owners.retain(|owner| owner.strong_count() > 0);
        owners.push(owner);
    }

    /// Adjusts the charge of the cache to the memory in use. The charge falls with a delay, to avoid
    /// oscillation.
    fn charge(&self) {
        let Some(charge) = self.charge.get() else {
            return;
        };
        let mut charge = charge.lock();
        let wanted = self.memory_usage().next_multiple_of(STEP);
        if wanted > charge.bytes() || wanted < charge.bytes() / 4 * 3 {
            charge.set(wanted);
        }
    }
}

fn is_same(owner: &Arc<dyn MemtableOwner>, own: &dyn MemtableOwner) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(owner), own)
}

fn charge_of(cache: Arc<BlockCache>, bytes: usize) -> Mutex<CacheCharge> {
    Mutex::new(CacheCharge::new(cache, MemoryUse::WriteBuffer, bytes))
}

impl std::fmt::Debug for WriteBufferManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "WriteBufferManager({} of {} bytes)",
            self.memory_usage(),
            self.buffer_size()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::CacheOptions;

    #[test]
    fn flushes_start_before_writes_stall() {
        let manager = WriteBufferManager::new(800, None, true);
        manager.reserve(700);
        assert!(!manager.should_flush());
        manager.reserve(50);
        assert!(manager.should_flush() && !manager.should_stall());
        manager.seal(750);
        assert!(!manager.should_flush());
        manager.reserve(60);
        assert!(manager.should_stall() && !manager.should_flush());
        manager.release(750);
        assert!(!manager.should_stall());
        assert_eq!(manager.memory_usage(), 60);
        assert_eq!(manager.mutable_memtable_memory_usage(), 60);
    }

    #[test]
    fn flushed_memtables_held_by_readers_do_not_stall_writes() {
        let manager = WriteBufferManager::new(800, None, true);
        manager.reserve(900);
        manager.seal(900);
        assert!(manager.should_stall());
        manager.flushed(900);
        assert!(!manager.should_stall());
        assert_eq!(manager.memory_usage(), 900);
        manager.reserve(100);
        manager.release_flushed(900);
        assert_eq!((manager.memory_usage(), manager.unflushed()), (100, 100));
        assert_eq!((manager.take_peak(), manager.take_peak()), (1000, 100));
    }

    #[derive(Default)]
    struct Owner {
        bytes: usize,
        stuck: usize,
        woken: AtomicUsize,
        requests: Mutex<Vec<FlushRequest>>,
    }

    impl MemtableOwner for Owner {
        fn wake(self: Arc<Self>) {
            self.woken.fetch_add(1, Ordering::Relaxed);
        }

        fn stuck(&self) -> usize {
            self.stuck
        }

        fn flushable(&self) -> usize {
            self.bytes
        }

        fn flush_largest(self: Arc<Self>, request: FlushRequest) {
            self.requests.lock().push(request);
        }

        fn run(self: Arc<Self>, job: Box<dyn FnOnce() + Send>) {
            job();
        }
    }

    fn owner_of(manager: &WriteBufferManager, bytes: usize, stuck: usize) -> Arc<Owner> {
        let owner = Arc::new(Owner {
            bytes,
            stuck,
            ..Owner::default()
        });
        let registered: Arc<dyn MemtableOwner> = owner.clone();
        manager.register(Arc::downgrade(&registered));
        owner
    }

    #[test]
    fn memtables_give_way_if_that_frees_enough() {
        let manager = WriteBufferManager::new(800, None, true);
        let owners = [10, 30].map(|bytes| owner_of(&manager, bytes, 0));
        let asked = || [0, 1].map(|at: usize| owners[at].requests.lock().len());
        manager.reserve(99);
        manager.give_way();
        assert_eq!(asked(), [0, 0], "less than an eighth of the limit");
        manager.reserve(1);
        manager.give_way();
        assert_eq!(asked(), [0, 1], "the largest memtable of all databases");
        manager.give_way();
        assert_eq!(asked(), [0, 1], "a request is pending");
        owners[1].requests.lock().clear();
        manager.reserve(103);
        manager.seal(103);
        manager.give_way();
        assert_eq!(asked(), [0, 0], "most of the memory is being flushed");
        manager.flushed(103);
        manager.give_way();
        assert_eq!(asked(), [0, 1]);
        owners[1].requests.lock().clear();
        drop(owners);
        manager.give_way();
        let late = owner_of(&manager, 1, 0);
        manager.give_way();
        assert_eq!(late.requests.lock().len(), 1, "no request was left pending");
    }

    #[test]
    fn the_end_of_a_request_wakes_every_database() {
        let manager = WriteBufferManager::new(800, None, true);
        manager.set_flush_policy(FlushPolicy::LargestAcrossDatabases);
        let owners = [10, 30].map(|bytes| owner_of(&manager, bytes, 0));
        assert!(manager.request_flush(&*owners[0]));
        assert_eq!(manager.checks(), 0);
        owners[1].requests.lock().clear();
        assert_eq!(manager.checks(), 1);
        let woken = owners.each_ref().map(|it| it.woken.load(Ordering::Relaxed));
        assert_eq!(woken, [1, 1]);
    }

    #[test]
    fn memtables_that_errors_keep_do_not_stall_other_databases() {
        let manager = WriteBufferManager::new(800, None, true);
        let sound = owner_of(&manager, 10, 0);
        let failed = owner_of(&manager, 0, 700);
        manager.reserve(900);
        assert!(manager.should_stall());
        assert!(!manager.must_wait(&*sound));
        assert!(manager.must_wait(&*failed), "its own memtables count");
        manager.reserve(600);
        assert!(manager.must_wait(&*sound), "800 bytes are not stuck");
        // A flush ends the stall though all memtables still exceed the budget.
        let checks = manager.checks();
        manager.seal(1500);
        manager.flushed(600);
        assert_eq!(manager.checks(), checks + 1);
        assert!(manager.should_stall() && !manager.must_wait(&*sound));
    }

    #[test]
    fn the_largest_memtable_of_all_databases_is_flushed() {
        let manager = WriteBufferManager::new(800, None, true);
        let owners = [10, 30, 20].map(|bytes| owner_of(&manager, bytes, 0));
        let requests = || owners.each_ref().map(|owner| owner.requests.lock().len());
        for policy in [FlushPolicy::Oldest, FlushPolicy::Largest] {
            manager.set_flush_policy(policy);
            assert!(!manager.request_flush(&*owners[0]));
        }
        manager.set_flush_policy(FlushPolicy::LargestAcrossDatabases);
        assert!(manager.request_flush(&*owners[0]));
        assert_eq!(requests(), [0, 1, 0]);
        // One at a time.
        assert!(manager.request_flush(&*owners[2]));
        assert_eq!(requests(), [0, 1, 0]);
        manager.reserve(800);
        assert!(!manager.request_flush(&*owners[2]), "the other is slow");
        owners[1].requests.lock().clear();
        assert!(
            !manager.request_flush(&*owners[1]),
            "its own is the largest"
        );
        assert!(manager.request_flush(&*owners[2]));
        assert_eq!(requests(), [0, 1, 0]);
    }

    #[test]
    fn memtables_are_charged_to_the_cache() {
        let cache = Arc::new(BlockCache::new(8 << 20, CacheOptions::default()));
        let manager = WriteBufferManager::new(0, Some(cache.clone()), false);
        assert!(!manager.enabled() && manager.cost_to_cache());
        manager.reserve(1_000_000);
        assert_eq!(manager.dummy_entries_in_cache_usage(), 1 << 20);
        assert_eq!(cache.usage(), 1 << 20);
        manager.seal(1_000_000);
        manager.release(1_000_000);
        assert_eq!(cache.usage(), 0);
        assert_eq!(cache.capacity(), 8 << 20);
    }
}
