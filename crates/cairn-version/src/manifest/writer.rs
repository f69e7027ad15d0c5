//! Writes the MANIFEST.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cairn_format::log::{Framing, LogWriter};
use cairn_format::manifest::{
    FamilyChange, LogReach, VersionEdit, WalAddition, WalChanges, mark_later_in_group,
};
use cairn_format::names::FileName;
use cairn_observe::statistics::{Histogram, Meter};
use cairn_platform::fs::FileMode;
use cairn_platform::sync::Arc;
use cairn_platform::{FileSystem, WritableFile};
use cairn_types::{Code, Error, FileNumber, Result, SequenceNumber, Subcode};

use crate::manifest::torn::MAX_APPEND;
use crate::manifest::{CleanEnd, Recovered, remove_leftover, replace_current, write_next_current};
use crate::version::Version;

/// The initial state of a new MANIFEST.
pub struct Contents<'a> {
    /// Database id, if it is recorded in the MANIFEST.
    pub db_id: Option<&'a str>,
    /// Next file number.
    pub next_file: FileNumber,
    /// The last sequence number.
    pub last_sequence: SequenceNumber,
    /// The smallest WAL number that is still needed.
    pub min_log_to_keep: FileNumber,
    /// The largest family id ever allocated.
    pub max_family: u32,
    /// Tracked WALs with their synced sizes.
    pub wals: &'a BTreeMap<FileNumber, Option<u64>>,
    /// The WAL position up to which tables hold all data.
    pub log_reach: Option<LogReach>,
    /// The families, the default family first.
    pub families: Vec<FamilyContents<'a>>,
}

/// The state of one family.
pub struct FamilyContents<'a> {
    /// Column family id.
    pub id: u32,
    /// Column family name.
    pub name: &'a str,
    /// The files and the key order.
    pub version: &'a Version,
    /// The oldest WAL that may hold unflushed data.
    pub log_number: FileNumber,
    /// History below this timestamp may have been dropped; empty if never set.
    pub full_history_ts_low: &'a [u8],
    /// True if its tables store user-defined timestamps.
    pub persist_timestamps: bool,
}

impl Contents<'_> {
    /// Returns the edits that describe this state.
    fn edits(&self) -> Vec<VersionEdit> {
        assert!(
            self.families.first().is_some_and(|family| family.id == 0),
            "the default family comes first"
        );
        assert!(
            self.families
                .iter()
                .all(|family| family.id <= self.max_family),
            "no family id is reused"
        );
        let mut edits = Vec::new();
        if let Some(id) = self.db_id {
            edits.push(VersionEdit {
                db_id: Some(id.to_owned()),
                ..VersionEdit::default()
            });
        }
        if !self.wals.is_empty() {
            let wals = self.wals.iter();
            edits.push(VersionEdit {
                wals: WalChanges {
                    additions: wals
                        .map(|(&number, &synced_bytes)| WalAddition {
                            number,
                            synced_bytes,
                        })
                        .collect(),
                    deleted_before: None,
                },
                ..VersionEdit::default()
            });
        }
        for family in &self.families {
            edits.push(VersionEdit {
                comparator: Some(family.version.order().name().to_owned()),
                family_change: (family.id != 0).then(|| FamilyChange::Add {
                    name: family.name.to_owned(),
                }),
                persist_timestamps: Some(family.persist_timestamps),
                ..VersionEdit::of_family(family.id)
            });
            let low = family.full_history_ts_low;
            edits.push(VersionEdit {
                log_number: Some(family.log_number),
                min_log_number_to_keep: (family.id == 0).then_some(self.min_log_to_keep),
                max_family: (family.id == 0).then_some(self.max_family),
                next_file_number: (family.id == 0).then_some(self.next_file),
                last_sequence: Some(self.last_sequence),
                log_reach: self.log_reach.filter(|_| family.id == 0),
                full_history_ts_low: (!low.is_empty()).then(|| low.to_vec()),
                ..family.version.as_edit().record(family.id)
            });
        }
        edits
    }
}

/// Returns the size limit of a MANIFEST whose initial snapshot took `fresh_bytes`; see
/// [`Manifest::wants_rotation`].
pub(super) fn rotation_size(fresh_bytes: u64, limit: u64, percent: u32) -> u64 {
    let grown = fresh_bytes.saturating_mul(100 + u64::from(percent)) / 100;
    limit.max(grown)
}

/// Size of a record header.
const HEADER_LEN: usize = 7;

/// A failed write of a MANIFEST.
#[derive(Debug)]
pub struct WriteFailed {
    /// The error.
    pub error: Error,
    /// True if the edits may be durable, and the files that they add in use.
    pub in_doubt: bool,
}

