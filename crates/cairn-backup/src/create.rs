//! Creation of a backup.
//!
//! 1. The files of the database are kept from deletion, and its live files are listed.
//! 2. Each file gets its place; tables that an earlier backup has are not copied (`naming`).
//! 3. The other files are copied and synced: shared ones under temporary names, which are then replaced.
//! 4. The directories are synced.
//! 5. The metadata file is written under a temporary name, synced, and renamed; its directory is synced.

use std::collections::HashMap;
use std::sync::Arc;

use cairn_db::{Db, FileType, LiveFileStorageInfo, LiveFilesStorageInfoOptions};
use cairn_format::backup::{
    BackupDir, BackupFile, BackupMeta, BackupPath, META_DIR, PRIVATE_DIR, Schema,
};
use cairn_observe::statistics::Ticker;
use cairn_platform::fs::{Status, sync_name, unsynced_name};
use cairn_platform::sync::{AtomicU64, Mutex, Ordering};
use cairn_types::{Error, Result};

use crate::callback::{Reporter, call, check_outside};
use crate::catalog::{Backup, StoredFile};
use crate::copy::{Content, Transfer};
use crate::delete::{TEMPORARY, collect_before, collect_garbage, remove_metadata};
use crate::engine::{Change, Core, SourceFile};
use crate::naming::{NamedByChecksum, Plan};
use crate::options::{CreateBackupOptions, ExcludeFiles};
use crate::tasks;

/// The maximum number of bytes of the application.
const MAX_APP_METADATA: usize = 1 << 20;

