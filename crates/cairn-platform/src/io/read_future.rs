//! Reads as futures.
//!
//! A future starts its reads at its first poll. If they need nothing but memory or the page cache, it is
//! complete then. Otherwise it leaves their transfers to the reactor of the process and completes after the
//! last of them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use cairn_types::{Error, Result};

use super::flight::Flight;
use super::reactor::{Call, Part, Reactor};
use super::{FileReads, Io, ReadDriver, ReadQueue, ReadRequest, threads};
use crate::buffer::Buffer;
use crate::posix::Process;
use crate::read_queue::BatchRead;

/// A batch of reads in flight; see [`Io::read_all`].
///
/// If it is dropped, reads that have not started are cancelled, and the memory of the others is freed when
/// they end.
pub struct Reads(State);

enum State {
    Fresh(Io, Vec<ReadRequest>),
    Flying(Box<Started>, Arc<Flight<Part>>, Process),
    Done,
}

/// Reads that were started.
struct Started {
    requests: Vec<ReadRequest>,
    files: Vec<FileReads>,
    queue: ReadQueue,
}

impl std::fmt::Debug for Reads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match &self.0 {
            State::Fresh(..) => "fresh",
            State::Flying(..) => "in flight",
            State::Done => "done",
        };
        f.debug_tuple("Reads").field(&state).finish()
    }
}

fn same_file(a: &ReadRequest, b: &ReadRequest) -> bool {
    Arc::ptr_eq(&a.file, &b.file)
}

impl Started {
    fn new(requests: Vec<ReadRequest>) -> Started {
        let mut queue = ReadQueue::default();
        let start = |of_file: &[ReadRequest]| {
            let read =
                |request: &ReadRequest| BatchRead::new(request.offset, request.len, request.room);
            let mut reads = FileReads::new(of_file.iter().map(read).collect());
            queue.add_file();
            of_file[0].file.start_reads(&mut reads, &mut queue);
            reads
        };
        let mut files = Vec::with_capacity(requests.chunk_by(same_file).count());
        files.extend(requests.chunk_by(same_file).map(start));
        Started {
            requests,
            files,
            queue,
        }
    }

    /// The results, once nothing is waited for.
    fn finish(mut self) -> Vec<Result<Buffer>> {
        let mut results = Vec::with_capacity(self.requests.len());
        let of_files = self.requests.chunk_by(same_file);
        for (reads, of_file) in self.files.iter_mut().zip(of_files) {
            of_file[0].file.finish_reads(reads, &mut self.queue);
            for (read, request) in reads.reads.drain(..).zip(of_file) {
                let (got, memory) = read.into_memory();
                let checked = got.and_then(|got| request.check(got));
                results.push(checked.map(|()| Buffer::of(memory, request.len)));
            }
        }
        results
    }

    /// Executes what the page cache has. Returns the number of transfers that are left.
    fn execute_cached(&mut self, io: &Io) -> usize {
        let mut left = 0;
        for transfer in self.queue.transfers().iter_mut().flatten() {
            let ended = transfer.has_ended()
                || (!io.ignores_page_cache
                    && left < super::TRIED_MISSES
                    && transfer.execute_cached());
            left += usize::from(!ended);
        }
        left
    }

    /// Leaves everything that is waited for to the reactor.
    fn fly(&mut self, io: &Io, transfers: usize, until: Option<u64>) -> Arc<Flight<Part>> {
        let flight = Arc::new(Flight::new(transfers + usize::from(until.is_some())));
        let reactor = Reactor::of_process();
        let mut calls = Vec::with_capacity(transfers);
        for (ticket, place) in self.queue.transfers().iter_mut().enumerate() {
            if let Some(transfer) = place.take_if(|transfer| !transfer.has_ended()) {
                let flight = flight.clone();
                calls.push(Call {
                    flight,
                    ticket,
                    transfer,
                });
            }
        }
        if let Some(nanos) = until {
            reactor.land_at(nanos, flight.clone());
        }
        match io.driver {
            _ if calls.is_empty() => {}
            ReadDriver::Uring => reactor.submit(calls),
            ReadDriver::Threads | ReadDriver::Blocking => reactor.execute(calls, io.threads),
        }
        flight
    }
}

