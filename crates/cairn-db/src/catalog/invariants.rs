//! Invariants of the catalog, asserted at installs. Those that also concern memtables and logs are in the
//! crate's `invariants.rs`, which numbers all of them.

use cairn_format::key;
use cairn_format::manifest::{TreeChanges, VersionEdit};
use cairn_read::View;
use cairn_types::KeyOrder;
use cairn_version::Version;

use super::Catalog;
use super::env::LogState;
use super::family::FamilyState;
use super::install::Change;
use crate::locks::Rank;

impl Catalog {
    /// Checks a change of `family` that is about to be installed on `base` and results in `next`.
    pub(super) fn check_change(
        &self,
        family: &FamilyState,
        change: &Change,
        base: &Version,
        next: &Version,
        logs: &LogState,
    ) {
        debug_assert!(
            self.context.locks.is_held(Rank::Manifest),
            "changes are installed under the lock of the MANIFEST"
        );
        assert_eq!(
            change.log_number.is_some(),
            !change.flushed.is_empty(),
            "a change has a log number if it has memtables that were flushed"
        );
        assert!(
            change.flushed.is_empty() || change.edit.deleted.is_empty(),
            "a flush of {:?} deletes no table",
            family.name()
        );
        let limit = self.numbers.next();
        let is_moved = |number| change.edit.deleted.iter().any(|(_, gone)| *gone == number);
        for (level, file) in &change.edit.added {
            assert!(
                file.number < limit,
                "table {} is added to level {level}, but the next number is {limit} (TREE4)",
                file.number
            );
            debug_assert!(
                is_moved(file.number) || base.files().all(|(_, old)| old.number != file.number),
                "table {} is new to the tree",
                file.number
            );
            // The entries of compaction outputs come from their inputs, which other programs may have
            // written.
            assert!(
                change.flushed.is_empty() || file.seqs.largest <= logs.last_sequence,
                "a flush writes table {} with entries that are not visible: {}",
                file.number,
                file.seqs.largest
            );
        }
        for blob in &change.edit.added_blobs {
            assert!(
                blob.number < limit,
                "blob file {} is added, but the next number is {limit} (TREE4)",
                blob.number
            );
        }
        let view = family.view();
        let waiting = view.immutables.iter().rev();
        assert!(
            change.flushed.len() <= view.immutables.len()
                && change
                    .flushed
                    .iter()
                    .zip(waiting)
                    .all(|(flushed, waiting)| std::sync::Arc::ptr_eq(flushed, waiting)),
            "the oldest memtables of {:?} are flushed first",
            family.name()
        );
        let before = logs.families.get(&family.id());
        assert!(
            before <= change.log_number.as_ref().or(before),
            "the log number of {:?} falls from {before:?} to {:?}",
            family.name(),
            change.log_number
        );
        check_version(next);
    }

    /// Checks the numbers in `edits`, which are about to be appended to the MANIFEST.
    pub(super) fn check_edits(&self, edits: &[VersionEdit]) {
        debug_assert!(
            self.context.locks.is_held(Rank::Manifest),
            "the MANIFEST is written under its lock"
        );
        let limit = self.numbers.next();
        for edit in edits {
            debug_assert!(
                edit.tree.new_files.iter().all(|file| file.number < limit),
                "tables that are added have numbers below {limit} (TREE4)"
            );
            debug_assert!(
                edit.tree
                    .blob_additions
                    .iter()
                    .all(|blob| blob.number < limit),
                "blob files that are added have numbers below {limit} (TREE4)"
            );
            debug_assert!(
                edit.log_number.is_none_or(|log| log < limit),
                "a family needs a log with a number below {limit} (TREE4)"
            );
            debug_assert!(
                edit.min_log_number_to_keep.is_none_or(|log| log < limit),
                "logs are kept from a number below {limit} on (TREE4)"
            );
            let changes_logs =
                !edit.wals.additions.is_empty() || edit.wals.deleted_before.is_some();
            debug_assert!(
                !changes_logs
                    || (edit.family_change.is_none() && edit.tree == TreeChanges::default()),
                "a record that changes the tracked logs changes nothing else (TREE7)"
            );
        }
    }
}

/// Checks that the memtables of `view` are in order (TREE2).
pub(crate) fn check_memtables(view: &View) {
    if !cfg!(debug_assertions) {
        return;
    }
    let mut newest_first = view.memtables().filter(|memtable| !memtable.is_empty());
    let Some(mut newer) = newest_first.next() else {
        return;
    };
    for older in newest_first {
        debug_assert!(
            // Entries of the mutable memtable may be counted before their numbers are recorded.
            newer
                .first_seq()
                .is_none_or(|first| first > older.largest_seq()),
            "memtables of {:?} are in order: one begins at {:?}, the previous one ends at {} (TREE2)",
            view.family.family,
            newer.first_seq(),
            older.largest_seq()
        );
        newer = older;
    }
}

/// Checks that the files of each level from 1 on ascend and do not overlap (TREE5). Versions of one user key may
/// be in adjacent files, as in trees that RocksDB wrote. With a custom comparator, that is the program's
/// responsibility.
pub(crate) fn check_version(version: &Version) {
    let order = version.order();
    if !cfg!(debug_assertions) || matches!(order, KeyOrder::Custom(_)) {
        return;
    }
    for (level, files) in version.levels().iter().enumerate().skip(1) {
        for pair in files.files().windows(2) {
            let (first, second) = (&pair[0], &pair[1]);
            debug_assert!(
                key::compare(order, first.largest.as_bytes(), second.smallest.as_bytes()).is_lt(),
                "tables {} and {} of level {level} overlap (TREE5)",
                first.number,
                second.number
            );
        }
    }
}
