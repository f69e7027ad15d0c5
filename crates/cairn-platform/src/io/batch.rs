//! The execution of a batch of transfers by a ring.

use rustix::io::Errno;

use crate::read_queue::{Ring, Ticket, Transfer};

/// The number of consecutive refused submissions, without a completion, after which the ring is given up.
const REFUSALS: u32 = 1000;

/// Executes `transfers` on `ring`, as many per submission as fit. Returns after the last completion. Returns false
/// if the ring itself fails: transfers in flight then stay with the ring, and the caller executes those that were
/// not started.
pub(super) fn execute(ring: &mut impl Ring, transfers: &mut [Option<Transfer>]) -> bool {
    let left = |&at: &Ticket| transfers[at].as_ref().is_some_and(|one| !one.has_ended());
    let mut waiting: Vec<Ticket> = (0..transfers.len()).rev().filter(left).collect();
    let mut in_flight = 0;
    let mut refusals = 0;
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
        match submitted {
            Ok(()) | Err(Errno::INTR) => refusals = 0,
            // The kernel lacks memory, or completions have to be taken first.
            Err(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) if refusals < REFUSALS => {
                refusals = if completed > 0 { 0 } else { refusals + 1 };
                if completed == 0 {
                    std::thread::yield_now();
                }
            }
            Err(_) => return false,
        }
    }
}
