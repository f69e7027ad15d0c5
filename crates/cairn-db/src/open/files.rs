//! Small files outside of the tree (IDENTITY, OPTIONS), and files left by a crash.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use cairn_format::names::{self, FileName, table};
use cairn_format::options_text::from_bytes;
use cairn_observe::Logger;
use cairn_options::file::OptionsFile;
use cairn_options::{DbOptions, merge_operators};
use cairn_platform::FileSystem;
use cairn_platform::fs::{FileMode, Status};
use cairn_types::{Error, FileNumber, MergeOperator, Result, Subcode};
use cairn_version::manifest::{Recovered, RecoveredFamily};
use cairn_version::{FileMeta, TableSource};

use super::OpenRequest;
use crate::catalog::family::FamilyState;
use crate::catalog::options_file::replace;
use crate::catalog::scan::{self, Keep};
use crate::shared::Shared;

/// The maximum number of bytes read from a small file.
const MAX_SMALL_FILE: u64 = 16 << 20;

/// The maximum number of bytes read from an OPTIONS file, which has 4 KiB for each family.
const MAX_OPTIONS_FILE: u64 = 1 << 30;

/// Returns the content of a small file, or `None` if it does not exist.
pub(crate) fn read_small(fs: &dyn FileSystem, path: &Path) -> Result<Option<Vec<u8>>> {
    read_up_to(fs, path, MAX_SMALL_FILE)
}

/// Returns the content of an OPTIONS file, or `None` if it does not exist.
pub(crate) fn read_options(fs: &dyn FileSystem, path: &Path) -> Result<Option<Vec<u8>>> {
    read_up_to(fs, path, MAX_OPTIONS_FILE)
}

/// Returns the content of a file of at most `most` bytes, or `None` if it does not exist.
fn read_up_to(fs: &dyn FileSystem, path: &Path, most: u64) -> Result<Option<Vec<u8>>> {
    let file = match fs.open(path, FileMode::default()) {
        Err(error) if error.subcode() == Subcode::PathNotFound => return Ok(None),
        file => file?,
    };
    let len = file.len()?;
    if len > most {
        return Err(Error::corruption(format!(
            "length of {}: expected at most {most}, found {len}",
            path.display()
        )));
    }
    let mut content = vec![0; usize::try_from(len).unwrap_or(0)];
    let got = file.read_up_to_end(0, &mut content)?;
    content.truncate(got);
    Ok(Some(content))
}

/// Returns an error instead of creating a database if there are logs of a lost one.
pub(super) fn refuse_orphaned_logs(
    fs: &dyn FileSystem,
    dir: &Path,
    options: &DbOptions,
) -> Result<()> {
    for name in fs.list(options.wal_dir_of(dir))? {
        if let Some(FileName::Wal(_)) = FileName::parse(&name) {
            return Err(Error::corruption(format!(
                "{} has no CURRENT, but a log: {name}. It contained a database; a new one is not created over it",
                dir.display()
            )));
        }
    }
    Ok(())
}

/// Returns the identity of the database: that in the MANIFEST, that in IDENTITY, or a new one. An IDENTITY that is
/// damaged or differs from the MANIFEST is replaced.
pub(super) fn identity(
    request: &OpenRequest<'_>,
    options: &DbOptions,
    dir: &Path,
    recovered: &Recovered,
    info: &Logger,
) -> Result<String> {
    let fs = &*request.world.fs;
    let path = dir.join(FileName::Identity.to_string());
    let content = read_small(fs, &path)?;
    let recorded = match &content {
        Some(content) if !content.is_empty() => match names::decode_identity(content) {
            Err(error) => {
                let error = error.in_file(path.display(), 0);
                info.warn(format_args!(
                    "IDENTITY is ignored; it is rewritten unless the database is read-only or \
                     write_identity_file is false: {error}"
                ));
                None
            }
            Ok(recorded) => Some(recorded),
        },
        _ => None,
    };
    let random = &request.world.random;
    let id = recovered
        .db_id
        .clone()
        .or(recorded.clone())
        .unwrap_or_else(|| {
            cairn_format::id::db_id_from_random(random.next_u64(), random.next_u64())
        });
    if !request.read_only && options.write_identity_file && recorded.as_ref() != Some(&id) {
        let temporary = dir.join(FileName::Temp(recovered.next_file).to_string());
        replace(fs, &temporary, &path, id.as_bytes())?;
    }
    Ok(id)
}

