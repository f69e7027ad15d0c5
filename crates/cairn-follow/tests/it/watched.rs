//! A file system that reports operations before they take place: those that change something, or reads of the files
//! that a catch-up reads anew each time.

use std::path::Path;
use std::sync::Arc;

use cairn_platform::fs::{FileMode, Status, WritableFile};
use cairn_platform::read_queue::{FileReads, ReadQueue};
use cairn_platform::{FileSystem, RandomAccessFile, wrapper};
use cairn_types::{Result, Veil};

/// Called before each operation. An error fails it.
pub(crate) type Hook = Arc<dyn Fn() -> Result<()> + Send + Sync>;

pub(crate) struct Watched {
    pub(crate) inner: Arc<dyn FileSystem>,
    pub(crate) hook: Hook,
    /// True to report reads, false to report changes.
    pub(crate) reads: bool,
}

impl Watched {
    fn change(&self) -> Result<()> {
        match self.reads {
            true => Ok(()),
            false => (self.hook)(),
        }
    }

    fn read(&self) -> Result<()> {
        match self.reads {
            true => (self.hook)(),
            false => Ok(()),
        }
    }
}

/// A file of which each read is reported.
struct WatchedRead {
    inner: Arc<dyn RandomAccessFile>,
    hook: Hook,
}

/// A file of which each change is reported.
struct WatchedFile {
    inner: Arc<dyn WritableFile>,
    hook: Hook,
}

impl Watched {
    fn file(&self, file: Result<Arc<dyn WritableFile>>) -> Result<Arc<dyn WritableFile>> {
        Ok(Arc::new(WatchedFile {
            inner: file?,
            hook: self.hook.clone(),
        }))
    }
}

impl wrapper::FileSystemWrapper for Watched {
    fn target(&self) -> &dyn FileSystem {
        &*self.inner
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        self.read()?;
        let inner = self.inner.open(path, mode)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_table = name.ends_with(".sst") || name.ends_with(".blob");
        if !self.reads || is_table {
            return Ok(inner);
        }
        let hook = self.hook.clone();
        Ok(Arc::new(WatchedRead { inner, hook }))
    }

    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.change()?;
        self.file(self.inner.create(path, mode))
    }

    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.change()?;
        self.file(self.inner.open_append(path, mode))
    }

    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.change()?;
        self.file(self.inner.open_overwrite(path, mode))
    }

    fn status(&self, path: &Path) -> Result<Status> {
        self.read()?;
        self.inner.status(path)
    }

    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        self.inner.status_each(dir, names)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.read()?;
        self.inner.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.change()?;
        self.inner.create_dir_all(dir)
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.change()?;
        self.inner.remove_dir(dir)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.change()?;
        self.inner.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.change()?;
        self.inner.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.change()?;
        self.inner.link(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.change()?;
        self.inner.sync_dir(dir)
    }
}

impl wrapper::RandomAccessFileWrapper for WatchedRead {
    fn target(&self) -> &dyn RandomAccessFile {
        &*self.inner
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        (self.hook)()?;
        self.inner.read_at(offset, buf)
    }

    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        (self.hook)()?;
        self.inner.read_up_to_end(offset, buf)
    }

    fn start_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        self.inner.start_reads(reads, queue);
    }

    fn finish_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        self.inner.finish_reads(reads, queue);
    }
}

impl wrapper::WritableFileWrapper for WatchedFile {
    fn target(&self) -> &dyn WritableFile {
        &*self.inner
    }

    fn append_veiled(&self, data: &[u8], veils: &[Veil]) -> Result<()> {
        (self.hook)()?;
        self.inner.append_veiled(data, veils)
    }

    fn sync(&self, full: bool) -> Result<()> {
        (self.hook)()?;
        self.inner.sync(full)
    }

    fn truncate(&self, len: u64) -> Result<()> {
        (self.hook)()?;
        self.inner.truncate(len)
    }

    fn successor(&self, path: &Path, mode: FileMode) -> Result<Option<Arc<dyn WritableFile>>> {
        (self.hook)()?;
        let next = self.inner.successor(path, mode)?;
        let watched = |inner| -> Arc<dyn WritableFile> {
            let hook = self.hook.clone();
            Arc::new(WatchedFile { inner, hook })
        };
        Ok(next.map(watched))
    }

    fn close(&self) -> Result<()> {
        (self.hook)()?;
        self.inner.close()
    }
}
