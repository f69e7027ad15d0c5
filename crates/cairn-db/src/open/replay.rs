//! Replaying logs: from the records of WALs to entries of memtables.
//!
//! The recovered state is a prefix of the history, consistent across families: replay stops as the recovery
//! mode requires, and later records are dropped in every log, unless the next log continues with exactly the
//! next sequence number. The latter shows that the database had been reopened after the damage, so that
//! nothing is missing in between.

use std::collections::HashMap;

use cairn_format::batch::{BatchRef, Record, WriteBatch as Encoded};
use cairn_types::{Error, FileNumber, KeyOrder, Result, SequenceNumber, ValueKind};

use crate::write::entry::entry;

/// The destination of replayed entries.
pub(crate) trait Sink {
    /// The comparator of the family, or `None` if it does not exist (any more).
    fn order(&self, family: u32) -> Option<KeyOrder>;
    /// The first log that the family needs.
    fn log_number(&self, family: u32) -> FileNumber;
    /// Takes an entry.
    fn add(&mut self, family: u32, seq: SequenceNumber, kind: ValueKind, key: &[u8], value: &[u8]);
    /// Called after each complete batch; full memtables may be flushed.
    fn batch_done(&mut self) -> Result<()>;
}

/// A sink without families.
pub(crate) struct NoEntries;

impl Sink for NoEntries {
    fn order(&self, _family: u32) -> Option<KeyOrder> {
        None
    }

    fn log_number(&self, _family: u32) -> FileNumber {
        FileNumber(0)
    }

    fn add(&mut self, _: u32, _: SequenceNumber, _: ValueKind, _: &[u8], _: &[u8]) {}

