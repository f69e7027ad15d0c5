//! Logs that no family needs any more: they are recycled, archived or deleted.
//!
//! With `WAL_ttl_seconds` or `WAL_size_limit_MB` they move to the directory `archive` in that of the logs,
//! where [`crate::read::wal_iterator`] can still read them, and are deleted when they are too old or exceed the
//! limit. Otherwise up to `recycle_log_file_num` of them are kept to be overwritten as new logs. A log is
//! obsolete only if a synced MANIFEST says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cairn_format::names::FileName;
use cairn_options::DbOptions;
use cairn_types::{FileNumber, Result, Subcode};

use crate::shared::Shared;

/// The name of the archive directory.
const ARCHIVE: &str = "archive";

/// The maximum interval between two checks of the archive, in seconds.
const CHECK_INTERVAL_SECONDS: u64 = 600;

/// Returns the archive directory of a database with its logs in `wal_dir`.
pub(crate) fn archive_dir(wal_dir: &Path) -> PathBuf {
    wal_dir.join(ARCHIVE)
}

pub(crate) fn archives(options: &DbOptions) -> bool {
    options.wal_ttl_seconds > 0 || options.wal_size_limit_mb > 0
}

impl Shared {
    pub(crate) fn log_path(&self, number: FileNumber) -> PathBuf {
        self.context.wal_dir.join(FileName::Wal(number).to_string())
    }

    pub(crate) fn archived_log_path(&self, number: FileNumber) -> PathBuf {
        archive_dir(&self.context.wal_dir).join(FileName::Wal(number).to_string())
    }

    /// Recycles, archives or deletes obsolete logs, given with their lengths.
    pub(crate) fn retire_logs(&self, logs: BTreeMap<FileNumber, u64>) {
        if logs.is_empty() {
            return;
        }
        let first_needed = self.tree.lock().logs.first_needed();
        assert!(
            logs.keys().all(|number| *number < first_needed),
            "an obsolete log is not needed by the durable MANIFEST: logs are needed from {first_needed} on, not {:?}",
            logs.keys()
        );
        let options = self.options();
        let logs = self.without_failed(logs);
        if archives(&options) {
            logs.into_keys().for_each(|number| self.archive_log(number));
            self.purge_archive();
            return;
        }
        let wanted = usize::try_from(options.recycle_log_file_num).unwrap_or(usize::MAX);
        for number in logs.into_keys() {
            let is_recycled = {
                let mut tree = self.tree.lock();
                !self.lifecycle.is_closing() && tree.logs.recycle(number, wanted)
            };
            if !is_recycled {
                self.delete_log(number);
            }
        }
    }

    /// Deletes those of `logs` whose last writes failed, and returns the rest. Their numbers are still
    /// recorded, since the files may exist for longer.
    fn without_failed(&self, mut logs: BTreeMap<FileNumber, u64>) -> BTreeMap<FileNumber, u64> {
        let failed: Vec<FileNumber> = {
            let tree = self.tree.lock();
            let numbers = logs.keys().copied();
            numbers
                .filter(|number| tree.logs.has_failed(*number))
                .collect()
        };
        for number in failed {
            logs.remove(&number);
            self.delete_log(number);
        }
        logs
    }

    /// Deletes a log that no family needs.
    fn delete_log(&self, number: FileNumber) {
        let first_needed = self.tree.lock().logs.first_needed();
        assert!(
            number < first_needed,
            "log {number} is deleted, but recovery needs the logs from {first_needed} on"
        );
        self.catalog.deletions.delete(&self.log_path(number));
    }

    /// Deletes the files kept for recycling.
    pub(crate) fn delete_recycled_logs(&self) {
        let waiting = self.tree.lock().logs.take_recycled();
        for number in waiting {
            self.delete_log(number);
        }
    }

    /// Prepares the archive when a database is opened: logs before `min_log`, which are not needed, are moved
    /// there.
    pub(crate) fn open_archive(&self, min_log: FileNumber) -> Result<()> {
        if !archives(&self.options()) {
            return Ok(());
        }
        assert!(
            min_log <= self.tree.lock().logs.first_needed(),
            "logs that recovery needs are not archived"
        );
        let fs = &*self.context.world.fs;
        fs.create_dir_all(&archive_dir(&self.context.wal_dir))?;
        for log in cairn_wal::list(fs, &self.context.wal_dir)? {
            if log.number < min_log {
                self.archive_log(log.number);
            }
        }
        self.purge_archive();
        Ok(())
    }

    /// Moves a log to the archive. If that fails, the next opening moves it.
    fn archive_log(&self, number: FileNumber) {
        let (from, to) = (self.log_path(number), self.archived_log_path(number));
        match self.context.world.fs.rename(&from, &to) {
            Err(error) if error.subcode() != Subcode::PathNotFound => {
                self.context
                    .info
                    .warn(format_args!("a log could not be archived: {error}"));
            }
            _ => {}
        }
    }

    /// Deletes archived logs that are too old or exceed the limit, unless that was done recently.
    fn purge_archive(&self) {
        let options = self.options();
        let now = self.context.world.clock.wall_seconds();
        let ttl = options.wal_ttl_seconds;
        let interval = match ttl {
            0 => CHECK_INTERVAL_SECONDS,
            ttl => (ttl / 2).clamp(1, CHECK_INTERVAL_SECONDS),
        };
        if !self.tree.lock().logs.begin_archive_scan(now, interval) {
            return;
        }
        if let Err(error) = self.purge_archive_now(&options, now) {
            self.context
                .info
                .warn(format_args!("the archive of logs was not checked: {error}"));
        }
    }

    fn purge_archive_now(&self, options: &DbOptions, now: u64) -> Result<()> {
        let fs = &*self.context.world.fs;
        let mut kept = Vec::new();
        for log in cairn_wal::list(fs, &archive_dir(&self.context.wal_dir))? {
            let status = fs.status(&log.path)?;
            let age = now.saturating_sub(status.modified_micros / 1_000_000);
            let is_old = options.wal_ttl_seconds > 0 && age > options.wal_ttl_seconds;
            if is_old || (options.wal_size_limit_mb > 0 && status.len == 0) {
                self.catalog.deletions.delete(&log.path);
            } else {
                kept.push((log.path, status.len));
            }
        }
        // As many as fit if all were as large as the largest one.
        let largest = kept.iter().map(|(_, len)| *len).max().unwrap_or(0);
        if options.wal_size_limit_mb == 0 || largest == 0 {
            return Ok(());
        }
        let fit = options.wal_size_limit_mb.saturating_mul(1 << 20) / largest;
        let too_many = kept
            .len()
            .saturating_sub(usize::try_from(fit).unwrap_or(usize::MAX));
        for (path, _) in &kept[..too_many] {
            self.catalog.deletions.delete(path);
        }
        Ok(())
    }
}
