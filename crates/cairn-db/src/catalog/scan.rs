//! Deleting files that nothing needs any more.
//!
//! A table is deleted when no current version has it, the MANIFEST edit that released it is synced,
//! and its last reader has ended. A view that ends sets a mark, and only then are obsolete tables searched
//! for. An `SstFileManager` may make trash of tables and blob files first, and delete
//! them slowly. What a crash left behind is deleted when the database is opened. Unknown names
//! are never touched.

use std::collections::BTreeSet;
use std::path::Path;

use cairn_format::names::FileName;
use cairn_platform::FileSystem;
use cairn_types::{FileNumber, Result, Subcode};

use super::sst_file_manager::is_trash;

/// The files that a full scan keeps.
pub(crate) struct Keep {
    /// The MANIFEST in use.
    pub(crate) manifest: FileNumber,
    /// Logs before this one are not needed.
    pub(crate) min_log: FileNumber,
    /// Tables and blob files of the live versions.
    pub(crate) live: BTreeSet<FileNumber>,
    /// Files at or above this number may be about to enter the tree.
    pub(crate) min_pending: FileNumber,
}

/// The number of OPTIONS files that are kept.
const OPTIONS_KEPT: usize = 2;

impl Keep {
    /// True if the file may be deleted. OPTIONS files are judged together, elsewhere.
    pub(crate) fn is_obsolete(&self, name: FileName) -> bool {
        match name {
            FileName::Wal(number) => number < self.min_log,
            // Openings that failed leave some with larger numbers than one that was gone on with.
            FileName::Manifest(number) => number != self.manifest,
            FileName::Table(number) | FileName::LegacyTable(number) | FileName::Blob(number) => {
                number < self.min_pending && !self.live.contains(&number)
            }
            FileName::Temp(_) | FileName::OptionsTemp(_) => true,
            _ => false,
        }
    }
}

/// Deletes those of the files `names` in `dir` that `keep` does not keep. Nothing else may be creating files
/// there.
pub(crate) fn scan(fs: &dyn FileSystem, dir: &Path, names: Vec<String>, keep: &Keep) -> Result<()> {
    for name in &names {
        match FileName::parse(name) {
            Some(kind) if keep.is_obsolete(kind) => remove(fs, &dir.join(name))?,
            None if is_trash(name) => remove(fs, &dir.join(name))?,
            _ => {}
        }
    }
    for name in old_options(names) {
        remove(fs, &dir.join(name))?;
    }
    Ok(())
}

/// Deletes the tables and blob files from `dir` that `keep` does not keep, and nothing else: the
/// directory may have other uses.
pub(crate) fn scan_tables(fs: &dyn FileSystem, dir: &Path, keep: &Keep) -> Result<()> {
    for name in fs.list(dir)? {
        match FileName::parse(&name) {
            Some(kind @ (FileName::Table(_) | FileName::LegacyTable(_) | FileName::Blob(_)))
                if keep.is_obsolete(kind) =>
            {
                remove(fs, &dir.join(&name))?;
            }
            None if is_trash(&name) => remove(fs, &dir.join(&name))?,
            _ => {}
        }
    }
    Ok(())
}

/// The OPTIONS files among `names` that newer ones have replaced.
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

/// Removes a file; one that is gone already is no error.
pub(super) fn remove(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    match fs.remove(path) {
        Err(error) if error.subcode() == Subcode::PathNotFound => Ok(()),
        result => result,
    }
}
