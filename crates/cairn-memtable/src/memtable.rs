//! The memtable: a skiplist of point entries, lists of range tombstones, and their counters.

mod derived_ranges;
mod fill;
mod ranges;

use std::ops::ControlFlow;
use std::sync::Arc;

use cairn_format::key::{self, LookupKey};
use cairn_format::range_del::Tombstone;
use cairn_memory::WriteBufferManager;
use cairn_types::{KeyOrder, PrefixExtractor, Result, SequenceNumber, ValueKind};

pub use self::derived_ranges::DerivedRange;
pub use self::ranges::RangeTombstones;
use self::ranges::{Ranges, Tombstones, damaged_range, tombstone};
use crate::filter::{Filter, FilterOptions};
use crate::iter::{MemtableIter, MemtableWalk};
use crate::pin::PinnedEntry;
use crate::skiplist::atomic::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering};
use crate::skiplist::comparator_guard::{assert_not_held, holding};
use crate::skiplist::{Addition, Checks, Entry, INSERT_BATCH, InsertHint, Run, SkipList};

/// Options of a memtable.
#[derive(Clone, Debug)]
pub struct MemtableOptions {
    /// Size in bytes of the blocks that the arena allocates.
    pub arena_block_size: usize,
    /// The filter that lookups consult first.
    pub filter: FilterOptions,
    /// True if entries are sorted only when the memtable is first read or flushed, as in RocksDB's vector
    /// memtable.
    pub sort_on_read: bool,
    /// The checks of entries against damage to memory.
    pub checks: Checks,
}

impl Default for MemtableOptions {
    fn default() -> MemtableOptions {
        MemtableOptions {
            arena_block_size: 1 << 20,
            filter: FilterOptions::default(),
            sort_on_read: false,
            checks: Checks::default(),
        }
    }
}

/// A point entry to add.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// Its sequence number.
    pub seq: SequenceNumber,
    /// Its kind; any but a range deletion.
    pub kind: ValueKind,
    /// The user key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// The maximum number of entries that [`Memtable::add_points`] sorts together.
pub const SORTED_BATCH: usize = 512;

/// The minimum number of entries that are sorted.
const MIN_SORTED: usize = 32;

/// The number of entries in the memtable, for each one that is added, up to which it pays to sort them.
const DENSE: usize = 32;

/// Sums over entries that were added together.
#[derive(Default)]
struct Added {
    bytes: usize,
    deletions: usize,
    /// The first and the last sequence number.
    seqs: Option<(SequenceNumber, SequenceNumber)>,
}

impl Added {
    /// Counts `point`, which is stored under `kind`.
    #[inline]
    fn count(&mut self, point: &Point<'_>, kind: ValueKind) {
        self.bytes += point.key.len() + key::SUFFIX_LEN + point.value.len();
        self.deletions += usize::from(kind.is_deletion());
        let (first, last) = self.seqs.unwrap_or((point.seq, point.seq));
        self.seqs = Some((first.min(point.seq), last.max(point.seq)));
    }
}

/// Recent writes of a column family, sorted; see the crate's documentation.
pub struct Memtable {
    list: SkipList,
    filter: Option<Filter>,
    /// Position of the last insertion for which the caller kept no hint.
    hint: Mutex<InsertHint>,
    deletions: AtomicUsize,
    data_bytes: AtomicUsize,
    /// Last sequence number allocated before the memtable was created.
    created_after: SequenceNumber,
    first_seq: AtomicU64,
    largest_seq: AtomicU64,
    /// The number of range tombstones, so that reads take no lock if there are none.
    range_deletions: AtomicUsize,
    /// The memory of the range tombstones, so that a comparator that runs under `ranges` can read it.
    range_bytes: AtomicUsize,
    ranges: Mutex<Ranges>,
    /// True if scans may no longer add range tombstones. Acquired before `ranges`.
    derived_stopped: Mutex<bool>,
    account: Option<Account>,
    marked_for_flush: AtomicBool,
}

