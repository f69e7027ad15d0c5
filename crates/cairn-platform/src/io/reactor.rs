//! Reads in flight that no thread waits for.
//!
//! A process has one *reactor*, whose threads start when they are needed:
//!
//! - one thread with a ring of its own. Any thread leaves transfers in its inbox; it submits all of them with
//!   one call, together with a read of a *bell*, an event descriptor that ends its wait when the inbox is no
//!   longer empty. Transfers that exceed the ring wait in a queue.
//! - where the kernel refuses a ring, or `io_mode` demands it, threads that execute one transfer at a time,
//!   as many as the largest `read_io_executor_threads` of the databases opened;
//! - one thread for times to wait for: the delays of [`RemoteFileSystem`](crate::RemoteFileSystem).
//!
//! A transfer, with its memory and descriptor, is owned by the reactor until it has ended, whatever becomes of
//! the future that waits for it. A transfer whose future was dropped before it was submitted is not executed.
//!
//! In a forked child, the threads and the ring belong to the parent: the thread that polls waits for the reads.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use super::batch::Refusals;
use super::flight::Flight;
use super::workers::{Workers, contained};
use crate::buffer::Memory;
use crate::clock::Clock;
use crate::executor::Priority;
use crate::posix::SystemClock;
use crate::posix::memory_kind::MemoryKind;
use crate::posix::process::ThreadsOfProcess;
use crate::posix::ring::KernelRing;
use crate::read_queue::{Ring, Ticket, Transfer};
use crate::sync::{AtomicUsize, Mutex, Ordering};
use crate::timer::Timers;

/// The number of reads that the ring of the reactor has in flight.
const ENTRIES: u32 = 512;
/// The maximum number of threads that execute transfers.
const MOST_THREADS: usize = 256;

/// A part of a flight: a transfer and its place in the queue of its reads.
pub(super) type Part = (Ticket, Transfer);

/// A transfer to execute, and the flight that it is a part of.
pub(super) struct Call {
    pub(super) flight: Arc<Flight<Part>>,
    pub(super) ticket: Ticket,
    pub(super) transfer: Transfer,
}

impl Call {
    /// Executes the transfer on the calling thread.
    fn execute(mut self) {
        if !self.flight.is_abandoned() {
            self.transfer.execute();
        }
        self.land();
    }

    fn land(self) {
        self.flight.land(Some((self.ticket, self.transfer)));
    }
}

/// Executes `calls` by the ring of the process.
pub(super) fn submit(calls: Vec<Call>) {
    match Reactor::of_process() {
        Some(reactor) => reactor.submit(calls),
        None => execute_here(calls),
    }
}

/// Executes `calls` by up to `threads` threads, or as many as an earlier call has allowed.
pub(super) fn execute(calls: Vec<Call>, threads: usize) {
    match Reactor::of_process() {
        Some(reactor) => reactor.execute(calls, threads),
        None => execute_here(calls),
    }
}

fn execute_here(calls: impl IntoIterator<Item = Call>) {
    let execute = |call: Call| contained(|| call.execute());
    calls.into_iter().for_each(execute);
}

/// Lands a part without content on `flight` once the system's monotonic clock has reached `nanos`.
pub(super) fn land_at(nanos: u64, flight: Arc<Flight<Part>>) {
    let delay = Duration::from_nanos(nanos.saturating_sub(SystemClock.monotonic_nanos()));
    let Some(reactor) = Reactor::of_process() else {
        SystemClock.sleep(delay);
        flight.land(None);
        return;
    };
    if !reactor.timers.add(delay, Priority::High, flight, false) {
        SystemClock.sleep(delay);
        reactor.timers.hand_over_due();
    }
}

/// The threads that execute transfers of a process.
struct Reactor {
    ring: RingThread,
    workers: Workers<Call>,
    /// The maximum number of workers.
    most_workers: AtomicUsize,
    timers: Arc<Timers<Arc<Flight<Part>>>>,
}

