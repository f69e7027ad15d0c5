//! Tests each rule of the compaction iterator, and that reads do not change.

mod filtered;

use cairn_format::key;
use cairn_observe::statistics::Meter;
use cairn_platform::sync::Arc;
use cairn_types::{KeyOrder, Result, SequenceNumber, ValueKind};
use cairn_version::{FileMeta, TreeEdit, Version};
use proptest::prelude::*;

use crate::history::TimestampRules;
use crate::lower_levels::LowerLevels;
use crate::model::{Join, State, Write, compact, user, with_valid_single_deletions, writes};
use crate::sorted_runs::{self, Run};

/// Formats written entries: key, sequence number, kind and value.
fn shown(state: &State) -> Vec<String> {
    let points = state.points.iter().map(|(key, value)| {
        let parsed = key::parse(key).unwrap();
        let kind = match parsed.kind {
            ValueKind::Value => "put",
            ValueKind::Deletion => "del",
            ValueKind::SingleDeletion => "single",
            ValueKind::Merge => "merge",
            _ => "other",
        };
        let user = String::from_utf8_lossy(&parsed.user_key[3..]).into_owned();
        format!(
            "{user}@{} {kind} {}",
            parsed.seq,
            String::from_utf8_lossy(value)
        )
    });
    let tombstones = state.tombstones.iter().map(|tombstone| {
        let text = |key: &[u8]| String::from_utf8_lossy(&key[3..]).into_owned();
        format!(
            "{}..{}@{}",
            text(&tombstone.start),
            text(&tombstone.end),
            tombstone.seq
        )
    });
    points
        .map(|text| text.trim_end().to_owned())
        .chain(tombstones)
        .collect()
}

/// Compacts `writes`, numbered from 1, with nothing or with unknown data below.
fn of(writes: &[Write], snapshots: &[u64], bottommost: bool) -> Vec<String> {
    let mut state = State::default();
    state.write(writes, 1);
    let below = LowerLevels::anything();
    shown(&compact(
        &state,
        2,
        snapshots,
        Some(Join { partial: true }),
        bottommost,
        below,
    ))
}

use Write::{Delete, DeleteRange, Merge, Put, SingleDelete};

#[test]
fn of_one_stripe_the_newest_version_is_written() {
    let versions = [Put(1, 0), Put(1, 1), Put(1, 2)];
    assert_eq!(of(&versions, &[], false), ["001@3 put c"]);
    assert_eq!(of(&versions, &[1], false), ["001@3 put c", "001@1 put a"]);
}

#[test]
fn a_tombstone_survives_above_older_data_only() {
    let versions = [Put(1, 0), Delete(1)];
    assert_eq!(of(&versions, &[], false), ["001@2 del"]);
    assert!(of(&versions, &[], true).is_empty());
    assert_eq!(of(&versions, &[1], true), ["001@2 del", "001@0 put a"]);
}

#[test]
fn values_of_the_oldest_stripe_lose_their_number_at_the_bottom() {
    assert_eq!(
        of(&[Put(1, 0), Put(2, 0)], &[1], true),
        ["001@0 put a", "002@2 put a"]
    );
}

#[test]
fn a_single_deletion_and_its_value_cancel_out() {
    assert!(of(&[Put(1, 0), SingleDelete(1)], &[], false).is_empty());
    assert_eq!(
        of(&[Put(1, 0), SingleDelete(1)], &[1], false),
        ["001@2 single", "001@1 put a"]
    );
    assert_eq!(of(&[SingleDelete(1)], &[], false), ["001@1 single"]);
    assert!(of(&[SingleDelete(1)], &[], true).is_empty());
    assert_eq!(
        of(&[Merge(1, 0), SingleDelete(1)], &[], false),
        ["001@2 del"]
    );
}

/// Regression test: a flush dropped the older of two deletions, and an old value reappeared.
#[test]
fn a_cancelled_pair_leaves_an_older_single_deletion() {
    assert_eq!(
        of(&[SingleDelete(1), Put(1, 0), SingleDelete(1)], &[], false),
        ["001@1 single"]
    );
}

