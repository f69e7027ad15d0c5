//! Reads: requests, and their execution.
//!
//! The read path does not perform I/O. It returns what it needs as a [`ReadRequest`] (see
//! `cairn_types::iter`), and [`Io`] obtains the bytes. [`Io::read_all`] and [`Io::read`] are the asynchronous
//! leaves of the engine: futures that the reactor of the process completes, on any executor. Synchronous
//! callers use [`Io::read_now`] without any overhead.
//!
//! [`Io::read_batch`] has all its reads in flight at once, across files: by io_uring, or by threads where
//! the kernel refuses it ([`ReadDriver`]). A single read is always a plain system call.
//!
//! [`Io::start`] starts a read whose result is collected later ([`StartedRead`]).

mod batch;
#[cfg(test)]
mod faulty_ring;
mod flight;
mod helpers;
mod queued_reads;
mod reactor;
mod read_future;
mod started;
#[cfg(test)]
mod tests;
mod threads;
mod workers;

use std::fmt;
use std::sync::Arc;

use cairn_types::{Error, Result};
use rustix::io::Errno;

use crate::buffer::{Allocation, Buffer};
use crate::fs::RandomAccessFile;
use crate::posix::ring;
use crate::rate_limited_file::Limits;
use crate::read_queue::Transfer;
pub use helpers::{Offload, Promise, offload, promise, run_apart, run_soon};
use queued_reads::QueuedReads;
pub use read_future::{Read, Reads};

pub use crate::read_queue::{BatchRead, FileReads, ReadQueue, Started};
pub use started::StartedRead;

/// A range of a file to be read.
#[derive(Clone)]
pub struct ReadRequest {
    /// The file.
    pub file: Arc<dyn RandomAccessFile>,
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes. Must have been checked against the length of the file.
    pub len: usize,
    /// The memory to read into.
    pub allocation: Allocation,
}

impl ReadRequest {
    /// A request for `len` bytes at `offset` of `file`, into ordinary memory without room for a tail.
    #[must_use]
    pub fn new(file: Arc<dyn RandomAccessFile>, offset: u64, len: usize) -> ReadRequest {
        ReadRequest {
            file,
            offset,
            len,
            allocation: Allocation::default(),
        }
    }

    /// Reads the range, blocking, even if it has been started.
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
        Buffer::refilled(spent, self.len, self.allocation, |buf| {
            self.check(self.file.read_at(self.offset, buf)?)
        })
    }

    /// The read, if it has been started: executing the request then waits for it.
    #[must_use]
    pub fn started(&self) -> Option<&dyn Started> {
        self.file.started()
    }

    /// True if the range exceeds the maximum length of a buffer.
    fn is_too_long(&self) -> bool {
        self.len > Buffer::MAX_LEN
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

/// The way in which the reads of a batch are executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadDriver {
    /// By io_uring: one submission and one wait per batch, on a ring of the calling thread. If a ring cannot be
    /// created for a thread, its batches are executed by threads.
    Uring,
    /// By the calling thread and up to 32 others, which the process shares.
    Threads,
    /// One after another, by the calling thread.
    #[default]
    Blocking,
}

impl fmt::Display for ReadDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReadDriver::Uring => "uring",
            ReadDriver::Threads => "threads",
            ReadDriver::Blocking => "blocking",
        })
    }
}

/// The number of reads of a batch that miss the page cache, after which the batch no longer tries it.
const TRIED_MISSES: usize = 2;

/// The executor of read requests.
#[derive(Clone, Debug, Default)]
pub struct Io {
    driver: ReadDriver,
    /// The reason why io_uring is not used.
    refusal: Option<Errno>,
    /// True if the driver also executes reads that the page cache has. Used by tests.
    ignores_page_cache: bool,
    /// Rate limits of the reads.
    limits: Option<Arc<Limits>>,
    /// The number of threads that execute the reads of futures where io_uring is not used.
    threads: usize,
}

impl Io {
    /// Creates an executor that blocks the calling thread for each read.
    #[must_use]
    pub fn blocking() -> Io {
        Io::default()
    }

    /// Creates an executor with the `wanted` driver, by default io_uring. It uses threads if the kernel refuses to
    /// create a ring: because it is too old, or because of a system call filter or a limit of the process.
    #[must_use]
    pub fn with_driver(wanted: Option<ReadDriver>) -> Io {
        let wanted = wanted.unwrap_or(ReadDriver::Uring);
        let refusal = match wanted {
            ReadDriver::Uring => ring::probe().err(),
            ReadDriver::Threads | ReadDriver::Blocking => None,
        };
        Io {
            driver: match refusal {
                Some(_) => ReadDriver::Threads,
                None => wanted,
            },
            refusal,
            ..Io::default()
        }
    }

    /// Returns this executor with a driver that also executes reads that the page cache has.
    #[cfg(test)]
    pub(crate) fn ignoring_page_cache(self) -> Io {
        Io {
            ignores_page_cache: true,
            ..self
        }
    }

    /// The driver of batches.
    #[must_use]
    pub fn driver(&self) -> ReadDriver {
        self.driver
    }

