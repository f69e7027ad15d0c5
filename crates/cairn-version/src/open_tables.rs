//! The place of an open table, and how many tables of a database are open at once.
//!
//! Without a limit (`max_open_files` is -1) a table stays open as long as its file's metadata: a
//! read finds it by one pointer, counts no reference and takes no lock. With a limit a table can
//! be closed again: readers hold it by a reference of their own, and go on when it is closed.
//!
//! [`OpenTables`] keeps the limit for all families of a database, as a clock: a use sets a mark at
//! the table, the hand passes over marked tables once and takes their marks, and closes the others
//! from their slots. A table whose readers have not left is closed to new readers only; its file
//! is closed when the last of them leaves.
//!
//! A table that was opened without a limit is not closed by a limit that is set later, as in RocksDB: it
//! goes when a compaction replaces the file.
//!
//! Locks: the ring before that of a slot. What is taken out of slots is dropped, and its files
//! closed, outside both.

use std::collections::VecDeque;
use std::ops::Deref;

use cairn_platform::sync::{Arc, AtomicBool, AtomicUsize, Mutex, OnceLock, Ordering, RwLock, Weak};
use cairn_table::Table;

/// Where the open table of a file hangs. Clones share what is open.
#[derive(Clone, Default)]
pub struct TableSlot {
    /// A table that stays open.
    kept: OnceLock<Arc<Table>>,
    /// A table that may be closed.
    closable: OnceLock<Arc<Closable>>,
    /// The times that the table recorded, which stay known when it is closed.
    times: OnceLock<Times>,
}

/// Seconds since 1970 that a table knows of itself; 0 if unknown.
#[derive(Clone, Copy, Default)]
pub(crate) struct Times {
    /// When its oldest data was first written.
    pub(crate) oldest: u64,
    /// When the file was created.
    pub(crate) created: u64,
}

/// An open table in the hands of a reader.
#[derive(Clone)]
pub enum TableRef<'a> {
    /// It stays open as long as the metadata of its file.
    Kept(&'a Arc<Table>),
    /// It stays open for this reader, and perhaps not for the next.
    Held(Arc<Table>),
}

impl TableRef<'_> {
    /// The table, for holders that outlive the metadata.
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

/// A slot that is emptied when there are too many open tables.
struct Closable {
    table: RwLock<Option<Arc<Table>>>,
    /// The table was used since the hand of the clock came by.
    used: AtomicBool,
    owner: Arc<OpenTables>,
}

impl Closable {
    fn get(&self) -> Option<Arc<Table>> {
        let table = self.table.read().clone()?;
        // A mark that is there already costs no write to shared memory.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        Some(table)
    }

    fn take(&self) -> Option<Arc<Table>> {
        let table = self.table.write().take()?;
        self.owner.count.fetch_sub(1, Ordering::Relaxed);
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
    /// The open table, if it is open.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<TableRef<'_>> {
        match self.kept.get() {
            Some(table) => Some(TableRef::Kept(table)),
            None => self.held(),
        }
    }

    /// The table, if it is open and stays so as long as the slot: to look at it counts as no use.
    #[inline]
    #[must_use]
    pub fn kept(&self) -> Option<&Arc<Table>> {
        self.kept.get()
    }

    fn held(&self) -> Option<TableRef<'_>> {
        let closable = self.closable.get()?;
        let table = closable.get()?;
        if closable.owner.limit().is_some() {
            return Some(TableRef::Held(table));
        }
        // The limit has gone: the table stays open from now on.
        let kept = self.kept.get_or_init(|| table);
        closable.take();
        Some(TableRef::Kept(kept))
    }

    /// The open table, if it is open, without counting as a use of it.
    #[must_use]
    pub fn peek(&self) -> Option<Arc<Table>> {
        match self.kept.get() {
            Some(table) => Some(Arc::clone(table)),
            None => self.closable.get()?.table.read().clone(),
        }
    }

    /// Hangs `table` in, to stay. If there is one that stays already, that one does.
    pub fn keep(&self, table: Arc<Table>) -> &Arc<Table> {
        self.kept.get_or_init(|| table)
    }

    /// Hangs `table` in and keeps to the limit of `owner`. If another thread was quicker, its table is
    /// used.
    pub(crate) fn put(&self, table: Arc<Table>, owner: &Arc<OpenTables>) -> TableRef<'_> {
        let properties = table.properties();
        let _ = self.times.set(Times {
            oldest: properties.creation_time,
            created: properties.file_creation_time,
        });
        if owner.limit().is_none() {
            return TableRef::Kept(self.keep(table));
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

    /// The times that the table recorded, once it was opened.
    pub(crate) fn times(&self) -> Times {
        self.times.get().copied().unwrap_or_default()
    }
}

/// The limit of a limit that is none.
const UNLIMITED: usize = usize::MAX;

/// The open tables of a database that may be closed, and how many of them there may be.
pub struct OpenTables {
    limit: AtomicUsize,
    /// How many there are.
    count: AtomicUsize,
    /// The slots with an open table, in the order in which the hand of the clock comes to them,
    /// and what is left of slots that are gone.
    ring: Mutex<VecDeque<Weak<Closable>>>,
}

impl OpenTables {
    /// At most `limit` tables, or any number.
    #[must_use]
    pub fn new(limit: Option<usize>) -> Arc<OpenTables> {
        Arc::new(OpenTables {
            limit: AtomicUsize::new(limit.unwrap_or(UNLIMITED)),
            count: AtomicUsize::new(0),
            ring: Mutex::default(),
        })
    }

    /// How many tables may be open; `None` for any number.
    #[must_use]
    pub fn limit(&self) -> Option<usize> {
        let limit = self.limit.load(Ordering::Relaxed);
        (limit != UNLIMITED).then_some(limit)
    }

    /// Sets the limit, and closes what is too much.
    pub fn set_limit(&self, limit: Option<usize>) {
        self.limit
            .store(limit.unwrap_or(UNLIMITED), Ordering::Relaxed);
        let closed = self.shrink(&mut self.ring.lock());
        drop(closed);
    }

    /// How many tables are open that may be closed.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn admit(&self, slot: &Arc<Closable>) {
        let closed = {
            let mut ring = self.ring.lock();
            ring.push_back(Arc::downgrade(slot));
            // Slots that went with their files leave no more behind than there are tables.
            if ring.len() > 2 * self.count() + 16 {
                ring.retain(|slot| slot.strong_count() > 0);
            }
            self.shrink(&mut ring)
        };
        drop(closed);
    }

    /// Takes tables out of their slots until the limit is kept.
    #[must_use = "the tables are dropped when the lock is given back"]
    fn shrink(&self, ring: &mut VecDeque<Weak<Closable>>) -> Vec<(Arc<Closable>, Arc<Table>)> {
        let mut closed = Vec::new();
        // After one round every mark is gone, and those that are read must go as well.
        let mut patience = ring.len();
        while self.limit().is_some_and(|limit| self.count() > limit) {
            let Some(weak) = ring.pop_front() else {
                break;
            };
            let Some(slot) = weak.upgrade() else {
                continue;
            };
            if patience > 0 && (slot.used.swap(false, Ordering::Relaxed) || slot.is_read()) {
                patience -= 1;
                ring.push_back(weak);
            } else if let Some(table) = slot.take() {
                closed.push((slot, table));
            }
        }
        closed
    }
}
