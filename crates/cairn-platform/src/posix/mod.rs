//! The POSIX file system.
//!
//! Only regular files are opened. Devices, pipes, sockets and dangling links are rejected before they are
//! opened, because opening them can block or have side effects. New files are created exclusively, with mode
//! 0644 or 0600 subject to the umask. Interrupted calls are retried, and short transfers continued.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the implementation behind the file system trait"
)]

mod aligned_buffer;
#[cfg(not(miri))]
mod anonymous;
mod background_worker;
mod clock;
mod eintr;
#[cfg(test)]
pub(crate) mod fork;
pub mod huge;
mod lease;
mod lock;
mod mapped_append;
mod mapped_read;
pub(crate) mod memory_kind;
pub mod memory_limit;
pub mod pages;
pub(crate) mod priority;
pub(crate) mod process;
mod process_memory;
mod random;
mod read;
pub mod region;
pub(crate) mod ring;
mod stat_batch;
mod window;
mod write;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::{conformance, conformance_of_emptied};

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_types::{Error, Result};
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, lstat, openat, stat, statvfs};
use rustix::io::Errno;

pub use self::clock::SystemClock;
use self::eintr::{retry_io, retry_on_eintr};
pub use self::process::Process;
pub use self::random::SystemRandom;
pub(crate) use self::random::fill_from_kernel;
pub use process_memory::{ProcessMemory, process_memory, trim_heap};

use self::mapped_append::MappedWriter;
use self::read::PosixReader;
use self::write::PosixWriter;
use crate::fs::{FileLock, FileMode, FileSystem, PathKind, RandomAccessFile, Status, WritableFile};

/// The file system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct PosixFileSystem;

impl PosixFileSystem {
    /// Opens the existing regular file at `path` with the access of `flags`.
    fn open_existing(&self, path: &Path, mode: FileMode, flags: OFlags) -> Result<(File, Stat)> {
        let look = if mode.no_follow { lstat } else { stat };
        let before = retry_on_eintr(|| look(path)).map_err(|errno| failed("open", path, errno))?;
        refuse_special(&before, path)?;
        lock::refuse_held(&before, path)?;
        // If a pipe replaces the file at this point, it is opened without waiting for its peer, recognised
        // below, and closed.
        let flags = flags | common_flags(mode) | OFlags::NONBLOCK | OFlags::NOCTTY;
        let descriptor =
            lease::waited(|| retry_on_eintr(|| openat(CWD, path, flags, Mode::empty())))
                .map_err(|errno| open_failed(path, mode, errno))?;
        let found = retry_on_eintr(|| fstat(&descriptor))
            .map_err(|errno| failed("look at", path, errno))?;
        refuse_special(&found, path)?;
        Ok((File::from(descriptor), found))
    }
}

