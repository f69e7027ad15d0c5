//! Reading: bytes in shared memory, the request for them, and who carries a request out.
//!
//! The read path never reads by itself: it says what it lacks as a [`ReadRequest`] (see
//! `cairn_types::iter`) and [`Io`] obtains the bytes. [`Io::read`] is the one asynchronous leaf of
//! the engine; the blocking driver completes it at the first poll, so a synchronous caller uses
//! [`Io::read_now`] and pays nothing for it.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

use cairn_types::{Error, Result};

use crate::fs::{RandomAccessFile, ReadAt};
use crate::rate_limited_file::Limits;
use crate::{buffer_pool, prefetch, prefetch_address};

/// Immutable bytes in shared memory: a block as it was read, or decompressed. Cloning counts one
/// reference more; the bytes live as long as any clone.
///
/// Behind the bytes there may be a tail: what was worked out about them, in the same memory. The memory may
/// be longer than both: to have room for a tail, or a little because it was there (`spare`).
#[derive(Clone)]
pub struct Buffer {
    all: Arc<[u8]>,
    len: u32,
    tail: u32,
}

impl Buffer {
    /// A copy of `bytes` with the tail `tail`.
    #[must_use]
    pub fn with_tail(bytes: &[u8], tail: &[u8]) -> Buffer {
        let mut whole = buffer_pool::memory(bytes.len() + tail.len());
        let parts = Arc::get_mut(&mut whole).expect("nobody else has it yet");
        let (first, rest) = parts.split_at_mut(bytes.len());
        first.copy_from_slice(bytes);
        rest[..tail.len()].copy_from_slice(tail);
        Buffer {
            all: whole,
            len: length(bytes.len()),
            tail: length(tail.len()),
        }
    }

    /// A copy of `bytes` with memory for a tail of `room` bytes, see [`Buffer::lay_tail`].
    #[must_use]
    pub fn with_room(bytes: &[u8], room: usize) -> Buffer {
        if room == 0 {
            return Buffer::from(bytes);
        }
        let mut whole = buffer_pool::memory(bytes.len() + room);
        let parts = Arc::get_mut(&mut whole).expect("nobody else has it yet");
        parts[..bytes.len()].copy_from_slice(bytes);
        Buffer::of(whole, bytes.len())
    }

    /// Puts `tail` behind the bytes in the place of the tail that is there. Whether it did: the memory must be
    /// long enough, and nobody else hold it.
    pub fn lay_tail(&mut self, tail: &[u8]) -> bool {
        let at = self.bytes();
        let place = Arc::get_mut(&mut self.all).and_then(|all| all.get_mut(at..at + tail.len()));
        let Some(place) = place else {
            return false;
        };
        place.copy_from_slice(tail);
        self.tail = length(tail.len());
        true
    }

