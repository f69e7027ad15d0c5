//! A file system that reports each operation that changes something before it takes place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_platform::fs::{FileLock, FileMode, Status, WritableFile};
use cairn_platform::{FileSystem, RandomAccessFile};
use cairn_types::{Result, Veil};

/// Called before each operation. An error fails it.
pub(crate) type Hook = Arc<dyn Fn() -> Result<()> + Send + Sync>;

pub(crate) struct Watched {
    pub(crate) inner: Arc<dyn FileSystem>,
    pub(crate) hook: Hook,
}

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

impl FileSystem for Watched {
    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        self.inner.open(path, mode)
    }

    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        (self.hook)()?;
        self.file(self.inner.create(path, mode))
    }

    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        (self.hook)()?;
        self.file(self.inner.open_append(path, mode))
    }

    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        (self.hook)()?;
        self.file(self.inner.open_overwrite(path, mode))
    }

    fn status(&self, path: &Path) -> Result<Status> {
        self.inner.status(path)
    }

    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        self.inner.status_each(dir, names)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        (self.hook)()?;
        self.inner.create_dir_all(dir)
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        (self.hook)()?;
        self.inner.remove_dir(dir)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        (self.hook)()?;
        self.inner.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        (self.hook)()?;
        self.inner.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        (self.hook)()?;
        self.inner.link(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        (self.hook)()?;
        self.inner.sync_dir(dir)
    }

    fn canonical(&self, path: &Path) -> Result<PathBuf> {
        self.inner.canonical(path)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.inner.lock(path)
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        self.inner.free_space(path)
    }
}

impl WritableFile for WatchedFile {
    fn append_veiled(&self, data: &[u8], veils: &[Veil]) -> Result<()> {
        (self.hook)()?;
        self.inner.append_veiled(data, veils)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn sync(&self, full: bool) -> Result<()> {
        (self.hook)()?;
        self.inner.sync(full)
    }

    fn start_writeback(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.start_writeback(offset, len)
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.inner.allocate(len)
    }

    fn truncate(&self, len: u64) -> Result<()> {
        (self.hook)()?;
        self.inner.truncate(len)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn is_mapped(&self) -> bool {
        self.inner.is_mapped()
    }

    fn mapped_bytes(&self) -> usize {
        self.inner.mapped_bytes()
    }

    fn slow_append(&self) -> Option<(u64, u64)> {
        self.inner.slow_append()
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
