//! Checkpoints: a second database with the current state, made of links.
//!
//! Tables and blob files never change, so they are linked (or copied to another device). The MANIFEST and the
//! logs grow, so their relevant parts are copied. The directory gets its name when it is complete and
//! durable; see `staging`.

use std::path::Path;
use std::sync::Arc;

use cairn_observe::statistics::Ticker;
use cairn_types::{Result, SequenceNumber};

use crate::db::Db;
use crate::files::copy;
use crate::files::host::{Components, Host};
use crate::files::kept::keep_files;
use crate::files::live::{FileType, LiveFileStorageInfo, capture, storage_infos};
use crate::files::staging::Staging;

impl Db {
    /// Creates a database with the current state in `dir`, which must not exist; the directory above it must. Memtables
    /// are flushed first if the logs have `log_size_for_flush` bytes or more: 0 always, `u64::MAX` never; unflushed data
    /// is in the logs of the copy. Returns the last sequence number in the copy.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `dir` exists; `Busy` if another thread is creating it; those of a flush; `IoError`. `dir` does not exist then.
    pub fn create_checkpoint(&self, dir: &Path, log_size_for_flush: u64) -> Result<SequenceNumber> {
        create(self.shared(), dir, log_size_for_flush)
    }
}

/// Creates a checkpoint of the database of `host`; see [`Db::create_checkpoint`].
pub(super) fn create<H: Host>(host: &Arc<H>, dir: &Path, log_bytes: u64) -> Result<SequenceNumber> {
    let database = host.components();
    let context = database.context;
    context.check_process()?;
    let staging = Staging::create(&*context.world.fs, dir)?;
    host.flush_for_copy(log_bytes, false)?;
    let _kept = keep_files(&**host);
    let capture = capture(host)?;
    for file in storage_infos(database, &capture, false)? {
        stage(database, &staging, &file)?;
    }
    assert!(
        database.catalog.deletions.are_pinned(),
        "files are kept until a checkpoint has them all"
    );
    staging.publish(&context.info)?;
    context.info.info(format_args!(
        "checkpoint {} with {} tables, up to sequence number {}",
        dir.display(),
        capture.files.tables.len(),
        capture.last
    ));
    Ok(capture.last)
}

/// Adds `file` to a copy.
fn stage(
    database: Components<'_>,
    staging: &Staging<'_>,
    file: &LiveFileStorageInfo,
) -> Result<()> {
    let fs = &*database.context.world.fs;
    let to = staging.path(&file.relative_filename);
    let from = file.directory.join(&file.relative_filename);
    let full = database.settings.get().use_fsync;
    if let Some(content) = &file.replacement_contents {
        return copy::write(fs, &to, content, full);
    }
    let unchanging = matches!(file.file_type, FileType::Table | FileType::Blob);
    if unchanging {
        if link_or_copy(fs, &from, &to, full)? {
            record_copied(database, file.size);
        }
        return Ok(());
    }
    copy::copy(fs, &from, &to, Some(file.size), full)?;
    record_copied(database, file.size);
    Ok(())
}

/// Reports that a checkpoint has copied `bytes` of a file.
fn record_copied(database: Components<'_>, bytes: u64) {
    database.telemetry.record(|update| {
        update.add(Ticker::CheckpointReadBytes, bytes);
        update.add(Ticker::CheckpointWriteBytes, bytes);
    });
}

/// Links a file that never changes, or copies it if it cannot be linked. Returns true if it was copied.
pub(crate) fn link_or_copy(
    fs: &dyn cairn_platform::FileSystem,
    from: &Path,
    to: &Path,
    use_fsync: bool,
) -> Result<bool> {
    match fs.link(from, to) {
        Err(error) if copy::cannot_link(&error) => {
            copy::copy(fs, from, to, None, use_fsync).map(|()| true)
        }
        linked => linked.map(|()| false),
    }
}
