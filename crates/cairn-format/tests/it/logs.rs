//! Logs, write batches and version edits written by RocksDB.

use cairn_format::batch::{BatchRef, Record};
use cairn_format::log::{Bytes, Event, LogReader, Predecessor, Reason};
use cairn_format::manifest::{FamilyChange, VersionEdit};
use cairn_types::SequenceNumber;

macro_rules! testdata {
    ($name:literal) => {
        &include_bytes!(concat!("../../testdata/", $name))[..]
    };
}

/// The edits of a MANIFEST, and the reason it ends before its last byte, if it does.
fn edits(file: &[u8]) -> (Vec<VersionEdit>, Option<Reason>) {
    let mut reader = LogReader::new(Bytes(file), 0);
    let mut edits = Vec::new();
    loop {
        match reader.next().unwrap() {
            Event::Record { payload, .. } => edits.push(VersionEdit::decode(payload).unwrap()),
            Event::Dropped(dropped) => return (edits, Some(dropped.reason)),
            Event::End(end) => {
                assert_eq!(end.offset, file.len() as u64);
                return (edits, None);
            }
            other => panic!("a MANIFEST holds no {other:?}"),
        }
    }
}

/// The batches of a WAL, the other events as text, and the reason it ends before its last byte.
fn batches(file: &[u8], number: u64) -> (Vec<Vec<u8>>, Vec<String>, Option<Reason>) {
    let mut reader = LogReader::new(Bytes(file), number);
    let (mut batches, mut events) = (Vec::new(), Vec::new());
    loop {
        match reader.next().unwrap() {
            Event::Record { payload, .. } => {
                BatchRef::parse(payload).unwrap().check().unwrap();
                batches.push(payload.to_vec());
            }
            Event::TimestampSizes(sizes) => {
                events.push(format!("{:?}", sizes.iter().collect::<Vec<_>>()));
            }
            Event::Dropped(dropped) => return (batches, events, Some(dropped.reason)),
            Event::End(_) => return (batches, events, None),
            other => events.push(format!("{other:?}")),
        }
    }
}

fn records(batch: &[u8]) -> Vec<Record<'_>> {
    let batch = BatchRef::parse(batch).unwrap();
    batch.records().map(Result::unwrap).collect()
}

#[test]
fn column_families_are_added_and_dropped_in_a_manifest() {
    let (edits, cut) = edits(testdata!("multi_cf_7_8.MANIFEST"));
    assert_eq!(cut, None);
    let changes: Vec<_> = edits
        .iter()
        .filter_map(|edit| Some((edit.family, edit.family_change.clone()?)))
        .collect();
    let add = |name: &str| FamilyChange::Add { name: name.into() };
    assert_eq!(
        changes,
        [
            (1, add("one")),
            (2, add("two")),
            (3, add("Zoé-utf8")),
            (4, add("dropped")),
            (4, FamilyChange::Drop)
        ]
    );
    assert_eq!(
        edits[0].comparator.as_deref(),
        Some("leveldb.BytewiseComparator")
    );
}

#[test]
fn manifests_of_rocksdb_11_9_round_trip_byte_for_byte() {
    for file in [
        testdata!("blob_gc_11_9.MANIFEST"),
        testdata!("wal_tracked_11_9.MANIFEST"),
        testdata!("torn_tail_11_9.MANIFEST"),
    ] {
        let mut reader = LogReader::new(Bytes(file), 0);
        while let Event::Record { payload, .. } = reader.next().unwrap() {
            assert_eq!(VersionEdit::decode(payload).unwrap().to_bytes(), payload);
        }
    }
}

#[test]
fn blob_files_and_their_garbage_are_found() {
    let (edits, cut) = edits(testdata!("blob_gc_11_9.MANIFEST"));
    assert_eq!(cut, None);
    let added: Vec<_> = edits
        .iter()
        .flat_map(|edit| &edit.tree.blob_additions)
        .collect();
    let garbage: Vec<_> = edits
        .iter()
        .flat_map(|edit| &edit.tree.blob_garbage)
        .collect();
    assert!(!added.is_empty() && !garbage.is_empty());
    for garbage in garbage {
        let file = added.iter().find(|file| file.number == garbage.number);
        assert!(file.unwrap().blob_count >= garbage.blob_count);
    }
    let linked = edits
        .iter()
        .flat_map(|edit| &edit.tree.new_files)
        .filter_map(|file| file.oldest_blob_file);
    for number in linked {
        assert!(added.iter().any(|file| file.number == number));
    }
}

