//! Prepared sections of two-phase commit: logged writes that wait for the decision of their transaction.
//!
//! ```text
//! prepare    log  BeginPrepare, records, EndPrepare name    memtables  nothing
//! commit     log  Commit name                               memtables  the records, at new sequence numbers
//! roll back  log  Rollback name                             memtables  nothing
//! ```
//!
//! A commit may have further records before its marker and after it, which are logged and inserted in that order.
//!
//! RocksDB's write policies "prepared" and "unprepared" insert the records of a section at its prepare ("early"). Cairn
//! does not, but logs what RocksDB's recovery with such a policy needs to get the same content, which is read by
//! `open/early_writes.rs`:
//!
//! ```text
//! prepare     BeginPersistedPrepare, records, EndPrepare name    takes a number per record, at least one
//! commit      Commit name                                        takes at least one number
//! roll back   records with the earlier values, Rollback name     takes at least one number
//! other       records, Noop
//! ```
//!
//! In such a recovery, all records between two markers have one number, and a key that occurs again takes the next one.
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
//! P5. A section that is written early is in the current log, whenever a family can need only that: each switch of logs
//! moves it (`moved_sections.rs`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cairn_format::batch::{BatchRef, PreparePolicy, WriteBatch as Encoded};
use cairn_platform::sync::{AtomicU64, Mutex, Ordering};
use cairn_types::{Error, FileNumber, Result, SequenceNumber};

use super::log::{CurrentLog, LogFile};

/// The maximum number of logs in [`Sections::first_needed_by`]. With older logs, streams of updates read more.
const MAX_NEEDED_BY: usize = 4096;

/// The undecided sections of a database.
pub(crate) struct Sections {
    /// The write policy with which they are logged.
    policy: PreparePolicy,
    by_name: Mutex<HashMap<Vec<u8>, Section>>,
    /// The current log, or an older one.
    current_log: AtomicU64,
    /// For each of the last logs, the first log with a section that was undecided when it began.
    needed_by: Mutex<BTreeMap<FileNumber, FileNumber>>,
    /// The log that sections which are written early were moved to, until that is durable.
    moved_to: Mutex<Option<Arc<LogFile>>>,
}

/// The name of a transaction, and its section.
pub(crate) type NamedSection = (Vec<u8>, Arc<Encoded>);

struct Section {
    /// The log with the section, or an older one.
    log: FileNumber,
    /// The records between their markers. The header has `log` in place of a sequence number.
    batch: Arc<Encoded>,
    state: State,
    /// True if it was logged again while it was being prepared or rolled back.
    moved: bool,
    /// False until a section that is written early is logged.
    is_logged: bool,
}

/// The state of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Preparing,
    Prepared,
    Deciding,
    /// The log has failed with the decision, which may be in it.
    InDoubt,
}

impl Sections {
    /// Creates an empty set of sections that are logged with the write policy `policy`.
    pub(crate) fn new(policy: PreparePolicy) -> Sections {
        Sections {
            policy,
            by_name: Mutex::default(),
            current_log: AtomicU64::default(),
            needed_by: Mutex::default(),
            moved_to: Mutex::default(),
        }
    }

    /// Returns the write policy with which sections are logged.
    pub(crate) fn policy(&self) -> PreparePolicy {
        self.policy
    }

    /// True if the log has the form of early writes.
    pub(crate) fn are_early(&self) -> bool {
        self.policy != PreparePolicy::WriteCommitted
    }

    /// Sets the kind of `section`. With the policy "unprepared", only parts before the prepare are of another kind.
    fn set_kind(&self, section: &mut Encoded) {
        section.set_prepare_policy(match self.policy {
            PreparePolicy::WriteUnprepared => PreparePolicy::WritePrepared,
            policy => policy,
        });
    }

    /// Records that sections are logged in `log` from now on.
    pub(crate) fn note_log(&self, log: FileNumber) {
        // Relaxed: a thread that reads the old number registers a section with a log that is too old.
        self.current_log.store(log.0, Ordering::Relaxed);
        let first = self.first_log().map_or(log, |first| first.min(log));
        let mut needed_by = self.needed_by.lock();
        needed_by.insert(log, first);
        if needed_by.len() > MAX_NEEDED_BY {
            needed_by.pop_first();
        }
    }

    /// Returns the first log with a section that `log` or a later one can commit (P1, P2); `None` if that is not known.
    pub(crate) fn first_needed_by(&self, log: FileNumber) -> Option<FileNumber> {
        self.needed_by.lock().get(&log).copied()
    }

    /// Returns the first log with an undecided section.
    pub(crate) fn first_log(&self) -> Option<FileNumber> {
        self.by_name.lock().values().map(|one| one.log).min()
    }

