//! Replaying logs: from the records of WALs to entries of memtables.
//!
//! The recovered state is a prefix of the history, consistent across families: replay stops as the recovery
//! mode requires, and later records are dropped in every log, unless the next log continues with exactly the
//! next sequence number. The latter shows that the database had been reopened after the damage, so that
//! nothing is missing in between.

use std::collections::HashMap;

use cairn_format::batch::{BatchRef, PreparePolicy, Record, WriteBatch as Encoded};
use cairn_types::{Error, FileNumber, KeyOrder, Result, SequenceNumber, ValueKind};

use super::early_writes::EarlyWrites;
use crate::write::entry::entry;

/// The destination of replayed entries.
pub(crate) trait Sink {
    /// The comparator of the family, or `None` if it does not exist (any more).
    fn order(&self, family: u32) -> Option<KeyOrder>;
    /// The first log that the family needs.
    fn log_number(&self, family: u32) -> FileNumber;
    /// Checks that the value of an entry is in the blob file that its encoded index refers to.
    ///
    /// # Errors
    ///
    /// `Corruption` if it is not; `IoError` of the blob file.
    fn check_blob(
        &mut self,
        _family: u32,
        _seq: SequenceNumber,
        _key: &[u8],
        _index: &[u8],
    ) -> Result<()> {
        Ok(())
    }
    /// Checks that an entry, with the number `seq` if it has one, can be added to the family, if that exists.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the family is written by ingestion only.
    fn check_takes_writes(&self, _family: u32, _seq: Option<SequenceNumber>) -> Result<()> {
        Ok(())
    }
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
    /// The transactions, if the logs were written with the write policy "prepared" or "unprepared".
    early: Option<EarlyWrites>,
    /// True if the last batch ended with a no-op.
    ended_with_noop: bool,
    /// The number of batches that were applied.
    pub(crate) batches: u64,
}

/// Timestamp sizes that a log recorded, by family.
pub type RecordedSizes = HashMap<u32, usize>;

impl Replay {
    pub(crate) fn new(last: SequenceNumber) -> Replay {
        Replay {
            last,
            next: None,
            prepared: HashMap::new(),
            has_sections: false,
            largest: SequenceNumber::ZERO,
            is_old: false,
            early: None,
            ended_with_noop: false,
            batches: 0,
        }
    }

    /// Replays logs that were written with the write policy `policy`.
    pub(crate) fn of_policy(last: SequenceNumber, policy: PreparePolicy) -> Replay {
        Replay {
            early: (policy != PreparePolicy::WriteCommitted).then(|| EarlyWrites::new(policy)),
            ..Replay::new(last)
        }
    }

    /// Takes the transactions of logs that were written with another write policy.
    pub(crate) fn take_early(&mut self) -> Option<EarlyWrites> {
        self.early.take()
    }

    /// True if a batch that begins at `first` continues the replay without a gap.
    pub(crate) fn continues(&self, first: SequenceNumber) -> bool {
        self.next == Some(first)
    }

