//! The interface between scripts and engines.

use std::path::Path;
use std::sync::Arc;

use cairn_platform::World;
use cairn_platform::sync::AtomicU64;
use cairn_types::Result;

use crate::cairn::Cairn;
use crate::options::OptionSet;
use crate::scan::{Entries, Scan};
use crate::write_entry::Write;

/// An open database.
///
/// Every implementation guarantees: a write that returned `Ok` is visible to every later read;
/// reads refer to families by their current names; background work that a call depends on is
/// finished when the call returns (through `Executor::help` in a simulated world).
pub trait Engine {
    /// States that the next writes lead to this moment, which is after those before.
    fn begin_moment(&mut self, _moment: usize) {}
    /// Writes `writes` as one batch.
    fn write(&mut self, writes: &[Write], sync: bool) -> Result<()>;
    /// Returns the value of `key`, now or in a snapshot.
    fn get(&mut self, family: &str, key: &[u8], snapshot: Option<u64>) -> Result<Option<Vec<u8>>>;
    /// Returns the entries of an iterator.
    fn scan(&mut self, family: &str, scan: &Scan, snapshot: Option<u64>) -> Result<Entries>;
    /// Takes a snapshot and returns its name for reads.
    fn snapshot(&mut self) -> Result<u64>;
    /// Releases a snapshot.
    fn release(&mut self, snapshot: u64);
    /// Flushes the memtables of families and waits.
    fn flush(&mut self, families: &[String]) -> Result<()>;
    /// Compacts the keys in `[start, end]` of a family and waits. `None` is unbounded.
    fn compact(&mut self, family: &str, start: Option<&[u8]>, end: Option<&[u8]>) -> Result<()>;
    /// Syncs the WAL.
    fn sync_wal(&mut self) -> Result<()>;
    /// Creates a family.
    fn create_family(&mut self, name: &str) -> Result<()>;
    /// Drops a family.
    fn drop_family(&mut self, name: &str) -> Result<()>;
    /// Returns the names of all families.
    fn families(&self) -> Vec<String>;
    /// Verifies levels, the set of files, and checksums. Obsolete files are allowed if `leftovers`.
    fn check(&mut self, _leftovers: bool) -> Result<()> {
        Ok(())
    }
    /// Returns the error that stopped writes, if any.
    fn stopped(&self) -> Option<String> {
        None
    }
    /// Number of background errors reported to listeners. The counter outlives the database.
    fn background_errors(&self) -> Arc<AtomicU64> {
        Arc::default()
    }
    /// Resumes writes after an error, if possible.
    fn resume(&mut self) -> Result<()> {
        Ok(())
    }
    /// The real engine, for operations that only it supports. If `None`, operations fall back to
    /// [`Engine::write`] or do nothing.
    fn cairn(&mut self) -> Option<&mut Cairn> {
        None
    }
    /// Closes the database.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Opens engines of one kind.
pub trait Factory {
    /// The name of this engine in tokens and on the command line.
    fn name(&self) -> &str;
    /// Opens the database in `dir` with all its families, creating it if missing.
    fn open(&self, world: &World, dir: &Path, options: &OptionSet) -> Result<Box<dyn Engine>>;
}