/// The newest OPTIONS file of a database that is being opened, read on first use.
pub(super) struct RecordedOptions<'a> {
    request: &'a OpenRequest<'a>,
    /// The names in the directory.
    names: &'a [String],
    file: OnceCell<Option<OptionsFile>>,
}

impl<'a> RecordedOptions<'a> {
    pub(super) fn new(request: &'a OpenRequest<'a>, names: &'a [String]) -> RecordedOptions<'a> {
        RecordedOptions {
            request,
            names,
            file: OnceCell::new(),
        }
    }

    /// Returns the file, if there is one that can be read.
    fn file(&self) -> Option<&OptionsFile> {
        self.file.get_or_init(|| self.read()).as_ref()
    }

    fn read(&self) -> Option<OptionsFile> {
        let all = self.names.iter();
        let options = all.filter_map(|name| match FileName::parse(name)? {
            FileName::Options(number) => Some((number, name)),
            _ => None,
        });
        let (_, name) = options.max()?;
        let fs = &*self.request.world.fs;
        let content = read_options(fs, &self.request.path.join(name)).ok()??;
        OptionsFile::from_text(&from_bytes(&content), true).ok()
    }

    /// Logs the unknown options in the file, which are those of a newer release, if it was read.
    pub(super) fn log_passed_over(&self, info: &Logger) {
        let file = self.file.get().and_then(Option::as_ref);
        for option in file.map_or(&[][..], |file| &file.passed_over) {
            info.warn(format_args!(
                "OPTIONS file: {option} is unknown and ignored"
            ));
        }
    }

    /// Returns the merge operator of the family of this name, if values were `dated` as they are now.
    fn merge_operator(&self, family: &str, dated: bool) -> Option<Arc<dyn MergeOperator>> {
        let recorded = self.file()?.family(family)?;
        let operator = recorded.merge_operator.clone();
        operator.filter(|_| recorded.value_ttl.is_some() == dated)
    }
}

/// Returns the merge operator that the newest OPTIONS file or a table of the family records, if it is a
/// built-in one and values were `dated` then as they are now. After any failure it is unknown, and reads of
/// merged keys return an error.
pub(super) fn recorded_merge_operator(
    request: &OpenRequest<'_>,
    recorded: &RecordedOptions<'_>,
    family: &RecoveredFamily,
    dated: bool,
) -> Option<Arc<dyn MergeOperator>> {
    recorded.merge_operator(&family.name, dated).or_else(|| {
        if dated {
            // Tables record the operator that strips the dates, not the one wrapped by it.
            return None;
        }
        let (level, file) = family.version.files().next()?;
        let source = TableSource::new(
            request.world.fs.clone(),
            vec![request.path.to_owned()],
            family.version.order().clone(),
        );
        let io = cairn_platform::Io::blocking();
        let table = source
            .open_apart(file, Some(level), FileMode::default(), &io)
            .ok()?;
        merge_operators::from_recorded_name(&table.properties().merge_operator)
    })
}

/// Returns the host name, for table properties; empty if there is none that can be read.
pub(super) fn host_id(options: &DbOptions, fs: &dyn FileSystem) -> String {
    if options.db_host_id != "__hostname__" {
        return options.db_host_id.clone();
    }
    let name = read_small(fs, Path::new("/etc/hostname"))
        .ok()
        .flatten()
        .unwrap_or_default();
    String::from_utf8_lossy(&name).trim().to_owned()
}

fn is_missing(found: &Result<Status>) -> bool {
    matches!(found, Err(error) if error.subcode() == Subcode::PathNotFound)
}

/// Checks that `file` of `family` exists with its full length, given the file found in its place.
fn check_table(family: &FamilyState, file: &FileMeta, found: Result<Status>) -> Result<()> {
    let path = || family.tables().path(file);
    if is_missing(&found) {
        return Err(Error::corruption(format!(
            "table {} of column family {:?} is missing",
            path().display(),
            family.name()
        )));
    }
    let len = found?.len;
    match len == file.size {
        true => Ok(()),
        false => Err(Error::corruption(format!(
            "length of table {}: expected {}, found {len}",
            path().display(),
            file.size
        ))),
    }
}

impl Shared {
    /// The files kept by an opening.
    pub(super) fn needed(&self, manifest: FileNumber, min_log: FileNumber) -> Keep {
        let mut live = BTreeSet::new();
        for family in self.catalog.families().iter() {
            let version = &family.view().version;
            live.extend(version.files().map(|(_, file)| file.number));
            live.extend(version.blob_files().keys().copied());
        }
        Keep {
            manifest,
            min_log,
            live,
            min_pending: self.catalog.numbers.next(),
        }
    }

