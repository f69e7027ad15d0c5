//! Effects of a compaction filter on entries.

use cairn_format::blob::BlobIndex;
use cairn_format::key::InternalKey;
use cairn_platform::sync::{Arc, AtomicBool, Mutex};
use cairn_types::{
    CompactionFilter, FileNumber, FilterDecision, FilterValue, Result, SequenceNumber, ValueKind,
};
use proptest::prelude::*;

use super::{iterator, shown};
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

/// Skips a blob and a thousand values by a filter, in a job with blobs that may be cancelled. Returns the number of blobs
/// that became garbage.
fn blobs_skipped(is_cancelled: bool) -> Result<u64> {
    let point = |number: u32, kind, value: &[u8]| {
        let user = format!("key{number:04}");
        let key = InternalKey::new(user.as_bytes(), SequenceNumber(1), kind);
        (key.into_bytes(), value.to_vec())
    };
    let mut index = Vec::new();
    BlobIndex {
        file: FileNumber(7),
        offset: 100,
        size: 10,
        compression: 0,
    }
    .encode(&mut index);
    let mut points: Vec<_> = (0..1000)
        .map(|number| point(number, ValueKind::Value, b"value"))
        .collect();
    points.push(point(1000, ValueKind::BlobIndex, &index));
    points.push(point(1001, ValueKind::Value, b"value"));
    let decide = |key: &str, _: FilterValue<'_>| match key {
        "0000" => FilterDecision::RemoveAndSkipUntil(b"key1001".to_vec()),
        _ => FilterDecision::Keep,
    };
    let plan = Plan {
        decide,
        calls: Arc::default(),
    };
    let cancelled = Arc::new(AtomicBool::new(is_cancelled));
    let filter = Filter::plain(Arc::new(plan), 3);
    let mut entries = iterator(points, Some(filter), crate::Cancel::any([cancelled]));
    entries.garbage.has_blobs = true;
    let mut written = 0;
    while entries.next(None)?.is_some() {
        written += 1;
    }
    assert_eq!((written, entries.jumped()), (1, false));
    let garbage = entries.garbage.counted();
    Ok(garbage.iter().map(|file| file.count).sum())
}

/// Regression: blobs behind the first entries that a filter skips were not counted as garbage.
#[test]
fn all_blobs_that_a_filter_skips_become_garbage() {
    assert_eq!(blobs_skipped(false).unwrap(), 1);
}

/// Regression: a job that skipped many entries ended only when it had read them all.
#[test]
fn a_job_that_skips_entries_can_be_cancelled() {
    let ended = blobs_skipped(true).unwrap_err();
    assert_eq!(ended.code(), cairn_types::Code::Aborted);
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
