//! Versions, level targets and scores: edits, order, overlap, search.

use std::collections::HashSet;

use cairn_format::key::InternalKey;
use cairn_platform::sync::Arc;
use cairn_types::{FileNumber, KeyOrder, SequenceNumber, ValueKind};
use proptest::prelude::*;

use crate::blob_file_meta::{BlobFileMeta, BlobGarbage};
use crate::compaction_score::{self, AgeLimits, ShapeOptions};
use crate::edit::TreeEdit;
use crate::file_meta::FileMeta;
use crate::periodic_phase::PeriodicPhase;
use crate::version::Version;

fn key(user: &str, seq: u64) -> InternalKey {
    InternalKey::new(user.as_bytes(), SequenceNumber(seq), ValueKind::Value)
}

fn meta(number: u64, smallest: &str, largest: &str, seq: u64, size: u64) -> FileMeta {
    let mut file = FileMeta::new(
        FileNumber(number),
        size,
        key(smallest, seq),
        key(largest, seq),
    );
    file.seqs.smallest = SequenceNumber(seq);
    file.seqs.largest = SequenceNumber(seq);
    file.epoch = seq;
    file
}

fn added(files: Vec<(usize, FileMeta)>) -> TreeEdit {
    TreeEdit {
        added: files
            .into_iter()
            .map(|(level, file)| (level, Arc::new(file)))
            .collect(),
        ..TreeEdit::default()
    }
}

fn empty() -> Version {
    Version::empty(KeyOrder::Bytewise, 7)
}

fn numbers(version: &Version, level: usize) -> Vec<u64> {
    version
        .level(level)
        .files()
        .iter()
        .map(|file| file.number.0)
        .collect()
}

#[test]
fn level_zero_is_ordered_from_newest_to_oldest() {
    let files = [(3, 5), (1, 9), (2, 7)];
    let edit = added(
        files
            .iter()
            .map(|&(n, seq)| (0, meta(n, "a", "z", seq, 1)))
            .collect(),
    );
    assert_eq!(numbers(&empty().with_edit(&edit).unwrap(), 0), [1, 2, 3]);
}

#[test]
fn files_of_old_databases_get_epochs_by_their_sequence_numbers() {
    let mut files = vec![
        (0, meta(10, "a", "z", 50, 1)),
        (0, meta(11, "a", "z", 60, 1)),
        (2, meta(5, "a", "c", 9, 1)),
        (2, meta(6, "d", "f", 12, 1)),
        (6, meta(2, "a", "z", 3, 1)),
    ];
    files.iter_mut().for_each(|(_, file)| file.epoch = 0);
    let version = empty().with_edit(&added(files)).unwrap();
    assert_eq!(numbers(&version, 0), [11, 10]);
    let epochs = |version: &Version| -> Vec<(u64, u64)> {
        version
            .files()
            .map(|(_, file)| (file.number.0, file.epoch))
            .collect()
    };
    let plain = version.with_epochs(false);
    assert_eq!(epochs(&plain), [(11, 4), (10, 3), (5, 2), (6, 2), (2, 1)]);
    assert_eq!(plain.max_epoch(), 4);
    assert_eq!(epochs(&version.with_epochs(true))[4], (2, 2));
}

#[test]
fn an_edit_that_contradicts_the_tree_is_corruption() {
    let one = empty()
        .with_edit(&added(vec![(1, meta(7, "c", "f", 1, 1))]))
        .unwrap();
    let fails = |edit: &TreeEdit, words: &str| {
        let error = one.with_edit(edit).unwrap_err();
        assert!(
            error.is_corruption() && error.text().contains(words),
            "{error}"
        );
    };
    fails(
        &added(vec![(1, meta(7, "x", "z", 1, 1))]),
        "adds table 000007 to level 1",
    );
    fails(
        &added(vec![(1, meta(8, "a", "c", 1, 1))]),
        "overlap in level 1",
    );
    fails(
        &added(vec![(2, meta(8, "c", "a", 1, 1))]),
        "larger than its largest",
    );
    fails(&added(vec![(64, meta(8, "a", "c", 1, 1))]), "found 64");
    let gone = TreeEdit {
        deleted: vec![(2, FileNumber(7))],
        ..TreeEdit::default()
    };
    fails(&gone, "deletes table 000007 from level 2");
}

