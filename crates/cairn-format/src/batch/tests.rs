//! Round trips of write batches, and rejection of damage.

use super::*;
use cairn_types::{Decoded, SequenceNumber};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Change {
    kind: u8,
    family: u32,
    key: Vec<u8>,
    value: Vec<u8>,
    time: u64,
}

impl Change {
    fn apply(&self, batch: &mut WriteBatch) {
        let (family, key, value) = (self.family, &self.key[..], &self.value[..]);
        match self.kind {
            0 => batch.put(family, key, value),
            1 => batch.delete(family, key),
            2 => batch.single_delete(family, key),
            3 => batch.merge(family, key, value),
            4 => batch.delete_range(family, key, value),
            5 => batch.put_entity(family, key, value),
            6 => batch.put_blob_index(family, key, value),
            7 => batch.timed_put(family, key, value, self.time),
            8 => batch.put_log_data(value),
            9 => batch.mark_commit(value),
            10 => batch.mark_rollback(value),
            _ => {
                batch.put_noop();
                Ok(())
            }
        }
        .unwrap();
    }

    fn record(&self) -> Record<'_> {
        let (family, key, value) = (self.family, &self.key[..], &self.value[..]);
        match self.kind {
            0 => Record::Put { family, key, value },
            1 => Record::Delete { family, key },
            2 => Record::SingleDelete { family, key },
            3 => Record::Merge {
                family,
                key,
                operand: value,
            },
            4 => Record::DeleteRange {
                family,
                begin: key,
                end: value,
            },
            5 => Record::PutEntity {
                family,
                key,
                entity: value,
            },
            6 => Record::PutBlobIndex {
                family,
                key,
                index: value,
            },
            7 => Record::TimedPut {
                family,
                key,
                value,
                unix_seconds: self.time,
            },
            8 => Record::LogData(value),
            9 => Record::Commit { name: value },
            10 => Record::Rollback { name: value },
            _ => Record::Noop,
        }
    }
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let family = prop_oneof![Just(0), 1..4u32, any::<u32>()];
    let bytes = || vec(any::<u8>(), 0..20);
    let change = (0..12u8, family, bytes(), bytes(), any::<u64>()).prop_map(
        |(kind, family, key, value, time)| Change {
            kind,
            family,
            key,
            value,
            time,
        },
    );
    vec(change, 0..20)
}

fn built(changes: &[Change]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    changes.iter().for_each(|change| change.apply(&mut batch));
    batch
}