    /// The reason why io_uring is not used although it was requested.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        self.refusal
            .map(|errno| std::io::Error::from(errno).to_string())
    }

    /// Returns an executor whose reads are limited by `limits`.
    #[must_use]
    pub fn limited(&self, limits: Limits) -> Io {
        Io {
            limits: Some(Arc::new(limits)),
            ..self.clone()
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

    /// [`Io::read_now`] that reuses the memory of `spent` if it is like new memory and not shared. Large
    /// allocations cost as much as the read itself.
    ///
    /// # Errors
    ///
    /// Those of [`ReadRequest::read_now`].
    pub fn read_into(&self, request: &ReadRequest, spent: Option<Buffer>) -> Result<Buffer> {
        if let Some(started) = request.started()
            && let Some(result) = started.collect()
        {
            return result;
        }
        self.wait(request.len);
        request.read_into(spent)
    }

    /// Executes `requests`, and returns after the last of them. Results are in the order of the requests. An
    /// error is that of its request only.
    #[must_use]
    pub fn read_batch(&self, requests: &[ReadRequest]) -> Vec<Result<Buffer>> {
        if requests.iter().any(|request| request.started().is_some()) {
            return self.read_others_first(requests);
        }
        if self.driver == ReadDriver::Blocking
            || requests.len() <= 1
            || requests.iter().any(ReadRequest::is_too_long)
        {
            return requests
                .iter()
                .map(|request| self.read_now(request))
                .collect();
        }
        if self.limits.is_some() {
            self.wait(requests.iter().map(|request| request.len).sum());
        }
        let mut started = QueuedReads::start(requests, ReadQueue::default());
        self.execute(&mut started.queue);
        started.finish(requests)
    }

    /// Executes `requests`, of which some have been started: the others first, then those.
    #[cold]
    fn read_others_first(&self, requests: &[ReadRequest]) -> Vec<Result<Buffer>> {
        let is_new = |request: &&ReadRequest| request.started().is_none();
        let new: Vec<_> = requests.iter().filter(is_new).cloned().collect();
        let mut results = self.read_batch(&new).into_iter();
        let unanswered = || Err(Error::aborted("a read of the batch was not executed"));
        let result = |request: &ReadRequest| match request.started() {
            Some(_) => self.read_now(request),
            None => results.next().unwrap_or_else(unanswered),
        };
        requests.iter().map(result).collect()
    }

    /// Starts `request`, to be collected later by [`StartedRead::request`]. Bytes in the page cache are
    /// read at once. Other reads are executed by threads of the process with either driver, because a ring
    /// belongs to its thread, and the caller may move to another or end before the read does. A driver that
    /// blocks executes the read when it is collected.
    #[must_use]
    pub fn start(&self, request: &ReadRequest) -> Arc<StartedRead> {
        self.start_into(request, None)
    }

    /// [`Io::start`] that reuses the memory of `spent` as [`Io::read_into`] does.
    #[must_use]
    pub fn start_into(&self, request: &ReadRequest, spent: Option<Buffer>) -> Arc<StartedRead> {
        if self.driver == ReadDriver::Blocking || request.is_too_long() {
            return Arc::new(StartedRead::deferred(request));
        }
        self.wait(request.len);
        Arc::new(StartedRead::start(request, spent, self))
    }

    /// Executes transfers that the page cache has: a plain system call is cheaper. After the first few misses, the rest
    /// of the batch is left to the driver. Returns the number of transfers that have not ended.
    fn execute_cached(&self, transfers: &mut [Option<Transfer>]) -> usize {
        let tries = match self.ignores_page_cache {
            true => 0,
            false => TRIED_MISSES,
        };
        let mut left = 0;
        for transfer in transfers.iter_mut().flatten() {
            let ended = transfer.has_ended() || (left < tries && transfer.execute_cached());
            left += usize::from(!ended);
        }
        left
    }

    /// Executes the transfers of `queue`, and waits for it.
    fn execute(&self, queue: &mut ReadQueue) {
        let transfers = queue.transfers();
        let left = self.execute_cached(transfers);
        let done = self.driver == ReadDriver::Uring
            && left > 1
            && ring::with_ring(|ring| {
                let done = batch::execute(ring, transfers);
                (done, done)
            })
            .unwrap_or(false);
        if !done && left > 0 {
            threads::execute(transfers);
        }
        queue.wait();
    }

    /// Returns an executor whose futures are executed by up to `threads` threads where io_uring is not used.
    /// The threads are those of the process: the largest number applies to all databases.
    #[must_use]
    pub fn with_threads(&self, threads: usize) -> Io {
        Io {
            threads,
            ..self.clone()
        }
    }

    /// Executes `request` without blocking the thread that polls, unless the driver is
    /// [`ReadDriver::Blocking`] or the reads are limited.
    ///
    /// # Errors
    ///
    /// Those of [`ReadRequest::read_now`].
    #[must_use]
    pub fn read(&self, request: ReadRequest) -> Read {
        Read::new(self.clone(), request)
    }

    /// [`Io::read`] of all `requests`, which are in flight together. Results are in the order of the requests.
    #[must_use]
    pub fn read_all(&self, requests: Vec<ReadRequest>) -> Reads {
        Reads::new(self.clone(), requests)
    }
}
