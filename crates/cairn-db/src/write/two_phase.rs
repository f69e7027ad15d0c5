//! Two-phase commit: transactions are prepared under a name, and decided later.
//!
//! [`crate::write::sections`] has the format and the undecided sections.

use std::sync::Arc;

use cairn_format::batch::{BatchRef, HEADER_LEN, PreparePolicy, WriteBatch as Encoded};
use cairn_options::WriteOptions;
use cairn_types::{Error, FileNumber, Result};

use crate::db::Db;
use crate::shared::Shared;
use crate::write::batch::WriteBatch;
use crate::write::bypass::Bypass;
use crate::write::queue::Batch;
use crate::write::sections::State;

/// A transaction that was prepared, and neither committed nor rolled back.
#[derive(Clone, Debug)]
pub struct PreparedTransaction {
    /// The name.
    pub name: Vec<u8>,
    /// The writes.
    pub batch: WriteBatch,
}

/// Further parts of the commit of a prepared transaction. Their writes are not part of what was prepared, and take effect
/// together with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommitParts<'a> {
    /// Writes that precede those of the transaction (RocksDB's commit-time batch).
    pub before: Option<&'a WriteBatch>,
    /// Writes that follow those of the transaction.
    pub after: Option<&'a WriteBatch>,
    /// The timestamp that the keys of the transaction get in families with timestamps. The keys of the other parts have
    /// theirs already.
    pub timestamp: Option<&'a [u8]>,
    /// True to add the writes as immutable memtables of their own instead of inserting them into the active memtables,
    /// which become immutable as well. Other writers then do not wait for the insertion of a large transaction. The
    /// writes are inserted nevertheless if there are range deletions among them, with
    /// [`WriteOptions::protection_bytes_per_key`], and if the next log cannot be created. In the last case the commit
    /// succeeds, because it is logged, and the failure is a background error.
    pub bypass_memtable: bool,
}

/// A decision.
#[derive(Clone, Copy)]
enum Decision<'a> {
    Commit(&'a CommitParts<'a>),
    RollBack,
}

impl Shared {
    fn check_two_phase(&self) -> Result<()> {
        match self.options().allow_2pc {
            true => Ok(()),
            false => Err(Error::not_supported(
                "two-phase commit in a database that was opened without allow_2pc",
            )),
        }
    }

    fn prepare(
        self: &Arc<Self>,
        name: &[u8],
        batch: &WriteBatch,
        options: &WriteOptions,
    ) -> Result<()> {
        self.check_two_phase()?;
        let options = logged(options);
        // The commit decides the timestamps.
        let mut complete;
        let mut batch = batch;
        if batch.lacks_timestamps() {
            complete = batch.clone();
            complete.has_placeholders = false;
            batch = &complete;
        }
        self.with_stored(batch, |batch| {
            self.check_write(batch, &options)?;
            let sections = &self.writes.sections;
            let end = match sections.are_early() {
                true => Some(end_of_early(batch, name)?),
                false => None,
            };
            let section = sections.begin(name, &batch.encoded().view())?;
            let parts = match &end {
                None => Batch::only_logged(section.as_bytes()),
                Some(end) => Batch {
                    logged: section.as_bytes(),
                    inserted: end.as_bytes(),
                    reserved: section.count().max(1),
                    protection: None,
                },
            };
            let written = cairn_wal::check_record(section.byte_len() as u64)
                .and_then(|()| self.write_checked(batch, parts, &options, None));
            if !sections.end_prepare(name, written.is_ok()) {
                // If this fails as well, the transaction is prepared.
                let _ = self.decide(name, Decision::RollBack, &options);
            }
            written
        })
    }

