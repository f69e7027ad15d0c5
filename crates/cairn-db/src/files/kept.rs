//! Files that are kept from deletion.

use crate::catalog::deletions::Pin;
use crate::shared::Shared;

/// Keeps files from deletion while it lives.
pub(crate) struct Kept<'a> {
    shared: &'a Shared,
    pin: Option<Pin<'a>>,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.pin = None;
        self.shared.purge_what_waited();
    }
}

impl Shared {
    /// Ends one [`Deletions::disable`](crate::catalog::deletions::Deletions::disable); with the last of them, what waited is
    /// deleted.
    pub(crate) fn enable_file_deletions(&self) {
        self.catalog.deletions.enable();
        self.purge_what_waited();
    }

    /// Deletes what has become obsolete while deletions were disabled, if they are enabled again.
    fn purge_what_waited(&self) {
        if self.catalog.deletions.are_enabled() && !self.tree.lock().jobs.gave_up_directory() {
            self.purge();
        }
    }

    /// Keeps all files that are live now, or become obsolete meanwhile.
    pub(crate) fn keep_files(&self) -> Kept<'_> {
        Kept {
            shared: self,
            pin: Some(self.catalog.deletions.pin()),
        }
    }
}
