//! The file system of a follower: tables and blob files are those in its own directory.
//!
//! A file that is missing there is linked when it is first opened, or copied if it cannot be linked. A copy is complete
//! and synced before it gets its name; until then it has the name of a temporary file, which a follower that is killed
//! leaves behind. Everything else is passed on.
//!
//! Tables and blob files never change, but after a backup of the leader was restored, it may write another file of the
//! same number. A copy is therefore made again if the file of the leader has another length or was modified later. A file
//! of the same length with an earlier time of modification, such as from a restore that keeps these times, is not noticed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cairn_db::Db;
use cairn_format::names::FileName;
use cairn_platform::fs::{FileMode, Status, WritableFile, remove_if_there, status_of_each};
use cairn_platform::sync::{Arc, Condvar, Mutex};
use cairn_platform::{FileSystem, RandomAccessFile, wrapper};
use cairn_types::{Error, FileNumber, Result, Subcode};

/// The size of a read of a file that is copied.
const PIECE: usize = 1 << 20;

/// The file system of a follower in `own`.
pub(crate) struct Copies {
    inner: Arc<dyn FileSystem>,
    leader: PathBuf,
    own: PathBuf,
    /// The copies that threads are creating.
    in_progress: Mutex<BTreeSet<PathBuf>>,
    /// Signalled when the creation of a copy ends.
    ended: Condvar,
}

/// The right to create one copy, until it is dropped.
struct Creation<'a> {
    copies: &'a Copies,
    copy: &'a Path,
}

impl Drop for Creation<'_> {
    fn drop(&mut self) {
        self.copies.in_progress.lock().remove(self.copy);
        self.copies.ended.notify_all();
    }
}

/// True if the file `name` is copied.
fn number(name: &str) -> Option<FileNumber> {
    match FileName::parse(name)? {
        FileName::Table(number) | FileName::Blob(number) => Some(number),
        _ => None,
    }
}

impl Copies {
    pub(crate) fn new(inner: Arc<dyn FileSystem>, leader: PathBuf, own: PathBuf) -> Copies {
        Copies {
            inner,
            leader,
            own,
            in_progress: Mutex::default(),
            ended: Condvar::default(),
        }
    }

    /// Begins the creation of `copy`, once no other thread is creating it.
    fn begin<'a>(&'a self, copy: &'a Path) -> Creation<'a> {
        let mut in_progress = self.in_progress.lock();
        while in_progress.contains(copy) {
            self.ended.wait(&mut in_progress);
        }
        in_progress.insert(copy.to_owned());
        Creation { copies: self, copy }
    }

