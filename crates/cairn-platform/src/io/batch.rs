//! The execution of a batch of transfers by a ring.

use rustix::io::Errno;

use crate::read_queue::{Ring, Ticket, Transfer};

/// The number of consecutive refused submissions, without a completion, after which a ring is given up.
const MOST_REFUSALS: u32 = 1000;

/// The consecutive submissions that a ring has refused.
#[derive(Default)]
pub(super) struct Refusals(u32);

impl Refusals {
    /// Counts the result of a submission that was followed by a number of completions. Returns false if the ring has
    /// to be given up.
    pub(super) fn count(&mut self, submitted: Result<(), Errno>, completed: usize) -> bool {
        match submitted {
            Ok(()) | Err(Errno::INTR) => self.0 = 0,
            // The kernel lacks memory, or completions have to be taken first.
            Err(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) if self.0 < MOST_REFUSALS => {
                self.0 = if completed > 0 { 0 } else { self.0 + 1 };
                if completed == 0 {
                    std::thread::yield_now();
                }
            }
            Err(_) => return false,
        }
        true
    }
}

/// Executes `transfers` on `ring`, as many per submission as fit. Returns after the last completion. Returns false
/// if the ring itself fails: transfers in flight then stay with the ring, and the caller executes those that were
/// not started.
pub(super) fn execute(ring: &mut impl Ring, transfers: &mut [Option<Transfer>]) -> bool {
    let left = |&at: &Ticket| transfers[at].as_ref().is_some_and(|one| !one.has_ended());
    let mut waiting: Vec<Ticket> = (0..transfers.len()).rev().filter(left).collect();
    let mut in_flight = 0;
    let mut refusals = Refusals::default();
    loop {
        while let Some(ticket) = waiting.pop() {
            let Some(transfer) = transfers[ticket].take() else {
                continue;
            };
            if let Err(transfer) = ring.push(ticket, transfer) {
                transfers[ticket] = Some(transfer);
                waiting.push(ticket);
                break;
            }
            in_flight += 1;
        }
        if in_flight == 0 {
            return waiting.is_empty();
        }
        let submitted = ring.submit_and_wait(in_flight);
        let mut completed = 0;
        while let Some((ticket, mut transfer, result)) = ring.completed() {
            completed += 1;
            if !transfer.advance(result) {
                waiting.push(ticket);
            }
            transfers[ticket] = Some(transfer);
        }
        in_flight -= completed;
        if !refusals.count(submitted, completed) {
            return false;
        }
    }
}
