//! Flushing memtables.

use cairn_options::FlushOptions;
use cairn_types::Result;

use crate::db::Db;
use crate::family::Family;

impl Db {
    /// Writes the memtables of all families to tables, and waits for it.
    ///
    /// # Errors
    ///
    /// The error that made the database read-only.
    pub fn flush(&self) -> Result<()> {
        self.inner.flush_families(&[])
    }

    /// Writes the memtables of `families` to tables. With the option `atomic_flush` what they hold
    /// survives together or not at all, logged or not; families that are not named stay behind.
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
    /// // No log is written: the two records survive from their flush on, both or none.
    /// db.write_with(&batch, &WriteOptions { disable_wal: true, ..Default::default() })?;
    /// db.flush_families(&[&db.default_family(), &index], &FlushOptions::default())?;
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The error that made the database read-only; `InvalidArgument` if a family was dropped.
    pub fn flush_families(&self, families: &[&Family<'_>], options: &FlushOptions) -> Result<()> {
        let families = Family::inner_of(families);
        self.inner.flush_families_with(&families, options)
    }
}
