//! The engines: state that is shared by all operations, and information about backups.

use std::collections::HashMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_db::Db;
use cairn_format::backup;
use cairn_observe::callback::is_within;
use cairn_observe::logger::Logger;
use cairn_platform::fs::FileLock;
use cairn_platform::sync::{AtomicBool, Mutex, MutexGuard, Ordering, RwLock};
use cairn_platform::{FileSystem, RateLimiter, World};
use cairn_types::{Error, Result, Subcode};

use crate::callback::check_outside;
use crate::catalog::{BackupInfo, Catalog};
use crate::copy::{Transfer, create_dir};
use crate::options::{BackupEngineOptions, CreateBackupOptions, RestoreOptions};

/// The file that is locked during a change. It is not LOCK: the directory may also be that of a database.
const LOCK: &str = "BACKUP_LOCK";

/// The state of an engine.
pub(crate) struct Core {
    /// The environment of databases.
    pub(crate) db_world: World,
    /// The environment of the directory of backups.
    pub(crate) world: World,
    pub(crate) options: BackupEngineOptions,
    pub(crate) info: Logger,
    pub(crate) backup_limiter: Option<Arc<RateLimiter>>,
    pub(crate) restore_limiter: Option<Arc<RateLimiter>>,
    pub(crate) catalog: Mutex<Catalog>,
    /// Held by changes of the directory.
    changing: Mutex<Memory>,
    /// Held for reading by operations that read files of backups, and for writing while files are removed.
    pub(crate) reading: RwLock<()>,
    pub(crate) stopped: AtomicBool,
}

/// State of changes that outlives one.
#[derive(Default)]
pub(crate) struct Memory {
    /// True if there may be files that no backup lists.
    pub(crate) garbage: bool,
    /// Checksums of files of open databases, whose numbers are not reused while the database is open.
    pub(crate) checksums: HashMap<SourceFile, u32>,
}

/// A file of an open database.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct SourceFile {
    pub(crate) session: String,
    pub(crate) name: String,
    pub(crate) size: u64,
}

/// The right to change the directory.
pub(crate) struct Change<'a> {
    pub(crate) core: &'a Arc<Core>,
    /// Released before the mutex, so that the next change of this engine does not find it held.
    _lock: Box<dyn FileLock>,
    pub(crate) memory: MutexGuard<'a, Memory>,
}

impl Core {
    fn open(world: &World, options: &BackupEngineOptions, max_valid: usize) -> Result<Arc<Core>> {
        options.validate()?;
        let limiter = |given: &Option<Arc<RateLimiter>>, rate: u64| match given {
            Some(limiter) => Some(limiter.clone()),
            None if rate == 0 => None,
            None => Some(Arc::new(RateLimiter::of_writes(rate))),
        };
        let core = Core {
            db_world: world.clone(),
            world: options
                .backup_world
                .clone()
                .unwrap_or_else(|| world.clone()),
            options: options.clone(),
            info: logger(options),
            backup_limiter: limiter(&options.backup_rate_limiter, options.backup_rate_limit),
            restore_limiter: limiter(&options.restore_rate_limiter, options.restore_rate_limit),
            catalog: Mutex::default(),
            changing: Mutex::new(Memory {
                garbage: true,
                checksums: HashMap::new(),
            }),
            reading: RwLock::new(()),
            stopped: AtomicBool::new(false),
        };
        let (valid, corrupt) = {
            let mut catalog = core.catalog.lock();
            catalog.refresh(core.fs(), core.dir(), max_valid)?;
            let corrupt: Vec<_> = catalog
                .corrupt()
                .map(|(id, error)| (id, error.clone()))
                .collect();
            (catalog.valid().count(), corrupt)
        };
        core.info.info(format_args!(
            "{} has {valid} valid backups",
            core.dir().display()
        ));
        for (id, error) in corrupt {
            core.info.warn(format_args!("backup {id}: {error}"));
        }
        Ok(Arc::new(core))
    }

