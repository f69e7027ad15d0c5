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
use super::queued_reads::QueuedReads;
use super::reactor::{self, Call, Part};
use super::{Io, ReadDriver, ReadQueue, ReadRequest, threads};
use crate::buffer::Buffer;
use crate::posix::Process;
use crate::read_queue::Transfer;

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
    reads: QueuedReads,
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

impl Started {
    fn new(requests: Vec<ReadRequest>) -> Started {
        Started {
            reads: QueuedReads::start(&requests, ReadQueue::default()),
            requests,
        }
    }

    fn transfers(&mut self) -> &mut [Option<Transfer>] {
        self.reads.queue.transfers()
    }

    /// The results, once nothing is waited for.
    fn finish(self) -> Vec<Result<Buffer>> {
        self.reads.finish(&self.requests)
    }

    /// Leaves everything that is waited for to the reactor.
    fn fly(&mut self, io: &Io, transfers: usize, until: Option<u64>) -> Arc<Flight<Part>> {
        let flight = Arc::new(Flight::new(transfers + usize::from(until.is_some())));
        let mut calls = Vec::with_capacity(transfers);
        for (ticket, place) in self.transfers().iter_mut().enumerate() {
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
            reactor::land_at(nanos, flight.clone());
        }
        match io.driver {
            _ if calls.is_empty() => {}
            ReadDriver::Uring => reactor::submit(calls),
            ReadDriver::Threads | ReadDriver::Blocking => reactor::execute(calls, io.threads),
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
            started.transfers().fill_with(|| None);
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
        let left = io.execute_cached(started.transfers());
        let until = match started.reads.queue.until() {
            Ok(until) => until,
            // A simulated clock advances while its time is waited for.
            Err(()) => {
                threads::execute(started.transfers());
                started.reads.queue.wait();
                return Some(started.finish());
            }
        };
        if left == 0 && until.is_none() {
            return Some(started.finish());
        }
        // Thousands of reads may wait.
        started.reads.shrink();
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
                started.transfers()[ticket] = Some(transfer);
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
