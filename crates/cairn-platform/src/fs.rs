//! The file system interface and its guarantees.
//!
//! Durability has three levels. `append` passes bytes to the kernel, so that they survive a crash of the
//! process. `sync` makes the content and length of a file survive a power failure, but **not** its name.
//! `sync_dir` makes the names in a directory survive. A failed `sync` must not be retried on the same file:
//! the kernel may have dropped the pages that it could not write, so a later success proves nothing.
//!
//! Every error states the path and the operation.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_types::{Error, Result, Subcode, Veil};

use crate::read_queue::{FileReads, ReadQueue, Started};

/// Removes the file at `path`. Returns true if it existed.
///
/// # Errors
///
/// `IoError` for a file that exists.
pub fn remove_if_there(fs: &dyn FileSystem, path: &Path) -> Result<bool> {
    match fs.remove(path) {
        Err(error) if error.subcode() == Subcode::PathNotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Returns the names in the directory `dir`; none if it does not exist.
///
/// # Errors
///
/// `IoError` for a directory that exists.
pub fn list_if_there(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<String>> {
    match fs.list(dir) {
        Err(error) if error.subcode() == Subcode::PathNotFound => Ok(Vec::new()),
        names => names,
    }
}

/// Returns the directory that contains the name of `path`.
#[must_use]
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        None if path.has_root() => path,
        _ => Path::new("."),
    }
}

/// Makes the name of `path`, a file or directory that a database creates, survive a power failure. Returns false if this
/// process may not read the directory that contains the name; the caller reports [`unsynced_name`] if it has a log.
///
/// A directory that may be searched and not read, such as a `/home` of mode 0711, cannot be opened, so that it cannot be
/// synced either. RocksDB opens databases below such directories without syncing the name.
///
/// # Errors
///
/// Those of [`FileSystem::sync_dir`] except `PermissionDenied`.
pub fn sync_name(fs: &dyn FileSystem, path: &Path) -> Result<bool> {
    let is_denied = |done: &Result<()>| {
        let error = done.as_ref().err();
        error.and_then(Error::io_kind) == Some(ErrorKind::PermissionDenied)
    };
    let mut done = fs.sync_dir(parent(path));
    if is_denied(&done) {
        // A directory without permission refuses every attempt. A file system that refused the first one for another
        // reason must not leave a database whose name can be lost.
        done = fs.sync_dir(parent(path));
    }
    match is_denied(&done) {
        true => Ok(false),
        false => done.map(|()| true),
    }
}

/// Returns the warning that [`sync_name`] could not sync the name of `path`.
#[must_use]
pub fn unsynced_name(path: &Path) -> String {
    format!(
        "the name of {} may not survive a power failure: {} cannot be read",
        path.display(),
        parent(path).display()
    )
}

/// Returns `path` and the directories above it, up to the first one that exists, the innermost first. Their names are
/// missing until [`FileSystem::create_dir_all`] creates them.
///
/// # Errors
///
/// `IoError` if a directory above cannot be searched.
pub fn missing_dirs<'a>(fs: &dyn FileSystem, path: &'a Path) -> Result<Vec<&'a Path>> {
    let mut missing = Vec::new();
    let mut at = path;
    while at != Path::new(".") && !fs.exists(at)? {
        missing.push(at);
        at = parent(at);
    }
    Ok(missing)
}