impl Reactor {
    /// The reactor of the calling process; `None` in a forked child.
    fn of_process() -> Option<&'static Reactor> {
        static REACTOR: ThreadsOfProcess<Reactor> = ThreadsOfProcess::new(Reactor::new);
        REACTOR.get()
    }

    fn new() -> Reactor {
        Reactor {
            ring: RingThread::default(),
            workers: Workers::new("cairn-reads", Call::execute),
            most_workers: AtomicUsize::new(0),
            // Landing a flight takes no time of the thread.
            timers: Timers::new(Box::new(|_, flight: Arc<Flight<Part>>| flight.land(None))),
        }
    }

    /// Executes `calls` by the ring.
    fn submit(&'static self, calls: Vec<Call>) {
        if let Err(calls) = self.ring.submit(calls, || self.start_ring()) {
            self.execute(calls, 1);
        }
    }

    /// Executes `calls` by up to `threads` threads, or as many as an earlier call has allowed.
    fn execute(&'static self, calls: Vec<Call>, threads: usize) {
        let threads = threads.clamp(1, MOST_THREADS);
        // Relaxed: a limit, which orders nothing.
        let most = self.most_workers.fetch_max(threads, Ordering::Relaxed);
        let left = self.workers.submit(calls, most.max(threads));
        execute_here(left);
    }

    /// Starts the thread of the ring. Returns false if it cannot be started.
    fn start_ring(&'static self) -> bool {
        let builder = std::thread::Builder::new().name("cairn-ring".to_owned());
        let serve = || {
            let left = match KernelRing::with_entries(ENTRIES) {
                Ok(mut ring) => self.ring.serve(&mut ring),
                Err(_) => self.ring.refuse(VecDeque::new()),
            };
            self.execute(left, 1);
        };
        builder.spawn(serve).is_ok()
    }
}

/// The inbox of the thread with the ring.
#[derive(Default)]
struct RingThread {
    inbox: Mutex<Inbox>,
}

#[derive(Default)]
struct Inbox {
    waiting: VecDeque<Call>,
    /// True once the thread was started.
    started: bool,
    /// The event that ends the wait of the thread, while it waits with an empty inbox.
    parked: Option<Arc<File>>,
    /// True if there is no ring, or no longer one.
    refused: bool,
    /// True if the thread is to end once all reads have ended: for tests.
    closing: bool,
}

/// The place in a ring of a read in flight.
enum Place {
    Free,
    Bell,
    Call(Arc<Flight<Part>>, Ticket),
}

/// The state of the thread that serves a ring.
struct Service {
    /// Calls for which the ring had no place, and the rest of short reads.
    waiting: VecDeque<Call>,
    /// The reads in flight, by their tickets in the ring.
    places: Vec<Place>,
    free: Vec<Ticket>,
    bell: Arc<File>,
    /// True if a read of the bell is in flight.
    armed: bool,
    /// The calls in flight.
    in_flight: usize,
}

impl Service {
    /// Pushes the bell and as many calls as fit.
    fn push_all(&mut self, ring: &mut impl Ring) {
        if !self.armed {
            let memory = Memory::new(8, MemoryKind::default());
            let transfer = Transfer::new(self.bell.clone(), 0, memory, 0, 8, false);
            self.armed = self.push(ring, Place::Bell, transfer).is_ok();
        }
        while let Some(call) = self.waiting.pop_front() {
            if call.flight.is_abandoned() {
                call.land();
                continue;
            }
            let place = Place::Call(call.flight.clone(), call.ticket);
            match self.push(ring, place, call.transfer) {
                Ok(()) => self.in_flight += 1,
                Err(transfer) => {
                    self.waiting.push_front(Call { transfer, ..call });
                    return;
                }
            }
        }
    }

