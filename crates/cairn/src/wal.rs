//! The write-ahead log in the user's hands.

use cairn_types::Result;

use crate::db::Db;

impl Db {
    /// Hands over to the kernel what the option `manual_wal_flush` keeps in memory: it survives the
    /// end of the process then. With `sync`, every write so far survives a power cut as well.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, Options};
    ///
    /// let options = Options::default()
    ///     .create_if_missing(true)
    ///     .text("manual_wal_flush=true")?;
    /// let db = Db::open(dir.path().join("db"), &options)?;
    /// for n in 0..100_u8 {
    ///     db.put(&[n], b"value")?; // no system call
    /// }
    /// db.flush_wal(false)?; // one for all of them
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `IoError`; the database is read-only then.
    pub fn flush_wal(&self, sync: bool) -> Result<()> {
        self.inner.flush_wal(sync)
    }

    /// Makes every write so far survive a power cut.
    ///
    /// # Errors
    ///
    /// `IoError`; the database is read-only then.
    pub fn sync_wal(&self) -> Result<()> {
        self.inner.sync_wal()
    }

    /// Holds all writes back until this thread calls [`Db::unlock_wal`] as often as it called this,
    /// and hands the log over: the state is frozen, and the files hold all of it. Writes wait
    /// meanwhile; those with `no_slowdown` fail with `Incomplete`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cairn::Db::open(dir.path().join("db"), &cairn::Options::default().create_if_missing(true))?;
    /// db.lock_wal()?;
    /// let refused = db.put_with(b"k", b"v", &cairn::WriteOptions {
    ///     no_slowdown: true,
    ///     ..Default::default()
    /// });
    /// assert_eq!(refused.unwrap_err().code(), cairn::Code::Incomplete);
    /// db.unlock_wal()?;
    /// db.put(b"k", b"v")?;
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `IoError` of the log; writes are not held back then.
    pub fn lock_wal(&self) -> Result<()> {
        self.inner.lock_wal()
    }

    /// Gives back one [`Db::lock_wal`] of this thread.
    ///
    /// # Errors
    ///
    /// `Aborted` if this thread holds none.
    pub fn unlock_wal(&self) -> Result<()> {
        self.inner.unlock_wal()
    }
}
