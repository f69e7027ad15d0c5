//! Batches of reads.
//!
//! A batch runs in three steps, so that the reads of all its files are in flight at once:
//!
//! 1. [`start_reads`](crate::RandomAccessFile::start_reads) of each file puts its reads into one
//!    [`ReadQueue`], as *transfers* that the driver executes, and as times to wait for. A file that needs
//!    neither, such as one in memory, executes its reads at once.
//! 2. The driver executes all transfers of the queue and waits for them once.
//! 3. [`finish_reads`](crate::RandomAccessFile::finish_reads) of each file takes its transfers back.
//!
//! A wrapper calls the same methods of its target, and does its own work before and after: it checks permission or
//! records the time in the first step, and decrypts or counts in the third.
//!
//! Every read owns its memory, and every transfer its memory and descriptor. They are not freed or closed while the
//! kernel or another thread uses them, even if the caller panics or is dropped.

use std::fs::File;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::time::Duration;

use cairn_types::{Error, Result};
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2, retry_on_intr};

use crate::buffer::{Allocation, Buffer, Memory, pool};
use crate::clock::Clock;
use crate::posix::memory_kind::MemoryKind;

/// A read of a batch, with the memory that it fills.
pub struct BatchRead {
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes read, after the read.
    pub got: Result<usize>,
    len: usize,
    kind: MemoryKind,
    /// Empty while a transfer has it.
    memory: Memory,
    /// The transfer that executes the read.
    transfer: Option<u32>,
}

impl BatchRead {
    /// A read of `len` bytes at `offset` into memory of `allocation`.
    #[must_use]
    pub fn new(offset: u64, len: usize, allocation: Allocation) -> BatchRead {
        BatchRead::new_into(offset, len, allocation, None)
    }

    /// [`BatchRead::new`], reusing the memory of `spent` if it is like new memory and not shared.
    pub(crate) fn new_into(
        offset: u64,
        len: usize,
        allocation: Allocation,
        spent: Option<Buffer>,
    ) -> BatchRead {
        BatchRead {
            offset,
            got: Ok(0),
            len,
            kind: allocation.kind,
            memory: Buffer::spent_memory(spent, len, allocation),
            transfer: None,
        }
    }

    /// The number of bytes to read.
    #[must_use]
    pub fn wanted(&self) -> usize {
        self.len
    }

    /// True if offset, length and memory are multiples of `alignment`.
    pub(crate) fn is_aligned(&self, alignment: usize) -> bool {
        self.memory.as_ptr().align_offset(alignment) == 0
            && self.len.is_multiple_of(alignment)
            && self.offset.is_multiple_of(alignment as u64)
    }

    /// The bytes that were read.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let got = *self.got.as_ref().unwrap_or(&0);
        self.memory.get_mut(..got).unwrap_or_default()
    }

    /// Executes the read by `read`, with its offset and destination.
    pub fn execute(&mut self, read: impl FnOnce(u64, &mut [u8]) -> Result<usize>) {
        self.got = read(self.offset, &mut self.memory[..self.len]);
    }

    /// Fails the read.
    pub fn fail(&mut self, error: Error) {
        self.got = Err(error);
    }

    /// The memory, of which the first [`BatchRead::wanted`] bytes are the destination.
    pub(crate) fn into_memory(self) -> (Result<usize>, Memory) {
        (self.got, self.memory)
    }
}

impl std::fmt::Debug for BatchRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchRead")
            .field("offset", &self.offset)
            .field("len", &self.len)
            .field("got", &self.got)
            .finish_non_exhaustive()
    }
}

/// The reads of one file in a batch.
#[derive(Debug, Default)]
pub struct FileReads {
    /// The reads.
    pub reads: Vec<BatchRead>,
    notes: Vec<u64>,
}

impl FileReads {
    /// A batch of `reads`.
    #[must_use]
    pub fn new(reads: Vec<BatchRead>) -> FileReads {
        FileReads {
            reads,
            notes: Vec::new(),
        }
    }

    /// Keeps a number from the first step for the third, such as the time. Numbers are taken in reverse
    /// order, like the calls of nested wrappers.
    pub fn note(&mut self, number: u64) {
        self.notes.push(number);
    }