/// The records of `batch`, read with [`Records::next_put`] where that is possible.
fn with_puts<'a>(batch: &BatchRef<'a>) -> Decoded<Vec<Record<'a>>> {
    let mut records = batch.records();
    let mut all = Vec::new();
    loop {
        let next = match records.next_put() {
            Some((key, value)) => Some(Ok(Record::Put {
                family: 0,
                key,
                value,
            })),
            None => records.next(),
        };
        match next {
            Some(record) => all.push(record?),
            None => return Ok(all),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn batches_round_trip(changes in changes(), sequence in 0..=SequenceNumber::MAX.0) {
        let mut batch = built(&changes);
        batch.set_sequence(SequenceNumber(sequence));
        let read = BatchRef::parse(batch.as_bytes()).unwrap();
        prop_assert_eq!(read.sequence(), SequenceNumber(sequence));
        let records: Vec<_> = read.records().collect::<Decoded<_>>().unwrap();
        let expected: Vec<_> = changes.iter().map(Change::record).collect();
        prop_assert_eq!(&records, &expected);
        let counted = records.iter().filter(|record| record.is_counted()).count();
        prop_assert_eq!(read.count() as usize, counted);
        prop_assert_eq!(&with_puts(&read).unwrap(), &records);
    }

    #[test]
    fn truncated_batches_are_rejected(changes in changes(), cut in any::<prop::sample::Index>()) {
        let batch = built(&changes);
        let bytes = batch.as_bytes();
        let cut = cut.index(bytes.len());
        let result = BatchRef::parse(&bytes[..cut]).and_then(|batch| batch.check());
        // Truncation before uncounted records leaves a valid batch.
        let counts_all = WriteBatch::from_bytes(bytes[..cut].to_vec())
            .is_ok_and(|short| short.count() == batch.count());
        prop_assert!(result.is_err() || counts_all);
    }

    #[test]
    fn hostile_batches_fail_or_match_their_count(
        bytes in vec(any::<u8>(), 0..200)
    ) {
        if let Ok(batch) = BatchRef::parse(&bytes) {
            let read = batch.records().take_while(Result::is_ok).count();
            prop_assert!(read <= bytes.len());
            prop_assert_eq!(with_puts(&batch), batch.records().collect());
        }
    }

    #[test]
    fn going_back_restores_the_batch(before in changes(), after in changes()) {
        let mut batch = built(&before);
        let mark = batch.mark();
        after.iter().for_each(|change| change.apply(&mut batch));
        batch.go_back(mark);
        prop_assert_eq!(batch, built(&before));
    }

    #[test]
    fn appending_adds_records_and_counts(first in changes(), second in changes()) {
        let mut batch = built(&first);
        batch.append(&built(&second).view()).unwrap();
        let joined: Vec<_> = first.iter().chain(&second).cloned().collect();
        prop_assert_eq!(batch, built(&joined));
    }
}

#[test]
fn bytes_are_those_of_rocksdb() {
    let mut batch = WriteBatch::new();
    batch.set_sequence(SequenceNumber(0x0102));
    batch.put(0, b"k", b"vv").unwrap();
    batch.delete(300, b"k").unwrap();
    batch.delete_range(0, b"a", b"b").unwrap();
    batch.put_log_data(b"!").unwrap();
    let expected = b"\x02\x01\0\0\0\0\0\0\x03\0\0\0\
        \x01\x01k\x02vv\
        \x04\xac\x02\x01k\
        \x0f\x01a\x01b\
        \x03\x01!";
    assert_eq!(batch.as_bytes(), expected);
}

#[test]
fn puts_have_lengths_of_one_to_five_bytes() {
    for len in [0, 1, 127, 128, 16_383, 16_384, 1 << 21, 1 << 22] {
        let (long, short) = (vec![b'l'; len], b"s");
        for (key, value) in [(&long[..], &short[..]), (short, &long), (&long, &long)] {
            let mut batch = WriteBatch::new();
            batch.put(0, key, value).unwrap();
            let mut expected = vec![ValueKind::Value as u8];
            for part in [key, value] {
                crate::coding::put_varint64(&mut expected, part.len() as u64);
                expected.extend_from_slice(part);
            }
            assert_eq!(batch.records_bytes(), expected);
            let records = with_puts(&batch.view()).unwrap();
            assert_eq!(
                records,
                [Record::Put {
                    family: 0,
                    key,
                    value
                }]
            );
        }
    }
}

#[test]
fn unknown_tags_are_rejected_by_number() {
    for tag in [0x14u8, 0x1a, 0x7f, 0xff] {
        let mut bytes = vec![0; HEADER_LEN];
        bytes.extend([tag, 1, b'k']);
        let error = BatchRef::parse(&bytes).unwrap().check().unwrap_err();
        assert_eq!(error.at, HEADER_LEN);
        assert!(error.what.contains(&format!("{tag:#04x}")), "{error}");
    }
}

#[test]
fn a_wrong_count_is_rejected_after_the_last_record() {
    let mut batch = WriteBatch::new();
    batch.put(0, b"k", b"v").unwrap();
    batch.set_count(2);
    let mut records = batch.view().records();
    assert!(records.next().unwrap().is_ok());
    let error = records.next().unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "count of the write batch: expected 2, found 1 at offset 8"
    );
    assert!(records.next().is_none());
}

#[test]
fn prepared_batches_have_begin_and_end_markers() {
    let mut batch = WriteBatch::new();
    assert!(batch.mark_prepared(b"xid").is_err());
    batch.put_noop();
    batch.put(0, b"k", b"v").unwrap();
    batch.mark_prepared(b"xid").unwrap();
    let records: Vec<_> = batch.view().records().map(Result::unwrap).collect();
    assert_eq!(
        records.first(),
        Some(&Record::BeginPrepare(PreparePolicy::WriteCommitted))
    );
    assert_eq!(records.last(), Some(&Record::EndPrepare { name: b"xid" }));
    assert_eq!(batch.count(), 1);
}

