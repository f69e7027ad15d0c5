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
use crate::files::live::{FileType, LiveFileStorageInfo};
use crate::files::staging::Staging;
use crate::shared::Shared;

impl Db {
    /// Creates a database with the current state in `dir`, which must not exist. Memtables are flushed first
    /// if the logs have `log_size_for_flush` bytes or more: 0 always, `u64::MAX` never; unflushed data is in
    /// the logs of the copy. Returns the last sequence number in the copy.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `dir` exists; those of a flush; `IoError`. `dir` does not exist then.
    pub fn create_checkpoint(&self, dir: &Path, log_size_for_flush: u64) -> Result<SequenceNumber> {
        self.shared().create_checkpoint(dir, log_size_for_flush)
    }
}

impl Shared {
    fn create_checkpoint(self: &Arc<Self>, dir: &Path, log_bytes: u64) -> Result<SequenceNumber> {
        self.context.check_process()?;
        let staging = Staging::create(&*self.context.world.fs, dir)?;
        self.flush_for_copy(log_bytes)?;
        let _kept = self.keep_files();
        let capture = self.capture()?;
        for file in self.storage_infos(&capture, false)? {
            self.stage(&staging, &file)?;
        }
        assert!(
            self.catalog.has_pins(),
            "files are kept until a checkpoint has them all"
        );
        staging.publish()?;
        self.context.info.info(format_args!(
            "checkpoint {} with {} tables, up to sequence number {}",
            dir.display(),
            capture.files.tables.len(),
            capture.last
        ));
        Ok(capture.last)
    }

    /// Adds `file` to a copy.
    fn stage(&self, staging: &Staging<'_>, file: &LiveFileStorageInfo) -> Result<()> {
        let fs = &*self.context.world.fs;
        let to = staging.path(&file.relative_filename);
        let from = file.directory.join(&file.relative_filename);
        let full = self.options().use_fsync;
        if let Some(content) = &file.replacement_contents {
            return copy::write(fs, &to, content, full);
        }
        let unchanging = matches!(file.file_type, FileType::Table | FileType::Blob);
        if unchanging {
            if link_or_copy(fs, &from, &to, full)? {
                self.record_copied(file.size);
            }
            return Ok(());
        }
        copy::copy(fs, &from, &to, Some(file.size), full)?;
        self.record_copied(file.size);
        Ok(())
    }

    /// Reports that a checkpoint has copied `bytes` of a file.
    fn record_copied(&self, bytes: u64) {
        self.telemetry.record(|update| {
            update.add(Ticker::CheckpointReadBytes, bytes);
            update.add(Ticker::CheckpointWriteBytes, bytes);
        });
    }
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