    /// Registers the section `name` (P1). Returns the records between their markers.
    pub(crate) fn begin(&self, name: &[u8], batch: &BatchRef<'_>) -> Result<Arc<Encoded>> {
        // Copied without the lock.
        let mut section = Encoded::prepared_section(batch, name)?;
        self.set_kind(&mut section);
        let mut by_name = self.by_name.lock();
        if by_name.contains_key(name) {
            return Err(Error::invalid_argument(
                "a transaction of this name is already prepared",
            ));
        }
        let log = FileNumber(self.current_log.load(Ordering::Relaxed));
        section.set_sequence(SequenceNumber(log.0));
        let batch = Arc::new(section);
        let section = Section {
            log,
            batch: batch.clone(),
            state: State::Preparing,
            moved: false,
            is_logged: false,
        };
        by_name.insert(name.to_vec(), section);
        Ok(batch)
    }

    /// Ends the preparation of the section `name`. Returns false if it failed and the section has to be rolled back,
    /// because it was logged by another thread.
    pub(crate) fn end_prepare(&self, name: &[u8], logged: bool) -> bool {
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
    pub(crate) fn begin_decision(&self, name: &[u8]) -> Result<Arc<Encoded>> {
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

    /// Removes the section `name`, which is committed: the families that its records were inserted into hold its log. Or
    /// it is written early and was rolled back, with the lead.
    pub(crate) fn committed(&self, name: &[u8]) {
        self.by_name.lock().remove(name);
    }

    /// Removes the section `name`, whose rollback is logged. Returns false if it was moved to another log, which needs
    /// a rollback as well.
    pub(crate) fn rolled_back(&self, name: &[u8]) -> bool {
        let mut by_name = self.by_name.lock();
        if let Some(section) = by_name.get_mut(name).filter(|section| section.moved) {
            section.moved = false;
            return false;
        }
        by_name.remove(name);
        true
    }

    /// Ends a decision of the section `name` that has failed.
    pub(crate) fn decision_failed(&self, name: &[u8], next: State) {
        if let Some(section) = self.by_name.lock().get_mut(name) {
            section.state = next;
        }
    }

    /// Ends all doubt about decisions: the log that failed has none of them.
    pub(crate) fn settle(&self) {
        for section in self.by_name.lock().values_mut() {
            if section.state == State::InDoubt {
                section.state = State::Prepared;
            }
        }
    }

    /// Adds a recovered section.
    pub(crate) fn add_recovered(&self, name: Vec<u8>, mut section: Encoded) {
        self.set_kind(&mut section);
        let section = Section {
            log: FileNumber(0),
            batch: Arc::new(section),
            state: State::Prepared,
            moved: false,
            is_logged: true,
        };
        self.by_name.lock().insert(name, section);
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
            batch.set_sequence(SequenceNumber(log.number().0));
            log.append(&[(next, batch.as_bytes())], true)?;
            section.batch = Arc::new(batch);
            section.log = log.number();
            section.moved = section.state != State::Prepared;
        }
        Ok(())
    }

    /// Notes that the section `name`, which is written early, is logged.
    pub(crate) fn logged(&self, name: &[u8]) {
        if let Some(section) = self.by_name.lock().get_mut(name) {
            section.is_logged = true;
        }
    }

    /// Begins to move the sections that are written early to another log, and returns those that are logged, sorted by
    /// name. No insertion is in progress.
    pub(crate) fn begin_move(&self) -> Vec<NamedSection> {
        let mut by_name = self.by_name.lock();
        let logged = by_name.iter_mut().filter(|(_, one)| one.is_logged);
        let mut all: Vec<_> = logged
            .map(|(name, section)| {
                // If its preparation fails nevertheless, it is rolled back.
                section.moved = section.state == State::Preparing;
                (name.clone(), section.batch.clone())
            })
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// Ends a move to the current log, whose file is `file`.
    pub(crate) fn end_move(&self, file: &Arc<LogFile>) {
        let log = file.number();
        for section in self.by_name.lock().values_mut() {
            section.log = log;
        }
        *self.moved_to.lock() = Some(file.clone());
    }

    /// Returns the log that sections were moved to, unless that is durable.
    pub(crate) fn moved_to(&self) -> Option<Arc<LogFile>> {
        self.moved_to.lock().clone()
    }

    /// Forgets the log that sections were moved to, which has failed.
    pub(crate) fn forget_move(&self) {
        *self.moved_to.lock() = None;
    }

    /// Notes that the sections which were moved to the log `file` are durable.
    pub(crate) fn synced(&self, file: &Arc<LogFile>) {
        let mut moved_to = self.moved_to.lock();
        if moved_to.as_ref().is_some_and(|to| Arc::ptr_eq(to, file)) {
            *moved_to = None;
        }
    }

    /// True if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.lock().is_empty()
    }

    /// Returns the sections that can be decided, sorted by name.
    pub(crate) fn prepared(&self) -> Vec<NamedSection> {
        let by_name = self.by_name.lock();
        let prepared = by_name
            .iter()
            .filter(|(_, one)| one.state == State::Prepared);
        let mut all: Vec<_> = prepared
            .map(|(name, section)| (name.clone(), section.batch.clone()))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
}
