//! The MANIFEST of an open database: appending edits, replacing it, closing it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cairn_format::manifest::VersionEdit;
use cairn_format::names::FileName;
use cairn_observe::BackgroundErrorReason;
use cairn_observe::statistics::Ticker;
use cairn_types::{Error, FileNumber, Result};
use cairn_version::Version;
use cairn_version::manifest::{self, Contents, FamilyContents, Manifest, Recovered, WriteFailed};

use super::Catalog;
use super::env::{CatalogEnv, Installed, InstalledKind};
use super::family::FamilyState;
use super::install::Editor;
use super::invariants::check_version;

impl Editor<'_> {
    /// Appends `edits` atomically, and replaces the MANIFEST if it has grown too large for its content, or has failed.
    /// Listeners get `reason` if that fails.
    pub(super) fn log_edits(
        &mut self,
        env: &impl CatalogEnv,
        reason: BackgroundErrorReason,
        mut edits: Vec<VersionEdit>,
    ) -> Result<(), WriteFailed> {
        let catalog = self.catalog;
        let Some(current) = self.manifest.as_mut() else {
            let closed = Error::shutdown("the database is closed");
            return Err(WriteFailed::before(closed));
        };
        if let Some(last) = edits.last_mut() {
            last.next_file_number = Some(catalog.numbers.next());
            last.last_sequence = last.last_sequence.max(Some(env.log_state().last_sequence));
        }
        catalog.check_edits(&edits);
        let options = catalog.options();
        let percent = u32::try_from(options.max_manifest_space_amp_pct).unwrap_or(0);
        if !current.wants_rotation(options.max_manifest_file_size, percent) {
            return current.append_group(edits).map_err(|error| {
                env.manifest_failed(reason, &error);
                WriteFailed::in_doubt(error)
            });
        }
        let next = catalog.write_manifest(env, &edits).inspect_err(|failed| {
            current.give_up();
            env.manifest_failed(reason, &failed.error);
        })?;
        let old = std::mem::replace(current, next);
        let number = old.number();
        assert!(
            number < current.number(),
            "MANIFEST {} replaces an older one, not {number}",
            current.number()
        );
        // The new one has all of its content.
        if let Err(error) = old.close() {
            catalog
                .context
                .info
                .warn(format_args!("closing {number} failed: {error}"));
        }
        catalog.delete_manifest(number);
        catalog.deletions.delete_files_in_doubt();
        Ok(())
    }

    /// Appends `record`, which belongs to no family.
    ///
    /// # Errors
    ///
    /// `IoError` of the MANIFEST; `ShutdownInProgress`.
    pub(crate) fn log_record(mut self, env: &impl CatalogEnv, record: VersionEdit) -> Result<()> {
        self.log_edits(env, BackgroundErrorReason::ManifestWrite, vec![record])?;
        Ok(())
    }

    /// Records which logs are still needed. Logs of failed writes are not, even if nothing had to be flushed.
    /// If the MANIFEST has failed, this is the first edit in a new one.
    ///
    /// # Errors
    ///
    /// `IoError` of the MANIFEST or of a log.
    pub(crate) fn release_logs(mut self, env: &impl CatalogEnv) -> Result<()> {
        let logs = env.log_state();
        let min_log = match logs.families.is_empty() {
            true => logs.first_needed,
            false => logs.first_after(&[]),
        };
        let mut edits = self.catalog.end_of_logs(Some(min_log));
        edits.extend(logs.families.iter().map(|(id, number)| VersionEdit {
            log_number: Some(*number),
            min_log_number_to_keep: (*id == 0).then_some(min_log),
            ..VersionEdit::of_family(*id)
        }));
        env.sync_logs_before(FileNumber(u64::MAX))?;
        self.log_edits(env, BackgroundErrorReason::ManifestWrite, edits)?;
        let installed = Installed {
            kind: InstalledKind::Logs,
            min_log: Some(min_log),
            last_sequence: None,
        };
        env.installed(&installed, || {});
        Ok(())
    }
}

impl Catalog {
    /// Returns the number and the size of the MANIFEST; `None` if the database has none open.
    pub(crate) fn manifest_position(&self) -> Option<(FileNumber, u64)> {
        let manifest = self.manifest.lock();
        manifest.as_ref().map(|it| (it.number(), it.size()))
    }