    /// Takes the last number kept by [`FileReads::note`].
    ///
    /// # Panics
    ///
    /// Panics if there is none.
    pub fn take_note(&mut self) -> u64 {
        self.notes
            .pop()
            .expect("a wrapper takes as many notes as it made")
    }

    /// Frees the memory that the notes do not use.
    pub(crate) fn shrink(&mut self) {
        self.notes.shrink_to_fit();
    }

    /// Executes the reads one after another by `read`, with offset and destination of each.
    pub fn execute_each(&mut self, mut read: impl FnMut(u64, &mut [u8]) -> Result<usize>) {
        for one in &mut self.reads {
            one.execute(&mut read);
        }
    }

    /// Fails all reads.
    pub fn fail_all(&mut self, error: &Error) {
        for read in &mut self.reads {
            read.fail(error.clone());
        }
    }

    /// The number of reads that succeeded, and their bytes.
    #[must_use]
    pub fn done(&self) -> (u64, u64) {
        let got = self.reads.iter().filter_map(|read| read.got.as_ref().ok());
        got.fold((0, 0), |(reads, bytes), &got| {
            (reads + 1, bytes + got as u64)
        })
    }
}

/// A read that was started, and stands for its file in a request.
pub trait Started: Send + Sync {
    /// True if the read can be collected without waiting.
    fn has_ended(&self) -> bool;
    /// Waits for the read and returns its result. `None` if there is nothing to collect: it was collected
    /// before, deferred, or started by the parent of this process.
    fn collect(&self) -> Option<Result<Buffer>>;
}

/// The place of a transfer in its queue.
pub(crate) type Ticket = usize;

/// The transfers and times that a batch waits for.
#[derive(Default)]
pub struct ReadQueue {
    /// `None` if taken back.
    transfers: Vec<Option<Transfer>>,
    /// Times, by [`Clock::monotonic_nanos`], before which the batch does not end.
    times: Vec<(Arc<dyn Clock>, u64)>,
    /// The number of files with reads in the batch.
    files: u32,
    /// True if the caller continues between start and end of the batch.
    in_background: bool,
}

impl std::fmt::Debug for ReadQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadQueue")
            .field("transfers", &self.transfers.len())
            .finish_non_exhaustive()
    }
}

impl ReadQueue {
    /// Delays the end of the batch until `clock` has reached `nanos`.
    pub fn wait_until(&mut self, clock: &Arc<dyn Clock>, nanos: u64) {
        let same = |(other, _): &&mut (Arc<dyn Clock>, u64)| Arc::ptr_eq(other, clock);
        match self.times.iter_mut().find(same) {
            Some((_, until)) => *until = nanos.max(*until),
            None => {
                self.times.reserve_exact(1);
                self.times.push((clock.clone(), nanos));
            }
        }
    }

    /// Adds a file to the batch.
    pub(crate) fn add_file(&mut self) {
        self.files += 1;
    }

    /// The share of one file in `nanos`, a time in which the reads of all files of the batch were in flight.
    #[must_use]
    pub fn share(&self, nanos: u64) -> u64 {
        nanos / u64::from(self.files.max(1))
    }

    /// A queue of reads whose caller continues between their start and their end.
    pub(crate) fn in_background() -> ReadQueue {
        ReadQueue {
            in_background: true,
            ..ReadQueue::default()
        }
    }

    /// True if the caller continues between start and end of the batch, perhaps on another thread. Its CPU time
    /// in between is not that of the reads.
    #[must_use]
    pub fn is_in_background(&self) -> bool {
        self.in_background
    }

    /// Makes `read` a transfer from `file`. With `aligned`, the file is read with direct I/O, and the memory and
    /// offset of the read are aligned.
    pub(crate) fn push(&mut self, file: &Arc<File>, read: &mut BatchRead, aligned: bool) {
        let memory = std::mem::take(&mut read.memory);
        let transfer = Transfer::new(file.clone(), read.offset, memory, 0, read.len, aligned);
        self.add(read, transfer);
    }

