//! Verification of a backup.

use std::sync::Arc;

use cairn_format::names::{self, FileName};
use cairn_types::{Error, Result};

use crate::catalog::{Backup, Sizes, StoredFile, wrong_size};
use crate::engine::Core;
use crate::tasks;

/// Verifies backup `id`; see [`BackupEngineReadOnly::verify_backup`](crate::BackupEngineReadOnly::verify_backup).
pub(crate) fn verify(core: &Arc<Core>, id: u32, checksums: bool) -> Result<()> {
    let _reading = core.reading.read();
    let backup = core.catalog.lock().get(Some(id))?;
    check_complete(core, &backup)?;
    if !checksums {
        return Ok(());
    }
    let threads = core.options.max_background_operations;
    let count = backup.files.len();
    let reading = core.clone();
    let read = move |number: usize| verify_checksum(&reading, &backup.files[number]);
    tasks::run(&core.world.executor, threads, count, read).map(|_| ())
}

/// Checks that `backup` has the files without which no database can be opened, and that all its files exist and have
/// their lengths. No file is read.
///
/// # Errors
///
/// `NotFound` for a missing file; `Corruption`, also if its metadata lists no CURRENT or no MANIFEST; `IoError`.
pub(crate) fn check_complete(core: &Core, backup: &Backup) -> Result<()> {
    check_sizes(core, backup)?;
    let has = |wanted: fn(&FileName) -> bool| {
        let mut files = backup.files.iter();
        files.any(|file| wanted(&file.path.kind()))
    };
    let absent = if !has(|kind| matches!(kind, FileName::Current)) {
        names::CURRENT
    } else if !has(|kind| matches!(kind, FileName::Manifest(_))) {
        "MANIFEST"
    } else {
        return Ok(());
    };
    Err(Error::corruption(format!(
        "backup {} has no {absent}",
        backup.info.backup_id
    )))
}

/// Checks that all files of `backup` exist and have their lengths.
fn check_sizes(core: &Core, backup: &Backup) -> Result<()> {
    let mut sizes = Sizes::default();
    for file in &backup.files {
        let path = core.path(&file.path);
        match sizes.of(core.fs(), core.dir(), &file.path)? {
            Some(size) if size == file.size => {}
            Some(size) => return Err(wrong_size(&path, file.size, size)),
            None => {
                return Err(Error::not_found(format!(
                    "File missing: {}",
                    path.display()
                )));
            }
        }
    }
    Ok(())
}

fn verify_checksum(core: &Core, file: &StoredFile) -> Result<()> {
    let Some(expected) = file.crc32c else {
        return Ok(());
    };
    let path = core.path(&file.path);
    let found = core.backup_transfer().checksum(core.fs(), &path, None)?;
    match found.crc32c == expected {
        true => Ok(()),
        false => Err(Error::corruption(format!(
            "checksum of {}: expected {expected}, found {}",
            path.display(),
            found.crc32c
        ))),
    }
}
