//! Changes to the options of an open database, and their consequences.
//!
//! A change is atomic: it is applied to a copy, validated as on opening, and then put into effect as a whole.
//! The new OPTIONS file is written before the call returns. Changes are serialized; reads and writes proceed
//! meanwhile.
//!
//! Open objects keep their options: a table its table options, a running job the options at its start. A
//! memtable that already exceeds a lowered limit is switched by the next write. In a read-only database the
//! options change in memory only.

use std::sync::Arc;

use cairn_options::{DbOptions, FamilyOptions, Options};
use cairn_types::{Error, Result};

use crate::catalog::family::FamilyState;
use crate::db::Db;
use crate::db::handle::Family;
use crate::jobs::background::reserve_threads;
use crate::options::settings::Change;
use crate::shared::Shared;
use crate::write::stall::low_pri_rate;

/// Names and values of options.
pub type Changes<'a> = &'a [(&'a str, &'a str)];

/// The value of `bytes_per_sync` if 0 is set while the database is open.
const BYTES_PER_SYNC: u64 = 1 << 20;

impl Family {
    /// Changes options of the family while the database is open, by RocksDB's names, atomically. The new
    /// OPTIONS file has been written when the call returns.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `changes` is empty, or has an option that does not exist, an invalid value, or an
    /// option that cannot be changed while the database is open; `NotSupported` for unsupported options.
    /// Nothing is changed then. `IoError` if the options are in effect, but could not be written to the
    /// OPTIONS file.
    pub fn set_options(&self, changes: Changes<'_>) -> Result<()> {
        self.db.shared.set_options(&[(self.state.clone(), changes)])
    }
}

