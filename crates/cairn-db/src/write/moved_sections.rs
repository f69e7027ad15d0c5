//! Sections of undecided transactions that are written early, in the next log.
//!
//! With the write policies "prepared" and "unprepared", RocksDB's recovery inserts the records of a section when it reads
//! them, except those of a family that needs only later logs: it expects them in its tables. Tables of Cairn have
//! committed entries only. So a family must not advance beyond the log of an undecided section (P5), and each log begins
//! with the undecided sections, as one batch:
//!
//! ```text
//! records         what all keys of the sections are at present, which hides the records of the earlier copies
//! Rollback name   of each section
//! section         of each transaction
//! ```
//!
//! These records come first, so that a key to which several transactions add operands without a lock keeps all of them.
//! They are those that are stored: a value keeps its date, and operands are not merged, which may be impossible and would
//! then prevent each switch of logs.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

use cairn_format::batch::WriteBatch as Encoded;
use cairn_format::key::LookupKey;
use cairn_observe::callback::{self, Within};
use cairn_options::WriteOptions;
use cairn_read::{Found, stored_versions};
use cairn_types::{Error, Result, SequenceNumber, ValueKind};

use super::entry::entry;
use super::log::CurrentLog;
use super::sections::NamedSection;
use crate::catalog::family::FamilyState;
use crate::jobs::background::guarded;
use crate::shared::Shared;

/// A family and a key.
pub(crate) type FamilyKey = (u32, Vec<u8>);

/// The batch with which a log takes over the undecided sections.
pub(crate) struct MovedSections {
    batch: Encoded,
    /// The number of sections.
    count: u64,
}

impl Shared {
    /// Returns the batch with which the next log takes over the undecided sections, unless there are none or they are not
    /// written early. The caller leads, or opens the database.
    ///
    /// # Errors
    ///
    /// Those of reads.
    pub(crate) fn moved_sections(&self) -> Result<Option<MovedSections>> {
        if !self.writes.sections.are_early() {
            return Ok(None);
        }
        let sections = self.writes.sections.begin_move();
        match sections.is_empty() {
            true => Ok(None),
            false => self.take_over(&sections, None).map(Some),
        }
    }

    /// Returns the batch that hides the `sections` in logs and has them again, except that of the transaction
    /// `rolled_back`.
    fn take_over(
        &self,
        sections: &[NamedSection],
        rolled_back: Option<&[u8]>,
    ) -> Result<MovedSections> {
        let mut seen = HashSet::new();
        let mut batch = Encoded::new();
        for (_, section) in sections {
            self.restore(section, &mut seen, &mut batch)?;
        }
        for (name, _) in sections {
            batch.mark_rollback(name)?;
        }
        for (name, section) in sections {
            if rolled_back != Some(name) {
                batch.append(&section.view())?;
            }
        }
        cairn_wal::check_record(batch.byte_len() as u64)?;
        let count = sections.len() as u64;
        Ok(MovedSections { batch, count })
    }

    /// Rolls back the transaction `name`, whose section is being decided and is written early.
    ///
    /// The lead is held from the reads of the present values to the write of the batch, because keys may be written
    /// without locks. If other sections have some of the keys, they are logged again, after these values.
    ///
    /// # Errors
    ///
    /// Those of reads; `IoError`.
    pub(crate) fn roll_back_early(
        self: &Arc<Self>,
        name: &[u8],
        section: &Arc<Encoded>,
        options: &WriteOptions,
    ) -> Result<()> {
        let notifies = Cell::new(false);
        let written = self.lead_alone().and_then(|_lead| {
            self.make_room(options.no_slowdown, &notifies)?;
            let mut sections = self.writes.sections.begin_move();
            let own = keys(section)?;
            let mut others = sections.iter().filter(|(other, _)| other != name);
            if !others.try_fold(false, |shared, (_, other)| {
                Ok::<_, Error>(shared || !keys(other)?.is_disjoint(&own))
            })? {
                sections.retain(|(other, _)| other == name);
            }
            let moved = self.take_over(&sections, Some(name))?;
            let next = self.writes.commits.allocated().plus(1);
            let batch = [(next, moved.batch.as_bytes())];
            let appended = self.append(&mut self.writes.writer.lock(), &batch, options.sync);
            appended.inspect_err(|error| self.log_failed(error))?;
            self.take_numbers(&moved);
            self.writes.sections.committed(name);
            Ok(())
        });
        if notifies.get() {
            self.telemetry.deliver();
        }
        written
    }

