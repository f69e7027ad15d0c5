//! Invariants of the state as a whole, asserted where it changes: at installs, switches of memtables and the end of an opening.
//!
//! A check states facts that this crate establishes. What files, options and callers say is checked where it comes in, and
//! is an error there.
//!
//! Invariants, cited by number:
//!
//! S1. The view of a family has the memtables that wait for a flush in its tree, in the same order.
//! S2. Memtables of a family follow each other: each begins behind the last entry of the one before it.
//! S3. The logs that memtables of a family need ascend, begin with the family's own log number, and exist.
//! S4. Files have numbers that were given out.
//! S5. Files of a level from 1 on do not overlap.
//! S6. Entries in memtables have sequence numbers that were assigned.
//!
//! Cost: builds with assertions only; the number of families and memtables, and of the files of one family at an install.

use cairn_format::manifest::VersionEdit;
use cairn_read::View;
use cairn_types::{FileNumber, KeyOrder};
use cairn_version::{Version, bounds};

use crate::catalog::family::FamilyState;
use crate::install::Change;
use crate::locks::Rank;
use crate::shared::{FamilyTree, Shared, Tree};

impl Shared {
    /// Checks the memtables and log numbers of all families. The caller holds the lock of the tree.
    pub(crate) fn check_tree(&self, tree: &Tree) {
        if !cfg!(debug_assertions) {
            return;
        }
        debug_assert!(
            self.context.locks.is_held(Rank::Tree),
            "views and trees of families change under the lock of the tree"
        );
        let families = self.catalog.families();
        for family in families.iter() {
            let state = tree.families.get(&family.id());
            debug_assert!(
                state.is_some(),
                "live family {:?} has a tree",
                family.name()
            );
            debug_assert!(
                !family.is_dropped(),
                "family {:?} is dropped, and live",
                family.name()
            );
            debug_assert!(
                family.id() <= families.max_id(),
                "family {} has a larger id than was ever used",
                family.id()
            );
            if let Some(state) = state {
                self.check_family(family, state);
            }
        }
        debug_assert_eq!(
            families.iter().count(),
            tree.families.len(),
            "each tree belongs to a live family"
        );
    }

    fn check_family(&self, family: &FamilyState, state: &FamilyTree) {
        let (view, name) = (family.view(), family.name());
        let waiting = state.immutables.iter().map(|one| &one.memtable);
        debug_assert!(
            view.immutables
                .iter()
                .rev()
                .map(std::sync::Arc::as_ptr)
                .eq(waiting.map(std::sync::Arc::as_ptr)),
            "the view of {name:?} has the memtables that wait for a flush (S1)"
        );
        let logs = state.immutables.iter().map(|one| one.next_log);
        let logs: Vec<FileNumber> = std::iter::once(state.log_number).chain(logs).collect();
        debug_assert!(
            logs.is_sorted(),
            "the logs that {name:?} needs ascend: {logs:?} (S3)"
        );
        debug_assert!(
            logs.last() < Some(&self.catalog.next_file_number()),
            "{name:?} needs log {:?}, which does not exist (S3)",
            logs.last()
        );
        let last = self.writes.commits.allocated();
        debug_assert!(
            state
                .immutables
                .iter()
                .all(|one| one.memtable.largest_seq() <= last && !one.memtable.is_empty()),
            "immutable memtables of {name:?} have entries up to {last} (S6)"
        );
        check_memtables(&view);
    }

    /// Checks a change of `family` that is about to be installed on `base` and makes `next` of it.
    pub(crate) fn check_change(
        &self,
        family: &FamilyState,
        change: &Change,
        base: &Version,
        next: &Version,
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
        let limit = self.catalog.next_file_number();
        let is_moved = |number| change.edit.deleted.iter().any(|(_, gone)| *gone == number);
        for (level, file) in &change.edit.added {
            assert!(
                file.number < limit,
                "table {} enters level {level}, and the next number is {limit} (S4)",
                file.number
            );
            debug_assert!(
                is_moved(file.number) || base.files().all(|(_, old)| old.number != file.number),
                "table {} enters a tree that has it",
                file.number
            );
            // Compactions go by what is in their inputs, which other programs may have written.
            assert!(
                change.flushed.is_empty() || file.largest_seq <= self.published(),
                "a flush writes table {} with entries that are not visible: {}",
                file.number,
                file.largest_seq
            );
        }
        for blob in &change.edit.added_blobs {
            assert!(
                blob.number < limit,
                "blob file {} is added, and the next number is {limit} (S4)",
                blob.number
            );
        }
        if let Some(state) = self.tree.lock().families.get(&family.id()) {
            let waiting = state.immutables.iter().map(|one| &one.memtable);
            assert!(
                change.flushed.len() <= state.immutables.len()
                    && change
                        .flushed
                        .iter()
                        .zip(waiting)
                        .all(|(flushed, waiting)| std::sync::Arc::ptr_eq(flushed, waiting)),
                "the oldest memtables of {:?} are flushed first",
                family.name()
            );
            assert!(
                change
                    .log_number
                    .is_none_or(|number| state.log_number <= number),
                "the log number of {:?} falls from {} to {:?}",
                family.name(),
                state.log_number,
                change.log_number
            );
        }
        check_version(next);
    }

    /// Checks the numbers in `edits`, which are about to be appended to the MANIFEST.
    pub(crate) fn check_edits(&self, edits: &[VersionEdit]) {
        debug_assert!(
            self.context.locks.is_held(Rank::Manifest),
            "the MANIFEST is written under its lock"
        );
        let limit = self.catalog.next_file_number();
        for edit in edits {
            debug_assert!(
                edit.new_files.iter().all(|file| file.number < limit),
                "tables that enter have numbers below {limit} (S4)"
            );
            debug_assert!(
                edit.blob_additions.iter().all(|blob| blob.number < limit),
                "blob files that enter have numbers below {limit} (S4)"
            );
            debug_assert!(
                edit.log_number.is_none_or(|log| log < limit),
                "a family needs a log with a number below {limit} (S4)"
            );
            debug_assert!(
                edit.min_log_number_to_keep.is_none_or(|log| log < limit),
                "logs are kept from a number below {limit} on (S4)"
            );
        }
    }
}

/// Checks that the memtables of `view` follow each other (S2).
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
            // The entries of one that is being filled may be counted before their numbers are noted.
            newer
                .first_seq()
                .is_none_or(|first| first > older.largest_seq()),
            "memtables of {:?} follow each other: one begins at {:?}, the one before it ends at {} (S2)",
            view.family.family,
            newer.first_seq(),
            older.largest_seq()
        );
        newer = older;
    }
}

/// Checks that the files of each level from 1 on ascend and do not overlap (S5). Where a program's comparator orders the keys
/// that is for the program to keep.
pub(crate) fn check_version(version: &Version) {
    let order = version.order();
    if !cfg!(debug_assertions) || matches!(order, KeyOrder::Custom(_)) {
        return;
    }
    for (level, files) in version.levels().iter().enumerate().skip(1) {
        for pair in files.files().windows(2) {
            let (first, second) = (&pair[0], &pair[1]);
            debug_assert!(
                bounds::compare(order, first.largest.as_bytes(), second.smallest.as_bytes())
                    .is_lt(),
                "tables {} and {} of level {level} overlap (S5)",
                first.number,
                second.number
            );
        }
    }
}