impl FileSystem for PosixFileSystem {
    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        let (file, found) = self.open_existing(path, mode, OFlags::RDONLY)?;
        let len = u64::try_from(found.st_size).unwrap_or(0);
        Ok(Arc::new(PosixReader::new(file, path, len, mode)?))
    }

    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | common_flags(mode);
        let descriptor =
            retry_on_eintr(|| openat(CWD, path, flags, permissions(mode))).map_err(|errno| {
                match errno {
                    Errno::INVAL if mode.direct => open_failed(path, mode, errno),
                    errno => failed("create", path, errno),
                }
            })?;
        let file = File::from(descriptor);
        if mode.mapped && !mode.direct {
            return MappedWriter::create(file, path.to_owned(), mode, 0);
        }
        let writer = PosixWriter::new(file, path.to_owned(), 0, mode.direct)?;
        Ok(Arc::new(writer))
    }

    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        let (file, found) = self.open_existing(path, mode, OFlags::RDWR)?;
        let len = u64::try_from(found.st_size).unwrap_or(0);
        let writer = PosixWriter::new(file, path.to_owned(), len, mode.direct)?;
        Ok(Arc::new(writer))
    }

    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        let (file, _) = self.open_existing(path, mode, OFlags::RDWR)?;
        let writer = PosixWriter::new(file, path.to_owned(), 0, mode.direct)?;
        Ok(Arc::new(writer))
    }

    fn status(&self, path: &Path) -> Result<Status> {
        let found =
            retry_on_eintr(|| stat(path)).map_err(|errno| failed("look at", path, errno))?;
        Ok(status_of(&found))
    }

    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        stat_batch::status_each(dir, names)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let list = || {
            let mut names = Vec::new();
            for entry in std::fs::read_dir(dir)? {
                // All file names of a database are valid UTF-8. Other files are ignored.
                if let Ok(name) = entry?.file_name().into_string() {
                    names.push(name);
                }
            }
            Ok(names)
        };
        // From the start: the position after an interruption is unknown.
        retry_io(list).map_err(|error| Error::io("list", dir, error))
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        retry_io(|| std::fs::create_dir_all(dir))
            .map_err(|error| Error::io("create directory", dir, error))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        retry_io(|| std::fs::remove_dir(dir))
            .map_err(|error| Error::io("remove directory", dir, error))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        retry_io(|| std::fs::remove_file(path)).map_err(|error| Error::io("remove", path, error))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        retry_io(|| std::fs::rename(from, to))
            .map_err(|error| Error::io(&format!("rename {} to", from.display()), to, error))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        retry_io(|| std::fs::hard_link(from, to))
            .map_err(|error| Error::io(&format!("link {} to", from.display()), to, error))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = retry_on_eintr(|| openat(CWD, dir, flags, Mode::empty()))
            .map_err(|errno| failed("open directory", dir, errno))?;
        retry_on_eintr(|| rustix::fs::fsync(&descriptor))
            .map_err(|errno| failed("sync directory", dir, errno))
    }

    fn canonical(&self, path: &Path) -> Result<PathBuf> {
        retry_io(|| std::fs::canonicalize(path)).map_err(|error| Error::io("resolve", path, error))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        lock::lock(path)
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        let found = retry_on_eintr(|| statvfs(path))
            .map_err(|errno| failed("ask for free space at", path, errno))?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

/// The permissions of a new file.
fn permissions(mode: FileMode) -> Mode {
    Mode::from_raw_mode(if mode.owner_only { 0o600 } else { 0o644 })
}

fn status_of(found: &Stat) -> Status {
    let kind = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => PathKind::File,
        FileType::Directory => PathKind::Directory,
        _ => PathKind::Other,
    };
    let len = match kind {
        PathKind::File => u64::try_from(found.st_size).unwrap_or(0),
        _ => 0,
    };
    let seconds = u64::try_from(found.st_mtime).unwrap_or(0);
    // The type of this field depends on the backend of rustix.
    let nanos: i128 = found.st_mtime_nsec.into();
    let nanos = u64::try_from(nanos).unwrap_or(0);
    Status {
        len,
        kind,
        // Some file systems have times of any 64-bit number of seconds.
        modified_micros: seconds
            .saturating_mul(1_000_000)
            .saturating_add(nanos / 1_000),
    }
}

fn common_flags(mode: FileMode) -> OFlags {
    let mut flags = OFlags::empty();
    flags.set(OFlags::CLOEXEC, !mode.inherited);
    flags.set(OFlags::NOFOLLOW, mode.no_follow);
    flags.set(OFlags::DIRECT, mode.direct);
    flags
}

fn refuse_special(found: &Stat, path: &Path) -> Result<()> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(()),
        kind => Err(Error::io_text(format!(
            "open {}: expected a regular file, found {}",
            path.display(),
            match kind {
                FileType::Directory => "a directory",
                FileType::Symlink => "a symbolic link",
                _ => "a special file",
            }
        ))),
    }
}

fn open_failed(path: &Path, mode: FileMode, errno: Errno) -> Error {
    match errno {
        Errno::INVAL if mode.direct => Error::not_supported(format!(
            "direct I/O at {}: the file system refuses it",
            path.display()
        )),
        errno => failed("open", path, errno),
    }
}

fn failed(doing: &str, path: &Path, errno: Errno) -> Error {
    Error::io(doing, path, errno.into())
}