/// A backup that is being created.
pub(crate) struct Creation {
    pub(crate) core: Arc<Core>,
    pub(crate) id: u32,
    pub(crate) exclude_files: Option<ExcludeFiles>,
    pub(crate) by_checksum: NamedByChecksum,
    files: Vec<LiveFileStorageInfo>,
    /// Identifies the opening of the database.
    session: String,
    checksums: Mutex<HashMap<SourceFile, u32>>,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

/// Creates a backup; see [`BackupEngine::create_new_backup`](crate::BackupEngine::create_new_backup).
pub(crate) fn create(core: &Arc<Core>, db: &Db, options: &CreateBackupOptions) -> Result<u32> {
    check_outside(core.identity(), "create_new_backup")?;
    // Acquire pairs with the store of `stop`.
    if core.stopped.load(Ordering::Acquire) {
        return Err(Error::incomplete("Backup stopped"));
    }
    check(core, options)?;
    let mut change = core.begin_change("create_new_backup")?;
    let id = core.catalog.lock().next_id()?;
    let private = core.path(BackupDir::Private(id));
    if change.memory.garbage || core.fs().exists(&private)? {
        collect_before(&mut change, &private)?;
    }
    let garbage = std::mem::replace(&mut change.memory.garbage, true);
    let created = create_files(&mut change, id, db, options);
    match created {
        Ok((backup, status)) => {
            change.memory.garbage = garbage;
            db.log_line(&format!(
                "backup {id} in {}: {} files, {} bytes",
                core.dir().display(),
                backup.info.number_files,
                backup.info.size
            ));
            core.catalog.lock().add(backup, status);
            Ok(id)
        }
        Err(error) => {
            // If the metadata file may still be there, so are the files that it lists. The error of the creation is
            // reported; the next change tries to remove its files again.
            if remove_metadata(core, id).is_ok() {
                let _ = collect_garbage(&mut change);
            }
            Err(error)
        }
    }
}

/// Checks the arguments.
fn check(core: &Core, options: &CreateBackupOptions) -> Result<()> {
    if options.app_metadata.len() > MAX_APP_METADATA {
        return Err(Error::invalid_argument(format!(
            "app_metadata: expected at most {MAX_APP_METADATA} bytes, found {}",
            options.app_metadata.len()
        )));
    }
    if options.exclude_files.is_some() && core.options.schema_version == Schema::One {
        return Err(Error::invalid_argument(
            "exclude_files requires schema_version 2",
        ));
    }
    Ok(())
}

/// Creates the files of a backup, the metadata file last.
fn create_files(
    change: &mut Change<'_>,
    id: u32,
    db: &Db,
    options: &CreateBackupOptions,
) -> Result<(Backup, Status)> {
    let core = change.core;
    core.fs()
        .create_dir_all(&core.path(BackupDir::Private(id)))?;
    let kept = db.keep_files()?;
    let sequence = db.latest_sequence().0;
    let files = live_files(core, db, options)?;
    let creation = Arc::new(Creation {
        core: core.clone(),
        id,
        exclude_files: options.exclude_files.clone(),
        by_checksum: NamedByChecksum::of(core.catalog.lock().all_shared()),
        files,
        session: db.session_id().to_owned(),
        checksums: Mutex::new(std::mem::take(&mut change.memory.checksums)),
        read_bytes: AtomicU64::new(0),
        written_bytes: AtomicU64::new(0),
    });
    let copied = creation.copy_all(options);
    drop(kept);
    change.memory.checksums = creation.checksums_of_live_files();
    if let Some(statistics) = db.statistics() {
        // Relaxed: the threads that counted have ended their tasks.
        let read = creation.read_bytes.load(Ordering::Relaxed);
        statistics.add(Ticker::BackupReadBytes, read);
        let written = creation.written_bytes.load(Ordering::Relaxed);
        statistics.add(Ticker::BackupWriteBytes, written);
    }
    let (stored, excluded) = copied?;
    let meta = BackupMeta {
        schema: core.options.schema_version,
        timestamp: core.world.clock.wall_seconds() as i64,
        sequence,
        app_metadata: options.app_metadata.clone(),
        files: stored.iter().map(|file| listed(file)).collect(),
        excluded,
    };
    let status = creation.publish(&meta)?;
    Ok((Backup::new(id, &meta, stored), status))
}

/// Returns the files of the database that belong to the backup.
fn live_files(
    core: &Core,
    db: &Db,
    options: &CreateBackupOptions,
) -> Result<Vec<LiveFileStorageInfo>> {
    let mut files = db.live_files_storage_info(&LiveFilesStorageInfoOptions {
        include_checksum_info: true,
        wal_size_for_flush: match options.flush_before_backup {
            true => 0,
            false => u64::MAX,
        },
        atomic_flush: options.atomic_flush,
    })?;
    if !core.options.backup_log_files {
        files.retain(|file| file.file_type != FileType::Wal);
    }
    let elsewhere = files.iter().find(|file| {
        matches!(file.file_type, FileType::Table | FileType::Blob) && file.directory != db.path()
    });
    match elsewhere {
        Some(file) => Err(Error::not_supported(format!(
            "a backup of a database with files in {} and {}",
            db.path().display(),
            file.directory.display()
        ))),
        None => Ok(files),
    }
}

/// The line of a file in the metadata.
fn listed(file: &StoredFile) -> BackupFile {
    BackupFile {
        path: file.path.clone(),
        crc32c: file.crc32c,
        size: None,
        temperature: file.temperature,
    }
}

impl Creation {
    /// Copies all files that are neither in an earlier backup nor excluded. Returns the files of the backup, and the
    /// paths of those that are excluded.
    fn copy_all(
        self: &Arc<Self>,
        options: &CreateBackupOptions,
    ) -> Result<(Vec<Arc<StoredFile>>, Vec<BackupPath>)> {
        let executor = &self.core.world.executor;
        let threads = self.core.options.max_background_operations;
        let planner = self.clone();
        let plan = move |number: usize| {
            planner.transfer(None).check()?;
            planner.plan(&planner.files[number])
        };
        let plans = tasks::run(executor, threads, self.files.len(), plan)?;
        let excluded = self.exclude(&plans)?;
        let kept =
            plans
                .into_iter()
                .zip(&excluded)
                .map(|(plan, excluded)| match (plan, excluded) {
                    (_, Some(_)) => None,
                    (plan, None) => Some(plan),
                });
        let plans: Vec<Option<Plan>> = kept.collect();
        let to_copy = plans.iter().zip(&self.files);
        let total = to_copy
            .filter(|(plan, _)| matches!(plan, Some(Plan::Copy { .. })))
            .map(|(_, file)| file.size)
            .fold(0, u64::saturating_add);
        let interval = self.core.options.callback_trigger_interval_size;
        let progress = options.progress.clone();
        let reporter = Arc::new(Reporter::new(
            &[self.core.identity()],
            progress,
            interval,
            total,
        ));
        let (copier, reporting) = (self.clone(), reporter.clone());
        let copy = move |number: usize| match &plans[number] {
            None => Ok(None),
            Some(Plan::Existing(file)) => Ok(Some(file.clone())),
            Some(Plan::Copy { path, crc32c }) => {
                let file = &copier.files[number];
                let stored = copier.copy_one(file, path.as_ref(), *crc32c, &reporting)?;
                Ok(Some(Arc::new(stored)))
            }
        };
        let stored = tasks::run(executor, threads, self.files.len(), copy)?;
        reporter.report()?;
        let stored = stored.into_iter().flatten().collect();
        Ok((stored, excluded.into_iter().flatten().collect()))
    }

    /// Returns the path of each file that is excluded.
    fn exclude(&self, plans: &[Plan]) -> Result<Vec<Option<BackupPath>>> {
        let Some(exclude) = &self.exclude_files else {
            return Ok(vec![None; plans.len()]);
        };
        let candidate = |plan: &Plan| match plan {
            Plan::Copy {
                path: Some(path), ..
            } if path.is_shared() => Some(path.clone()),
            _ => None,
        };
        let candidates: Vec<Option<BackupPath>> = plans.iter().map(candidate).collect();
        let named = candidates.iter().flatten();
        let mut decisions: Vec<(String, bool)> =
            named.map(|path| (path.to_string(), false)).collect();
        call(&[self.core.identity()], "exclude_files", || {
            exclude(&mut decisions)
        })?;
        let mut decisions = decisions.into_iter().map(|(_, excluded)| excluded);
        let decide = |path: Option<BackupPath>| path.filter(|_| decisions.next() == Some(true));
        Ok(candidates.into_iter().map(decide).collect())
    }