impl WriteFailed {
    /// A failure after which the outcome is unknown.
    #[must_use]
    pub fn in_doubt(error: Error) -> WriteFailed {
        WriteFailed {
            error,
            in_doubt: true,
        }
    }

    /// A failure before anything was written.
    #[must_use]
    pub fn before(error: Error) -> WriteFailed {
        WriteFailed {
            error,
            in_doubt: false,
        }
    }
}

impl From<WriteFailed> for Error {
    fn from(failed: WriteFailed) -> Error {
        failed.error
    }
}

/// The MANIFEST in use, open for appending.
pub struct Manifest {
    number: FileNumber,
    path: PathBuf,
    file: Arc<dyn WritableFile>,
    log: LogWriter,
    fresh_bytes: u64,
    failed: bool,
    /// True if the last record is a [`CleanEnd`](crate::manifest::CleanEnd).
    ended: bool,
    /// Measures syncs.
    meter: Meter,
}

impl Manifest {
    /// Creates MANIFEST `number` of `dir` with `contents` followed by `edits`, and points CURRENT to
    /// it. On return the state is durable.
    ///
    /// # Errors
    ///
    /// `IoError`. If it is in doubt which MANIFEST is in use, no file may be deleted until another attempt, with another
    /// number, succeeds. Otherwise the one before is, and this one was removed.
    pub fn create(
        fs: &dyn FileSystem,
        dir: &Path,
        number: FileNumber,
        contents: &Contents<'_>,
        edits: &[VersionEdit],
    ) -> Result<Manifest, WriteFailed> {
        let path = dir.join(FileName::Manifest(number).to_string());
        let written =
            Manifest::write_new(fs, &path, number, contents, edits).and_then(|manifest| {
                // Directory entries may become durable in any order: sync the MANIFEST's entry before CURRENT
                // names it.
                fs.sync_dir(dir)?;
                Ok((manifest, write_next_current(fs, dir, number)?))
            });
        let (manifest, next_current) = written.map_err(|error| {
            let temp = dir.join(FileName::Temp(number).to_string());
            for leftover in [&path, &temp] {
                // One that stays is removed by the next opening.
                let _removed = remove_leftover(fs, leftover);
            }
            WriteFailed::before(error)
        })?;
        replace_current(fs, dir, &next_current).map_err(|error| {
            let _removed = remove_leftover(fs, &next_current);
            WriteFailed::in_doubt(error)
        })?;
        Ok(manifest)
    }

    /// Writes the file of [`Manifest::create`].
    fn write_new(
        fs: &dyn FileSystem,
        path: &Path,
        number: FileNumber,
        contents: &Contents<'_>,
        edits: &[VersionEdit],
    ) -> Result<Manifest> {
        remove_leftover(fs, path)?;
        let file = fs.create(path, FileMode::default())?;
        let mut manifest = Manifest {
            number,
            path: path.to_owned(),
            file,
            log: LogWriter::new(Framing::Legacy),
            fresh_bytes: 0,
            failed: false,
            ended: false,
            meter: Meter::default(),
        };
        manifest.write(&contents.edits())?;
        manifest.fresh_bytes = manifest.log.offset();
        assert!(
            manifest.fresh_bytes > 0,
            "the initial snapshot has a record"
        );
        manifest.write(&[VersionEdit::of_size(manifest.fresh_bytes)])?;
        manifest.write(edits)?;
        manifest.file.sync(false)?;
        Ok(manifest)
    }

    /// Continues MANIFEST `recovered.manifest` of `dir`, which is in use: `edits`, applied atomically,
    /// replace its final record. On return they are durable. Returns `None`, without a change, if the
    /// file is not as recovered.
    ///
    /// # Errors
    ///
    /// `IoError`. The MANIFEST then has its old content and possibly the edits; a new one must be
    /// created.
    pub fn reopen(
        fs: &dyn FileSystem,
        dir: &Path,
        recovered: &Recovered,
        ending: CleanEnd,
        mut edits: Vec<VersionEdit>,
    ) -> Result<Option<Manifest>> {
        let path = dir.join(FileName::Manifest(recovered.manifest).to_string());
        let file = fs.open_append(&path, FileMode::default())?;
        if file.len() != recovered.manifest_bytes {
            return Ok(None);
        }
        assert!(
            ending.offset < recovered.manifest_bytes,
            "the clean end is the last record"
        );
        file.truncate(ending.offset)?;
        // Without this sync, part of the new edits could be found after the old record.
        file.sync(false)?;
        if let Some(last) = edits.last_mut() {
            last.compacted_manifest_bytes = Some(ending.fresh_bytes);
        }
        let mut manifest = Manifest {
            number: recovered.manifest,
            path,
            file,
            log: LogWriter::at(Framing::Legacy, ending.offset),
            fresh_bytes: ending.fresh_bytes,
            failed: false,
            ended: false,
            meter: Meter::default(),
        };
        manifest.append_group(edits)?;
        Ok(Some(manifest))
    }

