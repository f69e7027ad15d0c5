//! The memtable: a list of point entries, the range tombstones beside it, and what is counted.

use std::ops::ControlFlow;
use std::sync::Arc;

use cairn_format::key::{self, LookupKey};
use cairn_format::range_del::{Fragments, Tombstone};
use cairn_memory::WriteBufferManager;
use cairn_platform::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering};
use cairn_types::{KeyOrder, PrefixExtractor, SequenceNumber, ValueKind};

use crate::filter::{Filter, FilterOptions};
use crate::iter::{MemtableIter, MemtableWalk};
use crate::pin::PinnedEntry;
use crate::skiplist::comparator_guard::{assert_not_held, holding};
use crate::skiplist::{Addition, Entry, INSERT_BATCH, InsertHint, SkipList};

/// How a memtable is built.
#[derive(Clone, Debug)]
pub struct MemtableOptions {
    /// Bytes that the arena takes from the allocator at a time.
    pub arena_block_size: usize,
    /// The filter that lookups ask first.
    pub filter: FilterOptions,
    /// True if entries are sorted only when the memtable is first read or flushed: for bulk loads.
    pub sort_on_read: bool,
}

impl Default for MemtableOptions {
    fn default() -> MemtableOptions {
        MemtableOptions {
            arena_block_size: 1 << 20,
            filter: FilterOptions::default(),
            sort_on_read: false,
        }
    }
}

/// A point entry to add.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// Its sequence number.
    pub seq: SequenceNumber,
    /// What it is; no range deletion.
    pub kind: ValueKind,
    /// The user key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// Recent writes of a column family, sorted; see the crate's documentation.
pub struct Memtable {
    list: SkipList,
    filter: Option<Filter>,
    /// Where the last insertion without a hint of its own went.
    hint: Mutex<InsertHint>,
    deletions: AtomicUsize,
    data_bytes: AtomicUsize,
    /// The last sequence number given out before it was made.
    created_after: SequenceNumber,
    first_seq: AtomicU64,
    largest_seq: AtomicU64,
    /// How many range tombstones there are, so that a read of a memtable without any takes no lock.
    range_deletions: AtomicUsize,
    ranges: Mutex<Ranges>,
    account: Option<Account>,
    marked_for_flush: AtomicBool,
}

/// Where a memtable reports its memory.
struct Account {
    manager: Arc<WriteBufferManager>,
    reported: AtomicUsize,
    sealed: AtomicBool,
}

/// The range tombstones.
#[derive(Default)]
struct Ranges {
    tombstones: Vec<Tombstone>,
    bytes: usize,
    /// The fragments of the tombstones up to the last read, in groups, the oldest first, each of more tombstones than the one behind it.
    groups: Vec<Group>,
    /// The same for readers.
    shown: RangeTombstones,
}

/// The fragments of some tombstones that were added one after another.
struct Group {
    count: usize,
    fragments: Arc<Fragments>,
}

/// Range tombstones in groups of fragments, each of which a reader has to ask.
pub type RangeTombstones = Arc<[Arc<Fragments>]>;

impl Ranges {
    /// Brings the fragments up to the tombstones. Those that were added since the last read become a group, together with
    /// the groups before that are no larger: so each tombstone is put into fragments as often as their number can be halved,
    /// however reads and additions alternate.
    fn build(&mut self, order: &KeyOrder) {
        let built: usize = self.groups.iter().map(|group| group.count).sum();
        let mut count = self.tombstones.len() - built;
        if count == 0 {
            return;
        }
        let mut kept = self.groups.len();
        while let Some(last) = kept.checked_sub(1)
            && self.groups[last].count <= count
        {
            count += self.groups[last].count;
            kept = last;
        }
        let tombstones = &self.tombstones[self.tombstones.len() - count..];
        let fragments = Arc::new(Fragments::build(order, tombstones));
        self.groups.truncate(kept);
        self.groups.push(Group { count, fragments });
        let shown = self.groups.iter().map(|group| group.fragments.clone());
        self.shown = shown.collect();
    }
}

