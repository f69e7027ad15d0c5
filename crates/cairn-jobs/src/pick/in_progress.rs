//! The files and key ranges reserved by running compactions of a family.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use cairn_format::key::{self, InternalKey};
use cairn_platform::sync::Arc;
use cairn_types::{FileNumber, KeyOrder};
use cairn_version::FileMeta;

use super::description::{Pick, range};

/// Identifies a running job in [`InProgress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobId(u64);

/// The inputs and outputs of running compactions of a family.
#[derive(Clone, Debug, Default)]
pub struct InProgress {
    files: HashSet<FileNumber>,
    /// Damaged files, which are excluded from picks.
    quarantined: HashSet<FileNumber>,
    running: Vec<Running>,
    next: u64,
    releases: u64,
}

/// One running compaction.
#[derive(Clone, Debug)]
struct Running {
    id: JobId,
    files: Vec<FileNumber>,
    start_level: usize,
    output_level: usize,
    /// The levels that the compaction writes to.
    writes: RangeInclusive<usize>,
    smallest: InternalKey,
    largest: InternalKey,
}

impl InProgress {
    /// Registers the inputs and the output range of `pick`, which is about to run.
    ///
    /// # Panics
    ///
    /// If an input or the output range is already registered: two jobs would write the same keys. Quarantined files may be
    /// dropped, but not compacted.
    pub fn add(&mut self, order: &KeyOrder, pick: &Pick) -> JobId {
        let id = JobId(self.next);
        self.next += 1;
        let offered = pick.offer.iter().flat_map(|offer| &offer.files);
        let taken = || pick.files().map(|(_, file)| file).chain(offered.clone());
        let (smallest, largest) = range(order, taken()).expect("a pick has at least one input");
        let lowest = pick.output.level + usize::from(pick.offer.is_some());
        let writes = pick.highest_output()..=lowest;
        let (low, high) = pick.bounds(order);
        let mut outputs = pick.highest_output()..=pick.output.level;
        assert!(
            pick.drops
                || pick.output.level == 0
                || !outputs.any(|at| self.writes(order, at, low.as_bytes(), high.as_bytes())),
            "a running compaction writes to the output range"
        );
        let files: Vec<FileNumber> = taken().map(|file| file.number).collect();
        // All are checked before any is registered: after a panic, no job would release them.
        let mut added = HashSet::with_capacity(files.len());
        for &file in &files {
            assert!(
                !self.is_taken(file, pick.drops) && added.insert(file),
                "table {file} is already in a running compaction"
            );
        }
        self.files.extend(added);
        self.running.push(Running {
            id,
            files,
            start_level: pick.start_level(),
            output_level: pick.output.level,
            writes,
            smallest,
            largest,
        });
        id
    }

    /// Reserves the range between the two bounds of `level`, where files are about to be ingested,
    /// until [`InProgress::remove`].
    pub fn reserve(
        &mut self,
        level: usize,
        smallest: &InternalKey,
        largest: &InternalKey,
    ) -> JobId {
        let id = JobId(self.next);
        self.next += 1;
        self.running.push(Running {
            id,
            files: Vec::new(),
            start_level: level,
            output_level: level,
            writes: level..=level,
            smallest: smallest.clone(),
            largest: largest.clone(),
        });
        id
    }

    /// Keeps `files`, which are about to be deleted, out of picks until [`InProgress::remove`].
    ///
    /// # Panics
    ///
    /// If one of them is an input of a running compaction.
    pub fn hold(&mut self, files: &[FileNumber]) -> JobId {
        let id = JobId(self.next);
        self.next += 1;
        for &file in files {
            assert!(
                !self.is_input(file),
                "table {file} is in no running compaction"
            );
        }
        self.files.extend(files);
        self.running.push(Running {
            id,
            files: files.to_vec(),
            start_level: usize::MAX,
            output_level: usize::MAX,
            // None.
            writes: RangeInclusive::new(1, 0),
            smallest: InternalKey::default(),
            largest: InternalKey::default(),
        });
        id
    }

    /// True if the file is an input of a running compaction. Unlike [`InProgress::is_busy`], false for a damaged file that is
    /// excluded from picks.
    #[must_use]
    pub fn is_input(&self, number: FileNumber) -> bool {
        self.running.iter().any(|job| job.files.contains(&number))
    }

