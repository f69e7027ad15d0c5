//! Which derived ranges a memtable accepts, and what readers see of them.

use std::sync::Arc;

use cairn_types::{KeyOrder, SequenceNumber, ValueKind};

use crate::{DerivedRange, Memtable, MemtableOptions, RangeTombstones};

fn with_entry(seq: u64) -> Memtable {
    let table = Memtable::new(KeyOrder::Bytewise, MemtableOptions::default());
    table.add(SequenceNumber(seq), ValueKind::Deletion, b"k", b"");
    table
}

fn range<'a>(seq: u64, deleted: u64, start: &'a str, end: &'a str) -> DerivedRange<'a> {
    DerivedRange {
        seq: SequenceNumber(seq),
        deleted: SequenceNumber(deleted),
        start: start.as_bytes(),
        end: end.as_bytes(),
    }
}

#[test]
fn a_range_older_than_the_entries_is_rejected() {
    let empty = Memtable::new(KeyOrder::Bytewise, MemtableOptions::default());
    assert!(!empty.add_derived_range(&range(9, 1, "a", "m")));
    assert!(empty.is_empty());
    let table = with_entry(5);
    assert!(!table.add_derived_range(&range(4, 1, "a", "m")));
    assert!(table.add_derived_range(&range(5, 1, "a", "m")));
    assert!(!table.add_derived_range(&range(6, 1, "m", "m")));
    assert_eq!((table.entries(), table.range_deletions()), (2, 1));
    assert_eq!(table.largest_seq(), SequenceNumber(5));
}

#[test]
fn a_range_that_another_scan_has_added_is_rejected() {
    let table = with_entry(5);
    table.add(SequenceNumber(6), ValueKind::RangeDeletion, b"a", b"f");
    // The tombstone at 6 does not cover the deletion at 7.
    assert!(table.add_derived_range(&range(9, 7, "b", "e")));
    assert!(!table.add_derived_range(&range(9, 7, "b", "e")));
    assert!(!table.add_derived_range(&range(11, 8, "c", "d")));
    // It does not cover deletions after 9, nor the end.
    assert!(table.add_derived_range(&range(12, 10, "c", "d")));
    assert!(table.add_derived_range(&range(9, 7, "b", "g")));
    // The newer one is not visible at 11.
    assert!(!table.add_derived_range(&range(11, 10, "x", "x")));
    assert_eq!(table.range_deletions(), 4);
}

#[test]
fn nothing_is_added_to_a_sealed_memtable_or_below_which_files_are_ingested() {
    let table = with_entry(5);
    table.stop_derived_ranges();
    assert!(!table.add_derived_range(&range(9, 1, "a", "m")));
    let table = with_entry(5);
    assert!(table.add_derived_range(&range(9, 1, "a", "m")));
    table.seal();
    assert!(!table.add_derived_range(&range(9, 1, "n", "q")));
    assert_eq!(table.raw_range_tombstones().len(), 1);
}

#[test]
fn derived_ranges_are_read_but_are_no_range_deletions() {
    let table = with_entry(5);
    assert!(table.add_derived_range(&range(9, 1, "a", "m")));
    let covering = |groups: RangeTombstones, key: &[u8]| {
        let groups = groups.iter();
        let seqs = groups.map(|it| it.covering(table.order(), key, SequenceNumber::MAX));
        seqs.max().unwrap_or_default().0
    };
    let all = |key| covering(table.range_tombstones(), key);
    let written = |key| covering(table.written_range_tombstones(), key);
    assert_eq!((all(b"b"), written(b"b")), (9, 0));
    table.add(SequenceNumber(7), ValueKind::RangeDeletion, b"a", b"c");
    assert_eq!((all(b"b"), written(b"b")), (9, 7));
    assert_eq!((all(b"d"), written(b"d")), (9, 0));
    table.add(SequenceNumber(10), ValueKind::RangeDeletion, b"a", b"c");
    assert_eq!((all(b"b"), written(b"b")), (10, 10));
    table.verify_range_tombstones().unwrap();
}

#[test]
fn a_sealed_memtable_does_not_change_while_scans_add_ranges() {
    for _ in 0..50 {
        let table = Arc::new(with_entry(1));
        std::thread::scope(|scope| {
            for scan in 0..3_u64 {
                let table = &table;
                scope.spawn(move || {
                    for n in 0..20 {
                        let start = format!("{n:02}{scan}");
                        let end = format!("{n:02}{}", scan + 1);
                        let _added = table.add_derived_range(&range(n + 2, 1, &start, &end));
                    }
                });
            }
            table.seal();
            let sealed = table.raw_range_tombstones();
            let counted = (table.range_deletions(), table.data_bytes());
            std::thread::yield_now();
            assert_eq!(table.raw_range_tombstones(), sealed);
            assert_eq!((table.range_deletions(), table.data_bytes()), counted);
        });
    }
}
