//! The handle of an open database.
//!
//! [`Db`] and [`Family`] are the handles of a program. Most of their methods are in the modules of their subjects. This
//! folder has the others: plain calls here, calls for other kinds of values in `entities` and `timestamps`, and their
//! futures in `futures`. `handle` closes the database when its last handle is dropped.

pub(crate) mod entities;
pub(crate) mod futures;
pub(crate) mod handle;
pub(crate) mod timestamps;

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use cairn_observe::Statistics;
use cairn_options::{DbOptions, FamilyOptions, WriteOptions};
use cairn_platform::{Clock, World};
use cairn_types::{Error, Result, SequenceNumber};

use crate::catalog::family::FamilyDescriptor;
use crate::catalog::snapshot::Snapshot;
use crate::db::handle::{Family, Handle};
use crate::open::dropped_records::Dropped;
use crate::shared::Shared;
use crate::write::batch::WriteBatch;
use crate::write::write_callback::WriteCallback;

/// An open database. Cheap to clone; all clones, and every [`Family`], refer to the same database, which is
/// closed when the last of them is dropped or [`Db::close`] is called.
#[derive(Clone)]
pub struct Db {
    pub(crate) handle: Arc<Handle>,
    default: Family,
}

/// The maximum memory that a thread retains for its next single write, in bytes. Allocating more than this is
/// cheap compared with copying it.
const KEPT_BATCH_BYTES: usize = 64 << 10;

thread_local! {
    /// The batch for single writes, so that they do not allocate.
    static SINGLE: RefCell<WriteBatch> = RefCell::default();
}

/// A single write by a callback within another one on the same thread, or by an exiting thread.
#[cold]
#[inline(never)]
fn single_apart(
    shared: &Arc<Shared>,
    options: &WriteOptions,
    fill: impl FnOnce(&mut WriteBatch),
) -> Result<()> {
    let mut batch = WriteBatch::default();
    fill(&mut batch);
    shared.write(&batch, options)
}

impl Db {
    pub(crate) fn new(shared: Arc<Shared>) -> Result<Db> {
        Db::with_handle(Handle::new(shared))
    }

    /// Returns the open database with this session; during its opening, from the first job on.
    #[must_use]
    pub fn in_session(session_id: &str) -> Option<Db> {
        Db::with_handle(Handle::in_session(session_id)?).ok()
    }

    fn with_handle(handle: Arc<Handle>) -> Result<Db> {
        let state = handle.shared.catalog.families().get(0).cloned();
        let state = state.ok_or_else(|| Error::corruption("the database has no default family"))?;
        let default = Family {
            state,
            db: handle.clone(),
        };
        Ok(Db { handle, default })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// Returns the database directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared().context.dir
    }

