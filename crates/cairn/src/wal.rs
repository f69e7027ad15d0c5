//! Access to the write-ahead log: flushing, syncing, locking and tailing.

use std::fmt;
use std::marker::PhantomData;

use cairn_db::WalFile;
use cairn_types::{Result, SequenceNumber};

use crate::batch::WriteBatch;
use crate::db::Db;

impl Db {
    /// Flushes the WAL records that the option `manual_wal_flush` buffers in memory to the kernel,
    /// so that they survive the death of the process. With `sync`, all writes so far also survive a
    /// power failure.
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
    /// db.flush_wal(false)?; // one system call for all of them
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `IoError`; the database is then read-only.
    pub fn flush_wal(&self, sync: bool) -> Result<()> {
        self.inner.flush_wal(sync)
    }

    /// Syncs the WAL, so that all writes so far survive a power failure.
    ///
    /// # Errors
    ///
    /// `IoError`; the database is then read-only.
    pub fn sync_wal(&self) -> Result<()> {
        self.inner.sync_wal()
    }

    /// Blocks all writes until this thread has called [`Db::unlock_wal`] the same number of times,
    /// and flushes the WAL: the state is frozen, and the files contain all of it. Writes wait in
    /// the meantime; those with `no_slowdown` fail with `Incomplete`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cairn::Db::open(dir.path().join("db"), &cairn::Options::default().create_if_missing(true))?;
    /// db.lock_wal()?;
    /// let blocked = db.put_with(b"k", b"v", &cairn::WriteOptions {
    ///     no_slowdown: true,
    ///     ..Default::default()
    /// });
    /// assert_eq!(blocked.unwrap_err().code(), cairn::Code::Incomplete);
    /// db.unlock_wal()?;
    /// db.put(b"k", b"v")?;
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `IoError` of the WAL; writes are then not blocked.
    pub fn lock_wal(&self) -> Result<()> {
        self.inner.lock_wal()
    }

    /// Undoes one [`Db::lock_wal`] of this thread.
    ///
    /// # Errors
    ///
    /// `Aborted` if this thread does not hold the lock.
    pub fn unlock_wal(&self) -> Result<()> {
        self.inner.unlock_wal()
    }

    /// The WALs that contain at least one batch, including archived ones, oldest first.
    ///
    /// # Errors
    ///
    /// `IoError`.
    pub fn sorted_wal_files(&self) -> Result<Vec<WalFile>> {
        self.inner.sorted_wal_files()
    }

    /// The WAL that is currently being written.
    ///
    /// # Errors
    ///
    /// `ShutdownInProgress` if the database is closed; `NotSupported` if it is read-only.
    pub fn current_wal_file(&self) -> Result<WalFile> {
        self.inner.current_wal_file()
    }

    /// The batches written since the sequence number `seq`, starting with the batch that contains
    /// it, as far as WALs exist; `WAL_ttl_seconds` and `WAL_size_limit_MB` keep them longer. If the
    /// oldest WAL starts later, so does the stream: check the sequence number of the first batch.
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
    /// // The stream continues after the last batch.
    /// db.put(b"c", b"3")?;
    /// assert_eq!(updates.count(), 1);
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `NotFound` if `seq` has not been written yet; those of the first step of the stream.
    pub fn updates_since(&self, seq: SequenceNumber) -> Result<WalIterator<'_>> {
        Ok(WalIterator {
            inner: self.inner.updates_since(seq)?,
            returned: false,
            failed: false,
            db: PhantomData,
        })
    }
}

/// An iterator over the batches in the WALs, each with the sequence number of its first write; see
/// [`Db::updates_since`].
///
/// `None` means that the stream has caught up: a later call returns the batches written since. An
/// error ends the stream: `TryAgain` if a new stream can continue; `NotFound` at a gap in the
/// sequence numbers, which is left by writes without the WAL and by ingested files; `IoError`;
/// `Corruption`.
pub struct WalIterator<'db> {
    inner: cairn_db::WalIterator,
    /// True if the current batch of the stream has been returned.
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
