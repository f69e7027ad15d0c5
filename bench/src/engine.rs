//! What a benchmark asks of an engine. The same code runs on every engine; only this differs.
//!
//! A [`Source`] opens databases, an [`Engine`] is an open one, each thread works through a
//! [`Session`] of its own, and walks with a [`Cursor`]. All are static types: the calls into Cairn's
//! native interface cost nothing more than a program's own would.

use std::path::Path;

use cairn::Result;

/// What every operation of a session does alike.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Writes wait for the device.
    pub sync: bool,
    /// Writes leave the log out.
    pub disable_wal: bool,
    /// Reads check the checksums of blocks.
    pub verify_checksums: bool,
    /// Walks see all keys, whatever the prefix extractor is.
    pub total_order_seek: bool,
    /// Walks end where the prefix of the key that was sought ends.
    pub prefix_same_as_start: bool,
}

/// Opens databases of one engine.
pub trait Source: Sync {
    /// An open database.
    type Engine: Engine;

    /// Opens the database in `dir`, or makes it, with options in RocksDB's text form.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn open(&self, dir: &Path, options: &str) -> Result<Self::Engine>;
}

/// An open database; its default family is used.
pub trait Engine: Sync + Sized {
    /// What one thread works through.
    type Session<'a>: Session
    where
        Self: 'a;

    /// A session for one thread.
    fn session(&self, settings: &Settings) -> Self::Session<'_>;
    /// Writes memtables to tables and waits for it.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn flush(&self) -> Result<()>;
    /// Compacts everything and waits for it.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn compact(&self) -> Result<()>;
    /// Waits until no flush and no compaction is due.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn wait_until_quiet(&self) -> Result<()>;
    /// A property by RocksDB's name.
    fn property(&self, name: &str) -> Option<String>;
    /// Closes the database.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn close(self) -> Result<()>;
}

/// What one thread asks of the database.
pub trait Session {
    /// A walk over the keys.
    type Cursor<'a>: Cursor
    where
        Self: 'a;

    /// Sets a key.
    ///
    /// # Errors
    ///
    /// The engine's, as of all the calls below.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Removes a key.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn delete(&mut self, key: &[u8]) -> Result<()>;
    /// Adds a merge operand to a key.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<()>;
    /// Removes every key from `begin` to before `end`.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> Result<()>;
    /// Adds to the session's batch that a key is set.
    fn add(&mut self, key: &[u8], value: &[u8]);
    /// Adds to the session's batch that a key is removed.
    fn remove(&mut self, key: &[u8]);
    /// Writes the session's batch and empties it.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn write(&mut self) -> Result<()>;
    /// Hands the value of a key to `see`, where it lies; says whether there is one.
    ///
    /// # Errors
    ///
    /// The engine's, and what `see` returns.
    fn get(&mut self, key: &[u8], see: impl FnMut(&[u8]) -> Result<()>) -> Result<bool>;
    /// Looks `keys` up at once and hands the place and value of each that is there to `see`.
    ///
    /// # Errors
    ///
    /// The engine's, and what `see` returns.
    fn multi_get(
        &mut self,
        keys: &[Box<[u8]>],
        see: impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()>;
    /// The operands of a key, `most` at most: how many, and their bytes.
    ///
    /// # Errors
    ///
    /// The engine's; `NotSupported` where its interface has no such call.
    fn operands(&mut self, key: &[u8], most: usize) -> Result<(usize, u64)>;
    /// A walk that stands nowhere yet.
    fn cursor(&self) -> Self::Cursor<'_>;
}

/// A walk over the keys in their order.
pub trait Cursor {
    /// To the first entry.
    fn seek_to_first(&mut self);
    /// To the last entry.
    fn seek_to_last(&mut self);
    /// To the first entry at or after `key`.
    fn seek(&mut self, key: &[u8]);
    /// To the next entry; it stands on one.
    fn next(&mut self);
    /// To the entry before; it stands on one.
    fn prev(&mut self);
    /// True if it stands on an entry.
    fn valid(&self) -> bool;
    /// The key it stands on.
    fn key(&self) -> &[u8];
    /// The value it stands on.
    fn value(&self) -> &[u8];
    /// Why the walk ended, if not because there was no more.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn status(&self) -> Result<()>;
}
