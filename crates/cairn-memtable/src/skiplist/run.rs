//! The entries after an entry, for reads of the many versions of a key.
//!
//! Short values lie close together and are found in the cache. The entries of long values are cache misses, each
//! of which would wait for the one before it: after [`PLAIN`] entries, a run prefetches.

use super::node::Target;
use super::prefetch::Prefetcher;
use super::{Entry, SkipList};

/// The number of entries before a run prefetches. Starting costs about as much as a few cache misses.
const PLAIN: u32 = 8;

/// The length of a value from which entries are prefetched.
const LONG: usize = 128;

/// A forward scan from an entry.
pub(crate) struct Run<'l> {
    at: Entry<'l>,
    passed: u32,
    ahead: Prefetcher,
}

impl<'l> Run<'l> {
    /// The entries after `first`.
    #[inline]
    pub(crate) fn after(first: Entry<'l>) -> Run<'l> {
        Run {
            at: first,
            passed: 0,
            ahead: Prefetcher::NONE,
        }
    }

    #[cold]
    fn prefetch(&mut self) {
        if self.at.value().len() >= LONG {
            self.ahead = self.at.list().ahead_of(&self.at);
        }
    }
}

impl<'l> Iterator for Run<'l> {
    type Item = Entry<'l>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'l>> {
        self.at = self.at.next()?;
        self.passed += 1;
        if self.passed == PLAIN {
            self.prefetch();
        }
        if self.ahead.is_active() {
            // SAFETY: the list is borrowed for `'l`.
            unsafe { self.ahead.step() };
        }
        Some(self.at)
    }
}

impl SkipList {
    /// A prefetch that starts shortly before `entry`, which is of this list.
    fn ahead_of(&self, entry: &Entry<'_>) -> Prefetcher {
        let packed = cairn_format::key::packed(entry.key());
        let target = Target::new(&self.order, entry.user_key(), packed);
        Prefetcher::after(self.upper_before(&target))
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::KeyOrder;

    use super::super::InsertHint;
    use super::*;

    #[test]
    fn a_run_visits_every_later_entry_whatever_the_length_of_the_values() {
        for len in [0, LONG - 1, LONG, 3000] {
            let list = SkipList::new(KeyOrder::Bytewise, 4096);
            let value = vec![b'v'; len];
            for nth in 0..500_u64 {
                let key = (nth * 7919 % 1009).to_be_bytes();
                list.insert(&key, nth << 8 | 1, &value, &mut InsertHint::default());
            }
            let plain = |from: Entry<'_>| std::iter::successors(from.next(), Entry::next).count();
            let mut from = list.first();
            let mut left = 499;
            while let Some(entry) = from {
                assert_eq!(Run::after(entry).count(), left);
                assert_eq!(plain(entry), left);
                left = left.saturating_sub(7);
                from = (0..7).try_fold(entry, |entry, _| entry.next());
            }
        }
    }
}
