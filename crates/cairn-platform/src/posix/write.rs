//! A file open for appending.
//!
//! With direct I/O, whole pages are written from an aligned buffer; a partial last page stays at the front of
//! the buffer. `flush` writes that page padded with zeros and truncates the file to its actual length, so
//! that the length on disk never exceeds what was appended.

#![expect(
    unsafe_code,
    reason = "sync_file_range and a close that returns its error have no safe binding"
)]

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd};
use std::path::{Path, PathBuf};

use cairn_types::{Error, Result, Veil};
use rustix::fs::{FallocateFlags, fallocate, fdatasync, fsync, ftruncate};
use rustix::io::{Errno, pwrite};
use rustix::process::{Resource, getrlimit};

use super::aligned_buffer::{ALIGNMENT, AlignedBuffer, CAPACITY, round_down};
use super::eintr::{retry_briefly, retry_on_eintr};
use super::process::Process;
use crate::fs::WritableFile;
use crate::sync::{AtomicU64, Mutex, Ordering, RwLock};

unsafe extern "C" {
    fn sync_file_range(fd: i32, offset: i64, len: i64, flags: u32) -> i32;
}

/// `SYNC_FILE_RANGE_WRITE` of `sync_file_range(2)`.
const SYNC_FILE_RANGE_WRITE: u32 = 2;

/// A regular file open for appending, buffered or with direct I/O.
pub(super) struct PosixWriter {
    /// `None` once closed.
    file: RwLock<Option<File>>,
    path: PathBuf,
    /// The process that opened it. A forked child must not write, truncate or close it.
    process: Process,
    len: AtomicU64,
    allocated: AtomicU64,
    direct: Option<Mutex<DirectTail>>,
}

/// Data of direct I/O that was not written, or only with padding.
struct DirectTail {
    buffer: AlignedBuffer,
    /// The number of bytes in the buffer.
    filled: usize,
    /// The file offset of the buffer, a multiple of the alignment.
    offset: u64,
    /// True if the file contains all bytes of the buffer.
    flushed: bool,
}

impl PosixWriter {
    /// Creates a writer that appends after the first `len` bytes of `file`, which is open for writing, and
    /// for reading as well if it is `direct` and not empty.
    pub(super) fn new(file: File, path: PathBuf, len: u64, direct: bool) -> Result<PosixWriter> {
        let direct = match direct {
            true => Some(Mutex::new(DirectTail::behind(&file, &path, len)?)),
            false => None,
        };
        Ok(PosixWriter {
            file: RwLock::new(Some(file)),
            path,
            process: Process::this(),
            len: AtomicU64::new(len),
            allocated: AtomicU64::new(0),
            direct,
        })
    }

    /// Records that the file has space, and perhaps length, up to `end`. The excess is truncated on close.
    pub(super) fn note_allocated(&self, end: u64) {
        self.allocated.fetch_max(end, Ordering::Relaxed);
    }

    /// The end of the space recorded or reserved so far.
    pub(super) fn allocated(&self) -> u64 {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Records that the file was extended to `len` by other means.
    #[inline]
    pub(super) fn note_len(&self, len: u64) {
        self.len.store(len, Ordering::Relaxed);
    }

    /// Fails in a forked child. Must be called before a lock is taken: the lock may be held by a thread that
    /// the child does not have.
    #[inline]
    pub(super) fn check_process(&self) -> Result<()> {
        self.process
            .check(|| format!("the file {}", self.path.display()))
    }

    /// Writes `data` at `offset` by a system call, without changing the length.
    pub(super) fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.with_file("write", |file| write_fully(file, data, offset, &mut 0))
    }

    /// Calls `act` with the open file.
    pub(super) fn with_file<T>(
        &self,
        doing: &str,
        act: impl FnOnce(&File) -> Result<T, Errno>,
    ) -> Result<T> {
        self.check_process()?;
        match &*self.file.read() {
            Some(file) => act(file).map_err(|errno| Error::io(doing, &self.path, errno.into())),
            None => Err(Error::io_text(format!(
                "{doing} {}: the file is closed",
                self.path.display()
            ))),
        }
    }
}

