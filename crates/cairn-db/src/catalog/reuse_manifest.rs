//! Reuse of the existing MANIFEST (`reuse_manifest_on_open`), which avoids writing the whole tree to a new
//! one.
//!
//! After a crash the content of a file may be in the page cache only: a sync of it may have failed, and
//! another one would then prove nothing. Therefore a MANIFEST is reused only if its last record states that
//! everything before it is durable (`cairn_version::manifest::Ending`), as written when a database with this
//! option is closed, and only if the opening has only added to the tree.

use std::collections::HashSet;
use std::sync::Arc;

use cairn_format::manifest::VersionEdit;
use cairn_types::Result;
use cairn_version::manifest::{Manifest, Recovered, RecoveredFamily};
use cairn_version::{FileMeta, TreeEdit, Version};

use super::Catalog;
use super::env::CatalogEnv;
use super::install::logs_end_before;

impl Catalog {
    /// Reuses the recovered MANIFEST, appending the additions of the opening; `None` if a new one has to be
    /// written.
    pub(super) fn reuse_manifest(
        &self,
        env: &impl CatalogEnv,
        recovered: &Recovered,
        keep_logs: bool,
    ) -> Result<Option<Manifest>> {
        let options = self.options();
        let Some(ending) = recovered.ending else {
            return Ok(None);
        };
        let percent = u32::try_from(options.max_manifest_space_amp_pct).unwrap_or(0);
        let limit = ending.limit(options.max_manifest_file_size, percent);
        if !options.reuse_manifest_on_open
            || options.best_efforts_recovery
            || recovered.manifest_bytes > limit
        {
            return Ok(None);
        }
        let Some(edits) = self.edits_of_opening(env, recovered, keep_logs) else {
            return Ok(None);
        };
        let fs = &*self.context.world.fs;
        let reused = Manifest::reopen(fs, &self.context.dir, recovered, ending, edits);
        Ok(match reused {
            Ok(manifest) => manifest.map(|manifest| {
                self.context.info.info(format_args!(
                    "MANIFEST {} is reused from offset {}",
                    recovered.manifest, ending.offset
                ));
                manifest.measured(self.telemetry.meter())
            }),
            Err(error) => {
                self.context.info.warn(format_args!(
                    "MANIFEST {} cannot be reused: {error}",
                    recovered.manifest
                ));
                None
            }
        })
    }

    /// Returns the edits of the opening to the database described by `recovered`; `None` if it did more than
    /// add to it.
    fn edits_of_opening(
        &self,
        env: &impl CatalogEnv,
        recovered: &Recovered,
        keep_logs: bool,
    ) -> Option<Vec<VersionEdit>> {
        let options = self.options();
        let families = self.families();
        let vouches = options.track_and_verify_wals_in_manifest || !recovered.wals.is_empty();
        let is_all = families.iter().count() == recovered.families.len();
        // Logs that were kept have been rewritten, and may be shorter than recorded.
        if !is_all || (keep_logs && vouches) {
            return None;
        }
        let logs = env.log_state();
        let mut edits = Vec::new();
        if vouches {
            edits.push(logs_end_before(logs.first_needed));
        }
        for family in families.iter() {
            let id = family.id();
            let before = recovered.families.iter().find(|before| before.id == id)?;
            let added = added_to(before, &family.view().version)?;
            let log_number = *logs.families.get(&id)?;
            debug_assert!(
                before.log_number <= log_number,
                "the log number of {:?} falls from {} to {log_number}",
                before.name,
                before.log_number
            );
            if !added.is_empty() || log_number != before.log_number {
                edits.push(VersionEdit {
                    log_number: Some(log_number),
                    ..added.record(id)
                });
            }
        }
        let db_id = options.write_dbid_to_manifest && recovered.db_id.is_none();
        edits.push(VersionEdit {
            db_id: db_id.then(|| self.context.db_id.clone()),
            next_file_number: Some(self.numbers.next()),
            last_sequence: Some(logs.last_sequence),
            max_family: Some(families.max_id()),
            min_log_number_to_keep: Some(logs.first_needed),
            ..VersionEdit::default()
        });
        Some(edits)
    }
}

/// Returns the edit that makes the tree of `before` the tree `now`; `None` if any file was removed.
fn added_to(before: &RecoveredFamily, now: &Version) -> Option<TreeEdit> {
    let base = &before.version;
    let mut added = TreeEdit::default();
    let place = |(level, file): (usize, &Arc<FileMeta>)| (level, Arc::as_ptr(file));
    let old: HashSet<_> = base.files().map(place).collect();
    let mut kept = 0;
    for (level, file) in now.files() {
        match old.contains(&place((level, file))) {
            true => kept += 1,
            false => added.added.push((level, file.clone())),
        }
    }
    let mut kept_blobs = 0;
    for (number, blob) in now.blob_files() {
        match base.blob_files().get(number) {
            Some(old) if Arc::ptr_eq(old, blob) => kept_blobs += 1,
            Some(_) => return None,
            None => added.added_blobs.push(blob.clone()),
        }
    }
    debug_assert!(
        kept <= old.len() && kept_blobs <= base.blob_files().len(),
        "each file of the MANIFEST is found once"
    );
    if kept < old.len() || kept_blobs < base.blob_files().len() {
        return None;
    }
    if now.history_low() != base.history_low() {
        added.history_low = Some(now.history_low().to_vec());
    }
    debug_assert!(
        base.with_edit(&added)
            .is_ok_and(|next| next.as_edit().record(0) == now.as_edit().record(0)),
        "the MANIFEST describes the tree after the opening"
    );
    Some(added)
}