    fn decide(
        self: &Arc<Self>,
        name: &[u8],
        decision: Decision<'_>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.check_two_phase()?;
        let options = logged(options);
        // A decision that is not tried is not in doubt.
        self.check_writable()?;
        options.check_supported()?;
        let marker = self.marker_of(name, decision, &options)?;
        let mut section = self.writes.sections.begin_decision(name)?;
        let is_commit = matches!(decision, Decision::Commit(..));
        if let Decision::Commit(commit) = decision {
            let completed = self.complete_section(&mut section, commit);
            completed.inspect_err(|_| {
                self.writes.sections.decision_failed(name, State::Prepared);
            })?;
        }
        if !is_commit && self.writes.sections.are_early() {
            let rolled_back = self.roll_back_early(name, &section, &options);
            return rolled_back.inspect_err(|_| self.fail_decision(name));
        }
        // In logs of early writes, the marker takes a number like a record.
        let reserved = match self.writes.sections.are_early() {
            true => marker.count() + 1,
            false => 0,
        };
        let parts = match is_commit {
            true => Batch {
                logged: marker.as_bytes(),
                inserted: section.as_bytes(),
                reserved,
                protection: None,
            },
            false => Batch::only_logged(marker.as_bytes()),
        };
        let mut bypass = match decision {
            Decision::Commit(commit) if commit.bypass_memtable => {
                let log = FileNumber(section.view().sequence().0);
                self.bypass_of(&section.view(), Some(log), &options)
            }
            _ => None,
        };
        loop {
            let mut write = |check: Option<&mut dyn FnMut() -> Result<()>>| {
                self.write_decision(&section, parts, bypass.take(), &options, check)
            };
            let written = match is_commit && self.trace.is_on() {
                false => write(None),
                true => plain_writes(&section.view(), "a prepared section")
                    .and_then(|plain| self.trace_write(plain.as_bytes(), None, write)),
            };
            match written {
                Ok(()) if is_commit => return Ok(()),
                Ok(()) if self.writes.sections.rolled_back(name) => return Ok(()),
                Ok(()) => {}
                Err(error) => {
                    self.fail_decision(name);
                    return Err(error);
                }
            }
        }
    }
}

impl Shared {
    /// Returns the record of `decision` about the section `name`, with the writes that are committed with it.
    fn marker_of(
        &self,
        name: &[u8],
        decision: Decision<'_>,
        options: &WriteOptions,
    ) -> Result<Encoded> {
        let mut marker = Encoded::new();
        let Decision::Commit(commit) = decision else {
            marker.mark_rollback(name)?;
            return Ok(marker);
        };
        for writes in [commit.before, commit.after].into_iter().flatten() {
            self.check_write(writes, options)?;
        }
        if let Some(before) = commit.before {
            marker.append(&before.encoded().view())?;
        }
        match commit.timestamp {
            Some(timestamp) => marker.mark_commit_at(timestamp, name)?,
            None => marker.mark_commit(name)?,
        }
        if let Some(after) = commit.after {
            marker.append(&after.encoded().view())?;
        }
        cairn_wal::check_record(marker.byte_len() as u64)?;
        Ok(marker)
    }

    /// Ends the decision of the section `name`, which has failed.
    fn fail_decision(&self, name: &[u8]) {
        let next = match self.check_failure() {
            Ok(()) => State::Prepared,
            Err(_) => State::InDoubt,
        };
        self.writes.sections.decision_failed(name, next);
    }

    /// Sets the timestamps of a section that is committed, and adds the writes before and after it.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` without a timestamp if keys have timestamps, or for one of another size.
    fn complete_section(&self, section: &mut Arc<Encoded>, commit: &CommitParts<'_>) -> Result<()> {
        let families = self.catalog.families();
        let size_of = |id: u32| {
            let family = families.get(id);
            family.map_or(0, |family| family.order().timestamp_size())
        };
        if let Some(timestamp) = commit.timestamp {
            // The writes to a dropped family are ignored.
            Arc::make_mut(section).set_timestamps(timestamp, |id| Some(size_of(id)))?;
        } else if self.signals.has_timestamps() {
            for record in section.view().records() {
                let record = record.map_err(|e| e.in_file("a prepared section", 0))?;
                if record.family().is_some_and(|id| size_of(id) > 0) {
                    return Err(Error::invalid_argument("Must assign a commit timestamp"));
                }
            }
        }
        if let Some(before) = commit.before.filter(|before| !before.is_empty()) {
            let mut whole = before.encoded().clone();
            whole.set_sequence(section.view().sequence());
            whole.append(&section.view())?;
            *section = Arc::new(whole);
        }
        match commit.after {
            Some(after) if !after.is_empty() => {
                Arc::make_mut(section).append(&after.encoded().view())
            }
            _ => Ok(()),
        }
    }

    /// Writes the `parts` of a decision of `section`, past the memtable if there is a `bypass`.
    fn write_decision(
        self: &Arc<Self>,
        section: &Encoded,
        parts: Batch<'_>,
        bypass: Option<Bypass>,
        options: &WriteOptions,
        check: Option<&mut dyn FnMut() -> Result<()>>,
    ) -> Result<()> {
        if self.signals.has_stalls() {
            self.delay_write(&WriteBatch::of_section(section)?, options.no_slowdown)?;
        }
        match bypass {
            None => self.write_parts(parts, options, check),
            Some(bypass) => self.write_bypass(parts, bypass, options, check),
        }
    }
}

