//! The backups in a directory: their metadata in memory, and the references to shared files.

use std::collections::hash_map::Entry as Entries;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use cairn_format::backup::{self, BackupDir, BackupFile, BackupMeta, BackupPath};
use cairn_platform::FileSystem;
use cairn_platform::fs::{FileMode, PathKind, Status, list_if_there};
use cairn_types::{Code, Error, Result, Subcode};

/// The number of bytes of a metadata file read at a time.
const PIECE: usize = 64 << 10;
/// The maximum length of a metadata file, which is enough for millions of files.
const MAX_META: usize = 256 << 20;

/// A description of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupInfo {
    /// Its id.
    pub backup_id: u32,
    /// The time of its creation in seconds since 1970.
    pub timestamp: i64,
    /// Bytes of its files, including shared ones.
    pub size: u64,
    /// The number of its files, including shared ones.
    pub number_files: u32,
    /// Bytes of the application.
    pub app_metadata: Vec<u8>,
    /// A sequence number up to which it has all writes.
    pub sequence_number: u64,
    /// Files that were excluded, relative to the directory of backups.
    pub excluded_files: Vec<String>,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredFile {
    pub(crate) path: BackupPath,
    /// Its length when it was written, or when the engine was opened.
    pub(crate) size: u64,
    pub(crate) crc32c: Option<u32>,
    pub(crate) temperature: u8,
}

/// A backup.
#[derive(Debug)]
pub(crate) struct Backup {
    pub(crate) info: BackupInfo,
    pub(crate) files: Vec<Arc<StoredFile>>,
    pub(crate) excluded: Vec<BackupPath>,
}

/// The state of a metadata file.
enum State {
    Valid(Arc<Backup>),
    /// It cannot be read, or a file is missing. The paths that it lists, if it can be decoded.
    Corrupt(Error, Option<Vec<BackupPath>>),
    /// Not read: see `max_valid_backups_to_open`.
    Unopened,
}

/// A metadata file. Length and time of its last change identify its content.
struct Entry {
    stamp: (u64, u64),
    state: State,
}

/// All backups of a directory.
#[derive(Default)]
pub(crate) struct Catalog {
    entries: BTreeMap<u32, Entry>,
    /// Shared files of valid backups, with the number of backups that list them.
    shared: HashMap<BackupPath, (Arc<StoredFile>, usize)>,
    /// The largest id of a backup ever seen.
    last_id: u32,
}

impl Catalog {
    /// Reads the metadata files that have appeared or changed in `dir`, newest first, until `max_valid` new ones are
    /// valid, and forgets those that have disappeared.
    ///
    /// # Errors
    ///
    /// `IoError`. Metadata files that are damaged or of unsupported versions are recorded as corrupt.
    pub(crate) fn refresh(
        &mut self,
        fs: &dyn FileSystem,
        dir: &Path,
        max_valid: usize,
    ) -> Result<()> {
        let meta_dir = dir.join(backup::META_DIR);
        let names: Vec<String> = list_if_there(fs, &meta_dir)?
            .into_iter()
            .filter(|name| backup::parse_id(name).is_some())
            .collect();
        let mut found = BTreeMap::new();
        for (name, status) in names.iter().zip(fs.status_each(&meta_dir, &names)) {
            let id = backup::parse_id(name).expect("other names were filtered out");
            match status {
                Err(error) if error.subcode() == Subcode::PathNotFound => {}
                // No metadata can have the name of a directory.
                Ok(status) if status.kind != PathKind::File => {
                    self.last_id = self.last_id.max(id);
                }
                status => {
                    found.insert(id, stamp(status?));
                }
            }
        }
        let known: Vec<u32> = self.entries.keys().copied().collect();
        for id in known {
            if self.entries.get(&id).map(|entry| entry.stamp) != found.get(&id).copied() {
                self.remove(id);
            }
        }
        let mut sizes = Sizes::default();
        let mut valid = 0;
        for (id, stamp) in found.into_iter().rev() {
            self.last_id = self.last_id.max(id);
            if self.entries.contains_key(&id) {
                continue;
            }
            let state = match valid < max_valid {
                true => load(fs, dir, id, &mut sizes)?,
                false => State::Unopened,
            };
            valid += usize::from(matches!(state, State::Valid(_)));
            self.insert(id, stamp, state);
        }
        Ok(())
    }

    fn insert(&mut self, id: u32, stamp: (u64, u64), state: State) {
        let state = match state {
            State::Valid(backup) => {
                let files = backup.files.iter().map(|file| self.refer(file)).collect();
                State::Valid(Arc::new(Backup {
                    info: backup.info.clone(),
                    files,
                    excluded: backup.excluded.clone(),
                }))
            }
            state => state,
        };
        self.entries.insert(id, Entry { stamp, state });
    }

