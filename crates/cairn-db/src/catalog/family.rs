//! Column families: the state of each, and the table of live ones.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, Guard};
use cairn_memory::{BlockCache, CacheCharge, MemoryUse};
use cairn_memtable::Memtable;
use cairn_options::FamilyOptions;
use cairn_platform::sync::{AtomicBool, AtomicU64, Mutex, OnceLock, Ordering};
use cairn_read::View;
use cairn_types::{Code, Error, KeyOrder, Result, Subcode};
use cairn_version::manifest::RecoveredFamily;
use cairn_version::{FileMeta, TableSource, Version};

use super::invariants::check_memtables;
use crate::report::family_stats::FamilyCounters;
use crate::write::direct_blobs::DirectBlobs;
use crate::write::family::FamilyWrites;

/// One column family of an open database.
pub(crate) struct FamilyState {
    id: u32,
    name: String,
    /// The current options. Replaced as a whole when they change.
    options: ArcSwap<FamilyOptions>,
    /// The comparator, which never changes.
    order: KeyOrder,
    /// The view for reads. Replaced as a whole when memtables switch and when jobs install.
    view: ArcSwap<View>,
    /// Opens the family's tables. Replaced when relevant options change.
    tables: ArcSwap<TableSource>,
    /// The state of the write path for the family.
    pub(crate) writes: FamilyWrites,
    /// The blob files that writers append to.
    pub(crate) direct: DirectBlobs,
    dropped: AtomicBool,
    /// Flushed memtables that are kept, oldest first: for conflict checks of transactions, not for reads.
    history: Mutex<VecDeque<Arc<Memtable>>>,
    /// Replaced versions that may still be read.
    old_versions: Mutex<Vec<Weak<Version>>>,
    /// The number of replacements of the view.
    views: AtomicU64,
    /// Statistics of completed jobs.
    pub(crate) stats: FamilyCounters,
    /// The largest epoch assigned to a table of this family.
    last_epoch: AtomicU64,
    /// True if tables keep user-defined timestamps.
    pub(crate) persist_timestamps: bool,
    /// True if the family is written by ingestion only.
    only_ingests: bool,
    /// The charge of this state; `None` once the database is released.
    charge: Mutex<Option<CacheCharge>>,
}

/// Memory of a family without entries, in bytes: its options in several forms, its view and its state. Measured with
/// a thousand families.
const FAMILY_BYTES: usize = 20 << 10;

impl FamilyState {
    pub(super) fn new(
        family: &RecoveredFamily,
        options: Arc<FamilyOptions>,
        view: View,
        tables: Arc<TableSource>,
        last_epoch: u64,
    ) -> FamilyState {
        if tables.charge.charges(MemoryUse::FileMetadata) {
            view.version.charge_files(None, &tables.charge);
        }
        FamilyState {
            charge: Mutex::new(tables.charge.charge(MemoryUse::Family, FAMILY_BYTES)),
            id: family.id,
            name: family.name.clone(),
            persist_timestamps: family.persist_timestamps,
            only_ingests: options.disallow_memtable_writes,
            last_epoch: AtomicU64::new(last_epoch),
            order: options.comparator.clone(),
            writes: FamilyWrites::new(&options),
            direct: DirectBlobs::new(&options),
            options: ArcSwap::new(options),
            view: ArcSwap::from_pointee(view),
            tables: ArcSwap::new(tables),
            dropped: AtomicBool::new(false),
            history: Mutex::default(),
            old_versions: Mutex::default(),
            views: AtomicU64::new(1),
            stats: FamilyCounters::default(),
        }
    }