/// Returns the part of the prepare of `batch`, which is written early, that is inserted: with it, the section counts as
/// logged.
fn end_of_early(batch: &WriteBatch, name: &[u8]) -> Result<Encoded> {
    if batch.has_ranges() {
        return Err(Error::not_supported(
            "a range deletion in a prepared transaction, with the write policy WRITE_PREPARED or WRITE_UNPREPARED",
        ));
    }
    let mut end = Encoded::new();
    end.mark_end_prepare(name)?;
    Ok(end)
}

/// Markers are logged in any case: otherwise a transaction would be undecided again after a crash.
fn logged(options: &WriteOptions) -> WriteOptions {
    WriteOptions {
        disable_wal: false,
        ..options.clone()
    }
}

/// Returns the writes of `batch` without its markers. `name` is that of the batch in errors.
#[cold]
pub(crate) fn plain_writes(batch: &BatchRef<'_>, name: &str) -> Result<Encoded> {
    let mut plain = Encoded::new();
    for record in batch.records() {
        // Markers are not copied.
        plain.push(&record.map_err(|malformed| malformed.in_file(name, 0))?)?;
    }
    Ok(plain)
}

/// Returns the writes of the prepared section of the transaction `name`.
fn without_markers(section: &Encoded, name: &[u8]) -> Result<WriteBatch> {
    let empty = Encoded::prepared_section(&Encoded::new().view(), name)?;
    // The begin is a tag only; the end follows the records.
    let end = empty.records_bytes().len() - 1;
    let records = section.records_bytes();
    let mut bytes = section.as_bytes()[..HEADER_LEN].to_vec();
    bytes[..8].fill(0);
    bytes.extend_from_slice(&records[1..records.len() - end]);
    WriteBatch::from_data(&bytes)
}

impl Db {
    /// Returns the write policy with which sections are logged.
    #[must_use]
    pub fn prepare_policy(&self) -> PreparePolicy {
        self.shared().writes.sections.policy()
    }

    /// Logs `batch` as the writes of the transaction `name`, which take effect when it is committed with
    /// [`Db::commit_prepared`], also after a crash. The database must be open with `allow_2pc`. The log is written even
    /// with `disable_wal`.
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_with`]; `InvalidArgument` if a transaction of this name is prepared; `NotSupported` without
    /// `allow_2pc`.
    pub fn prepare(&self, name: &[u8], batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.shared().prepare(name, batch, options)
    }

    /// Commits the prepared transaction `name`: its writes become visible.
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_with`]; `InvalidArgument` if no transaction of this name is prepared; `Busy` while another
    /// thread decides it; `Aborted` if a sync of the log has failed in an earlier decision. After another error the
    /// transaction is still prepared, once the database has resumed.
    pub fn commit_prepared(&self, name: &[u8], options: &WriteOptions) -> Result<()> {
        self.commit_prepared_with(name, &CommitParts::default(), options)
    }

    /// Commits the prepared transaction `name` together with the writes in `parts`.
    ///
    /// # Errors
    ///
    /// Those of [`Db::commit_prepared`] and [`Db::write_with`]; `InvalidArgument` for a timestamp of another size, and
    /// for no timestamp if the transaction has keys of families with timestamps.
    pub fn commit_prepared_with(
        &self,
        name: &[u8],
        parts: &CommitParts<'_>,
        options: &WriteOptions,
    ) -> Result<()> {
        let none = WriteBatch::new();
        let shared = self.shared();
        shared.with_stored(parts.before.unwrap_or(&none), |before| {
            shared.with_stored(parts.after.unwrap_or(&none), |after| {
                let stored = CommitParts {
                    before: Some(before),
                    after: Some(after),
                    ..*parts
                };
                shared.decide(name, Decision::Commit(&stored), options)
            })
        })
    }

    /// Rolls the prepared transaction `name` back: its writes are discarded.
    ///
    /// # Errors
    ///
    /// Those of [`Db::commit_prepared`].
    pub fn roll_back_prepared(&self, name: &[u8], options: &WriteOptions) -> Result<()> {
        self.shared().decide(name, Decision::RollBack, options)
    }

    /// Returns the prepared transactions that are not decided, sorted by name.
    ///
    /// # Errors
    ///
    /// `Corruption`, which cannot occur for a transaction that was prepared or recovered.
    pub fn prepared(&self) -> Result<Vec<PreparedTransaction>> {
        let sections = self.shared().writes.sections.prepared();
        let all = sections.into_iter().map(|(name, section)| {
            Ok(PreparedTransaction {
                batch: without_markers(&section, &name)?,
                name,
            })
        });
        all.collect()
    }
}
