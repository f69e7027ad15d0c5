//! Effects of a compaction filter on entries.

use cairn_platform::sync::{Arc, Mutex};
use cairn_types::{CompactionFilter, FilterDecision, FilterValue};
use proptest::prelude::*;

use super::shown;
use crate::filter::Filter;
use crate::lower_levels::LowerLevels;
use crate::model::{
    Join, State, Write, compact, compact_filtered, user, with_valid_single_deletions, writes,
};
use Write::{Delete, DeleteRange, Merge, Put};

/// A filter that calls a function and records its arguments.
struct Plan<F> {
    decide: F,
    calls: Arc<Mutex<Vec<String>>>,
}

impl<F: Fn(&str, FilterValue<'_>) -> FilterDecision + Send + Sync> CompactionFilter for Plan<F> {
    fn name(&self) -> &str {
        "plan"
    }

    fn filter(&self, level: usize, key: &[u8], value: FilterValue<'_>) -> FilterDecision {
        assert_eq!(level, 3);
        let key = std::str::from_utf8(&key[3..]).unwrap();
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        self.calls.lock().push(match value {
            FilterValue::Value(value) => format!("{key}={}", text(value)),
            FilterValue::MergeOperand(operand) => format!("{key}+{}", text(operand)),
            FilterValue::Entity(_) => key.to_owned(),
        });
        (self.decide)(key, value)
    }
}

/// Compacts `writes` with a filter; returns the output and the recorded calls.
fn filtered(
    writes: &[Write],
    snapshots: &[u64],
    bottommost: bool,
    decide: impl Fn(&str, FilterValue<'_>) -> FilterDecision + Send + Sync + 'static,
) -> (Vec<String>, Vec<String>) {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let plan = Plan {
        decide,
        calls: calls.clone(),
    };
    let mut state = State::default();
    state.write(writes, 1);
    let written = compact_filtered(
        &state,
        2,
        snapshots,
        Some(Join { partial: true }),
        bottommost,
        LowerLevels::anything(),
        Some(Filter::plain(Arc::new(plan), 3)),
    );
    let calls = calls.lock().clone();
    (shown(&written), calls)
}

proptest! {
    /// Without filters and range tombstones, most values are decided by a shorter function, with the same result.
    #[test]
    fn a_filter_that_keeps_everything_changes_nothing(
        history in writes(60),
        snapshots in prop::collection::btree_set(1..60_u64, 0..5),
        runs in 1..5_usize,
        bottommost in any::<bool>(),
        operator in any::<bool>(),
    ) {
        let mut history = with_valid_single_deletions(history);
        history.retain(|write| !matches!(write, DeleteRange(..)));
        let mut state = State::default();
        state.write(&history, 1);
        let snapshots: Vec<u64> = snapshots.into_iter().collect();
        let operator = || operator.then_some(Join { partial: true });
        let below = LowerLevels::anything;
        let keep = Plan {
            decide: |_: &str, _: FilterValue<'_>| FilterDecision::Keep,
            calls: Arc::default(),
        };
        let keep = Filter::plain(Arc::new(keep), 3);
        let plain = compact(&state, runs, &snapshots, operator(), bottommost, below());
        let kept = compact_filtered(
            &state, runs, &snapshots, operator(), bottommost, below(), Some(keep),
        );
        prop_assert_eq!(plain.points, kept.points);
    }
}

#[test]
fn removed_entries_become_deletions_above_older_data_and_vanish_at_the_bottom() {
    let remove = |key: &str, _: FilterValue<'_>| match key {
        "001" => FilterDecision::Remove,
        _ => FilterDecision::Keep,
    };
    let writes = [Put(1, 0), Put(2, 1)];
    assert_eq!(
        filtered(&writes, &[], false, remove).0,
        ["001@1 del", "002@2 put b"]
    );
    assert_eq!(filtered(&writes, &[], true, remove).0, ["002@0 put b"]);
}

#[test]
fn the_filter_sees_only_the_newest_version_of_a_key() {
    let change = |_: &str, _: FilterValue<'_>| FilterDecision::ChangeValue(b"new".to_vec());
    let (written, calls) = filtered(&[Put(1, 0), Put(1, 1)], &[1], false, change);
    assert_eq!(written, ["001@2 put new", "001@1 put a"]);
    assert_eq!(calls, ["001=b"]);
    let (written, calls) = filtered(&[Put(1, 0), Delete(1)], &[1], false, change);
    assert_eq!(written, ["001@2 del", "001@1 put a"]);
    assert!(calls.is_empty(), "{calls:?}");
}

/// Short distances are skipped by steps, long ones by a seek; the output is the same.
#[test]
fn a_filter_can_skip_keys() {
    for last in [20_u8, 200] {
        let skip = move |key: &str, _: FilterValue<'_>| match key {
            "002" => FilterDecision::RemoveAndSkipUntil(user(last)),
            // If the skip target is the key itself, the key is kept.
            "001" => FilterDecision::RemoveAndSkipUntil(user(1)),
            _ => FilterDecision::Keep,
        };
        let writes: Vec<Write> = (1..=last).map(|key| Put(key, 0)).collect();
        let (written, calls) = filtered(&writes, &[], false, skip);
        let expected = ["001@1 put a".to_owned(), format!("{last:03}@{last} put a")];
        assert_eq!(written, expected);
        assert_eq!(calls.len(), 3, "{calls:?}");
    }
}

#[test]
fn merge_operands_are_filtered_one_by_one_and_kept_for_snapshots() {
    let drop_b = |_: &str, value: FilterValue<'_>| match value {
        FilterValue::MergeOperand(b"B") => FilterDecision::Remove,
        FilterValue::MergeOperand(b"C") => FilterDecision::ChangeValue(b"X".to_vec()),
        _ => FilterDecision::Keep,
    };
    let writes = [Merge(1, 0), Merge(1, 1), Merge(1, 2)];
    assert_eq!(filtered(&writes, &[], true, drop_b).0, ["001@0 put A,X"]);
    let (written, calls) = filtered(&writes, &[2], true, drop_b);
    assert_eq!(written, ["001@3 merge X", "001@0 put A,B"]);
    assert_eq!(calls, ["001+C"]);
}

/// If all operands are dropped, the value below becomes the newest entry of its key.
#[test]
fn the_filter_sees_a_value_below_dropped_operands() {
    let only_values = |_: &str, value: FilterValue<'_>| match value {
        FilterValue::MergeOperand(_) => FilterDecision::Remove,
        _ => FilterDecision::ChangeValue(b"v".to_vec()),
    };
    let (written, calls) = filtered(&[Put(1, 0), Merge(1, 1)], &[], false, only_values);
    assert_eq!(written, ["001@1 put v"]);
    assert_eq!(calls, ["001+B", "001=a"]);
}
