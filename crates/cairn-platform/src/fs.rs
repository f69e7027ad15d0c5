//! Files: the trait that the engine writes to, and what each call promises.
//!
//! Durability, in three steps that a caller must keep apart. `append` hands bytes to the kernel:
//! they survive a crash of the process. `sync` makes a file's bytes and length survive a power
//! cut, **not** its name. `sync_dir` makes the names in a directory survive. A failed `sync` is
//! never repeated on the same file: the kernel may have dropped the pages it could not write, so
//! a second sync that succeeds proves nothing.
//!
//! Every error names the path and what was being done to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_types::{Error, Result, Veil};

/// How a file will be read or written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileMode {
    /// Bypass the page cache (`O_DIRECT`). The file system aligns what must be aligned.
    pub direct: bool,
    /// Refuse to follow a symbolic link at the end of the path.
    pub no_follow: bool,
    /// Append to a new file by stores into a mapping rather than by calls, where the file system is
    /// known to take them; [`WritableFile::is_mapped`] tells. The file is longer than what was appended
    /// until it is closed, and zeros lie behind that; so it is after a crash. A process that ends within
    /// an append leaves all pieces of it before some offset, and none behind the next; pieces end where
    /// [`MAPPED_UNIT`]s and veiled pieces do. Of the piece between the two it may leave any bytes but the first eight,
    /// which come last and at once: zeros stand there until then. Before the first bytes of a piece that a veiled one
    /// follows come all of that one, with its veil ([`WritableFile::append_veiled`]). A power cut may leave any part of
    /// what was not synced.
    ///
    /// The file is exactly as long as what was appended while anybody else has it open: it is cut to that length, and
    /// written by calls from then on, before another open of it returns.
    ///
    /// Of a file that is opened for reading: read what it holds by loads from a mapping rather than
    /// by calls. The file is not written any more. Should it be cut off by others meanwhile, or the
    /// device fail to give again what was read before, the process ends (SIGBUS). A file system that
    /// has no mappings reads by calls.
    pub mapped: bool,
    /// Of a file that is appended to through a mapping: have the device write early what is full, so that
    /// a sync finds little to do. Without it that begins with the first sync.
    pub written_back: bool,
    /// Of a file that is appended to through a mapping: how long it will become, in bytes, as far as one knows.
    /// Space for it is reserved in large pieces from the beginning, and more of it prepared ahead; while it fills
    /// fast, space for a [`WritableFile::successor`] too.
    pub expected_len: u64,
    /// New files are readable by their owner only (mode 0600 instead of 0644, under the umask).
    pub owner_only: bool,
}

/// Bytes of a file that is appended to through a mapping which become visible one unit after the other;
/// units begin at multiples of it.
pub const MAPPED_UNIT: u64 = 32 << 10;

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Length in bytes; 0 for what is no regular file.
    pub len: u64,
    /// What it is.
    pub kind: PathKind,
    /// When it was last changed, in microseconds since 1970.
    pub modified_micros: u64,
}

/// The kinds of things a path can lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A device, pipe or socket; never opened.
    Other,
}

