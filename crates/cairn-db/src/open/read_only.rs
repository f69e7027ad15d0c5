//! Read-only openings beside a process that writes the database, and the files that they have read, for copies.
//!
//! A checkpoint of a read-only database has the state found by the opening: the relevant part of the
//! MANIFEST, the tables in it (including those of families that were not opened), and the replayed part of
//! each log. The entries of the logs are in memtables, and nothing is flushed.

use std::path::{Path, PathBuf};

use cairn_format::names::FileName;
use cairn_options::DbOptions;
use cairn_read::BlobSource;
use cairn_types::{Error, FileNumber, Result, Subcode};
use cairn_version::manifest::{self, Recovered};
use cairn_version::{Version, table_dir};
use cairn_wal::WalFile;

use crate::catalog::family::FamilyState;
use crate::catalog::live_files::LiveFiles;
use crate::files::capture::Capture;
use crate::shared::Shared;

use super::{OpenRequest, recover_manifest};

/// Returns the number and the length of the MANIFEST, which change with the state of the database; `None` if they are
/// unknown.
pub(super) fn position(request: &OpenRequest<'_>) -> Option<(FileNumber, u64)> {
    let fs = &*request.world.fs;
    let dir = fs.canonical(request.path).ok()?;
    let number = manifest::current(fs, &dir).ok()??;
    let path = dir.join(FileName::Manifest(number).to_string());
    Some((number, fs.status(&path).ok()?.len))
}

/// Checks that the process that writes the database still needs the logs that it needed according to `recovered`: it may
/// have deleted or overwritten others before they were listed or read.
///
/// # Errors
///
/// `TryAgain` if it does not; those of reading the MANIFEST.
pub(super) fn check_logs(
    request: &OpenRequest<'_>,
    options: &DbOptions,
    dir: &Path,
    recovered: &Recovered,
) -> Result<()> {
    if position(request) == Some((recovered.manifest, recovered.manifest_bytes)) {
        return Ok(());
    }
    let needed = |state: &Recovered| {
        let logs = state.families.iter().map(|family| family.log_number);
        (state.min_log_to_keep, logs.min())
    };
    let now = recover_manifest(request, options, dir)?;
    match needed(&now) == needed(recovered) {
        true => Ok(()),
        false => Err(Error::try_again(format!(
            "{}: a log may have been deleted during the read-only opening, since another process writes the database",
            dir.display()
        ))),
    }
}

impl Shared {
    /// Opens all tables and blob files, so that they stay readable when the process that writes the database deletes them.
    /// If `max_open_files` limits their number, that cannot be guaranteed, and they are opened on first use.
    /// Damage is an error of the reads that encounter it.
    ///
    /// # Errors
    ///
    /// A file was already deleted: the database has changed in the meantime, and can be opened again.
    pub(super) fn hold_all_files(&self) -> Result<()> {
        let must_exist = self.options().paranoid_checks;
        let fails = |error: &Error| must_exist && error.subcode() == Subcode::PathNotFound;
        for family in self.catalog.families().iter() {
            let view = family.view();
            self.hold_files(family, &view.version, &view.family.blobs, &fails)?;
        }
        Ok(())
    }

    /// Opens the files of `version`, a state of `family` with the blob files of `blobs`, that are not open, unless
    /// `max_open_files` limits their number. Returns the first error for which `fails` is true.
    pub(crate) fn hold_files(
        &self,
        family: &FamilyState,
        version: &Version,
        blobs: &BlobSource,
        fails: &dyn Fn(&Error) -> bool,
    ) -> Result<()> {
        if self.options().max_open_files >= 0 {
            return Ok(());
        }
        let judge = |error: Option<Error>| error.filter(fails).map_or(Ok(()), Err);
        for (level, file) in version.files() {
            judge(family.tables().open(file, level, &self.context.io).err())?;
        }
        let mut numbers = version.blob_files().keys();
        numbers.try_for_each(|number| judge(blobs.file(*number).err()))
    }

    /// Records what the opening has read, unless it differs from the MANIFEST: `found` are the existing logs,
    /// `used` has the replayed length of each.
    pub(super) fn note_opened(
        &self,
        recovered: &Recovered,
        found: &[WalFile],
        used: &[(FileNumber, u64)],
    ) -> Result<()> {
        if recovered.unread.is_some() || !recovered.set_back.is_empty() {
            return Ok(());
        }
        let mut capture = Capture {
            files: LiveFiles {
                tables: Vec::new(),
                blobs: Vec::new(),
                manifest: (recovered.manifest, recovered.manifest_bytes),
            },
            logs: Vec::new(),
            last: self.published(),
        };
        let families = self.catalog.families();
        for family in &recovered.families {
            let open = families.get(family.id);
            let dirs = open.map_or_else(
                || self.unopened_dirs(),
                |open| self.catalog.sources.dirs(&open.options()),
            );
            let first = dirs
                .first()
                .cloned()
                .unwrap_or_else(|| self.context.dir.clone());
            for (_, file) in family.version.files() {
                let dir = table_dir(&dirs, file.path_id).unwrap_or(&first);
                capture.files.tables.push((dir.clone(), file.clone()));
            }
            for blob in family.version.blob_files().values() {
                capture.files.blobs.push((first.clone(), blob.clone()));
            }
        }
        let needed = recovered.families.iter().map(|family| family.log_number);
        let oldest = needed.min().unwrap_or_default();
        let oldest = self.first_replayed(recovered.min_log_to_keep, oldest);
        debug_assert!(
            used.iter()
                .all(|(number, _)| found.iter().any(|log| log.number == *number)),
            "the logs that were replayed were found"
        );
        let replayed_from = used.first().map(|(number, _)| *number);
        for log in found.iter().filter(|log| log.number >= oldest) {
            let of_others = replayed_from.is_none_or(|first| log.number < first);
            let len = match used.iter().find(|(number, _)| *number == log.number) {
                Some((_, used)) => *used,
                // Needed only by families that were not opened.
                None if of_others => self.context.world.fs.status(&log.path)?.len,
                // The replay ended before it.
                None => 0,
            };
            if len > 0 {
                capture.logs.push((log.number, len));
            }
        }
        debug_assert!(capture.logs.is_sorted(), "logs are captured in their order");
        self.opening.set_capture(capture);
        Ok(())
    }

    /// Returns the directories of the tables of a family that was not opened, according to the options of the
    /// database.
    fn unopened_dirs(&self) -> Vec<PathBuf> {
        self.catalog
            .sources
            .dirs(&cairn_options::FamilyOptions::default())
    }

    /// Returns the files read by the opening of a read-only database.
    pub(crate) fn captured_at_opening(&self) -> Result<Capture> {
        let opened = self.opening.capture();
        opened.ok_or_else(|| {
            Error::not_supported(
                "copies of a read-only database whose MANIFEST is incomplete, or whose logs refer to blob files that the \
                 MANIFEST does not name",
            )
        })
    }
}
