//! Which blob files are moved out of, and which tables must be compacted for that.
//!
//! A table knows the oldest blob file that it refers to, and no other. So garbage is collected
//! from the oldest file on: once no table refers to the oldest, it goes, whatever is in it.
//! Everything here is a pure function of a version.

use std::collections::HashSet;

use cairn_platform::sync::Arc;
use cairn_types::FileNumber;

use crate::file::FileMeta;
use crate::version::Version;

/// The number of the first blob file that is not among the oldest `share` of all; 0 if none is.
#[must_use]
pub fn age_cutoff(version: &Version, share: f64) -> FileNumber {
    number_at(version, oldest(version, share))
}

/// How many files the oldest `share` of all are.
fn oldest(version: &Version, share: f64) -> usize {
    // Truncation is meant, and saturates.
    (share * version.blob_files().len() as f64) as usize
}

/// The number of the blob file behind the `count` oldest.
fn number_at(version: &Version, count: usize) -> FileNumber {
    match (count, version.blob_files().keys().nth(count)) {
        (0, _) => FileNumber(0),
        (_, Some(&number)) => number,
        (_, None) => FileNumber(u64::MAX),
    }
}

/// The number of the first blob file that may stay if blob files are to take at most `target`
/// bytes for each byte of live blobs; 0 if all may, or `target` is 0. The files before it are the
/// fewest of the oldest ones whose garbage is the excess.
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
    // Rounding may leave less than the excess: then all of it goes.
    let count = enough.map_or(version.blob_files().len(), |last| last + 1);
    number_at(version, count)
}

/// When tables are compacted for the sake of blob files.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ForcedOptions {
    /// Whether blobs are moved because of their age.
    pub enabled: bool,
    /// The share of the blob files, oldest first, that is moved out of.
    pub age_cutoff: f64,
    /// The share of garbage in those files at which tables are compacted for it; 1 for never.
    pub force_threshold: f64,
    /// See [`space_cutoff`].
    pub space_target: f64,
}

/// The tables of `version` that are compacted so that the oldest blob files can go, each with its
/// level: those that refer to the oldest file first. Tables in `busy` are being compacted already.
#[must_use]
pub fn forced(
    version: &Version,
    busy: &HashSet<FileNumber>,
    options: &ForcedOptions,
) -> Vec<(usize, Arc<FileMeta>)> {
    let by_age = match is_age_due(version, options) {
        true => version.blob_files().keys().next().map(|first| first.0 + 1),
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

/// Whether the files that are moved out of by their age hold enough garbage.
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
    garbage as f64 >= options.force_threshold * total as f64
}
