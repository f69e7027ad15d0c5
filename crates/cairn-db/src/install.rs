//! Installing edits: the MANIFEST first, then what readers see.
//!
//! One edit is installed at a time, under the lock of the MANIFEST, so the version it was made for
//! can only have changed in files that it does not touch. Readers see the new version when the
//! MANIFEST has it durably, never before.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_format::manifest::VersionEdit;
use cairn_format::names::FileName;
use cairn_memtable::Memtable;
use cairn_observe::BackgroundErrorReason;
use cairn_types::{Error, FileNumber, Result};
use cairn_version::manifest::{Contents, FamilyContents, Manifest};
use cairn_version::{TreeEdit, Version};

use crate::family::{Families, FamilyState};
use crate::invariants::check_version;
use crate::shared::{Shared, Tree};

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
        let mut manifest = self.manifest.lock();
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
            self.space.track(family, Some(&base), &next);
            retire(&mut tree, family, &base, &next);
            let view = family.view().with_version(next, &change.flushed);
            family.set_view(view);
            change
                .flushed
                .iter()
                .for_each(|memtable| memtable.mark_flushed());
            family.keep_history(&change.flushed);
        }
        self.check_tree(&tree);
        self.purge_hint.note_obsolete();
        self.snapshots.forget_bottom();
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
                self.delete(&family.tables().path(file));
            }
        }
        for blob in &edit.added_blobs {
            self.delete(&family.view().family.blobs.path(blob.number));
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

    /// Appends `edits`, which count together or not at all, and replaces the MANIFEST if it has
    /// outgrown what it describes.
    pub(crate) fn log_edits(
        &self,
        manifest: &mut Option<Manifest>,
        edits: Vec<VersionEdit>,
    ) -> Result<()> {
        self.log_edits_for(BackgroundErrorReason::ManifestWrite, manifest, edits)
    }

    /// [`Shared::log_edits`], with the reason that listeners get if it fails.
    fn log_edits_for(
        &self,
        reason: BackgroundErrorReason,
        manifest: &mut Option<Manifest>,
        mut edits: Vec<VersionEdit>,
    ) -> Result<()> {
        let current = manifest
            .as_mut()
            .ok_or_else(|| Error::shutdown("the database is closed"))?;
        if let Some(last) = edits.last_mut() {
            last.next_file_number = Some(self.next_file_number());
            last.last_sequence = last.last_sequence.max(Some(self.published()));
        }
        self.check_edits(&edits);
        let options = self.options();
        let percent = u32::try_from(options.max_manifest_space_amp_pct).unwrap_or(0);
        if !current.wants_rotation(options.max_manifest_file_size, percent) {
            return current
                .append_group(edits)
                .inspect_err(|error| self.manifest_failed(reason, error));
        }
        let families = self.families.load_full();
        let next = self
            .write_manifest(&families, &edits)
            .inspect_err(|error| {
                current.give_up();
                self.manifest_failed(reason, error);
            })?;
        let old = std::mem::replace(current, next);
        let number = old.number();
        assert!(
            number < current.number(),
            "MANIFEST {} takes the place of an older one, not of {number}",
            current.number()
        );
        // All of it is in the new one.
        if let Err(error) = old.close() {
            self.context
                .info
                .warn(format_args!("closing {number} failed: {error}"));
        }
        self.delete(
            &self
                .context
                .dir
                .join(FileName::Manifest(number).to_string()),
        );
        Ok(())
    }

    /// Writes the state of `families`, followed by `edits`, to a new MANIFEST that becomes the
    /// current one.
    pub(crate) fn write_manifest(
        &self,
        families: &Families,
        edits: &[VersionEdit],
    ) -> Result<Manifest> {
        // It says of each family which logs it needs.
        self.sync_logs_before(FileNumber(u64::MAX))?;
        let number = self.new_file_number();
        let tracks = self.options().track_and_verify_wals_in_manifest;
        let (logs, min_log, max_family, wals, log_reach) = {
            let tree = self.tree.lock();
            // The log that is written has no length yet.
            let finished = tree.logs.needed();
            let wals: BTreeMap<FileNumber, Option<u64>> = finished
                .filter(|(_, len)| tracks && *len > 0)
                .map(|(number, len)| (number, Some(len)))
                .collect();
            let logs: BTreeMap<u32, FileNumber> = tree
                .families
                .iter()
                .map(|(id, state)| (*id, state.log_number))
                .collect();
            (
                logs,
                tree.logs.first_needed(),
                tree.max_family,
                wals,
                tree.logs.reach(),
            )
        };
        let versions: Vec<(Arc<FamilyState>, Arc<Version>)> = families
            .iter()
            .map(|family| (family.clone(), family.view().version.clone()))
            .collect();
        versions
            .iter()
            .for_each(|(_, version)| check_version(version));
        let contents = Contents {
            db_id: self
                .options()
                .write_dbid_to_manifest
                .then_some(self.context.db_id.as_str()),
            next_file: self.next_file_number(),
            last_sequence: self.published(),
            min_log_to_keep: min_log,
            max_family,
            wals: &wals,
            log_reach,
            families: versions
                .iter()
                .map(|(family, version)| FamilyContents {
                    id: family.id(),
                    name: family.name(),
                    version,
                    log_number: logs.get(&family.id()).copied().unwrap_or_default(),
                    full_history_ts_low: &family.full_history_ts_low,
                    persist_timestamps: family.persist_timestamps,
                })
                .collect(),
        };
        assert!(
            contents.next_file > number,
            "MANIFEST {number} names a next file number above its own"
        );
        debug_assert!(
            contents.min_log_to_keep < contents.next_file,
            "logs are kept from a number on that was given out (S4)"
        );
        debug_assert!(
            families
                .iter()
                .all(|family| logs.contains_key(&family.id())),
            "each family that is written has a log number"
        );
        let manifest = Manifest::create(
            &*self.context.world.fs,
            &self.context.dir,
            number,
            &contents,
            edits,
        )?;
        Ok(manifest.measured(self.telemetry.meter()))
    }
}

/// Hands the files that `next` has no more to the deletion of obsolete files.
pub(crate) fn retire(tree: &mut Tree, family: &FamilyState, base: &Arc<Version>, next: &Version) {
    assert!(
        Arc::ptr_eq(base, &family.view().version),
        "the current version of {:?} is the one that is replaced",
        family.name()
    );
    family.note_replaced(base);
    let blobs = &family.view().family.blobs;
    tree.obsolete.add(&family.tables(), blobs, base, Some(next));
}