#[test]
fn a_full_batch_rejects_further_records() {
    let mut batch = WriteBatch::new();
    batch.set_count(u32::MAX);
    let before = batch.clone();
    assert!(batch.put(0, b"k", b"v").is_err());
    assert!(batch.append(&built_one().view()).is_err());
    assert_eq!(batch, before);
}

#[test]
fn pieces_are_written_as_their_concatenation() {
    let pieces: [&[u8]; 4] = [b"", b"abc", &[7; 200], b"d"];
    let joined = pieces.concat();
    for family in [0, 300] {
        let (mut parts, mut whole) = (WriteBatch::new(), WriteBatch::new());
        parts.put_parts(family, &pieces, &pieces[1..]).unwrap();
        whole.put(family, &joined, &joined).unwrap();
        parts.merge_parts(family, &[b"k"], &pieces).unwrap();
        whole.merge(family, b"k", &joined).unwrap();
        parts.put_parts(family, &[], &[]).unwrap();
        whole.put(family, b"", b"").unwrap();
        assert_eq!(parts, whole);
    }
    let mut full = WriteBatch::new();
    full.set_count(u32::MAX);
    assert!(full.put_parts(0, &[b"k"], &[b"v"]).is_err());
    assert!(full.is_empty());
}

fn built_one() -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(0, b"k", b"v").unwrap();
    batch
}

#[test]
fn oversized_entries_are_rejected() {
    let max = crate::block::MAX_ENTRY_LEN;
    for (key, value) in [(0, max), (max, 0), (4, max - 4), (max / 2, max - max / 2)] {
        assert_eq!(check_entry(key, value), Ok(()));
    }
    for (key, value, words) in [
        (0, max + 1, "key and value together are too large"),
        (
            max / 2,
            max - max / 2 + 1,
            "key and value together are too large",
        ),
        (MAX_KEY_LEN, 0, "key and value together are too large"),
        (MAX_KEY_LEN + 1, 0, "key is too large"),
        (1, MAX_VALUE_LEN, "key and value together are too large"),
        (1, MAX_VALUE_LEN + 1, "value is too large"),
        (usize::MAX, usize::MAX, "key is too large"),
    ] {
        let error = check_entry(key, value).unwrap_err();
        assert_eq!(error.code(), cairn_types::Code::InvalidArgument);
        let text = error.to_string();
        assert!(
            text.contains(words) && text.contains(" bytes, found "),
            "{text}"
        );
    }
    // Covers every method that adds to a batch. The oversized input repeats one piece, so that it
    // is never allocated.
    let piece = vec![0; 1 << 20];
    let pieces: Vec<&[u8]> = vec![&piece; 1 << 12];
    let almost: Vec<&[u8]> = [&pieces[1..], &[&piece[63..]]].concat();
    let whole = vec![0; max + 1];
    let mut batch = built_one();
    let before = batch.clone();
    for value in [&pieces, &almost] {
        assert!(batch.put_parts(0, &[b"k"], value).is_err());
        assert!(batch.put_parts(3, value, &[b"v"]).is_err());
        assert!(batch.merge_parts(0, &[b"k"], value).is_err());
    }
    for value in [&whole[..], &whole[..max]] {
        assert!(batch.put(0, b"k", value).is_err());
        assert!(batch.put(0, value, b"v").is_err());
        assert!(batch.merge(2, b"k", value).is_err());
        assert!(batch.delete_range(0, value, b"z").is_err());
        assert!(batch.put_entity(0, b"k", value).is_err());
        assert!(batch.timed_put(0, b"k", &value[8..], 1).is_err());
    }
    assert!(batch.delete(0, &whole).is_err());
    assert!(batch.single_delete(0, &whole).is_err());
    assert_eq!(batch, before);
}

#[test]
fn the_sequence_numbers_of_a_batch_have_56_bits() {
    let header = |sequence: u64, count: u32| {
        let mut bytes = sequence.to_le_bytes().to_vec();
        bytes.extend_from_slice(&count.to_le_bytes());
        bytes
    };
    let last = SequenceNumber::MAX.0;
    for (sequence, count) in [(last, 0), (last, 1), (last - 2, 3)] {
        assert!(BatchRef::parse(&header(sequence, count)).is_ok());
    }
    for (sequence, count) in [(last + 1, 0), (last, 2), (u64::MAX, u32::MAX)] {
        assert!(BatchRef::parse(&header(sequence, count)).is_err());
    }
}
