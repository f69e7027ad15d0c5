//! Opening what is still whole of a database that lost files (`best_efforts_recovery`).
//!
//! Which state that is, is for the MANIFEST's module to find. Here: which files are there, and that
//! no log is read, because logs continue a state that may be lost. A writer deletes logs and files
//! that the state does not have, as after every opening.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cairn_format::names::FileName;
use cairn_options::{DbOptions, FamilyOptions};
use cairn_types::{FileNumber, KeyOrder, Result, Subcode};
use cairn_version::FileMeta;
use cairn_version::manifest::{Present, Recovered, replay_best_effort};

use super::create::table_dirs;
use super::{OpenRequest, descriptor};

/// What can be recovered; `None` if there is no MANIFEST.
pub(super) fn recover(
    request: &OpenRequest<'_>,
    options: &DbOptions,
    dir: &Path,
    order: &dyn Fn(&str, &str) -> Result<KeyOrder>,
) -> Result<Option<Recovered>> {
    let fs = &*request.world.fs;
    let len = |path: &Path| match fs.status(path) {
        Err(error) if error.subcode() == Subcode::PathNotFound => Ok(None),
        status => status.map(|status| Some(status.len)),
    };
    let dirs = |family: &str| dirs_of(request, options, dir, family);
    let table = |family: &str, file: &FileMeta| {
        let dirs = dirs(family);
        let home = dirs.get(file.path_id as usize).or(dirs.first());
        let home = home.map_or(dir, PathBuf::as_path);
        let current = len(&home.join(FileName::Table(file.number).to_string()))?;
        let legacy = match current {
            Some(_) => None,
            None => len(&home.join(FileName::LegacyTable(file.number).to_string()))?,
        };
        Ok(current.or(legacy) == Some(file.size))
    };
    let blob = |family: &str, number: FileNumber| {
        let dirs = dirs(family);
        let home = dirs.first().map_or(dir, PathBuf::as_path);
        Ok(len(&home.join(FileName::Blob(number).to_string()))?.is_some())
    };
    let present = Present {
        table: &table,
        blob: &blob,
    };
    let Some(mut recovered) = replay_best_effort(fs, dir, order, &present)? else {
        return Ok(None);
    };
    // Above every log that there is: none is read.
    let mut largest = recovered.next_file;
    let mut others = vec![dir];
    if !options.wal_dir.as_os_str().is_empty() {
        others.push(&options.wal_dir);
    }
    for dir in others {
        for name in fs.list(dir)? {
            if let Some(number) = FileName::parse(&name).and_then(FileName::number) {
                largest = largest.max(FileNumber(number.0.saturating_add(1)));
            }
        }
    }
    recovered.next_file = largest;
    recovered.min_log_to_keep = largest;
    recovered.wals = BTreeMap::new();
    recovered.log_reach = None;
    for family in &mut recovered.families {
        family.log_number = largest;
    }
    Ok(Some(recovered))
}

/// The directories of the tables of `family`.
fn dirs_of(
    request: &OpenRequest<'_>,
    options: &DbOptions,
    dir: &Path,
    family: &str,
) -> Vec<PathBuf> {
    let given = descriptor(request, family).map(|given| &given.options);
    let default = FamilyOptions::default();
    let given = given.or(request.others).unwrap_or(&default);
    table_dirs(dir, options, given)
}
