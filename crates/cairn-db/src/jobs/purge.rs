//! Purges: deletions of obsolete files and logs, as jobs for which closing waits.
//!
//! The catalog deletes tables and blob files. A log is deleted when a synced edit records that no family
//! needs it. Nothing is deleted once the directory was given up.

use std::sync::Arc;

use cairn_platform::Priority;

use crate::locks::RankedGuard;
use crate::shared::{Shared, Tree};

impl Shared {
    /// Writes queued lines of the info log, deletes tables without readers and logs that no family needs, and delivers
    /// queued events to listeners. The caller holds no lock. Does nothing in a callback that is called with locks held: the
    /// next purge does it.
    pub(crate) fn purge(&self) {
        if self.may_write().is_ok() {
            self.telemetry.write_lines();
            self.purge_files();
            self.telemetry.deliver();
        }
    }

    /// Deletes files that no reader and no recovery needs.
    fn purge_files(&self) {
        if self.tree.lock().jobs.gave_up_directory() {
            return;
        }
        self.catalog.purge();
        let mut tree = self.tree.lock();
        // Checked under the lock, because a copy that pins files also lists the logs it needs under it.
        if !self.catalog.deletions.are_enabled() {
            let unsynced = tree.logs.take_unneeded_syncs();
            drop(tree);
            unsynced.iter().for_each(|log| log.forget());
            return;
        }
        let logs = tree.logs.take_unneeded();
        drop(tree);
        logs.unsynced.iter().for_each(|log| log.forget());
        self.retire_logs(logs.logs);
    }

    /// Purges on this thread as a job, for which closing waits; does nothing once closing is complete.
    pub(crate) fn purge_as_job(&self, tree: RankedGuard<'_, Tree>) {
        if counts_purge(tree) {
            self.purge_counted();
        }
    }

    /// Purges in the background, where listeners may be called; does nothing once closing is complete.
    pub(crate) fn spawn_purge(self: &Arc<Self>) {
        if counts_purge(self.tree.lock()) {
            let shared = self.clone();
            self.context
                .world
                .executor
                .spawn(Priority::High, Box::new(move || shared.purge_counted()));
        }
    }

    /// Runs a purge that is already counted.
    pub(crate) fn purge_counted(&self) {
        let _counted = CountedPurge(self);
        // Listeners called by it must not wait for it.
        self.as_job(|| self.purge());
    }
}

/// Ends a counted purge when it is dropped, so that closing does not wait for one that panicked.
struct CountedPurge<'a>(&'a Shared);

impl Drop for CountedPurge<'_> {
    fn drop(&mut self) {
        self.0.tree.lock().jobs.end_purge();
        self.0.changed.notify_all();
    }
}

impl Shared {
    /// Calls `work` while closing waits, as for a purge; `None` once closing is complete.
    pub(crate) fn as_counted_purge<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        if !counts_purge(self.tree.lock()) {
            return None;
        }
        let _counted = CountedPurge(self);
        // A comparator called by it must not wait for it.
        Some(self.as_job(work))
    }
}

impl Shared {
    /// Deletes files in the background that a reader that has just ended may have kept.
    pub(crate) fn purge_in_background(self: &Arc<Self>) {
        // A line of the info log may be written with the tree locked: obsolete files are then left to the
        // next purge.
        let may_lock = self.may_write().is_ok();
        if self.may_have_obsolete() && may_lock {
            self.spawn_purge();
        }
    }

    /// Deletes files that a reader that has just ended may have kept. The caller holds no lock.
    pub(crate) fn purge_after_reader(&self) {
        if self.may_have_obsolete() {
            self.purge_as_job(self.tree.lock());
        }
    }

    /// True if a reader may have kept files: only the last reader of a view does, so that the others need not
    /// check for obsolete files.
    fn may_have_obsolete(&self) -> bool {
        self.catalog.deletions.may_have_unread()
            && !self.lifecycle.is_closing()
            && !self.context.is_forked()
    }
}

/// Counts a purge, for which closing and callers that wait for quiet will wait. False once closing is complete.
fn counts_purge(mut tree: RankedGuard<'_, Tree>) -> bool {
    tree.jobs.begin_purge()
}