/// Writes all of `data` at `offset`, and updates `done` with the number of bytes written.
pub(super) fn write_fully(
    file: &File,
    data: &[u8],
    offset: u64,
    done: &mut usize,
) -> Result<(), Errno> {
    while *done < data.len() {
        let at = offset + *done as u64;
        match retry_on_eintr(|| pwrite(file, &data[*done..], at))? {
            0 => return Err(Errno::NOSPC),
            wrote => *done += wrote,
        }
    }
    Ok(())
}

/// Reserves space for `len` bytes at `offset` of `file`.
///
/// Fails with `FBIG` if that exceeds the process's limit on the length of files (`RLIMIT_FSIZE`). The kernel would also
/// send a signal, which by default ends the process, for space that may never be used. A call that is interrupted again and
/// again counts as unsupported.
pub(super) fn reserve(
    file: impl AsFd,
    flags: FallocateFlags,
    offset: u64,
    len: u64,
) -> Result<(), Errno> {
    let limit = getrlimit(Resource::Fsize).current;
    if limit.is_some_and(|limit| offset.saturating_add(len) > limit) {
        return Err(Errno::FBIG);
    }
    match retry_briefly(|| fallocate(&file, flags, offset, len)) {
        Err(Errno::INTR) => Err(Errno::OPNOTSUPP),
        reserved => reserved,
    }
}

impl DirectTail {
    fn behind(file: &File, path: &Path, len: u64) -> Result<DirectTail> {
        let mut tail = DirectTail {
            buffer: AlignedBuffer::take(),
            filled: (len - round_down(len)) as usize,
            offset: round_down(len),
            flushed: true,
        };
        if tail.filled > 0 {
            let page = &mut tail.buffer.bytes_mut()[..ALIGNMENT];
            let got = retry_on_eintr(|| rustix::io::pread(file, &mut *page, tail.offset))
                .map_err(|errno| Error::io("read the end of", path, errno.into()))?;
            if got < tail.filled {
                return Err(Error::io_text(format!(
                    "read the end of {}: expected {} bytes, found {got}",
                    path.display(),
                    tail.filled
                )));
            }
        }
        Ok(tail)
    }

    fn append(&mut self, file: &File, mut data: &[u8]) -> Result<(), Errno> {
        while !data.is_empty() {
            let room = CAPACITY - self.filled;
            let (now, later) = data.split_at(room.min(data.len()));
            self.buffer.bytes_mut()[self.filled..self.filled + now.len()].copy_from_slice(now);
            self.filled += now.len();
            self.flushed = false;
            data = later;
            if self.filled == CAPACITY {
                write_fully(file, self.buffer.bytes(), self.offset, &mut 0)?;
                self.offset += CAPACITY as u64;
                self.filled = 0;
                self.flushed = true;
            }
        }
        Ok(())
    }

    fn flush(&mut self, file: &File) -> Result<(), Errno> {
        if self.flushed {
            return Ok(());
        }
        let padded = self.filled.next_multiple_of(ALIGNMENT);
        self.buffer.bytes_mut()[self.filled..padded].fill(0);
        write_fully(file, &self.buffer.bytes()[..padded], self.offset, &mut 0)?;
        if padded > self.filled {
            retry_on_eintr(|| ftruncate(file, self.offset + self.filled as u64))?;
        }
        let whole = self.filled - self.filled % ALIGNMENT;
        self.buffer.bytes_mut().copy_within(whole..self.filled, 0);
        self.offset += whole as u64;
        self.filled -= whole;
        self.flushed = true;
        Ok(())
    }
}

impl WritableFile for PosixWriter {
    fn append_veiled(&self, data: &[u8], _veils: &[Veil]) -> Result<()> {
        let at = self.len.load(Ordering::Relaxed);
        if let Some(tail) = &self.direct {
            self.with_file("write", |file| tail.lock().append(file, data))?;
            // Relaxed, here and below: one thread appends, and others only read a length.
            self.len.store(at + data.len() as u64, Ordering::Relaxed);
            return Ok(());
        }
        let mut done = 0;
        let wrote = self.with_file("write", |file| write_fully(file, data, at, &mut done));
        // The remains of a failed append are included, so that nothing is written over them.
        self.len.store(at + done as u64, Ordering::Relaxed);
        wrote
    }