#[test]
fn a_file_moves_between_levels_in_one_edit() {
    let one = empty()
        .with_edit(&added(vec![(1, meta(7, "c", "f", 1, 1))]))
        .unwrap();
    let mut edit = added(vec![(2, meta(7, "c", "f", 1, 1))]);
    edit.deleted.push((1, FileNumber(7)));
    let moved = one.with_edit(&edit).unwrap();
    assert_eq!((numbers(&moved, 1), numbers(&moved, 2)), (vec![], vec![7]));
    assert!(
        Arc::ptr_eq(&one.levels()[3], &moved.levels()[3]),
        "untouched levels are shared"
    );
}

#[test]
fn versions_of_one_key_may_end_one_file_and_begin_the_next() {
    let mut left = meta(1, "a", "k", 9, 1);
    left.largest = key("k", 9);
    let mut right = meta(2, "k", "z", 9, 1);
    right.smallest = key("k", 5);
    let version = empty()
        .with_edit(&added(vec![(1, left), (1, right)]))
        .unwrap();
    assert_eq!(version.find_file(1, key("k", 9).as_bytes()), 0);
    assert_eq!(version.find_file(1, key("k", 7).as_bytes()), 1);
    let touching = version.overlapping(
        1,
        Some(key("k", 1).as_bytes()),
        Some(key("k", 1).as_bytes()),
    );
    assert_eq!(touching.len(), 2);
}

#[test]
fn the_end_of_a_range_tombstone_does_not_touch_its_key() {
    let mut left = meta(1, "a", "k", 9, 1);
    left.largest = InternalKey::new(b"k", SequenceNumber::MAX, ValueKind::RangeDeletion);
    let right = meta(2, "k", "z", 5, 1);
    let version = empty()
        .with_edit(&added(vec![(1, left), (1, right)]))
        .unwrap();
    let at = key("k", 1);
    let touching = version.overlapping(1, Some(at.as_bytes()), Some(at.as_bytes()));
    assert_eq!(
        touching
            .iter()
            .map(|file| file.number.0)
            .collect::<Vec<_>>(),
        [2]
    );
}

#[test]
fn blob_files_with_only_garbage_leave_the_tree() {
    let blob = |number, count| Arc::new(BlobFileMeta::new(FileNumber(number), count, 100));
    let linked = |number: u64, blob: u64, from: &str| {
        let mut file = meta(number, from, from, number, 1);
        file.oldest_blob = Some(FileNumber(blob));
        file
    };
    let mut edit = added(vec![(1, linked(10, 3, "a")), (1, linked(11, 4, "b"))]);
    edit.added_blobs = vec![blob(3, 2), blob(4, 2), blob(5, 2)];
    let version = empty().with_edit(&edit).unwrap();
    let garbage = |number, count| TreeEdit {
        blob_garbage: vec![BlobGarbage {
            number: FileNumber(number),
            count,
            bytes: 1,
        }],
        ..TreeEdit::default()
    };
    let kept =
        |version: &Version| -> Vec<u64> { version.blob_files().keys().map(|n| n.0).collect() };
    assert_eq!(kept(&version.with_edit(&garbage(5, 2)).unwrap()), [3, 4]);
    assert_eq!(
        kept(&version.with_edit(&garbage(4, 2)).unwrap()),
        [3, 4, 5],
        "a table refers to it"
    );
    let mut without = TreeEdit {
        deleted: vec![(1, FileNumber(10))],
        ..TreeEdit::default()
    };
    without.blob_garbage = garbage(4, 1).blob_garbage;
    let version = version.with_edit(&without).unwrap();
    assert_eq!(
        kept(&version),
        [4, 5],
        "older than the oldest that a table refers to"
    );
    assert_eq!(version.blob_files()[&FileNumber(4)].garbage_count, 1);
    assert!(
        version
            .with_edit(&garbage(4, 2))
            .unwrap_err()
            .is_corruption()
    );
    assert!(
        version
            .with_edit(&garbage(9, 1))
            .unwrap_err()
            .is_corruption()
    );
}

