//! Replays logs of the write policies "prepared" and "unprepared", of RocksDB and of Cairn.
//!
//! With these policies, RocksDB writes the entries of a transaction before its commit: to the log, the memtables, and with
//! them to tables. A batch takes one sequence number, and one more each time that a key occurs in it again. The batches of
//! Cairn take at least as many ([`crate::write::sections`]).
//!
//! ```text
//! prepare               BeginPersistedPrepare, records, EndPrepare name
//! part of a transaction BeginUnprepare, records, EndPrepare name             before its prepare; policy "unprepared"
//! commit                Commit name
//! roll back             records that restore the earlier values, Rollback name
//! other writes          [Noop] records, Noop
//! ```
//!
//! Here, the entries of a transaction are applied with its commit, at the numbers of its parts: the locks of the
//! transaction exclude other writes to its keys between the two. Tables may have entries of transactions that are
//! undecided at the end. They are hidden by new entries with the earlier values, and the transaction becomes a section
//! that is logged again; one that was not prepared is rolled back in this way.
//!
//! Both become durable with the MANIFEST of the opening. An opening that is interrupted before begins anew. Sections that
//! it logged with the policy "committed" are ignored; others replace those before them ([`crate::write::moved_sections`]).

use std::collections::{HashMap, HashSet};

use cairn_format::batch::{BatchRef, PreparePolicy, Record, WriteBatch as Encoded};
use cairn_types::{Error, FileNumber, Result, SequenceNumber, ValueKind};

use super::replay::{RecordedSizes, Sink, add, misplaced, other_policy};
use crate::catalog::family::FamilyState;
use crate::write::entry::entry;
use crate::write::moved_sections::{FamilyKey, records_at};

/// The sequence numbers of the entries of a batch.
struct Numbers {
    seq: SequenceNumber,
    /// The keys with an entry at `seq`.
    keys: HashSet<FamilyKey>,
    /// True if nothing follows the end of the previous batch. A write group is logged as one batch.
    is_empty: bool,
}

impl Numbers {
    fn from(seq: SequenceNumber) -> Numbers {
        Numbers {
            seq,
            keys: HashSet::new(),
            is_empty: true,
        }
    }

    /// The number of the next entry, whose key is `key` of `family`.
    fn of(&mut self, family: u32, key: &[u8]) -> SequenceNumber {
        if !self.keys.insert((family, key.to_vec())) {
            self.end_batch();
            self.keys.insert((family, key.to_vec()));
        }
        self.is_empty = false;
        self.seq
    }

    /// Ends the batch: the next one takes the next number.
    fn end_batch(&mut self) {
        self.seq = self.seq.plus(1);
        self.keys.clear();
        self.is_empty = true;
    }
}

/// A part of a transaction, or all of it.
struct Part {
    first: SequenceNumber,
    log: FileNumber,
    records: Encoded,
    /// True if the transaction is prepared with this part.
    prepares: bool,
}

/// The transactions of logs that are replayed.
pub(crate) struct EarlyWrites {
    policy: PreparePolicy,
    /// The parts of undecided transactions, by name.
    parts: HashMap<Vec<u8>, Vec<Part>>,
}

impl EarlyWrites {
    pub(super) fn new(policy: PreparePolicy) -> EarlyWrites {
        EarlyWrites {
            policy,
            parts: HashMap::new(),
        }
    }

    /// Returns the number of undecided transactions.
    pub(super) fn undecided(&self) -> usize {
        self.parts.len()
    }

    /// True for sections that an interrupted opening logged again: with the policy "committed", and of transactions that
    /// are undecided in the logs before.
    fn has_copy(&self, batch: &BatchRef<'_>) -> bool {
        let mut records = batch.records().filter_map(Result::ok);
        let first = records.find(|record| !matches!(record, Record::Noop));
        let begin = Record::BeginPrepare(PreparePolicy::WriteCommitted);
        let mut names = records.filter_map(|record| match record {
            Record::EndPrepare { name } => Some(name),
            _ => None,
        });
        first == Some(begin)
            && names
                .next()
                .is_some_and(|name| self.parts.contains_key(name))
            && names.all(|name| self.parts.contains_key(name))
    }

