//! Installing edits: the MANIFEST first, then what readers see.
//!
//! One edit is installed at a time, under the lock of the MANIFEST, so the version it was made for
//! can only have changed in files that it does not touch. Readers see the new version when the
//! MANIFEST has it durably, never before.

use std::sync::Arc;

use cairn_format::manifest::VersionEdit;
use cairn_memtable::Memtable;
use cairn_observe::BackgroundErrorReason;
use cairn_types::{Error, FileNumber, Result};
use cairn_version::TreeEdit;

use crate::catalog::family::FamilyState;
use crate::shared::Shared;

/// A change to install: files, and the memtables and logs that it replaces.
#[derive(Default)]
pub(crate) struct Change {
    /// The files that leave and enter.
    pub(crate) edit: TreeEdit,
    /// The memtables that the edit's files hold.
    pub(crate) flushed: Vec<Arc<Memtable>>,
    /// With these flushed, the family needs only this log and later ones.
    pub(crate) log_number: Option<FileNumber>,
}

impl Shared {
    /// Makes `change` part of `family`, durably.
    ///
    /// # Errors
    ///
    /// `Corruption` if the edit contradicts the tree, and nothing has changed; `IoError` of the
    /// MANIFEST, and the change is in doubt.
    pub(crate) fn install(&self, family: &FamilyState, change: Change) -> Result<()> {
        self.install_together(&[(family, &change)])
    }

    /// Makes each change part of its family, durably, all of them or none. Families that were
    /// dropped are left out.
    ///
    /// # Errors
    ///
    /// Those of [`Shared::install`]; `ShutdownInProgress` if all of the families were dropped.
    pub(crate) fn install_together(&self, group: &[(&FamilyState, &Change)]) -> Result<()> {
        let first_log = group
            .iter()
            .filter_map(|(_, change)| change.log_number)
            .max();
        if let Some(first) = first_log {
            self.sync_logs_before(first)?;
        }
        let mut manifest = self.catalog.lock_manifest();
        let (dropped, group): (Vec<_>, Vec<_>) =
            group.iter().partition(|(family, _)| family.is_dropped());
        for (family, change) in &dropped {
            self.delete_outputs(family, &change.edit);
        }
        if let ([(family, _), ..], []) = (&dropped[..], &group[..]) {
            return Err(Error::shutdown(format!(
                "column family {:?} was dropped",
                family.name()
            )));
        }
        for (at, (family, _)) in group.iter().enumerate() {
            assert!(
                group[..at]
                    .iter()
                    .all(|(other, _)| other.id() != family.id()),
                "a group has one change of family {:?}",
                family.name()
            );
        }
        let min_log = self.min_log_after(&group);
        let mut records = Vec::new();
        let mut nexts = Vec::new();
        for (family, change) in &group {
            let base = family.view().version.clone();
            let next = Arc::new(base.with_edit(&change.edit)?);
            self.check_change(family, change, &base, &next);
            let mut record = change.edit.record(family.id());
            record.log_number = change.log_number;
            record.min_log_number_to_keep = change.log_number.map(|_| min_log);
            records.push(record);
            nexts.push((base, next));
        }
        let frees_logs = group.iter().any(|(_, change)| change.log_number.is_some());
        if self.options().track_and_verify_wals_in_manifest && frees_logs {
            // RocksDB looks at nothing else in a record that speaks of logs.
            let of_logs = VersionEdit {
                wals_deleted_before: Some(min_log),
                ..VersionEdit::default()
            };
            records.insert(0, of_logs);
        }
        // RocksDB reports a MANIFEST that fails in a flush as one without a WAL, whether there is a WAL or not.
        let reason = match group.iter().any(|(_, change)| !change.flushed.is_empty()) {
            true => BackgroundErrorReason::ManifestWriteNoWal,
            false => BackgroundErrorReason::ManifestWrite,
        };
        self.log_edits_for(reason, &mut manifest, records)?;

        let mut tree = self.tree.lock();
        if frees_logs {
            // Only then the records say that older logs are not needed. Until a MANIFEST does, the logs are kept, also
            // those that no family needs: later logs count only where these are.
            tree.logs.release_before(min_log);
        }
        assert_eq!(group.len(), nexts.len(), "each change has a version");
        for ((family, change), (base, next)) in group.iter().zip(nexts) {
            assert!(
                Arc::ptr_eq(&family.view().version, &base),
                "the lock of the MANIFEST keeps the version of {:?}",
                family.name()
            );
            if let Some(state) = tree.families.get_mut(&family.id()) {
                state.immutables.drain(..change.flushed.len());
                if let Some(number) = change.log_number {
                    state.log_number = number;
                }
            }
            self.catalog.space().track(family, Some(&base), &next);
            self.catalog.retire(family, &base, Some(&next));
            let view = family.view().with_version(next, &change.flushed);
            family.set_view(view);
            family.keep_history(&change.flushed);
        }
        self.check_tree(&tree);
        self.catalog.snapshots().forget_bottom();
        Ok(())
    }

    /// Deletes the tables and blob files that a job wrote for a family that is not there any more. Those that it
    /// only moved belong to versions that may still be read.
    pub(crate) fn delete_outputs(&self, family: &FamilyState, edit: &TreeEdit) {
        let is_moved = |number| edit.deleted.iter().any(|(_, moved)| *moved == number);
        for (_, file) in &edit.added {
            if !is_moved(file.number) {
                let version = family.view().version.clone();
                assert!(
                    version.files().all(|(_, live)| live.number != file.number),
                    "table {}, which is deleted, is in no version",
                    file.number
                );
                self.catalog.delete(&family.tables().path(file));
            }
        }
        for blob in &edit.added_blobs {
            self.catalog
                .delete(&family.view().family.blobs.path(blob.number));
        }
    }

    /// The smallest log that any family needs once these changes count.
    fn min_log_after(&self, group: &[(&FamilyState, &Change)]) -> FileNumber {
        let tree = self.tree.lock();
        let needs = tree.families.iter().map(|(id, state)| {
            let change = group.iter().find(|(family, _)| family.id() == *id);
            let number = change.and_then(|(_, change)| change.log_number);
            number.unwrap_or_default().max(state.log_number)
        });
        needs.min().unwrap_or_default()
    }

    /// The smallest log that any family but `family` needs.
    pub(crate) fn min_log_without(&self, family: &FamilyState) -> FileNumber {
        let tree = self.tree.lock();
        let others = tree.families.iter().filter(|(id, _)| **id != family.id());
        let needs = others.map(|(_, state)| state.log_number);
        needs.min().unwrap_or(tree.logs.first_needed())
    }
}