    /// Runs `work`, an operation of the engine, and logs its begin and its outcome.
    fn logged<T>(
        &self,
        what: impl std::fmt::Display,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.info.info(format_args!("{what} begins"));
        let done = work();
        match &done {
            Ok(_) => self.info.info(format_args!("{what} succeeded")),
            Err(error) => self.info.error(format_args!("{what} failed: {error}")),
        }
        done
    }

    /// The file system of the directory of backups.
    pub(crate) fn fs(&self) -> &dyn FileSystem {
        &*self.world.fs
    }

    /// The directory of backups.
    pub(crate) fn dir(&self) -> &Path {
        &self.options.backup_dir
    }

    /// The path of a file or directory in the directory of backups.
    pub(crate) fn path(&self, relative: impl std::fmt::Display) -> PathBuf {
        self.dir().join(relative.to_string())
    }

    /// The identity of the engine in callbacks.
    pub(crate) fn identity(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// Copies of a backup, and reads of its files.
    pub(crate) fn backup_transfer(&self) -> Transfer<'_> {
        Transfer {
            limiter: self.backup_limiter.as_deref(),
            clock: &*self.world.clock,
            piece: self.options.piece(),
            stopped: None,
            reporter: None,
        }
    }

    /// Begins a change of the directory, after those in progress.
    ///
    /// # Errors
    ///
    /// `Busy` in a callback of this engine, and in one of a database during another change of this engine; `IoError`,
    /// also if another engine or process changes the directory.
    pub(crate) fn begin_change<'a>(self: &'a Arc<Self>, what: &str) -> Result<Change<'a>> {
        check_outside(self.identity(), what)?;
        let memory = match self.changing.try_lock() {
            Some(memory) => memory,
            // The change may be a backup that waits for the flush that calls a listener on this thread.
            None if is_within() => {
                return Err(Error::busy(format!(
                    "{what} in a callback of a database while another operation changes the backups"
                )));
            }
            None => self.changing.lock(),
        };
        let lock = self.fs().lock(&self.path(LOCK));
        let lock = lock.map_err(|error| match error.subcode() == Subcode::PathNotFound {
            true => error.context(format_args!(
                "{what}: the directory of the backups is missing"
            )),
            false => error.context(format_args!(
                "{what}: the backups are being changed elsewhere"
            )),
        })?;
        self.catalog
            .lock()
            .refresh(self.fs(), self.dir(), usize::MAX)?;
        Ok(Change {
            core: self,
            _lock: lock,
            memory,
        })
    }
}

/// An engine that only reads a directory of backups.
///
/// The state of the directory is that of the opening. It needs no write access.
#[derive(Clone)]
pub struct BackupEngineReadOnly {
    pub(crate) core: Arc<Core>,
}

impl BackupEngineReadOnly {
    /// Opens the directory of backups in `options`. `world` is the environment of databases that are restored.
    ///
    /// # Errors
    ///
    /// `NotFound` if the directory has no backups' metadata; `InvalidArgument` of the options; `IoError`. Backups that
    /// are damaged or of unsupported versions are no error; see [`BackupEngineReadOnly::corrupted_backups`].
    pub fn open(world: &World, options: &BackupEngineOptions) -> Result<BackupEngineReadOnly> {
        if options.destroy_old_data {
            return Err(Error::invalid_argument(
                "destroy_old_data is set for a read-only backup engine",
            ));
        }
        let core = Core::open(world, options, options.max_valid_backups_to_open)?;
        let meta = core.path(backup::META_DIR);
        match core.fs().exists(&meta)? {
            true => Ok(BackupEngineReadOnly { core }),
            false => Err(Error::not_found(format!("{} is missing", meta.display()))),
        }
    }

    /// The valid backups, oldest first.
    #[must_use]
    pub fn backups(&self) -> Vec<BackupInfo> {
        let catalog = self.core.catalog.lock();
        catalog.valid().map(|backup| backup.info.clone()).collect()
    }

