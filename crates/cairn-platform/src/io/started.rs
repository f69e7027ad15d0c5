//! A read that was started, and is collected later.
//!
//! The read owns its memory and descriptor, as every read of a batch does, and the threads that execute it own
//! them while they do. It can therefore be dropped at any time, collected by any thread, and its thread may
//! end. A forked child cannot collect a read of its parent: it reads again.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use cairn_types::Result;

use super::threads::Background;
use super::{BatchRead, FileReads, ReadQueue, ReadRequest};
use crate::buffer::Buffer;
use crate::fs::{Access, RandomAccessFile};
use crate::posix::process::Process;
use crate::read_queue::{Started, Transfer};
use crate::sync::Mutex;

/// A read that was started by [`Io::start`](super::Io::start). It takes the place of the file in the request by
/// which it is collected, so that requests carry nothing for it.
pub struct StartedRead {
    request: ReadRequest,
    /// `None` if there is nothing to collect: the read is executed as if it had not been started.
    state: Mutex<Option<Box<InFlight>>>,
}

struct InFlight {
    process: Process,
    reads: FileReads,
    queue: ReadQueue,
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

    /// Starts `request`, into the memory of `spent` if it fits. With `ignores_page_cache`, cached bytes are read by
    /// threads, too.
    pub(super) fn start(
        request: &ReadRequest,
        spent: Option<Buffer>,
        ignores_page_cache: bool,
    ) -> StartedRead {
        let mut queue = ReadQueue::in_background();
        let read = BatchRead::new_into(request.offset, request.len, request.room, spent);
        let mut reads = FileReads::new(vec![read]);
        queue.add_file();
        request.file.start_reads(&mut reads, &mut queue);
        let mut left = false;
        for transfer in queue.transfers().iter_mut().flatten() {
            left |= ignores_page_cache || !transfer.execute_cached();
        }
        let mut background = None;
        if left {
            background = Background::start(queue.transfers());
            if background.is_none() {
                let transfers = queue.transfers().iter_mut().flatten();
                transfers.for_each(Transfer::execute);
            }
        }
        let in_flight = InFlight {
            process: Process::this(),
            reads,
            queue,
            background,
        };
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
        in_flight.process.is_this()
            && background.is_none_or(Background::has_ended)
            && in_flight.queue.is_due()
    }

    fn collect(&self) -> Option<Result<Buffer>> {
        let in_flight = self.state.lock().take()?;
        if !in_flight.process.is_this() {
            // The memory of its transfers is the parent's to write to; a copy of the child's is never used.
            std::mem::forget(in_flight);
            return None;
        }
        let InFlight {
            mut reads,
            mut queue,
            background,
            ..
        } = *in_flight;
        if let Some(background) = background {
            background.finish(queue.transfers());
        }
        queue.wait();
        let file = &self.request.file;
        file.finish_reads(&mut reads, &mut queue);
        let read = reads.reads.pop()?;
        let (got, memory) = read.into_memory();
        let checked = got.and_then(|got| self.request.check(got));
        Some(checked.map(|()| Buffer::of(memory, self.request.len)))
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
