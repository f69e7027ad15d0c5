//! Lazy seeks: a forward seek to a key that exists reads only the newest child that has it.
//!
//! The entries of all children at or after the target sort after the newest version of the target's user key. If a
//! child has that key, and the filters of the newer ones exclude it, its entry is therefore the result of the seek,
//! wherever the other children are. They are positioned by the first step. A program that seeks keys and steps little saves
//! most of the work; one that scans pays for the filters, so a family remembers in [`LazySeeks`] if they are worth it.

use cairn_format::filter::FilterKey;
use cairn_format::key;
use cairn_platform::sync::{AtomicI64, Ordering};
use cairn_types::Progress;

use super::{AfterMove, MergingIter};

/// The benefit of lazy seeks in a family: while the score is not negative, all seeks are lazy, otherwise one in 16.
#[derive(Debug, Default)]
pub struct LazySeeks(AtomicI64);

/// A copy begins without a score.
impl Clone for LazySeeks {
    fn clone(&self) -> LazySeeks {
        LazySeeks::default()
    }
}

/// The change of the score by a seek that read few children, and by one that had to read all: reading them costs
/// several times as much as the filters.
const GAIN: i64 = 4;
const LOSS: i64 = -1;

/// The score is at most this far from 0.
const MAX_SCORE: i64 = 32;

/// True for one in 16 keys. The seeks to them are always lazy, and only they change the score, so that few seeks write to
/// memory that other threads read.
fn is_sampled(key: &FilterKey<'_>) -> bool {
    key.hash().is_multiple_of(16)
}

impl LazySeeks {
    #[inline]
    fn admits(&self, key: &FilterKey<'_>) -> bool {
        // Relaxed, as in `record`: the order of changes does not matter, and one may be lost.
        self.0.load(Ordering::Relaxed) >= 0 || is_sampled(key)
    }

    /// Counts a sampled seek.
    pub(crate) fn record(&self, has_gained: bool) {
        let score = self.0.load(Ordering::Relaxed);
        let change = if has_gained { GAIN } else { LOSS };
        let changed = (score + change).clamp(-MAX_SCORE, MAX_SCORE);
        if changed != score {
            self.0.store(changed, Ordering::Relaxed);
        }
    }
}

/// Maximum number of children of a lazy seek.
const MAX_CHILDREN: usize = u64::BITS as usize;

/// A set of children.
#[derive(Clone, Copy, Default)]
struct ChildSet(u64);

impl ChildSet {
    fn has(self, child: usize) -> bool {
        self.0 >> child & 1 != 0
    }

    fn add(&mut self, child: usize) {
        self.0 |= 1 << child;
    }

    /// Removes and returns the first child.
    fn take_first(&mut self) -> Option<usize> {
        let first = (self.0 != 0).then(|| self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        Some(first)
    }
}

/// The state of the last seek, if it was lazy.
#[derive(Default)]
pub(super) struct LazySeek {
    /// True if the seek has found its target, and no step has followed.
    is_partial: bool,
    /// True if the benefit of the seek is to be recorded.
    is_sampled: bool,
    /// The children that the seek has positioned.
    positioned: ChildSet,
    /// The target of the others.
    target: Vec<u8>,
}

impl LazySeek {
    /// True if children are not positioned.
    #[inline]
    pub(super) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Forgets the children that were left out, which another movement positions.
    #[inline]
    pub(super) fn forget(&mut self) {
        self.is_partial = false;
    }

    pub(super) fn reset(&mut self) {
        self.is_partial = false;
        self.is_sampled = false;
        self.target.clear();
    }

    pub(super) fn capacity(&self) -> usize {
        self.target.capacity()
    }
}

impl MergingIter {
    /// True if more than one child reads blocks, which lazy seeks need.
    #[inline]
    pub(crate) fn has_runs(&self) -> bool {
        self.staged_seeks
    }