impl Memtable {
    /// An empty memtable whose keys are in `order`. It has no filter if keys of different bytes may
    /// be equal in that order.
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
            },
            hint: Mutex::new(InsertHint::default()),
            deletions: AtomicUsize::new(0),
            data_bytes: AtomicUsize::new(0),
            created_after: SequenceNumber::default(),
            first_seq: AtomicU64::new(u64::MAX),
            largest_seq: AtomicU64::new(0),
            range_deletions: AtomicUsize::new(0),
            ranges: Mutex::new(Ranges::default()),
            account: None,
            marked_for_flush: AtomicBool::new(false),
        }
    }

    /// The same, made when `last` was the last sequence number given out.
    #[must_use]
    pub fn created_after(mut self, last: SequenceNumber) -> Memtable {
        self.created_after = last;
        self
    }

    /// The last sequence number given out before the memtable was made; 0 if that is not known.
    #[must_use]
    pub fn earliest_seq(&self) -> SequenceNumber {
        self.created_after
    }

    /// Asks that whoever writes next has the memtable flushed, however full it is.
    pub fn mark_for_flush(&self) {
        // Relaxed: a flag that orders nothing else; here and where it is read.
        if !self.is_marked_for_flush() {
            self.marked_for_flush.store(true, Ordering::Relaxed);
        }
    }

    /// True if that was requested.
    #[inline]
    #[must_use]
    pub fn is_marked_for_flush(&self) -> bool {
        self.marked_for_flush.load(Ordering::Relaxed)
    }

    /// The same, which reports its memory to `manager`.
    #[must_use]
    pub fn accounted(mut self, manager: Arc<WriteBufferManager>) -> Memtable {
        self.account = Some(Account {
            manager,
            reported: AtomicUsize::new(0),
            sealed: AtomicBool::new(false),
        });
        self
    }

    /// No more is added from now on.
    pub fn seal(&self) {
        if let Some(account) = &self.account
            && !account.sealed.swap(true, Ordering::Relaxed)
        {
            account
                .manager
                .seal(account.reported.load(Ordering::Relaxed));
        }
    }

    /// Reports memory that was taken since the last report.
    #[inline]
    fn report(&self) {
        let Some(account) = &self.account else { return };
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

    /// Adds an entry. For a `RangeDeletion`, `user_key` is where it begins and `value` where it
    /// ends. `false` if exactly this entry is here already, which then stays.
    ///
    /// The caller publishes `seq` to readers after this has returned.
    ///
    /// # Panics
    ///
    /// If key or value have 4 GiB or more, or `kind` is none that memtables hold.
    pub fn add(&self, seq: SequenceNumber, kind: ValueKind, user_key: &[u8], value: &[u8]) -> bool {
        // Whoever comes second does without the hint rather than wait for it.
        match self.hint.try_lock() {
            Some(mut hint) => self.add_at(&mut hint, seq, kind, user_key, value),
            None => self.add_at(&mut InsertHint::default(), seq, kind, user_key, value),
        }
    }

    /// [`Memtable::add`] with a hint that the caller keeps for a series of insertions, best in
    /// ascending order.
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

    /// [`Memtable::add`] of an entry that is surely not here yet, by a writer who is alone: its place may be
    /// looked for later, together with those of others, but before anybody reads.
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

    /// Adds point entries of ascending sequence numbers as [`Memtable::add`] does, faster: the
    /// searches for their places wait for memory together, [`INSERT_BATCH`] at a time.
    ///
    /// # Panics
    ///
    /// As for [`Memtable::add`], and if there is a range deletion among them.
    pub fn add_points(&self, points: &[Point<'_>]) {
        let mut own = InsertHint::default();
        let mut shared = self.hint.try_lock();
        let hint = shared.as_deref_mut().unwrap_or(&mut own);
        for points in points.chunks(INSERT_BATCH) {
            let mut additions: [Addition<'_>; INSERT_BATCH] = [(&[], 0, &[]); INSERT_BATCH];
            let mut kinds = [ValueKind::Value; INSERT_BATCH];
            for (at, point) in points.iter().enumerate() {
                kinds[at] = self.stored_kind(point.kind, point.key);
                additions[at] = (point.key, key::pack(point.seq, kinds[at]), point.value);
            }
            let additions = &additions[..points.len()];
            self.list.insert_batch(additions, hint, |at, is_new| {
                if is_new {
                    let point = &points[at];
                    self.count_point(point.seq, kinds[at], point.key, point.value);
                }
            });
        }
    }

    /// The kind that an entry of `kind` has here; its key is made known to the filter.
    #[inline]
    fn stored_kind(&self, kind: ValueKind, user_key: &[u8]) -> ValueKind {
        assert!(
            kind.is_point(),
            "memtables hold point entries and range deletions"
        );
        if let Some(filter) = &self.filter {
            filter.add(self.without_timestamp(user_key));
        }
        match kind {
            // The log has plain deletions; a key with a timestamp has one of its own kind here.
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
        self.count(seq, user_key.len() + key::SUFFIX_LEN + value.len());
    }

    fn add_range(&self, seq: SequenceNumber, start: &[u8], end: &[u8]) -> bool {
        let bytes = size_of::<Tombstone>() + start.len() + end.len();
        let mut ranges = self.ranges.lock();
        ranges
            .tombstones
            .push(tombstone(self.order(), seq, start, end));
        ranges.bytes += bytes;
        // Release pairs with the acquire in `has_range_tombstones`; that the reader of a published
        // sequence number sees it follows from the publication.
        self.range_deletions
            .store(ranges.tombstones.len(), Ordering::Release);
        drop(ranges);
        self.count(seq, start.len() + key::SUFFIX_LEN + end.len());
        true
    }

    /// What every entry is counted by. Relaxed throughout: the numbers are reports.
    fn count(&self, seq: SequenceNumber, bytes: usize) {
        self.report();
        self.data_bytes.fetch_add(bytes, Ordering::Relaxed);
        // Mostly a look suffices: the first number is set once, and numbers come in order.
        if seq.0 < self.first_seq.load(Ordering::Relaxed) {
            self.first_seq.fetch_min(seq.0, Ordering::Relaxed);
        }
        if seq.0 > self.largest_seq.load(Ordering::Relaxed) {
            self.largest_seq.fetch_max(seq.0, Ordering::Relaxed);
        }
    }

    /// Shows `visit` the point entries of the user key of `lookup` that its sequence number sees,
    /// newest first, until it breaks off.
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

    /// [`Memtable::get`] with whole entries, which can be pinned. In an order with timestamps these
    /// are the entries of the key whose timestamps are not newer than that of `lookup`.
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
        let mut at = self.list.at_or_after(user, key::packed(internal));
        while let Some(entry) = at {
            if !same_key(order, entry.user_key(), user) {
                return;
            }
            // With timestamps the entries of older ones follow, whatever their sequence number.
            if entry.seq() <= lookup.seq() && visit(entry).is_break() {
                return;
            }
            at = entry.next();
        }
    }

    /// True if there may be point entries of `user_key`, as far as the filter knows; always without
    /// a filter. Lookups ask by themselves.
    #[inline]
    #[must_use]
    pub fn may_have(&self, user_key: &[u8]) -> bool {
        match &self.filter {
            Some(filter) => filter.may_have(self.without_timestamp(user_key)),
            None => true,
        }
    }

    /// True if there may be point entries with the prefix of `user_key`, as far as the filter knows.
    #[inline]
    #[must_use]
    pub fn may_have_prefix_of(&self, user_key: &[u8]) -> bool {
        match &self.filter {
            Some(filter) => filter.may_have_prefix_of(self.without_timestamp(user_key)),
            None => true,
        }
    }

    /// True if the filter knows the prefixes that `extractor` takes.
    #[must_use]
    pub fn has_prefixes_of(&self, extractor: Option<&PrefixExtractor>) -> bool {
        let both = self.filter.as_ref().zip(extractor);
        both.is_some_and(|(filter, extractor)| filter.has_prefixes_of(extractor))
    }

    #[inline]
    fn without_timestamp<'k>(&self, user_key: &'k [u8]) -> &'k [u8] {
        key::strip_timestamp(user_key, self.order().timestamp_size())
    }

    /// `entry`, which is this memtable's, with a share in the memtable.
    #[must_use]
    pub fn pin(self: &Arc<Self>, entry: Entry<'_>) -> PinnedEntry {
        PinnedEntry::new(Arc::clone(self), entry)
    }

    /// An iterator over the point entries, which stands nowhere yet.
    #[must_use]
    pub fn iter(self: &Arc<Self>) -> MemtableIter {
        MemtableIter::new(Arc::clone(self))
    }

    /// A walk over all point entries, standing nowhere.
    #[must_use]
    pub fn walk(self: &Arc<Self>) -> MemtableWalk {
        MemtableWalk::new(Arc::clone(self))
    }

    /// True if there is any range tombstone.
    #[inline]
    #[must_use]
    pub fn has_range_tombstones(&self) -> bool {
        self.range_deletions.load(Ordering::Acquire) > 0
    }

    /// The fragments of all range tombstones. Readers tell those that are too new for them by their sequence numbers.
    #[must_use]
    pub fn range_tombstones(&self) -> RangeTombstones {
        assert_not_held(self.order(), &self.ranges);
        let mut ranges = self.ranges.lock();
        holding(self.order(), &self.ranges, || ranges.build(self.order()));
        Arc::clone(&ranges.shown)
    }

    /// The range tombstones as they were added.
    #[must_use]
    pub fn raw_range_tombstones(&self) -> Vec<Tombstone> {
        self.ranges.lock().tombstones.clone()
    }

    /// The order of the keys.
    #[inline]
    #[must_use]
    pub fn order(&self) -> &KeyOrder {
        self.list.order()
    }

    pub(crate) fn list(&self) -> &SkipList {
        &self.list
    }

    /// Bytes of memory in use, range tombstones and the whole filter included.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.list.arena().memory_usage() + self.bytes_outside_list()
    }

    /// Bytes taken from the allocator: [`Memtable::memory_usage`] and what is still unused.
    #[must_use]
    pub fn memory_reserved(&self) -> usize {
        self.list.arena().memory_reserved() + self.bytes_outside_list()
    }

    /// Bytes of what is beside the list.
    fn bytes_outside_list(&self) -> usize {
        self.filter.as_ref().map_or(0, Filter::bytes) + self.range_bytes()
    }

    fn range_bytes(&self) -> usize {
        if self.has_range_tombstones() {
            self.ranges.lock().bytes
        } else {
            0
        }
    }

    /// Bytes of keys (with their 8 bytes of number and kind) and values.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        self.data_bytes.load(Ordering::Relaxed)
    }

    /// How many entries there are, range deletions included.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.list.entries() + self.range_deletions()
    }

    /// How many of them are point deletions.
    #[must_use]
    pub fn deletions(&self) -> usize {
        self.deletions.load(Ordering::Relaxed)
    }

    /// How many of them are range deletions.
    #[must_use]
    pub fn range_deletions(&self) -> usize {
        self.range_deletions.load(Ordering::Relaxed)
    }

    /// True if nothing was added yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    /// The smallest sequence number added, or `None` for an empty memtable.
    #[must_use]
    pub fn first_seq(&self) -> Option<SequenceNumber> {
        let first = self.first_seq.load(Ordering::Relaxed);
        (first != u64::MAX).then_some(SequenceNumber(first))
    }

    /// The largest sequence number added; zero for an empty memtable.
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
            account.manager.release(bytes);
        }
    }
}

#[inline]
fn same_key(order: &KeyOrder, a: &[u8], b: &[u8]) -> bool {
    match order {
        KeyOrder::Bytewise | KeyOrder::ReverseBytewise => a == b,
        order => order.compare_without_timestamp(a, b).is_eq(),
    }
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

/// The tombstone from `start` up to `end`, which carry their timestamps if the order has them.
fn tombstone(order: &KeyOrder, seq: SequenceNumber, start: &[u8], end: &[u8]) -> Tombstone {
    let size = order.timestamp_size();
    let plain = key::strip_timestamp(start, size);
    Tombstone {
        start: plain.to_vec(),
        end: key::strip_timestamp(end, size).to_vec(),
        seq,
        ts: start[plain.len()..].to_vec(),
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
