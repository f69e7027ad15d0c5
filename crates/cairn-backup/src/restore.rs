//! Restoring a database from a backup.
//!
//! 1. The target is locked, and CURRENT is durably removed.
//! 2. The other files of a database in the target are removed, except logs and those that are kept (options).
//! 3. The files of the backup are copied, their checksums compared, and the copies synced with their directories.
//! 4. CURRENT is written under a temporary name, synced, and renamed; its directory is synced.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_format::backup::{
    BackupDir, BackupPath, META_DIR, PRIVATE_DIR, SHARED_CHECKSUM_DIR, SHARED_DIR,
};
use cairn_format::names::{self, ARCHIVE_DIR, FileName};
use cairn_platform::FileSystem;
use cairn_platform::fs::{FileMode, list_if_there, remove_if_there};
use cairn_types::{Error, Result};

use crate::callback::Reporter;
use crate::catalog::{Backup, StoredFile};
use crate::copy::{Transfer, create_dir};
use crate::engine::Core;
use crate::naming::session_of;
use crate::options::{RestoreMode, RestoreOptions};
use crate::tasks;
use crate::verify::check_complete;

/// The name of CURRENT while it is written.
const CURRENT_DRAFT: &str = "CURRENT.tmp";

/// The directories with files of backups.
const BACKUP_DIRS: [&str; 4] = [PRIVATE_DIR, SHARED_DIR, SHARED_CHECKSUM_DIR, META_DIR];

/// A file to restore, and the engine in whose directory it is.
#[derive(Clone)]
struct Source {
    core: Arc<Core>,
    file: Arc<StoredFile>,
}

impl Source {
    fn kind(&self) -> FileName {
        self.file.path.kind()
    }

    fn path(&self) -> PathBuf {
        self.core.path(&self.file.path)
    }
}

/// The directories of the database.
#[derive(Clone)]
struct Target {
    db_dir: PathBuf,
    wal_dir: PathBuf,
}

impl Target {
    fn path(&self, source: &Source) -> PathBuf {
        let name = source.file.path.database_name();
        match source.kind() {
            FileName::Current => self.db_dir.join(CURRENT_DRAFT),
            FileName::Wal(_) => self.wal_dir.join(name),
            _ => self.db_dir.join(name),
        }
    }

    fn dirs(&self) -> impl Iterator<Item = &PathBuf> {
        let separate = (self.wal_dir != self.db_dir).then_some(&self.wal_dir);
        [&self.db_dir].into_iter().chain(separate)
    }
}

/// Restores a backup, the newest valid one without `id`.
pub(crate) fn restore(
    core: &Arc<Core>,
    id: Option<u32>,
    db_dir: &Path,
    wal_dir: &Path,
    options: &RestoreOptions<'_>,
) -> Result<()> {
    let mut others: Vec<&Arc<Core>> = Vec::new();
    for other in options.alternate_dirs.iter().map(|other| &other.core) {
        if !Arc::ptr_eq(other, core) && !others.iter().any(|known| Arc::ptr_eq(known, other)) {
            others.push(other);
        }
    }
    // In the order of their addresses, so that restores with the same engines do not wait for each other behind
    // deletions.
    let mut engines: Vec<&Arc<Core>> = others.iter().copied().chain([core]).collect();
    engines.sort_by_key(|engine| engine.identity());
    let _reading: Vec<_> = engines.iter().map(|engine| engine.reading.read()).collect();
    let backup = core.catalog.lock().get(id)?;
    // The target is not touched for a backup that cannot be restored.
    check_complete(core, &backup)?;
    let fs = &*core.db_world.fs;
    for dir in [db_dir, wal_dir] {
        create_dir(fs, dir, core.options.sync, &core.info)?;
        check_outside_backups(core, dir)?;
    }
    let target = Target {
        db_dir: fs.canonical(db_dir)?,
        wal_dir: fs.canonical(wal_dir)?,
    };
    let lock = fs.lock(&target.db_dir.join(names::LOCK));
    let _lock = lock
        .map_err(|error| error.context(format_args!("restoring to {}", target.db_dir.display())))?;
    let (mut sources, missing) = sources(core, &backup, &others);
    let kept = files_to_keep(core, &sources, &missing, &target.db_dir, options.mode)?;
    let absent = missing
        .iter()
        .find(|path| !kept.contains(&path.database_name()));
    if let Some(absent) = absent {
        return Err(Error::invalid_argument(format!(
            "excluded file {absent} is in none of the {} other backup directories",
            others.len()
        )));
    }
    remove_old_files(fs, &target, &kept, options.keep_log_files)?;
    let mut existing = Vec::new();
    if options.keep_log_files {
        existing = list_if_there(fs, &target.wal_dir)?;
    }
    sources.retain(|source| {
        let name = source.file.path.database_name();
        let is_log = matches!(source.kind(), FileName::Wal(_));
        !(kept.contains(&name) || is_log && existing.contains(&name))
    });
    let engines: Vec<usize> = engines.iter().map(|engine| engine.identity()).collect();
    copy_all((core, &engines), sources, &target, options)?;
    finish(core, &target, &kept)
}