    /// Deletes files that are not needed, after an opening that found `names` in the directory of the
    /// database and added the OPTIONS file `options`. A file that cannot be deleted is left to the next opening.
    pub(super) fn clean_up(
        &self,
        manifest: FileNumber,
        min_log: FileNumber,
        mut names: Vec<String>,
        options: String,
    ) -> Result<()> {
        let keep = self.needed(manifest, min_log);
        assert!(
            manifest < keep.min_pending && min_log < keep.min_pending,
            "the MANIFEST and the first log that are kept have allocated numbers"
        );
        debug_assert!(
            keep.live.last().is_none_or(|last| *last < keep.min_pending),
            "files of the tree have allocated numbers: {:?}",
            keep.live.last()
        );
        self.open_archive(min_log)?;
        let (fs, info) = (&*self.context.world.fs, &*self.context.info);
        for dir in self.catalog.sources.dirs_of(&self.catalog.families()) {
            if dir != self.context.dir {
                scan::scan_tables(fs, info, &dir, &keep)?;
            }
        }
        names.push(options);
        scan::scan(fs, info, &self.context.dir, names, &keep);
        match self.context.wal_dir == self.context.dir {
            true => Ok(()),
            false => scan::scan_logs(fs, info, &self.context.wal_dir, &keep),
        }
    }

    /// Prevents numbers of existing files from being allocated: neither those in `own`, which are in the
    /// directory of the database, nor those in any other directory.
    pub(super) fn skip_used_numbers(&self, own: &[String]) -> Result<()> {
        let fs = &*self.context.world.fs;
        let mut dirs = self.catalog.sources.dirs_of(&self.catalog.families());
        dirs.insert(self.context.wal_dir.clone());
        dirs.remove(&self.context.dir);
        let note = |name: &String| {
            if let Some(number) = FileName::parse(name).and_then(FileName::number) {
                self.catalog.numbers.note_used(number);
            }
        };
        own.iter().for_each(note);
        for dir in dirs {
            fs.list(&dir)?.iter().for_each(note);
        }
        Ok(())
    }

    /// Gives the tables that have LevelDB's names in `own`, the files in the directory of the database, the names that
    /// jobs, copies and deletions of files expect.
    pub(super) fn rename_legacy_tables(&self, own: &[String]) -> Result<()> {
        let legacy = own.iter().filter_map(|name| match FileName::parse(name) {
            Some(FileName::LegacyTable(number)) => Some(number),
            _ => None,
        });
        let legacy: BTreeSet<FileNumber> = legacy.collect();
        if legacy.is_empty() {
            return Ok(());
        }
        let (fs, dir) = (&*self.context.world.fs, &self.context.dir);
        for family in self.catalog.families().iter() {
            let (view, tables) = (family.view(), family.tables());
            for (_, file) in view.version.files() {
                let is_here = legacy.contains(&file.number) && tables.dir(file) == Some(dir);
                if is_here && is_missing(&fs.status(&tables.path(file))) {
                    fs.rename(&tables.legacy_path(file), &tables.path(file))?;
                }
            }
        }
        fs.sync_dir(dir)
    }

    /// Checks that every table of the tree exists with its full length.
    pub(super) fn check_tables(&self) -> Result<()> {
        let fs = &*self.context.world.fs;
        for family in self.catalog.families().iter() {
            let (view, tables) = (family.view(), family.tables());
            let mut files: Vec<&FileMeta> = view.version.files().map(|(_, file)| &**file).collect();
            files.sort_by_key(|file| tables.dir(file));
            for files in files.chunk_by(|a, b| tables.dir(a) == tables.dir(b)) {
                let names: Vec<String> = files.iter().map(|file| table(file.number)).collect();
                let dir = tables.dir(files[0]).unwrap_or(&self.context.dir);
                let found = fs.status_each(dir, &names);
                for (file, mut status) in files.iter().zip(found) {
                    if is_missing(&status) {
                        status = fs.status(&tables.legacy_path(file));
                    }
                    check_table(family, file, status)?;
                }
            }
        }
        Ok(())
    }
}