    fn flush(&self) -> Result<()> {
        match &self.direct {
            Some(tail) => self.with_file("write", |file| tail.lock().flush(file)),
            None => Ok(()),
        }
    }

    fn sync(&self, full: bool) -> Result<()> {
        self.flush()?;
        self.with_file("sync", |file| match full {
            true => retry_on_eintr(|| fsync(file)),
            false => retry_on_eintr(|| fdatasync(file)),
        })
    }

    fn start_writeback(&self, offset: u64, len: u64) -> Result<()> {
        let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else {
            return Err(Error::invalid_argument("no file is that long"));
        };
        self.with_file("write back", |file| {
            // SAFETY: the descriptor is open while the lock of `file` is held; no memory is passed.
            let result =
                unsafe { sync_file_range(file.as_raw_fd(), offset, len, SYNC_FILE_RANGE_WRITE) };
            if result == 0 {
                return Ok(());
            }
            let error = std::io::Error::last_os_error();
            match Errno::from_io_error(&error) {
                // If the call is unsupported or interrupted, pages are written back later.
                Some(
                    Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL | Errno::SPIPE | Errno::INTR,
                )
                | None => Ok(()),
                Some(errno) => Err(errno),
            }
        })
    }

    fn allocate(&self, len: u64) -> Result<()> {
        let have = self
            .allocated
            .load(Ordering::Relaxed)
            .max(self.len.load(Ordering::Relaxed));
        if len <= have {
            return Ok(());
        }
        self.with_file("reserve space for", |file| {
            match reserve(file, FallocateFlags::KEEP_SIZE, have, len - have) {
                Ok(()) => {
                    self.allocated.store(len, Ordering::Relaxed);
                    Ok(())
                }
                // If space cannot be reserved, or there is too little for data that may never be written,
                // appends proceed without it.
                Err(
                    Errno::OPNOTSUPP
                    | Errno::NOSYS
                    | Errno::INVAL
                    | Errno::NOSPC
                    | Errno::DQUOT
                    | Errno::FBIG,
                ) => Ok(()),
                Err(errno) => Err(errno),
            }
        })
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.flush()?;
        self.with_file("truncate", |file| retry_on_eintr(|| ftruncate(file, len)))?;
        self.len.store(len, Ordering::Relaxed);
        self.allocated.fetch_min(len, Ordering::Relaxed);
        if let Some(tail) = &self.direct {
            let again = match &*self.file.read() {
                Some(file) => DirectTail::behind(file, &self.path, len)?,
                None => return Ok(()),
            };
            *tail.lock() = again;
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    crate::not_mapped!();

    fn close(&self) -> Result<()> {
        self.check_process()?;
        if self.file.read().is_none() {
            return Ok(());
        }
        let flushed = self.flush();
        let len = self.len.load(Ordering::Relaxed);
        if flushed.is_ok() && self.allocated.load(Ordering::Relaxed) > len {
            // Truncating a file to its current length frees the space reserved after it. An error only wastes the space,
            // or leaves the zeros of mapped windows after the data, as the end of the process does.
            let _ = self.with_file("truncate", |file| retry_on_eintr(|| ftruncate(file, len)));
        }
        let closed = match self.file.write().take() {
            // SAFETY: the descriptor is owned and not used afterwards.
            Some(file) => unsafe { rustix::io::try_close(file.into_raw_fd()) },
            None => Ok(()),
        };
        flushed?;
        match closed {
            // On Linux the descriptor is closed even if the call was interrupted.
            Ok(()) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::io("close", &self.path, errno.into())),
        }
    }
}

impl Drop for PosixWriter {
    fn drop(&mut self) {
        // Errors are ignored when an open file is dropped, as documented at the trait.
        let _ = self.close();
    }
}