/// # Errors
///
/// `InvalidArgument` if `dir` is one of the directories of the backups' files, or in one.
fn check_outside_backups(core: &Core, dir: &Path) -> Result<()> {
    if !Arc::ptr_eq(&core.world.fs, &core.db_world.fs) {
        return Ok(());
    }
    let (fs, backups) = (core.fs(), core.fs().canonical(core.dir())?);
    let dir = fs.canonical(dir)?;
    let inside = dir.strip_prefix(&backups).is_ok_and(|rest| {
        let first = rest.components().next();
        first.is_some_and(|first| {
            let first = first.as_os_str().to_string_lossy();
            BACKUP_DIRS.contains(&&*first)
        })
    });
    match inside {
        true => Err(Error::invalid_argument(format!(
            "target of a restore: {} has files of backups",
            dir.display()
        ))),
        false => Ok(()),
    }
}

/// Returns the files of `backup`, and the paths of excluded files that no other engine has.
fn sources(
    core: &Arc<Core>,
    backup: &Backup,
    others: &[&Arc<Core>],
) -> (Vec<Source>, Vec<BackupPath>) {
    let own = backup.files.iter().map(|file| Source {
        core: core.clone(),
        file: file.clone(),
    });
    let mut sources: Vec<Source> = own.collect();
    let mut missing = Vec::new();
    for path in &backup.excluded {
        let found = [core]
            .into_iter()
            .chain(others.iter().copied())
            .find_map(|core| {
                let file = core.catalog.lock().shared(path)?;
                Some(Source {
                    core: core.clone(),
                    file,
                })
            });
        match found {
            Some(source) => sources.push(source),
            None => missing.push(path.clone()),
        }
    }
    (sources, missing)
}

/// Returns the names of files in the target that need not be restored, according to `mode`.
fn files_to_keep(
    core: &Arc<Core>,
    sources: &[Source],
    missing: &[BackupPath],
    db_dir: &Path,
    mode: RestoreMode,
) -> Result<HashSet<String>> {
    if mode == RestoreMode::PurgeAllFiles {
        return Ok(HashSet::new());
    }
    let fs = &*core.db_world.fs;
    let known = sources
        .iter()
        .map(|source| &source.file.path)
        .chain(missing);
    let paths: HashMap<String, BackupPath> = known
        .map(|path| (path.database_name(), path.clone()))
        .collect();
    let by_name: HashMap<String, Source> = sources
        .iter()
        .map(|source| (source.file.path.database_name(), source.clone()))
        .collect();
    let mut names = list_if_there(fs, db_dir)?;
    names.retain(|name| match FileName::parse(name) {
        Some(FileName::Table(_) | FileName::LegacyTable(_)) => paths.contains_key(name),
        Some(FileName::Blob(_)) => {
            mode == RestoreMode::VerifyChecksum && by_name.contains_key(name)
        }
        _ => false,
    });
    let count = names.len();
    let (dir, reading, names) = (db_dir.to_owned(), core.clone(), Arc::new(names));
    let examined = names.clone();
    let keep = move |number: usize| {
        let name = &examined[number];
        let path = dir.join(name);
        let same = match mode {
            RestoreMode::VerifyChecksum => by_name
                .get(name)
                .is_some_and(|source| has_content(&reading, source, &path)),
            _ => has_session(&*reading.db_world.fs, &paths[name], &path),
        };
        Ok(same)
    };
    let threads = core.options.max_background_operations;
    let same = tasks::run(&core.db_world.executor, threads, count, keep)?;
    let kept = names.iter().zip(same).filter(|(_, same)| *same);
    Ok(kept.map(|(name, _)| name.clone()).collect())
}

/// True if the table at `path` has the session id and the size in the name of a shared file.
fn has_session(fs: &dyn FileSystem, stored: &BackupPath, path: &Path) -> bool {
    let Ok(status) = fs.status(path) else {
        return false;
    };
    let session = session_of(fs, path).filter(|session| !session.is_empty());
    session.is_some_and(|session| {
        let name = stored.database_name();
        let expected = cairn_format::backup::shared_checksum_path(
            &name,
            format_args!("s{session}_{}", status.len),
        );
        stored.dir() == BackupDir::SharedChecksum && expected.as_ref() == Some(stored)
    })
}

