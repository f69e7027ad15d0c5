//! Writing the MANIFEST.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cairn_format::log::{Framing, LogWriter};
use cairn_format::manifest::{
    FamilyChange, LogReach, VersionEdit, WalAddition, mark_later_in_group,
};
use cairn_format::names::FileName;
use cairn_observe::statistics::{Histogram, Meter};
use cairn_platform::fs::FileMode;
use cairn_platform::sync::Arc;
use cairn_platform::{FileSystem, WritableFile};
use cairn_types::{Code, Error, FileNumber, Result, SequenceNumber, Subcode};

use crate::manifest::torn::MAX_APPEND;
use crate::manifest::{CleanEnd, Recovered, remove_leftover, set_current};
use crate::version::Version;

/// The state that a fresh MANIFEST begins with.
pub struct Contents<'a> {
    /// The database's id, if the MANIFEST shall record it.
    pub db_id: Option<&'a str>,
    /// The next free file number.
    pub next_file: FileNumber,
    /// The last sequence number.
    pub last_sequence: SequenceNumber,
    /// No WAL with a smaller number is needed by anybody.
    pub min_log_to_keep: FileNumber,
    /// The largest family id ever given.
    pub max_family: u32,
    /// WALs that the MANIFEST vouches for, with their synced sizes.
    pub wals: &'a BTreeMap<FileNumber, Option<u64>>,
    /// The log that tables are newer than, and how far.
    pub log_reach: Option<LogReach>,
    /// The families, the default family first.
    pub families: Vec<FamilyContents<'a>>,
}

/// The state of one family.
pub struct FamilyContents<'a> {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: &'a str,
    /// Its files and the order of its keys.
    pub version: &'a Version,
    /// The oldest WAL that may hold unflushed data of it.
    pub log_number: FileNumber,
    /// Timestamps below this one may be gone; empty if never set.
    pub full_history_ts_low: &'a [u8],
    /// True if its tables store user-defined timestamps.
    pub persist_timestamps: bool,
}

impl Contents<'_> {
    /// The edits that amount to this state.
    fn edits(&self) -> Vec<VersionEdit> {
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
                wal_additions: wals
                    .map(|(&number, &synced_bytes)| WalAddition {
                        number,
                        synced_bytes,
                    })
                    .collect(),
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

/// The bytes that a MANIFEST may have that had `fresh_bytes` at first; see [`Manifest::wants_rotation`].
pub(super) fn most_bytes(fresh_bytes: u64, limit: u64, percent: u32) -> u64 {
    let grown = fresh_bytes.saturating_mul(100 + u64::from(percent)) / 100;
    limit.max(grown)
}

/// Bytes before each record.
const HEADER_LEN: usize = 7;

/// The MANIFEST in use, open for appending.
pub struct Manifest {
    number: FileNumber,
    path: PathBuf,
    file: Arc<dyn WritableFile>,
    log: LogWriter,
    fresh_bytes: u64,
    failed: bool,
    /// True if the last record is an [`CleanEnd`].
    ended: bool,
    /// Measures how long it is synced.
    meter: Meter,
}

impl Manifest {
    /// Writes MANIFEST `number` of `dir`, which begins with `contents` and goes on with `edits`,
    /// and makes it the one in use. When this returns, the state survives a power cut.
    ///
    /// # Errors
    ///
    /// `IoError`. Whether the new MANIFEST is in use is then unknown: files must not be deleted
    /// until another attempt, with another number, succeeds.
    pub fn create(
        fs: &dyn FileSystem,
        dir: &Path,
        number: FileNumber,
        contents: &Contents<'_>,
        edits: &[VersionEdit],
    ) -> Result<Manifest> {
        let path = dir.join(FileName::Manifest(number).to_string());
        remove_leftover(fs, &path)?;
        let file = fs.create(&path, FileMode::default())?;
        let mut manifest = Manifest {
            number,
            path,
            file,
            log: LogWriter::new(Framing::Legacy),
            fresh_bytes: 0,
            failed: false,
            ended: false,
            meter: Meter::default(),
        };
        manifest.write(&contents.edits())?;
        manifest.fresh_bytes = manifest.log.offset();
        manifest.write(&[VersionEdit::of_size(manifest.fresh_bytes)])?;
        manifest.write(edits)?;
        manifest.file.sync(false)?;
        // Names survive in any order: CURRENT must not name a file whose own name is lost.
        fs.sync_dir(dir)?;
        set_current(fs, dir, number)?;
        Ok(manifest)
    }

    /// Goes on with MANIFEST `recovered.manifest` of `dir`, which is in use: `edits`, which count
    /// together, take the place of the record that it ends with. When this returns, they survive a
    /// power cut. `None`, and nothing is changed, if the file is not what was recovered.
    ///
    /// # Errors
    ///
    /// `IoError`. The MANIFEST then holds what it held, and perhaps the edits; a fresh one has to be
    /// written.
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
        file.truncate(ending.offset)?;
        // Else a part of what follows could be found behind the old record.
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

    /// Records at the end that everything before is durable, so that [`Manifest::reopen`] can go on there.
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

    /// The same; its syncs are measured.
    #[must_use]
    pub fn measured(mut self, meter: Meter) -> Manifest {
        self.meter = meter;
        self
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> FileNumber {
        self.number
    }

    /// Its length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.log.offset()
    }

    /// True if a fresh MANIFEST should replace it: it is larger than `limit`, and it has grown by
    /// more than `percent` of what it began with, or a large tree would be written anew with each
    /// edit.
    #[must_use]
    pub fn wants_rotation(&self, limit: u64, percent: u32) -> bool {
        self.failed || self.size() > most_bytes(self.fresh_bytes, limit, percent)
    }

    /// Nothing more can be appended: another MANIFEST may be in use.
    pub fn give_up(&mut self) {
        self.failed = true;
    }

    /// True if a write to it failed, so that nothing more can be appended.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Appends `edits`, each of which counts by itself, and syncs them together.
    ///
    /// # Errors
    ///
    /// `IoError`. Whether the edits survive is then unknown, and every later call fails: a fresh
    /// MANIFEST has to be written.
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

    /// Appends `edits` so that either all of them count after a crash or none.
    ///
    /// A disk writes sectors in any order: a later record of the group may be there without an earlier
    /// one. Later records say that they are (`torn`), so that this is no damage. A group that is too
    /// long for one append is synced record by record.
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
    /// `IoError`. What was appended is synced already.
    pub fn close(self) -> Result<()> {
        self.file.close()
    }

    fn write(&mut self, edits: &[VersionEdit]) -> Result<()> {
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
        self.file.append(&bytes)
    }
}