/// A file system. Paths are absolute or relative to the process; symbolic links are followed
/// unless [`FileMode::no_follow`] says otherwise.
pub trait FileSystem: Send + Sync {
    /// Opens a regular file for reading at any offset.
    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>>;
    /// Creates a file that must not exist yet, empty, for appending.
    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>>;
    /// Opens an existing file for appending behind its last byte.
    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>>;
    /// Opens an existing file for writing over it from its front: it keeps its length, and the
    /// bytes that nothing was written over, until it is truncated. [`WritableFile::len`] counts
    /// from the front what was written. A file system that cannot keep them empties the file.
    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>>;
    /// What is at `path`; an error with subcode `PathNotFound` if nothing is.
    fn status(&self, path: &Path) -> Result<Status>;
    /// What is under each of `names` in `dir`, in their order: [`FileSystem::status`] of each, and for many of
    /// them as fast as the file system can; [`status_of_each`] if it knows no faster way.
    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>>;
    /// The names in a directory, without `.` and `..`, in no order.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;
    /// Creates a directory and those above it that are missing. No error if it exists.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Path) -> Result<()>;
    /// Removes a file. It lives on for those who have it open.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Gives a file another name, atomically, replacing what had it.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Gives a file a second name, which must be free.
    fn link(&self, from: &Path, to: &Path) -> Result<()>;
    /// Makes the names in a directory survive a power cut.
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    /// The path with symbolic links resolved: one text for one directory.
    fn canonical(&self, path: &Path) -> Result<PathBuf>;
    /// Takes the lock at `path` for this process, creating the file if needed. Fails with `IoError`
    /// at once if anybody holds it, by whatever path, in this process or another. Held until the
    /// returned value is dropped or the process ends.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;
    /// Bytes that an unprivileged process may still write to the device of `path`.
    fn free_space(&self, path: &Path) -> Result<u64>;

    /// True if something is at `path`. Always by [`FileSystem::status`].
    fn exists(&self, path: &Path) -> Result<bool> {
        match self.status(path) {
            Ok(_) => Ok(true),
            Err(error) if error.subcode() == cairn_types::Subcode::PathNotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// [`FileSystem::status_each`] by one [`FileSystem::status`] after the other.
pub fn status_of_each(
    fs: &(impl FileSystem + ?Sized),
    dir: &Path,
    names: &[String],
) -> Vec<Result<Status>> {
    let each = names.iter().map(|name| fs.status(&dir.join(name)));
    each.collect()
}

/// A held lock; dropping it gives the lock back.
pub trait FileLock: Send + Sync {}

/// An open file that is read at any offset, by any thread.
#[expect(
    clippy::len_without_is_empty,
    reason = "nobody asks a file whether it is empty"
)]
pub trait RandomAccessFile: Send + Sync {
    /// Reads `buf.len()` bytes at `offset`; fewer only where the file ends. Returns how many.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;
    /// As [`RandomAccessFile::read_at`], for files whose end means something, as that of a log does:
    /// a read that came back short is held against the length of the file, and read on. One that
    /// stops before the end is an error and never the end.
    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;
    /// Carries out all of `reads`, each as [`RandomAccessFile::read_at`] would and in any order;
    /// an error of one says nothing about the others. One after another unless the file system
    /// knows better.
    fn read_many(&self, reads: &mut [ReadAt<'_>]);
    /// True if the `len` bytes at `offset`, as far as there are so many, may be such as were never written: a
    /// disk that lost them shows zeros.
    fn is_blank(&self, offset: u64, len: usize) -> Result<bool>;
    /// The length of the file in bytes, now.
    fn len(&self) -> Result<u64>;
    /// Where the file was opened; for messages.
    fn path(&self) -> &Path;
    /// Tells the kernel that `len` bytes at `offset` will be read soon. A hint. Whether it was taken: if not,
    /// whoever wants to read ahead does so into memory of his own.
    fn prefetch(&self, offset: u64, len: usize) -> bool;
    /// Tells the kernel in what manner the file will be read. A hint.
    fn advise(&self, access: Access);
    /// Drops the file's pages from the page cache. A hint.
    fn drop_cached(&self);
}

/// [`RandomAccessFile::read_up_to_end`] by [`RandomAccessFile::read_at`] and the length of the file.
///
/// # Errors
///
/// Those of both; `IoError` if the file does not end where a read found nothing.
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
        // The length once more: the file may have been cut off in between.
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

/// The reads of a [`RandomAccessFile`] that has no better way than its `read_at`: one after the other.
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

        fn read_many(&self, reads: &mut [$crate::fs::ReadAt<'_>]) {
            for read in reads {
                read.got = self.read_at(read.offset, read.buf);
            }
        }

        fn is_blank(&self, offset: u64, len: usize) -> $crate::cairn_types::Result<bool> {
            let mut bytes = vec![0; len];
            let got = self.read_up_to_end(offset, &mut bytes)?;
            Ok(bytes[..got].iter().all(|byte| *byte == 0))
        }
    };
}

/// The hints of a [`RandomAccessFile`] that has no use for them.
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

/// The calls of a [`WritableFile`] that is never mapped and never reports a slow append.
#[macro_export]
macro_rules! not_mapped {
    () => {
        fn is_mapped(&self) -> bool {
            false
        }

        $crate::no_successor!();
    };
}

/// The calls of a [`WritableFile`] that prepares no file after it and reports no slow append.
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

/// One of several reads of a file.
pub struct ReadAt<'a> {
    /// Offset of the first byte.
    pub offset: u64,
    /// Where the bytes go.
    pub buf: &'a mut [u8],
    /// How many bytes were read, once they were.
    pub got: Result<usize>,
}

impl std::fmt::Debug for ReadAt<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadAt")
            .field("offset", &self.offset)
            .field("len", &self.buf.len())
            .field("got", &self.got)
            .finish_non_exhaustive()
    }
}

