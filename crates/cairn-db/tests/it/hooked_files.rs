//! A file system that calls a function before each opening, sync and removal of a file and each listing of a directory, which may block or panic.

use std::path::Path;
use std::sync::Arc;

use cairn_platform::fs::{FileMode, Status, WritableFile};
use cairn_platform::{FileSystem, RandomAccessFile, World, wrapper};
use cairn_types::Result;

/// An operation that the function is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// For reading.
    Open,
    Sync,
    Remove,
    /// Of a directory.
    List,
}

type Hook = Arc<dyn Fn(Operation, &Path) + Send + Sync>;

/// Returns a world in memory whose files call `hook`.
pub fn world_with(hook: impl Fn(Operation, &Path) + Send + Sync + 'static) -> World {
    hooked(World::in_memory(), hook)
}

/// Returns `world` with files that call `hook`.
pub fn hooked(world: World, hook: impl Fn(Operation, &Path) + Send + Sync + 'static) -> World {
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

impl wrapper::FileSystemWrapper for HookedFiles {
    fn target(&self) -> &dyn FileSystem {
        &*self.inner
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        (self.hook)(Operation::Open, path);
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
        (self.hook)(Operation::List, dir);
        self.inner.list(dir)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        (self.hook)(Operation::Remove, path);
        self.inner.remove(path)
    }
}

impl wrapper::WritableFileWrapper for HookedFile {
    fn target(&self) -> &dyn WritableFile {
        &*self.inner
    }

    fn sync(&self, full: bool) -> Result<()> {
        (self.hook)(Operation::Sync, self.inner.path());
        self.inner.sync(full)
    }

    fn successor(&self, _: &Path, _: FileMode) -> Result<Option<Arc<dyn WritableFile>>> {
        Ok(None)
    }
}