    /// Counts a reference to `file`, and returns the one in memory that stands for it.
    fn refer(&mut self, file: &Arc<StoredFile>) -> Arc<StoredFile> {
        if !file.path.is_shared() {
            return file.clone();
        }
        let shared = self.shared.entry(file.path.clone());
        let (known, references) = shared.or_insert_with(|| (file.clone(), 0));
        *references += 1;
        match **known == **file {
            true => known.clone(),
            false => file.clone(),
        }
    }

    /// Adds a backup, whose metadata file has the given status.
    pub(crate) fn add(&mut self, backup: Backup, status: Status) {
        let id = backup.info.backup_id;
        self.last_id = self.last_id.max(id);
        self.insert(id, stamp(status), State::Valid(Arc::new(backup)));
    }

    /// Forgets a backup. Returns its paths that no other backup lists.
    pub(crate) fn remove(&mut self, id: u32) -> Vec<BackupPath> {
        let Some(entry) = self.entries.remove(&id) else {
            return Vec::new();
        };
        let paths: Vec<BackupPath> = match entry.state {
            State::Valid(backup) => {
                for file in &backup.files {
                    if let Some((_, references)) = self.shared.get_mut(&file.path) {
                        *references -= 1;
                        if *references == 0 {
                            self.shared.remove(&file.path);
                        }
                    }
                }
                backup.files.iter().map(|file| file.path.clone()).collect()
            }
            State::Corrupt(_, listed) => listed.unwrap_or_default(),
            State::Unopened => Vec::new(),
        };
        let damaged = self.listed_by_corrupt();
        let unused = paths
            .into_iter()
            .filter(|path| !self.shared.contains_key(path) && !damaged.contains(path));
        unused.collect()
    }

    /// The paths that corrupt backups list.
    fn listed_by_corrupt(&self) -> HashSet<BackupPath> {
        let listed = self
            .entries
            .values()
            .filter_map(|entry| match &entry.state {
                State::Corrupt(_, listed) => listed.as_ref(),
                _ => None,
            });
        listed.flatten().cloned().collect()
    }

    /// The shared files that are in use; `None` if others may be, because a metadata file was not read or is damaged.
    pub(crate) fn listed(&self) -> Option<HashSet<BackupPath>> {
        let all_valid = self
            .entries
            .values()
            .all(|entry| matches!(entry.state, State::Valid(_)));
        all_valid.then(|| self.shared.keys().cloned().collect())
    }

    /// True if there is a metadata file of this id.
    pub(crate) fn contains(&self, id: u32) -> bool {
        self.entries.contains_key(&id)
    }

    /// The ids of all metadata files.
    pub(crate) fn ids(&self) -> Vec<u32> {
        self.entries.keys().copied().collect()
    }

    /// True if there is no metadata file.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The id of the next backup.
    pub(crate) fn next_id(&self) -> Result<u32> {
        let next = self.last_id.checked_add(1);
        next.ok_or_else(|| Error::not_supported("all ids of backups are in use"))
    }

    /// The valid backups, oldest first.
    pub(crate) fn valid(&self) -> impl DoubleEndedIterator<Item = &Arc<Backup>> {
        self.entries
            .values()
            .filter_map(|entry| match &entry.state {
                State::Valid(backup) => Some(backup),
                _ => None,
            })
    }

    /// The corrupt backups, oldest first.
    pub(crate) fn corrupt(&self) -> impl Iterator<Item = (u32, &Error)> {
        self.entries
            .iter()
            .filter_map(|(id, entry)| match &entry.state {
                State::Corrupt(error, _) => Some((*id, error)),
                _ => None,
            })
    }

    /// The backup `id`, or the newest valid one.
    ///
    /// # Errors
    ///
    /// `NotFound`; the reason why it is corrupt.
    pub(crate) fn get(&self, id: Option<u32>) -> Result<Arc<Backup>> {
        let Some(id) = id else {
            let newest = self.valid().next_back().cloned();
            return newest.ok_or_else(|| Error::not_found("Backup not found"));
        };
        match self.entries.get(&id).map(|entry| &entry.state) {
            Some(State::Valid(backup)) => Ok(backup.clone()),
            Some(State::Corrupt(error, _)) => Err(error.clone()),
            Some(State::Unopened) | None => Err(Error::not_found("Backup not found")),
        }
    }

    /// The file at `path`, if a valid backup lists it.
    pub(crate) fn shared(&self, path: &BackupPath) -> Option<Arc<StoredFile>> {
        self.shared.get(path).map(|(file, _)| file.clone())
    }

    /// All shared files of valid backups.
    pub(crate) fn all_shared(&self) -> impl Iterator<Item = &Arc<StoredFile>> {
        self.shared.values().map(|(file, _)| file)
    }
}

fn stamp(status: Status) -> (u64, u64) {
    (status.len, status.modified_micros)
}

