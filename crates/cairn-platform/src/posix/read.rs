//! A file open for reading.

use std::fs::File;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_types::{Error, Result};
use rustix::fs::{Advice, fadvise, fstat};
use rustix::io::pread;

use super::aligned_buffer::{ALIGNMENT, AlignedBuffer, CAPACITY, is_aligned, round_down};
use super::eintr::retry_on_eintr;
use super::mapped_read::Mapping;
use crate::fs::{Access, FileMode, RandomAccessFile, read_up_to_end};
use crate::read_queue::{BatchRead, FileReads, ReadQueue};

/// A regular file open for reading, through the page cache or around it.
pub(super) struct PosixReader {
    /// Shared with the reads in flight.
    file: Arc<File>,
    path: PathBuf,
    direct: bool,
    /// The content of the file when it was opened, if reads are memory-mapped.
    mapping: Option<Mapping>,
}

impl PosixReader {
    /// Creates a reader of `file`, which has `len` bytes.
    pub(super) fn new(file: File, path: &Path, len: u64, mode: FileMode) -> Result<PosixReader> {
        let path = path.to_owned();
        let mapping = match usize::try_from(len) {
            // A mapping cannot be empty.
            Ok(len) if mode.mapped && !mode.direct && len > 0 => Some(
                Mapping::of(&file, len)
                    .map_err(|errno| Error::io("map for reading", &path, errno.into()))?,
            ),
            _ => None,
        };
        Ok(PosixReader {
            file: Arc::new(file),
            path,
            direct: mode.direct,
            mapping,
        })
    }

    /// Reads until `buf` is full or the file ends.
    fn read_fully(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let mut got = 0;
        while got < buf.len() {
            let at = offset + got as u64;
            match retry_on_eintr(|| pread(&self.file, &mut buf[got..], at)) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(errno) => return Err(Error::io("read", &self.path, errno.into())),
            }
            // Direct I/O returns an unaligned length only at the end of the file, and could not continue from
            // there.
            if self.direct && !got.is_multiple_of(ALIGNMENT) {
                break;
            }
        }
        Ok(got)
    }

    /// Reads through an aligned buffer, in steps of its size.
    fn read_direct(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if is_aligned(buf, offset) {
            return self.read_fully(offset, buf);
        }
        let mut aligned = AlignedBuffer::take();
        let mut got = 0;
        while got < buf.len() {
            let at = offset + got as u64;
            let begin = round_down(at);
            let skip = (at - begin) as usize;
            let wanted = (skip + buf.len() - got)
                .next_multiple_of(ALIGNMENT)
                .min(CAPACITY);
            let read = self.read_fully(begin, &mut aligned.bytes_mut()[..wanted])?;
            let useful = read.saturating_sub(skip).min(buf.len() - got);
            buf[got..got + useful].copy_from_slice(&aligned.bytes()[skip..skip + useful]);
            got += useful;
            if read < wanted {
                break;
            }
        }
        Ok(got)
    }

    /// Puts `read` into `queue`.
    fn start_read(&self, read: &mut BatchRead, queue: &mut ReadQueue) {
        if !self.direct || read.is_aligned(ALIGNMENT) {
            queue.push(&self.file, read, self.direct);
            return;
        }
        let begin = round_down(read.offset);
        let skip = (read.offset - begin) as usize;
        let wanted = (skip + read.wanted()).next_multiple_of(ALIGNMENT);
        queue.push_aligned(&self.file, read, (begin, wanted), ALIGNMENT);
    }
}

impl RandomAccessFile for PosixReader {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if let Some(mapping) = &self.mapping
            && mapping.copy(offset, buf)
        {
            return Ok(buf.len());
        }
        if self.direct {
            self.read_direct(offset, buf)
        } else {
            self.read_fully(offset, buf)
        }
    }

    fn start_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        for read in &mut reads.reads {
            // An offset beyond the largest is an error of the system call, and -1 an order to io_uring.
            let is_plain = read.wanted() == 0 || i64::try_from(read.offset).is_err();
            if self.mapping.is_some() || is_plain {
                read.execute(|offset, buf| self.read_at(offset, buf));
            } else {
                self.start_read(read, queue);
            }
        }
    }

    fn finish_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        for read in &mut reads.reads {
            let Some(transferred) = queue.take(read) else {
                continue;
            };
            match (transferred.got, transferred.elsewhere) {
                (Err(errno), _) => read.fail(Error::io("read", &self.path, errno.into())),
                (Ok(got), None) => read.got = Ok(got),
                (Ok(got), Some((bytes, start))) => read.execute(|offset, buf| {
                    let skip = (offset - round_down(offset)) as usize;
                    let useful = got.saturating_sub(skip).min(buf.len());
                    let from = start + skip;
                    buf[..useful].copy_from_slice(&bytes[from..from + useful]);
                    Ok(useful)
                }),
            }
        }
    }

    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        read_up_to_end(self, offset, buf)
    }

    fn is_blank(&self, offset: u64, len: usize) -> Result<bool> {
        let mut bytes = vec![0; len];
        let got = self.read_up_to_end(offset, &mut bytes)?;
        Ok(bytes[..got].iter().all(|byte| *byte == 0))
    }

    fn len(&self) -> Result<u64> {
        match retry_on_eintr(|| fstat(&self.file)) {
            Ok(stat) => Ok(u64::try_from(stat.st_size).unwrap_or(0)),
            Err(errno) => Err(Error::io("look at", &self.path, errno.into())),
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn prefetch(&self, offset: u64, len: usize) -> bool {
        match NonZeroU64::new(len as u64) {
            // Reads through the page cache would miss there.
            Some(len) if !self.direct => {
                fadvise(&self.file, offset, Some(len), Advice::WillNeed).is_ok()
            }
            _ => false,
        }
    }

    fn advise(&self, access: Access) {
        let advice = match access {
            Access::Normal => Advice::Normal,
            Access::Random => Advice::Random,
            Access::Sequential => Advice::Sequential,
        };
        // A hint, as above.
        let _ = fadvise(&self.file, 0, None, advice);
        if let Some(mapping) = &self.mapping {
            mapping.advise(access);
        }
    }

    fn drop_cached(&self) {
        // A hint, as above.
        let _ = fadvise(&self.file, 0, None, Advice::DontNeed);
    }
}
