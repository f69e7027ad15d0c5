//! Reads: requests, and their execution.
//!
//! The read path does not perform I/O. It returns what it needs as a [`ReadRequest`] (see
//! `cairn_types::iter`), and [`Io`] obtains the bytes. [`Io::read`] is the single asynchronous leaf of the
//! engine. The blocking implementation completes it on the first poll; synchronous callers use
//! [`Io::read_now`] without any overhead.

use std::future::Future;
use std::sync::Arc;

use cairn_types::{Error, Result};

use crate::buffer::{Buffer, pool};
use crate::fs::{RandomAccessFile, ReadAt};
use crate::rate_limited_file::Limits;

/// A range of a file to be read.
#[derive(Clone)]
pub struct ReadRequest {
    /// The file.
    pub file: Arc<dyn RandomAccessFile>,
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes. Must have been checked against the length of the file.
    pub len: usize,
    /// The room to allocate for a tail ([`Buffer::append_tail`]).
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
            let mut bytes: Vec<_> = batch
                .iter()
                .map(|request| pool::memory(request.len + request.room))
                .collect();
            let mut reads: Vec<ReadAt<'_>> = batch
                .iter()
                .zip(&mut bytes)
                .map(|(request, bytes)| ReadAt {
                    offset: request.offset,
                    buf: &mut bytes[..request.len],
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
