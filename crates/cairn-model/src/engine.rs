//! What scripts need of an engine.

use std::path::Path;
use std::sync::Arc;

use cairn_platform::World;
use cairn_platform::sync::AtomicU64;
use cairn_types::Result;

use crate::cairn::Cairn;
use crate::ops::batch_entry::Write;
use crate::ops::scan::Scan;
use crate::options::OptionSet;

/// Keys with their values, in the order of a scan.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// An open database.
///
/// What every implementation keeps: a write that returns `Ok` is seen by every later read; reads
/// name families by their present names; whatever background work a call needs has been waited
/// for when it returns (through `Executor::help` in a simulated world).
pub trait Engine {
    /// Carries `writes` out as one batch.
    fn write(&mut self, writes: &[Write], sync: bool) -> Result<()>;
    /// The value of `key`, now or in a snapshot.
    fn get(&mut self, family: &str, key: &[u8], snapshot: Option<u64>) -> Result<Option<Vec<u8>>>;
    /// The entries that an iterator steps over.
    fn scan(&mut self, family: &str, scan: &Scan, snapshot: Option<u64>) -> Result<Entries>;
    /// Takes a snapshot and returns the name by which reads will call it.
    fn snapshot(&mut self) -> Result<u64>;
    /// Gives a snapshot back.
    fn release(&mut self, snapshot: u64);
    /// Writes families' memtables to tables, and waits.
    fn flush(&mut self, families: &[String]) -> Result<()>;
    /// Compacts a family's keys in `[start, end]`, and waits. `None` is no bound.
    fn compact(&mut self, family: &str, start: Option<&[u8]>, end: Option<&[u8]>) -> Result<()>;
    /// Makes everything written so far survive a power cut.
    fn sync_wal(&mut self) -> Result<()>;
    /// Creates a family.
    fn create_family(&mut self, name: &str) -> Result<()>;
    /// Drops a family.
    fn drop_family(&mut self, name: &str) -> Result<()>;
    /// The names of all families.
    fn families(&self) -> Vec<String>;
    /// Whether the structure is sound: levels, file set, checksums. Files that nobody needs may be
    /// allowed.
    fn check(&mut self, _leftovers: bool) -> Result<()> {
        Ok(())
    }
    /// Why nothing can be written at present, if that is so.
    fn stopped(&self) -> Option<String> {
        None
    }
    /// How many errors of background work the program has been told of, by an event. The counter
    /// outlives the database.
    fn background_errors(&self) -> Arc<AtomicU64> {
        Arc::default()
    }
    /// Makes the database writable again after an error, if it can be.
    fn resume(&mut self) -> Result<()> {
        Ok(())
    }
    /// The engine itself, for operations that only it has. Operations do without where this is
    /// `None`: with [`Engine::write`] or nothing at all.
    fn cairn(&mut self) -> Option<&mut Cairn> {
        None
    }
    /// Closes the database.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Opens engines of one kind.
pub trait Factory {
    /// The name by which tokens and the command line call this kind.
    fn name(&self) -> &str;
    /// Opens the database in `dir` with all its families, creating it if it is missing.
    fn open(&self, world: &World, dir: &Path, options: &OptionSet) -> Result<Box<dyn Engine>>;
}
