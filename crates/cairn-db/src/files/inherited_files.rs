//! Files that stay open in programs that the process executes (`is_fd_close_on_exec=false`).
//!
//! As in RocksDB, the LOG and the lock are closed nevertheless.

use std::path::Path;
use std::sync::Arc;

use cairn_format::names::FileName;
use cairn_options::DbOptions;
use cairn_platform::fs::{FileMode, RandomAccessFile, Status};
use cairn_platform::{FileSystem, World, WritableFile, wrapper};
use cairn_types::Result;

/// Returns `world` for a database with `options`.
pub(crate) fn world_of(options: &DbOptions, mut world: World) -> World {
    if !options.is_fd_close_on_exec {
        world.fs = Arc::new(InheritedFs(world.fs));
    }
    world
}

struct InheritedFs(Arc<dyn FileSystem>);

impl InheritedFs {
    fn writes(
        path: &Path,
        mode: FileMode,
        open: impl FnOnce(FileMode) -> Result<Arc<dyn WritableFile>>,
    ) -> Result<Arc<dyn WritableFile>> {
        let name = path.file_name().and_then(|name| name.to_str());
        if name.and_then(FileName::parse) == Some(FileName::InfoLog) {
            return open(mode);
        }
        Ok(Arc::new(InheritedFile(open(inherited(mode))?)))
    }
}

fn inherited(mode: FileMode) -> FileMode {
    FileMode {
        inherited: true,
        ..mode
    }
}

impl wrapper::FileSystemWrapper for InheritedFs {
    fn target(&self) -> &dyn FileSystem {
        &*self.0
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        self.0.open(path, inherited(mode))
    }

    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        Self::writes(path, mode, |mode| self.0.create(path, mode))
    }

    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        Self::writes(path, mode, |mode| self.0.open_append(path, mode))
    }

    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        Self::writes(path, mode, |mode| self.0.open_overwrite(path, mode))
    }

    fn status(&self, path: &Path) -> Result<Status> {
        self.0.status(path)
    }

    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        self.0.status_each(dir, names)
    }

    fn verifies_appends(&self) -> bool {
        self.0.verifies_appends()
    }
}

/// A file whose successor is inherited as well.
struct InheritedFile(Arc<dyn WritableFile>);

impl wrapper::WritableFileWrapper for InheritedFile {
    fn target(&self) -> &dyn WritableFile {
        &*self.0
    }

    fn append_with_crc32c(&self, data: &[u8], crc32c: u32) -> Result<()> {
        self.0.append_with_crc32c(data, crc32c)
    }

    fn successor(&self, path: &Path, mode: FileMode) -> Result<Option<Arc<dyn WritableFile>>> {
        let next = self.0.successor(path, inherited(mode))?;
        Ok(next.map(|file| Arc::new(InheritedFile(file)) as Arc<dyn WritableFile>))
    }
}