    /// True if both are one buffer and not copies.
    #[must_use]
    pub fn is_same(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.all, &other.all)
    }

    /// The buffer without its last `len` bytes, which become its tail.
    ///
    /// # Panics
    ///
    /// If it has fewer.
    #[must_use]
    pub fn cut(mut self, len: usize) -> Buffer {
        assert!(
            len <= self.bytes(),
            "a buffer of {} bytes is cut by {len}",
            self.len
        );
        self.len -= length(len);
        self.tail += length(len);
        self
    }

    /// What lies behind the bytes; usually nothing.
    #[inline]
    #[must_use]
    pub fn tail(&self) -> &[u8] {
        &self.all[self.bytes()..][..self.tail as usize]
    }

    /// How many bytes there are before the tail.
    #[inline]
    fn bytes(&self) -> usize {
        self.len as usize
    }

    /// Asks for the memory that a search touches first: the beginning, where the references are
    /// counted, and the end.
    #[inline]
    pub fn prefetch(&self) {
        let whole = &self.all[..self.bytes() + self.tail as usize];
        prefetch::first(whole);
        prefetch::last(whole, (self.tail as usize).clamp(64, 256));
    }

    /// Asks for the memory of the `len` bytes at `at`, as far as they are bytes of the buffer.
    #[inline]
    pub fn prefetch_at(&self, at: usize, len: usize) {
        let end = self.bytes().min(at.saturating_add(len));
        prefetch::last(self.all.get(at..end).unwrap_or_default(), len);
    }

    /// Asks for the line of memory at offset `at`, be it one of the buffer or not.
    #[inline]
    pub fn prefetch_line(&self, at: usize) {
        prefetch_address(self.all.as_ptr().addr().wrapping_add(at));
    }

    /// Bytes of memory, with the tail and what is left over.
    #[inline]
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.all.len()
    }

    /// `len` bytes that `fill` writes, with memory for a tail of `room` bytes. `fill` gets zeros, or what
    /// another buffer held.
    ///
    /// # Errors
    ///
    /// Those of `fill`.
    pub fn filled<E>(
        len: usize,
        room: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Buffer, E> {
        Buffer::refilled(None, len, room, fill)
    }

    /// [`Buffer::filled`] in the memory of `spent` if that is as long and nobody else holds it. `fill`
    /// gets what was there, or zeros.
    fn refilled<E>(
        spent: Option<Buffer>,
        len: usize,
        room: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Buffer, E> {
        let mut bytes = spent
            .map(|spent| spent.all)
            .filter(|all| buffer_pool::fits(all.len(), len + room) && Arc::strong_count(all) == 1)
            .unwrap_or_else(|| buffer_pool::memory(len + room));
        fill(&mut Arc::get_mut(&mut bytes).expect("nobody else has it")[..len])?;
        Ok(Buffer::of(bytes, len))
    }

    /// Gives the buffer up. If nobody else holds it, the thread's next buffer of about its length may take
    /// its memory.
    pub fn recycle(self) {
        buffer_pool::keep(self.all);
    }

    /// How many hold these bytes.
    #[must_use]
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.all)
    }

    fn whole(all: Arc<[u8]>) -> Buffer {
        let len = all.len();
        Buffer::of(all, len)
    }

    /// The first `len` bytes of `all`.
    fn of(all: Arc<[u8]>, len: usize) -> Buffer {
        Buffer {
            all,
            len: length(len),
            tail: 0,
        }
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Buffer {
        Buffer::whole(bytes.into())
    }
}

impl From<&[u8]> for Buffer {
    fn from(bytes: &[u8]) -> Buffer {
        Buffer::whole(bytes.into())
    }
}

impl Deref for Buffer {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.all[..self.bytes()]
    }
}

