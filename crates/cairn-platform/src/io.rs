//! Reads: shared buffers, read requests, and their execution.
//!
//! The read path does not perform I/O. It returns what it needs as a [`ReadRequest`] (see
//! `cairn_types::iter`), and [`Io`] obtains the bytes. [`Io::read`] is the single asynchronous leaf of the
//! engine. The blocking implementation completes it on the first poll; synchronous callers use
//! [`Io::read_now`] without any overhead.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

use cairn_types::{Error, Result};

use crate::fs::{RandomAccessFile, ReadAt};
use crate::rate_limited_file::Limits;
use crate::{buffer_pool, prefetch, prefetch_address};

/// A reference-counted, immutable buffer: a block as read, or decompressed. Cloning increments the reference
/// count.
///
/// The bytes may be followed by a tail: data derived from them, in the same allocation. The allocation may be
/// longer than both, to leave room for a tail or because it was reused (`buffer_pool`).
#[derive(Clone)]
pub struct Buffer {
    all: Arc<[u8]>,
    len: u32,
    tail: u32,
}

impl Buffer {
    /// Copies `bytes` and appends the tail `tail`.
    #[must_use]
    pub fn with_tail(bytes: &[u8], tail: &[u8]) -> Buffer {
        let mut whole = buffer_pool::memory(bytes.len() + tail.len());
        let parts = Arc::get_mut(&mut whole).expect("the buffer is not shared yet");
        let (first, rest) = parts.split_at_mut(bytes.len());
        first.copy_from_slice(bytes);
        rest[..tail.len()].copy_from_slice(tail);
        Buffer {
            all: whole,
            len: length(bytes.len()),
            tail: length(tail.len()),
        }
    }

    /// Copies `bytes`, with room for a tail of `room` bytes; see [`Buffer::lay_tail`].
    #[must_use]
    pub fn with_room(bytes: &[u8], room: usize) -> Buffer {
        if room == 0 {
            return Buffer::from(bytes);
        }
        let mut whole = buffer_pool::memory(bytes.len() + room);
        let parts = Arc::get_mut(&mut whole).expect("the buffer is not shared yet");
        parts[..bytes.len()].copy_from_slice(bytes);
        Buffer::of(whole, bytes.len())
    }

    /// Replaces the tail in place. Returns false if there is not enough room or the buffer is shared.
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

    /// True if both share the same memory.
    #[must_use]
    pub fn is_same(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.all, &other.all)
    }

    /// Shortens the buffer by its last `len` bytes, which become its tail.
    ///
    /// # Panics
    ///
    /// If it has fewer bytes.
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

    /// The tail; usually empty.
    #[inline]
    #[must_use]
    pub fn tail(&self) -> &[u8] {
        &self.all[self.bytes()..][..self.tail as usize]
    }

    /// The number of bytes before the tail.
    #[inline]
    fn bytes(&self) -> usize {
        self.len as usize
    }

    /// Prefetches the memory that a search accesses first: the start, the reference count, and the end.
    #[inline]
    pub fn prefetch(&self) {
        let whole = &self.all[..self.bytes() + self.tail as usize];
        prefetch::first(whole);
        prefetch::last(whole, (self.tail as usize).clamp(64, 256));
    }

    /// Prefetches the `len` bytes at `at`, as far as they are part of the buffer.
    #[inline]
    pub fn prefetch_at(&self, at: usize, len: usize) {
        let end = self.bytes().min(at.saturating_add(len));
        prefetch::last(self.all.get(at..end).unwrap_or_default(), len);
    }

    /// Prefetches the cache line at offset `at`, which may be outside the buffer.
    #[inline]
    pub fn prefetch_line(&self, at: usize) {
        prefetch_address(self.all.as_ptr().addr().wrapping_add(at));
    }

    /// The size of the allocation, including the tail and unused bytes.
    #[inline]
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.all.len()
    }

    /// Creates a buffer of `len` bytes written by `fill`, with room for a tail of `room` bytes. The memory
    /// passed to `fill` is zeroed or has the content of a previous buffer.
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

    /// [`Buffer::filled`] that reuses the memory of `spent` if it has the same length and is not shared.
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
        fill(&mut Arc::get_mut(&mut bytes).expect("the buffer is not shared")[..len])?;
        Ok(Buffer::of(bytes, len))
    }

    /// Drops the buffer. If it is not shared, its memory may be reused for the thread's next buffer of
    /// similar length.
    pub fn recycle(self) {
        buffer_pool::keep(self.all);
    }

    /// The number of references.
    #[must_use]
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.all)
    }

    fn whole(all: Arc<[u8]>) -> Buffer {
        let len = all.len();
        Buffer::of(all, len)
    }

    /// A buffer of the first `len` bytes of `all`.
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

