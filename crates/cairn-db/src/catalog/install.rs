//! Installing edits: the MANIFEST first, then the views.
//!
//! Edits are installed one at a time, under the lock of the MANIFEST, so the version an edit was made for can
//! only have changed in files that it does not touch. A new version is published to readers after its edit is
//! durable in the MANIFEST.

use std::sync::Arc;

use cairn_format::manifest::{LogReach, VersionEdit, WalChanges};
use cairn_memtable::Memtable;
use cairn_observe::BackgroundErrorReason;
use cairn_types::{Error, FileNumber, Result, SequenceNumber};
use cairn_version::manifest::{Manifest, WriteFailed};
use cairn_version::{TreeEdit, Version};

use super::Catalog;
use super::env::{CatalogEnv, Installed, InstalledKind, LogState};
use super::family::FamilyState;
use crate::locks::RankedGuard;

/// A change to install: files, and the memtables and logs that it replaces.
#[derive(Default)]
pub(crate) struct Change {
    /// The files removed and added.
    pub(crate) edit: TreeEdit,
    /// The memtables whose data is in the added files.
    pub(crate) flushed: Vec<Arc<Memtable>>,
    /// Once these are flushed, the family needs only this log and later ones.
    pub(crate) log_number: Option<FileNumber>,
    /// Set if the files were ingested.
    pub(crate) ingested: Option<Ingested>,
}

/// Details of an ingestion.
#[derive(Clone, Copy)]
pub(crate) struct Ingested {
    /// The last sequence number of the ingestion, which becomes visible with the files.
    pub(crate) last_sequence: SequenceNumber,
    /// The durable end of the logs, because log numbers do not order the files after the logged data.
    pub(crate) log_reach: Option<LogReach>,
}

/// Exclusive access to the catalog: while a thread holds it, versions and the set of families do not change.
pub(crate) struct Editor<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) manifest: RankedGuard<'a, Option<Manifest>>,
}

/// Changes that are consistent with the versions of their families.
pub(crate) struct PreparedChanges<'a> {
    group: Vec<(&'a FamilyState, &'a Change)>,
    /// For each change, the version that it applies to and the resulting one.
    versions: Vec<(Arc<Version>, Arc<Version>)>,
    logs: LogState,
}

impl Catalog {
    /// Waits for an edit in progress and blocks further ones.
    pub(crate) fn edit(&self) -> Editor<'_> {
        Editor {
            catalog: self,
            manifest: self.manifest.lock(),
        }
    }

    /// Installs each change in its family, durably and atomically. Dropped families are skipped.
    ///
    /// # Errors
    ///
    /// `Corruption` if an edit is inconsistent with its tree, and nothing has changed; `IoError` of the
    /// MANIFEST, after which it is unknown whether the changes are durable; `ShutdownInProgress` if all
    /// families were dropped.
    pub(crate) fn install(
        &self,
        env: &impl CatalogEnv,
        group: &[(&FamilyState, &Change)],
    ) -> Result<()> {
        let first_log = group
            .iter()
            .filter_map(|(_, change)| change.log_number)
            .max();
        if let Some(first) = first_log {
            env.sync_logs_before(first)
                .inspect_err(|_| self.delete_outputs(group))?;
        }
        let editor = self.edit();
        let (dropped, group): (Vec<_>, Vec<_>) =
            group.iter().partition(|(family, _)| family.is_dropped());
        self.delete_outputs(&dropped);
        if let ([(family, _), ..], []) = (&dropped[..], &group[..]) {
            return Err(Error::shutdown(format!(
                "column family {:?} was dropped",
                family.name()
            )));
        }
        let prepared = editor
            .prepare(env, group.clone())
            .inspect_err(|_| self.delete_outputs(&group))?;
        Ok(editor.commit(env, &prepared)?)
    }

    /// Deletes the files of changes that are not installed.
    fn delete_outputs(&self, group: &[(&FamilyState, &Change)]) {
        for (family, change) in group {
            self.deletions.delete_outputs(family, &change.edit);
        }
    }
}

