//! Checksums of appended data for file systems that verify them (`checksum_handoff_file_types`).
//!
//! Each piece of a file of these types is passed to the file system of the program together with its CRC-32C, so that
//! damage between the two is an error of the append. The checksum is computed right before the append, below everything
//! else that the engine does to a file. Logs are then not mapped.

use std::path::Path;
use std::sync::Arc;

use cairn_format::checksum::crc32c;
use cairn_format::names::FileName;
use cairn_options::{DbOptions, HandoffFileType, HandoffFileTypes};
use cairn_platform::fs::{FileMode, RandomAccessFile, Status};
use cairn_platform::{FileSystem, World, WritableFile, wrapper};
use cairn_types::{Result, Veil};

/// Returns `world` for a database with `options`: it passes checksums to its file system, if that verifies them.
pub(crate) fn world_of(options: &DbOptions, mut world: World) -> World {
    let types = options.checksum_handoff_file_types;
    if !types.is_empty() && world.fs.verifies_appends() {
        world.fs = Arc::new(HandoffFs {
            fs: world.fs.clone(),
            types,
        });
    }
    world
}

struct HandoffFs {
    fs: Arc<dyn FileSystem>,
    types: HandoffFileTypes,
}

impl HandoffFs {
    fn writes(
        &self,
        path: &Path,
        mode: FileMode,
        open: impl FnOnce(FileMode) -> Result<Arc<dyn WritableFile>>,
    ) -> Result<Arc<dyn WritableFile>> {
        let name = path.file_name().and_then(|name| name.to_str());
        let kind = match name.and_then(FileName::parse) {
            Some(FileName::Wal(_)) => HandoffFileType::Wal,
            Some(FileName::Table(_)) => HandoffFileType::Table,
            Some(FileName::Manifest(_)) => HandoffFileType::Manifest,
            Some(FileName::Blob(_)) => HandoffFileType::Blob,
            _ => return open(mode),
        };
        if !self.types.contains(kind) {
            return open(mode);
        }
        let file = open(FileMode {
            mapped: false,
            ..mode
        })?;
        Ok(Arc::new(HandoffFile(file)))
    }
}

impl wrapper::FileSystemWrapper for HandoffFs {
    fn target(&self) -> &dyn FileSystem {
        &*self.fs
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        self.fs.open(path, mode)
    }

    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.writes(path, mode, |mode| self.fs.create(path, mode))
    }

    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.writes(path, mode, |mode| self.fs.open_append(path, mode))
    }

    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.writes(path, mode, |mode| self.fs.open_overwrite(path, mode))
    }

    fn status(&self, path: &Path) -> Result<Status> {
        self.fs.status(path)
    }

    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        self.fs.status_each(dir, names)
    }
}

struct HandoffFile(Arc<dyn WritableFile>);

impl wrapper::WritableFileWrapper for HandoffFile {
    fn target(&self) -> &dyn WritableFile {
        &*self.0
    }

    fn append_veiled(&self, data: &[u8], _veils: &[Veil]) -> Result<()> {
        self.0.append_with_crc32c(data, crc32c(data))
    }

    fn successor(&self, _path: &Path, _mode: FileMode) -> Result<Option<Arc<dyn WritableFile>>> {
        Ok(None)
    }
}