/// The write buffer manager to which the memory of the memtable is charged, and the amount charged.
struct Account {
    manager: Arc<WriteBufferManager>,
    reported: AtomicUsize,
    sealed: AtomicBool,
    flushed: AtomicBool,
}

impl Memtable {
    /// Returns an empty memtable whose keys are ordered by `order`. It has no filter if `order` may treat
    /// different byte strings as equal.
    #[must_use]
    pub fn new(order: KeyOrder, options: MemtableOptions) -> Memtable {
        let filter = match order.different_bytes_may_be_equal() {
            true => None,
            false => Filter::new(options.filter),
        };
        Memtable {
            filter,
            list: match options.sort_on_read {
                true => SkipList::new(order, options.arena_block_size).sort_on_read(),
                false => SkipList::new(order, options.arena_block_size),
            }
            .checked(options.checks),
            hint: Mutex::new(InsertHint::default()),
            deletions: AtomicUsize::new(0),
            data_bytes: AtomicUsize::new(0),
            created_after: SequenceNumber::default(),
            first_seq: AtomicU64::new(u64::MAX),
            largest_seq: AtomicU64::new(0),
            range_deletions: AtomicUsize::new(0),
            range_bytes: AtomicUsize::new(0),
            ranges: Mutex::new(Ranges::default()),
            derived_stopped: Mutex::new(false),
            account: None,
            marked_for_flush: AtomicBool::new(false),
        }
    }

    /// Sets the last sequence number allocated before the memtable was created.
    ///
    /// # Panics
    ///
    /// If the memtable has entries.
    #[must_use]
    pub fn created_after(mut self, last: SequenceNumber) -> Memtable {
        assert!(self.is_empty(), "set before the first insertion");
        self.created_after = last;
        self
    }

    /// The last sequence number allocated before the memtable was created; 0 if unknown.
    #[must_use]
    pub fn earliest_seq(&self) -> SequenceNumber {
        self.created_after
    }

    /// Requests that the next writer flush the memtable, even if it is not full.
    pub fn mark_for_flush(&self) {
        // Relaxed: the flag orders no other access, here and where it is read.
        if !self.is_marked_for_flush() {
            self.marked_for_flush.store(true, Ordering::Relaxed);
        }
    }

    /// True if a flush was requested.
    #[inline]
    #[must_use]
    pub fn is_marked_for_flush(&self) -> bool {
        self.marked_for_flush.load(Ordering::Relaxed)
    }

    /// Charges the memtable's memory to `manager`, including that of its entries so far.
    ///
    /// # Panics
    ///
    /// If it is already charged to one.
    #[must_use]
    pub fn accounted(mut self, manager: Arc<WriteBufferManager>) -> Memtable {
        assert!(self.account.is_none(), "memory is charged once");
        self.account = Some(Account {
            manager,
            reported: AtomicUsize::new(0),
            sealed: AtomicBool::new(false),
            flushed: AtomicBool::new(false),
        });
        if !self.is_empty() {
            self.report();
        }
        self
    }

    /// Marks the memtable immutable: no entries are added afterwards.
    pub fn seal(&self) {
        self.stop_derived_ranges();
        if let Some(account) = &self.account
            && !account.sealed.swap(true, Ordering::Relaxed)
        {
            account
                .manager
                .seal(account.reported.load(Ordering::Relaxed));
        }
    }

    /// Marks the memtable flushed: its memory is freed once no reader holds it.
    pub fn mark_flushed(&self) {
        self.seal();
        if let Some(account) = &self.account
            && !account.flushed.swap(true, Ordering::Relaxed)
        {
            let bytes = account.reported.load(Ordering::Relaxed);
            account.manager.flushed(bytes);
        }
    }