/// The newer value may be cancelled by its own single deletion in a job that does not see the oldest
/// value, which would reappear.
#[test]
fn a_single_deletion_stays_below_a_newer_value() {
    assert_eq!(
        of(&[SingleDelete(1), Put(1, 0)], &[], false),
        ["001@2 put a", "001@1 single"]
    );
    assert_eq!(
        of(&[SingleDelete(1), Put(1, 0)], &[], true),
        ["001@0 put a"]
    );
    assert_eq!(
        of(&[Put(1, 0), SingleDelete(1), Put(1, 2)], &[], false),
        ["001@3 put c"]
    );
    assert_eq!(
        of(&[Merge(1, 0), SingleDelete(1), Put(1, 2)], &[], true),
        ["001@0 put c"]
    );
}

#[test]
fn operands_become_a_value_if_their_base_is_known() {
    let stacked = [Put(1, 0), Merge(1, 1), Merge(1, 2)];
    assert_eq!(of(&stacked, &[], false), ["001@3 put a,B,C"]);
    assert_eq!(of(&stacked[1..], &[], true), ["001@0 put B,C"]);
    assert_eq!(of(&stacked[1..], &[], false), ["001@2 merge B,C"]);
    assert_eq!(
        of(&stacked, &[2], false),
        ["001@3 merge C", "001@2 put a,B"]
    );
    assert_eq!(of(&[Delete(1), Merge(1, 1)], &[], false), ["001@2 put B"]);
}

#[test]
fn range_tombstones_hide_within_their_stripe_and_vanish_at_the_bottom() {
    let writes = [Put(1, 0), DeleteRange(0, 3), Put(2, 1)];
    assert_eq!(of(&writes, &[], false), ["002@3 put b", "000..003@2"]);
    assert_eq!(of(&writes, &[], true), ["002@0 put b"]);
    assert_eq!(
        of(&writes, &[1], true),
        ["001@0 put a", "002@3 put b", "000..003@2"]
    );
    let twice = [DeleteRange(0, 3), DeleteRange(1, 2)];
    assert_eq!(
        of(&twice, &[], false),
        ["000..001@1", "001..002@2", "002..003@1"]
    );
}

