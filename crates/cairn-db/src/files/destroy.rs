//! Destroying a database: deleting all its files, and nothing else.
//!
//! CURRENT is deleted first: after a crash the rest is no longer a database, and a second attempt finishes
//! it. Files are identified by their names; others are kept, along with the directory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cairn_format::names::{self, ARCHIVE_DIR, FileName};
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::fs::{list_if_there, remove_if_there};
use cairn_platform::{FileSystem, World};
use cairn_types::{Error, Result, Subcode};

use crate::catalog::sst_file_manager::trash_of;

/// Deletes every file of the database in `path`: in its directory, and in the directories that `options` and
/// the options of its `families` specify. A missing database is not an error.
///
/// # Errors
///
/// `IoError` if the database is open, or a file cannot be deleted; all others are deleted nevertheless.
pub fn destroy(
    world: &World,
    path: &Path,
    options: &DbOptions,
    families: &[FamilyOptions],
) -> Result<()> {
    let fs = &*world.fs;
    let dir = match fs.canonical(path) {
        Err(error) if error.subcode() == Subcode::PathNotFound => return Ok(()),
        dir => dir?,
    };
    let lock_path = dir.join(FileName::Lock.to_string());
    let had_lock = fs.exists(&lock_path)?;
    let lock = fs.lock(&lock_path)?;
    let mut failed = None;
    let mut note = |result: Result<()>| {
        if let Err(error) = result {
            failed.get_or_insert(error);
        }
    };
    note(
        remove_if_there(fs, &dir.join(FileName::Current.to_string())).and_then(
            |found| match found {
                true => fs.sync_dir(&dir),
                false => Ok(()),
            },
        ),
    );
    let wal_dir = options.wal_dir_of(&dir).to_owned();
    let any = |_: FileName| true;
    let log = |name: FileName| matches!(name, FileName::Wal(_));
    let data = |name: FileName| {
        matches!(
            name,
            FileName::Table(_) | FileName::LegacyTable(_) | FileName::Blob(_)
        )
    };
    note(sweep(fs, &dir, &any));
    let paths = families.iter().flat_map(|family| &family.cf_paths);
    let others: BTreeSet<PathBuf> = options
        .db_paths
        .iter()
        .chain(paths)
        .map(|place| place.path.clone())
        .filter(|place| *place != dir)
        .collect();
    for place in &others {
        note(sweep(fs, place, &data));
        remove_empty(fs, place);
    }
    for logs in [
        dir.join(ARCHIVE_DIR),
        wal_dir.join(ARCHIVE_DIR),
        wal_dir.clone(),
    ] {
        if logs != dir {
            note(sweep(fs, &logs, &log));
            remove_empty(fs, &logs);
        }
    }
    if !options.db_log_dir.as_os_str().is_empty() {
        note(sweep_info_logs(fs, &options.db_log_dir, &dir));
    }
    drop(lock);
    // In a directory without files of a database, the LOCK was created by this call.
    note(remove_if_there(fs, &lock_path).map(|_| ()));
    if failed.is_none() && (had_lock || dir_is_empty(fs, &dir)) {
        // Not the directory that a symbolic link leads to.
        remove_empty(fs, path);
    }
    failed.map_or(Ok(()), |error: Error| {
        Err(error.context(format_args!("destroying {}", dir.display())))
    })
}

fn dir_is_empty(fs: &dyn FileSystem, dir: &Path) -> bool {
    fs.list(dir).is_ok_and(|names| names.is_empty())
}

/// Removes a directory, unless it contains other files.
fn remove_empty(fs: &dyn FileSystem, dir: &Path) {
    // A missing or non-empty one is ignored.
    if dir_is_empty(fs, dir) {
        let _ = fs.remove_dir(dir);
    }
}

/// Removes the database files of `dir` that `is_ours` accepts, except the LOCK.
fn sweep(fs: &dyn FileSystem, dir: &Path, is_ours: &dyn Fn(FileName) -> bool) -> Result<()> {
    let names = list_if_there(fs, dir)?;
    let ours = names.iter().filter(|name| {
        FileName::parse(name).is_some_and(|name| name != FileName::Lock && is_ours(name))
            || trash_of(name).is_some()
    });
    let mut failed = Ok(());
    for name in ours {
        let removed = remove_if_there(fs, &dir.join(name)).map(|_| ());
        failed = failed.and(removed);
    }
    failed
}

/// Removes the info logs of the database in `dir` from a directory that several databases may share.
fn sweep_info_logs(fs: &dyn FileSystem, log_dir: &Path, dir: &Path) -> Result<()> {
    let prefix = names::info_log_prefix(&dir.to_string_lossy());
    let names = match fs.list(log_dir) {
        Err(error) if error.subcode() == Subcode::PathNotFound => return Ok(()),
        names => names?,
    };
    let ours = names.iter().filter(|name| {
        name.strip_prefix(&prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(".old"))
    });
    let mut failed = Ok(());
    for name in ours {
        let removed = remove_if_there(fs, &log_dir.join(name)).map(|_| ());
        failed = failed.and(removed);
    }
    failed
}
