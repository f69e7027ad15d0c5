//! Changes of options while a database is open.

use cairn_options::DbOptions;
use cairn_types::Result;

use std::sync::Arc;

use crate::db::Db;
use crate::family::Family;

impl Db {
    /// Changes options of the default family while the database is open, atomically and by
    /// RocksDB's names. For other families, use [`Family::set_options`]. When the call returns, the
    /// options are in effect and recorded in the OPTIONS file.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cairn::Db::open(dir.path().join("db"), &cairn::Options::default().create_if_missing(true))?;
    /// db.set_options(&[("write_buffer_size", "8M"), ("disable_auto_compactions", "true")])?;
    /// assert_eq!(db.default_family().options().write_buffer_size, 8 << 20);
    ///
    /// // One invalid change, and none is made.
    /// assert!(db.set_options(&[("ttl", "60"), ("num_levels", "3")]).is_err());
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an option that does not exist, has an invalid value, or cannot be
    /// changed while the database is open; `NotSupported` for one that Cairn does not support.
    /// `IoError` if the OPTIONS file could not be written; the options are then in effect.
    pub fn set_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.inner.set_options(changes)
    }

    /// [`Db::set_options`] for several families, atomically.
    ///
    /// # Errors
    ///
    /// Those of [`Db::set_options`].
    pub fn set_options_of(&self, changes: &[(&Family<'_>, &[(&str, &str)])]) -> Result<()> {
        let changes: Vec<(&cairn_db::Family, _)> = changes
            .iter()
            .map(|(family, changes)| (&family.inner, *changes))
            .collect();
        self.inner.set_options_of(&changes)
    }

    /// Changes database options while the database is open, atomically.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cairn::Db::open(dir.path().join("db"), &cairn::Options::default().create_if_missing(true))?;
    /// db.set_db_options(&[("max_background_jobs", "4")])?;
    /// assert_eq!(db.db_options().max_background_jobs, 4);
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::set_options`].
    pub fn set_db_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.inner.set_db_options(changes)
    }

    /// The database options currently in effect.
    #[must_use]
    pub fn db_options(&self) -> Arc<DbOptions> {
        cairn_db::Db::options(&self.inner)
    }
}