    /// Starts the MANIFEST of an opening: the `recovered` one, if it can be appended to, or a new one.
    /// Returns its number.
    ///
    /// # Errors
    ///
    /// `IoError`.
    pub(crate) fn begin_manifest(
        &self,
        env: &impl CatalogEnv,
        recovered: &Recovered,
        keep_logs: bool,
    ) -> Result<FileNumber> {
        let manifest = match self.reuse_manifest(env, recovered, keep_logs)? {
            Some(manifest) => {
                assert_eq!(
                    manifest.number(),
                    recovered.manifest,
                    "a MANIFEST that is reused keeps its number"
                );
                manifest
            }
            None => self.write_manifest(env, &[])?,
        };
        let number = manifest.number();
        assert!(
            recovered.manifest <= number,
            "MANIFEST {number} is newer than the recovered one, {}",
            recovered.manifest
        );
        let before = self.manifest.lock().replace(manifest);
        assert!(
            before.is_none() && !self.context.read_only,
            "an opening for writing begins one MANIFEST"
        );
        Ok(number)
    }

    /// Writes the state of the live families, followed by `edits`, to a new MANIFEST that becomes the current
    /// one.
    fn write_manifest(
        &self,
        env: &impl CatalogEnv,
        edits: &[VersionEdit],
    ) -> Result<Manifest, WriteFailed> {
        let logs = env.log_state();
        // It records the logs needed by each family. The log may be switched meanwhile.
        env.sync_logs_before(FileNumber(u64::MAX))
            .map_err(WriteFailed::before)?;
        let number = self.numbers.take();
        let tracks = self.options().track_and_verify_wals_in_manifest;
        // The length of the current log is not known yet.
        let wals: BTreeMap<FileNumber, Option<u64>> = logs
            .lengths
            .iter()
            .filter(|(_, len)| tracks && **len > 0)
            .map(|(number, len)| (*number, Some(*len)))
            .collect();
        let families = self.families.load_full();
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
            next_file: self.numbers.next(),
            last_sequence: logs.last_sequence,
            min_log_to_keep: logs.first_needed,
            max_family: families.max_id(),
            wals: &wals,
            log_reach: logs.reach,
            families: versions
                .iter()
                .map(|(family, version)| FamilyContents {
                    id: family.id(),
                    name: family.name(),
                    version,
                    log_number: logs.families.get(&family.id()).copied().unwrap_or_default(),
                    full_history_ts_low: version.history_low(),
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
            "the first log to be kept has an allocated number (TREE4)"
        );
        debug_assert!(
            families
                .iter()
                .all(|family| logs.families.contains_key(&family.id())),
            "each family that is written has a log number"
        );
        let (fs, dir) = (&*self.context.world.fs, &self.context.dir);
        let created = Manifest::create(fs, dir, number, &contents, edits);
        let manifest = created.inspect_err(|failed| {
            if failed.in_doubt {
                self.deletions.keep_in_doubt(self.manifest_path(number));
            }
        })?;
        Ok(manifest.measured(self.telemetry.meter()))
    }

    /// Closes the MANIFEST, if there is one. That of a `healthy` database is rewritten if it is missing or has another
    /// length, or if the options require that it is read back, and it is damaged.
    ///
    /// # Errors
    ///
    /// `IoError`.
    pub(crate) fn close_manifest(&self, env: &impl CatalogEnv, healthy: bool) -> Result<()> {
        let Some(mut manifest) = self.manifest.lock().take() else {
            return Ok(());
        };
        if self.options().reuse_manifest_on_open && healthy && !manifest.has_failed() {
            manifest.end()?;
        }
        let (number, bytes) = (manifest.number(), manifest.size());
        manifest.close()?;
        if !healthy {
            return Ok(());
        }
        let reads_it = self.options().verify_manifest_content_on_close;
        let fs = &*self.context.world.fs;
        match manifest::verify(fs, &self.context.dir, number, bytes, reads_it) {
            Err(error) if error.is_corruption() => {
                self.telemetry
                    .tick(Ticker::ManifestValidationFailureCount, 1);
                self.context
                    .info
                    .error(format_args!("MANIFEST {number} is rewritten: {error}"));
            }
            done => return done,
        }
        let fresh = self.write_manifest(env, &[])?;
        let (next, bytes) = (fresh.number(), fresh.size());
        fresh.close()?;
        manifest::verify(fs, &self.context.dir, next, bytes, reads_it)?;
        self.delete_manifest(number);
        Ok(())
    }

    /// Deletes a replaced MANIFEST.
    fn delete_manifest(&self, number: FileNumber) {
        self.deletions.delete(&self.manifest_path(number));
    }

    fn manifest_path(&self, number: FileNumber) -> PathBuf {
        let name = FileName::Manifest(number).to_string();
        self.context.dir.join(name)
    }
}