/// Converts a length to its stored form.
#[inline]
fn length(len: usize) -> u32 {
    u32::try_from(len).expect("a buffer is less than 4 GiB")
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

/// A range of a file to be read.
#[derive(Clone)]
pub struct ReadRequest {
    /// The file.
    pub file: Arc<dyn RandomAccessFile>,
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes. Must have been checked against the length of the file.
    pub len: usize,
    /// The room to allocate for a tail ([`Buffer::lay_tail`]).
    pub room: usize,
}

impl ReadRequest {
    /// A request for `len` bytes at `offset` of `file`, without room for a tail.
    #[must_use]
    pub fn new(file: Arc<dyn RandomAccessFile>, offset: u64, len: usize) -> ReadRequest {
        ReadRequest {
            file,
            offset,
            len,
            room: 0,
        }
    }

    /// Reads the range, blocking.
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

    /// True if the range exceeds the maximum length of a buffer.
    fn is_too_long(&self) -> bool {
        u32::try_from(self.len).is_err()
    }

    /// Returns an error if fewer bytes were read than requested.
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

/// The executor of read requests.
#[derive(Clone, Debug, Default)]
pub struct Io {
    /// Rate limits of the reads.
    limits: Option<Arc<Limits>>,
}

impl Io {
    /// Creates an executor that blocks the calling thread.
    #[must_use]
    pub fn blocking() -> Io {
        Io::default()
    }

    /// Returns an executor whose reads are limited by `limits`.
    #[must_use]
    pub fn limited(&self, limits: Limits) -> Io {
        Io {
            limits: Some(Arc::new(limits)),
        }
    }

    /// Waits for the rate limiter to admit `bytes`.
    fn wait(&self, bytes: usize) {
        if let Some(limits) = &self.limits {
            limits.wait_to_read(bytes);
        }
    }

    /// Executes `request` on the calling thread.
    ///
    /// # Errors
    ///
    /// Those of [`ReadRequest::read_now`].
    pub fn read_now(&self, request: &ReadRequest) -> Result<Buffer> {
        self.read_into(request, None)
    }

    /// [`Io::read_now`] that reuses the memory of `spent` if it has the same length and is not shared. Large
    /// allocations cost as much as the read itself.
    ///
    /// # Errors
    ///
    /// Those of [`ReadRequest::read_now`].
    pub fn read_into(&self, request: &ReadRequest, spent: Option<Buffer>) -> Result<Buffer> {
        self.wait(request.len);
        request.read_into(spent)
    }

    /// Executes `requests` on the calling thread. Consecutive requests for the same file form a batch.
    /// Results are in the order of the requests.
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
                    buf: &mut Arc::get_mut(bytes).expect("the buffer is not shared yet")
                        [..request.len],
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

    /// Executes `request` asynchronously.
    ///
    /// # Errors
    ///
    /// Those of [`ReadRequest::read_now`].
    pub fn read(&self, request: ReadRequest) -> impl Future<Output = Result<Buffer>> + Send {
        std::future::ready(self.read_now(&request))
    }
}