    fn batch_done(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Applies the batches of logs in order, without reading files.
pub(crate) struct Replay {
    /// The last sequence number that was applied, or that is in the MANIFEST.
    pub(crate) last: SequenceNumber,
    /// The number of the next batch if nothing is missing; unknown before the first batch.
    next: Option<SequenceNumber>,
    /// Prepared sections that are neither committed nor rolled back, by transaction name.
    prepared: HashMap<Vec<u8>, Encoded>,
    /// True if a section was read.
    has_sections: bool,
    /// The largest number of a batch so far.
    largest: SequenceNumber,
    /// True if the current batch has a smaller number: its sections and decisions are ignored.
    is_old: bool,
    /// The number of batches that were applied.
    pub(crate) batches: u64,
}

/// Timestamp sizes that a log recorded, by family.
pub(crate) type RecordedSizes = HashMap<u32, usize>;

impl Replay {
    pub(crate) fn new(last: SequenceNumber) -> Replay {
        Replay {
            last,
            next: None,
            prepared: HashMap::new(),
            has_sections: false,
            largest: SequenceNumber::ZERO,
            is_old: false,
            batches: 0,
        }
    }

    /// True if a batch that begins at `first` continues the replay without a gap.
    pub(crate) fn continues(&self, first: SequenceNumber) -> bool {
        self.next == Some(first)
    }

    /// Returns the number of transactions that were prepared but neither committed nor rolled back.
    pub(crate) fn undecided(&self) -> usize {
        self.prepared.len()
    }

    /// Applies only the sections and decisions of the batch `bytes` of the log `log`, whose entries are in tables.
    pub(crate) fn apply_sections(&mut self, bytes: &[u8], log: FileNumber) -> Result<()> {
        let applied = self.apply(bytes, log, &RecordedSizes::new(), &mut NoEntries);
        self.next = None;
        applied
    }

    /// True if a prepared section was read, decided or not.
    pub(crate) fn has_sections(&self) -> bool {
        self.has_sections
    }

    /// Takes the sections of transactions that were prepared but neither committed nor rolled back, by name.
    pub(crate) fn take_undecided(&mut self) -> HashMap<Vec<u8>, Encoded> {
        std::mem::take(&mut self.prepared)
    }

    /// Applies the batch `bytes` of the log `log`.
    pub(crate) fn apply(
        &mut self,
        bytes: &[u8],
        log: FileNumber,
        sizes: &RecordedSizes,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let malformed = |e: cairn_types::Malformed| e.in_file(format!("a batch of {log}.log"), 0);
        let batch = BatchRef::parse(bytes).map_err(malformed)?;
        batch.check().map_err(malformed)?;
        let mut seq = batch.sequence();
        // Numbers ascend, except that a part of a log that was not written may have the content of a deleted log. Its
        // entries are applied again at their numbers, but a section in it would be undecided again.
        self.is_old = seq < self.largest;
        self.largest = self.largest.max(seq);
        let mut section: Option<Encoded> = None;
        for record in batch.records() {
            let record = record.map_err(malformed)?;
            if self.transaction(&record, &mut section, &mut seq, log, sizes, sink)? {
                continue;
            }
            if let Some(section) = &mut section {
                // A prepared entry takes its number when it is committed.
                section.push(&record)?;
                continue;
            }
            seq = add(&record, seq, log, sizes, sink)?;
        }
        if section.is_some() {
            return Err(misplaced(log, "a prepared section without an end"));
        }
        self.next = Some(seq);
        self.last = self.last.max(SequenceNumber(seq.0.saturating_sub(1)));
        self.batches += 1;
        sink.batch_done()
    }

    /// Handles the markers of two-phase commit. Returns true if `record` is one.
    fn transaction(
        &mut self,
        record: &Record<'_>,
        section: &mut Option<Encoded>,
        seq: &mut SequenceNumber,
        log: FileNumber,
        sizes: &RecordedSizes,
        sink: &mut dyn Sink,
    ) -> Result<bool> {
        use cairn_format::batch::PreparePolicy::WriteCommitted;
        match *record {
            _ if section.is_some() && is_marker(record) => {
                return Err(misplaced(log, "a marker within a prepared section"));
            }
            Record::BeginPrepare(WriteCommitted) => {
                self.has_sections = true;
                section.insert(Encoded::new()).put_noop();
            }
            Record::BeginPrepare(policy) => {
                return Err(Error::not_supported(format!(
                    "{log}.log holds transactions of the {policy:?} policy"
                )));
            }
            Record::EndPrepare { name } => {
                let Some(mut records) = section.take() else {
                    return Err(misplaced(
                        log,
                        "the end of a prepared section without a begin",
                    ));
                };
                records.mark_prepared(name)?;
                if !self.is_old {
                    self.prepared.insert(name.to_vec(), records);
                }
            }
            Record::Commit { .. }
            | Record::CommitWithTimestamp { .. }
            | Record::Rollback { .. }
                if self.is_old => {}
            Record::Commit { name } | Record::CommitWithTimestamp { name, .. } => {
                // A missing section was in a log that is no longer needed: its entries are in tables.
                let Some(records) = self.prepared.remove(name) else {
                    return Ok(true);
                };
                for record in records.view().records() {
                    let record =
                        record.map_err(|e| e.in_file(format!("a transaction of {log}.log"), 0))?;
                    *seq = add(&record, *seq, log, sizes, sink)?;
                }
            }
            Record::Rollback { name } => drop(self.prepared.remove(name)),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// True for the markers that are not part of a prepared section, and its begin.
fn is_marker(record: &Record<'_>) -> bool {
    matches!(
        record,
        Record::BeginPrepare(_)
            | Record::Commit { .. }
            | Record::CommitWithTimestamp { .. }
            | Record::Rollback { .. }
    )
}

#[cold]
fn misplaced(log: FileNumber, what: &str) -> Error {
    Error::corruption(format!("a batch of {log}.log has {what}"))
}

/// Passes the entry of `record` to `sink` at `seq`, unless the family's tables already contain it. Returns
/// the sequence number of the next record.
fn add(
    record: &Record<'_>,
    seq: SequenceNumber,
    log: FileNumber,
    sizes: &RecordedSizes,
    sink: &mut dyn Sink,
) -> Result<SequenceNumber> {
    let Some((family, entry)) = entry(record)? else {
        return Ok(seq);
    };
    let next = seq.plus(1);
    let Some(order) = sink
        .order(family)
        .filter(|_| log >= sink.log_number(family))
    else {
        return Ok(next);
    };
    let running = order.timestamp_size();
    let recorded = sizes.get(&family).copied().unwrap_or(0);
    if running == recorded {
        let kind = match entry.kind {
            ValueKind::Deletion if running > 0 => ValueKind::DeletionWithTimestamp,
            kind => kind,
        };
        sink.add(family, seq, kind, entry.key, entry.value);
        return Ok(next);
    }
    if running != 0 && recorded != 0 {
        return Err(Error::invalid_argument(format!(
            "{log}.log has timestamps of {recorded} bytes for column family {family}, whose \
             comparator wants {running}"
        )));
    }
    let key = restamped(entry.key, recorded, running);
    let kind = match entry.kind {
        ValueKind::Deletion if running > 0 => ValueKind::DeletionWithTimestamp,
        ValueKind::DeletionWithTimestamp => ValueKind::Deletion,
        kind => kind,
    };
    // The end of a range deletion is a key, too.
    let value = match kind {
        ValueKind::RangeDeletion => restamped(entry.value, recorded, running),
        _ => entry.value.to_vec(),
    };
    sink.add(family, seq, kind, &key, &value);
    Ok(next)
}

/// Returns `key` with its timestamp of `recorded` bytes replaced by the smallest one of `running` bytes.
fn restamped(key: &[u8], recorded: usize, running: usize) -> Vec<u8> {
    let mut key = key[..key.len().saturating_sub(recorded)].to_vec();
    key.resize(key.len() + running, 0);
    key
}
