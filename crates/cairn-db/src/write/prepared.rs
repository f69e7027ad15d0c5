//! Prepared sections of two-phase commit: logged writes that wait for the decision of their transaction.
//!
//! ```text
//! prepare    log  BeginPrepare, records, EndPrepare name    memtables  nothing
//! commit     log  Commit name                               memtables  the records, at new sequence numbers
//! roll back  log  Rollback name                             memtables  nothing
//! ```
//!
//! Only the log has the records of an undecided section, and of a committed one until the memtables with them are
//! flushed. Its log is kept until then: until the decision by [`Sections`], afterwards by the families that the records
//! were inserted into (`FamilyWrites::hold_log`).
//!
//! An opening, and the recovery from a failed log, write the undecided sections to the new log before the old ones are
//! released, so that the new log alone is needed.
//!
//! Invariants:
//!
//! P1. A section is registered before it is logged, with a log that is not newer than the one it is in.
//! P2. A section is unregistered after its records hold the log, or after its rollback is logged.
//! P3. At most one thread decides a section.
//! P4. Without an insertion in progress, a registered section is not committed, so that it can be moved to another log.

use std::collections::HashMap;
use std::sync::Arc;

use cairn_format::batch::WriteBatch as Encoded;
use cairn_options::WriteOptions;
use cairn_platform::sync::{AtomicU64, Mutex, Ordering};
use cairn_types::{Error, FileNumber, Result, SequenceNumber};

use super::log::CurrentLog;
use super::queue::Batch;
use crate::batch::WriteBatch;
use crate::db::Db;
use crate::shared::Shared;

/// The undecided sections of a database.
#[derive(Default)]
pub(crate) struct Sections {
    by_name: Mutex<HashMap<Vec<u8>, Section>>,
    /// The current log, or an older one.
    current_log: AtomicU64,
}

struct Section {
    /// The log with the section, or an older one.
    log: FileNumber,
    /// The records between their markers. The header has `log` in place of a sequence number.
    batch: Arc<WriteBatch>,
    state: State,
    /// True if it was logged again while it was being prepared or rolled back.
    moved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Preparing,
    Prepared,
    Deciding,
    /// The log has failed with the decision, which may be in it.
    InDoubt,
}

impl Sections {
    /// Records that sections are logged in `log` from now on.
    pub(crate) fn note_log(&self, log: FileNumber) {
        // Relaxed: a thread that reads the old number registers a section with a log that is too old.
        self.current_log.store(log.0, Ordering::Relaxed);
    }

    /// Returns the first log with an undecided section.
    pub(crate) fn first_log(&self) -> Option<FileNumber> {
        self.by_name.lock().values().map(|one| one.log).min()
    }

    /// Registers the section `name` (P1). Returns the records between their markers.
    fn begin(&self, name: &[u8], batch: &WriteBatch) -> Result<Arc<WriteBatch>> {
        let mut by_name = self.by_name.lock();
        if by_name.contains_key(name) {
            return Err(Error::invalid_argument(
                "a transaction of this name is already prepared",
            ));
        }
        let log = FileNumber(self.current_log.load(Ordering::Relaxed));
        let batch = Arc::new(batch.as_section(name, log)?);
        let section = Section {
            log,
            batch: batch.clone(),
            state: State::Preparing,
            moved: false,
        };
        by_name.insert(name.to_vec(), section);
        Ok(batch)
    }

    /// Ends the preparation of the section `name`. Returns false if it failed and the section has to be rolled back,
    /// because it was logged by another thread.
    fn end_prepare(&self, name: &[u8], logged: bool) -> bool {
        let mut by_name = self.by_name.lock();
        match by_name.get_mut(name) {
            Some(section) if logged || section.moved => {
                section.state = State::Prepared;
                logged
            }
            _ => {
                by_name.remove(name);
                true
            }
        }
    }

    /// Begins the decision of the section `name` (P3).
    fn begin_decision(&self, name: &[u8]) -> Result<Arc<WriteBatch>> {
        let mut by_name = self.by_name.lock();
        match by_name.get_mut(name) {
            Some(section) if section.state == State::Prepared => {
                section.state = State::Deciding;
                Ok(section.batch.clone())
            }
            Some(section) if section.state == State::InDoubt => Err(Error::aborted(
                "the log has failed with the decision of the transaction: it is known when the \
                 database is opened again",
            )),
            Some(section) => Err(Error::busy(format!(
                "the transaction is in state {:?}",
                section.state
            ))),
            None => Err(Error::invalid_argument(
                "no transaction of this name is prepared",
            )),
        }
    }

    /// Removes the section `name`, which is committed: the families that its records were inserted into hold its log.
    pub(crate) fn committed(&self, name: &[u8]) {
        self.by_name.lock().remove(name);
    }

    /// Removes the section `name`, whose rollback is logged. Returns false if it was moved to another log, which needs
    /// a rollback as well.
    fn rolled_back(&self, name: &[u8]) -> bool {
        let mut by_name = self.by_name.lock();
        if let Some(section) = by_name.get_mut(name).filter(|section| section.moved) {
            section.moved = false;
            return false;
        }
        by_name.remove(name);
        true
    }

