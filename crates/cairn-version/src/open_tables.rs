//! Slots of open tables, and the limit on open tables per database.
//!
//! If `max_open_files` is -1, a table stays open as long as its file's metadata exists: a read
//! follows one pointer, without counting a reference or taking a lock. With a limit, tables can be
//! closed: readers hold their own reference and are not affected.
//!
//! [`OpenTables`] enforces the limit across all column families of a database with the CLOCK
//! algorithm: a use marks a table; the hand clears marks and closes unmarked tables. A table with
//! readers is closed to new readers only; its file is closed when the last reader drops it.
//!
//! As in RocksDB, a limit set later does not close tables that were opened without one; they are
//! closed when a compaction replaces their files.
//!
//! Under a limit some tables may be kept open all the same, the first that are opened, so that a database with few
//! tables reads as if there were none. They count towards the limit until their files are gone.
//!
//! Lock order: the ring, then a slot. Tables taken out of slots are dropped, and their files closed,
//! outside both locks.

use std::collections::VecDeque;
use std::ops::Deref;

use cairn_platform::sync::{Arc, AtomicBool, AtomicUsize, Mutex, OnceLock, Ordering, RwLock, Weak};
use cairn_table::Table;

/// The slot of the open table of a file. Clones share the open table.
#[derive(Clone, Default)]
pub struct TableSlot {
    /// A table that stays open.
    kept: OnceLock<Kept>,
    /// A table that may be closed.
    closable: OnceLock<Arc<Closable>>,
    /// Times recorded in the table, kept after it is closed.
    times: OnceLock<Times>,
}

/// A table that stays open as long as its file's metadata exists.
#[derive(Clone)]
struct Kept {
    table: Arc<Table>,
    /// Counts the table while there is a limit.
    _counted: Option<Arc<Counted>>,
}

/// A table that is kept open under a limit.
struct Counted(Arc<OpenTables>);

impl Drop for Counted {
    fn drop(&mut self) {
        let before = self.0.kept.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a kept table is counted");
    }
}

/// Times recorded in a table, in seconds since 1970; 0 if unknown.
#[derive(Clone, Copy, Default)]
pub(crate) struct Times {
    /// Creation time of its oldest data.
    pub(crate) oldest: u64,
    /// Creation time of its newest data.
    pub(crate) newest: u64,
    /// Creation time of the file.
    pub(crate) created: u64,
}

/// A reference to an open table.
#[derive(Clone)]
pub enum TableRef<'a> {
    /// Open as long as the metadata of its file exists.
    Kept(&'a Arc<Table>),
    /// Held open by this reference; it may be closed to other readers.
    Held(Arc<Table>),
}

impl TableRef<'_> {
    /// Returns a reference that may outlive the metadata.
    #[must_use]
    pub fn into_arc(self) -> Arc<Table> {
        match self {
            TableRef::Kept(table) => Arc::clone(table),
            TableRef::Held(table) => table,
        }
    }
}

impl Deref for TableRef<'_> {
    type Target = Arc<Table>;

    #[inline]
    fn deref(&self) -> &Arc<Table> {
        match self {
            TableRef::Kept(table) => table,
            TableRef::Held(table) => table,
        }
    }
}

/// A slot that may be emptied when too many tables are open.
struct Closable {
    table: RwLock<Option<Arc<Table>>>,
    /// True if the table was used since the clock hand last passed.
    used: AtomicBool,
    owner: Arc<OpenTables>,
}

impl Closable {
    fn get(&self) -> Option<Arc<Table>> {
        let table = self.table.read().clone()?;
        // Avoid a shared write if the mark is already set.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        Some(table)
    }

    fn take(&self) -> Option<Arc<Table>> {
        let table = self.table.write().take()?;
        let before = self.owner.count.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "an open table is counted");
        Some(table)
    }

    /// True if a reader holds the table.
    fn is_read(&self) -> bool {
        let table = self.table.read();
        table
            .as_ref()
            .is_some_and(|table| Arc::strong_count(table) > 1)
    }
}

impl Drop for Closable {
    fn drop(&mut self) {
        self.take();
    }
}

