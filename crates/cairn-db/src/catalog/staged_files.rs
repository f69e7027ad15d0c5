//! Tables that ingestions and imports have brought into the directories of the database, before they are in a version.
//!
//! Invariants: a table is staged before its file exists, and no longer once the MANIFEST may refer to it. Whoever takes
//! it from here deletes it, or adds it to a version. After a crash the next opening deletes it, because no version has
//! it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cairn_platform::sync::Mutex;
use cairn_types::FileNumber;

/// The staged tables of a database.
#[derive(Default)]
pub(crate) struct StagedFiles {
    paths: Mutex<BTreeMap<FileNumber, PathBuf>>,
}

impl StagedFiles {
    /// Adds the table `number`, which is about to be created at `path`.
    pub(crate) fn add(&self, number: FileNumber, path: &Path) {
        let before = self.paths.lock().insert(number, path.to_owned());
        assert!(before.is_none(), "table {number} is staged once");
    }

    /// Removes a table. `None` if it was not staged.
    pub(crate) fn take(&self, number: FileNumber) -> Option<PathBuf> {
        self.paths.lock().remove(&number)
    }

    /// Removes all tables.
    pub(crate) fn take_all(&self) -> Vec<PathBuf> {
        let all = std::mem::take(&mut *self.paths.lock());
        all.into_values().collect()
    }
}
