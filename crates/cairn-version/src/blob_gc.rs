//! Blob garbage collection: selects the blob files from which values are relocated, and the tables
//! to compact for that purpose.
//!
//! A table records only the oldest blob file that it refers to. Garbage is therefore collected
//! starting with the oldest file, which becomes obsolete once no table refers to it. All functions
//! are pure functions of a version.

use std::collections::HashSet;

use cairn_platform::sync::Arc;
use cairn_types::FileNumber;

use crate::file_meta::FileMeta;
use crate::version::Version;

/// Returns the number of the first blob file that is not among the oldest fraction `share`; 0 if
/// nothing is to be relocated.
#[must_use]
pub fn age_cutoff(version: &Version, share: f64) -> FileNumber {
    number_at(version, oldest(version, share))
}

/// Returns the number of files in the oldest fraction `share`.
fn oldest(version: &Version, share: f64) -> usize {
    // The cast truncates, as intended, and saturates.
    (share * version.blob_files().len() as f64) as usize
}

/// Returns the number of the blob file after the `count` oldest.
fn number_at(version: &Version, count: usize) -> FileNumber {
    match (count, version.blob_files().keys().nth(count)) {
        (0, _) => FileNumber(0),
        (_, Some(&number)) => number,
        (_, None) => FileNumber(u64::MAX),
    }
}

/// Returns the number of the first blob file that is kept if blob files may take `target` bytes per
/// byte of live blobs; 0 if all are kept or `target` is 0. The relocated files are the fewest oldest
/// files whose garbage covers the excess.
#[must_use]
pub fn space_cutoff(version: &Version, target: f64) -> FileNumber {
    if target <= 0.0 {
        return FileNumber(0);
    }
    let files = version.blob_files().values();
    let (total, garbage) = files.fold((0_u64, 0_u64), |(total, garbage), file| {
        (
            total.saturating_add(file.total_bytes),
            garbage.saturating_add(file.garbage_bytes),
        )
    });
    debug_assert!(garbage <= total, "garbage is part of the files");
    let live = total.saturating_sub(garbage);
    let excess = total as f64 - target.max(1.0) * live as f64;
    if excess < 1.0 {
        return FileNumber(0);
    }
    let mut gained = 0_u64;
    let enough = version.blob_files().values().position(|file| {
        gained = gained.saturating_add(file.garbage_bytes);
        gained as f64 >= excess
    });
    // Rounding may leave slightly less garbage than the excess: relocate all files.
    let count = enough.map_or(version.blob_files().len(), |last| last + 1);
    number_at(version, count)
}

/// Settings of compactions forced by blob garbage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ForcedOptions {
    /// True if blobs are relocated by age.
    pub enabled: bool,
    /// Fraction of the blob files, oldest first, that is relocated.
    pub age_cutoff: f64,
    /// Fraction of garbage in those files that forces a compaction; 1 for never.
    pub force_threshold: f64,
    /// See [`space_cutoff`].
    pub space_target: f64,
}

/// Returns the tables to compact so that the oldest blob files become obsolete, with their levels,
/// ordered by the oldest blob file they refer to. Tables in `busy` are excluded.
#[must_use]
pub fn forced(
    version: &Version,
    busy: &HashSet<FileNumber>,
    options: &ForcedOptions,
) -> Vec<(usize, Arc<FileMeta>)> {
    let by_age = match is_age_due(version, options) {
        true => version
            .blob_files()
            .keys()
            .next()
            .map(|first| first.0.saturating_add(1)),
        false => None,
    };
    let by_space = space_cutoff(version, options.space_target);
    let below = by_space.0.max(by_age.unwrap_or(0));
    if below == 0 {
        return Vec::new();
    }
    let mut tables: Vec<(usize, Arc<FileMeta>)> = version
        .files()
        .filter(|(_, file)| file.oldest_blob.is_some_and(|oldest| oldest.0 < below))
        .filter(|(_, file)| !busy.contains(&file.number))
        .map(|(level, file)| (level, file.clone()))
        .collect();
    tables.sort_by_key(|(_, file)| (file.oldest_blob, file.number));
    tables
}

/// True if the files relocated by age hold enough garbage.
fn is_age_due(version: &Version, options: &ForcedOptions) -> bool {
    let count = oldest(version, options.age_cutoff).min(version.blob_files().len());
    if !options.enabled || options.force_threshold >= 1.0 || count == 0 {
        return false;
    }
    let files = version.blob_files().values().take(count);
    let (total, garbage) = files.fold((0_u64, 0_u64), |(total, garbage), file| {
        (
            total.saturating_add(file.total_bytes),
            garbage.saturating_add(file.garbage_bytes),
        )
    });
    // Files without garbage gain nothing: with the threshold 0, compactions would never end.
    garbage > 0 && garbage as f64 >= options.force_threshold * total as f64
}