impl Db {
    /// Like [`Family::set_options`], for several families atomically.
    ///
    /// # Errors
    ///
    /// Those of [`Family::set_options`].
    pub fn set_options_of(&self, changes: &[(&Family, Changes<'_>)]) -> Result<()> {
        self.check_families(changes.iter().map(|(family, _)| *family))?;
        let states: Vec<_> = changes
            .iter()
            .map(|(family, changes)| (family.state.clone(), *changes))
            .collect();
        self.handle.shared.set_options(&states)
    }

    /// Changes options of the database while it is open, by RocksDB's names, atomically. The new OPTIONS file
    /// has been written when the call returns.
    ///
    /// # Errors
    ///
    /// Those of [`Family::set_options`].
    pub fn set_db_options(&self, changes: Changes<'_>) -> Result<()> {
        self.handle.shared.set_db_options(changes)
    }
}

impl Shared {
    /// Changes options of families, atomically.
    pub(crate) fn set_options(
        self: &Arc<Self>,
        changes: &[(Arc<FamilyState>, Changes<'_>)],
    ) -> Result<()> {
        let change = self.begin_change()?;
        let mut changed: Vec<(Arc<FamilyState>, FamilyOptions)> = Vec::new();
        for (family, changes) in changes {
            self.context.info.info(format_args!(
                "SetOptions() on column family [{}], inputs: {}",
                family.name(),
                changes_text(changes)
            ));
            // A family that is named twice gets both changes.
            let known = changed
                .iter()
                .position(|(other, _)| other.id() == family.id());
            let before = match known {
                Some(at) => changed.remove(at).1,
                None => (**family.options()).clone(),
            };
            let after = self
                .try_change(family, before, changes)
                .inspect_err(|error| {
                    self.context
                        .info
                        .warn(format_args!("SetOptions() failed: {error}"));
                })?;
            changed.push((family.clone(), after));
        }
        let mut changes = changes.iter().flat_map(|(_, changes)| changes.iter());
        if changes.any(|(name, _)| *name == "periodic_compaction_seconds") {
            let now = self.context.world.clock.wall_seconds();
            self.timers.anchor_phases(now);
        }
        {
            let mut tree = self.tree.lock();
            for (family, options) in changed {
                self.signals.note_options(&options);
                self.catalog.sources.change_options(&family, options);
            }
            self.update_conditions(&mut tree);
            self.schedule(&mut tree);
            self.changed.notify_all();
        }
        self.telemetry.write_lines();
        // The next write checks memtables against the new limits, too.
        self.update_wal_limit();
        self.begin_timers();
        let saved = self.save_options(&change);
        drop(change);
        // A listener may change options, too.
        self.telemetry.deliver();
        saved
    }

    /// Returns the options of `family` after `changes`, if they are valid.
    fn try_change(
        &self,
        family: &FamilyState,
        mut options: FamilyOptions,
        changes: Changes<'_>,
    ) -> Result<FamilyOptions> {
        family.check_not_dropped()?;
        options.set_dynamic(changes)?;
        if options.value_ttl.is_some() != family.view().family.dated {
            return Err(Error::invalid_argument(
                "value_ttl: whether values carry the time of their writing is decided when the \
                 database is opened; 0 is for never",
            ));
        }
        options.validate()?;
        options.check_supported()?;
        Ok(options.sanitize_changed(&self.options()))
    }

    /// Changes options of the database, atomically.
    pub(crate) fn set_db_options(self: &Arc<Self>, changes: Changes<'_>) -> Result<()> {
        let change = self.begin_change()?;
        self.context.info.info(format_args!(
            "SetDBOptions(), inputs: {}",
            changes_text(changes)
        ));
        let before = change.before();
        let after = self.try_change_db(&before, changes).inspect_err(|error| {
            self.context
                .info
                .warn(format_args!("SetDBOptions() failed: {error}"));
        })?;
        if after.to_text() == before.to_text() && !change.is_unsaved() {
            return Ok(());
        }
        let percent = |options: &DbOptions| options.periodic_compaction_phase_recovery_percent;
        if percent(&after) != percent(&before) {
            let now = self.context.world.clock.wall_seconds();
            self.timers.anchor_phases(now);
        }
        reserve_threads(&*self.context.world.executor, &after);
        self.catalog.sources.limit_open_tables(&after);
        let write_back = after.wal_bytes_per_sync;
        let log_changes = write_back != before.wal_bytes_per_sync;
        change.replace(after);
        if log_changes && let Some(log) = self.writes.writer.lock().log.as_mut() {
            log.write_back_every(write_back);
        }
        self.writes
            .low_pri_throttle
            .set_max_rate(low_pri_rate(&self.options()));
        self.update_wal_limit();
        {
            let mut tree = self.tree.lock();
            self.update_conditions(&mut tree);
            self.schedule(&mut tree);
            self.changed.notify_all();
        }
        self.telemetry.write_lines();
        self.begin_timers();
        self.save_options(&change)
    }

    /// Returns the options of the database after `changes`, if they are valid for every family.
    fn try_change_db(&self, before: &DbOptions, changes: Changes<'_>) -> Result<DbOptions> {
        let mut options = before.clone();
        options.set_dynamic(changes)?;
        if options.bytes_per_sync == 0 {
            options.bytes_per_sync = BYTES_PER_SYNC;
        }
        options.validate()?;
        options.check_supported()?;
        // A number that is too small stays as it is, as in RocksDB, but is not in effect.
        let max_open_files = options.max_open_files;
        Ok(DbOptions {
            max_open_files,
            ..options.sanitize()
        })
    }

    /// Waits for a change in progress. Returns an error if the database is closed.
    fn begin_change(&self) -> Result<Change<'_>> {
        self.context.check_process()?;
        self.lifecycle.check_open()?;
        self.may_write()?;
        let change = self.settings.begin_change();
        // Closing waits for a change that has begun before.
        self.lifecycle.check_open()?;
        Ok(change)
    }

    fn save_options(&self, change: &Change<'_>) -> Result<()> {
        if self.context.read_only {
            // RocksDB changes them as well, but writes a file to a directory that is read-only.
            return Ok(());
        }
        let written = self.catalog.write_options_file();
        change.set_unsaved(written.is_err());
        written.map_err(|error| {
            self.context.info.warn(format_args!(
                "the OPTIONS file could not be written: {error}"
            ));
            error.context("the options are in effect, but the OPTIONS file could not be written")
        })
    }
}

/// Returns the changes as text, for the log. Options contain no user data.
fn changes_text(changes: Changes<'_>) -> String {
    let words: Vec<String> = changes
        .iter()
        .map(|(name, text)| format!("{name}={text}"))
        .collect();
    words.join("; ")
}