/// A length as a buffer keeps it.
#[inline]
fn length(len: usize) -> u32 {
    u32::try_from(len).expect("a buffer is shorter than 4 GiB")
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

/// Bytes of a file that a read needs.
#[derive(Clone)]
pub struct ReadRequest {
    /// The file.
    pub file: Arc<dyn RandomAccessFile>,
    /// Offset of the first byte.
    pub offset: u64,
    /// How many bytes. Whoever makes a request has checked it against the file's length.
    pub len: usize,
    /// Bytes of memory behind them for a tail ([`Buffer::lay_tail`]).
    pub room: usize,
}

impl ReadRequest {
    /// `len` bytes of `file` from `offset` on, with no memory behind them.
    #[must_use]
    pub fn new(file: Arc<dyn RandomAccessFile>, offset: u64, len: usize) -> ReadRequest {
        ReadRequest {
            file,
            offset,
            len,
            room: 0,
        }
    }

    /// Reads the bytes, blocking.
    ///
    /// # Errors
    ///
    /// `IoError` of the file system; `Corruption` if the file ends before the last byte.
    pub fn read_now(&self) -> Result<Buffer> {
        self.read_into(None)
    }

    fn read_into(&self, spent: Option<Buffer>) -> Result<Buffer> {
        if self.is_too_long() {
            return Err(Error::not_supported(format!(
                "a read of {} bytes at offset {} of {}: blocks and values are shorter than 4 GiB",
                self.len,
                self.offset,
                self.file.path().display()
            )));
        }
        Buffer::refilled(spent, self.len, self.room, |buf| {
            self.check(self.file.read_at(self.offset, buf)?)
        })
    }

    /// True if no buffer can hold the bytes.
    fn is_too_long(&self) -> bool {
        u32::try_from(self.len).is_err()
    }

    /// Refuses a read that brought fewer bytes than were asked for.
    fn check(&self, got: usize) -> Result<()> {
        if got == self.len {
            return Ok(());
        }
        Err(Error::corruption(format!(
            "file ends early: expected {} bytes at offset {} of {}, found {got}",
            self.len,
            self.offset,
            self.file.path().display()
        )))
    }
}

/// Who carries reads out.
#[derive(Clone, Debug, Default)]
pub struct Io {
    /// What reads wait for first.
    limits: Option<Arc<Limits>>,
}

impl Io {
    /// Reads block the calling thread.
    #[must_use]
    pub fn blocking() -> Io {
        Io::default()
    }

    /// Reads are no faster than `limits` allow.
    #[must_use]
    pub fn limited(&self, limits: Limits) -> Io {
        Io {
            limits: Some(Arc::new(limits)),
        }
    }

    /// Waits until `bytes` may be read.
    fn wait(&self, bytes: usize) {
        if let Some(limits) = &self.limits {
            limits.wait_to_read(bytes);
        }
    }

    /// Carries `request` out on the calling thread.
    ///
    /// # Errors
    ///
    /// Those of [`ReadRequest::read_now`].
    pub fn read_now(&self, request: &ReadRequest) -> Result<Buffer> {
        self.read_into(request, None)
    }

    /// Like [`Io::read_now`]; in the memory of `spent`, if that is just as long and nobody else
    /// holds it. Large memory that is taken anew for every read costs as much as the reading.
    ///
    /// # Errors
    ///
    /// Those of [`ReadRequest::read_now`].
    pub fn read_into(&self, request: &ReadRequest, spent: Option<Buffer>) -> Result<Buffer> {
        self.wait(request.len);
        request.read_into(spent)
    }

    /// Carries all of `requests` out on the calling thread, those of one file that stand together
    /// as one batch. Each has its own result, in the order of the requests.
    #[must_use]
    pub fn read_batch(&self, requests: &[ReadRequest]) -> Vec<Result<Buffer>> {
        if requests.len() == 1 || requests.iter().any(ReadRequest::is_too_long) {
            return requests
                .iter()
                .map(|request| self.read_now(request))
                .collect();
        }
        if self.limits.is_some() {
            self.wait(requests.iter().map(|request| request.len).sum());
        }
        let mut results = Vec::with_capacity(requests.len());
        let same_file = |a: &ReadRequest, b: &ReadRequest| Arc::ptr_eq(&a.file, &b.file);
        for batch in requests.chunk_by(same_file) {
            let mut bytes: Vec<Arc<[u8]>> = batch
                .iter()
                .map(|request| buffer_pool::memory(request.len + request.room))
                .collect();
            let mut reads: Vec<ReadAt<'_>> = batch
                .iter()
                .zip(&mut bytes)
                .map(|(request, bytes)| ReadAt {
                    offset: request.offset,
                    buf: &mut Arc::get_mut(bytes).expect("nobody else has it yet")[..request.len],
                    got: Ok(0),
                })
                .collect();
            batch[0].file.read_many(&mut reads);
            let got: Vec<Result<usize>> = reads.into_iter().map(|read| read.got).collect();
            for ((request, bytes), got) in batch.iter().zip(bytes).zip(got) {
                results.push(
                    got.and_then(|got| request.check(got))
                        .map(|()| Buffer::of(bytes, request.len)),
                );
            }
        }
        results
    }

    /// Carries `request` out; the future of the asynchronous faces.
    ///
    /// # Errors
    ///
    /// Those of [`ReadRequest::read_now`].
    pub fn read(&self, request: ReadRequest) -> impl Future<Output = Result<Buffer>> + Send {
        std::future::ready(self.read_now(&request))
    }
}
