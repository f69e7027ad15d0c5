//! A read that was started, and is collected later.
//!
//! The read owns its memory and descriptor, as every read of a batch does, and the threads that execute it own
//! them while they do. It can therefore be dropped at any time, collected by any thread, and its thread may
//! end. A forked child cannot collect a read of its parent: it reads again.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use cairn_types::Result;

use super::queued_reads::QueuedReads;
use super::threads::Background;
use super::{FileReads, Io, ReadQueue, ReadRequest};
use crate::buffer::Buffer;
use crate::fs::{Access, RandomAccessFile};
use crate::read_queue::Started;
use crate::sync::Mutex;

/// A read that was started by [`Io::start`](super::Io::start). It takes the place of the file in the request by
/// which it is collected, so that requests carry nothing for it.
pub struct StartedRead {
    request: ReadRequest,
    /// `None` if there is nothing to collect: the read is executed as if it had not been started.
    state: Mutex<Option<Box<InFlight>>>,
}

struct InFlight {
    reads: QueuedReads,
    /// `None` if the transfers have ended.
    background: Option<Background>,
}

impl fmt::Debug for StartedRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartedRead").finish_non_exhaustive()
    }
}

impl StartedRead {
    /// A read that is executed when it is collected.
    pub(super) fn deferred(request: &ReadRequest) -> StartedRead {
        StartedRead {
            request: request.clone(),
            state: Mutex::new(None),
        }
    }

    /// Starts `request`, into the memory of `spent` if it fits. Threads execute the part that `io` does not find in the
    /// page cache.
    pub(super) fn start(request: &ReadRequest, spent: Option<Buffer>, io: &Io) -> StartedRead {
        let mut reads = QueuedReads::start_one(request, spent, ReadQueue::in_background());
        let left = io.execute_cached(reads.queue.transfers());
        let background = (left > 0).then(|| Background::start(reads.queue.transfers()));
        let in_flight = InFlight { reads, background };
        StartedRead {
            request: request.clone(),
            state: Mutex::new(Some(Box::new(in_flight))),
        }
    }

    /// The request that collects the read.
    #[must_use]
    pub fn request(self: &Arc<StartedRead>) -> ReadRequest {
        ReadRequest {
            file: self.clone(),
            ..self.request
        }
    }
}

impl Started for StartedRead {
    fn has_ended(&self) -> bool {
        let state = self.state.lock();
        let Some(in_flight) = &*state else {
            return false;
        };
        let background = in_flight.background.as_ref();
        background.is_none_or(|it| it.is_own() && it.has_ended()) && in_flight.reads.queue.is_due()
    }

    fn collect(&self) -> Option<Result<Buffer>> {
        let in_flight = self.state.lock().take()?;
        if in_flight.background.as_ref().is_some_and(|it| !it.is_own()) {
            // The threads of the parent write to its memory, not to the copy that the child has.
            std::mem::forget(in_flight);
            return None;
        }
        let mut reads = in_flight.reads;
        if let Some(background) = in_flight.background {
            background.finish(reads.queue.transfers());
        }
        reads.queue.wait();
        reads.finish(std::slice::from_ref(&self.request)).pop()
    }
}

impl RandomAccessFile for StartedRead {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.request.file.read_at(offset, buf)
    }

    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.request.file.read_up_to_end(offset, buf)
    }

    fn start_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        self.request.file.start_reads(reads, queue);
    }

    fn finish_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        self.request.file.finish_reads(reads, queue);
    }

    fn started(&self) -> Option<&dyn Started> {
        Some(self)
    }

    fn is_blank(&self, offset: u64, len: usize) -> Result<bool> {
        self.request.file.is_blank(offset, len)
    }

    fn len(&self) -> Result<u64> {
        self.request.file.len()
    }

    fn path(&self) -> &Path {
        self.request.file.path()
    }

    fn prefetch(&self, offset: u64, len: usize) -> bool {
        self.request.file.prefetch(offset, len)
    }

    fn advise(&self, access: Access) {
        self.request.file.advise(access);
    }

    fn drop_cached(&self) {
        self.request.file.drop_cached();
    }
}
