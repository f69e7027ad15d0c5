//! A file system that calls a function before each sync of a file and each removal, which may block or panic.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_platform::fs::{FileLock, FileMode, Status, WritableFile};
use cairn_platform::{FileSystem, RandomAccessFile, World};
use cairn_types::{Result, Veil};

/// An operation that the function is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Sync,
    Remove,
}

type Hook = Arc<dyn Fn(Operation, &Path) + Send + Sync>;

/// Returns a world in memory whose files call `hook`.
pub fn world_with(hook: impl Fn(Operation, &Path) + Send + Sync + 'static) -> World {
    let world = World::in_memory();
    let fs = HookedFiles {
        inner: world.fs.clone(),
        hook: Arc::new(hook),
    };
    World {
        fs: Arc::new(fs),
        ..world
    }
}

struct HookedFiles {
    inner: Arc<dyn FileSystem>,
    hook: Hook,
}

struct HookedFile {
    inner: Arc<dyn WritableFile>,
    hook: Hook,
}

impl HookedFiles {
    fn hooked(&self, file: Result<Arc<dyn WritableFile>>) -> Result<Arc<dyn WritableFile>> {
        Ok(Arc::new(HookedFile {
            inner: file?,
            hook: self.hook.clone(),
        }))
    }
}

impl FileSystem for HookedFiles {
    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        self.inner.open(path, mode)
    }

    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.hooked(self.inner.create(path, mode))
    }

    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.hooked(self.inner.open_append(path, mode))
    }

    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.hooked(self.inner.open_overwrite(path, mode))
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
        self.inner.create_dir_all(dir)
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.inner.remove_dir(dir)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        (self.hook)(Operation::Remove, path);
        self.inner.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.link(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
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

impl WritableFile for HookedFile {
    cairn_platform::not_mapped!();

    fn append_veiled(&self, data: &[u8], veils: &[Veil]) -> Result<()> {
        self.inner.append_veiled(data, veils)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn sync(&self, full: bool) -> Result<()> {
        (self.hook)(Operation::Sync, self.inner.path());
        self.inner.sync(full)
    }

    fn start_writeback(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.start_writeback(offset, len)
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.inner.allocate(len)
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.inner.truncate(len)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn close(&self) -> Result<()> {
        self.inner.close()
    }
}