    /// Opens `copy` of the file at `path`; `None` if it does not exist, or is the copy of an earlier file.
    fn open_copy(
        &self,
        path: &Path,
        copy: &Path,
        mode: FileMode,
    ) -> Result<Option<Arc<dyn RandomAccessFile>>> {
        if let Ok(status) = self.inner.status(copy)
            && self.is_outdated(path, &status)
        {
            return Ok(None);
        }
        match self.inner.open(copy, mode) {
            Err(error) if error.subcode() == Subcode::PathNotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// True if another file has taken the place of the one at `path` since a copy with the status `copy` was made of it. A
    /// link has the time of its file, and any other copy a later one. A file that the leader has deleted, or that cannot
    /// be examined, outdates nothing.
    fn is_outdated(&self, path: &Path, copy: &Status) -> bool {
        let file = self.inner.status(path);
        file.is_ok_and(|file| file.len != copy.len || file.modified_micros > copy.modified_micros)
    }

    /// Returns the path in the own directory of a file that is copied.
    fn copy_of(&self, path: &Path) -> Option<PathBuf> {
        let name = path.file_name()?.to_str()?;
        let is_leaders = path.parent() != Some(&self.own);
        (is_leaders && number(name).is_some()).then(|| self.own.join(name))
    }

    /// Creates `copy` of the file at `path`, in the place of an outdated one. One thread at a time does so for a file, see
    /// [`Copies::begin`].
    fn create_copy(&self, path: &Path, copy: &Path) -> Result<()> {
        // Open handles of the old copy stay valid.
        remove_if_there(&*self.inner, copy)?;
        match self.inner.link(path, copy) {
            Ok(()) => return self.inner.sync_dir(&self.own),
            Err(error) if error.subcode() == Subcode::PathNotFound => return Err(error),
            // Another file system, or one without links.
            Err(_) => {}
        }
        let temporary = copy.with_extension("dbtmp");
        remove_if_there(&*self.inner, &temporary)?;
        let written = self.write_copy(path, &temporary);
        let named = written.and_then(|()| self.inner.rename(&temporary, copy));
        if let Err(error) = named {
            // The error of the copy is reported; the next copy and the next open remove what remains.
            let _ = self.inner.remove(&temporary);
            return Err(error);
        }
        self.inner.sync_dir(&self.own)
    }

    /// Writes the content of the file at `path` to the new file `target`, and syncs it.
    fn write_copy(&self, path: &Path, target: &Path) -> Result<()> {
        let source = self.inner.open(path, FileMode::default())?;
        let len = source.len()?;
        let target = self.inner.create(target, FileMode::default())?;
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while at < len {
            let left = usize::try_from(len - at).unwrap_or(PIECE).min(PIECE);
            let got = source.read_at(at, &mut piece[..left])?;
            if got == 0 {
                return Err(Error::corruption(format!(
                    "length of {}: expected {len}, found {at}",
                    path.display()
                )));
            }
            target.append(&piece[..got])?;
            at += got as u64;
        }
        target.sync(false)?;
        target.close()
    }

    /// Deletes the temporary files that an earlier follower left.
    pub(crate) fn delete_temporaries(&self) -> Result<()> {
        for name in self.inner.list(&self.own)? {
            if matches!(FileName::parse(&name), Some(FileName::Temp(_))) {
                self.inner.remove(&self.own.join(name))?;
            }
        }
        Ok(())
    }

    /// Deletes the copies, left by an earlier follower, of files that `db` does not have.
    pub(crate) fn delete_others(&self, db: &Db) -> Result<()> {
        let live: BTreeSet<FileNumber> = db.live_file_numbers();
        for name in self.inner.list(&self.own)? {
            if number(&name).is_some_and(|number| !live.contains(&number)) {
                self.inner.remove(&self.own.join(name))?;
            }
        }
        Ok(())
    }
}

impl wrapper::FileSystemWrapper for Copies {
    fn target(&self) -> &dyn FileSystem {
        &*self.inner
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        let Some(copy) = self.copy_of(path) else {
            return self.inner.open(path, mode);
        };
        if let Some(opened) = self.open_copy(path, &copy, mode)? {
            return Ok(opened);
        }
        let _creation = self.begin(&copy);
        // Another thread may have created it meanwhile.
        if let Some(opened) = self.open_copy(path, &copy, mode)? {
            return Ok(opened);
        }
        self.create_copy(path, &copy)?;
        self.inner.open(&copy, mode)
    }

    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.inner.create(path, mode)
    }

    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.inner.open_append(path, mode)
    }

    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.inner.open_overwrite(path, mode)
    }

    fn status(&self, path: &Path) -> Result<Status> {
        let Some(copy) = self.copy_of(path) else {
            return self.inner.status(path);
        };
        match self.inner.status(&copy) {
            Ok(status) if !self.is_outdated(path, &status) => Ok(status),
            Err(error) if error.subcode() != Subcode::PathNotFound => Err(error),
            _ => self.inner.status(path),
        }
    }

    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        status_of_each(self, dir, names)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        debug_assert!(
            path.parent() != Some(&self.leader) || self.copy_of(path).is_some(),
            "a follower removes no file of its leader"
        );
        self.inner
            .remove(&self.copy_of(path).unwrap_or_else(|| path.to_owned()))
    }
}
