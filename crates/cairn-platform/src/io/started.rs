//! A read that was started, and is collected later.
//!
//! The read owns its memory and descriptor, as every read of a batch does, and the threads that execute it own
//! them while they do. It can therefore be dropped at any time, collected by any thread, and its thread may
//! end. A forked child cannot collect a read of its parent: it reads again.

use std::fmt;

use cairn_types::Result;

use super::threads::Background;
use super::{BatchRead, FileReads, ReadQueue, ReadRequest};
use crate::buffer::Buffer;
use crate::posix::process::Process;
use crate::read_queue::Transfer;
use crate::sync::Mutex;

/// A read that was started by [`Io::start`](super::Io::start).
pub struct StartedRead {
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
    pub(super) fn deferred() -> StartedRead {
        StartedRead {
            state: Mutex::new(None),
        }
    }

    /// Starts `request`. With `ignores_page_cache`, cached bytes are read by threads, too.
    pub(super) fn start(request: &ReadRequest, ignores_page_cache: bool) -> StartedRead {
        let mut queue = ReadQueue::in_background();
        let read = BatchRead::new(request.offset, request.len, request.room);
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
            state: Mutex::new(Some(Box::new(in_flight))),
        }
    }

    /// True if the read can be collected without waiting.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let state = self.state.lock();
        let Some(in_flight) = &*state else {
            return false;
        };
        let background = in_flight.background.as_ref();
        in_flight.process.is_this()
            && background.is_none_or(Background::has_ended)
            && in_flight.queue.is_due()
    }

    /// Waits for the read, which was started for `request`, and returns its result. `None` if there is nothing
    /// to collect: it was collected before, deferred, or started by the parent of this process.
    pub(super) fn collect(&self, request: &ReadRequest) -> Option<Result<Buffer>> {
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
        request.file.finish_reads(&mut reads, &mut queue);
        let read = reads.reads.pop()?;
        let (got, memory) = read.into_memory();
        let checked = got.and_then(|got| request.check(got));
        Some(checked.map(|()| Buffer::of(memory, request.len)))
    }
}