/// Returns a lower level with the keys of `state`.
fn level_below(state: &State) -> LowerLevels {
    let order = KeyOrder::Bytewise;
    let internal = |user: &[u8], seq| {
        cairn_format::key::InternalKey::new(user, SequenceNumber(seq), ValueKind::Value)
    };
    let mut keys: Vec<Vec<u8>> = state
        .points
        .iter()
        .map(|(key, _)| key::user_key(key).to_vec())
        .collect();
    keys.sort();
    keys.dedup();
    let files = keys.iter().enumerate().map(|(at, user)| {
        let number = cairn_types::FileNumber(at as u64 + 1);
        (
            2,
            Arc::new(FileMeta::new(
                number,
                1,
                internal(user, 1),
                internal(user, 1),
            )),
        )
    });
    let edit = TreeEdit {
        added: files.collect(),
        ..TreeEdit::default()
    };
    LowerLevels::level(&Version::empty(order, 3).with_edit(&edit).unwrap(), 1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Compacting the newer part of a tree changes no read at any snapshot: at the bottom or above
    /// it, with or without a merge operator, once or twice.
    #[test]
    fn reads_are_unchanged(
        history in writes(60),
        cut in 0..60_usize,
        snapshots in proptest::collection::btree_set(1..60_u64, 0..5),
        runs in 1..5_usize,
        partial in any::<bool>(),
        operator in any::<bool>(),
    ) {
        let history = with_valid_single_deletions(history);
        let cut = cut.min(history.len());
        let (mut old, mut new) = (State::default(), State::default());
        old.write(&history[..cut], 1);
        new.write(&history[cut..], cut as u64 + 1);
        let snapshots: Vec<u64> = snapshots.into_iter().collect();
        let mut seqs = snapshots.clone();
        seqs.push(history.len() as u64);
        let before = old.with(&new).read_all(&seqs);
        let operator = || operator.then_some(Join { partial });

        // `level_below` does not show tombstones below a key, so only points may be there.
        old.tombstones.clear();
        let before_points = old.with(&new).read_all(&seqs);
        let once = compact(&new, runs, &snapshots, operator(), false, level_below(&old));
        prop_assert_eq!(&old.with(&once).read_all(&seqs), &before_points);
        let twice = compact(&once, 1, &snapshots, operator(), false, level_below(&old));
        prop_assert_eq!(&old.with(&twice).read_all(&seqs), &before_points);

        let (mut old, mut new) = (State::default(), State::default());
        old.write(&history[..cut], 1);
        new.write(&history[cut..], cut as u64 + 1);
        let flushed = compact(&new, runs, &snapshots, operator(), false, LowerLevels::anything());
        prop_assert_eq!(&old.with(&flushed).read_all(&seqs), &before);
        let all = old.with(&flushed);
        let bottom = compact(&all, runs, &snapshots, operator(), true, LowerLevels::anything());
        prop_assert_eq!(&bottom.read_all(&seqs), &before);
        if snapshots.is_empty() && operator().is_some() {
            prop_assert!(bottom.points.iter().all(|(key, _)| key::packed(key) == 1), "{:?}", shown(&bottom));
            prop_assert!(bottom.tombstones.is_empty());
        }
    }
}

/// Returns a compaction of `points`, which are read in this order.
fn iterator(
    points: Vec<(Vec<u8>, Vec<u8>)>,
    filter: Option<crate::filter::Filter>,
    cancel: crate::Cancel,
) -> super::CompactionIterator<sorted_runs::Merge<crate::model::List>> {
    let mut merge = sorted_runs::Merge::new(
        KeyOrder::Bytewise,
        vec![crate::model::List::unsorted(points)],
    );
    merge.start(None);
    let rules = super::Rules {
        filter,
        strict_single_deletions: false,
        zero_through: SequenceNumber::MAX,
        order: KeyOrder::Bytewise,
        snapshots: Vec::new(),
        merge_operator: None,
        dated: false,
        tombstones: Arc::default(),
        bottommost: false,
        below: LowerLevels::anything(),
        cancel,
        meter: Meter::default(),
        history: TimestampRules::default(),
    };
    super::CompactionIterator::new(merge, rules)
}

/// Reads all of `points` with a compaction that is cancelled from the start if `is_cancelled`.
fn read_all(points: Vec<(Vec<u8>, Vec<u8>)>, is_cancelled: bool) -> Result<usize> {
    let cancelled = Arc::new(cairn_platform::sync::AtomicBool::new(is_cancelled));
    let mut visible = iterator(points, None, crate::Cancel::any([cancelled]));
    let mut entries = 0;
    while visible.next(None)?.is_some() {
        entries += 1;
    }
    Ok(entries)
}

#[test]
fn a_cancelled_job_ends_with_aborted() {
    let mut state = State::default();
    let many: Vec<Write> = (0..2000_u32).map(|n| Put((n % 12) as u8, 1)).collect();
    state.write(&many, 1);
    let mut points = state.points;
    points.sort_by(|a, b| key::compare(&KeyOrder::Bytewise, &a.0, &b.0));
    let ended = read_all(points, true).unwrap_err();
    assert_eq!(ended.code(), cairn_types::Code::Aborted);
    assert_eq!(user(1), b"key001");
}

/// Regression: keys out of order were written to the output, or were a panic if assertions are enabled.
#[test]
fn keys_out_of_order_are_damage() {
    let point = |user: &[u8; 2], seq: u64, kind| {
        let mut key = Vec::new();
        key::append_internal(&mut key, user, SequenceNumber(seq), kind);
        (key, b"value".to_vec())
    };
    for kind in [ValueKind::Value, ValueKind::Deletion] {
        let all = [(b"aa", 9), (b"ab", 8), (b"ab", 3), (b"c_", 7), (b"d_", 1)];
        let points = |order: &[usize]| -> Vec<_> {
            let chosen = order.iter().map(|at| all[*at]);
            chosen.map(|(user, seq)| point(user, seq, kind)).collect()
        };
        assert!(read_all(points(&[0, 1, 2, 3, 4]), false).is_ok());
        for (order, named) in [
            ([0, 1, 3, 2, 4], "ab and sequence number 3 after c_ and 7"),
            ([0, 2, 1, 3, 4], "ab and sequence number 8 after ab and 3"),
            ([1, 0, 2, 3, 4], "aa and sequence number 9 after ab and 8"),
            ([0, 1, 2, 4, 3], "c_ and sequence number 7 after d_ and 1"),
        ] {
            let error = read_all(points(&order), false).expect_err(named);
            assert!(error.is_corruption(), "{error}");
            assert!(error.text().ends_with(named), "{error}");
        }
    }
}
