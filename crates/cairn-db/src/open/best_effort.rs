//! Opening a database with missing files as far as possible (`best_efforts_recovery`).
//!
//! The recoverable state is determined by the module of the MANIFEST. This module lists the existing files.
//! No log is read, because logs continue a state that may be lost. Logs, tables and blob files that are not
//! part of the state may be all that is left of newer ones: before the opening deletes them, they are linked
//! in `lost`, along with the MANIFESTs that describe them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cairn_format::names::FileName;
use cairn_options::DbOptions;
use cairn_types::{FileNumber, KeyOrder, Result, Subcode};
use cairn_version::manifest::{FileProbe, Recovered, replay_best_effort};
use cairn_version::{FileMeta, table_dir};

use super::{OpenRequest, given_options};
use crate::catalog::file_numbers::is_own;
use crate::catalog::sources::table_dirs;
use crate::files::lost::Lost;
use crate::shared::Shared;

/// The recoverable state; `None` if there is no MANIFEST.
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
        let home = table_dir(&dirs, file.path_id);
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
    let present = FileProbe {
        table: &table,
        blob: &blob,
    };
    let Some(mut recovered) = replay_best_effort(fs, dir, order, &present)? else {
        return Ok(None);
    };
    // Above every existing log: none is read.
    let mut largest = recovered.next_file;
    let mut others = vec![dir];
    if !options.wal_dir.as_os_str().is_empty() {
        others.push(&options.wal_dir);
    }
    for dir in others {
        for name in fs.list(dir)? {
            let number = FileName::parse(&name).and_then(FileName::number);
            if let Some(number) = number.filter(|number| is_own(*number)) {
                largest = largest.max(FileNumber(number.0 + 1));
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

impl Shared {
    /// Links files with data that is not part of the state in `lost`, durably. The clean-up at the end of the
    /// opening removes the old names.
    pub(super) fn set_aside(&self) -> Result<()> {
        let fs = &*self.context.world.fs;
        let min_log = self.tree.lock().logs.first_needed();
        // No MANIFEST has that number yet.
        let needed = self.needed(self.catalog.numbers.next(), min_log);
        let own = [&self.context.dir, &self.context.wal_dir];
        let mut dirs: BTreeSet<PathBuf> = self.catalog.sources.dirs_of(&self.catalog.families());
        dirs.extend(own.map(PathBuf::clone));
        let (mut data, mut manifests) = (Vec::new(), Vec::new());
        for dir in dirs {
            let is_own = own.contains(&&dir);
            for name in fs.list(&dir)? {
                let path = dir.join(&name);
                match FileName::parse(&name).filter(|kind| needed.is_obsolete(*kind)) {
                    Some(FileName::Table(_) | FileName::LegacyTable(_) | FileName::Blob(_)) => {
                        data.push(path);
                    }
                    Some(FileName::Wal(_)) if is_own && fs.status(&path)?.len > 0 => {
                        data.push(path)
                    }
                    Some(FileName::Manifest(_)) if is_own => manifests.push(path),
                    _ => {}
                }
            }
        }
        if data.is_empty() {
            return Ok(());
        }
        let lost = Lost::of(fs, &self.context.dir, self.options().use_fsync);
        for path in data.iter().chain(&manifests) {
            let kept = lost.keep(path)?;
            self.context.info.warn(format_args!(
                "{} is not part of the recovered state; it is kept as {}",
                path.display(),
                kept.display()
            ));
        }
        lost.sync()
    }
}

/// Returns the directories of the tables of `family`.
fn dirs_of(
    request: &OpenRequest<'_>,
    options: &DbOptions,
    dir: &Path,
    family: &str,
) -> Vec<PathBuf> {
    let given = given_options(request, family).unwrap_or_default();
    table_dirs(dir, options, &given)
}
