//! The files that a crash has left, which are found and deleted when the database is opened ([`super::deletions`] has
//! the rules of the others). Files with unknown names are never touched. A file that cannot be deleted is reported and
//! left to the next opening: logs before the first one that is needed are not replayed, and the opening skips the
//! numbers of all files that it finds.

use std::collections::BTreeSet;
use std::path::Path;

use cairn_format::names::FileName;
use cairn_observe::Logger;
use cairn_platform::FileSystem;
use cairn_platform::fs::PathKind;
use cairn_types::{FileNumber, Result, Subcode};

use super::sst_file_manager::trash_of;

/// The files kept by a full scan.
pub(crate) struct Keep {
    /// The current MANIFEST.
    pub(crate) manifest: FileNumber,
    /// Logs before this one are not needed.
    pub(crate) min_log: FileNumber,
    /// Tables and blob files of the live versions.
    pub(crate) live: BTreeSet<FileNumber>,
    /// Files at or above this number may be about to be added to the tree.
    pub(crate) min_pending: FileNumber,
}

/// The number of OPTIONS files to keep.
const OPTIONS_KEPT: usize = 2;

impl Keep {
    /// True if the file may be deleted. OPTIONS files are handled separately.
    pub(crate) fn is_obsolete(&self, name: FileName) -> bool {
        match name {
            FileName::Wal(number) => number < self.min_log,
            // Failed openings leave some with larger numbers than a reused one.
            FileName::Manifest(number) => number != self.manifest,
            FileName::Table(number) | FileName::LegacyTable(number) | FileName::Blob(number) => {
                number < self.min_pending && !self.live.contains(&number)
            }
            FileName::Temp(_) | FileName::OptionsTemp(_) => true,
            _ => false,
        }
    }
}

/// Deletes the files `names` in `dir` except those that `keep` keeps. No other thread may be creating files
/// there.
pub(crate) fn scan(
    fs: &dyn FileSystem,
    info: &Logger,
    dir: &Path,
    names: Vec<String>,
    keep: &Keep,
) {
    for name in &names {
        match FileName::parse(name) {
            Some(kind) if keep.is_obsolete(kind) => remove_or_warn(fs, info, &dir.join(name)),
            None if trash_of(name).is_some() => remove_or_warn(fs, info, &dir.join(name)),
            _ => {}
        }
    }
    for name in old_options(names) {
        remove_or_warn(fs, info, &dir.join(name));
    }
}

/// Deletes the tables and blob files in `dir` except those that `keep` keeps, and nothing else: the directory
/// may have other uses.
pub(crate) fn scan_tables(
    fs: &dyn FileSystem,
    info: &Logger,
    dir: &Path,
    keep: &Keep,
) -> Result<()> {
    scan_for(fs, info, dir, keep, |kind| {
        matches!(
            kind,
            FileName::Table(_) | FileName::LegacyTable(_) | FileName::Blob(_)
        )
    })
}

/// [`scan_tables`] for logs: the directory may be that of another database.
pub(crate) fn scan_logs(fs: &dyn FileSystem, info: &Logger, dir: &Path, keep: &Keep) -> Result<()> {
    scan_for(fs, info, dir, keep, |kind| matches!(kind, FileName::Wal(_)))
}

/// Deletes the files in `dir` of the kinds `is_wanted` that `keep` does not keep, and the trash of these kinds.
fn scan_for(
    fs: &dyn FileSystem,
    info: &Logger,
    dir: &Path,
    keep: &Keep,
    is_wanted: fn(FileName) -> bool,
) -> Result<()> {
    for name in fs.list(dir)? {
        let is_obsolete = match FileName::parse(&name) {
            Some(kind) => is_wanted(kind) && keep.is_obsolete(kind),
            None => trash_of(&name).is_some_and(is_wanted),
        };
        if is_obsolete {
            remove_or_warn(fs, info, &dir.join(&name));
        }
    }
    Ok(())
}

/// Returns the OPTIONS files among `names` that newer ones have replaced.
pub(crate) fn old_options(names: Vec<String>) -> impl Iterator<Item = String> {
    let number = |name: &String| match FileName::parse(name) {
        Some(FileName::Options(number)) => Some(number),
        _ => None,
    };
    let mut options: Vec<_> = names
        .into_iter()
        .filter_map(|name| Some((number(&name)?, name)))
        .collect();
    options.sort();
    options.truncate(options.len().saturating_sub(OPTIONS_KEPT));
    options.into_iter().map(|(_, name)| name)
}

/// Removes a file, and reports a failure. A directory with the name of one stays.
fn remove_or_warn(fs: &dyn FileSystem, info: &Logger, path: &Path) {
    let is_dir = || {
        let status = fs.status(path);
        status.is_ok_and(|status| status.kind == PathKind::Directory)
    };
    if let Err(error) = remove(fs, path)
        && !is_dir()
    {
        info.warn(format_args!(
            "an obsolete file could not be deleted; the next opening tries again: {error}"
        ));
    }
}

/// Removes a file. A missing file is not an error.
pub(super) fn remove(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    match fs.remove(path) {
        Err(error) if error.subcode() == Subcode::PathNotFound => Ok(()),
        result => result,
    }
}