impl Editor<'_> {
    /// Applies `group` to the versions of its families and validates the result.
    ///
    /// # Errors
    ///
    /// `Corruption` if an edit is inconsistent with the tree.
    pub(crate) fn prepare<'g>(
        &self,
        env: &impl CatalogEnv,
        group: Vec<(&'g FamilyState, &'g Change)>,
    ) -> Result<PreparedChanges<'g>> {
        for (at, (family, _)) in group.iter().enumerate() {
            assert!(
                group[..at]
                    .iter()
                    .all(|(other, _)| other.id() != family.id()),
                "a group has one change of family {:?}",
                family.name()
            );
        }
        let logs = env.log_state();
        let mut versions = Vec::with_capacity(group.len());
        for (family, change) in &group {
            let base = family.view().version.clone();
            let next = Arc::new(base.with_edit(&change.edit)?);
            self.catalog
                .check_change(family, change, &base, &next, &logs);
            versions.push((base, next));
        }
        Ok(PreparedChanges {
            group,
            versions,
            logs,
        })
    }

    /// Appends the changes to the MANIFEST as one group, and publishes them.
    ///
    /// # Errors
    ///
    /// `IoError` of the MANIFEST. It may be in doubt whether the changes are durable: their files are then kept until the
    /// next MANIFEST is in use. Otherwise they are deleted. The caller keeps or deletes those that it ingests.
    pub(crate) fn commit(
        mut self,
        env: &impl CatalogEnv,
        prepared: &PreparedChanges<'_>,
    ) -> Result<(), WriteFailed> {
        let PreparedChanges {
            group,
            versions,
            logs,
        } = prepared;
        // Logs become unneeded only through a change with a log number, and only the records of such a change say
        // so. Until then all logs are kept, even those that no family needs: later logs are valid only if the
        // earlier ones exist.
        let frees_logs = group.iter().any(|(_, change)| change.log_number.is_some());
        let min_log = frees_logs.then(|| logs.first_after(group));
        // RocksDB reports a failed MANIFEST in a flush as one without a WAL, whether or not there is a WAL.
        let reason = match group.iter().any(|(_, change)| !change.flushed.is_empty()) {
            true => BackgroundErrorReason::ManifestWriteNoWal,
            false => BackgroundErrorReason::ManifestWrite,
        };
        let records = self.catalog.records(group, min_log);
        if let Err(failed) = self.log_edits(env, reason, records) {
            let written = group.iter().filter(|(_, change)| change.ingested.is_none());
            for (family, change) in written {
                let deletions = &self.catalog.deletions;
                match failed.in_doubt {
                    true => deletions.keep_outputs_in_doubt(family, &change.edit),
                    false => deletions.delete_outputs(family, &change.edit),
                }
            }
            return Err(failed);
        }
        let ingested = group.iter().filter_map(|(_, change)| change.ingested);
        let installed = Installed {
            kind: InstalledKind::Changes(group),
            min_log,
            last_sequence: ingested.map(|files| files.last_sequence).max(),
        };
        env.installed(&installed, || self.catalog.publish(prepared));
        assert!(
            group
                .iter()
                .zip(versions)
                .all(|((family, _), (base, _))| !Arc::ptr_eq(&family.view().version, base)),
            "versions are published under the lock under which views change"
        );
        Ok(())
    }
}

/// The MANIFEST record that logs before `log` are no longer needed. It has nothing else: RocksDB ignores other changes in a
/// record with changes of logs, or these.
pub(super) fn logs_end_before(log: FileNumber) -> VersionEdit {
    VersionEdit {
        wals: WalChanges {
            additions: Vec::new(),
            deleted_before: Some(log),
        },
        ..VersionEdit::default()
    }
}

impl Catalog {
    /// The MANIFEST record, if logs are tracked, that those before `min_log` are no longer needed.
    pub(super) fn end_of_logs(&self, min_log: Option<FileNumber>) -> Vec<VersionEdit> {
        let tracks = self.options().track_and_verify_wals_in_manifest;
        min_log
            .filter(|_| tracks)
            .map(logs_end_before)
            .into_iter()
            .collect()
    }

    /// Returns the MANIFEST records of `group`, after which recovery needs no log before `min_log`.
    fn records(
        &self,
        group: &[(&FamilyState, &Change)],
        min_log: Option<FileNumber>,
    ) -> Vec<VersionEdit> {
        let mut records = self.end_of_logs(min_log);
        records.extend(group.iter().map(|(family, change)| {
            let mut record = change.edit.record(family.id());
            record.log_number = change.log_number;
            record.min_log_number_to_keep = min_log.filter(|_| change.log_number.is_some());
            if let Some(ingested) = &change.ingested {
                record.last_sequence = Some(ingested.last_sequence);
                record.log_reach = ingested.log_reach;
            }
            record
        }));
        records
    }

    /// Publishes the versions of `prepared`, and removes flushed memtables from their views.
    fn publish(&self, prepared: &PreparedChanges<'_>) {
        let changes = prepared.group.iter().zip(&prepared.versions);
        for ((family, change), (base, next)) in changes {
            self.space.track(family, Some(base), next);
            family.note_replaced(base);
            self.deletions.retire(family, base, Some(next));
            let retired = family
                .direct
                .flushed(&change.flushed, &change.edit.added_blobs);
            self.deletions.retire_direct(family, retired);
            family.add_history(&change.flushed);
            let view = family.view().with_version(next.clone(), &change.flushed);
            family.set_view(view);
            change
                .flushed
                .iter()
                .for_each(|memtable| memtable.mark_flushed());
            family.trim_memtable_history();
        }
        self.snapshots.forget_bottom();
    }
}