    /// Charges memory allocated since the last report.
    #[inline]
    fn report(&self) {
        let Some(account) = &self.account else { return };
        debug_assert!(
            !account.sealed.load(Ordering::Relaxed),
            "an immutable memtable takes no entries"
        );
        let now = self.memory_reserved();
        let before = account.reported.load(Ordering::Relaxed);
        if now > before
            && account
                .reported
                .compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            account.manager.reserve(now - before);
        }
    }

    /// Adds an entry. For a `RangeDeletion`, `user_key` is the start of the range and `value` its end.
    /// Returns false, leaving the memtable unchanged, if an entry with the same internal key exists.
    ///
    /// The caller publishes `seq` to readers only after this returns.
    ///
    /// # Panics
    ///
    /// If the key or the value is 4 GiB or longer, or if memtables cannot hold entries of `kind`.
    pub fn add(&self, seq: SequenceNumber, kind: ValueKind, user_key: &[u8], value: &[u8]) -> bool {
        // If another writer is using the shared hint, do without it.
        match self.hint.try_lock() {
            Some(mut hint) => self.add_at(&mut hint, seq, kind, user_key, value),
            None => self.add_at(&mut InsertHint::default(), seq, kind, user_key, value),
        }
    }

    /// [`Memtable::add`] with a hint that the caller keeps across a series of insertions. Most
    /// effective for ascending keys.
    pub fn add_at(
        &self,
        hint: &mut InsertHint,
        seq: SequenceNumber,
        kind: ValueKind,
        user_key: &[u8],
        value: &[u8],
    ) -> bool {
        let kind = match kind {
            ValueKind::RangeDeletion => return self.add_range(seq, user_key, value),
            kind => self.stored_kind(kind, user_key),
        };
        let packed = key::pack(seq, kind);
        let is_new = self.list.insert(user_key, packed, value, hint);
        if is_new {
            self.count_point(seq, kind, user_key, value);
        }
        is_new
    }

    /// [`Memtable::add`] for an entry with a new internal key, by the only writer. The search for
    /// its position may be deferred and batched with those for other entries, but not beyond the
    /// next read.
    ///
    /// # Panics
    ///
    /// As for [`Memtable::add`].
    pub fn add_deferred(
        &self,
        seq: SequenceNumber,
        kind: ValueKind,
        user_key: &[u8],
        value: &[u8],
    ) {
        if kind == ValueKind::RangeDeletion {
            self.add_range(seq, user_key, value);
            return;
        }
        let kind = self.stored_kind(kind, user_key);
        self.list
            .insert_deferred(user_key, key::pack(seq, kind), value);
        self.count_point(seq, kind, user_key, value);
    }

    /// Adds point entries with ascending sequence numbers, as [`Memtable::add`] does, but faster:
    /// the searches for the positions of up to [`INSERT_BATCH`] entries overlap their memory
    /// accesses. Entries that are many, compared with those of the memtable, are added in the order of their keys, so that
    /// each is close to the one before. They are compared in groups of up to [`SORTED_BATCH`].
    ///
    /// # Panics
    ///
    /// As for [`Memtable::add`], and if `points` has a range deletion.
    pub fn add_points(&self, points: &[Point<'_>]) {
        debug_assert!(
            points.is_sorted_by(|a, b| a.seq <= b.seq),
            "sequence numbers ascend"
        );
        let mut own = InsertHint::default();
        let mut shared = self.hint.try_lock();
        let hint = shared.as_deref_mut().unwrap_or(&mut own);
        let mut added = Added::default();
        for points in points.chunks(SORTED_BATCH) {
            match self.pays_to_sort(points) {
                true => {
                    let key = |at: u32| points[at as usize].key;
                    // Of the entries of a key, the newest comes first.
                    let compare = |a, b| key(a).cmp(key(b)).then(b.cmp(&a));
                    let keys = points.iter().map(|point| point.key);
                    let places = key::sorted_indices(self.order(), keys, compare);
                    for places in places.chunks(INSERT_BATCH) {
                        let points = places.iter().map(|&(_, at)| &points[at as usize]);
                        self.add_together(points, hint, &mut added);
                    }
                }
                false => {
                    for points in points.chunks(INSERT_BATCH) {
                        self.add_together(points.iter(), hint, &mut added);
                    }
                }
            }
        }
        if added.deletions > 0 {
            self.deletions.fetch_add(added.deletions, Ordering::Relaxed);
        }
        if let Some((first, last)) = added.seqs {
            self.count(first, last, added.bytes);
        }
    }

    /// True if `points` are added faster in the order of their keys.
    #[inline]
    fn pays_to_sort(&self, points: &[Point<'_>]) -> bool {
        points.len() >= MIN_SORTED
            && !self.list.is_sorted_on_read()
            && self.list.entries() < points.len() * DENSE
            && matches!(self.order(), KeyOrder::Bytewise)
            && !points.is_sorted_by(|a, b| a.key <= b.key)
    }

    /// Adds at most [`INSERT_BATCH`] points.
    #[inline(always)]
    fn add_together<'p, 'k: 'p>(
        &self,
        points: impl Iterator<Item = &'p Point<'k>> + Clone,
        hint: &mut InsertHint,
        added: &mut Added,
    ) {
        let mut additions: [Addition<'_>; INSERT_BATCH] = [(&[], 0, &[]); INSERT_BATCH];
        let mut kinds = [ValueKind::Value; INSERT_BATCH];
        let mut len = 0;
        for (at, point) in points.clone().enumerate() {
            kinds[at] = self.stored_kind(point.kind, point.key);
            additions[at] = (point.key, key::pack(point.seq, kinds[at]), point.value);
            len += 1;
        }
        let mut inserted = [false; INSERT_BATCH];
        let done = |at: usize, is_new| inserted[at] = is_new;
        self.list.insert_batch(&additions[..len], hint, done);
        for (at, point) in points.enumerate() {
            if inserted[at] {
                added.count(point, kinds[at]);
            }
        }
    }

    /// Adds the key to the filter and returns the kind under which an entry of `kind` is stored.
    #[inline]
    fn stored_kind(&self, kind: ValueKind, user_key: &[u8]) -> ValueKind {
        assert!(
            kind.is_point(),
            "memtables hold point entries and range deletions only"
        );
        if let Some(filter) = &self.filter {
            filter.add(self.without_timestamp(user_key));
        }
        match kind {
            // The WAL has plain deletions; in the memtable, deletions of keys with timestamps have their own
            // kind.
            ValueKind::Deletion if self.order().timestamp_size() > 0 => {
                ValueKind::DeletionWithTimestamp
            }
            kind => kind,
        }
    }

    #[inline]
    fn count_point(&self, seq: SequenceNumber, kind: ValueKind, user_key: &[u8], value: &[u8]) {
        if kind.is_deletion() {
            self.deletions.fetch_add(1, Ordering::Relaxed);
        }
        self.count(seq, seq, user_key.len() + key::SUFFIX_LEN + value.len());
    }

    fn add_range(&self, seq: SequenceNumber, start: &[u8], end: &[u8]) -> bool {
        let new = tombstone(self.order(), seq, start, end);
        self.push_range(new, |ranges| &mut ranges.written);
        true
    }

    /// Adds `new` to one of the lists of range tombstones.
    fn push_range(&self, new: Tombstone, list: impl FnOnce(&mut Ranges) -> &mut Tombstones) {
        let (seq, len) = (new.seq, new.start.len() + new.end.len() + 2 * new.ts.len());
        let mut ranges = self.ranges.lock();
        list(&mut ranges).push(new, self.checks().checksum_len > 0);
        // Relaxed: informational, and stored in order under the lock.
        self.range_bytes.store(ranges.bytes(), Ordering::Relaxed);
        // Release pairs with the acquire in `has_range_tombstones`. A reader that uses a published sequence
        // number sees this store because of the publication.
        self.range_deletions.store(ranges.len(), Ordering::Release);
        drop(ranges);
        self.count(seq, seq, len + key::SUFFIX_LEN);
    }

    /// Updates the counters for entries of any kind, with sequence numbers from `first` to `last`. Relaxed throughout:
    /// the counters are informational.
    #[inline]
    fn count(&self, first: SequenceNumber, last: SequenceNumber, bytes: usize) {
        debug_assert!(last <= SequenceNumber::MAX, "sequence numbers have 56 bits");
        self.report();
        self.data_bytes.fetch_add(bytes, Ordering::Relaxed);
        // Usually a load suffices: the first number is set once, and numbers mostly arrive in
        // order.
        if first.0 < self.first_seq.load(Ordering::Relaxed) {
            self.first_seq.fetch_min(first.0, Ordering::Relaxed);
        }
        if last.0 > self.largest_seq.load(Ordering::Relaxed) {
            self.largest_seq.fetch_max(last.0, Ordering::Relaxed);
        }
    }

    /// Calls `visit` with the point entries of the user key of `lookup` that are visible at its sequence
    /// number, newest first, until `visit` breaks.
    #[inline]
    pub fn get(
        &self,
        lookup: &LookupKey,
        mut visit: impl FnMut(SequenceNumber, ValueKind, &[u8]) -> ControlFlow<()>,
    ) {
        self.find(lookup, |entry| {
            visit(entry.seq(), entry.kind(), entry.value())
        });
    }

    /// [`Memtable::get`] with whole entries, which can be pinned. In an order with timestamps, visits the
    /// entries of the key whose timestamps are not newer than that of `lookup`.
    #[inline]
    pub fn find<'m>(
        &'m self,
        lookup: &LookupKey,
        mut visit: impl FnMut(Entry<'m>) -> ControlFlow<()>,
    ) {
        let internal = lookup.internal();
        let (user, order) = (key::user_key(internal), self.list.order());
        if !self.may_have(user) {
            return;
        }
        let mut ended = |entry: Entry<'m>| {
            // Entries with older timestamps follow, whatever their sequence numbers.
            !same_key(order, entry.user_key(), user)
                || (entry.seq() <= lookup.seq() && visit(entry).is_break())
        };
        if let Some(first) = self.list.at_or_after(user, key::packed(internal))
            && !ended(first)
        {
            let _ = Run::after(first).find(|entry| ended(*entry));
        }
    }

    /// The newest point entry of the user key of `lookup` that is visible at its sequence number. The order must be
    /// one without timestamps.
    #[inline]
    #[must_use]
    pub fn newest<'m>(&'m self, lookup: &LookupKey) -> Option<Entry<'m>> {
        debug_assert_eq!(self.order().timestamp_size(), 0, "timestamps need `find`");
        let internal = lookup.internal();
        let (user, order) = (key::user_key(internal), self.list.order());
        if !self.may_have(user) {
            return None;
        }
        let first = self.list.at_or_after(user, key::packed(internal))?;
        same_key(order, first.user_key(), user).then_some(first)
    }

    /// Calls `add` with the merge operands after the entry `first` and of its key, newest first, from sequence number
    /// `since` on, until it returns false. Returns the entry of the key that follows the last of them. The order must
    /// be one without timestamps.
    pub fn operands_after<'m>(
        &'m self,
        first: Entry<'m>,
        since: SequenceNumber,
        mut add: impl FnMut(Entry<'m>) -> bool,
    ) -> Option<Entry<'m>> {
        debug_assert_eq!(self.order().timestamp_size(), 0, "timestamps need `find`");
        let (order, user) = (self.list.order(), first.user_key());
        let oldest = key::pack(since, ValueKind::Deletion);
        for entry in Run::after(first) {
            let internal = entry.key();
            if !same_bytes(key::user_key(internal), user)
                && !same_key(order, key::user_key(internal), user)
            {
                return None;
            }
            let packed = key::packed(internal);
            // Truncation is intended: the kind is the lowest byte.
            if packed as u8 != ValueKind::Merge as u8 || packed < oldest {
                return Some(entry);
            }
            if !add(entry) {
                return None;
            }
        }
        None
    }

    /// True if the memtable may have point entries of `user_key` according to the filter, or if there is no
    /// filter. [`Memtable::get`] and [`Memtable::find`] consult the filter themselves.
    #[inline]
    #[must_use]
    pub fn may_have(&self, user_key: &[u8]) -> bool {
        match &self.filter {
            Some(filter) => filter.may_have(self.without_timestamp(user_key)),
            None => true,
        }
    }

    /// True if the memtable may have point entries with the prefix of `user_key`, according to the filter.
    #[inline]
    #[must_use]
    pub fn may_have_prefix_of(&self, user_key: &[u8]) -> bool {
        match &self.filter {
            Some(filter) => filter.may_have_prefix_of(self.without_timestamp(user_key)),
            None => true,
        }
    }

    /// True if the filter holds the prefixes produced by `extractor`.
    #[must_use]
    pub fn has_prefixes_of(&self, extractor: Option<&PrefixExtractor>) -> bool {
        let both = self.filter.as_ref().zip(extractor);
        both.is_some_and(|(filter, extractor)| filter.has_prefixes_of(extractor))
    }

    #[inline]
    fn without_timestamp<'k>(&self, user_key: &'k [u8]) -> &'k [u8] {
        key::strip_timestamp(user_key, self.order().timestamp_size())
    }

    /// The checks of entries against damage to memory.
    #[inline]
    #[must_use]
    pub fn checks(&self) -> Checks {
        self.list.checks()
    }

    /// Verifies the entries that a lookup of `lookup` reads: the one at which the search ends, whatever its key, and those
    /// of the key down to the newest one that is not a merge operand; the range tombstones; and the entries that the
    /// search passes, as far as the memtable has such checks.
    ///
    /// # Errors
    ///
    /// `Corruption` if one is damaged.
    #[cold]
    pub fn verify_lookup(&self, lookup: &LookupKey) -> Result<()> {
        if self.has_range_tombstones() {
            let _built = self.range_tombstones();
            self.verify_ranges_read()?;
        }
        let internal = lookup.internal();
        let (user, packed) = (key::user_key(internal), key::packed(internal));
        if !self.may_have(user) {
            return Ok(());
        }
        self.list.verify_search(user, packed)?;
        let mut at = self.list.at_or_after(user, packed);
        while let Some(entry) = at {
            entry.verify()?;
            if !same_key(self.order(), entry.user_key(), user)
                || (entry.kind() != ValueKind::Merge && entry.seq() <= lookup.seq())
            {
                break;
            }
            at = entry.next();
        }
        Ok(())
    }

    /// Verifies that no range tombstone was damaged when its fragments were built.
    pub(crate) fn verify_ranges_read(&self) -> Result<()> {
        match self.has_range_tombstones() && self.ranges.lock().is_damaged() {
            true => Err(damaged_range()),
            false => Ok(()),
        }
    }

    /// Verifies the checksums of all range tombstones, if there are any.
    ///
    /// # Errors
    ///
    /// `Corruption` if one is damaged.
    pub fn verify_range_tombstones(&self) -> Result<()> {
        match self.checks().checksum_len {
            0 => Ok(()),
            _ => self.ranges.lock().verify(),
        }
    }

    /// Pins `entry`, which must be of this memtable.
    ///
    /// # Panics
    ///
    /// If the entry belongs to another memtable.
    #[must_use]
    pub fn pin(self: &Arc<Self>, entry: Entry<'_>) -> PinnedEntry {
        PinnedEntry::new(Arc::clone(self), entry)
    }

    /// Returns an iterator over the point entries, not yet positioned.
    #[must_use]
    pub fn iter(self: &Arc<Self>) -> MemtableIter {
        MemtableIter::new(Arc::clone(self))
    }

    /// Returns a forward scan over all point entries, not yet positioned.
    #[must_use]
    pub fn walk(self: &Arc<Self>) -> MemtableWalk {
        MemtableWalk::new(Arc::clone(self))
    }

    /// True if the memtable has a range tombstone.
    #[inline]
    #[must_use]
    pub fn has_range_tombstones(&self) -> bool {
        self.range_deletions.load(Ordering::Acquire) > 0
    }

    /// Fragments of all range tombstones. A reader ignores those whose sequence numbers are too new for it.
    #[must_use]
    pub fn range_tombstones(&self) -> RangeTombstones {
        self.with_ranges(Ranges::build)
    }

    /// [`Memtable::range_tombstones`] without those that scans derived.
    #[must_use]
    pub fn written_range_tombstones(&self) -> RangeTombstones {
        self.with_ranges(Ranges::build_written)
    }

    /// Calls `build`, which compares keys.
    fn with_ranges(
        &self,
        build: impl FnOnce(&mut Ranges, &KeyOrder) -> RangeTombstones,
    ) -> RangeTombstones {
        assert_not_held(self.order(), &self.ranges);
        let mut ranges = self.ranges.lock();
        holding(self.order(), &self.ranges, || {
            build(&mut ranges, self.order())
        })
    }

    /// The range tombstones: those of range deletions in insertion order, then derived ones.
    #[must_use]
    pub fn raw_range_tombstones(&self) -> Vec<Tombstone> {
        self.ranges.lock().all().cloned().collect()
    }

    /// The key order.
    #[inline]
    #[must_use]
    pub fn order(&self) -> &KeyOrder {
        self.list.order()
    }

    pub(crate) fn list(&self) -> &SkipList {
        &self.list
    }

    /// Bytes in use, including range tombstones and the whole filter.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.list.arena().memory_usage() + self.bytes_outside_list()
    }

    /// Bytes allocated: [`Memtable::memory_usage`] plus reserved but unused memory.
    #[must_use]
    pub fn memory_reserved(&self) -> usize {
        self.list.arena().memory_reserved() + self.bytes_outside_list()
    }

    /// Bytes used outside the arena of the skiplist.
    fn bytes_outside_list(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, Filter::bytes);
        filter + self.list.unsorted_memory() + self.range_bytes.load(Ordering::Relaxed)
    }

    /// Total bytes of internal keys and values.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        self.data_bytes.load(Ordering::Relaxed)
    }

    /// The number of entries, including range deletions.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.list.entries() + self.range_deletions()
    }

    /// The number of point deletions.
    #[must_use]
    pub fn deletions(&self) -> usize {
        self.deletions.load(Ordering::Relaxed)
    }

    /// The number of range deletions.
    #[must_use]
    pub fn range_deletions(&self) -> usize {
        self.range_deletions.load(Ordering::Relaxed)
    }

    /// True if no entry has been added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    /// The smallest sequence number added; `None` if the memtable is empty.
    #[must_use]
    pub fn first_seq(&self) -> Option<SequenceNumber> {
        let first = self.first_seq.load(Ordering::Relaxed);
        (first != u64::MAX).then_some(SequenceNumber(first))
    }

    /// The largest sequence number added; 0 if the memtable is empty.
    #[must_use]
    pub fn largest_seq(&self) -> SequenceNumber {
        SequenceNumber(self.largest_seq.load(Ordering::Relaxed))
    }
}

impl Drop for Memtable {
    fn drop(&mut self) {
        self.seal();
        if let Some(account) = &self.account {
            let bytes = account.reported.load(Ordering::Relaxed);
            match account.flushed.load(Ordering::Relaxed) {
                true => account.manager.release_flushed(bytes),
                false => account.manager.release(bytes),
            }
        }
    }
}

#[inline]
fn same_key(order: &KeyOrder, a: &[u8], b: &[u8]) -> bool {
    match order {
        KeyOrder::Bytewise | KeyOrder::ReverseBytewise => a == b,
        order => key::is_same_key(order, a, b),
    }
}

/// `a == b`, for short slices that are mostly equal, without a call.
#[inline(always)]
fn same_bytes(mut a: &[u8], mut b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    while let (Some((x, a_rest)), Some((y, b_rest))) =
        (a.split_first_chunk::<8>(), b.split_first_chunk::<8>())
    {
        if u64::from_le_bytes(*x) != u64::from_le_bytes(*y) {
            return false;
        }
        (a, b) = (a_rest, b_rest);
    }
    a.is_empty() || a == b
}

impl std::fmt::Debug for Memtable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Memtable({} entries, {} bytes)",
            self.entries(),
            self.memory_usage()
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
