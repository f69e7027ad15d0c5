//! The options of a database and its default family in one value.

use std::sync::Arc;

use cairn_observe::EventListener;
use cairn_options::{DbOptions, FamilyOptions, presets};
use cairn_platform::cores;
use cairn_types::Result;

/// Options of a database, of its default family, and of families without options of their own.
///
/// The defaults are RocksDB's except for `max_background_jobs`, which is the number of CPU cores,
/// but at least 2, so that flushes and compactions keep up with writers. Explicit settings are
/// respected, and [`DbOptions`] on its own has RocksDB's defaults.
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
    /// Options of its column families.
    pub family: FamilyOptions,
}

impl Default for Options {
    fn default() -> Options {
        let mut db = DbOptions::default();
        let cores = i32::try_from(cores::count()).unwrap_or(i32::MAX);
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

    /// Creates named column families that do not exist. Default: false.
    #[must_use]
    pub fn create_missing_column_families(mut self, create: bool) -> Options {
        self.db.create_missing_column_families = create;
        self
    }

    /// Sets the options in `text`, with RocksDB's names, as in
    /// `"write_buffer_size=16M;block_based_table_factory={block_size=8K}"`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` with the option that is unknown or whose value is invalid.
    pub fn text(mut self, text: &str) -> Result<Options> {
        cairn_options::apply_mixed(&mut self.db, &mut self.family, text)?;
        Ok(self)
    }

    /// Configures bulk loading: no automatic compaction, no write stalls. Compact the whole range
    /// manually afterwards.
    #[must_use]
    pub fn prepare_for_bulk_load(mut self) -> Options {
        presets::prepare_for_bulk_load(&mut self.db, &mut self.family);
        self
    }

    /// Tunes for a database of less than a gigabyte with a small memory footprint.
    #[must_use]
    pub fn optimize_for_small_db(mut self) -> Options {
        self.db.optimize_for_small_db();
        self.family.optimize_for_small_db(None);
        self
    }

    /// Restores the defaults of RocksDB release `major.minor`.
    #[must_use]
    pub fn old_defaults(mut self, major: u32, minor: u32) -> Options {
        self.db.old_defaults(major, minor);
        self.family.old_defaults(major, minor);
        self
    }

    /// Adds an event listener.
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
    fn max_background_jobs_defaults_to_the_number_of_cores() {
        let jobs = Options::default().db.max_background_jobs;
        assert_eq!(jobs as usize, cores::count().max(2));
        let one = Options::default().text("max_background_jobs=1").unwrap();
        assert_eq!(one.db.max_background_jobs, 1);
        let two = Options::default().text("max_background_jobs=2").unwrap();
        assert_eq!(two.db.max_background_jobs, 2);
        assert_eq!(DbOptions::default().max_background_jobs, 2);
    }
}
