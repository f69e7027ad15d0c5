//! The range tombstones that a job writes.

use std::sync::Arc;

use cairn_format::range_del::{Fragment, Fragments, Tombstone};
use cairn_types::{KeyOrder, SequenceNumber};

use crate::history::TimestampRules;
use crate::lower_levels::LowerLevels;

/// Returns the tombstones of `all` to write: for each range the newest tombstone of each snapshot
/// stripe; in the oldest stripe only if a lower level may hold covered data.
pub(crate) fn written(
    order: &KeyOrder,
    all: &Arc<Fragments>,
    snapshots: &[SequenceNumber],
    bottommost: bool,
    below: &LowerLevels,
    history: &TimestampRules,
) -> Arc<Fragments> {
    debug_assert!(snapshots.is_sorted(), "snapshots ascend");
    if order.timestamp_size() > 0 {
        return written_with_timestamps(order, all, snapshots, bottommost, below, history);
    }
    let mut kept: Vec<Tombstone> = Vec::new();
    for fragment in all.iter() {
        let range = fragment.start..fragment.end;
        newest_of_stripes(&fragment, snapshots, |stripe, seq| {
            let vanishes = stripe == 0 && (bottommost || !below.may_touch(order, range.clone()));
            if !vanishes {
                kept.push(Tombstone {
                    start: fragment.start.to_vec(),
                    end: fragment.end.to_vec(),
                    seq,
                    ts: Vec::new(),
                });
            }
        });
    }
    Arc::new(Fragments::build(order, kept))
}

/// Returns the tombstones of `all` to write: all but those with old timestamps in the oldest stripe over ranges of which
/// no lower level may hold data. The old versions that they cover are dropped.
fn written_with_timestamps(
    order: &KeyOrder,
    all: &Arc<Fragments>,
    snapshots: &[SequenceNumber],
    bottommost: bool,
    below: &LowerLevels,
    history: &TimestampRules,
) -> Arc<Fragments> {
    let oldest = snapshots.first().copied().unwrap_or(SequenceNumber::MAX);
    let mut kept = Vec::new();
    for fragment in all.iter() {
        let range = fragment.start..fragment.end;
        let is_last = bottommost || !below.may_touch(order, range);
        for mut tombstone in fragment.tombstones() {
            let vanishes =
                is_last && tombstone.seq <= oldest && history.is_old(order, &tombstone.ts);
            if vanishes {
                continue;
            }
            if history.strips() {
                tombstone.ts.fill(0);
            }
            kept.push(tombstone);
        }
    }
    Arc::new(Fragments::build(order, kept))
}

/// Calls `visit` with the newest tombstone of each stripe and the number of older snapshots. Linear
/// in the number of stripes, not in the number of tombstones.
fn newest_of_stripes(
    fragment: &Fragment<'_>,
    snapshots: &[SequenceNumber],
    mut visit: impl FnMut(usize, SequenceNumber),
) {
    let mut visible = SequenceNumber::MAX;
    loop {
        let seq = fragment.newest(visible);
        if seq == SequenceNumber::ZERO {
            return;
        }
        debug_assert!(
            seq <= visible,
            "a tombstone of a newer stripe is not visible"
        );
        let stripe = snapshots.partition_point(|&snapshot| snapshot < seq);
        visit(stripe, seq);
        match stripe.checked_sub(1) {
            Some(before) => visible = snapshots[before],
            None => return,
        }
    }
}