    /// Applies the batch of the log `log`. Returns the last number that it takes.
    pub(super) fn apply(
        &mut self,
        batch: &BatchRef<'_>,
        log: FileNumber,
        sizes: &RecordedSizes,
        sink: &mut dyn Sink,
    ) -> Result<SequenceNumber> {
        if self.has_copy(batch) {
            return Ok(batch.sequence());
        }
        let mut numbers = Numbers::from(batch.sequence());
        let mut part: Option<Part> = None;
        for record in batch.records() {
            let record = record.map_err(|e| e.in_file(format!("a batch of {log}.log"), 0))?;
            match record {
                Record::BeginPrepare(_) if part.is_some() => {
                    return Err(misplaced(log, "a marker within a prepared section"));
                }
                Record::BeginPrepare(policy) => {
                    let fits = policy == self.policy || policy == PreparePolicy::WritePrepared;
                    if !fits {
                        return Err(other_policy(log));
                    }
                    part = Some(Part {
                        first: numbers.seq,
                        log,
                        records: Encoded::new(),
                        prepares: policy == PreparePolicy::WritePrepared,
                    });
                }
                Record::EndPrepare { name } => {
                    let Some(part) = part.take() else {
                        return Err(misplaced(
                            log,
                            "the end of a prepared section without a begin",
                        ));
                    };
                    self.parts.entry(name.to_vec()).or_default().push(part);
                    numbers.end_batch();
                }
                Record::Commit { name } => {
                    // Without parts, its log was no longer needed: its entries are in tables.
                    for part in self.parts.remove(name).into_iter().flatten() {
                        part.apply(sink)?;
                    }
                    numbers.end_batch();
                }
                Record::CommitWithTimestamp { .. } => return Err(other_policy(log)),
                Record::Rollback { name } => {
                    self.parts.remove(name);
                    numbers.end_batch();
                }
                // The batch of a transaction begins with a no-op.
                Record::Noop if numbers.is_empty => {}
                Record::Noop => numbers.end_batch(),
                record => {
                    let entry = entry(&record)?;
                    let seq = entry.map(|(family, entry)| numbers.of(family, entry.key));
                    numbers.is_empty = false;
                    match (&mut part, seq) {
                        (Some(part), _) => {
                            if let Some(family) = record.family() {
                                sink.check_takes_writes(family, None)?;
                            }
                            part.records.push(&record)?;
                        }
                        (None, Some(seq)) => {
                            add(&record, seq, log, Some(sizes), sink)?;
                        }
                        (None, None) => {}
                    }
                }
            }
        }
        match part {
            Some(_) => Err(misplaced(log, "a prepared section without an end")),
            None => Ok(numbers.seq),
        }
    }

    /// Hides the entries of undecided transactions in tables, with new entries after `last`. Returns the transactions
    /// that were prepared, as sections by name.
    pub(super) fn take_back(
        self,
        last: &mut SequenceNumber,
        sink: &mut dyn Sink,
        family_of: impl Fn(u32) -> Option<std::sync::Arc<FamilyState>>,
    ) -> Result<HashMap<Vec<u8>, Encoded>> {
        let mut sections = HashMap::new();
        for (name, parts) in self.parts {
            let mut section = Encoded::new();
            section.put_noop();
            let mut restored = HashSet::new();
            for part in &parts {
                for record in part.records.view().records() {
                    let record =
                        record.map_err(|e| e.in_file(format!("a batch of {}.log", part.log), 0))?;
                    section.push(&record)?;
                    let Some((id, entry)) = entry(&record)? else {
                        continue;
                    };
                    let Some(family) = family_of(id) else {
                        continue;
                    };
                    let is_in_tables = part.log < sink.log_number(id);
                    if !is_in_tables || !restored.insert((id, entry.key.to_vec())) {
                        continue;
                    }
                    if entry.kind == ValueKind::RangeDeletion || family.order().timestamp_size() > 0
                    {
                        return Err(Error::not_supported(
                            "a range deletion or a key with a timestamp in a transaction of another write policy",
                        ));
                    }
                    let before = SequenceNumber(part.first.0.saturating_sub(1));
                    for (kind, value) in records_at(&family, entry.key, before)? {
                        *last = last.plus(1);
                        sink.add(id, *last, kind, entry.key, &value);
                    }
                }
            }
            if parts.iter().any(|part| part.prepares) {
                section.mark_prepared(&name)?;
                sections.insert(name, section);
            }
        }
        Ok(sections)
    }
}

impl Part {
    /// Applies the entries, unless tables have them.
    fn apply(&self, sink: &mut dyn Sink) -> Result<()> {
        let mut numbers = Numbers::from(self.first);
        for record in self.records.view().records() {
            let record =
                record.map_err(|e| e.in_file(format!("a batch of {}.log", self.log), 0))?;
            if let Some((family, entry)) = entry(&record)? {
                let seq = numbers.of(family, entry.key);
                add(&record, seq, self.log, None, sink)?;
            }
        }
        Ok(())
    }
}
