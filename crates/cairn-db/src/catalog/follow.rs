//! Publishing the state of another database, which this one follows.

use std::sync::Arc;

use cairn_memtable::Memtable;
use cairn_read::{BlobSource, Reading, View};
use cairn_version::Version;

use super::Catalog;
use super::family::FamilyState;
use super::invariants::check_version;

/// The next state of one family.
pub(crate) struct NextState {
    pub(crate) family: Arc<FamilyState>,
    pub(crate) version: Arc<Version>,
    /// The memtables, oldest first. The last one is the active one.
    pub(crate) memtables: Vec<Arc<Memtable>>,
    /// The source of the blob files of `version`; `None` for the current one.
    pub(crate) blobs: Option<Arc<BlobSource>>,
}

impl Catalog {
    /// Replaces the view of a family. The caller holds the lock of the tree.
    pub(crate) fn follow(&self, next: NextState) {
        let NextState {
            family,
            version,
            mut memtables,
            blobs,
        } = next;
        let view = family.view_full();
        let memtable = memtables.pop().unwrap_or_else(|| view.memtable.clone());
        memtables.reverse();
        let is_same = Arc::ptr_eq(&view.memtable, &memtable)
            && memtables.len() == view.immutables.len()
            && memtables
                .iter()
                .zip(&view.immutables)
                .all(|(a, b)| Arc::ptr_eq(a, b));
        if is_same && Arc::ptr_eq(&view.version, &version) && blobs.is_none() {
            return;
        }
        if !Arc::ptr_eq(&view.version, &version) {
            check_version(&version);
            family.note_replaced(&view.version);
            self.deletions
                .retire(&family, &view.version, Some(&version));
        }
        let is_kept = |old: &Arc<Memtable>| {
            Arc::ptr_eq(old, &memtable) || memtables.iter().any(|it| Arc::ptr_eq(it, old))
        };
        let gone = view.memtables().filter(|old| !is_kept(old)).cloned();
        let gone: Vec<Arc<Memtable>> = gone.collect();
        let reading = blobs.map(|blobs| {
            Arc::new(Reading {
                blobs,
                ..Reading::clone(&view.family)
            })
        });
        family.set_view(View {
            memtable,
            immutables: memtables,
            version,
            family: reading.unwrap_or_else(|| view.family.clone()),
            number: view.number + 1,
            end: view.end.clone(),
        });
        gone.iter().for_each(|memtable| memtable.mark_flushed());
    }

    /// Removes a family that the other database has dropped. Its handles can still read it. The caller holds the lock
    /// of the tree.
    pub(crate) fn follow_drop(&self, family: &Arc<FamilyState>) {
        if family.is_dropped() {
            return;
        }
        family.mark_dropped();
        let families = self.families.load_full();
        self.families.store(families.without(family.id()));
        self.families.note_dropped(family);
        let version = family.view().version.clone();
        self.deletions.retire(family, &version, None);
    }
}
