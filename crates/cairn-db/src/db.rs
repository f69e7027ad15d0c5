//! The handle of an open database.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use cairn_observe::Statistics;
use cairn_options::{DbOptions, FamilyOptions, WriteOptions};
use cairn_types::{Error, Result, SequenceNumber};

use crate::batch::WriteBatch;
use crate::catalog::family::FamilyDescriptor;
use crate::catalog::snapshot::Snapshot;
use crate::handle::{Family, Handle};
use crate::open::dropped_records::Dropped;
use crate::shared::Shared;

/// An open database. Cheap to clone; every clone, and every [`Family`], is the same database,
/// which is closed when the last of them is dropped or one of them calls [`Db::close`].
#[derive(Clone)]
pub struct Db {
    pub(crate) handle: Arc<Handle>,
    default: Family,
}

/// The most memory that a thread keeps for its next single write, in bytes. Allocating more than this costs
/// little beside copying it.
const KEPT_BATCH_BYTES: usize = 64 << 10;

thread_local! {
    /// The batch of single writes, so that they allocate nothing.
    static SINGLE: RefCell<WriteBatch> = RefCell::default();
}

/// A single write within another one of the thread, by a callback.
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
        let state = shared.catalog.families().get(0).cloned();
        let state = state.ok_or_else(|| Error::corruption("the database has no default family"))?;
        let handle = Arc::new(Handle { shared });
        let default = Family {
            state,
            db: handle.clone(),
        };
        Ok(Db { handle, default })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared().context.dir
    }

    /// The database's id, which its MANIFEST and tables carry.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.shared().context.db_id
    }

    /// Writes a line to the database's LOG.
    pub fn log_line(&self, line: &str) {
        self.shared().context.info.info(format_args!("{line}"));
    }

    /// True if `other` is a handle of the same opening.
    #[must_use]
    pub fn is_same(&self, other: &Db) -> bool {
        Arc::ptr_eq(&self.handle, &other.handle)
    }

    /// The options in effect.
    #[must_use]
    pub fn options(&self) -> Arc<DbOptions> {
        Arc::clone(&self.shared().options())
    }

    /// The tickers and histograms that the database keeps, alone or with others; `None` if the
    /// options say that it keeps none.
    #[must_use]
    pub fn statistics(&self) -> Option<&Arc<Statistics>> {
        self.shared().telemetry.statistics()
    }

    /// The default family.
    #[must_use]
    pub fn default_family(&self) -> &Family {
        &self.default
    }

    /// The family of this name, or `None`.
    #[must_use]
    pub fn family(&self, name: &str) -> Option<Family> {
        let state = self.shared().catalog.families().named(name).cloned()?;
        Some(Family {
            state,
            db: self.handle.clone(),
        })
    }

    /// The live families, in the order of their creation.
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
    /// `InvalidArgument` if the name is empty or taken, or the options make no sense.
    pub fn create_family(&self, name: &str, options: &FamilyOptions) -> Result<Family> {
        let given = FamilyDescriptor::new(name, options.clone());
        let mut created = self.create_families(std::slice::from_ref(&given))?;
        Ok(created.pop().expect("one family was created"))
    }

    /// Creates several families, all of them or none, in the order given. One call for many families syncs the MANIFEST
    /// and writes the OPTIONS file once.
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

    /// Drops `family` and all that is in it. Readers that hold it go on reading.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for the default family.
    pub fn drop_family(&self, family: &Family) -> Result<()> {
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

    /// Writes `batch`: all of it or nothing.
    ///
    /// # Errors
    ///
    /// After `InvalidArgument`, `Incomplete` and `NotSupported` nothing was written. After an
    /// `IoError` of the log the batch is in doubt (found whole or not at all when the database is
    /// opened again) and the database is read-only.
    pub fn write_with(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.shared().write(batch, options)
    }

    /// A snapshot: the present state, readable while the value lives.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let shared = self.shared();
        shared.catalog.snapshot(|| shared.published())
    }

    /// The sequence number of the last write.
    #[must_use]
    pub fn latest_sequence(&self) -> SequenceNumber {
        self.shared().published()
    }

    /// Waits until no flush or compaction runs or is due.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only.
    pub fn wait_until_quiet(&self) -> Result<()> {
        self.shared().wait_until_quiet()
    }

    /// Syncs the log, waits for running jobs and closes the database. Other handles get
    /// `ShutdownInProgress` from then on.
    ///
    /// # Errors
    ///
    /// `IoError` if the log could not be synced: the last writes may then be lost in a power cut.
    /// `NotSupported` in a process that was forked from the one that opened the database: nothing happens there.
    pub fn close(&self) -> Result<()> {
        self.shared().close()
    }

    /// True in a process that was forked from the one that opened the database. It can neither write nor close it.
    #[must_use]
    pub fn is_forked(&self) -> bool {
        self.shared().context.is_forked()
    }

    /// The parts of logs that recovery left out when the database was opened.
    #[must_use]
    pub fn dropped_at_recovery(&self) -> Vec<Dropped> {
        self.shared().opening.dropped()
    }

    /// The names of the properties that [`Family::property`] answers. A name that ends in
    /// `at-level` is followed by a level's number.
    pub fn property_names() -> impl Iterator<Item = &'static str> {
        Shared::property_names()
    }

    /// The error that made the database read-only, if there is one.
    #[must_use]
    pub fn background_error(&self) -> Option<Error> {
        let failure = self.shared().errors.failure();
        failure.as_ref().map(|error| Error::clone(error))
    }
}