#[test]
fn levels_with_files_cannot_be_removed() {
    let version = empty()
        .with_edit(&added(vec![(4, meta(7, "c", "f", 1, 1))]))
        .unwrap();
    assert!(version.with_num_levels(4).is_err());
    assert_eq!(version.with_num_levels(5).unwrap().num_levels(), 5);
}

fn options(dynamic: bool) -> ShapeOptions {
    ShapeOptions {
        level0_trigger: 4,
        base_bytes: 1000,
        multiplier: 10.0,
        additional: vec![1; 7],
        dynamic,
        ttl: 0,
        periodic: 0,
        bottommost_delay: 0,
        reads_per_byte: 0.0,
        precludes_young: false,
    }
}

fn sized(sizes: &[(usize, u64)]) -> Version {
    let files = sizes.iter().enumerate().map(|(at, &(level, size))| {
        let name = format!("{at:04}");
        (
            level,
            meta(at as u64 + 1, &name, &name, at as u64 + 1, size),
        )
    });
    empty().with_edit(&added(files.collect())).unwrap()
}

#[test]
fn static_targets_grow_by_the_multiplier() {
    let targets = compaction_score::targets(&sized(&[]), &options(false));
    assert_eq!(targets.base_level, 1);
    assert_eq!(targets.max_bytes[..4], [1000, 1000, 10_000, 100_000]);
}

#[test]
fn dynamic_targets_follow_the_largest_level() {
    let base = |sizes: &[(usize, u64)]| {
        let targets = compaction_score::targets(&sized(sizes), &options(true));
        (
            targets.base_level,
            targets.max_bytes[targets.base_level],
            targets.lowest_unnecessary,
        )
    };
    assert_eq!(
        base(&[(0, 5000)]),
        (6, u64::MAX, 0),
        "an empty tree fills its last level"
    );
    assert_eq!(base(&[(6, 900)]), (6, 1000, 0));
    assert_eq!(
        base(&[(6, 5000)]),
        (5, 1000, 0),
        "the last level is larger than the base may be"
    );
    assert_eq!(base(&[(6, 50_000)]), (4, 1000, 0));
    assert_eq!(
        base(&[(3, 10), (6, 5000)]),
        (3, 1000, 4),
        "more levels than needed"
    );
    let targets = compaction_score::targets(&sized(&[(6, 500_000)]), &options(true));
    assert_eq!(targets.max_bytes[3..], [1000, 5000, 50_000, 500_000]);
}

/// Regression: the computation overflowed.
#[test]
fn dynamic_targets_may_be_unlimited() {
    let unlimited = ShapeOptions {
        base_bytes: u64::MAX,
        multiplier: 1.0,
        ..options(true)
    };
    let targets = compaction_score::targets(&sized(&[(5, 10), (6, 5000)]), &unlimited);
    assert_eq!(targets.base_level, 5);
    assert_eq!(targets.max_bytes[5..], [u64::MAX, u64::MAX]);
}

#[test]
fn a_full_level_is_due_and_busy_files_do_not_count() {
    let version = sized(&[(1, 600), (1, 600), (2, 100)]);
    let options = options(false);
    let targets = compaction_score::targets(&version, &options);
    let scores = compaction_score::scores(&version, &targets, &HashSet::new(), &options);
    assert_eq!(scores[0], (1, 1.2));
    let busy = HashSet::from([FileNumber(1)]);
    let scores = compaction_score::scores(&version, &targets, &busy, &options);
    assert_eq!(scores[0], (1, 0.6));
    assert_eq!(
        compaction_score::pending_compaction_bytes(&version, &targets, &options, 0),
        200 + 16
    );
}

#[test]
fn level_zero_scores_by_files_and_by_bytes() {
    let version = sized(&[(0, 10), (0, 10), (0, 10), (0, 10)]);
    let by_files = options(false);
    let targets = compaction_score::targets(&version, &by_files);
    let scores = compaction_score::scores(&version, &targets, &HashSet::new(), &by_files);
    assert_eq!(scores[0], (0, 1.0));
    let version = sized(&[(0, 4000)]);
    let scores = compaction_score::scores(&version, &targets, &HashSet::new(), &by_files);
    assert_eq!(scores[0], (0, 4.0));
}