    /// Appends a record which states that everything before it is durable, so that
    /// [`Manifest::reopen`] can continue here.
    ///
    /// # Errors
    ///
    /// As [`Manifest::append`].
    pub fn end(&mut self) -> Result<()> {
        if !self.ended {
            self.append(&[VersionEdit::of_end(self.fresh_bytes)])?;
            self.ended = true;
        }
        Ok(())
    }

    /// Measures the syncs with `meter`.
    #[must_use]
    pub fn measured(mut self, meter: Meter) -> Manifest {
        self.meter = meter;
        self
    }

    /// Returns the MANIFEST number.
    #[must_use]
    pub fn number(&self) -> FileNumber {
        self.number
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.log.offset()
    }

    /// True if the MANIFEST should be rotated: it is larger than `limit` and has grown by more than
    /// `percent` of its initial size. The second condition prevents the snapshot of a large tree
    /// from being rewritten with every edit.
    #[must_use]
    pub fn wants_rotation(&self, limit: u64, percent: u32) -> bool {
        self.failed || self.size() > rotation_size(self.fresh_bytes, limit, percent)
    }

    /// Rejects further appends, because another MANIFEST may be in use.
    pub fn give_up(&mut self) {
        self.failed = true;
    }

    /// True if a write failed, so that further appends are rejected.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Appends `edits`, each individually atomic, with one sync.
    ///
    /// # Errors
    ///
    /// `IoError`. It is then unknown whether the edits are durable, and every later call fails: a new
    /// MANIFEST must be created.
    pub fn append(&mut self, edits: &[VersionEdit]) -> Result<()> {
        if self.failed {
            let text = format!(
                "append to {}: an earlier write to it failed",
                self.path.display()
            );
            return Err(Error::new(Code::IoError, Subcode::None, text));
        }
        let written = self.write(edits).and_then(|()| {
            let began = self.meter.began();
            self.file.sync(false)?;
            self.meter
                .time_since(began, Histogram::ManifestFileSyncMicros);
            Ok(())
        });
        self.failed = written.is_err();
        self.ended = false;
        written
    }

    /// Appends `edits` atomically.
    ///
    /// A disk writes sectors in any order, so a later record of the group may be durable without an
    /// earlier one. Later records are marked as such (see `torn`), so that this is not mistaken for
    /// damage. A group that is too long for one append is synced record by record.
    ///
    /// # Errors
    ///
    /// As [`Manifest::append`].
    pub fn append_group(&mut self, mut edits: Vec<VersionEdit>) -> Result<()> {
        if edits.len() > 1 {
            let of_families = edits.iter().any(|edit| edit.family_change.is_some());
            for (edit, remaining) in edits.iter_mut().rev().zip(0..) {
                if of_families {
                    edit.family_group_remaining = Some(remaining);
                } else {
                    edit.atomic_group_remaining = Some(remaining);
                }
            }
        }
        let bytes: usize = edits
            .iter()
            .map(|edit| edit.to_bytes().len() + HEADER_LEN)
            .sum();
        if edits.len() < 2 || bytes as u64 <= MAX_APPEND {
            return self.append(&edits);
        }
        edits
            .iter()
            .try_for_each(|edit| self.append(std::slice::from_ref(edit)))
    }

    /// Closes the file.
    ///
    /// # Errors
    ///
    /// `IoError`. Appended edits are already synced.
    pub fn close(self) -> Result<()> {
        self.file.close()
    }

    fn write(&mut self, edits: &[VersionEdit]) -> Result<()> {
        debug_assert!(!self.failed, "nothing follows a failed write");
        let before = self.log.offset();
        let mut bytes = Vec::new();
        let mut in_group = false;
        for edit in edits {
            let mut record = Vec::new();
            if in_group {
                mark_later_in_group(&mut record);
            }
            let remaining = edit.atomic_group_remaining.or(edit.family_group_remaining);
            in_group = remaining.is_some_and(|left| left > 0);
            edit.encode(&mut record);
            self.log.add(&record, &mut bytes);
        }
        assert_eq!(
            self.log.offset(),
            before + bytes.len() as u64,
            "the size of the log is that of its records"
        );
        self.file.append(&bytes)
    }
}