    /// Releases the charge of this state.
    pub(super) fn end_charge(&self) {
        *self.charge.lock() = None;
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// Checks that the family is not written by ingestion only.
    #[inline]
    pub(crate) fn check_takes_writes(&self) -> Result<()> {
        match self.only_ingests {
            false => Ok(()),
            true => Err(self.refused_write()),
        }
    }

    #[cold]
    fn refused_write(&self) -> Error {
        Error::invalid_argument(format!(
            "column family {:?} has disallow_memtable_writes: its entries are ingested",
            self.name
        ))
    }

    /// Returns the current options. Call it once and keep the result if several options must be consistent.
    pub(crate) fn options(&self) -> Guard<Arc<FamilyOptions>> {
        self.options.load()
    }

    /// Returns the current source of the family's tables.
    pub(crate) fn tables(&self) -> Guard<Arc<TableSource>> {
        self.tables.load()
    }

    /// Puts changed options into effect, with the source that opens tables under them.
    pub(super) fn set_options(&self, options: Arc<FamilyOptions>, tables: Arc<TableSource>) {
        self.options.store(options);
        self.tables.store(tables);
        self.writes.begin_memtable(&self.options());
    }

    /// Replaces the view for reads. The caller holds the lock of the tree, or opens the database.
    pub(crate) fn set_view(&self, next: View) {
        let before = self.view.load();
        assert!(
            before.number < next.number,
            "view {} of {:?} replaces an older one, not view {}",
            next.number,
            self.name,
            before.number
        );
        check_memtables(&next);
        let tables = self.tables();
        if tables.charge.charges(MemoryUse::FileMetadata) {
            let policy = tables.charge.clone();
            next.version.charge_files(Some(&before.version), &policy);
        }
        self.view.store(Arc::new(next));
    }

    /// Returns the current view without counting a reference.
    pub(crate) fn view(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    /// Returns the current view.
    #[inline]
    pub(crate) fn view_full(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// Returns the mutable memtable. Only the write-group leader may rely on it staying mutable.
    pub(crate) fn memtable(&self) -> Arc<Memtable> {
        self.view.load().memtable.clone()
    }

    /// Returns the epoch of a table that is about to be flushed: larger than any before.
    pub(crate) fn next_epoch(&self, version: &Version) -> u64 {
        self.last_epoch
            .fetch_max(version.max_epoch(), Ordering::Relaxed);
        let epoch = self.last_epoch.fetch_add(1, Ordering::Relaxed) + 1;
        debug_assert!(
            epoch > version.max_epoch(),
            "a table that is flushed is newer than those of the tree"
        );
        epoch
    }

    /// Adds `flushed` memtables to the history. Called before they leave the view, so that a reader that loads the
    /// view first and the history second finds each of them in at least one.
    pub(super) fn add_history(&self, flushed: &[Arc<Memtable>]) {
        if self.history_limit() == 0 || flushed.is_empty() {
            return;
        }
        let mut history = self.history.lock();
        debug_assert!(
            flushed
                .iter()
                .all(|new| history.iter().all(|old| !Arc::ptr_eq(old, new))),
            "a memtable is part of the history once"
        );
        history.extend(flushed.iter().cloned());
    }

    /// Trims the history so that it takes at most `max_write_buffer_size_to_maintain` bytes together with the other
    /// memtables. The oldest that is kept is not counted, as in RocksDB.
    pub(crate) fn trim_memtable_history(&self) {
        let mut history = self.history.lock();
        let limit = self.history_limit();
        let bytes = |memtable: &Arc<Memtable>| memtable.memory_reserved();
        let unflushed: usize = self.view().memtables().map(bytes).sum();
        let mut newer = unflushed + history.iter().skip(1).map(bytes).sum::<usize>();
        while newer >= limit && history.pop_front().is_some() {
            newer -= history.front().map_or(0, bytes);
        }
    }

    /// The value of `max_write_buffer_size_to_maintain`.
    fn history_limit(&self) -> usize {
        usize::try_from(self.options().max_write_buffer_size_to_maintain).unwrap_or(0)
    }

    /// Returns the flushed memtables that are kept, oldest first.
    pub(crate) fn flushed_memtables(&self) -> Vec<Arc<Memtable>> {
        self.history.lock().iter().cloned().collect()
    }

    /// Releases the flushed memtables that are kept.
    pub(super) fn forget_history(&self) {
        self.history.lock().clear();
    }

    /// The number of flushed memtables that are kept, and their bytes.
    pub(crate) fn history(&self) -> (usize, usize) {
        let history = self.history.lock();
        let bytes = history.iter().map(|memtable| memtable.memory_usage()).sum();
        (history.len(), bytes)
    }

    /// Records that `old` was replaced by another version.
    pub(super) fn note_replaced(&self, old: &Arc<Version>) {
        let mut versions = self.old_versions.lock();
        versions.retain(|version| version.strong_count() > 0);
        versions.push(Arc::downgrade(old));
        self.count_view();
    }

    /// Counts a new view.
    pub(crate) fn count_view(&self) {
        self.views.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of views so far.
    pub(crate) fn views(&self) -> u64 {
        self.views.load(Ordering::Relaxed)
    }

    /// Returns the number of versions: the current one, and older ones with readers.
    pub(crate) fn live_versions(&self) -> usize {
        let current = self.view().version.clone();
        let versions = self.old_versions.lock();
        let alive = versions.iter().filter_map(Weak::upgrade);
        1 + alive
            .filter(|version| !Arc::ptr_eq(version, &current))
            .count()
    }

    /// Returns the total size of the tables of the version of `view`, and of older ones with readers. A table in several
    /// versions counts once.
    pub(crate) fn all_table_bytes(&self, view: &View) -> u64 {
        let older: Vec<Arc<Version>> = {
            let versions = self.old_versions.lock();
            versions.iter().filter_map(Weak::upgrade).collect()
        };
        let add = |sum: u64, (_, file): (usize, &Arc<FileMeta>)| sum.saturating_add(file.size);
        if older.is_empty() {
            return view.version.files().fold(0, add);
        }
        let mut counted = HashSet::new();
        let versions = std::iter::once(&view.version).chain(&older);
        let files = versions.flat_map(|version| version.files());
        let distinct = files.filter(|(_, file)| counted.insert(file.number));
        let bytes = distinct.fold(0, add);
        // Their last readers may have ended meanwhile, and left the files to these references. Dropping the mark last causes
        // another cleanup.
        let end = view.end.clone();
        drop(older);
        drop(end);
        bytes
    }

    /// Charges `bytes`, if `what` is charged.
    pub(crate) fn charge(&self, what: MemoryUse, bytes: usize) -> Option<CacheCharge> {
        self.tables().charge.charge(what, bytes)
    }

    /// Returns the family's block cache.
    pub(crate) fn cache(&self) -> Option<Arc<BlockCache>> {
        self.tables().cache.clone()
    }

    /// # Errors
    ///
    /// `ColumnFamilyDropped`, as in RocksDB.
    pub(crate) fn check_not_dropped(&self) -> Result<()> {
        match self.is_dropped() {
            false => Ok(()),
            true => Err(self.dropped_error()),
        }
    }

    /// The error of an operation that needs the family, which was dropped.
    #[cold]
    pub(crate) fn dropped_error(&self) -> Error {
        Error::new(
            Code::ColumnFamilyDropped,
            Subcode::None,
            format!("column family {:?} was dropped", self.name()),
        )
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    pub(super) fn mark_dropped(&self) {
        assert!(self.id != 0, "the default family is never dropped");
        let before = self.dropped.swap(true, Ordering::Release);
        assert!(!before, "family {:?} is dropped once", self.name);
    }
}

/// The live families of a database, as published to readers.
#[derive(Default)]
pub(super) struct FamilyTable {
    live: ArcSwap<Families>,
    /// The family with number 0, which every database has and which cannot be dropped, so that a write to it
    /// need not load all families.
    default: OnceLock<Arc<FamilyState>>,
    /// Dropped families that still have handles.
    dropped: Mutex<Vec<Weak<FamilyState>>>,
}

impl FamilyTable {
    /// The live families, without counting a reference.
    #[inline]
    pub(super) fn load(&self) -> Guard<Arc<Families>> {
        self.live.load()
    }

    /// The live families.
    pub(super) fn load_full(&self) -> Arc<Families> {
        self.live.load_full()
    }

    /// Replaces the live families. The caller leads and holds the lock of the MANIFEST, or has exclusive
    /// access.
    pub(super) fn store(&self, families: Families) {
        if let Some(family) = families.get(0) {
            self.default.get_or_init(|| family.clone());
        }
        assert!(
            self.default.get().map(Arc::as_ptr) == families.get(0).map(Arc::as_ptr),
            "the default family stays"
        );
        self.live.store(Arc::new(families));
    }

    /// Records that `family` was dropped.
    pub(super) fn note_dropped(&self, family: &Arc<FamilyState>) {
        let mut dropped = self.dropped.lock();
        dropped.retain(|family| family.strong_count() > 0);
        dropped.push(Arc::downgrade(family));
    }

    /// Takes the dropped families that still have handles.
    pub(super) fn take_dropped(&self) -> Vec<Arc<FamilyState>> {
        let dropped = std::mem::take(&mut *self.dropped.lock());
        dropped.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the family with number 0; `None` before the families are set.
    #[inline]
    pub(super) fn default_family(&self) -> Option<&Arc<FamilyState>> {
        self.default.get()
    }
}

/// The live families of a database, by id. Replaced as a whole when one is created or dropped.
#[derive(Clone, Default)]
pub(crate) struct Families {
    by_id: BTreeMap<u32, Arc<FamilyState>>,
    /// The largest family id ever used.
    max_id: u32,
}

impl Families {
    /// Creates the set without families. The largest id ever used is `max_id`.
    pub(super) fn none(max_id: u32) -> Families {
        Families {
            by_id: BTreeMap::new(),
            max_id,
        }
    }

    /// Returns the largest family id ever used.
    pub(crate) fn max_id(&self) -> u32 {
        self.max_id
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Arc<FamilyState>> {
        self.by_id.get(&id)
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Arc<FamilyState>> {
        self.by_id.values().find(|family| family.name() == name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<FamilyState>> {
        self.by_id.values()
    }

    pub(super) fn insert(&mut self, family: Arc<FamilyState>) {
        let (id, name) = (family.id(), family.name().to_owned());
        self.max_id = self.max_id.max(id);
        let before = self.by_id.insert(id, family);
        assert!(before.is_none(), "the id {id} of family {name:?} is new");
    }

    pub(super) fn without(&self, id: u32) -> Families {
        let mut next = self.clone();
        let gone = next.by_id.remove(&id);
        assert!(gone.is_some(), "family {id}, which is dropped, was live");
        next
    }
}

/// A column family to open: its name and options.
#[derive(Clone, Debug)]
pub struct FamilyDescriptor {
    /// The name.
    pub name: String,
    /// The options.
    pub options: FamilyOptions,
}

impl FamilyDescriptor {
    /// Creates the family `name` with `options`.
    #[must_use]
    pub fn new(name: impl Into<String>, options: FamilyOptions) -> FamilyDescriptor {
        FamilyDescriptor {
            name: name.into(),
            options,
        }
    }

    /// Checks that the default family is one of `families`, as the functions of RocksDB that open families require.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if it is not.
    pub fn check_default(families: &[FamilyDescriptor]) -> Result<()> {
        match families.iter().any(|family| family.name == "default") {
            true => Ok(()),
            false => Err(Error::invalid_argument(
                "Default column family not specified",
            )),
        }
    }
}
