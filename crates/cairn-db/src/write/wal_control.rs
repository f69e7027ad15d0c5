//! WAL operations of the program: flushing and syncing the log, and blocking writes.

use cairn_platform::sync::Arc;
use cairn_types::{Error, Result};

use super::wal_locks::Begun;
use crate::db::Db;
use crate::locks::Rank;
use crate::shared::Shared;

impl Shared {
    /// Hands buffered records to the kernel, and with `sync` makes them durable.
    pub(crate) fn flush_wal(&self, sync: bool) -> Result<()> {
        self.may_write()?;
        let syncer = {
            let mut writer = self.writes.writer.lock();
            let Some(log) = writer.log.as_mut() else {
                return Ok(());
            };
            log.hand_over()
                .inspect_err(|error| self.log_failed(error))?;
            log.file()
        };
        if sync {
            let began = self.telemetry.began();
            syncer
                .sync(&*self.context.world.fs)
                .inspect_err(|error| self.log_failed(error))?;
            self.telemetry.record_wal_sync(began);
        }
        Ok(())
    }

    fn lock_wal(self: &Arc<Self>) -> Result<()> {
        let thread = std::thread::current().id();
        loop {
            let begun = self.tree.lock().wal_locks.begin(thread);
            match begun {
                Begun::Held => break,
                Begun::First => {
                    // With the lead held no write is in progress, and the next leader finds the lock.
                    let lead = self.lead_alone();
                    debug_assert!(
                        lead.is_err() || self.published() == self.writes.commits.allocated(),
                        "no write is in progress when the log is locked"
                    );
                    let holder = lead.is_ok().then_some(thread);
                    self.tree.lock().wal_locks.complete(holder);
                    self.signals.request_attention();
                    self.changed.notify_all();
                    lead?;
                    break;
                }
                Begun::Wait => self.wait_until(|tree| !tree.wal_locks.is_beginning())?,
            }
        }
        self.check_writable()
            .and_then(|()| self.flush_wal(false))
            .inspect_err(|_| {
                // The first error is reported; this thread holds the lock.
                let _ = self.unlock_wal();
            })
    }

    fn unlock_wal(&self) -> Result<()> {
        let removed = self
            .tree
            .lock()
            .wal_locks
            .release(std::thread::current().id());
        self.changed.notify_all();
        match removed {
            true => Ok(()),
            false => Err(Error::aborted("this thread holds no lock_wal")),
        }
    }

    /// Waits while `lock_wal` is held. Returns true if it had to. The caller leads.
    pub(crate) fn wait_while_locked(&self, no_slowdown: bool) -> Result<bool> {
        debug_assert!(self.context.locks.is_held(Rank::Lead), "the caller leads");
        if !self.tree.lock().wal_locks.is_held() {
            return Ok(false);
        }
        // Later leaders must check too.
        self.signals.request_attention();
        let refusal = Error::incomplete("writes are held back by lock_wal and no_slowdown is set");
        let _held_back = self.writes.commits.hold_back(refusal, no_slowdown)?;
        self.wait_until(|tree| !tree.wal_locks.is_held() || self.check_writable().is_err())?;
        Ok(true)
    }

    /// Delays a low-priority write of `bytes` while compactions are behind.
    pub(crate) fn delay_low_pri_write(&self, bytes: usize, no_slowdown: bool) -> Result<()> {
        if !self.signals.are_compactions_behind() {
            return Ok(());
        }
        if no_slowdown {
            return Err(Error::incomplete(
                "compactions are behind, the write has low priority and no_slowdown is set",
            ));
        }
        let clock = &self.context.world.clock;
        let delay = self
            .writes
            .low_pri_throttle
            .delay(bytes, clock.monotonic_nanos());
        self.sleep_while(delay, || self.signals.are_compactions_behind())
    }
}

impl Db {
    /// Hands records that `manual_wal_flush` keeps in memory to the kernel, so that they survive the end of
    /// the process. With `sync`, every write so far survives a power failure as well.
    ///
    /// # Errors
    ///
    /// `IoError`; the database is read-only then.
    pub fn flush_wal(&self, sync: bool) -> Result<()> {
        self.shared().check_writable()?;
        self.shared().flush_wal(sync)
    }

    /// Makes every write so far survive a power failure: [`Db::flush_wal`] with `sync`.
    ///
    /// # Errors
    ///
    /// `IoError`; the database is read-only then.
    pub fn sync_wal(&self) -> Result<()> {
        self.flush_wal(true)
    }

    /// Blocks all writes until this thread has called [`Db::unlock_wal`] as often as this function, and
    /// flushes the log: the state of the database is frozen and entirely in its files. Writes wait; those
    /// with `no_slowdown` fail with `Incomplete`. A flush must not be requested until the lock is released.
    ///
    /// # Errors
    ///
    /// `IoError` of the log; writes are not blocked then.
    pub fn lock_wal(&self) -> Result<()> {
        self.shared().lock_wal()
    }

    /// Releases one [`Db::lock_wal`] of this thread.
    ///
    /// # Errors
    ///
    /// `Aborted` if this thread holds none.
    pub fn unlock_wal(&self) -> Result<()> {
        self.shared().unlock_wal()
    }
}