    /// Returns the id of the database, which is in its MANIFEST and tables.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.shared().context.db_id
    }

    /// Returns the id of this opening of the database, which is in the tables that it writes.
    #[must_use]
    pub fn session_id(&self) -> &str {
        &self.shared().context.session_id
    }

    /// Returns the database's world.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.shared().context.world
    }

    /// Returns the clock of the database's world.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared().context.world.clock
    }

    /// Writes a line to the database's LOG.
    pub fn log_line(&self, line: &str) {
        self.shared().context.info.info(format_args!("{line}"));
    }

    /// True if `other` is a handle of the same open database.
    #[must_use]
    pub fn is_same(&self, other: &Db) -> bool {
        Arc::ptr_eq(&self.handle, &other.handle)
    }

    /// True if there is no other handle of the open database, and no iterator that keeps it open.
    #[must_use]
    pub fn is_only_handle(&self) -> bool {
        // This one, and that of the default family.
        Arc::strong_count(&self.handle) <= 2
    }

    /// Returns the current options.
    #[must_use]
    pub fn options(&self) -> Arc<DbOptions> {
        Arc::clone(&self.shared().options())
    }

    /// Returns the tickers and histograms of the database, which other databases may share; `None` if they
    /// are disabled.
    #[must_use]
    pub fn statistics(&self) -> Option<&Arc<Statistics>> {
        self.shared().telemetry.statistics()
    }

    /// Returns the default family.
    #[must_use]
    pub fn default_family(&self) -> &Family {
        &self.default
    }

    /// Returns the family of this name, or `None`.
    #[must_use]
    pub fn family(&self, name: &str) -> Option<Family> {
        let state = self.shared().catalog.families().named(name).cloned()?;
        Some(Family {
            state,
            db: self.handle.clone(),
        })
    }

    /// True if the keys of some family have timestamps.
    #[must_use]
    pub fn has_timestamps(&self) -> bool {
        self.shared().signals.has_timestamps()
    }

    /// Returns the live families, in the order of their creation.
    #[must_use]
    pub fn families(&self) -> Vec<Family> {
        let families = self.shared().catalog.families();
        families
            .iter()
            .map(|state| Family {
                state: state.clone(),
                db: self.handle.clone(),
            })
            .collect()
    }

    /// Creates a family.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is empty or in use, or the options are invalid; `IoError`. If only the OPTIONS file
    /// could not be written, the error says so: the family exists then, and [`Db::family`] returns it.
    pub fn create_family(&self, name: &str, options: &FamilyOptions) -> Result<Family> {
        let given = FamilyDescriptor::new(name, options.clone());
        let mut created = self.create_families(std::slice::from_ref(&given))?;
        Ok(created.pop().expect("one family was created"))
    }

    /// Creates several families in the given order, all of them or none. One call for many families syncs the
    /// MANIFEST and writes the OPTIONS file only once.
    ///
    /// # Errors
    ///
    /// Those of [`Db::create_family`], for any of them.
    pub fn create_families(&self, given: &[FamilyDescriptor]) -> Result<Vec<Family>> {
        let created = self.shared().create_families(given)?;
        let families = created.into_iter().map(|state| Family {
            state,
            db: self.handle.clone(),
        });
        Ok(families.collect())
    }

    /// Drops `family` and its data. Existing readers of it are not affected.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for the default family and for one of another database; `IoError`. If only the OPTIONS file could
    /// not be written, the error says so: the family is dropped then.
    pub fn drop_family(&self, family: &Family) -> Result<()> {
        self.check_families([family])?;
        self.shared().drop_family(&family.state)
    }

    /// Writes `batch`.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.write_with(batch, &WriteOptions::default())
    }

    /// Writes `batch` atomically.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, among others, for a range deletion that ends before its start, and for a merge operand for a
    /// family without a merge operator. After it, and after `Incomplete` and `NotSupported`, nothing was written. After
    /// an `IoError` of the log, the database is read-only and it is unknown whether the batch was written: when the database
    /// is opened again, it is recovered either completely or not at all.
    pub fn write_with(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.shared().write(batch, options)
    }

    /// Calls `write`, which acquires locks of the caller, writes to the database, and releases them. Listeners are
    /// notified of the consequences of its writes after it has returned, so that they can acquire these locks.
    ///
    /// # Errors
    ///
    /// `Busy` in a callback that must not write, without a call of `write`; the error of `write`.
    pub fn write_under_locks<T>(&self, write: impl FnOnce() -> Result<T>) -> Result<T> {
        let shared = self.shared();
        // The writer below this callback may hold the locks.
        shared.may_write()?;
        shared.telemetry.deliver_after(write)
    }

    /// Writes `batch` atomically, as immutable memtables of its own instead of inserting it into the active memtables,
    /// which become immutable as well. Other writers do not wait for the insertion of a large batch, and the memtables
    /// are flushed at once. The batch is not logged. It is inserted nevertheless if it has range deletions, with
    /// `protection_bytes_per_key`, and if the next log cannot be created; the failure is a background error then.
    ///
    /// # Errors
    ///
    /// `NotSupported` unless `disable_wal` is set; otherwise those of [`Db::write_with`].
    pub fn ingest_batch(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.shared().ingest_batch(batch, options)
    }

    /// Writes `batch` atomically if `check` succeeds. `check` runs when all earlier writes are visible, and no other
    /// write becomes visible between it and the batch: it can read the database to decide. Other writers wait for it,
    /// and it must not write.
    ///
    /// # Errors
    ///
    /// The error of `check`, after which nothing was written; those of [`Db::write_with`].
    pub fn write_if(
        &self,
        batch: &WriteBatch,
        options: &WriteOptions,
        mut check: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        self.shared().write_if(batch, options, Some(&mut check))
    }

    /// Writes `batch` atomically, and calls `callback` when the place of the write in the order of writes is fixed, and
    /// when it is logged (RocksDB's `WriteWithCallback`). A program that determines the order of its writes under a lock
    /// can release it in [`WriteCallback::on_write_enqueued`] instead of holding it until the write has ended.
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_with`].
    ///
    /// # Panics
    ///
    /// With a panic of `callback`, when the write has ended.
    pub fn write_with_callback(
        &self,
        batch: &WriteBatch,
        options: &WriteOptions,
        callback: &dyn WriteCallback,
    ) -> Result<()> {
        self.shared().write_with_callback(batch, options, callback)
    }

    /// Creates a snapshot of the current state, which stays readable until it is dropped.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let shared = self.shared();
        let may_wait = || shared.may_write().is_ok();
        shared.catalog.snapshot(|| shared.published(), may_wait)
    }

    /// Returns the sequence number of the last write.
    #[must_use]
    pub fn latest_sequence(&self) -> SequenceNumber {
        self.shared().published()
    }

    /// Waits until no flush or compaction is running or due.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only.
    pub fn wait_until_quiet(&self) -> Result<()> {
        self.shared().wait_until_quiet()
    }

    /// Syncs the log, waits for running jobs and closes the database. Other handles return
    /// `ShutdownInProgress` from then on.
    ///
    /// # Errors
    ///
    /// `IoError` if the log could not be synced: the last writes may then be lost in a power failure.
    /// `NotSupported` in a forked child of the process that opened the database, where closing has no effect.
    pub fn close(&self) -> Result<()> {
        self.shared().close()
    }

    /// True in a forked child of the process that opened the database. It can neither write to the database
    /// nor close it.
    #[must_use]
    pub fn is_forked(&self) -> bool {
        self.shared().context.is_forked()
    }

    /// Returns the parts of logs that recovery dropped when the database was opened.
    #[must_use]
    pub fn dropped_at_recovery(&self) -> Vec<Dropped> {
        self.shared().opening.dropped()
    }

    /// Returns the names of the properties of [`Family::property`]. A name that ends in `at-level` is
    /// followed by the number of a level.
    pub fn property_names() -> impl Iterator<Item = &'static str> {
        Shared::property_names()
    }

    /// Returns the error that made the database read-only, if any.
    #[must_use]
    pub fn background_error(&self) -> Option<Error> {
        let failure = self.shared().errors.failure();
        failure.as_ref().map(|error| Error::clone(error))
    }
}

impl std::ops::Deref for Db {
    type Target = Family;
    /// A database dereferences to its default family.
    fn deref(&self) -> &Family {
        &self.default
    }
}

impl Family {
    /// Sets `key` to `value`.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with(key, value, &WriteOptions::default())
    }

    /// Like [`Family::put`], with options.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn put_with(&self, key: &[u8], value: &[u8], options: &WriteOptions) -> Result<()> {
        self.single(options, |batch| batch.put_in(self, key, value))
    }

    /// Deletes `key`. Deleting a missing key is not an error.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.delete_with(key, &WriteOptions::default())
    }

    /// Like [`Family::delete`], with options.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn delete_with(&self, key: &[u8], options: &WriteOptions) -> Result<()> {
        self.single(options, |batch| batch.delete_in(self, key))
    }

    /// Deletes `key`, which was put exactly once since it was last deleted.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn single_delete(&self, key: &[u8]) -> Result<()> {
        self.single(&WriteOptions::default(), |batch| {
            batch.single_delete_in(self, key)
        })
    }

    /// Deletes every key from `begin` (inclusive) to `end` (exclusive).
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<()> {
        self.single(&WriteOptions::default(), |batch| {
            batch.delete_range_in(self, begin, end)
        })
    }

    /// Adds an operand for the family's merge operator.
    ///
    /// # Errors
    ///
    /// `NotSupported` if the family has no merge operator; otherwise see [`Db::write_with`].
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.merge_with(key, operand, &WriteOptions::default())
    }

    /// Like [`Family::merge`], with options.
    ///
    /// # Errors
    ///
    /// See [`Family::merge`].
    pub fn merge_with(&self, key: &[u8], operand: &[u8], options: &WriteOptions) -> Result<()> {
        self.check_merge_operator()?;
        self.single(options, |batch| batch.merge_in(self, key, operand))
    }

    /// Returns an error if the family has no merge operator.
    pub(crate) fn check_merge_operator(&self) -> Result<()> {
        match self.state.options().merge_operator {
            Some(_) => Ok(()),
            None => Err(Error::not_supported(format!(
                "column family {:?} has no merge operator",
                self.name()
            ))),
        }
    }

    /// Writes the records that `fill` adds to an empty batch.
    pub(crate) fn single(
        &self,
        options: &WriteOptions,
        fill: impl Fn(&mut WriteBatch),
    ) -> Result<()> {
        let shared = &self.db.shared;
        let written = SINGLE.try_with(|single| {
            let mut batch = single.try_borrow_mut().ok()?;
            batch.clear();
            fill(&mut batch);
            let written = shared.write(&batch, options);
            batch.shrink_to(KEPT_BATCH_BYTES);
            Some(written)
        });
        match written {
            Ok(Some(written)) => written,
            _ => single_apart(shared, options, fill),
        }
    }

    /// Returns the property of this name as text, or `None` if it does not exist.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<String> {
        self.db.shared.property_text(&self.state, name)
    }

    /// Returns the property of this name, if it is a number.
    #[must_use]
    pub fn property_number(&self, name: &str) -> Option<u64> {
        self.db.shared.property_number(&self.state, name)
    }
}

/// An empty database in memory.
#[cfg(test)]
pub(crate) fn open_in_memory() -> Db {
    let options = DbOptions {
        create_if_missing: true,
        ..DbOptions::default()
    };
    let opened = crate::open(&crate::OpenRequest {
        path: Path::new("/db"),
        options: &options,
        families: &[],
        others: None,
        read_only: false,
        world: cairn_platform::World::in_memory(),
    });
    opened.expect("a new database opens")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_does_not_retain_the_memory_of_a_large_value() {
        let db = open_in_memory();
        for len in [10, 1 << 20, 100] {
            db.default_family().put(b"key", &vec![7; len]).unwrap();
            SINGLE.with_borrow(|batch| assert!(batch.memory() <= KEPT_BATCH_BYTES, "{len}"));
        }
    }
}
