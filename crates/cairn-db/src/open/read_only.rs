//! The files that a read-only opening read, for copies of the database.
//!
//! A checkpoint of a database that is only read holds the state that the opening found: the beginning of the
//! MANIFEST, the tables that it names (of families that were left out, too), and of each log what was replayed.
//! The rows of the logs are in memtables here, and nothing is flushed.

use std::path::PathBuf;

use cairn_types::{Error, FileNumber, Result, Subcode};
use cairn_version::manifest::Recovered;
use cairn_wal::WalFile;

use crate::catalog::live_files::LiveFiles;
use crate::files::capture::Capture;
use crate::shared::Shared;

impl Shared {
    /// Opens all tables, so that they stay readable when the process that writes the database deletes them. Where
    /// `max_open_files` bounds their number that cannot be promised, and they are opened when they are read.
    /// Damage is an error of the reads that meet it.
    ///
    /// # Errors
    ///
    /// A table is gone already: the database has changed meanwhile, and can be opened again.
    pub(super) fn hold_tables(&self) -> Result<()> {
        let options = self.options();
        if !self.context.read_only || options.max_open_files >= 0 {
            return Ok(());
        }
        for family in self.catalog.families().iter() {
            for (level, file) in family.view().version.files() {
                match family.tables().open(file, level, &self.context.io) {
                    Err(error)
                        if options.paranoid_checks && error.subcode() == Subcode::PathNotFound =>
                    {
                        return Err(error);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Notes what the opening read, unless the MANIFEST does not say it: `found` are the logs that were
    /// there, `used` says how much of each was replayed.
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
                |open| self.catalog.table_dirs(&open.options()),
            );
            let first = dirs
                .first()
                .cloned()
                .unwrap_or_else(|| self.context.dir.clone());
            for (_, file) in family.version.files() {
                let dir = dirs.get(file.path_id as usize).unwrap_or(&first);
                capture.files.tables.push((dir.clone(), file.clone()));
            }
            for blob in family.version.blob_files().values() {
                capture.files.blobs.push((first.clone(), blob.clone()));
            }
        }
        let needed = recovered.families.iter().map(|family| family.log_number);
        let oldest = needed.min().unwrap_or_default();
        let oldest = oldest.max(recovered.min_log_to_keep);
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
                // Only families that were left out need it.
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

    /// The directories of the tables of a family that was left out, by the options of the database.
    fn unopened_dirs(&self) -> Vec<PathBuf> {
        self.catalog
            .table_dirs(&cairn_options::FamilyOptions::default())
    }

    /// The files that the opening of a database read that is only read.
    pub(crate) fn captured_at_opening(&self) -> Result<Capture> {
        let opened = self.opening.capture();
        opened.ok_or_else(|| {
            Error::not_supported(
                "copies of a database that was opened read-only and whose MANIFEST is not whole",
            )
        })
    }
}
