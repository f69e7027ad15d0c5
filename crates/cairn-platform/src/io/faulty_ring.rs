//! A ring for tests, with faults by a script.

use std::collections::VecDeque;

use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::read_queue::{Ring, Ticket, Transfer};

/// The behaviour of a [`FaultyRing`] at one call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// The call succeeds.
    Nothing,
    /// The transfer is cut to its first byte.
    Short,
    /// The system call fails.
    Fails(Errno),
    /// The completion is returned after a later submission.
    Late,
    /// The submission is refused.
    Refused(Errno),
}

pub(super) fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        4 => Just(Fault::Nothing),
        2 => Just(Fault::Short),
        1 => Just(Fault::Fails(Errno::INTR)),
        1 => Just(Fault::Fails(Errno::AGAIN)),
        1 => Just(Fault::Fails(Errno::IO)),
        1 => Just(Fault::Late),
        1 => Just(Fault::Refused(Errno::BUSY)),
        1 => Just(Fault::Refused(Errno::INTR)),
    ]
}

/// A ring with `capacity` places that follows a script, which it repeats.
pub(super) struct FaultyRing {
    capacity: usize,
    script: Vec<Fault>,
    at: usize,
    /// True if a read at offset 0 is one of an event descriptor, which ends when the event occurs. Otherwise all
    /// transfers are waited for at once.
    has_bell: bool,
    pub(super) in_flight: VecDeque<(Ticket, Transfer)>,
    completed: VecDeque<(Ticket, Transfer, Result<usize, Errno>)>,
    /// The transfers that failed with `IO`.
    pub(super) failed: Vec<Ticket>,
    pub(super) submissions: usize,
}

impl FaultyRing {
    pub(super) fn new(capacity: usize, script: Vec<Fault>, has_bell: bool) -> FaultyRing {
        FaultyRing {
            capacity,
            script,
            at: 0,
            has_bell,
            in_flight: VecDeque::new(),
            completed: VecDeque::new(),
            failed: Vec::new(),
            submissions: 0,
        }
    }

    /// True if no transfer is in flight or waits to be taken.
    pub(super) fn is_empty(&self) -> bool {
        self.in_flight.is_empty() && self.completed.is_empty()
    }

    fn next_fault(&mut self) -> Fault {
        self.at += 1;
        self.script[self.at % self.script.len()]
    }

    /// Waits for the bell if nothing else is in flight, and reads it if it rings.
    fn answer_bell(&mut self, ticket: Ticket, mut transfer: Transfer) {
        let (file, _, bytes) = transfer.next();
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: if self.in_flight.is_empty() {
                1_000_000
            } else {
                0
            },
        };
        let rings = poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&wait)).unwrap() > 0;
        match rings {
            true => {
                let got = rustix::io::read(file, bytes);
                self.completed.push_back((ticket, transfer, got));
            }
            false => self.in_flight.push_back((ticket, transfer)),
        }
    }
}

impl Ring for FaultyRing {
    fn push(&mut self, ticket: Ticket, transfer: Transfer) -> Result<(), Transfer> {
        if self.in_flight.len() == self.capacity {
            return Err(transfer);
        }
        self.in_flight.push_back((ticket, transfer));
        Ok(())
    }

    fn submit_and_wait(&mut self, wanted: usize) -> Result<(), Errno> {
        assert!(
            self.has_bell || wanted == self.in_flight.len(),
            "all are waited for at once"
        );
        self.submissions += 1;
        for _ in 0..self.in_flight.len() {
            let (ticket, mut transfer) = self.in_flight.pop_front().unwrap();
            if self.has_bell && transfer.next().1 == 0 {
                self.answer_bell(ticket, transfer);
                continue;
            }
            let fault = self.next_fault();
            let result = match fault {
                Fault::Refused(errno) => {
                    self.in_flight.push_front((ticket, transfer));
                    return Err(errno);
                }
                Fault::Late => {
                    self.in_flight.push_back((ticket, transfer));
                    continue;
                }
                Fault::Fails(errno) => Err(errno),
                Fault::Nothing | Fault::Short => {
                    let (file, offset, bytes) = transfer.next();
                    let len = match fault {
                        Fault::Short => bytes.len().min(1),
                        _ => bytes.len(),
                    };
                    rustix::io::pread(file, &mut bytes[..len], offset)
                }
            };
            if result == Err(Errno::IO) {
                self.failed.push(ticket);
            }
            self.completed.push_back((ticket, transfer, result));
        }
        Ok(())
    }

    fn completed(&mut self) -> Option<(Ticket, Transfer, Result<usize, Errno>)> {
        self.completed.pop_front()
    }
}
