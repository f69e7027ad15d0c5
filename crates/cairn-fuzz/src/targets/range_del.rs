//! Blocks of range tombstones, and their fragments.

use std::cmp::Ordering;

use cairn_format::range_del::Fragments;
use cairn_types::{KeyOrder, SequenceNumber};

use crate::memory_limit::Bound;

/// A tombstone has three vectors in memory and at least a dozen bytes in a block. With n overlapping
/// tombstones, fragments refer to each at most 2 log n times.
pub const BOUND: Bound = Bound {
    base: 256 << 10,
    factor: 24,
};

/// Decodes the block and queries its fragments.
pub fn run(data: &[u8]) {
    let order = KeyOrder::Bytewise;
    for global in [None, Some(SequenceNumber(9))] {
        let Ok(fragments) = Fragments::decode(data, &order, global) else {
            continue;
        };
        let mut last: Option<Vec<u8>> = None;
        for fragment in fragments.iter() {
            assert_eq!(order.compare(fragment.start, fragment.end), Ordering::Less);
            assert!(last.is_none_or(|last| order.compare(&last, fragment.start).is_le()));
            let seqs = fragment.seqs();
            assert!(seqs.is_sorted_by(|a, b| a >= b), "newest first");
            let newest = seqs.first().copied();
            let covering = fragments.covering(&order, fragment.start, SequenceNumber::MAX);
            assert_eq!(
                Some(covering),
                newest,
                "its start is covered by its newest tombstone"
            );
            last = Some(fragment.end.to_vec());
        }
        let _ = fragments.covering(&order, b"key0000100", SequenceNumber(100));
        let _ = fragments.memory();
    }
}
