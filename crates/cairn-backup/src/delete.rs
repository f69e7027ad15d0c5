//! Deletion of backups, and of files that no backup lists.
//!
//! A backup is deleted when its metadata file is durably removed. Its other files follow; those that a crash or an
//! error leaves are removed by the next garbage collection. A file that cannot be removed is reported in the info log: it
//! wastes space but does no harm.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use cairn_format::backup::{
    self, BackupDir, BackupPath, META_DIR, PRIVATE_DIR, SHARED_CHECKSUM_DIR, SHARED_DIR,
};
use cairn_format::names::FileName;
use cairn_platform::FileSystem;
use cairn_platform::fs::{list_if_there, remove_if_there};
use cairn_types::{Error, Result, Subcode};

use crate::engine::{Change, Core};

/// The suffix of files that are being written.
pub(crate) const TEMPORARY: &str = ".tmp";

/// Deletes a backup; see [`BackupEngine::delete_backup`](crate::BackupEngine::delete_backup).
pub(crate) fn delete(core: &Arc<Core>, id: u32) -> Result<()> {
    let mut change = core.begin_change("delete_backup")?;
    if !core.catalog.lock().contains(id) {
        return Err(Error::not_found("Backup not found"));
    }
    delete_one(&mut change, id)?;
    collect_if_necessary(&mut change);
    Ok(())
}

/// Deletes old backups; see [`BackupEngine::purge_old_backups`](crate::BackupEngine::purge_old_backups).
pub(crate) fn purge(core: &Arc<Core>, keep: usize) -> Result<()> {
    let mut change = core.begin_change("purge_old_backups")?;
    let ids: Vec<u32> = {
        let catalog = core.catalog.lock();
        let ids: Vec<u32> = catalog
            .valid()
            .map(|backup| backup.info.backup_id)
            .collect();
        ids[..ids.len().saturating_sub(keep)].to_vec()
    };
    let mut done = Ok(());
    for id in ids {
        done = done.and(delete_one(&mut change, id));
    }
    collect_if_necessary(&mut change);
    done
}

/// Deletes all backups, also corrupt ones.
pub(crate) fn delete_all(core: &Arc<Core>) -> Result<()> {
    let mut change = core.begin_change("destroy_old_data")?;
    let ids = core.catalog.lock().ids();
    for id in ids {
        delete_one(&mut change, id)?;
    }
    change.memory.garbage = true;
    collect_if_necessary(&mut change);
    Ok(())
}

/// Deletes a backup and its files that no other backup lists. The error of a file is not reported: the backup is
/// deleted, and garbage collection tries again.
fn delete_one(change: &mut Change<'_>, id: u32) -> Result<()> {
    let core = change.core;
    remove_metadata(core, id)?;
    let unused = core.catalog.lock().remove(id);
    let _removing = core.reading.write();
    for path in unused {
        change.memory.garbage |= remove_if_there(core.fs(), &core.path(path)).is_err();
    }
    let private = core.path(BackupDir::Private(id));
    change.memory.garbage |= remove_private_dir(core.fs(), &private).is_err();
    Ok(())
}

/// Removes the metadata file of a backup, durably.
pub(crate) fn remove_metadata(core: &Core, id: u32) -> Result<()> {
    let meta = core.path(META_DIR);
    remove_if_there(core.fs(), &meta.join(id.to_string()))?;
    core.fs().sync_dir(&meta)
}

/// Collects garbage if there may be some. The metadata files of the deleted backups are gone: an error is only logged.
fn collect_if_necessary(change: &mut Change<'_>) {
    if change.memory.garbage
        && let Err(error) = collect_garbage(change)
    {
        warn(change.core, &error);
    }
}

/// Collects garbage before a backup with the directory `private` is created. A file that cannot be removed is an error
/// only in that directory: shared files are replaced by renames.
pub(crate) fn collect_before(change: &mut Change<'_>, private: &Path) -> Result<()> {
    let core = change.core;
    sync_removals(core)?;
    let Err(error) = remove_unlisted(change) else {
        return Ok(());
    };
    let left = list_if_there(core.fs(), private)?;
    if left.iter().any(|name| FileName::parse(name).is_some()) {
        return Err(error);
    }
    warn(core, &error);
    Ok(())
}

fn warn(core: &Core, error: &Error) {
    core.info.warn(format_args!(
        "files that no backup lists could not all be removed; the next change tries again: {error}"
    ));
}

/// Removes all files that no backup lists. An error does not prevent the removal of other files.
pub(crate) fn collect_garbage(change: &mut Change<'_>) -> Result<()> {
    change.memory.garbage = true;
    sync_removals(change.core)?;
    remove_unlisted(change)
}

/// Makes earlier removals of metadata files durable, before their files are removed or replaced.
fn sync_removals(core: &Core) -> Result<()> {
    core.fs().sync_dir(&core.path(META_DIR))
}

fn remove_unlisted(change: &mut Change<'_>) -> Result<()> {
    let core = change.core;
    let fs = core.fs();
    let _removing = core.reading.write();
    let mut done = Ok(());
    let mut note = |removed: Result<()>| {
        if let Err(error) = removed
            && done.is_ok()
        {
            done = Err(error);
        }
    };
    let listed = core.catalog.lock().listed();
    if let Some(listed) = listed {
        for (dir, name) in [
            (BackupDir::Shared, SHARED_DIR),
            (BackupDir::SharedChecksum, SHARED_CHECKSUM_DIR),
        ] {
            let is_garbage = |file: &str| {
                let temporary = file
                    .strip_prefix('.')
                    .and_then(|file| file.strip_suffix(TEMPORARY));
                match BackupPath::new(dir, temporary.unwrap_or(file)) {
                    Some(_) if temporary.is_some() => true,
                    Some(path) => !listed.contains(&path),
                    None => false,
                }
            };
            note(remove_files(fs, &core.path(name), is_garbage));
        }
    }
    let is_unfinished = |name: &str| {
        let name = name.strip_suffix(TEMPORARY);
        name.is_some_and(|name| backup::parse_id(name.strip_prefix('.').unwrap_or(name)).is_some())
    };
    note(remove_files(fs, &core.path(META_DIR), is_unfinished));
    let private = core.path(PRIVATE_DIR);
    match list_if_there(fs, &private) {
        Err(error) => note(Err(error)),
        Ok(names) => {
            for name in names {
                let unfinished = name.strip_suffix(TEMPORARY);
                let id = backup::parse_id(unfinished.unwrap_or(&name));
                let unused = |id| unfinished.is_some() || !core.catalog.lock().contains(id);
                if id.is_some_and(unused) {
                    note(remove_private_dir(fs, &private.join(&name)));
                }
            }
        }
    }
    change.memory.garbage = done.is_err();
    done
}

/// Removes the files in `dir` that `is_garbage` accepts.
fn remove_files(fs: &dyn FileSystem, dir: &Path, is_garbage: impl Fn(&str) -> bool) -> Result<()> {
    let names = list_if_there(fs, dir)?;
    let mut done = Ok(());
    for name in names.iter().filter(|name| is_garbage(name)) {
        let removed = remove_if_there(fs, &dir.join(name)).map(|_| ());
        done = done.and(removed);
    }
    done
}

/// Removes a directory of private files of a backup. It is kept if it contains anything else.
fn remove_private_dir(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    remove_files(fs, dir, |name| FileName::parse(name).is_some())?;
    match fs.remove_dir(dir) {
        Err(error) if error.subcode() == Subcode::PathNotFound => Ok(()),
        Err(error) if error.io_kind() == Some(ErrorKind::DirectoryNotEmpty) => Ok(()),
        removed => removed,
    }
}
