//! Interleavings of a scan that adds a range, the switch that seals the memtable, and an ingestion.

use std::sync::Arc;

use cairn_types::{KeyOrder, SequenceNumber, ValueKind};
use loom::thread;

use crate::{DerivedRange, Memtable, MemtableOptions};

/// Adds a range while `stop` runs, and checks that what `stop` leaves behind stays.
fn explore(stop: fn(&Memtable)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let options = MemtableOptions {
            arena_block_size: 4096,
            ..MemtableOptions::default()
        };
        let table = Arc::new(Memtable::new(KeyOrder::Bytewise, options));
        assert!(table.add(SequenceNumber(1), ValueKind::Deletion, b"b", b""));
        let scan = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                table.add_derived_range(&DerivedRange {
                    seq: SequenceNumber(1),
                    deleted: SequenceNumber(1),
                    start: b"a",
                    end: b"c",
                })
            })
        };
        stop(&table);
        let left = (table.raw_range_tombstones().len(), table.entries());
        let is_added = scan.join().unwrap();
        assert_eq!(left.0, usize::from(is_added));
        assert_eq!((table.raw_range_tombstones().len(), table.entries()), left);
    });
}

#[test]
fn loom_a_sealed_memtable_does_not_change() {
    explore(Memtable::seal);
}

#[test]
fn loom_nothing_is_added_once_an_ingestion_looks() {
    explore(Memtable::stop_derived_ranges);
}
