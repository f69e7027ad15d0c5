//! Options of engines, backups and restores, with RocksDB's names and defaults.

use std::path::PathBuf;
use std::sync::Arc;

use cairn_format::backup::Schema;
use cairn_observe::LogSink;
use cairn_platform::{RateLimiter, World};
use cairn_types::{Error, Result};

use crate::callback::ProgressCallback;
use crate::copy::PIECE;
use crate::engine::BackupEngineReadOnly;

/// The bits of a [`ShareFilesNaming`] other than flags.
const NAMING_MASK: u32 = 0xffff;

/// The names of shared files in `shared_checksum`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareFilesNaming(u32);

impl ShareFilesNaming {
    /// `<number>_<crc32c>_<size>`. A backup reads every table to compute its name.
    pub const LEGACY_CRC32C_AND_FILE_SIZE: ShareFilesNaming = ShareFilesNaming(1);
    /// `<number>_s<session>` for tables with a session id; otherwise as
    /// [`ShareFilesNaming::LEGACY_CRC32C_AND_FILE_SIZE`].
    pub const USE_DB_SESSION_ID: ShareFilesNaming = ShareFilesNaming(2);
    /// [`ShareFilesNaming::USE_DB_SESSION_ID`] with the size: `<number>_s<session>_<size>`.
    pub const USE_DB_SESSION_ID_AND_FILE_SIZE: ShareFilesNaming = ShareFilesNaming(2 | 1 << 31);

    /// Returns the naming with RocksDB's number: the lower 16 bits are 1 for checksums, and any other value but 0 for
    /// session ids; bit 31 includes the size, and other bits have no effect. `None` if the lower bits are 0.
    #[must_use]
    pub fn from_number(number: u32) -> Option<ShareFilesNaming> {
        (number & NAMING_MASK != 0).then_some(ShareFilesNaming(number))
    }

    /// RocksDB's number.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn uses_session(self) -> bool {
        self.0 & NAMING_MASK != 1
    }

    pub(crate) fn includes_size(self) -> bool {
        self.0 >> 31 == 1
    }
}

/// Options of a [`BackupEngine`](crate::BackupEngine). All engines of one directory should have the same.
#[derive(Clone)]
pub struct BackupEngineOptions {
    /// The directory of the backups. It is created if it is missing. A subdirectory of the database, or a directory on
    /// another device, is better than that of the database itself.
    pub backup_dir: PathBuf,
    /// The environment of the directory of backups; `None` for that of the database.
    pub backup_world: Option<World>,
    /// True to share tables and blob files between backups, so that a backup copies only new ones.
    pub share_table_files: bool,
    /// True to give shared files names that are unique among all databases. False is deprecated: shared files then
    /// have the names that they have in the database, and a second database needs another directory.
    pub share_files_with_checksum: bool,
    /// The names of shared files.
    pub share_files_with_checksum_naming: ShareFilesNaming,
    /// True to make backups and restored databases durable before they count as complete. Otherwise a crash of the
    /// machine may damage them, but not earlier ones.
    pub sync: bool,
    /// True to delete all backups when the engine is opened.
    pub destroy_old_data: bool,
    /// True to include the logs of the database.
    pub backup_log_files: bool,
    /// Maximum rate of a backup in bytes per second; 0 for no limit.
    pub backup_rate_limit: u64,
    /// The rate limiter of backups, which several engines and databases may share; overrides `backup_rate_limit`.
    pub backup_rate_limiter: Option<Arc<RateLimiter>>,
    /// Maximum rate of a restore in bytes per second; 0 for no limit.
    pub restore_rate_limit: u64,
    /// The rate limiter of restores; overrides `restore_rate_limit`.
    pub restore_rate_limiter: Option<Arc<RateLimiter>>,
    /// The number of bytes that a copy reads and writes at a time, at most 64 MiB; 0 for 1 MiB.
    pub io_buffer_size: u64,
    /// Maximum number of files copied, or read for their checksums, at the same time.
    pub max_background_operations: usize,
    /// The number of copied bytes between calls of progress callbacks.
    pub callback_trigger_interval_size: u64,
    /// Maximum number of valid backups, newest first, that a [`BackupEngineReadOnly`] reads when it is opened.
    pub max_valid_backups_to_open: usize,
    /// The schema of metadata files. Schema 2 preserves temperatures, and is required to exclude files.
    pub schema_version: Schema,
    /// The log of the engine: the begin and the outcome of each operation; `None` for none.
    pub info_log: Option<Arc<dyn LogSink>>,
}