#[test]
fn old_files_and_obsolete_versions_are_marked() {
    let mut old = meta(1, "a", "b", 5, 10);
    (old.times.oldest_ancester, old.times.file) = (100, 100);
    let mut bottom = meta(2, "c", "d", 6, 10);
    (bottom.times.oldest_ancester, bottom.times.file) = (900, 900);
    let mut asking = meta(3, "e", "f", 7, 10);
    asking.hints.marked = true;
    let version = empty()
        .with_edit(&added(vec![(1, old), (6, bottom), (1, asking)]))
        .unwrap();
    let mut options = options(true);
    (options.ttl, options.periodic) = (500, 50);
    let present = AgeLimits {
        now: 1000,
        ahead: 0,
        phase: PeriodicPhase::default(),
        oldest_snapshot: SequenceNumber(7),
        full_history_ts_low: Vec::new(),
        young_after: SequenceNumber::MAX,
        zero_through: SequenceNumber::MAX,
    };
    let marked = compaction_score::marked(&version, &HashSet::new(), &present, &options);
    let list = |files: &[(usize, Arc<FileMeta>)]| -> Vec<(usize, u64)> {
        files
            .iter()
            .map(|(level, file)| (*level, file.number.0))
            .collect()
    };
    assert_eq!(list(&marked.expired), [(1, 1)]);
    assert_eq!(list(&marked.periodic), [(1, 1), (6, 2)]);
    assert_eq!(list(&marked.content), [(1, 3)]);
    assert_eq!(list(&marked.bottommost), [(1, 1), (6, 2)]);
    // Regression: files whose entries keep their sequence numbers were compacted again and again.
    let preserving = AgeLimits {
        zero_through: SequenceNumber(5),
        ..present.clone()
    };
    let of_old = compaction_score::marked(&version, &HashSet::new(), &preserving, &options);
    assert_eq!(list(&of_old.bottommost), [(1, 1)]);
    // Brought forward by a few hours, the file is due.
    options.periodic = 200;
    let periodic = |ahead| {
        let present = AgeLimits {
            ahead,
            ..present.clone()
        };
        let marked = compaction_score::marked(&version, &HashSet::new(), &present, &options);
        list(&marked.periodic)
    };
    assert_eq!(
        (periodic(100), periodic(101)),
        (vec![(1, 1)], vec![(1, 1), (6, 2)])
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The search by prefixes agrees with a linear search, in any key order.
    #[test]
    fn search_agrees_with_a_linear_search(
        bounds in proptest::collection::btree_set(proptest::collection::vec(0..4_u8, 0..12), 2..40),
        probe in proptest::collection::vec(0..4_u8, 0..12),
        reverse in any::<bool>(),
    ) {
        let order = if reverse { KeyOrder::ReverseBytewise } else { KeyOrder::Bytewise };
        let mut bounds: Vec<Vec<u8>> = bounds.into_iter().collect();
        if reverse {
            bounds.reverse();
        }
        let internal = |user: &[u8]| InternalKey::new(user, SequenceNumber(1), ValueKind::Value);
        let files = bounds.chunks_exact(2).enumerate().map(|(at, pair)| {
            let number = FileNumber(at as u64);
            (1, FileMeta::new(number, 1, internal(&pair[0]), internal(&pair[1])))
        });
        let version = Version::empty(order.clone(), 2).with_edit(&added(files.collect())).unwrap();
        let target = internal(&probe);
        let files = version.level(1).files();
        let walked = files.iter().position(|file| {
            order.compare(file.largest.user_key(), &probe).is_ge()
        });
        prop_assert_eq!(version.find_file(1, target.as_bytes()), walked.unwrap_or(files.len()));
        let at = Some(target.as_bytes());
        let holding: Vec<u64> = files.iter().filter(|file| {
            order.compare(file.largest.user_key(), &probe).is_ge()
                && order.compare(file.smallest.user_key(), &probe).is_le()
        }).map(|file| file.number.0).collect();
        let found = version.overlapping(1, at, at);
        prop_assert_eq!(found.iter().map(|file| file.number.0).collect::<Vec<_>>(), holding);
    }
}
