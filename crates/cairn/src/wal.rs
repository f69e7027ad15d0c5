//! The write-ahead log in the user's hands.

use std::marker::PhantomData;

use cairn_db::WalFile;
use cairn_types::{Result, SequenceNumber};

use crate::batch::WriteBatch;
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

    /// The logs that hold a batch, archived ones too, oldest first.
    ///
    /// # Errors
    ///
    /// `IoError`.
    pub fn sorted_wal_files(&self) -> Result<Vec<WalFile>> {
        self.inner.sorted_wal_files()
    }

    /// The log that is written now.
    ///
    /// # Errors
    ///
    /// `ShutdownInProgress` if the database is closed; `NotSupported` if it is read-only.
    pub fn current_wal_file(&self) -> Result<WalFile> {
        self.inner.current_wal_file()
    }

    /// The batches that were written since the sequence number `seq`, from the one that holds it
    /// on, as far as there are logs: `WAL_ttl_seconds` and `WAL_size_limit_MB` keep them longer. If
    /// they begin later, so does the stream: ask the batch's number.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, Options};
    ///
    /// let options = Options::default()
    ///     .create_if_missing(true)
    ///     .text("WAL_ttl_seconds=3600")?;
    /// let db = Db::open(dir.path().join("db"), &options)?;
    /// db.put(b"a", b"1")?;
    /// let seen = db.latest_sequence();
    /// db.put(b"b", b"2")?;
    ///
    /// let mut updates = db.updates_since(seen.plus(1))?;
    /// while updates.valid() {
    ///     let (first, batch) = updates.batch()?;
    ///     println!("{first}: {} writes", batch.count());
    ///     updates.next();
    /// }
    /// updates.status()?; // an error ends the stream too: ask
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `NotFound` if `seq` was not written yet; those of the stream's first step.
    pub fn updates_since(&self, seq: SequenceNumber) -> Result<WalIterator<'_>> {
        Ok(WalIterator {
            inner: self.inner.updates_since(seq)?,
            db: PhantomData,
        })
    }
}

/// A walk over the batches in the logs; see [`Db::updates_since`].
///
/// A stream that has caught up is not valid and its status is OK: a later [`WalIterator::next`] goes
/// on with what was written meanwhile. One that met an error stays where it is.
pub struct WalIterator<'db> {
    inner: cairn_db::WalIterator,
    db: PhantomData<&'db Db>,
}

impl WalIterator<'_> {
    /// True if the stream stands at a batch.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.inner.valid()
    }

    /// Moves to the next batch.
    pub fn next(&mut self) {
        self.inner.next();
    }

    /// The error that ended the stream, if it is not at its end.
    ///
    /// # Errors
    ///
    /// `TryAgain` where another stream has to be made to go on; `NotFound` at a gap in the sequence
    /// numbers, which writes without a log and ingested files leave; `IoError`.
    pub fn status(&self) -> Result<()> {
        self.inner.status()
    }

    /// The sequence number of the batch's first write, and the batch.
    ///
    /// # Errors
    ///
    /// `Corruption` of the batch.
    ///
    /// # Panics
    ///
    /// If the stream is not valid.
    pub fn batch(&self) -> Result<(SequenceNumber, WriteBatch)> {
        let (first, inner) = self.inner.batch()?;
        Ok((first, WriteBatch { inner }))
    }
}