    /// The backups that are damaged or of unsupported versions, with the reasons, oldest first.
    #[must_use]
    pub fn corrupted_backups(&self) -> Vec<(u32, Error)> {
        let catalog = self.core.catalog.lock();
        catalog
            .corrupt()
            .map(|(id, error)| (id, error.clone()))
            .collect()
    }

    /// Returns the description of backup `id`.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Corruption` or `NotSupported` with the reason for which it is corrupt.
    pub fn backup(&self, id: u32) -> Result<BackupInfo> {
        let backup = self.core.catalog.lock().get(Some(id))?;
        Ok(backup.info.clone())
    }

    /// Returns the description of the newest valid backup.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none.
    pub fn latest_backup(&self) -> Result<BackupInfo> {
        let backup = self.core.catalog.lock().get(None)?;
        Ok(backup.info.clone())
    }

    /// Verifies that all files of backup `id` exist and have the lengths that they had when the backup was created or
    /// the engine was opened; with `checksums`, also reads them and compares their checksums.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such backup, or a file is missing; `Corruption` with the file, the expected and the
    /// found value, or if the backup has no CURRENT or no MANIFEST; `IoError`; `Busy` in a callback of this engine.
    pub fn verify_backup(&self, id: u32, checksums: bool) -> Result<()> {
        check_outside(self.core.identity(), "verify_backup")?;
        self.core
            .logged(format_args!("the verification of backup {id}"), || {
                crate::verify::verify(&self.core, id, checksums)
            })
    }

    /// Restores backup `id` to the database in `db_dir` with logs in `wal_dir`, which replaces a database there. Files
    /// that do not belong to a database are kept, and so are its info logs.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such backup; `InvalidArgument` if excluded files are not found, or a directory is one
    /// of those of the backups' files; `Corruption` of a file; `IoError`, also if the database is open; `Busy` in a
    /// callback of this engine. After an error, `db_dir` may be without a database that opens.
    pub fn restore_db_from_backup(
        &self,
        id: u32,
        db_dir: &Path,
        wal_dir: &Path,
        options: &RestoreOptions<'_>,
    ) -> Result<()> {
        check_outside(self.core.identity(), "restore_db_from_backup")?;
        self.restore(Some(id), db_dir, wal_dir, options)
    }

    /// Restores the newest valid backup; see [`BackupEngineReadOnly::restore_db_from_backup`].
    ///
    /// # Errors
    ///
    /// Those of [`BackupEngineReadOnly::restore_db_from_backup`].
    pub fn restore_db_from_latest_backup(
        &self,
        db_dir: &Path,
        wal_dir: &Path,
        options: &RestoreOptions<'_>,
    ) -> Result<()> {
        check_outside(self.core.identity(), "restore_db_from_latest_backup")?;
        self.restore(None, db_dir, wal_dir, options)
    }

    fn restore(
        &self,
        id: Option<u32>,
        db_dir: &Path,
        wal_dir: &Path,
        options: &RestoreOptions<'_>,
    ) -> Result<()> {
        for other in &options.alternate_dirs {
            check_outside(
                other.core.identity(),
                "a restore from alternate directories",
            )?;
        }
        let backup = id.map_or("the newest backup".to_owned(), |id| format!("backup {id}"));
        let what = format!("the restoration of {backup} to {}", db_dir.display());
        self.core.logged(what, || {
            crate::restore::restore(&self.core, id, db_dir, wal_dir, options)
        })
    }
}

impl std::fmt::Debug for BackupEngineReadOnly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "backups in {}", self.core.dir().display())
    }
}

/// An engine that creates, verifies, restores and deletes the backups in a directory. See the
/// [documentation of the crate](crate).
pub struct BackupEngine {
    reader: BackupEngineReadOnly,
}

impl BackupEngine {
    /// Opens the directory of backups in `options`, which is created if it is missing. `world` is the environment of
    /// databases.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` of the options; `IoError`. Backups that are damaged or of unsupported versions are no error;
    /// see [`BackupEngineReadOnly::corrupted_backups`].
    pub fn open(world: &World, options: &BackupEngineOptions) -> Result<BackupEngine> {
        options.validate()?;
        let backup_world = options.backup_world.as_ref().unwrap_or(world);
        create_dirs(&*backup_world.fs, options)?;
        let core = Core::open(world, options, usize::MAX)?;
        if options.destroy_old_data {
            crate::delete::delete_all(&core)?;
        }
        let reader = BackupEngineReadOnly { core };
        Ok(BackupEngine { reader })
    }