/// Reads the metadata file of backup `id`, and compares it with the files that exist.
fn load(fs: &dyn FileSystem, dir: &Path, id: u32, sizes: &mut Sizes) -> Result<State> {
    let path = dir.join(backup::META_DIR).join(id.to_string());
    let content = match read_all(fs, &path) {
        Err(error) if error.code() == Code::Corruption => {
            return Ok(State::Corrupt(error, None));
        }
        content => content?,
    };
    let meta = match BackupMeta::decode(&content, id) {
        Ok(meta) => meta,
        Err(malformed) => {
            return Ok(State::Corrupt(malformed.in_file(path.display(), 0), None));
        }
    };
    let listed = || meta.files.iter().map(|file| file.path.clone()).collect();
    match stored_files(fs, dir, &meta.files, sizes) {
        Ok(files) => Ok(State::Valid(Arc::new(Backup::new(id, &meta, files)))),
        Err(error) if error.code() == Code::Corruption => {
            let error = error.context(format_args!("backup {id}"));
            Ok(State::Corrupt(error, Some(listed())))
        }
        Err(error) => Err(error),
    }
}

/// Returns the files of a backup with their lengths.
fn stored_files(
    fs: &dyn FileSystem,
    dir: &Path,
    files: &[BackupFile],
    sizes: &mut Sizes,
) -> Result<Vec<Arc<StoredFile>>> {
    let mut stored = Vec::new();
    for file in files {
        let path = dir.join(file.path.to_string());
        let Some(size) = sizes.of(fs, dir, &file.path)? else {
            return Err(Error::corruption(format!("{} is missing", path.display())));
        };
        if let Some(expected) = file.size.filter(|expected| *expected != size) {
            return Err(wrong_size(&path, expected, size));
        }
        stored.push(Arc::new(StoredFile {
            path: file.path.clone(),
            size,
            crc32c: file.crc32c,
            temperature: file.temperature,
        }));
    }
    Ok(stored)
}

/// The error of a file with another length.
pub(crate) fn wrong_size(path: &Path, expected: u64, found: u64) -> Error {
    Error::corruption(format!(
        "length of {}: expected {expected}, found {found}",
        path.display()
    ))
}

impl Backup {
    /// Returns backup `id` with `meta`, whose files are `files`.
    pub(crate) fn new(id: u32, meta: &BackupMeta, files: Vec<Arc<StoredFile>>) -> Backup {
        Backup {
            info: BackupInfo {
                backup_id: id,
                timestamp: meta.timestamp,
                size: files
                    .iter()
                    .map(|file| file.size)
                    .fold(0, u64::saturating_add),
                number_files: u32::try_from(files.len()).unwrap_or(u32::MAX),
                app_metadata: meta.app_metadata.clone(),
                sequence_number: meta.sequence,
                excluded_files: meta.excluded.iter().map(BackupPath::to_string).collect(),
            },
            files,
            excluded: meta.excluded.clone(),
        }
    }
}

/// The lengths of the files in the directories that backups refer to, each listed when it is first needed.
#[derive(Default)]
pub(crate) struct Sizes(HashMap<BackupDir, HashMap<String, u64>>);

impl Sizes {
    /// The length of the file at `path` in `dir`; `None` if it does not exist.
    pub(crate) fn of(
        &mut self,
        fs: &dyn FileSystem,
        dir: &Path,
        path: &BackupPath,
    ) -> Result<Option<u64>> {
        let sizes = match self.0.entry(path.dir()) {
            Entries::Occupied(known) => known.into_mut(),
            Entries::Vacant(new) => new.insert(sizes_in(fs, &dir.join(path.dir().to_string()))?),
        };
        Ok(sizes.get(path.name()).copied())
    }
}

fn sizes_in(fs: &dyn FileSystem, dir: &Path) -> Result<HashMap<String, u64>> {
    let names = match list_if_there(fs, dir) {
        // A backup whose files would be in it is damaged; the others are not.
        Err(_) if is_not_directory(fs, dir) => Vec::new(),
        names => names?,
    };
    let statuses = fs.status_each(dir, &names);
    let mut sizes = HashMap::with_capacity(names.len());
    for (name, status) in names.into_iter().zip(statuses) {
        match status {
            Err(error) if error.subcode() == Subcode::PathNotFound => {}
            status => {
                sizes.insert(name, status?.len);
            }
        }
    }
    Ok(sizes)
}

fn is_not_directory(fs: &dyn FileSystem, path: &Path) -> bool {
    let status = fs.status(path);
    status.is_ok_and(|status| status.kind != PathKind::Directory)
}

/// Returns the content of a file, whose length is not trusted.
fn read_all(fs: &dyn FileSystem, path: &Path) -> Result<Vec<u8>> {
    let file = fs.open(path, FileMode::default())?;
    let mut content = Vec::new();
    loop {
        let at = content.len();
        content.resize(at + PIECE, 0);
        let got = file.read_up_to_end(at as u64, &mut content[at..])?;
        content.truncate(at + got);
        if content.len() > MAX_META {
            return Err(Error::corruption(format!(
                "length of {}: expected at most {MAX_META}, found more",
                path.display()
            )));
        }
        if got < PIECE {
            return Ok(content);
        }
    }
}
