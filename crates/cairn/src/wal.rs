//! The write-ahead log in the user's hands.

use std::fmt;
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
    /// they begin later, so does the stream: compare the number of the first batch.
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
    /// for update in &mut updates {
    ///     let (first, batch) = update?;
    ///     println!("{first}: {} writes", batch.count());
    /// }
    /// // The stream goes on behind the last batch.
    /// db.put(b"c", b"3")?;
    /// assert_eq!(updates.count(), 1);
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `NotFound` if `seq` was not written yet; those of the stream's first step.
    pub fn updates_since(&self, seq: SequenceNumber) -> Result<WalIterator<'_>> {
        Ok(WalIterator {
            inner: self.inner.updates_since(seq)?,
            returned: false,
            failed: false,
            db: PhantomData,
        })
    }
}

/// An iterator over the batches in the logs, each with the sequence number of its first write; see
/// [`Db::updates_since`].
///
/// `None` means that the stream has caught up: a later call returns the batches that were written
/// meanwhile. An error ends the stream: `TryAgain` if a new stream can go on; `NotFound` at a gap in the
/// sequence numbers, which writes without a log and ingested files leave; `IoError`; `Corruption`.
pub struct WalIterator<'db> {
    inner: cairn_db::WalIterator,
    /// True if the batch that the stream is on has been returned.
    returned: bool,
    /// True if the error of the stream has been returned.
    failed: bool,
    db: PhantomData<&'db Db>,
}

impl Iterator for WalIterator<'_> {
    type Item = Result<(SequenceNumber, WriteBatch)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        if self.returned || !self.inner.valid() {
            self.inner.next();
        }
        self.returned = self.inner.valid();
        if self.returned {
            let batch = self.inner.batch();
            return Some(batch.map(|(first, inner)| (first, WriteBatch { inner })));
        }
        let error = self.inner.status().err()?;
        self.failed = true;
        Some(Err(error))
    }
}

impl fmt::Debug for WalIterator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WalIterator").finish_non_exhaustive()
    }
}