    /// [`MergingIter::seek`], except that children may be left out until the next step if a newer one has the user key
    /// of `target`. For [several runs](MergingIter::has_runs), and for keys without timestamps whose order tells all
    /// different keys apart.
    pub(crate) fn seek_lazily(&mut self, target: &[u8], seeks: &LazySeeks) -> Progress {
        self.lazy.is_sampled = false;
        if self.children.len() > MAX_CHILDREN {
            return self.seek(target);
        }
        let user = key::user_key(target);
        let probe = FilterKey::new(user);
        let mut children = self.children.iter_mut();
        if !seeks.admits(&probe) || !children.all(|child| child.begin_filter(target, &probe)) {
            return self.seek(target);
        }
        self.lazy.is_sampled = is_sampled(&probe);
        let mut candidates = ChildSet::default();
        for (at, child) in self.children.iter().enumerate() {
            if child.may_have(&probe) {
                candidates.add(at);
            }
        }
        self.begin_move(false);
        let mut positioned = ChildSet::default();
        while let Some(at) = candidates.take_first() {
            let child = &mut self.children[at];
            positioned.add(at);
            if !child.seek_filtered(target).is_ready() {
                // The blocks that all children lack are read together.
                self.pending.push(at);
                break;
            }
            if !child.valid() && child.status().is_err() {
                // An older version is not the answer: the error is found with those of the others.
                break;
            }
            if child.valid() && key::user_key(child.key()) == user {
                self.current = at;
                self.is_valid = true;
                self.lazy.is_partial = true;
                self.lazy.positioned = positioned;
                self.lazy.target.clear();
                self.lazy.target.extend_from_slice(target);
                return Progress::Ready;
            }
        }
        self.seek_in_stages(|_| target, |at| !positioned.has(at));
        self.after_moves(AfterMove::Rebuild)
    }

    /// Positions the children that a lazy seek has left out, and moves to the next entry.
    #[cold]
    pub(super) fn step_after_lazy_seek(&mut self) -> Progress {
        self.lazy.is_partial = false;
        let target = std::mem::take(&mut self.lazy.target);
        let positioned = self.lazy.positioned;
        self.seek_in_stages(|_| &target, |at| !positioned.has(at));
        self.lazy.target = target;
        self.after_moves(AfterMove::RebuildAndStep)
    }

    /// The benefit of the last seek, to be recorded before the next seek and at the end of the iteration: true if children
    /// are still left out. `None` if the seek is not sampled, or its benefit has been taken.
    #[inline]
    pub(crate) fn take_lazy_outcome(&mut self) -> Option<bool> {
        let is_sampled = std::mem::take(&mut self.lazy.is_sampled);
        is_sampled.then_some(self.lazy.is_partial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> impl Iterator<Item = [u8; 4]> {
        (0..4_096_u32).map(u32::to_be_bytes)
    }

    /// Seeks all keys and returns the number of lazy seeks. A seek gains if `gains` returns true for its number.
    fn seek_all(seeks: &LazySeeks, gains: impl Fn(usize) -> bool) -> usize {
        let mut lazy = 0;
        for (number, key) in keys().enumerate() {
            let key = FilterKey::new(&key);
            if seeks.admits(&key) {
                lazy += 1;
                if is_sampled(&key) {
                    seeks.record(gains(number));
                }
            }
        }
        lazy
    }

    #[test]
    fn seeks_are_lazy_while_that_gains() {
        let seeks = LazySeeks::default();
        let sampled = keys()
            .filter(|key| is_sampled(&FilterKey::new(key)))
            .count();
        assert!((150..400).contains(&sampled), "{sampled} of 4096");
        assert_eq!(seek_all(&seeks, |_| true), 4_096);
        let rare = seek_all(&seeks, |_| false);
        assert!(rare < 1_000, "{rare} lazy seeks without a gain");
        assert_eq!(seek_all(&seeks, |_| false), sampled);
        let again = seek_all(&seeks, |_| true);
        assert!(again > 3_500, "{again} lazy seeks once they gain");
        // A third is enough.
        assert!(seek_all(&seeks, |number| number % 3 == 0) > 3_500);
    }

    #[test]
    fn children_are_taken_in_order() {
        let mut set = ChildSet::default();
        [63, 0, 5].into_iter().for_each(|child| set.add(child));
        assert!(set.has(5) && set.has(63) && !set.has(4));
        let taken: Vec<usize> = std::iter::from_fn(|| set.take_first()).collect();
        assert_eq!(taken, [0, 5, 63]);
    }
}
