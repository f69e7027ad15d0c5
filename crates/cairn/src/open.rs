//! The options of a database and its default family in one value.

use std::sync::Arc;

use cairn_observe::EventListener;
use cairn_options::{DbOptions, FamilyOptions, presets};
use cairn_platform::thread_pool::cores;
use cairn_types::Result;

/// Options of a database, and of its default family and the families that have none of their own.
///
/// The defaults are RocksDB's but for `max_background_jobs`, which is the number of the machine's
/// cores rather than 2, if it has more: flushes and compactions keep up with writers then. What is
/// set explicitly is obeyed, and the defaults of [`DbOptions`] alone are RocksDB's.
///
/// ```
/// use cairn::Options;
///
/// let options = Options::default()
///     .create_if_missing(true)
///     .text("write_buffer_size=16M;max_background_jobs=4")?;
/// assert_eq!(options.family.write_buffer_size, 16 << 20);
/// assert_eq!(options.db.max_background_jobs, 4);
/// # Ok::<(), cairn::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// Options of the whole database.
    pub db: DbOptions,
    /// Options of its families.
    pub family: FamilyOptions,
}

impl Default for Options {
    fn default() -> Options {
        let mut db = DbOptions::default();
        let cores = i32::try_from(cores()).unwrap_or(i32::MAX);
        db.max_background_jobs = db.max_background_jobs.max(cores);
        Options {
            db,
            family: FamilyOptions::default(),
        }
    }
}

impl Options {
    /// Creates the database if it does not exist. Default: false.
    #[must_use]
    pub fn create_if_missing(mut self, create: bool) -> Options {
        self.db.create_if_missing = create;
        self
    }

    /// Creates column families that are named and do not exist. Default: false.
    #[must_use]
    pub fn create_missing_column_families(mut self, create: bool) -> Options {
        self.db.create_missing_column_families = create;
        self
    }

    /// Sets the options in `text`, by RocksDB's names, as in
    /// `"write_buffer_size=16M;block_based_table_factory={block_size=8K}"`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` names what is unknown or cannot be read.
    pub fn text(mut self, text: &str) -> Result<Options> {
        cairn_options::apply_mixed(&mut self.db, &mut self.family, text)?;
        Ok(self)
    }

    /// For loading data as fast as it comes: no automatic compaction, no slowing down. Compact the
    /// whole range by hand afterwards.
    #[must_use]
    pub fn prepare_for_bulk_load(mut self) -> Options {
        presets::prepare_for_bulk_load(&mut self.db, &mut self.family);
        self
    }

    /// For a database of less than a gigabyte that must not take much memory.
    #[must_use]
    pub fn optimize_for_small_db(mut self) -> Options {
        self.db.optimize_for_small_db();
        self.family.optimize_for_small_db(None);
        self
    }

    /// The defaults of the release `major.minor` of RocksDB, where they have changed since.
    #[must_use]
    pub fn old_defaults(mut self, major: u32, minor: u32) -> Options {
        self.db.old_defaults(major, minor);
        self.family.old_defaults(major, minor);
        self
    }

    /// Adds a listener of flushes, compactions and the like to those already there.
    #[must_use]
    pub fn listener(mut self, listener: Arc<dyn EventListener>) -> Options {
        self.db.listeners.push(listener);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn background_jobs_are_as_many_as_cores_unless_something_else_is_asked_for() {
        let jobs = Options::default().db.max_background_jobs;
        assert_eq!(jobs as usize, cores().max(2));
        let one = Options::default().text("max_background_jobs=1").unwrap();
        assert_eq!(one.db.max_background_jobs, 1);
        let two = Options::default().text("max_background_jobs=2").unwrap();
        assert_eq!(two.db.max_background_jobs, 2);
        assert_eq!(DbOptions::default().max_background_jobs, 2);
    }
}
