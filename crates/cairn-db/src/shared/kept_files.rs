//! A guard that keeps the files of a database, for copies made by crates above this one.

use std::collections::BTreeSet;

use cairn_types::FileNumber;

use crate::db::Db;
use crate::files::kept::{Kept, keep_files};
use crate::shared::Shared;

/// Prevents the deletion of all files of a database that are live at any time while it exists. Independent of
/// [`Db::disable_file_deletions`], so that no other call ends it.
pub struct KeptFiles<'a> {
    _kept: Kept<'a, Shared>,
}

impl Db {
    /// Returns the blob files that are kept for memtables: with `enable_blob_direct_write`, values are in blob files that no
    /// version has yet, or no longer has.
    #[must_use]
    pub fn memtable_blob_files(&self) -> BTreeSet<FileNumber> {
        let catalog = &self.shared().catalog;
        let families = catalog.families();
        let waiting = families.iter().flat_map(|family| family.direct.numbers());
        let mut all: BTreeSet<FileNumber> = waiting.collect();
        all.extend(catalog.deletions.direct_numbers());
        all
    }

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