impl std::ops::Deref for Db {
    type Target = Family;
    /// A database is used as its default family.
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

    /// [`Family::put`] with options.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn put_with(&self, key: &[u8], value: &[u8], options: &WriteOptions) -> Result<()> {
        self.single(options, |batch| batch.put_in(self, key, value))
    }

    /// Deletes `key`. Deleting what does not exist is no error.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.delete_with(key, &WriteOptions::default())
    }

    /// [`Family::delete`] with options.
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

    /// Deletes every key from `begin` up to, not including, `end`.
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
    /// `NotSupported` if the family has no merge operator; else see [`Db::write_with`].
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.merge_with(key, operand, &WriteOptions::default())
    }

    /// [`Family::merge`] with options.
    ///
    /// # Errors
    ///
    /// See [`Family::merge`].
    pub fn merge_with(&self, key: &[u8], operand: &[u8], options: &WriteOptions) -> Result<()> {
        if self.state.options().merge_operator.is_none() {
            return Err(Error::not_supported(format!(
                "column family {:?} has no merge operator",
                self.name()
            )));
        }
        self.single(options, |batch| batch.merge_in(self, key, operand))
    }

    /// Writes what `fill` puts into an empty batch.
    pub(crate) fn single(
        &self,
        options: &WriteOptions,
        fill: impl FnOnce(&mut WriteBatch),
    ) -> Result<()> {
        let shared = &self.db.shared;
        SINGLE.with(|single| {
            let Ok(mut batch) = single.try_borrow_mut() else {
                return single_apart(shared, options, fill);
            };
            batch.clear();
            fill(&mut batch);
            let written = shared.write(&batch, options);
            batch.shrink_to(KEPT_BATCH_BYTES);
            written
        })
    }

    /// The property of this name as text, or `None` if there is none.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<String> {
        self.db.shared.property_text(&self.state, name)
    }

    /// The property of this name, if it is a number.
    #[must_use]
    pub fn property_number(&self, name: &str) -> Option<u64> {
        self.db.shared.property_number(&self.state, name)
    }
}

#[cfg(test)]
mod tests {
    use cairn_platform::World;

    use super::*;
    use crate::open::{OpenRequest, open};

    #[test]
    fn a_thread_keeps_little_of_a_large_value() {
        let options = DbOptions {
            create_if_missing: true,
            ..DbOptions::default()
        };
        let db = open(&OpenRequest {
            path: Path::new("/db"),
            options: &options,
            families: &[],
            others: None,
            read_only: false,
            world: World::in_memory(),
        })
        .unwrap();
        for len in [10, 1 << 20, 100] {
            db.default_family().put(b"key", &vec![7; len]).unwrap();
            SINGLE.with_borrow(|batch| assert!(batch.memory() <= KEPT_BATCH_BYTES, "{len}"));
        }
    }
}
