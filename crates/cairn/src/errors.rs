//! Background errors: the state of a database after errors that its callers alone cannot deal with.

use cairn_types::Result;

pub use cairn_db::{BackgroundError, Damaged};

use crate::Db;

impl Db {
    /// The error that the database is in, with what it stops.
    #[must_use]
    pub fn background_error_state(&self) -> Option<BackgroundError> {
        self.inner.background_error_state()
    }

    /// Leaves the error that the database is in, once its cause is gone; does nothing without one.
    /// The database does so by itself too, unless `max_bgerror_resume_count` is 0.
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
    /// `Busy` while the database resumes by itself; what failed this time; the error that the
    /// database is in if only opening it again helps.
    pub fn resume(&self) -> Result<()> {
        self.inner.resume()
    }

    /// The tables that compactions found damaged: they are left out of compactions, and the rest
    /// of the database goes on.
    #[must_use]
    pub fn damaged_tables(&self) -> Vec<Damaged> {
        self.inner.damaged_tables()
    }
}
