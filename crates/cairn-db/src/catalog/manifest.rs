//! The MANIFEST of an open database.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_format::manifest::VersionEdit;
use cairn_format::names::FileName;
use cairn_observe::BackgroundErrorReason;
use cairn_observe::statistics::Ticker;
use cairn_types::{Error, FileNumber, Result};
use cairn_version::Version;
use cairn_version::manifest::{self, Contents, FamilyContents, Manifest};

use super::family::{Families, FamilyState};
use super::invariants::check_version;
use crate::shared::Shared;

impl Shared {
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
    pub(super) fn log_edits_for(
        &self,
        reason: BackgroundErrorReason,
        manifest: &mut Option<Manifest>,
        mut edits: Vec<VersionEdit>,
    ) -> Result<()> {
        let current = manifest
            .as_mut()
            .ok_or_else(|| Error::shutdown("the database is closed"))?;
        if let Some(last) = edits.last_mut() {
            last.next_file_number = Some(self.catalog.next_file_number());
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
        let families = self.catalog.families_full();
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
        self.catalog.delete(
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
        let number = self.catalog.new_file_number();
        let tracks = self.options().track_and_verify_wals_in_manifest;
        let (logs, min_log, wals, log_reach) = {
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
            (logs, tree.logs.first_needed(), wals, tree.logs.reach())
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
            next_file: self.catalog.next_file_number(),
            last_sequence: self.published(),
            min_log_to_keep: min_log,
            max_family: families.max_id(),
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

    /// Closes the MANIFEST; first it is read back if the options say so, and written anew if it is
    /// damaged.
    pub(crate) fn close_manifest(&self, mut manifest: Manifest) -> Result<()> {
        if self.options().reuse_manifest_on_open
            && !self.errors.stop_writes()
            && !manifest.has_failed()
        {
            manifest.end()?;
        }
        let (number, bytes) = (manifest.number(), manifest.size());
        manifest.close()?;
        if !self.options().verify_manifest_content_on_close || self.errors.stop_writes() {
            return Ok(());
        }
        let fs = &*self.context.world.fs;
        match manifest::verify(fs, &self.context.dir, number, bytes) {
            Err(error) if error.is_corruption() => {
                self.telemetry
                    .tick(Ticker::ManifestValidationFailureCount, 1);
                self.context
                    .info
                    .error(format_args!("MANIFEST {number} is written anew: {error}"));
            }
            done => return done,
        }
        let fresh = self.write_manifest(&self.catalog.families_full(), &[])?;
        let (next, bytes) = (fresh.number(), fresh.size());
        fresh.close()?;
        manifest::verify(fs, &self.context.dir, next, bytes)?;
        self.catalog.delete(
            &self
                .context
                .dir
                .join(FileName::Manifest(number).to_string()),
        );
        Ok(())
    }
}