    fn transfer<'a>(&'a self, reporter: Option<&'a Reporter>) -> Transfer<'a> {
        Transfer {
            stopped: Some(&self.core.stopped),
            reporter,
            ..self.core.backup_transfer()
        }
    }

    /// Copies a file of the database. Without `path`, its checksum determines its path.
    fn copy_one(
        &self,
        file: &LiveFileStorageInfo,
        path: Option<&BackupPath>,
        expected: Option<u32>,
        reporter: &Reporter,
    ) -> Result<StoredFile> {
        let fs = self.core.fs();
        let shared = path.is_none_or(BackupPath::is_shared);
        // A name that is unique in the backup, and that garbage collection recognizes.
        let draft = match path {
            Some(path) => path.clone(),
            None => self.path_by_checksum(file, 0)?,
        };
        let target = match shared {
            true => self
                .core
                .path(format_args!("{}/.{}{TEMPORARY}", draft.dir(), draft.name())),
            false => self.core.path(&draft),
        };
        let sync = self.core.options.sync;
        let transfer = self.transfer(Some(reporter));
        let source = file.directory.join(&file.relative_filename);
        let content = match &file.replacement_contents {
            Some(content) => transfer.write((fs, &target), content, sync)?,
            None => {
                let from = (&*self.core.db_world.fs, &*source);
                let content = transfer.copy(from, (fs, &target), Some(file.size), sync)?;
                self.count(content, true);
                content
            }
        };
        if let Some(expected) = expected.filter(|expected| *expected != content.crc32c) {
            return Err(Error::corruption(format!(
                "checksum of {}: expected {expected}, found {}",
                source.display(),
                content.crc32c
            )));
        }
        let path = match path {
            Some(path) => path.clone(),
            None => {
                self.remember(file, content.crc32c);
                self.path_by_checksum(file, content.crc32c)?
            }
        };
        if shared {
            fs.rename(&target, &self.core.path(&path))?;
        }
        Ok(StoredFile {
            path,
            size: content.size,
            crc32c: Some(content.crc32c),
            temperature: file.temperature,
        })
    }

    fn count(&self, content: Content, written: bool) {
        // Relaxed: counts.
        self.read_bytes.fetch_add(content.size, Ordering::Relaxed);
        if written {
            self.written_bytes
                .fetch_add(content.size, Ordering::Relaxed);
        }
    }

    /// Reads a file of the database for its checksum.
    pub(crate) fn checksum(&self, file: &LiveFileStorageInfo) -> Result<u32> {
        let path = file.directory.join(&file.relative_filename);
        let fs = &*self.core.db_world.fs;
        let content = self.transfer(None).checksum(fs, &path, Some(file.size))?;
        self.count(content, false);
        Ok(content.crc32c)
    }

    fn source(&self, file: &LiveFileStorageInfo) -> SourceFile {
        SourceFile {
            session: self.session.clone(),
            name: file.relative_filename.clone(),
            size: file.size,
        }
    }

    /// The checksum of a file of the database that an earlier backup by this engine has read.
    pub(crate) fn remembered(&self, file: &LiveFileStorageInfo) -> Option<u32> {
        self.checksums.lock().get(&self.source(file)).copied()
    }

    pub(crate) fn remember(&self, file: &LiveFileStorageInfo, crc32c: u32) {
        self.checksums.lock().insert(self.source(file), crc32c);
    }

    /// The checksums that a later backup may need again.
    fn checksums_of_live_files(&self) -> HashMap<SourceFile, u32> {
        let known = self.checksums.lock();
        let live = self.files.iter().map(|file| self.source(file));
        let pairs = live.filter_map(|source| known.get(&source).map(|crc| (source, *crc)));
        pairs.collect()
    }

    /// Makes the files durable and creates the metadata file. Returns its status.
    fn publish(&self, meta: &BackupMeta) -> Result<Status> {
        let (core, fs) = (&*self.core, self.core.fs());
        let sync = core.options.sync;
        if sync {
            for shared in [BackupDir::Shared, BackupDir::SharedChecksum] {
                if meta.files.iter().any(|file| file.path.dir() == shared) {
                    fs.sync_dir(&core.path(shared))?;
                }
            }
            fs.sync_dir(&core.path(BackupDir::Private(self.id)))?;
            fs.sync_dir(&core.path(PRIVATE_DIR))?;
            fs.sync_dir(core.dir())?;
            if core.catalog.lock().is_empty() {
                // The process that created the directory may have ended before it synced the name.
                if !sync_name(fs, core.dir())? {
                    core.info.warn(unsynced_name(core.dir()));
                }
            }
        }
        let meta_dir = core.path(META_DIR);
        let draft = meta_dir.join(format!(".{}{TEMPORARY}", self.id));
        let text = meta.encode();
        let transfer = self.transfer(None);
        transfer.write((fs, &draft), text.as_bytes(), sync)?;
        let path = meta_dir.join(self.id.to_string());
        fs.rename(&draft, &path)?;
        if sync {
            fs.sync_dir(&meta_dir)?;
        }
        fs.status(&path)
    }
}