impl BackupEngineOptions {
    /// Returns the defaults for `backup_dir`.
    #[must_use]
    pub fn new(backup_dir: impl Into<PathBuf>) -> BackupEngineOptions {
        BackupEngineOptions {
            backup_dir: backup_dir.into(),
            backup_world: None,
            share_table_files: true,
            share_files_with_checksum: true,
            share_files_with_checksum_naming: ShareFilesNaming::USE_DB_SESSION_ID_AND_FILE_SIZE,
            sync: true,
            destroy_old_data: false,
            backup_log_files: true,
            backup_rate_limit: 0,
            backup_rate_limiter: None,
            restore_rate_limit: 0,
            restore_rate_limiter: None,
            io_buffer_size: 0,
            max_background_operations: 1,
            callback_trigger_interval_size: 4 << 20,
            max_valid_backups_to_open: usize::MAX,
            schema_version: Schema::One,
            info_log: None,
        }
    }

    /// The number of bytes that a copy reads and writes at a time.
    pub(crate) fn piece(&self) -> usize {
        match usize::try_from(self.io_buffer_size) {
            Ok(0) => PIECE,
            bytes => bytes.map_or(MOST_BYTES_AT_A_TIME, |bytes| {
                bytes.min(MOST_BYTES_AT_A_TIME)
            }),
        }
    }

    pub(crate) fn validate(&self) -> Result<()> {
        if self.backup_dir.as_os_str().is_empty() {
            return Err(Error::invalid_argument("backup_dir is empty"));
        }
        if self.max_background_operations == 0 {
            return Err(Error::invalid_argument(
                "max_background_operations: expected at least 1, found 0",
            ));
        }
        Ok(())
    }
}

/// The maximum of [`BackupEngineOptions::io_buffer_size`].
const MOST_BYTES_AT_A_TIME: usize = 64 << 20;

/// A function that selects files to exclude from a backup. It receives the paths of the shared files that would be
/// copied, relative to the directory of backups, and sets the second part of a pair to true to exclude a file.
pub type ExcludeFiles = Arc<dyn Fn(&mut [(String, bool)]) + Send + Sync>;

/// Options of one backup.
#[derive(Clone, Default)]
pub struct CreateBackupOptions {
    /// True to flush the memtables first. Otherwise unflushed data is in the logs of the backup, if
    /// `backup_log_files` is set. The database may flush anyway if it has data that is not in its logs.
    pub flush_before_backup: bool,
    /// True if that flush is of all families together, so that unlogged writes of a batch are in the backup completely
    /// or not at all.
    pub atomic_flush: bool,
    /// Bytes of the application, at most 1 MiB, stored with the backup.
    pub app_metadata: Vec<u8>,
    /// Called after every `callback_trigger_interval_size` copied bytes, and at the end, by the threads that copy.
    pub progress: Option<ProgressCallback>,
    /// Selects files to exclude, which a restore then needs from other directories
    /// ([`RestoreOptions::alternate_dirs`]). Requires schema 2.
    pub exclude_files: Option<ExcludeFiles>,
}

/// The files in the target of a restore that are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestoreMode {
    /// Tables with the number, session id and size of a file of the backup. For databases that are not damaged.
    KeepLatestDbSessionIdFiles,
    /// Tables and blob files with the checksum of a file of the backup. They are read completely.
    VerifyChecksum,
    /// None.
    #[default]
    PurgeAllFiles,
}

/// Options of a restore.
#[derive(Clone, Default)]
pub struct RestoreOptions<'a> {
    /// True to keep the logs in the target, and to move its archived logs back, so that writes after the backup are
    /// recovered from them. Logs of the backup do not replace existing ones.
    pub keep_log_files: bool,
    /// The files that are kept.
    pub mode: RestoreMode,
    /// Engines of directories with files that were excluded from the backup.
    pub alternate_dirs: Vec<&'a BackupEngineReadOnly>,
    /// Called after every `callback_trigger_interval_size` copied bytes, and at the end, by the threads that copy.
    pub progress: Option<ProgressCallback>,
}
