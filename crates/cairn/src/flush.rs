//! Flushing memtables.

use cairn_options::FlushOptions;
use cairn_types::Result;

use crate::db::Db;
use crate::family::Family;

impl Db {
    /// Flushes the memtables of all families and waits for the flushes.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only.
    pub fn flush(&self) -> Result<()> {
        self.inner.flush_families(&[])
    }

    /// Flushes the memtables of `families`. With the option `atomic_flush`, their data becomes
    /// durable atomically, even without the WAL; other families are not flushed.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, FamilyOptions, FlushOptions, Options, WriteBatch, WriteOptions};
    ///
    /// let options = Options::default()
    ///     .create_if_missing(true)
    ///     .text("atomic_flush=true")?;
    /// let db = Db::open(dir.path().join("db"), &options)?;
    /// let index = db.create_family("index", &FamilyOptions::default())?;
    /// let mut batch = WriteBatch::new();
    /// batch.put(b"7", b"granite");
    /// batch.put_in(&index, b"granite", b"7");
    /// // Written without the WAL: the flush makes both records durable, atomically.
    /// db.write_with(&batch, &WriteOptions { disable_wal: true, ..Default::default() })?;
    /// db.flush_families(&[&db.default_family(), &index], &FlushOptions::default())?;
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The error that made the database read-only; `InvalidArgument` if a family has been dropped.
    pub fn flush_families(&self, families: &[&Family<'_>], options: &FlushOptions) -> Result<()> {
        let families = Family::inner_of(families);
        self.inner.flush_families_with(&families, options)
    }
}