#[test]
fn tracked_wals_are_found() {
    let (edits, _) = edits(testdata!("wal_tracked_11_9.MANIFEST"));
    let wals: Vec<_> = edits.iter().flat_map(|edit| &edit.wals.additions).collect();
    assert!(wals.iter().any(|wal| wal.synced_bytes.is_some()));
    let ended = edits.iter().filter_map(|edit| edit.wals.deleted_before);
    assert!(ended.max() > wals.first().map(|wal| wal.number));
}

#[test]
fn a_torn_manifest_ends_with_its_last_complete_edit() {
    let (edits, cut) = edits(testdata!("torn_tail_11_9.MANIFEST"));
    assert_eq!(cut, Some(Reason::TornBody));
    assert!(!edits.is_empty());
}

#[test]
fn prepared_sections_are_read_with_their_markers() {
    let (batches, _, cut) = batches(testdata!("two_pc_11_9.log"), 4);
    assert_eq!(cut, None);
    let records: Vec<_> = batches.iter().flat_map(|batch| records(batch)).collect();
    let count = |wanted: fn(&Record<'_>) -> bool| records.iter().filter(|r| wanted(r)).count();
    let prepared = count(|r| matches!(r, Record::EndPrepare { .. }));
    let commits = count(|r| matches!(r, Record::Commit { .. }));
    let rollbacks = count(|r| matches!(r, Record::Rollback { .. }));
    assert!(commits > 0 && rollbacks > 0);
    assert!(
        prepared > commits + rollbacks,
        "one transaction is still undecided"
    );
    assert_eq!(prepared, count(|r| matches!(r, Record::BeginPrepare(_))));
}

#[test]
fn timestamp_sizes_come_before_the_batches() {
    let (batches, events, cut) = batches(testdata!("udt_11_9.log"), 10);
    assert_eq!(cut, None);
    assert_eq!(events, ["[(0, 8)]"]);
    assert!(!batches.is_empty());
}

#[test]
fn logs_have_a_summary_of_their_predecessor() {
    let (_, events, cut) = batches(testdata!("predecessor_11_9.log"), 10);
    assert_eq!(cut, None);
    let expected = Predecessor {
        log_number: 8,
        bytes: 6958,
        last_sequence: SequenceNumber(160),
    };
    assert_eq!(events, [format!("{:?}", Event::Predecessor(expected))]);
}

#[test]
fn every_kind_of_change_is_read() {
    let (batches, _, cut) = batches(testdata!("value_types_11_9.log"), 12);
    assert_eq!(cut, None);
    let mut next = None;
    for batch in &batches {
        let batch = BatchRef::parse(batch).unwrap();
        assert_eq!(*next.get_or_insert(batch.sequence()), batch.sequence());
        next = Some(batch.sequence().plus(u64::from(batch.count())));
    }
    let records: Vec<_> = batches.iter().flat_map(|batch| records(batch)).collect();
    for wanted in [
        |r: &Record<'_>| matches!(r, Record::Put { .. }),
        |r: &Record<'_>| matches!(r, Record::Delete { .. }),
        |r: &Record<'_>| matches!(r, Record::SingleDelete { .. }),
        |r: &Record<'_>| matches!(r, Record::Merge { .. }),
        |r: &Record<'_>| matches!(r, Record::DeleteRange { .. }),
    ] {
        assert!(records.iter().any(wanted), "{records:?}");
    }
}

#[test]
fn a_recycled_log_ends_at_previous_content() {
    let file = testdata!("recycled_11_9.log");
    let (batches, _, cut) = batches(file, 16);
    assert_eq!(cut, Some(Reason::TornBody));
    assert!(!batches.is_empty());
    // Read under any other number, it has no record at all.
    let mut reader = LogReader::new(Bytes(file), 15);
    let Event::Dropped(dropped) = reader.next().unwrap() else {
        panic!("the first record belongs to log 16");
    };
    assert_eq!(dropped.reason, Reason::OldLogNumber(16));
}