/// The mode in which a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileMode {
    /// True to bypass the page cache (`O_DIRECT`). The file system takes care of alignment.
    pub direct: bool,
    /// True to reject a symbolic link as the last component of the path.
    pub no_follow: bool,
    /// For a new file: true to append by stores into a memory mapping instead of system calls, if the file
    /// system supports it; see [`WritableFile::is_mapped`]. Until it is closed, or after a crash, the file is
    /// longer than what was appended and ends in zeros. If the process ends during an append, all pieces of
    /// it before some offset are complete and none after the next one is visible. Pieces end at multiples of
    /// [`MAPPED_UNIT`] and at veiled pieces. Of the piece in between, any bytes may be present except the
    /// first eight, which are stored last and atomically and are zero until then. The first bytes of a piece
    /// that is followed by a veiled one are stored after all of that, with its veil in place
    /// ([`WritableFile::append_veiled`]). After a power failure any part of the unsynced data may be present.
    ///
    /// While another process or thread has the file open, it is exactly as long as what was appended: before
    /// the other open returns, the file is truncated to that length, and further appends are system calls.
    ///
    /// For a file opened for reading: true to read by loads from a mapping instead of system calls. The file
    /// must not be written any more. If it is truncated, or if the device fails to reread data, the process
    /// is killed (SIGBUS). File systems without mappings use system calls.
    pub mapped: bool,
    /// For a file appended to through a mapping: true to start writeback of complete windows early, so that a
    /// sync has little left to write. Otherwise writeback starts with the first sync.
    pub written_back: bool,
    /// For a file appended to through a mapping: the expected length in bytes. Space is reserved in large
    /// steps from the start, and prepared further ahead; if the file fills fast, space for a
    /// [`WritableFile::successor`] is reserved, too.
    pub expected_len: u64,
    /// True to make new files accessible to their owner only (mode 0600 instead of 0644, subject to the
    /// umask).
    pub owner_only: bool,
    /// True to keep the file open in programs that the process executes, instead of closing it (`O_CLOEXEC`).
    pub inherited: bool,
    /// The expected frequency of accesses, by RocksDB's number of the temperature: 4 hot, 8 warm, 10 cool, 12 cold, 16
    /// ice; 0 if unknown. A hint for file systems that place files, given when a table or log is created, and when a
    /// table is opened for the reads of a database. The file systems of this crate ignore it.
    pub temperature: u8,
}

/// The size of the aligned units of a file appended to through a mapping. Units become visible one after the
/// other.
pub const MAPPED_UNIT: u64 = 32 << 10;

/// The status of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The length in bytes; 0 unless it is a regular file.
    pub len: u64,
    /// The type.
    pub kind: PathKind,
    /// The modification time, in microseconds since 1970.
    pub modified_micros: u64,
}

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A device, pipe or socket, which cannot be opened.
    Other,
}

/// A file system. Paths are absolute or relative to the working directory. Symbolic links are followed unless
/// [`FileMode::no_follow`] is set.
pub trait FileSystem: Send + Sync {
    /// Opens a regular file for random reads.
    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>>;
    /// Creates an empty file for appending. Fails if the path exists.
    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>>;
    /// Opens an existing file for appending.
    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>>;
    /// Opens an existing file for overwriting from the start. It keeps its length and the bytes that are not
    /// overwritten until it is truncated; [`WritableFile::len`] is the number of bytes written. A file system
    /// that cannot preserve the content truncates the file.
    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>>;
    /// The status of `path`. Fails with subcode `PathNotFound` if it does not exist.
    fn status(&self, path: &Path) -> Result<Status>;
    /// The status of each of `names` in `dir`, in order. Equivalent to [`FileSystem::status`] of each, but as
    /// fast as possible for many names; [`status_of_each`] is a simple implementation.
    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>>;
    /// The names in a directory in arbitrary order, without `.` and `..`.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;
    /// Creates a directory and its missing parents. Succeeds if it exists.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Path) -> Result<()>;
    /// Deletes a file. It remains accessible through open handles.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Renames a file atomically, replacing an existing target.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Creates a hard link. Fails if the target exists.
    fn link(&self, from: &Path, to: &Path) -> Result<()>;
    /// Makes the names in a directory survive a power failure.
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    /// The canonical path, with symbolic links resolved.
    fn canonical(&self, path: &Path) -> Result<PathBuf>;
    /// Acquires the lock at `path` for this process, creating the file if needed. Fails immediately with
    /// `IoError` if the lock is held by this or another process, through whatever path. The lock is held
    /// until the returned value is dropped or the process ends.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;
    /// The number of bytes available to unprivileged processes on the file system of `path`.
    fn free_space(&self, path: &Path) -> Result<u64>;

    /// True if the file system verifies the checksums of [`WritableFile::append_with_crc32c`]: a database with the option
    /// `checksum_handoff_file_types` then computes them.
    fn verifies_appends(&self) -> bool {
        false
    }