    fn push(
        &mut self,
        ring: &mut impl Ring,
        place: Place,
        transfer: Transfer,
    ) -> Result<(), Transfer> {
        let ticket = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::Free);
            self.places.len() - 1
        });
        let pushed = ring.push(ticket, transfer);
        match pushed.is_ok() {
            true => self.places[ticket] = place,
            false => self.free.push(ticket),
        }
        pushed
    }

    /// Takes all completions. Returns their number.
    fn take_completed(&mut self, ring: &mut impl Ring) -> usize {
        let mut taken = 0;
        while let Some((at, mut transfer, result)) = ring.completed() {
            taken += 1;
            self.free.push(at);
            match std::mem::replace(&mut self.places[at], Place::Free) {
                Place::Call(flight, ticket) => {
                    self.in_flight -= 1;
                    let ended = transfer.advance(result);
                    let call = Call {
                        flight,
                        ticket,
                        transfer,
                    };
                    match ended {
                        true => call.land(),
                        false => self.waiting.push_front(call),
                    }
                }
                Place::Bell => self.armed = false,
                Place::Free => {}
            }
        }
        taken
    }

    /// Gives up the calls in flight, which are lost to a ring that failed.
    fn lose(&mut self) {
        for place in self.places.drain(..) {
            if let Place::Call(flight, _) = place {
                flight.land(None);
            }
        }
    }
}

impl RingThread {
    /// Makes the thread end once all reads have ended.
    #[cfg(test)]
    fn close(&self) {
        let mut inbox = self.inbox.lock();
        inbox.closing = true;
        if let Some(bell) = inbox.parked.take() {
            ring_bell(&bell);
        }
    }

    /// Leaves `calls` for the thread, started by `start`. Returns them if there is no ring.
    fn submit(&self, calls: Vec<Call>, start: impl FnOnce() -> bool) -> Result<(), Vec<Call>> {
        let mut inbox = self.inbox.lock();
        if inbox.refused {
            return Err(calls);
        }
        if !inbox.started {
            inbox.started = start();
            if !inbox.started {
                return Err(calls);
            }
        }
        inbox.waiting.extend(calls);
        let bell = inbox.parked.take();
        drop(inbox);
        if let Some(bell) = bell {
            ring_bell(&bell);
        }
        Ok(())
    }

    /// Refuses further calls. Returns `left` and those in the inbox.
    fn refuse(&self, left: VecDeque<Call>) -> Vec<Call> {
        let mut inbox = self.inbox.lock();
        inbox.refused = true;
        left.into_iter().chain(inbox.waiting.drain(..)).collect()
    }

    /// Executes the calls of the inbox by `ring` until it fails. Returns those that remain.
    fn serve(&self, ring: &mut impl Ring) -> Vec<Call> {
        let Ok(bell) = eventfd(0, EventfdFlags::CLOEXEC) else {
            return self.refuse(VecDeque::new());
        };
        let mut service = Service {
            waiting: VecDeque::new(),
            places: Vec::new(),
            free: Vec::new(),
            bell: Arc::new(File::from(bell)),
            armed: false,
            in_flight: 0,
        };
        let mut refusals = Refusals::default();
        loop {
            let mut inbox = self.inbox.lock();
            inbox.parked = None;
            service.waiting.append(&mut inbox.waiting);
            drop(inbox);
            service.push_all(ring);
            // A full ring is waited for; what arrives meanwhile could not be pushed.
            if service.waiting.is_empty() {
                let mut inbox = self.inbox.lock();
                if !inbox.waiting.is_empty() {
                    continue;
                }
                if inbox.closing && service.in_flight == 0 {
                    ring_bell(&service.bell);
                    return Vec::new();
                }
                // Without the bell in the ring, the ring is full.
                inbox.parked = service.armed.then(|| service.bell.clone());
            }
            let submitted = ring.submit_and_wait(1);
            let completed = service.take_completed(ring);
            if !refusals.count(submitted, completed) {
                service.lose();
                // A ring that is dropped waits for what is in flight.
                ring_bell(&service.bell);
                return self.refuse(service.waiting);
            }
        }
    }
}

/// Ends the wait of a ring that reads `bell`.
fn ring_bell(bell: &File) {
    // Fails only if the counter would overflow, and the bell then rings already.
    let _rung = rustix::io::write(bell, &1_u64.to_le_bytes());
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
#[path = "reactor_tests.rs"]
mod tests;
