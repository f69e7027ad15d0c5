//! A guard that keeps the files of a database, for copies made by crates above this one.

use crate::db::Db;
use crate::files::kept::{Kept, keep_files};
use crate::shared::Shared;

/// Prevents the deletion of all files of a database that are live at any time while it exists. Independent of
/// [`Db::disable_file_deletions`], so that no other call ends it.
pub struct KeptFiles<'a> {
    _kept: Kept<'a, Shared>,
}

impl Db {
    /// Prevents the deletion of live files while the result exists.
    ///
    /// # Errors
    ///
    /// `NotSupported` in a forked child.
    pub fn keep_files(&self) -> cairn_types::Result<KeptFiles<'_>> {
        self.shared().context.check_process()?;
        let _kept = keep_files(&**self.shared());
        Ok(KeptFiles { _kept })
    }
}