    /// Releases the reservation of a job, after its edit is installed or it has failed.
    pub fn remove(&mut self, id: JobId) {
        if let Some(at) = self.running.iter().position(|running| running.id == id) {
            self.releases += 1;
            for file in self.running.swap_remove(at).files {
                if !self.quarantined.contains(&file) {
                    assert!(
                        self.files.remove(&file),
                        "inputs stay registered while a job runs"
                    );
                }
            }
        }
    }

    /// Releases all quarantined files.
    pub fn release_quarantined(&mut self) {
        self.releases += 1;
        for file in std::mem::take(&mut self.quarantined) {
            if !self.running.iter().any(|job| job.files.contains(&file)) {
                self.files.remove(&file);
            }
        }
    }

    /// Excludes a damaged file from picks until [`InProgress::release_quarantined`]. Returns false
    /// if it was already excluded.
    pub fn quarantine(&mut self, file: FileNumber) -> bool {
        self.files.insert(file);
        let is_new = self.quarantined.insert(file);
        debug_assert!(self.quarantined.is_subset(&self.files));
        is_new
    }

    /// Returns a number that changes whenever files or ranges are released. A pick that conflicts with others need not be
    /// tried again before.
    #[must_use]
    pub fn releases(&self) -> u64 {
        self.releases
    }

    /// Returns the number of running compactions and reservations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// True if no compaction is running, and nothing is reserved.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// True if the file is an input of a running compaction, reserved, or quarantined.
    #[must_use]
    pub fn is_busy(&self, number: FileNumber) -> bool {
        self.files.contains(&number)
    }

    /// True if a pick cannot have the file. One that `drops` its inputs does not read them, so quarantined ones are allowed.
    pub(super) fn is_taken(&self, number: FileNumber, drops: bool) -> bool {
        match drops {
            true => self.is_input(number),
            false => self.is_busy(number),
        }
    }

    /// Returns the inputs of all running compactions, and the quarantined files.
    #[must_use]
    pub fn files(&self) -> &HashSet<FileNumber> {
        &self.files
    }

    pub(super) fn any(&self, files: &[Arc<FileMeta>]) -> bool {
        files.iter().any(|file| self.is_busy(file.number))
    }

    /// True if a compaction of level 0 is running. Only one may run at a time, because level-0
    /// files overlap.
    #[must_use]
    pub fn takes_level_zero(&self) -> bool {
        self.running.iter().any(|running| running.start_level == 0)
    }

    /// True if a running compaction moves level-0 files to `base`.
    pub(super) fn empties_level_zero_into(&self, base: usize) -> bool {
        let mut running = self.running.iter();
        running.any(|running| running.start_level == 0 && running.output_level == base)
    }

    /// True if a running compaction writes to `level` between the two bounds (internal keys).
    #[must_use]
    pub fn writes(&self, order: &KeyOrder, level: usize, smallest: &[u8], largest: &[u8]) -> bool {
        self.running.iter().any(|running| {
            let compare = |bound: &InternalKey, other: &[u8]| {
                order.compare_without_timestamp(bound.user_key(), key::user_key(other))
            };
            running.writes.contains(&level)
                && compare(&running.smallest, largest).is_le()
                && compare(&running.largest, smallest).is_ge()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_files_are_not_picked_until_they_are_released() {
        let mut busy = InProgress::default();
        let [one, damaged] = [1, 2].map(FileNumber);
        assert!(busy.quarantine(damaged));
        assert!(!busy.is_input(damaged), "no job reads it");
        let id = busy.hold(&[one, damaged]);
        let before = busy.releases();
        assert!(busy.is_busy(one) && busy.is_input(one) && busy.is_input(damaged));
        let order = KeyOrder::Bytewise;
        assert!(
            !busy.writes(&order, 0, b"", &[0xff; 9]),
            "only files are held"
        );
        busy.release_quarantined();
        assert!(busy.is_busy(damaged), "it is held");
        busy.remove(id);
        assert_eq!(busy.releases(), before + 2);
        assert!(!busy.is_busy(one) && !busy.is_busy(damaged) && busy.is_empty());
    }
}