    /// Ends a decision of the section `name` that has failed.
    fn decision_failed(&self, name: &[u8], next: State) {
        if let Some(section) = self.by_name.lock().get_mut(name) {
            section.state = next;
        }
    }

    /// Adds a recovered section.
    pub(crate) fn add_recovered(&self, name: Vec<u8>, section: Encoded) -> Result<()> {
        let batch = Arc::new(WriteBatch::of_section(section)?);
        let section = Section {
            log: FileNumber(0),
            batch,
            state: State::Prepared,
            moved: false,
        };
        self.by_name.lock().insert(name, section);
        Ok(())
    }

    /// Checks that the log, which has failed, has no decision of a registered section.
    ///
    /// # Errors
    ///
    /// `Aborted` if it may have one; `Busy` while a section is being decided.
    pub(crate) fn check_certain(&self) -> Result<()> {
        for (name, section) in &*self.by_name.lock() {
            let name = String::from_utf8_lossy(name);
            match section.state {
                State::InDoubt => {
                    return Err(Error::aborted(format!(
                        "the log has failed with the decision of the transaction {name:?}: open the \
                         database again"
                    )));
                }
                State::Deciding => {
                    return Err(Error::busy(format!(
                        "the transaction {name:?} is being decided"
                    )));
                }
                State::Preparing | State::Prepared => {}
            }
        }
        Ok(())
    }

    /// Logs all sections in `log`, which is new and takes over for the logs that have them now. The next sequence
    /// number is `next`. No insertion is in progress.
    ///
    /// # Errors
    ///
    /// `IoError`.
    pub(crate) fn move_to(&self, log: &mut CurrentLog, next: SequenceNumber) -> Result<()> {
        let mut by_name = self.by_name.lock();
        for section in by_name.values_mut() {
            let mut batch = (*section.batch).clone();
            batch.set_section_log(log.number());
            log.append(&[(next, batch.data())], true)?;
            section.batch = Arc::new(batch);
            section.log = log.number();
            section.moved = section.state != State::Prepared;
        }
        Ok(())
    }

    /// True if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.lock().is_empty()
    }

    /// Returns the sections that can be decided, by name.
    fn prepared(&self) -> Result<Vec<PreparedTransaction>> {
        let by_name = self.by_name.lock();
        let prepared = by_name
            .iter()
            .filter(|(_, one)| one.state == State::Prepared);
        let mut all = prepared
            .map(|(name, section)| {
                Ok(PreparedTransaction {
                    name: name.clone(),
                    batch: section.batch.without_markers(name)?,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }
}

/// A transaction that was prepared, and neither committed nor rolled back.
#[derive(Clone, Debug)]
pub struct PreparedTransaction {
    /// The name.
    pub name: Vec<u8>,
    /// The writes.
    pub batch: WriteBatch,
}

/// A decision.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decision {
    Commit,
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
        self.with_stored(batch, |batch| {
            self.check_write(batch, &options)?;
            let section = self.writes.sections.begin(name, batch)?;
            let parts = Batch::only_logged(section.data());
            let written = cairn_wal::check_record(section.data().len() as u64)
                .and_then(|()| self.write_checked(&section, parts, &options, None));
            if !self.writes.sections.end_prepare(name, written.is_ok()) {
                // If this fails as well, the transaction is prepared.
                let _ = self.decide(name, Decision::RollBack, &options);
            }
            written
        })
    }

    fn decide(
        self: &Arc<Self>,
        name: &[u8],
        decision: Decision,
        options: &WriteOptions,
    ) -> Result<()> {
        self.check_two_phase()?;
        let options = logged(options);
        self.context.check_process()?;
        options.check_supported()?;
        let mut marker = Encoded::new();
        match decision {
            Decision::Commit => marker.mark_commit(name)?,
            Decision::RollBack => marker.mark_rollback(name)?,
        }
        let section = self.writes.sections.begin_decision(name)?;
        let parts = match decision {
            Decision::Commit => Batch {
                logged: marker.as_bytes(),
                inserted: section.data(),
            },
            Decision::RollBack => Batch::only_logged(marker.as_bytes()),
        };
        loop {
            match self.write_checked(&section, parts, &options, None) {
                Ok(()) if decision == Decision::Commit => return Ok(()),
                Ok(()) if self.writes.sections.rolled_back(name) => return Ok(()),
                Ok(()) => {}
                Err(error) => {
                    let next = match self.check_failure() {
                        Ok(()) => State::Prepared,
                        Err(_) => State::InDoubt,
                    };
                    self.writes.sections.decision_failed(name, next);
                    return Err(error);
                }
            }
        }
    }
}

/// Markers are logged in any case: otherwise a transaction would be undecided again after a crash.
fn logged(options: &WriteOptions) -> WriteOptions {
    WriteOptions {
        disable_wal: false,
        ..options.clone()
    }
}

impl Db {
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
    /// thread decides it; `Aborted` if the log has failed in an earlier decision. After another error the transaction
    /// is still prepared.
    pub fn commit_prepared(&self, name: &[u8], options: &WriteOptions) -> Result<()> {
        self.shared().decide(name, Decision::Commit, options)
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
        self.shared().writes.sections.prepared()
    }
}
