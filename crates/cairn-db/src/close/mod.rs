//! Closing a database.
//!
//! ```text
//! flush of unlogged writes -> jobs end -> last lead -> log synced -> MANIFEST closed -> obsolete files deleted -> LOCK released
//! ```
//!
//! [`Lifecycle`](crate::close::lifecycle::Lifecycle) has the flag that ends jobs and ensures that only one thread
//! closes the database. An error of the flush, the log or the MANIFEST is returned after the remaining steps;
//! the directory is released in any case.
//!
//! `release` frees the memory of a closed database. The invariants are CLOSE1 to CLOSE3 (`lifecycle`).

pub(crate) mod lifecycle;
mod release;

use std::sync::Arc;

use cairn_observe::FlushReason;
use cairn_observe::callback::{self, Within};
use cairn_types::{Error, Result};

use crate::shared::Shared;

impl Shared {
    /// Closes the database: running jobs are cancelled, the log is synced, the lock is released. A second
    /// call does nothing.
    ///
    /// # Errors
    ///
    /// `Busy`, without any effect, in a callback that must not wait; those of the log and the MANIFEST.
    pub(crate) fn close(self: &Arc<Self>) -> Result<()> {
        self.context.check_process()?;
        self.may_wait()?;
        callback::may_close(&self.context.info)?;
        if let Some(leader) = self.leader.get() {
            leader.end();
        }
        self.telemetry.notify_shutdown();
        self.lifecycle.close_once(|| {
            callback::within(&self.context.info, Within::Closing, || self.close_locked())
        })
    }

    /// Closes the database unless it has snapshots, as RocksDB's `DB::Close` does.
    ///
    /// # Errors
    ///
    /// `Aborted`, without any effect, if there are snapshots; those of [`Shared::close`].
    pub(crate) fn try_close(self: &Arc<Self>) -> Result<()> {
        match self.catalog.snapshots.count() {
            0 => self.close(),
            count => Err(Error::aborted(format!(
                "the database is not closed: {count} snapshots are not released"
            ))),
        }
    }

    /// Closes an open database. Runs once.
    fn close_locked(self: &Arc<Self>) -> Result<()> {
        let flushed = self.flush_unlogged();
        // Data of an unfinished job is in the log, or still in its inputs.
        self.lifecycle.begin_closing();
        self.cancel_remote_compactions();
        self.signals.request_attention();
        // A writer that waits for `unlock_wal` holds the lead.
        drop(self.tree.lock());
        self.changed.notify_all();
        // The last lead: the next writer that acquires it finds the database closing.
        drop(self.lead_alone()?);
        // The last change of options: it writes to the directory.
        drop(self.settings.begin_change());
        self.end_traces_at_close();
        self.wait_until(|tree| tree.jobs.are_over() && !tree.logs.has_ending())?;
        assert_eq!(
            self.published(),
            self.writes.commits.allocated(),
            "no write is in progress in a database that is being closed"
        );
        let synced = self.close_logs();
        for family in self.catalog.families().iter() {
            // The next opening recovers them.
            family.direct.close();
        }
        self.context.unsynced_blobs.close();
        assert!(
            self.tree.lock().jobs.are_over(),
            "no job begins in a database that is being closed"
        );
        // Iterators may keep memtables of the closed database, which no flush frees any more.
        for family in self.catalog.families().iter() {
            family.view().memtables().for_each(|it| it.mark_flushed());
        }
        let manifest = self
            .catalog
            .close_manifest(&**self, !self.errors.stop_writes());
        self.delete_recycled_logs();
        self.purge();
        self.tree.lock().jobs.give_up_directory();
        self.wait_until(|tree| !tree.jobs.have_purges())?;
        self.delete_staged();
        self.catalog.deletions.give_up_directory();
        assert!(
            self.writes.writer.lock().log.is_none(),
            "the log is closed before the directory is released"
        );
        self.catalog.space.untrack_all();
        self.lifecycle.release_directory();
        flushed.and(synced).and(manifest)
    }

    /// Syncs and closes the current log, and syncs earlier ones that are not durable yet. Logs that failed are only closed.
    fn close_logs(&self) -> Result<()> {
        let fs = &*self.context.world.fs;
        let log = self.writes.writer.lock().log.take();
        let closed = match log {
            Some(log) if !log.has_failed() => log.finish(fs),
            Some(log) => log.abandon(),
            None => Ok(()),
        };
        let unsynced = self.tree.lock().logs.take_unsynced();
        unsynced.into_iter().fold(closed, |closed, log| {
            if log.has_failed() {
                log.forget();
                return closed;
            }
            closed.and(log.finish(fs))
        })
    }

    /// Deletes the files of prepared ingestions, which can no longer be committed.
    fn delete_staged(&self) {
        for path in self.catalog.staged.take_all() {
            self.catalog.deletions.delete(&path);
        }
    }

    /// True if a flush has to precede the end of the database: of writes that bypassed the log, unless the options permit
    /// their loss, and of those with values in blob files that only recovery would find, since RocksDB does not recover
    /// them.
    fn needs_last_flush(&self) -> bool {
        !(self.context.read_only
            || self.options().avoid_flush_during_shutdown
            || !(self.signals.has_unlogged() || self.has_direct_blobs())
            || self.lifecycle.is_closing())
    }

    /// Makes the last flush while the database may still stay open.
    ///
    /// # Errors
    ///
    /// The reason why closing would lose writes.
    pub(crate) fn flush_before_closing(self: &Arc<Self>) -> Result<()> {
        if !self.needs_last_flush() {
            return Ok(());
        }
        self.check_failure()?;
        // While work is paused, only closing itself flushes.
        let may_flush = self.tree.lock().jobs.may_flush();
        match may_flush {
            true => self.flush_for_shutdown(),
            false => Ok(()),
        }
    }

    /// Makes the last flush of a database that is going to be closed.
    pub(crate) fn flush_unlogged(self: &Arc<Self>) -> Result<()> {
        if !self.needs_last_flush() {
            return Ok(());
        }
        // Such writes are lost then, and the caller that closes the database gets the reason.
        self.check_failure()?;
        // Paused work would block this flush for ever.
        self.tree.lock().jobs.ignore_pauses();
        self.flush_for_shutdown()
    }

    fn flush_for_shutdown(self: &Arc<Self>) -> Result<()> {
        let families: Vec<_> = self.catalog.families().iter().cloned().collect();
        self.flush_because(&families, FlushReason::ShutDown);
        self.flush(&families)
    }
}
