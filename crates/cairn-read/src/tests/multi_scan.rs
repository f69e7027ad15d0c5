//! How long a scan over many ranges keeps its planned reads.

use std::sync::Arc;

use cairn_options::ReadOptions;
use cairn_table::ScanRange;
use cairn_types::SequenceNumber;

use super::shape_of;
use super::world::{Change, World};
use crate::multi_scan::{MOST_PLANNED, MultiScanArgs, ScannedRanges};

/// Regression: the tombstones of a level kept the reads of the first ranges, with their blocks and tables.
#[test]
fn the_reads_of_ranges_end_when_the_next_ones_are_planned() {
    let key = |n: usize| (n as u32).to_be_bytes().to_vec();
    let count = MOST_PLANNED + 1;
    let puts = (0..count).map(|n| Change::Put(key(n), b"value".to_vec()));
    let deletion = Change::DeleteRange(key(3), key(5));
    let changes: Vec<_> = puts.chain([deletion]).collect();
    let world = World::new(&changes, &shape_of(&[changes.len()]));
    let ranges = (0..count).map(|n| ScanRange {
        start: key(n),
        limit: Some(key(n + 1)),
    });
    let args = MultiScanArgs {
        ranges: ranges.collect(),
        ..MultiScanArgs::default()
    };
    let (seq, options) = (SequenceNumber::MAX, ReadOptions::default());
    let planned = ScannedRanges::plan(world.view.clone(), seq, &options, args);
    let (mut iter, mut scanned) = planned.unwrap();
    let first = Arc::downgrade(scanned.planned().unwrap());
    for n in 0..count {
        assert_eq!(scanned.enter_next(&mut iter), Some(n));
        assert_eq!(iter.valid(), !(3..5).contains(&n));
        assert_eq!(first.strong_count() > 0, n < MOST_PLANNED);
    }
}
