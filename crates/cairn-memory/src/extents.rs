//! The large pages that arenas cut their chunks from, and those that wait for the next arena.
//!
//! A page that comes from the kernel is cleared by it, which takes as long as filling it: an eighth of a
//! sequential load. So the memtables of a process hand their pages on. How many wait goes by how fast memtables are
//! filled: twice as many as were taken while the one that is given up was no longer filled but flushed, so that they
//! are there for the next that is filled meanwhile. A process that writes little keeps little. What waits
//! is at most [`MOST_KEPT`] pages, and nothing at all while no arena has a page.
//!
//! A new page comes from the kernel at the moment of need only if it must: when the last one that waits is taken, the next
//! is prepared by a thread of the process. A writer that gets 2 MiB from the kernel waits for half a
//! millisecond and more (up to 16 in 30 seconds of overwriting on two busy cores).
//!
//! Invariants:
//!
//! X1. An extent belongs to one arena, or waits here.
//! X2. `owners` counts the arenas that have extents; with none nothing waits.

use std::ptr::NonNull;

use cairn_platform::huge::{HugePage, prepare_ahead};
use cairn_platform::sync::Mutex;

/// How many extents wait at most: 64 MiB, a memtable of the default size.
const MOST_KEPT: usize = 32;

static WAITING: Mutex<Waiting> = Mutex::new(Waiting::new());

struct Waiting {
    extents: Vec<HugePage>,
    owners: usize,
    /// True if one is being prepared.
    prepares: bool,
    /// How many were taken, by all arenas.
    taken: usize,
}

impl Waiting {
    const fn new() -> Waiting {
        Waiting {
            extents: Vec::new(),
            owners: 0,
            prepares: false,
            taken: 0,
        }
    }

    /// How many should wait at most when those of an arena are given up that took its last one as number `last`.
    fn most_kept(&self, last: usize) -> usize {
        (2 * (self.taken - last)).min(MOST_KEPT)
    }

    /// Keeps some of what an arena gives up that took its last one as number `last`, and returns the rest, for the
    /// kernel.
    fn give(&mut self, mut extents: Vec<HugePage>, last: usize) -> Vec<HugePage> {
        self.owners -= 1;
        if self.owners == 0 {
            extents.append(&mut self.extents);
            return extents;
        }
        let room = self.most_kept(last).saturating_sub(self.extents.len());
        let kept = extents.len().min(room);
        self.extents.extend(extents.drain(..kept));
        extents
    }
}

/// Adds an extent to those that wait.
fn prepare() {
    let extent = HugePage::taken();
    // If it is not wanted any more, the lock is given back before the extent is.
    let mut waiting = WAITING.lock();
    waiting.prepares = false;
    if waiting.owners > 0 && waiting.extents.len() < MOST_KEPT {
        waiting.extents.push(extent);
    }
}

/// The extents of one arena.
#[derive(Default)]
pub(crate) struct Extents {
    all: Vec<HugePage>,
    /// The number of the last of them among all that were ever taken.
    last_number: usize,
}

impl Extents {
    /// The beginning of the last one.
    pub(crate) fn last(&self) -> Option<NonNull<u8>> {
        self.all.last().map(HugePage::base)
    }

    /// Where each begins.
    #[cfg(test)]
    pub(crate) fn starts(&self) -> Vec<NonNull<u8>> {
        self.all.iter().map(HugePage::base).collect()
    }

    /// Takes another one, with anything in it.
    pub(crate) fn add(&mut self) -> NonNull<u8> {
        let mut waiting = WAITING.lock();
        waiting.owners += usize::from(self.all.is_empty());
        waiting.taken += 1;
        self.last_number = waiting.taken;
        let kept = waiting.extents.pop();
        let wanted = waiting.extents.is_empty() && !waiting.prepares;
        waiting.prepares |= wanted;
        drop(waiting);
        if wanted && !prepare_ahead(prepare) {
            WAITING.lock().prepares = false;
        }
        let extent = kept.unwrap_or_default();
        let base = extent.base();
        self.all.push(extent);
        base
    }
}

impl Drop for Extents {
    /// Gives all of them up. They are not used any more.
    fn drop(&mut self) {
        if self.all.is_empty() {
            return;
        }
        let extents = std::mem::take(&mut self.all);
        let given_back = WAITING.lock().give(extents, self.last_number);
        // After the lock is: the kernel takes its time.
        drop(given_back);
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "the tests fill the pages")]
mod tests {
    use std::time::Duration;

    use cairn_platform::Clock;
    use cairn_platform::SystemClock;
    use cairn_platform::huge::HUGE_PAGE;

    use super::*;

    fn waiting() -> usize {
        WAITING.lock().extents.len()
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing is prepared under Miri")]
    fn the_next_extent_is_prepared_while_the_last_one_is_used() {
        let mut extents = Extents::default();
        extents.add();
        // Other tests of the process take what is prepared, and have more prepared.
        let waited = (0..2000).any(|_| {
            SystemClock.sleep(Duration::from_millis(5));
            waiting() > 0
        });
        assert!(waited);
    }

    #[test]
    fn as_many_wait_as_were_taken_during_the_flush_twice_over() {
        let pages = |count| (0..count).map(|_| HugePage::new()).collect();
        let mut waiting = Waiting::new();
        waiting.owners = 4;
        waiting.taken = 100;
        // Nobody has taken one since.
        assert_eq!(waiting.give(pages(5), 100).len(), 5);
        // Somebody has taken two.
        assert_eq!(waiting.give(pages(5), 98).len(), 1);
        assert_eq!(waiting.give(pages(5), 97).len(), 3);
        assert_eq!(waiting.most_kept(0), MOST_KEPT);
        // The last owner leaves nothing.
        assert_eq!(waiting.give(pages(5), 0).len(), 11);
        assert!(waiting.extents.is_empty());
    }

    #[test]
    fn extents_are_handed_on_while_somebody_has_some() {
        let mut first = Extents::default();
        let mut second = Extents::default();
        second.add();
        let one = first.add();
        // SAFETY: the extent is this test's.
        unsafe { one.as_ptr().write_bytes(7, HUGE_PAGE) };
        for _ in 0..2 * MOST_KEPT {
            first.add();
        }
        second.add();
        drop(first);
        // Other tests of the process take and give extents too.
        assert!(waiting() <= MOST_KEPT);
        let again = second.add();
        // SAFETY: as above.
        unsafe { again.as_ptr().write_bytes(9, HUGE_PAGE) };
        assert_eq!(second.last(), Some(again));
        drop(second);
        let last = WAITING.lock();
        assert!(last.owners > 0 || last.extents.is_empty(), "X2");
    }
}