/// The manner in which a file will be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing is known.
    Normal,
    /// Here and there: no readahead.
    Random,
    /// From front to back.
    Sequential,
}

/// An open file that grows at its end. Calls to `append`, `allocate`, `truncate` and `close` are
/// made by one thread at a time; `sync` and `start_writeback` may run beside them.
#[expect(
    clippy::len_without_is_empty,
    reason = "nobody asks a file whether it is empty"
)]
pub trait WritableFile: Send + Sync {
    /// Hands `data` to the kernel, behind what was appended before. With direct I/O the last,
    /// partial sector waits in memory until `flush` or `sync`.
    fn append(&self, data: &[u8]) -> Result<()> {
        self.append_veiled(data, &[])
    }
    /// The same for a file that may be mapped. Where `veils` are given, in order, a piece that begins a unit is covered
    /// until the one before it is complete: see [`FileMode::mapped`]. A file that is written by calls needs none.
    fn append_veiled(&self, data: &[u8], veils: &[Veil]) -> Result<()>;
    /// Hands over what direct I/O still holds in memory.
    fn flush(&self) -> Result<()>;
    /// Makes everything appended before this call survive a power cut (`fdatasync`; `fsync` where
    /// `full` is set).
    fn sync(&self, full: bool) -> Result<()>;
    /// Asks the kernel to begin writing back `len` bytes at `offset`, without waiting.
    fn start_writeback(&self, offset: u64, len: u64) -> Result<()>;
    /// Reserves space on the device up to `len` bytes without changing the file's length. A hint:
    /// no error where the file system cannot.
    fn allocate(&self, len: u64) -> Result<()>;
    /// Cuts the file to `len` bytes.
    fn truncate(&self, len: u64) -> Result<()>;
    /// Bytes appended so far, counting what was there when the file was opened.
    fn len(&self) -> u64;
    /// Where the file was created; for messages.
    fn path(&self) -> &Path;
    /// True if appends are stores into a mapping now; see [`FileMode::mapped`].
    fn is_mapped(&self) -> bool;
    /// When the last append ended that waited for 20 milliseconds and more, in nanoseconds of the clock that
    /// [`Clock::monotonic_nanos`](crate::Clock::monotonic_nanos) of the machine tells, and how many of them it waited. None
    /// if there was none, or where the file keeps no account.
    fn slow_append(&self) -> Option<(u64, u64)>;
    /// Creates a file at `path`, which must be free, as [`FileSystem::create`] would, in space that was reserved
    /// while this file was written. None if there is none: nothing is at `path` then that was not there before.
    fn successor(&self, path: &Path, mode: FileMode) -> Result<Option<Arc<dyn WritableFile>>>;
    /// Hands over everything, cuts off space reserved beyond the end, and closes the descriptor.
    /// Does not sync. Dropping an open file closes it too, and then errors are lost.
    fn close(&self) -> Result<()>;
}
