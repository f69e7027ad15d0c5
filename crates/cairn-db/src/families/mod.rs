//! Creation and dropping of column families, under the lead of the write queue.
//!
//! The catalog makes the change durable and publishes it. This module checks options, creates memtables, and
//! updates the write path, the timers and the OPTIONS file. No write is in progress meanwhile, so that a new
//! family starts with the current log.
//!
//! `clip` deletes the keys of a family outside of a range.

mod clip;

use std::sync::Arc;

use cairn_options::{DbOptions, FamilyOptions};
use cairn_types::{Error, Result};
use cairn_version::TreeEdit;
use cairn_version::manifest::WriteFailed;

use crate::catalog::create::NewFamily;
use crate::catalog::family::FamilyDescriptor;
use crate::catalog::family::FamilyState;
use crate::context::DbContext;
use crate::locks::Rank;
use crate::shared::Shared;
use crate::write::log::CurrentLog;
use crate::write::ttl;

/// Validates the name and the options of a family to create, and returns the options that it will have.
pub(crate) fn options_of_new_family(
    context: &DbContext,
    database: &DbOptions,
    name: &str,
    given: &FamilyOptions,
) -> Result<FamilyOptions> {
    given.validate()?;
    given.check_supported()?;
    let mut options = given.clone();
    ttl::apply_to_options(context.dated, name, &mut options)?;
    Ok(options.sanitize(database))
}

impl Shared {
    /// Creates families, durably and atomically.
    pub(crate) fn create_families(
        self: &Arc<Self>,
        given: &[FamilyDescriptor],
    ) -> Result<Vec<Arc<FamilyState>>> {
        if given.is_empty() {
            return Ok(Vec::new());
        }
        self.check_writable()?;
        let new = given
            .iter()
            .map(|family| self.prepare_family(family))
            .collect::<Result<Vec<_>>>()?;
        // With the lead held no write is in progress, so the families start with the current log.
        let _lead = self.lead_alone()?;
        let created = self.create_families_led(new)?;
        self.record_families(&created)?;
        Ok(created)
    }

    /// Validates a family to create and creates the directories of its tables.
    fn prepare_family(&self, given: &FamilyDescriptor) -> Result<NewFamily> {
        let FamilyDescriptor { name, options } = given;
        let options = options_of_new_family(&self.context, &self.options(), name, options)?;
        self.catalog.sources.create_dirs(&options)?;
        Ok(NewFamily {
            name: name.clone(),
            options,
            tables: TreeEdit::default(),
        })
    }

    /// Creates families with one group of MANIFEST records, for [`Shared::record_families`]. The caller leads.
    pub(crate) fn create_families_led(
        self: &Arc<Self>,
        new: Vec<NewFamily>,
    ) -> Result<Vec<Arc<FamilyState>>, WriteFailed> {
        debug_assert!(self.context.locks.is_held(Rank::Lead), "the caller leads");
        let log = self
            .writes
            .writer
            .lock()
            .log
            .as_ref()
            .map(CurrentLog::number);
        let closed = || WriteFailed::before(Error::shutdown("the database is closed"));
        let log = log.ok_or_else(closed)?;
        // A write to a family in `new` must find its options recorded.
        new.iter()
            .for_each(|family| self.signals.note_options(&family.options));
        let last = self.published();
        let created = self
            .catalog
            .edit()
            .create_families(&**self, new, log, |options| {
                self.new_memtable(options, last)
            })?;
        let before = self.catalog.families().iter().count() - created.len();
        for (at, family) in created.iter().enumerate() {
            self.log_options_of_family(before + at, family.name(), &family.options());
        }
        self.update_wal_limit();
        self.begin_timers();
        Ok(created)
    }

    /// Records `created`, which are part of the database, in the log and in an OPTIONS file. The caller leads.
    pub(crate) fn record_families(&self, created: &[Arc<FamilyState>]) -> Result<()> {
        debug_assert!(self.context.locks.is_held(Rank::Lead), "the caller leads");
        let logged = self.record_timestamp_sizes(created);
        let saved = self.catalog.write_options_file();
        logged.and(saved).map_err(|error| {
            let names: Vec<_> = created.iter().map(|family| family.name()).collect();
            error.context(format_args!(
                "the column families {names:?} exist, but could not be recorded in the log and the OPTIONS file"
            ))
        })
    }

    /// Drops `family`, durably.
    pub(crate) fn drop_family(self: &Arc<Self>, family: &Arc<FamilyState>) -> Result<()> {
        self.check_writable()?;
        if family.id() == 0 {
            return Err(Error::invalid_argument(
                "the default column family cannot be dropped",
            ));
        }
        let lead = self.lead_alone()?;
        self.catalog.edit().drop_family(&**self, family)?;
        self.update_wal_limit();
        // Closing takes the lead before it gives the directory up.
        let saved = self.catalog.write_options_file();
        drop(lead);
        self.purge();
        saved.map_err(|error| {
            error.context(format_args!(
                "the column family {:?} is dropped, but the OPTIONS file could not be written",
                family.name()
            ))
        })
    }
}
