//! Which range tombstones of its inputs a job writes.

use cairn_format::range_del::{Fragments, Tombstone};
use cairn_types::{KeyOrder, SequenceNumber};

use crate::below::Below;

/// The tombstones of `all` that are written: of each range the newest of each stripe between two
/// snapshots, and in the oldest stripe only if something below the output may lie under it.
/// History of keys with timestamps is kept whole.
pub(crate) fn written(
    order: &KeyOrder,
    all: &Fragments,
    snapshots: &[SequenceNumber],
    bottommost: bool,
    below: &Below,
) -> Fragments {
    let stripe = |seq: SequenceNumber| snapshots.partition_point(|&snapshot| snapshot < seq);
    let timestamps = order.timestamp_size() > 0;
    let mut kept: Vec<Tombstone> = Vec::new();
    for fragment in all.iter() {
        let mut last = None;
        for tombstone in fragment.tombstones() {
            let stripe = stripe(tombstone.seq);
            let range = tombstone.start.as_slice()..tombstone.end.as_slice();
            let vanishes = stripe == 0 && (bottommost || !below.may_touch(order, range));
            if timestamps || (last != Some(stripe) && !vanishes) {
                kept.push(tombstone);
            }
            last = Some(stripe);
        }
    }
    Fragments::build(order, kept)
}