    /// Logs `moved` in `log`, which is new. The caller leads, or opens the database.
    ///
    /// # Errors
    ///
    /// `IoError`.
    pub(crate) fn log_moved(&self, moved: &MovedSections, log: &mut CurrentLog) -> Result<()> {
        let next = self.writes.commits.allocated().plus(1);
        log.append(&[(next, moved.batch.as_bytes())], true)?;
        self.writes.sections.end_move(&log.file());
        self.take_numbers(moved);
        Ok(())
    }

    /// Takes the sequence numbers of `moved`, which is logged. The caller leads, or opens the database.
    fn take_numbers(&self, moved: &MovedSections) {
        // RocksDB's recovery takes a number for each key that a batch has again, for a marker, and for a section.
        let taken = u64::from(moved.batch.count()) + 2 * moved.count;
        let last = SequenceNumber(self.writes.commits.allocated().0 + taken);
        self.writes.commits.skip_to(last);
    }

    /// Makes the sections that were moved durable, before the MANIFEST records that a family does not need the log that
    /// they were moved from.
    pub(crate) fn sync_moved_sections(&self) -> Result<()> {
        let Some(file) = self.writes.sections.moved_to() else {
            return Ok(());
        };
        file.sync(&*self.context.world.fs)
            .inspect_err(|error| self.log_failed(error))?;
        self.writes.sections.synced(&file);
        Ok(())
    }

    /// Adds records to `batch` that make the keys of `section` what they are at present, except those in `seen`.
    fn restore(
        &self,
        section: &Encoded,
        seen: &mut HashSet<FamilyKey>,
        batch: &mut Encoded,
    ) -> Result<()> {
        let families = self.catalog.families();
        let now = self.published();
        // A comparator of the program may panic.
        guarded("reading the keys of a transaction", || {
            callback::within(&self.context.info, Within::Insertion, || {
                for record in section.view().records() {
                    let record = record.map_err(|e| e.in_file("a prepared section", 0))?;
                    let Some((id, entry)) = entry(&record)? else {
                        continue;
                    };
                    let Some(family) = families.get(id) else {
                        continue;
                    };
                    if !seen.insert((id, entry.key.to_vec())) {
                        continue;
                    }
                    for (kind, value) in records_at(family, entry.key, now)? {
                        match kind {
                            ValueKind::Deletion => batch.delete(id, entry.key)?,
                            ValueKind::WideColumnEntity => {
                                batch.put_entity(id, entry.key, &value)?;
                            }
                            ValueKind::Merge => batch.merge(id, entry.key, &value)?,
                            _ => batch.put(id, entry.key, &value)?,
                        }
                    }
                }
                Ok(())
            })
        })
    }
}

/// Returns the keys of `section`.
fn keys(section: &Encoded) -> Result<HashSet<FamilyKey>> {
    let mut keys = HashSet::new();
    for record in section.view().records() {
        let record = record.map_err(|e| e.in_file("a prepared section", 0))?;
        keys.extend(entry(&record)?.map(|(id, entry)| (id, entry.key.to_vec())));
    }
    Ok(keys)
}

/// Returns the records that make `key` of `family` what it is at `seq`, as kinds and stored values: a deletion, an entity or
/// a value, then the merge operands on top, oldest first.
///
/// # Errors
///
/// Those of a read, except for those of a merge.
pub(crate) fn records_at(
    family: &FamilyState,
    key: &[u8],
    seq: SequenceNumber,
) -> Result<Vec<(ValueKind, Vec<u8>)>> {
    let stored = stored_versions(&family.view(), &LookupKey::new(key, seq))?;
    let base = match stored.base {
        Found::Missing => (ValueKind::Deletion, Vec::new()),
        Found::Value(value) => (ValueKind::Value, value.into()),
        Found::Entity(entity) => (ValueKind::WideColumnEntity, entity.into()),
    };
    let operands = stored.operands.into_iter();
    let operands = operands.map(|operand| (ValueKind::Merge, operand));
    Ok(std::iter::once(base).chain(operands).collect())
}