    /// Returns the number of transactions that were prepared but neither committed nor rolled back.
    pub(crate) fn undecided(&self) -> usize {
        let early = self.early.as_ref().map_or(0, EarlyWrites::undecided);
        self.prepared.len() + early
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
        if let Some(early) = &mut self.early {
            // The recovered entries are flushed, so that the new log has the sections alone.
            self.has_sections = true;
            let last = early.apply(&batch, log, sizes, sink)?;
            self.last = self.last.max(last);
            self.batches += 1;
            return sink.batch_done();
        }
        let mut seq = batch.sequence();
        // Numbers ascend, except that a part of a log that was not written may have the content of a deleted log. Its
        // entries are applied again at their numbers, but a section in it would be undecided again.
        self.is_old = seq < self.largest;
        let overlaps = seq > self.largest && self.next.is_some_and(|next| seq < next);
        if overlaps && self.ended_with_noop {
            return Err(other_policy(log));
        }
        self.largest = self.largest.max(seq);
        let mut section: Option<Encoded> = None;
        let mut ends_with_noop = false;
        for record in batch.records() {
            let record = record.map_err(malformed)?;
            if self.transaction(&record, &mut section, &mut seq, log, sink)? {
                continue;
            }
            ends_with_noop = matches!(record, Record::Noop);
            if let Some(section) = &mut section {
                // A prepared entry takes its number when it is committed.
                push_prepared(section, &record, log, sizes, sink)?;
                continue;
            }
            seq = add(&record, seq, log, Some(sizes), sink)?;
        }
        if section.is_some() {
            return Err(misplaced(log, "a prepared section without an end"));
        }
        self.next = Some(seq);
        self.ended_with_noop = ends_with_noop;
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
        sink: &mut dyn Sink,
    ) -> Result<bool> {
        use PreparePolicy::WriteCommitted;
        match *record {
            _ if section.is_some() && is_marker(record) => {
                return Err(misplaced(log, "a marker within a prepared section"));
            }
            Record::BeginPrepare(WriteCommitted) => {
                self.has_sections = true;
                section.insert(Encoded::new()).put_noop();
            }
            Record::BeginPrepare(_) => return Err(other_policy(log)),
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
                let Some(mut records) = self.prepared.remove(name) else {
                    return Ok(true);
                };
                if let Record::CommitWithTimestamp { timestamp, .. } = *record {
                    let size_of = |family| {
                        let order = sink.order(family);
                        order.map_or(0, |order| order.timestamp_size())
                    };
                    records = stamped(&records, timestamp, log, &size_of)?;
                }
                for record in records.view().records() {
                    let record =
                        record.map_err(|e| e.in_file(format!("a transaction of {log}.log"), 0))?;
                    *seq = add(&record, *seq, log, None, sink)?;
                }
            }
            Record::Rollback { name } => drop(self.prepared.remove(name)),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Checks that the values of the batch `bytes` of the log `log` that are in blob files can be read. Damage of the batch is
/// left to [`Replay::apply`].
///
/// # Errors
///
/// Those of [`Sink::check_blob`].
pub(crate) fn check_blobs(bytes: &[u8], log: FileNumber, sink: &mut dyn Sink) -> Result<()> {
    let Ok(batch) = BatchRef::parse(bytes) else {
        return Ok(());
    };
    let mut seq = batch.sequence();
    for record in batch.records().map_while(Result::ok) {
        if let Record::PutBlobIndex { family, key, index } = record
            && log >= sink.log_number(family)
        {
            sink.check_blob(family, seq, key, index)?;
        }
        if matches!(entry(&record), Ok(Some(_))) {
            seq = seq.plus(1);
        }
    }
    Ok(())
}

/// Returns the records of a section with `timestamp` in the keys of families whose keys have timestamps: they were
/// logged with a placeholder, because the commit decides the timestamp. `size_of` returns the size of the timestamps of a
/// family.
pub(crate) fn stamped(
    section: &Encoded,
    timestamp: &[u8],
    log: FileNumber,
    size_of: &dyn Fn(u32) -> usize,
) -> Result<Encoded> {
    let mut stamped = Encoded::new();
    for record in section.view().records() {
        let record = record.map_err(|e| e.in_file(format!("a transaction of {log}.log"), 0))?;
        let size = record.family().map_or(0, size_of);
        if size == 0 {
            stamped.push(&record)?;
            continue;
        }
        let stamp = |key: &[u8]| match key.len().checked_sub(size) {
            Some(len) if size == timestamp.len() => Ok([&key[..len], timestamp].concat()),
            _ => Err(misplaced(log, "a commit with a timestamp of another size")),
        };
        match record {
            Record::Put { family, key, value } => stamped.put(family, &stamp(key)?, value)?,
            Record::Delete { family, key } => stamped.delete(family, &stamp(key)?)?,
            Record::SingleDelete { family, key } => stamped.single_delete(family, &stamp(key)?)?,
            Record::Merge {
                family,
                key,
                operand,
            } => stamped.merge(family, &stamp(key)?, operand)?,
            Record::DeleteRange { family, begin, end } => {
                stamped.delete_range(family, &stamp(begin)?, &stamp(end)?)?;
            }
            Record::PutEntity {
                family,
                key,
                entity,
            } => stamped.put_entity(family, &stamp(key)?, entity)?,
            record => {
                return Err(Error::not_supported(format!(
                    "{record:?} in a transaction with timestamps"
                )));
            }
        }
    }
    Ok(stamped)
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

/// The error for a log that RocksDB wrote with another write policy. There, a batch takes one sequence number instead of
/// one for each entry, and entries of transactions are in memtables and tables before they are committed. Such a batch
/// ends with a marker, or else with a no-op. A batch of several entries that ends with a no-op and overlaps the numbers
/// of the next one gives the policy away; with other policies, only a merged write of a transaction without writes ends
/// with a no-op, and numbers do not overlap.
#[cold]
pub(super) fn other_policy(log: FileNumber) -> Error {
    Error::not_supported(format!(
        "{log}.log was written by a transaction database with another write policy: open it with that policy, or once \
         with TransactionDb::convert, which changes it to WRITE_COMMITTED"
    ))
}

#[cold]
pub(super) fn misplaced(log: FileNumber, what: &str) -> Error {
    Error::corruption(format!("a batch of {log}.log has {what}"))
}

/// Adds a prepared `record` to its section. Its log has recorded the sizes of timestamps, which must be those of now.
fn push_prepared(
    section: &mut Encoded,
    record: &Record<'_>,
    log: FileNumber,
    sizes: &RecordedSizes,
    sink: &dyn Sink,
) -> Result<()> {
    let family = record.family();
    let order = family.and_then(|family| sink.order(family));
    if let Some(family) = family {
        sink.check_takes_writes(family, None)?;
    }
    let running = order.map(|order| order.timestamp_size());
    let recorded = family.and_then(|family| sizes.get(&family).copied());
    if let Some(running) = running
        && running != recorded.unwrap_or(0)
    {
        return Err(Error::not_supported(format!(
            "{log}.log has a prepared transaction with timestamps of {} bytes, where the comparator of the column \
             family has {running}",
            recorded.unwrap_or(0)
        )));
    }
    section.push(record)
}

/// Passes the entry of `record` to `sink` at `seq`, unless the family's tables already contain it. Returns
/// the sequence number of the next record. Without `sizes`, the entry has the timestamps of now.
pub(super) fn add(
    record: &Record<'_>,
    seq: SequenceNumber,
    log: FileNumber,
    sizes: Option<&RecordedSizes>,
    sink: &mut dyn Sink,
) -> Result<SequenceNumber> {
    let Some((family, entry)) = entry(record)? else {
        return Ok(seq);
    };
    if seq > SequenceNumber::MAX {
        return Err(misplaced(
            log,
            "more entries than there are sequence numbers",
        ));
    }
    let next = seq.plus(1);
    let Some(order) = sink
        .order(family)
        .filter(|_| log >= sink.log_number(family))
    else {
        return Ok(next);
    };
    sink.check_takes_writes(family, Some(seq))?;
    let running = order.timestamp_size();
    let recorded = match sizes {
        Some(sizes) => sizes.get(&family).copied().unwrap_or(0),
        None => running,
    };
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

#[cfg(test)]
mod tests {
    use cairn_format::batch::HEADER_LEN;
    use cairn_types::Code;

    use super::*;

    /// Collects the entries of family 0, whose keys have timestamps, and of family 1.
    #[derive(Default)]
    struct Entries(Vec<(u64, Vec<u8>)>);

    impl Sink for Entries {
        fn order(&self, family: u32) -> Option<KeyOrder> {
            match family {
                0 => Some(KeyOrder::Bytewise),
                1 => KeyOrder::from_name("leveldb.BytewiseComparator.u64ts"),
                _ => None,
            }
        }

        fn log_number(&self, _family: u32) -> FileNumber {
            FileNumber(0)
        }

        fn add(&mut self, _: u32, seq: SequenceNumber, _: ValueKind, key: &[u8], _: &[u8]) {
            self.0.push((seq.0, key.to_vec()));
        }

        fn batch_done(&mut self) -> Result<()> {
            Ok(())
        }
    }

    fn apply(replay: &mut Replay, batch: &[u8], entries: &mut Entries) -> Result<()> {
        let sizes = RecordedSizes::from([(1, 8)]);
        replay.apply(batch, FileNumber(7), &sizes, entries)
    }

    fn numbered(seq: u64, mut batch: Encoded) -> Vec<u8> {
        batch.set_sequence(SequenceNumber(seq));
        batch.into_bytes()
    }

    fn section(seq: u64, name: &[u8], keys: &[&[u8]]) -> Vec<u8> {
        let mut batch = Encoded::new();
        for key in keys {
            batch.put(0, key, b"").unwrap();
        }
        numbered(seq, Encoded::prepared_section(&batch.view(), name).unwrap())
    }

    fn commit(seq: u64, name: &[u8]) -> Vec<u8> {
        let mut batch = Encoded::new();
        batch.mark_commit(name).unwrap();
        numbered(seq, batch)
    }

    /// With another write policy, the entries of a batch share one number: taken for one each, a later batch would be
    /// hidden by an earlier one.
    #[test]
    fn logs_of_other_write_policies_are_refused() {
        let ended = |seq, keys: &[&[u8]], noop: bool| {
            let mut batch = Encoded::new();
            for key in keys {
                batch.put(0, key, b"").unwrap();
            }
            if noop {
                batch.put_noop();
            }
            numbered(seq, batch)
        };
        let run = |batches: &[Vec<u8>]| {
            let (mut replay, mut entries) = (Replay::new(SequenceNumber(0)), Entries::default());
            let applied = batches
                .iter()
                .try_for_each(|batch| apply(&mut replay, batch, &mut entries));
            applied.map_err(|error| error.code())
        };
        let several = |noop| ended(1, &[b"a", b"k"], noop);
        assert_eq!(
            run(&[several(true), ended(2, &[b"k"], true)]),
            Err(Code::NotSupported)
        );
        // A write group whose last transaction wrote nothing.
        assert_eq!(run(&[several(true), ended(3, &[b"k"], false)]), Ok(()));
        assert_eq!(
            run(&[ended(1, &[b"a"], true), ended(2, &[b"k"], true)]),
            Ok(())
        );
        for (begin, policy) in [
            (0x12, PreparePolicy::WritePrepared),
            (0x13, PreparePolicy::WriteUnprepared),
        ] {
            let mut bytes = section(1, b"t", &[b"a"]);
            bytes[HEADER_LEN] = begin;
            let batch = BatchRef::parse(&bytes).unwrap();
            let first = batch.records().next().unwrap().unwrap();
            assert_eq!(first, Record::BeginPrepare(policy));
            assert_eq!(run(&[bytes]), Err(Code::NotSupported));
        }
    }

    #[test]
    fn a_section_takes_the_numbers_of_its_commit() {
        let (mut replay, mut entries) = (Replay::new(SequenceNumber(0)), Entries::default());
        let put = |seq, key: &[u8]| {
            let mut batch = Encoded::new();
            batch.put(0, key, b"").unwrap();
            numbered(seq, batch)
        };
        for batch in [
            section(1, b"t", &[b"a", b"b"]),
            put(1, b"c"),
            section(2, b"u", &[b"d"]),
            commit(2, b"t"),
            put(4, b"e"),
            // A section with smaller numbers is the content of another log.
            section(1, b"old", &[b"f"]),
            commit(1, b"u"),
        ] {
            apply(&mut replay, &batch, &mut entries).unwrap();
        }
        let keys: Vec<_> = entries.0.iter().map(|(seq, key)| (*seq, &**key)).collect();
        assert_eq!(keys, [(1, &b"c"[..]), (2, b"a"), (3, b"b"), (4, b"e")]);
        assert_eq!(replay.last, SequenceNumber(4));
        let undecided = replay.take_undecided();
        assert_eq!(undecided.keys().collect::<Vec<_>>(), [b"u"]);
        assert!(replay.has_sections());
    }

    #[test]
    fn a_commit_with_a_timestamp_stamps_the_keys_of_families_that_have_them() {
        let (mut replay, mut entries) = (Replay::new(SequenceNumber(0)), Entries::default());
        let mut batch = Encoded::new();
        batch.put(1, b"key........", b"").unwrap();
        batch.put(0, b"plain", b"").unwrap();
        let prepared = Encoded::prepared_section(&batch.view(), b"t").unwrap();
        apply(&mut replay, &numbered(1, prepared), &mut entries).unwrap();
        let mut marker = vec![0; HEADER_LEN];
        marker[0] = 1;
        marker.extend_from_slice(b"\x15\x08ABCDEFGH\x01t");
        apply(&mut replay, &marker, &mut entries).unwrap();
        assert_eq!(entries.0[0], (1, b"keyABCDEFGH".to_vec()));
        assert_eq!(entries.0[1], (2, b"plain".to_vec()));
    }

    #[test]
    fn misplaced_markers_are_corruption() {
        let whole = section(1, b"t", &[b"a"]);
        let (end, begin) = (whole.len() - 3, HEADER_LEN);
        let without_end = whole[..end].to_vec();
        let without_begin = [&whole[..begin], &whole[begin + 1..]].concat();
        let mut nested = whole.clone();
        nested.insert(begin, 9);
        let mut committed = whole.clone();
        committed.splice(end..end, *b"\x0b\x01t");
        for batch in [without_end, without_begin, nested, committed] {
            let mut replay = Replay::new(SequenceNumber(0));
            let error = apply(&mut replay, &batch, &mut Entries::default()).unwrap_err();
            assert!(error.is_corruption(), "{error}");
            assert_eq!(replay.undecided(), 0);
        }
    }

    /// Every change of one byte, and every truncation, of a log with prepared transactions is an error or a valid
    /// sequence of batches, whose undecided sections can be read.
    #[test]
    fn damaged_sections_never_panic() {
        let batches = [
            section(1, b"first", &[b"a", b"b"]),
            section(1, b"second", &[]),
            commit(1, b"first"),
        ];
        for (at, batch) in batches.iter().enumerate() {
            for place in 0..batch.len() {
                for changed in [0, 1, 9, 0x0a, 0x0b, 0x0c, 0x0d, 0x15, 0x7f, 0x80, 0xff] {
                    let mut damaged = batches.clone();
                    damaged[at][place] = changed;
                    read_all(&damaged);
                }
                let mut damaged = batches.clone();
                damaged[at].truncate(place);
                read_all(&damaged);
            }
        }
    }

    fn read_all(batches: &[Vec<u8>]) {
        let mut replay = Replay::new(SequenceNumber(0));
        for batch in batches {
            // An error ends the recovery, or skips the batch.
            let _ = apply(&mut replay, batch, &mut Entries::default());
        }
        for (name, section) in replay.take_undecided() {
            section.view().check().unwrap();
            assert_eq!(section.as_bytes()[HEADER_LEN], 9);
            assert!(section.as_bytes().ends_with(&name));
        }
    }
}