    /// Makes `read` a transfer of `len` bytes at `offset` of `file` into other memory, which is aligned for direct
    /// I/O.
    pub(crate) fn push_aligned(
        &mut self,
        file: &Arc<File>,
        read: &mut BatchRead,
        (offset, len): (u64, usize),
        alignment: usize,
    ) {
        let memory = pool::memory(len + alignment, read.kind);
        let start = memory.as_ptr().align_offset(alignment);
        assert!(start < alignment, "a byte pointer can be aligned");
        let transfer = Transfer::new(file.clone(), offset, memory, start, len, true);
        self.add(read, transfer);
    }

    fn add(&mut self, read: &mut BatchRead, transfer: Transfer) {
        if self.transfers.is_empty() {
            // Most queues of awaited reads have one, and thousands may wait.
            self.transfers.reserve_exact(1);
        }
        let ticket = u32::try_from(self.transfers.len());
        read.transfer = Some(ticket.expect("a batch has fewer than 2^32 reads"));
        self.transfers.push(Some(transfer));
    }

    /// Takes back the memory of `read` from its transfer. Returns the bytes of the transfer if they are in
    /// other memory. `None` if the read was no transfer.
    pub(crate) fn take(&mut self, read: &mut BatchRead) -> Option<Transferred> {
        let ticket = read.transfer.take()? as Ticket;
        let transfer = self.transfers.get_mut(ticket)?.take();
        // The transfer is lost if the ring failed while the kernel used its memory.
        let Some(transfer) = transfer else {
            if read.memory.len() < read.len {
                read.memory = pool::memory(read.len, read.kind);
            }
            return Some(Transferred {
                got: Err(Errno::IO),
                elsewhere: None,
            });
        };
        let got = transfer.outcome();
        if read.memory.is_empty() && transfer.start == 0 {
            read.memory = transfer.memory;
            return Some(Transferred {
                got,
                elsewhere: None,
            });
        }
        Some(Transferred {
            got,
            elsewhere: Some((transfer.memory, transfer.start)),
        })
    }

    /// The transfers.
    pub(crate) fn transfers(&mut self) -> &mut [Option<Transfer>] {
        &mut self.transfers
    }

    /// The latest of the times, by the system's monotonic clock. Fails if one is by a clock that is not
    /// [real](Clock::is_real).
    pub(crate) fn until(&self) -> std::result::Result<Option<u64>, ()> {
        match self.times.iter().all(|(clock, _)| clock.is_real()) {
            true => Ok(self.times.iter().map(|(_, until)| *until).max()),
            false => Err(()),
        }
    }

    /// True if the times have come.
    pub(crate) fn is_due(&self) -> bool {
        let come = |(clock, until): &(Arc<dyn Clock>, u64)| clock.monotonic_nanos() >= *until;
        self.times.iter().all(come)
    }

    /// Removes the times. The caller waits for them.
    pub(crate) fn forget_times(&mut self) {
        self.times = Vec::new();
    }

    /// Waits for the times.
    pub(crate) fn wait(&mut self) {
        for (clock, until) in self.times.drain(..) {
            sleep_until(&*clock, until);
        }
    }
}

/// Blocks until `clock` has reached `nanos`.
pub(crate) fn sleep_until(clock: &dyn Clock, nanos: u64) {
    loop {
        let left = nanos.saturating_sub(clock.monotonic_nanos());
        if left == 0 {
            return;
        }
        clock.sleep(Duration::from_nanos(left));
    }
}

/// The result of a transfer.
pub(crate) struct Transferred {
    /// The number of bytes.
    pub(crate) got: std::result::Result<usize, Errno>,
    /// The memory of the bytes, and their start there, if it is not the destination of the read.
    pub(crate) elsewhere: Option<(Memory, usize)>,
}

/// The unit of direct I/O, at which a short transfer can be continued.
const ALIGNED: usize = 4096;

/// The maximum length of one system call, in bytes.
const LARGEST_CALL: usize = 1 << 30;

/// The number of times that a transfer is repeated because the kernel lacked resources, before it is executed by a
/// blocking call.
const REPEATS: u8 = 16;