/// True if the file at `path` has the checksum of a file of the backup. A file that cannot be read does not have it, and
/// is restored.
fn has_content(core: &Core, source: &Source, path: &Path) -> bool {
    let transfer = restore_transfer(core, None);
    let stored = source.file.crc32c.or_else(|| {
        let (fs, path) = (source.core.fs(), source.path());
        transfer
            .checksum(fs, &path, None)
            .ok()
            .map(|content| content.crc32c)
    });
    let fs = &*core.db_world.fs;
    // A file of another length need not be read.
    let same_size = fs
        .status(path)
        .is_ok_and(|status| status.len == source.file.size);
    same_size
        && transfer
            .checksum(fs, path, None)
            .is_ok_and(|found| Some(found.crc32c) == stored)
}

fn restore_transfer<'a>(core: &'a Core, reporter: Option<&'a Reporter>) -> Transfer<'a> {
    Transfer {
        limiter: core.restore_limiter.as_deref(),
        clock: &*core.db_world.clock,
        piece: core.options.piece(),
        stopped: None,
        reporter,
    }
}

/// Removes the files of a database, CURRENT first.
fn remove_old_files(
    fs: &dyn FileSystem,
    target: &Target,
    kept: &HashSet<String>,
    keep_logs: bool,
) -> Result<()> {
    remove_if_there(fs, &target.db_dir.join(names::CURRENT))?;
    fs.sync_dir(&target.db_dir)?;
    let archive = target.wal_dir.join(ARCHIVE_DIR);
    if keep_logs {
        for name in list_if_there(fs, &archive)? {
            if matches!(FileName::parse(&name), Some(FileName::Wal(_))) {
                fs.rename(&archive.join(&name), &target.wal_dir.join(&name))?;
            }
        }
    }
    for dir in target.dirs().chain([&archive]) {
        for name in list_if_there(fs, dir)? {
            let old = match FileName::parse(&name) {
                None | Some(FileName::Lock | FileName::InfoLog | FileName::OldInfoLog(_)) => false,
                Some(FileName::Wal(_)) => !keep_logs,
                Some(_) => *dir == target.db_dir && !kept.contains(&name),
            };
            if old {
                remove_if_there(fs, &dir.join(&name))?;
            }
        }
    }
    Ok(())
}

/// Copies `sources` to the target, CURRENT under its temporary name. The restore reads from `engines`.
fn copy_all(
    (core, engines): (&Arc<Core>, &[usize]),
    sources: Vec<Source>,
    target: &Target,
    options: &RestoreOptions<'_>,
) -> Result<()> {
    let sizes = sources.iter().map(|source| source.file.size);
    let total = sizes.fold(0, u64::saturating_add);
    let interval = core.options.callback_trigger_interval_size;
    let progress = options.progress.clone();
    let reporter = Arc::new(Reporter::new(engines, progress, interval, total));
    let (copying, target, reporting) = (core.clone(), target.clone(), reporter.clone());
    let count = sources.len();
    let copy = move |number: usize| {
        let source = &sources[number];
        let (from, to) = (source.path(), target.path(source));
        let fs = &*copying.db_world.fs;
        let content = restore_transfer(&copying, Some(&reporting)).copy(
            (source.core.fs(), &from),
            (fs, &to),
            Some(source.file.size),
            copying.options.sync,
        )?;
        match source.file.crc32c {
            Some(expected) if expected != content.crc32c => Err(Error::corruption(format!(
                "checksum of {}: expected {expected}, found {}",
                from.display(),
                content.crc32c
            ))),
            _ => Ok(()),
        }
    };
    let threads = core.options.max_background_operations;
    tasks::run(&core.db_world.executor, threads, count, copy)?;
    reporter.report()
}

/// Makes the files durable and gives CURRENT its name.
fn finish(core: &Core, target: &Target, kept: &HashSet<String>) -> Result<()> {
    let fs = &*core.db_world.fs;
    let sync = core.options.sync;
    if sync {
        for name in kept {
            // Its writer may not have synced it.
            let file = fs.open_append(&target.db_dir.join(name), FileMode::default())?;
            file.sync(false)?;
            file.close()?;
        }
        for dir in target.dirs() {
            fs.sync_dir(dir)?;
        }
    }
    let draft = target.db_dir.join(CURRENT_DRAFT);
    fs.rename(&draft, &target.db_dir.join(names::CURRENT))?;
    match sync {
        true => fs.sync_dir(&target.db_dir),
        false => Ok(()),
    }
}