#[cfg(test)]
mod tests {
    use cairn_format::key::InternalKey;
    use cairn_types::{KeyOrder, SequenceNumber, ValueKind};

    use super::*;
    use crate::blob_file_meta::BlobFileMeta;
    use crate::edit::TreeEdit;

    /// Returns a version with blob files 10, 20, … of 100 bytes each with the given garbage, and
    /// tables in level 1 with the given oldest blob files.
    fn version(garbage: &[u64], tables: &[u64]) -> Version {
        let blobs = garbage.iter().zip(1..).map(|(&garbage, number)| {
            Arc::new(BlobFileMeta {
                garbage_count: garbage,
                garbage_bytes: garbage,
                ..BlobFileMeta::new(FileNumber(10 * number), 100, 100)
            })
        });
        let files = tables.iter().zip(1..).map(|(&oldest, number)| {
            let user = [b'a' + number as u8];
            let key = InternalKey::new(&user, SequenceNumber(1), ValueKind::BlobIndex);
            let mut file = FileMeta::new(FileNumber(number), 1000, key.clone(), key);
            file.oldest_blob = (oldest > 0).then_some(FileNumber(oldest));
            (1, Arc::new(file))
        });
        let edit = TreeEdit {
            added: files.collect(),
            added_blobs: blobs.collect(),
            ..TreeEdit::default()
        };
        let empty = Version::empty(KeyOrder::Bytewise, 3);
        empty.with_edit(&edit).expect("the edit is valid")
    }

    fn forced_numbers(version: &Version, options: &ForcedOptions, busy: &[u64]) -> Vec<u64> {
        let busy = busy.iter().copied().map(FileNumber).collect();
        let forced = forced(version, &busy, options);
        forced.iter().map(|(_, file)| file.number.0).collect()
    }

    #[test]
    fn the_oldest_share_is_rounded_down() {
        let version = version(&[0; 4], &[10]);
        for (share, cutoff) in [(0.0, 0), (0.2, 0), (0.25, 20), (0.9, 40), (1.0, u64::MAX)] {
            assert_eq!(age_cutoff(&version, share).0, cutoff, "{share}");
        }
    }

    #[test]
    fn the_fewest_old_files_whose_garbage_is_the_excess_are_emptied() {
        // 400 bytes, of which 300 are live.
        let version = version(&[20, 0, 60, 20], &[10]);
        for (target, cutoff) in [
            (0.0, 0),
            (1.5, 0),
            // The excess is 15, then 40, 85 and 100 bytes.
            (1.29, 20),
            (1.2, 40),
            (1.05, u64::MAX),
            (1.0, u64::MAX),
        ] {
            assert_eq!(space_cutoff(&version, target).0, cutoff, "{target}");
        }
    }

    #[test]
    fn tables_are_compacted_when_the_oldest_files_hold_enough_garbage() {
        let version = version(&[60, 40, 0, 0], &[20, 10, 0, 10, 40]);
        let by_age = ForcedOptions {
            enabled: true,
            age_cutoff: 0.5,
            force_threshold: 0.5,
            space_target: 0.0,
        };
        assert_eq!(forced_numbers(&version, &by_age, &[]), [2, 4]);
        assert_eq!(forced_numbers(&version, &by_age, &[2]), [4]);
        for not_due in [
            ForcedOptions {
                force_threshold: 0.6,
                ..by_age
            },
            ForcedOptions {
                enabled: false,
                ..by_age
            },
            ForcedOptions {
                age_cutoff: 0.2,
                ..by_age
            },
        ] {
            assert_eq!(forced_numbers(&version, &not_due, &[]), [0; 0]);
        }
        // Regression: with the threshold 0, tables were compacted again and again.
        let always = ForcedOptions {
            force_threshold: 0.0,
            ..by_age
        };
        assert_eq!(forced_numbers(&version, &always, &[]), [2, 4]);
        let clean = self::version(&[0, 0, 50, 0], &[20, 10]);
        assert_eq!(forced_numbers(&clean, &always, &[]), [0; 0]);
        let by_space = ForcedOptions {
            space_target: 1.1,
            ..ForcedOptions::default()
        };
        assert_eq!(forced_numbers(&version, &by_space, &[]), [2, 4, 1]);
    }
}