/// A read of a descriptor, which may take several system calls. Owns the descriptor and the memory.
pub(crate) struct Transfer {
    file: Arc<File>,
    offset: u64,
    memory: Memory,
    /// The destination in `memory`.
    start: usize,
    len: usize,
    aligned: bool,
    /// The bytes read so far.
    done: usize,
    ended: bool,
    repeats: u8,
    error: Option<Errno>,
}

impl Transfer {
    pub(crate) fn new(
        file: Arc<File>,
        offset: u64,
        memory: Memory,
        start: usize,
        len: usize,
        aligned: bool,
    ) -> Transfer {
        assert!(
            start + len <= memory.len(),
            "the destination lies in memory"
        );
        Transfer {
            file,
            offset,
            memory,
            start,
            len,
            aligned,
            done: 0,
            ended: false,
            repeats: 0,
            error: None,
        }
    }

    /// The descriptor, the next offset, and the rest of the destination, for the next system call.
    pub(crate) fn next(&mut self) -> (&File, u64, &mut [u8]) {
        let from = self.start + self.done;
        let to = (self.start + self.len).min(from + LARGEST_CALL);
        let offset = self.offset.saturating_add(self.done as u64);
        (&self.file, offset, &mut self.memory[from..to])
    }

    /// Records the result of a system call. Returns true if the transfer has ended.
    pub(crate) fn advance(&mut self, result: std::result::Result<usize, Errno>) -> bool {
        match result {
            Ok(0) => self.ended = true,
            Ok(more) => {
                assert!(
                    more <= self.len - self.done,
                    "no more is read than was asked for"
                );
                self.done += more;
                // Direct I/O returns an unaligned length only at the end of the file, and could not continue
                // from there.
                let at_end = self.aligned && !self.done.is_multiple_of(ALIGNED);
                self.ended = self.done == self.len || at_end;
            }
            Err(Errno::INTR | Errno::AGAIN) if self.repeats < REPEATS => self.repeats += 1,
            Err(Errno::INTR | Errno::AGAIN) => self.execute(),
            Err(errno) => {
                self.error = Some(errno);
                self.ended = true;
            }
        }
        self.ended
    }

    /// Executes the transfer as far as the page cache has the bytes. Returns true if it has ended.
    pub(crate) fn execute_cached(&mut self) -> bool {
        while !self.ended && !self.aligned {
            let (file, offset, bytes) = self.next();
            let into = &mut [IoSliceMut::new(bytes)];
            // After any error, including that of a file system or kernel that does not support the flag, the regular
            // read is attempted.
            let Ok(got) = preadv2(file, into, offset, ReadWriteFlags::NOWAIT) else {
                break;
            };
            self.advance(Ok(got));
        }
        self.ended
    }

    /// Executes the transfer on the calling thread, as far as it has not been executed.
    pub(crate) fn execute(&mut self) {
        while !self.ended {
            let (file, offset, bytes) = self.next();
            let result = retry_on_intr(|| pread(file, &mut *bytes, offset));
            match result {
                // Unlike a read by a ring, a blocking read does not fail for lack of resources.
                Err(errno) => {
                    self.error = Some(errno);
                    self.ended = true;
                }
                Ok(got) => {
                    self.advance(Ok(got));
                }
            }
        }
    }

    /// The destination.
    #[cfg(test)]
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }

    /// True if nothing is left to execute.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// The number of bytes read, or the error.
    pub(crate) fn outcome(&self) -> std::result::Result<usize, Errno> {
        match self.error {
            Some(errno) => Err(errno),
            None => Ok(self.done),
        }
    }
}

/// A queue of transfers to the kernel, and of their completions.
///
/// The ring owns a transfer from [`Ring::push`] until [`Ring::completed`] returns it.
pub(crate) trait Ring {
    /// Adds a transfer to the next submission. Returns it if the ring is full.
    fn push(&mut self, ticket: Ticket, transfer: Transfer) -> std::result::Result<(), Transfer>;
    /// Submits what was added, and waits for `wanted` completions. May return early.
    fn submit_and_wait(&mut self, wanted: usize) -> std::result::Result<(), Errno>;
    /// A transfer whose system call has completed, and its result.
    fn completed(&mut self) -> Option<(Ticket, Transfer, std::result::Result<usize, Errno>)>;
}