    /// True if `path` exists, according to [`FileSystem::status`].
    fn exists(&self, path: &Path) -> Result<bool> {
        match self.status(path) {
            Ok(_) => Ok(true),
            Err(error) if error.subcode() == cairn_types::Subcode::PathNotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// [`FileSystem::status_each`] by sequential calls of [`FileSystem::status`].
pub fn status_of_each(
    fs: &(impl FileSystem + ?Sized),
    dir: &Path,
    names: &[String],
) -> Vec<Result<Status>> {
    let each = names.iter().map(|name| fs.status(&dir.join(name)));
    each.collect()
}

/// A held lock, which is released when dropped.
pub trait FileLock: Send + Sync {}

/// An open file for random reads, shared between threads.
#[expect(
    clippy::len_without_is_empty,
    reason = "the emptiness of a file is of no interest"
)]
pub trait RandomAccessFile: Send + Sync {
    /// Reads `buf.len()` bytes at `offset`, or fewer at the end of the file. Returns the number of bytes
    /// read.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;
    /// [`RandomAccessFile::read_at`] for files whose end is significant, such as logs: a short read is
    /// checked against the length of the file and continued. A read that ends before the end of the file is
    /// an error.
    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;
    /// Starts `reads`, a part of a batch, each with the effect of [`RandomAccessFile::read_at`]: puts what they
    /// wait for into `queue`, or executes them. The results are there after
    /// [`RandomAccessFile::finish_reads`]. A wrapper starts `reads` in its target.
    fn start_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue);
    /// Finishes `reads`, which were started with the same `queue`. All that they wait for has happened. A
    /// wrapper finishes them in its target before it uses the results.
    fn finish_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue);
    /// The started read that stands for the file in its request.
    fn started(&self) -> Option<&dyn Started> {
        None
    }
    /// True if the `len` bytes at `offset`, or those before the end of the file, may never have been written:
    /// a disk that lost data returns zeros.
    fn is_blank(&self, offset: u64, len: usize) -> Result<bool>;
    /// The current length of the file in bytes.
    fn len(&self) -> Result<u64>;
    /// The path under which the file was opened, for messages.
    fn path(&self) -> &Path;
    /// Requests readahead of `len` bytes at `offset`. Returns false if the hint is not supported; the caller
    /// may then read ahead into its own buffer.
    fn prefetch(&self, offset: u64, len: usize) -> bool;
    /// Advises the kernel of the access pattern. A hint.
    fn advise(&self, access: Access);
    /// Drops the file's pages from the page cache. A hint.
    fn drop_cached(&self);
}

/// [`RandomAccessFile::read_up_to_end`] implemented by [`RandomAccessFile::read_at`] and the length of the
/// file.
///
/// # Errors
///
/// Those of both; `IoError` if a read returned nothing before the end of the file.
pub fn read_up_to_end(
    file: &(impl RandomAccessFile + ?Sized),
    offset: u64,
    buf: &mut [u8],
) -> Result<usize> {
    let mut got = file.read_at(offset, buf)?;
    while got < buf.len() {
        let at = offset.saturating_add(got as u64);
        if file.len()? <= at {
            break;
        }
        let more = file.read_at(at, &mut buf[got..])?;
        // Check the length again: the file may have been truncated in between.
        if more == 0 && file.len()? > at {
            return Err(Error::io_text(format!(
                "read {}: expected {} bytes at offset {at}, found none, though the file does \
                 not end there; read it again, or look after the disk",
                file.path().display(),
                buf.len() - got
            )));
        }
        if more == 0 {
            break;
        }
        got += more;
    }
    Ok(got)
}

/// Implements the reads of a [`RandomAccessFile`] by its `read_at`, sequentially.
#[macro_export]
macro_rules! derived_reads {
    () => {
        fn read_up_to_end(
            &self,
            offset: u64,
            buf: &mut [u8],
        ) -> $crate::cairn_types::Result<usize> {
            $crate::fs::read_up_to_end(self, offset, buf)
        }

        fn start_reads(
            &self,
            reads: &mut $crate::read_queue::FileReads,
            _queue: &mut $crate::read_queue::ReadQueue,
        ) {
            reads.execute_each(|offset, buf| self.read_at(offset, buf));
        }

        fn finish_reads(
            &self,
            _reads: &mut $crate::read_queue::FileReads,
            _queue: &mut $crate::read_queue::ReadQueue,
        ) {
        }

        fn is_blank(&self, offset: u64, len: usize) -> $crate::cairn_types::Result<bool> {
            let mut bytes = vec![0; len];
            let got = self.read_up_to_end(offset, &mut bytes)?;
            Ok(bytes[..got].iter().all(|byte| *byte == 0))
        }
    };
}

/// Implements the hints of a [`RandomAccessFile`] that ignores them.
#[macro_export]
macro_rules! no_hints {
    () => {
        fn prefetch(&self, _offset: u64, _len: usize) -> bool {
            false
        }

        fn advise(&self, _access: $crate::fs::Access) {}

        fn drop_cached(&self) {}
    };
}