impl TableSlot {
    /// Returns the open table and marks it as used.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<TableRef<'_>> {
        match self.kept() {
            Some(table) => Some(TableRef::Kept(table)),
            None => self.held(),
        }
    }

    /// Returns the table if it stays open as long as the slot. Does not mark a use.
    #[inline]
    #[must_use]
    pub fn kept(&self) -> Option<&Arc<Table>> {
        Some(&self.kept.get()?.table)
    }

    fn held(&self) -> Option<TableRef<'_>> {
        let closable = self.closable.get()?;
        let table = closable.get()?;
        if closable.owner.limit().is_some() {
            return Some(TableRef::Held(table));
        }
        // The limit was removed: keep the table open from now on.
        let kept = self.keep(table);
        closable.take();
        Some(TableRef::Kept(kept))
    }

    /// Returns the open table without marking a use.
    #[must_use]
    pub fn peek(&self) -> Option<Arc<Table>> {
        match self.kept() {
            Some(table) => Some(Arc::clone(table)),
            None => self.closable.get()?.table.read().clone(),
        }
    }

    /// Stores `table` permanently, unless one is stored already, and returns the stored one.
    pub fn keep(&self, table: Arc<Table>) -> &Arc<Table> {
        self.keep_counted(table, None)
    }

    fn keep_counted(&self, table: Arc<Table>, counted: Option<Arc<Counted>>) -> &Arc<Table> {
        let kept = Kept {
            table,
            _counted: counted,
        };
        &self.kept.get_or_init(|| kept).table
    }

    /// Stores `table`, subject to the limit of `owner`. If another thread stored one first, that one is
    /// returned.
    pub(crate) fn put(&self, table: Arc<Table>, owner: &Arc<OpenTables>) -> TableRef<'_> {
        let properties = table.properties();
        let _ = self.times.set(Times {
            oldest: properties.creation_time,
            newest: properties.newest_key_time,
            created: properties.file_creation_time,
        });
        if owner.limit().is_none() {
            return TableRef::Kept(self.keep(table));
        }
        if let Some(counted) = owner.keep_one() {
            return TableRef::Kept(self.keep_counted(table, Some(counted)));
        }
        let closable = self.closable.get_or_init(|| {
            Arc::new(Closable {
                table: RwLock::new(None),
                used: AtomicBool::new(false),
                owner: Arc::clone(owner),
            })
        });
        let held = {
            let mut slot = closable.table.write();
            if let Some(quicker) = &*slot {
                return TableRef::Held(Arc::clone(quicker));
            }
            *slot = Some(Arc::clone(&table));
            owner.count.fetch_add(1, Ordering::Relaxed);
            table
        };
        closable.used.store(true, Ordering::Relaxed);
        owner.admit(closable);
        TableRef::Held(held)
    }

    /// Stores the times of a table that was just written, in seconds since 1970: the creation of its oldest and its
    /// newest data, and of its file.
    pub fn note_times(&self, oldest: u64, newest: u64, created: u64) {
        let _ = self.times.set(Times {
            oldest,
            newest,
            created,
        });
    }

    /// Returns the times recorded in the table, once it has been opened or written.
    pub(crate) fn times(&self) -> Times {
        self.times.get().copied().unwrap_or_default()
    }
}

/// The value of `limit` without a limit.
const UNLIMITED: usize = usize::MAX;

/// The open tables of a database, and their limit.
pub struct OpenTables {
    limit: AtomicUsize,
    /// The number of tables that may be kept open under the limit.
    keeps: AtomicUsize,
    /// Number of tables kept open under a limit.
    kept: AtomicUsize,
    /// Number of open closable tables.
    count: AtomicUsize,
    /// Slots with an open table in clock order, and slots that no longer exist.
    ring: Mutex<VecDeque<Weak<Closable>>>,
}

impl OpenTables {
    /// Creates a limit of `limit` tables, or none. Up to `keeps` tables may be kept open until their files are gone.
    #[must_use]
    pub fn new(limit: Option<usize>, keeps: usize) -> Arc<OpenTables> {
        Arc::new(OpenTables {
            limit: AtomicUsize::new(limit.unwrap_or(UNLIMITED)),
            keeps: AtomicUsize::new(keeps),
            kept: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            ring: Mutex::default(),
        })
    }

    /// Returns the limit; `None` if unlimited.
    #[must_use]
    pub fn limit(&self) -> Option<usize> {
        let limit = self.limit.load(Ordering::Relaxed);
        (limit != UNLIMITED).then_some(limit)
    }

    /// Sets the limit, as [`OpenTables::new`] does, and closes tables above it. Those kept open stay open.
    pub fn set_limit(&self, limit: Option<usize>, keeps: usize) {
        // Relaxed, as for the counts: the limit may be exceeded while it changes.
        self.keeps.store(keeps, Ordering::Relaxed);
        self.limit
            .store(limit.unwrap_or(UNLIMITED), Ordering::Relaxed);
        let closed = self.shrink(&mut self.ring.lock());
        drop(closed);
    }

    /// Returns the number of open closable tables.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts a further table as kept open, unless there are enough.
    fn keep_one(self: &Arc<OpenTables>) -> Option<Arc<Counted>> {
        let keeps = self.keeps.load(Ordering::Relaxed);
        let one_more = |kept: usize| (kept < keeps).then_some(kept + 1);
        let counted = self
            .kept
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        counted.is_ok().then(|| Arc::new(Counted(Arc::clone(self))))
    }

    /// True if more tables are open than the limit allows.
    fn exceeds_limit(&self) -> bool {
        let open = self.count() + self.kept.load(Ordering::Relaxed);
        self.limit().is_some_and(|limit| open > limit)
    }

    fn admit(&self, slot: &Arc<Closable>) {
        let closed = {
            let mut ring = self.ring.lock();
            ring.push_back(Arc::downgrade(slot));
            // Bounds the number of entries whose slots no longer exist by the number of tables.
            if ring.len() > 2 * self.count() + 16 {
                ring.retain(|slot| slot.strong_count() > 0);
            }
            self.shrink(&mut ring)
        };
        drop(closed);
    }

    /// Takes tables out of their slots until the limit is met.
    #[must_use = "the tables are dropped after the lock is released"]
    fn shrink(&self, ring: &mut VecDeque<Weak<Closable>>) -> Vec<(Arc<Closable>, Arc<Table>)> {
        let mut closed = Vec::new();
        // After one round every mark is cleared; from then on, tables in use are closed as well.
        let mut attempts = ring.len();
        while self.exceeds_limit() {
            let Some(weak) = ring.pop_front() else {
                break;
            };
            let Some(slot) = weak.upgrade() else {
                continue;
            };
            if attempts > 0 && (slot.used.swap(false, Ordering::Relaxed) || slot.is_read()) {
                attempts -= 1;
                ring.push_back(weak);
            } else if let Some(table) = slot.take() {
                closed.push((slot, table));
            }
        }
        closed
    }
}
