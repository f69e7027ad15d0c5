//! Invariants across components, asserted where the state changes: at installs, memtable switches and the end
//! of an opening.
//!
//! A check covers facts that this crate establishes. Files, options and arguments are validated where they
//! are read, and fail with an error there.
//!
//! Invariants, cited by number:
//!
//! TREE1. The view of a family has the memtables in its tree that wait for a flush, in the same order.
//! TREE2. Memtables of a family are in order: each starts after the last entry of the previous one.
//! TREE3. The logs needed by the memtables of a family ascend, start with the family's own log number, and
//! exist.
//! TREE4. Files have numbers that were allocated.
//! TREE5. Files of levels from 1 on do not overlap.
//! TREE6. Entries in memtables have sequence numbers that were assigned.
//! TREE7. A record of the MANIFEST that changes the tracked logs changes neither tables nor families.
//!
//! Cost: builds with assertions only; proportional to the number of families and memtables, and to the files
//! of one family at an install.

use cairn_types::FileNumber;

use crate::catalog::family::FamilyState;
use crate::catalog::invariants::check_memtables;
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
            "the view of {name:?} has the memtables that wait for a flush (TREE1)"
        );
        let logs = state.immutables.iter().map(|one| one.next_log);
        let logs: Vec<FileNumber> = std::iter::once(state.log_number).chain(logs).collect();
        debug_assert!(
            logs.is_sorted(),
            "the logs that {name:?} needs ascend: {logs:?} (TREE3)"
        );
        debug_assert!(
            logs.last() < Some(&self.catalog.numbers.next()),
            "{name:?} needs log {:?}, which does not exist (TREE3)",
            logs.last()
        );
        let last = self.writes.commits.allocated();
        debug_assert!(
            state
                .immutables
                .iter()
                .all(|one| one.memtable.largest_seq() <= last && !one.memtable.is_empty()),
            "immutable memtables of {name:?} have entries up to {last} (TREE6)"
        );
        check_memtables(&view);
    }
}