impl Reads {
    pub(super) fn new(io: Io, requests: Vec<ReadRequest>) -> Reads {
        Reads(State::Fresh(io, requests))
    }

    /// Starts the reads and loses them, as if the ring had failed.
    #[cfg(test)]
    pub(super) fn lose_all(&mut self) {
        if let State::Fresh(_, requests) = std::mem::replace(&mut self.0, State::Done) {
            let mut started = Box::new(Started::new(requests));
            started.queue.transfers().fill_with(|| None);
            let flight = Arc::new(Flight::new(1));
            flight.land(None);
            self.0 = State::Flying(started, flight, Process::this());
        }
    }

    /// Starts the reads. Returns the results if nothing has to be waited for.
    fn start(&mut self, io: &Io, requests: Vec<ReadRequest>) -> Option<Vec<Result<Buffer>>> {
        let blocks = io.driver == ReadDriver::Blocking
            || io.limits.is_some()
            || requests.iter().any(ReadRequest::is_too_long);
        if blocks {
            let read = |request: &ReadRequest| io.read_now(request);
            return Some(requests.iter().map(read).collect());
        }
        let mut started = Box::new(Started::new(requests));
        let left = started.execute_cached(io);
        let until = match started.queue.until() {
            Ok(until) => until,
            // A simulated clock advances while its time is waited for.
            Err(()) => {
                threads::execute(started.queue.transfers());
                started.queue.wait();
                return Some(started.finish());
            }
        };
        if left == 0 && until.is_none() {
            return Some(started.finish());
        }
        let flight = started.fly(io, left, until);
        self.0 = State::Flying(started, flight, Process::this());
        None
    }
}

impl Future for Reads {
    type Output = Vec<Result<Buffer>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Fresh(..) = &self.0
            && let State::Fresh(io, requests) = std::mem::replace(&mut self.0, State::Done)
            && let Some(results) = self.start(&io, requests)
        {
            return Poll::Ready(results);
        }
        let State::Flying(started, flight, process) = &mut self.0 else {
            panic!("a future is not polled after its completion");
        };
        if process.is_this() {
            let Poll::Ready(landed) = flight.poll(context) else {
                return Poll::Pending;
            };
            for (ticket, transfer) in landed {
                started.queue.transfers()[ticket] = Some(transfer);
            }
        } else {
            // The reads belong to the parent.
            let forked = |request: &ReadRequest| {
                Err(Error::not_supported(format!(
                    "a read of {} was started by the parent of this forked process",
                    request.file.path().display()
                )))
            };
            let results = started.requests.iter().map(forked).collect();
            if let State::Flying(started, flight, _) = std::mem::replace(&mut self.0, State::Done) {
                std::mem::forget((started, flight));
            }
            return Poll::Ready(results);
        }
        match std::mem::replace(&mut self.0, State::Done) {
            State::Flying(started, ..) => Poll::Ready(started.finish()),
            _ => unreachable!("it is in flight"),
        }
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        let State::Flying(_, flight, process) = &self.0 else {
            return;
        };
        match process.is_this() {
            true => flight.abandon(),
            // A thread of the parent may have held the locks.
            false => std::mem::forget(std::mem::replace(&mut self.0, State::Done)),
        }
    }
}

/// A read in flight; see [`Io::read`].
#[derive(Debug)]
pub struct Read(Reads);

impl Read {
    pub(super) fn new(io: Io, request: ReadRequest) -> Read {
        Read(Reads::new(io, vec![request]))
    }
}

impl Future for Read {
    type Output = Result<Buffer>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Buffer>> {
        let read = Pin::new(&mut self.0).poll(context);
        read.map(|mut results| results.pop().expect("a read has a result"))
    }
}
