//! Background errors, and recovery from them.

use cairn_types::Result;

pub use cairn_db::{BackgroundError, Damaged};

use crate::Db;

impl Db {
    /// The current background error with its effects, if there is one.
    #[must_use]
    pub fn background_error_state(&self) -> Option<BackgroundError> {
        self.inner.background_error_state()
    }

    /// Recovers from the current background error once its cause is gone; does nothing if there is
    /// none. The database also does so automatically, unless `max_bgerror_resume_count` is 0.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let options = cairn::Options::default().create_if_missing(true);
    /// let db = cairn::Db::open(dir.path(), &options)?;
    /// assert!(db.background_error_state().is_none());
    /// db.resume()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Busy` during an automatic recovery; the error of a failed recovery; the current background
    /// error if the database has to be reopened.
    pub fn resume(&self) -> Result<()> {
        self.inner.resume()
    }

    /// The tables that compactions have found to be damaged or missing, or that may refer to such a blob file, and those
    /// that could not be read five times in a row. They are excluded from compactions; the rest of the database works
    /// normally. Unreadable tables are tried again after 64 times `bgerror_resume_retry_interval`.
    #[must_use]
    pub fn damaged_tables(&self) -> Vec<Damaged> {
        self.inner.damaged_tables()
    }
}