/// Implements the methods of a [`WritableFile`] that is never mapped and does not report slow appends.
#[macro_export]
macro_rules! not_mapped {
    () => {
        fn is_mapped(&self) -> bool {
            false
        }

        fn mapped_bytes(&self) -> usize {
            0
        }

        $crate::no_successor!();
    };
}

/// Implements the methods of a [`WritableFile`] that has no successor and does not report slow appends.
#[macro_export]
macro_rules! no_successor {
    () => {
        fn slow_append(&self) -> Option<(u64, u64)> {
            None
        }

        fn successor(
            &self,
            _path: &::std::path::Path,
            _mode: $crate::fs::FileMode,
        ) -> $crate::cairn_types::Result<Option<::std::sync::Arc<dyn $crate::fs::WritableFile>>> {
            Ok(None)
        }
    };
}

/// The access pattern of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Unknown.
    Normal,
    /// Random: no readahead.
    Random,
    /// Sequential.
    Sequential,
}

/// An open file that grows at its end. `append`, `allocate`, `truncate` and `close` are called by one thread
/// at a time; `sync` and `start_writeback` may run concurrently with them.
#[expect(
    clippy::len_without_is_empty,
    reason = "the emptiness of a file is of no interest"
)]
pub trait WritableFile: Send + Sync {
    /// Appends `data`, passing it to the kernel. With direct I/O, a partial last sector is buffered until
    /// `flush` or `sync`.
    fn append(&self, data: &[u8]) -> Result<()> {
        self.append_veiled(data, &[])
    }
    /// [`WritableFile::append`] for a file that may be mapped. `veils`, in order, describe pieces at the
    /// start of a unit that are masked until the preceding piece is complete; see [`FileMode::mapped`]. They
    /// are ignored if the file is written by system calls.
    fn append_veiled(&self, data: &[u8], veils: &[Veil]) -> Result<()>;
    /// [`WritableFile::append`] of `data` whose CRC-32C is `crc32c`. Called instead of the other methods for the file types
    /// in `checksum_handoff_file_types`, if [`FileSystem::verifies_appends`] is true. A file system that finds another
    /// checksum returns an error.
    fn append_with_crc32c(&self, data: &[u8], crc32c: u32) -> Result<()> {
        let _ = crc32c;
        self.append(data)
    }
    /// Passes data buffered by direct I/O to the kernel.
    fn flush(&self) -> Result<()>;
    /// Makes everything appended before this call survive a power failure, by `fdatasync`, or by `fsync` if
    /// `full` is set.
    fn sync(&self, full: bool) -> Result<()>;
    /// Starts writeback of `len` bytes at `offset`, without waiting.
    fn start_writeback(&self, offset: u64, len: u64) -> Result<()>;
    /// Reserves space up to `len` bytes without changing the length of the file. A hint: succeeds if the file
    /// system does not support it.
    fn allocate(&self, len: u64) -> Result<()>;
    /// Truncates the file to `len` bytes.
    fn truncate(&self, len: u64) -> Result<()>;
    /// The length of the file, including its content when it was opened.
    fn len(&self) -> u64;
    /// The path under which the file was created, for messages.
    fn path(&self) -> &Path;
    /// True if appends are currently stores into a mapping; see [`FileMode::mapped`].
    fn is_mapped(&self) -> bool;
    /// Bytes of the file that are mapped for appends, in use or prepared.
    fn mapped_bytes(&self) -> usize;
    /// The end of the last append that was delayed by at least 20 milliseconds, in nanoseconds of the
    /// system's [`Clock::monotonic_nanos`](crate::Clock::monotonic_nanos), and the delay in nanoseconds.
    /// `None` if there was none, or if it is not tracked.
    fn slow_append(&self) -> Option<(u64, u64)>;
    /// Creates a file at `path`, which must not exist, as by [`FileSystem::create`], in space that was
    /// reserved while this file was written. Returns `None`, without creating anything, if there is no such
    /// space.
    fn successor(&self, path: &Path, mode: FileMode) -> Result<Option<Arc<dyn WritableFile>>>;
    /// Flushes all data, frees space reserved beyond the end if possible, and closes the descriptor, without a sync. Space
    /// that is not freed may be zeros after the data.
    /// Dropping an open file closes it, too, and ignores errors.
    fn close(&self) -> Result<()>;
}
