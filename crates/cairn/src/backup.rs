//! Backups: incremental copies of a database, in a directory that RocksDB's `BackupEngine` reads and writes, too.
//!
//! A backup copies only the tables that no earlier backup in the directory has. It can be verified, and restored to the
//! state at the time of its creation, also after earlier backups have been deleted. An interrupted operation does not
//! damage other backups.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! use cairn::backup::{BackupEngineOptions, CreateBackupOptions, RestoreOptions};
//! use cairn::{BackupEngine, Db, Options};
//!
//! let path = dir.path().join("db");
//! let db = Db::open(&path, &Options::default().create_if_missing(true))?;
//! db.put(b"granite", b"igneous")?;
//!
//! let backups = BackupEngine::open(&BackupEngineOptions::new(dir.path().join("backups")))?;
//! let first = backups.create(&db, &CreateBackupOptions::default())?;
//! db.put(b"slate", b"metamorphic")?;
//! let second = backups.create(&db, &CreateBackupOptions::default())?;
//! db.close()?;
//!
//! backups.verify_backup(second, true)?;
//! backups.restore_db_from_backup(first, &path, &path, &RestoreOptions::default())?;
//! assert!(Db::open(&path, &Options::default())?.get(b"slate")?.is_none());
//!
//! backups.purge_old_backups(1)?;
//! assert_eq!(backups.backups().len(), 1);
//! # Ok::<(), cairn::Error>(())
//! ```

use std::ops::Deref;

pub use cairn_backup::{
    BackupEngineOptions, BackupEngineReadOnly, BackupInfo, CreateBackupOptions, ExcludeFiles,
    Progress, RestoreMode, RestoreOptions, ShareFilesNaming,
};
pub use cairn_format::backup::Schema;
use cairn_platform::World;
use cairn_types::Result;

use crate::db::Db;

/// Creates, verifies, restores and deletes the backups in a directory. Functions that only read are those of
/// [`BackupEngineReadOnly`], which can also be opened alone. See the [module documentation](self).
#[derive(Debug)]
pub struct BackupEngine(cairn_backup::BackupEngine);

impl BackupEngine {
    /// Opens the directory of backups in `options`, which is created if it is missing.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` of the options; `IoError`. Damaged backups are no error; see
    /// [`BackupEngineReadOnly::corrupted_backups`].
    pub fn open(options: &BackupEngineOptions) -> Result<BackupEngine> {
        BackupEngine::open_in(&World::posix(), options)
    }

    /// [`BackupEngine::open`] for databases in a world of the caller's choice.
    ///
    /// # Errors
    ///
    /// Those of [`BackupEngine::open`].
    pub fn open_in(world: &World, options: &BackupEngineOptions) -> Result<BackupEngine> {
        cairn_backup::BackupEngine::open(world, options).map(BackupEngine)
    }

    /// Creates a backup of the current state of `db` and returns its id. Writes to the database continue.
    ///
    /// # Errors
    ///
    /// `Incomplete` after [`BackupEngine::stop`]; `InvalidArgument` of the options; `NotSupported` if the files of the
    /// database are in several directories; `Corruption` of a file; `Aborted` if a callback panicked; `Busy` in a
    /// callback of this engine; `IoError`. Nothing is added then, and other backups are unchanged.
    pub fn create(&self, db: &Db, options: &CreateBackupOptions) -> Result<u32> {
        self.0.create_new_backup(&db.inner, options)
    }

    /// Deletes backup `id`, which may be damaged.
    ///
    /// # Errors
    ///
    /// `NotFound`; `IoError`; `Busy` in a callback of this engine. Other backups are unchanged.
    pub fn delete_backup(&self, id: u32) -> Result<()> {
        self.0.delete_backup(id)
    }

    /// Deletes the oldest backups so that at most `keep` remain. Damaged ones are not counted.
    ///
    /// # Errors
    ///
    /// `IoError` for the first that cannot be deleted; `Busy` in a callback of this engine.
    pub fn purge_old_backups(&self, keep: usize) -> Result<()> {
        self.0.purge_old_backups(keep)
    }

    /// Removes files that interrupted or failed operations left. The creation and the deletion of backups do so, too,
    /// if it may be necessary.
    ///
    /// # Errors
    ///
    /// `IoError`; `Busy` in a callback of this engine.
    pub fn garbage_collect(&self) -> Result<()> {
        self.0.garbage_collect()
    }

    /// Ends a backup that is being created soon, with `Incomplete`, and prevents others through this engine.
    pub fn stop(&self) {
        self.0.stop();
    }
}

impl Deref for BackupEngine {
    type Target = BackupEngineReadOnly;

    fn deref(&self) -> &BackupEngineReadOnly {
        &self.0
    }
}
