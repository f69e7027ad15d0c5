//! New logs: creation, their first records, and the total size of logs at which memtables are switched.
//!
//! A log begins with the summary of its predecessor, if `track_and_verify_wals` is set, and with the
//! timestamp sizes of the families that have timestamps. The timestamp size of a family that is created later
//! is recorded before its first write.

use std::sync::Arc;

use cairn_format::log::Predecessor;
use cairn_options::WalWriteMode;
use cairn_types::{FileNumber, Result};
use cairn_wal::WalOptions;

use super::log::{CurrentLog, Expected};
use crate::catalog::family::FamilyState;
use crate::shared::Shared;

impl Shared {
    /// Creates the log `number`. Its length and the frequency of its syncs are expected to be those of `before`.
    pub(crate) fn create_log(
        &self,
        number: FileNumber,
        predecessor: Option<Predecessor>,
        before: Option<&CurrentLog>,
    ) -> Result<CurrentLog> {
        let recycled = self.tree.lock().logs.next_recycled();
        let options = WalOptions {
            recyclable: self.options().recycle_log_file_num > 0,
            compression: self.options().wal_compression,
            mapped: self.options().wal_write_mode == WalWriteMode::Mapped,
        };
        assert!(
            before.is_none_or(|before| before.number() < number),
            "log {number} is newer than the one before it"
        );
        let synced = before.is_some_and(|before| before.file().was_synced());
        let mut log = CurrentLog::create(
            &*self.context.world.fs,
            &self.context.wal_dir,
            number,
            recycled,
            &options,
            self.options().use_fsync,
            Expected {
                synced: synced || self.syncs_ended_logs(),
                // Most of the zeros of a log that is synced before it is full would never be overwritten.
                len: before.filter(|_| !synced).map_or(0, CurrentLog::len),
                temperature: self.options().wal_write_temperature.number(),
                before,
                blobs: Some(&self.context.unsynced_blobs),
            },
        )?;
        log.write_back_every(self.options().wal_bytes_per_sync);
        if self.options().manual_wal_flush {
            log.flush_manually();
        }
        if self.writes.sections.are_early() {
            log.end_batches();
        }
        if let Some(family) = self.catalog.default_family() {
            log.charge_to(&family.tables().charge);
        }
        if let Some(predecessor) = predecessor {
            log.record_predecessor(&predecessor)?;
        }
        let stamped: Vec<(u32, u16)> = self
            .catalog
            .families()
            .iter()
            .filter_map(|family| timestamp_size(family))
            .collect();
        if !stamped.is_empty() {
            log.record_timestamp_sizes(&stamped)?;
        }
        Ok(log)
    }

    /// Returns the description of `log` for the next log, with `track_and_verify_wals`.
    pub(crate) fn predecessor(&self, log: &CurrentLog) -> Option<Predecessor> {
        self.options()
            .track_and_verify_wals
            .then(|| log.as_predecessor())
    }

    /// Records the timestamp sizes of new `families` in the current log.
    pub(crate) fn record_timestamp_sizes(&self, families: &[Arc<FamilyState>]) -> Result<()> {
        let sizes: Vec<_> = families
            .iter()
            .filter_map(|it| timestamp_size(it))
            .collect();
        match &mut self.writes.writer.lock().log {
            Some(log) if !sizes.is_empty() => log
                .record_timestamp_sizes(&sizes)
                .inspect_err(|error| self.log_failed(error)),
            _ => Ok(()),
        }
    }

    /// Recomputes the limit on the total size of logs after a change of families or options. The next write checks it.
    pub(crate) fn update_wal_limit(&self) {
        let families = self.catalog.families();
        let options: Vec<_> = families.iter().map(|family| family.options()).collect();
        let limit = self.options().wal_limit(options.iter().map(|one| &***one));
        self.signals.set_wal_limit(limit);
        self.signals.request_attention();
    }
}

/// Returns the id of the family and the size of the timestamps of its keys, if they have any.
fn timestamp_size(family: &FamilyState) -> Option<(u32, u16)> {
    let size = u16::try_from(family.order().timestamp_size()).ok()?;
    (size > 0).then_some((family.id(), size))
}
