//! Verification of a backup.

use std::sync::Arc;

use cairn_types::{Error, Result};

use crate::catalog::{Backup, Sizes, StoredFile, wrong_size};
use crate::engine::Core;
use crate::tasks;

/// Verifies backup `id`; see [`BackupEngineReadOnly::verify_backup`](crate::BackupEngineReadOnly::verify_backup).
pub(crate) fn verify(core: &Arc<Core>, id: u32, checksums: bool) -> Result<()> {
    let _reading = core.reading.read();
    let backup = core.catalog.lock().get(Some(id))?;
    check_sizes(core, &backup)?;
    if !checksums {
        return Ok(());
    }
    let threads = core.options.max_background_operations;
    let count = backup.files.len();
    let reading = core.clone();
    let read = move |number: usize| verify_checksum(&reading, &backup.files[number]);
    tasks::run(&core.world.executor, threads, count, read).map(|_| ())
}

/// Checks that all files of `backup` exist and have their lengths.
///
/// # Errors
///
/// `NotFound` for a missing file; `Corruption`; `IoError`.
pub(crate) fn check_sizes(core: &Core, backup: &Backup) -> Result<()> {
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
