//! The engine interface of the benchmarks, the only code that differs between engines.
//!
//! A [`Source`] opens databases, an [`Engine`] is an open one; each thread uses its own [`Session`] and
//! scans with a [`Cursor`]. All are static types, so that calls of Cairn's native interface cost what a
//! program's own calls cost.

use std::path::Path;

use cairn::Result;

/// Settings shared by all operations of a session.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// True if writes sync the WAL.
    pub sync: bool,
    /// True if writes bypass the WAL.
    pub disable_wal: bool,
    /// True if reads verify block checksums.
    pub verify_checksums: bool,
    /// True if scans ignore the prefix extractor.
    pub total_order_seek: bool,
    /// True if scans end at the end of the prefix of their seek key.
    pub prefix_same_as_start: bool,
}

/// Opens databases of one engine.
pub trait Source: Sync {
    /// An open database.
    type Engine: Engine;

    /// Opens or creates the database in `dir` with a RocksDB option string.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    fn open(&self, dir: &Path, options: &str) -> Result<Self::Engine>;
}

/// An open database; its default family is used.
pub trait Engine: Sync + Sized {
    /// The session of a thread.
    type Session<'a>: Session
    where
        Self: 'a;

    /// Creates a session for one thread.
    fn session(&self, settings: &Settings) -> Self::Session<'_>;
    /// Flushes memtables and waits.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    fn flush(&self) -> Result<()>;
    /// Compacts everything and waits.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    fn compact(&self) -> Result<()>;
    /// Waits until no flush or compaction is due.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    fn wait_until_quiet(&self) -> Result<()>;
    /// Returns a property by RocksDB's name.
    fn property(&self, name: &str) -> Option<String>;
    /// Closes the database.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn close(self) -> Result<()>;
}

/// The database session of one thread.
pub trait Session {
    /// An iterator over the keys.
    type Cursor<'a>: Cursor
    where
        Self: 'a;

    /// Puts a key.
    ///
    /// # Errors
    ///
    /// Errors of the engine, as for all calls below.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Deletes a key.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    fn delete(&mut self, key: &[u8]) -> Result<()>;
    /// Adds a merge operand to a key.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<()>;
    /// Deletes every key from `begin` to `end`, exclusive.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> Result<()>;
    /// Adds a put to the session's batch.
    fn add(&mut self, key: &[u8], value: &[u8]);
    /// Adds a deletion to the session's batch.
    fn remove(&mut self, key: &[u8]);
    /// Writes and clears the session's batch.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    fn write(&mut self) -> Result<()>;
    /// Calls `see` with the pinned value of a key; returns false if there is none.
    ///
    /// # Errors
    ///
    /// Errors of the engine, and of `see`.
    fn get(&mut self, key: &[u8], see: impl FnMut(&[u8]) -> Result<()>) -> Result<bool>;
    /// Looks up `keys` in one call, and calls `see` with the index and value of each that exists.
    ///
    /// # Errors
    ///
    /// Errors of the engine, and of `see`.
    fn multi_get(
        &mut self,
        keys: &[Box<[u8]>],
        see: impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()>;
    /// Returns the number and total size of the merge operands of a key, at most `most`.
    ///
    /// # Errors
    ///
    /// Errors of the engine; `NotSupported` if its interface has no such call.
    fn operands(&mut self, key: &[u8], most: usize) -> Result<(usize, u64)>;
    /// Creates an iterator that is not positioned.
    fn cursor(&self) -> Self::Cursor<'_>;
}

/// An iterator over the keys in order.
pub trait Cursor {
    /// Moves to the first entry.
    fn seek_to_first(&mut self);
    /// Moves to the last entry.
    fn seek_to_last(&mut self);
    /// Moves to the first entry at or after `key`.
    fn seek(&mut self, key: &[u8]);
    /// Moves to the next entry. The cursor must be valid.
    fn next(&mut self);
    /// Moves to the previous entry. The cursor must be valid.
    fn prev(&mut self);
    /// True if the cursor is at an entry.
    fn valid(&self) -> bool;
    /// Returns the current key.
    fn key(&self) -> &[u8];
    /// Returns the current value.
    fn value(&self) -> &[u8];
    /// Returns the error that ended the iteration, if any.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    fn status(&self) -> Result<()>;
}