    /// Creates a backup of the current state of `db` and returns its id. Writes to the database continue.
    ///
    /// # Errors
    ///
    /// `Incomplete` after [`BackupEngine::stop`]; `InvalidArgument` of the options; `NotSupported` if the files of the
    /// database are in several directories; `Corruption` of a file of the database; `Aborted` if a callback panicked;
    /// `Busy` in a callback of this engine; `IoError`. Nothing is added then, and other backups are unchanged.
    pub fn create_new_backup(&self, db: &Db, options: &CreateBackupOptions) -> Result<u32> {
        let id = self.core.logged("the creation of a backup", || {
            crate::create::create(&self.core, db, options)
        })?;
        let created = self.core.catalog.lock().get(Some(id));
        if let Ok(backup) = created {
            let info = &backup.info;
            self.core.info.info(format_args!(
                "backup {id} has {} files with {} bytes",
                info.number_files, info.size
            ));
        }
        Ok(id)
    }

    /// Deletes backup `id`, which may be corrupt.
    ///
    /// # Errors
    ///
    /// `NotFound`; `IoError`; `Busy` in a callback of this engine. Other backups are unchanged.
    pub fn delete_backup(&self, id: u32) -> Result<()> {
        self.core
            .logged(format_args!("the deletion of backup {id}"), || {
                crate::delete::delete(&self.core, id)
            })
    }

    /// Deletes the oldest valid backups so that at most `keep` remain.
    ///
    /// # Errors
    ///
    /// `IoError` for the first that cannot be deleted; `Busy` in a callback of this engine.
    pub fn purge_old_backups(&self, keep: usize) -> Result<()> {
        let what = format_args!("the deletion of all but the newest {keep} backups");
        self.core
            .logged(what, || crate::delete::purge(&self.core, keep))
    }

    /// Removes files that interrupted or failed operations left. The creation and the deletion of backups do so, too,
    /// if it may be necessary.
    ///
    /// # Errors
    ///
    /// `IoError`; `Busy` in a callback of this engine.
    pub fn garbage_collect(&self) -> Result<()> {
        self.core.logged("the removal of unlisted files", || {
            let mut change = self.core.begin_change("garbage_collect")?;
            crate::delete::collect_garbage(&mut change)
        })
    }

    /// Ends a backup that is being created soon, with `Incomplete`, and prevents others through this engine.
    pub fn stop(&self) {
        // Release pairs with the loads of the threads that copy.
        self.core.stopped.store(true, Ordering::Release);
    }
}

impl Deref for BackupEngine {
    type Target = BackupEngineReadOnly;

    fn deref(&self) -> &BackupEngineReadOnly {
        &self.reader
    }
}

impl std::fmt::Debug for BackupEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.reader.fmt(f)
    }
}

/// The info log of an engine.
fn logger(options: &BackupEngineOptions) -> Logger {
    let sink = options.info_log.clone();
    sink.map_or_else(Logger::silent, Logger::to)
}

/// Creates the directory of backups and its subdirectories. The names in it become durable with the first backup.
fn create_dirs(fs: &dyn FileSystem, options: &BackupEngineOptions) -> Result<()> {
    let dir = &options.backup_dir;
    create_dir(fs, dir, options.sync, &logger(options))?;
    let shared = match options.share_files_with_checksum {
        true => backup::SHARED_CHECKSUM_DIR,
        false => backup::SHARED_DIR,
    };
    let shared = options.share_table_files.then_some(shared);
    let dirs = shared
        .into_iter()
        .chain([backup::PRIVATE_DIR, backup::META_DIR]);
    for name in dirs {
        fs.create_dir_all(&dir.join(name))?;
    }
    Ok(())
}
