//! Joining sorted sources into one.
//!
//! The child with the first key is the current one: the winner of a [`LoserTree`]. A step moves it and
//! has it play again.
//!
//! A seek goes through all children step by step, so that their waits for memory overlap, and collects those that lack something, so that the caller can
//! obtain all blocks at once: [`MergingIter::requests`] names them, [`MergingIter::supply`] takes
//! them one by one, and when the last child stands, the iterator does.
//!
//! Steps keep the direction of the seek before them: `next` after a forward seek, `prev` after a
//! backward one. Who wants to turn seeks, which costs the same.

use std::cell::Cell;

use cairn_format::block::{SkipLimits, Skipped};
use cairn_format::key;
use cairn_platform::{Buffer, Io, ReadRequest};
use cairn_types::{Error, KeyOrder, PrefixExtractor, Progress, Result, SequenceNumber, ValueKind};

use crate::child::Child;
use crate::loser_tree::{LoserTree, Player};
use crate::user_key::compare;
use crate::value::Value;

/// The rest of a movement when the last pending child was supplied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterMove {
    /// All children have moved: find the first.
    Rebuild,
    /// Only the current child has moved.
    Replay,
}

/// An iterator over the entries of all its children, in internal-key order. Keeps the contract of
/// `cairn_types::iter`, but for the direction of steps (see the module's documentation).
pub struct MergingIter {
    order: KeyOrder,
    children: Vec<Child>,
    /// True if more than one of them has blocks.
    staged_seeks: bool,
    tree: LoserTree,
    /// The child with the first key, if `stands`.
    current: usize,
    is_valid: bool,
    back: bool,
    pending: Vec<usize>,
    after_move: AfterMove,
    error: Option<Error>,
    /// Where a child is sent that leaves a hidden range; kept for its memory.
    target: Vec<u8>,
    step_heuristic: StepHeuristic,
}

/// Memory that a merging iterator has allocated, kept for the thread's next one.
#[derive(Default)]
struct RecycledBuffers {
    children: Vec<Child>,
    tree: LoserTree,
}

/// No memory of an iterator with more children is kept.
const MAX_RECYCLED_CHILDREN: usize = 64;

thread_local! {
    static RECYCLED: Cell<RecycledBuffers> = const {
        Cell::new(RecycledBuffers { children: Vec::new(), tree: LoserTree::NONE })
    };
}

impl Drop for MergingIter {
    fn drop(&mut self) {
        self.children.clear();
        if self.children.capacity() > MAX_RECYCLED_CHILDREN {
            return;
        }
        let recycled = RecycledBuffers {
            children: std::mem::take(&mut self.children),
            tree: std::mem::take(&mut self.tree),
        };
        // A thread that ends keeps nothing.
        let _recycled = RECYCLED.try_with(|kept| kept.set(recycled));
    }
}

/// An empty vector for the children of a merging iterator; in memory of the thread's last one, if
/// there was one.
pub(crate) fn no_children() -> Vec<Child> {
    let take = |recycled: &Cell<RecycledBuffers>| {
        let mut taken = recycled.take();
        let children = std::mem::take(&mut taken.children);
        recycled.set(taken);
        children
    };
    RECYCLED.try_with(take).unwrap_or_default()
}

impl MergingIter {
    /// Joins `children`, the newest first, whose keys are in `order`.
    #[must_use]
    pub fn new(order: KeyOrder, children: Vec<Child>) -> MergingIter {
        let RecycledBuffers { tree, .. } = RECYCLED.try_with(Cell::take).unwrap_or_default();
        let has_blocks = |child: &&Child| !matches!(child, Child::Memtable(_));
        MergingIter {
            order,
            staged_seeks: children.iter().filter(has_blocks).count() > 1,
            tree,
            children,
            current: 0,
            is_valid: false,
            back: false,
            pending: Vec::new(),
            after_move: AfterMove::Rebuild,
            error: None,
            target: Vec::new(),
            step_heuristic: StepHeuristic::default(),
        }
    }

    /// True if the iterator stands on an entry.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        self.is_valid
    }

    /// True if there is no source at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// True if the last step waits for bytes that are not in memory.
    #[inline]
    #[must_use]
    pub fn lacks(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The internal key of the entry.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.children[self.current].key()
    }

    /// The value of the entry.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &[u8] {
        self.children[self.current].value()
    }

    /// The internal key of the entry, and its value.
    #[inline(always)]
    #[must_use]
    pub fn entry(&self) -> (&[u8], &[u8]) {
        self.children[self.current].entry()
    }

    /// The internal key of the entry, and the length of its value.
    #[inline(always)]
    #[must_use]
    pub fn head(&self) -> (&[u8], usize) {
        self.children[self.current].head()
    }

    /// Going backward: whether no version of `user`, the user key of the entry, is newer than the
    /// entry, as far as that can be told from where the children stand; `false` where it cannot. Keys
    /// are the same if `same` says so.
    #[inline]
    #[must_use]
    pub fn is_newest_version(&self, user: &[u8], same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        debug_assert!(self.is_valid && self.back);
        if !self.children[self.current].begins_key(&same) {
            return false;
        }
        self.tree.wins_by_prefix()
            || !self
                .rivals_with_same_prefix()
                .any(|at| same(key::user_key(self.children[at].key()), user))
    }

    /// Going backward: whether another child is seen to stand on a version of `user`, the user key of the
    /// entry, that hides the entry from a read at `seq`. Keys are the same if `same` says so.
    #[inline]
    #[must_use]
    pub fn is_hidden(
        &self,
        user: &[u8],
        seq: SequenceNumber,
        same: impl Fn(&[u8], &[u8]) -> bool,
    ) -> bool {
        debug_assert!(self.is_valid && self.back);
        if self.tree.wins_by_prefix() {
            return false;
        }
        self.rivals_with_same_prefix().any(|at| {
            let newer = self.children[at].key();
            let packed = key::packed(newer);
            // Truncation is meant: the kind is the lowest byte.
            packed >> 8 <= seq.0
                && packed as u8 != ValueKind::Merge as u8
                && same(key::user_key(newer), user)
        })
    }

    /// The children that may stand on the same user key as the current one, but for those that do only
    /// if one of these does.
    #[inline]
    fn rivals_with_same_prefix(&self) -> impl Iterator<Item = usize> {
        let prefix = self.tree.winner().map(|winner| winner.prefix);
        self.tree
            .rivals()
            .filter(move |rival| Some(rival.prefix) == prefix)
            .map(|rival| rival.source)
            .filter(|&at| self.children[at].valid())
    }

    /// The value of the entry, kept alive.
    #[must_use]
    pub fn value_pin(&self) -> Value {
        self.children[self.current].value_pin()
    }

    /// Why the iterator stands nowhere, if not because there are no more entries.
    ///
    /// # Errors
    ///
    /// The error that ended the iteration.
    pub fn status(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Moves to the first entry at or behind `target`.
    pub fn seek(&mut self, target: &[u8]) -> Progress {
        self.seek_all(false, |_| target)
    }

    /// Moves to the last entry at or before `target`.
    pub fn seek_for_prev(&mut self, target: &[u8]) -> Progress {
        self.seek_all(true, |_| target)
    }

    /// [`MergingIter::seek`], or `seek_for_prev` if `back`, where the children behind `child` go right on to the user key `end`, forward to
    /// its first entry and backward to the last one before it: what they hold on the way there does not count.
    pub fn seek_split(&mut self, back: bool, target: &[u8], child: usize, end: &[u8]) -> Progress {
        let end = self.take_target_before(end);
        let progress = self.seek_all(back, |at| if at <= child { target } else { &end });
        self.target = end;
        progress
    }

    /// A target before all versions of `user`, in memory that the caller gives back.
    fn take_target_before(&mut self, user: &[u8]) -> Vec<u8> {
        let mut target = std::mem::take(&mut self.target);
        target.clear();
        key::append_internal(&mut target, user, SequenceNumber::MAX, ValueKind::FOR_SEEK);
        target
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) -> Progress {
        self.move_all(false, |_, child| child.seek_to_first())
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) -> Progress {
        self.move_all(true, |_, child| child.seek_to_last())
    }

    /// Moves to the entry behind the current one.
    #[expect(
        clippy::should_implement_trait,
        reason = "the contract of iterators over entries names it so"
    )]
    #[inline]
    pub fn next(&mut self) -> Progress {
        debug_assert!(self.is_valid && !self.back);
        let prefix = self.children[self.current].next_prefix(&self.order);
        self.after_step_with_prefix(prefix)
    }

    /// Moves to the entry before the current one.
    #[inline]
    pub fn prev(&mut self) -> Progress {
        debug_assert!(self.is_valid && self.back);
        let prefix = self.children[self.current].prev_prefix(&self.order);
        self.after_step_with_prefix(prefix)
    }

    /// Moves children that stand in a range whose entries are all hidden out of it, in the direction of the walk. Of each
    /// child `end` says where its range ends, if it has one: forward the first user key behind it, backward the first in it.
    /// `false` if the current child is in none; then nothing was moved.
    pub fn skip_ranges<'a>(
        &mut self,
        mut end: impl FnMut(usize, &mut Child) -> Option<&'a [u8]>,
    ) -> bool {
        let current = self.current;
        let end_of_current = end(current, &mut self.children[current]);
        if !end_of_current.is_some_and(|end| self.leave_range(current, end)) {
            return false;
        }
        let mut then = AfterMove::Replay;
        for at in (0..self.children.len()).filter(|&at| at != current) {
            if let Some(end) = end(at, &mut self.children[at])
                && self.leave_range(at, end)
            {
                then = AfterMove::Rebuild;
            }
        }
        let _progress = self.after_moves(then);
        true
    }

    /// Moves child `at` out of the range that ends at `end`, by a few steps, or by a seek if these are not enough or have not
    /// been for a while. `false` if it does not stand there.
    fn leave_range(&mut self, at: usize, end: &[u8]) -> bool {
        let (back, order) = (self.back, &self.order);
        let is_inside = |child: &Child| {
            child.valid() && compare(order, key::user_key(child.key()), end).is_lt() != back
        };
        let child = &mut self.children[at];
        if !is_inside(child) {
            return false;
        }
        for _ in 0..self.step_heuristic.steps() {
            let _prefix = match back {
                false => child.next_prefix(order),
                true => child.prev_prefix(order),
            };
            if !child.progress().is_ready() || !is_inside(child) {
                break;
            }
        }
        let mut progress = child.progress();
        let is_still_inside = progress.is_ready() && is_inside(child);
        self.step_heuristic.record(is_still_inside);
        if is_still_inside {
            let target = self.take_target_before(end);
            let child = &mut self.children[at];
            progress = match back {
                false => child.seek(&target),
                true => child.seek_for_prev(&target),
            };
            self.target = target;
        }
        if !progress.is_ready() {
            self.pending.push(at);
        }
        true
    }

    /// Sets whether seeks may leave out tables whose filters do not know the prefix of the target.
    pub fn set_prefix_filter(&mut self, on: bool, extractor: Option<&PrefixExtractor>) {
        for child in &mut self.children {
            child.set_prefix_filter(on, extractor);
        }
    }

    /// Passes over visible deletions of the child in front for as long as it stays there: those
    /// not newer than `seq`, before the user key `limit`, at most `budget`; the user key of the
    /// last one is left in `last`. Returns how many. Only forward, and only where keys order as
    /// their bytes do.
    #[inline]
    pub fn skip_deletions(
        &mut self,
        seq: SequenceNumber,
        limit: Option<&[u8]>,
        budget: u64,
        last: &mut Vec<u8>,
    ) -> u64 {
        debug_assert!(self.is_valid && !self.back);
        let (skipped, progress) = match self.runner_up() {
            // The next child ends the run where its key comes first.
            Some(next) => {
                let [child, next] = self
                    .children
                    .get_disjoint_mut([self.current, next])
                    .expect("the winner is not the runner-up");
                let next = key::user_key(next.key());
                let limit = limit.map_or(next, |limit| limit.min(next));
                child.skip_deletions(seq, Some(limit), budget, last)
            }
            None => self.children[self.current].skip_deletions(seq, limit, budget, last),
        };
        if skipped > 0 {
            let _progress = self.after_step(progress);
        }
        skipped
    }

    /// True if another child may stand on the user key of the entry: if not, none does.
    #[inline]
    #[must_use]
    pub fn may_have_more_of_key(&self) -> bool {
        !self.tree.wins_by_prefix()
    }

    /// The child that would be in front without the current one.
    #[inline]
    fn runner_up(&self) -> Option<usize> {
        let order = ChildOrder::of(&self.order, &self.children, self.back);
        let comes_first = |a, b| order.comes_first(a, b);
        let first = |a: Player, b: Player| if b.beats(a, comes_first) { b } else { a };
        let runner_up = self.tree.rivals().reduce(first)?.source;
        self.children[runner_up].valid().then_some(runner_up)
    }

    /// Passes over visible deletions of the child in front and over what they delete in the child
    /// behind it, for as long as no other child comes between. The user key of the last deletion is left
    /// in `last`. Only forward, and only where keys order as their bytes do.
    pub fn skip_deleted(&mut self, hidden: &SkipLimits<'_>, last: &mut Vec<u8>) -> Skipped {
        debug_assert!(self.is_valid && !self.back);
        let Some(top) = self.runner_up() else {
            return Skipped::default();
        };
        let others = self.children.iter().enumerate();
        let next = others
            .filter(|(at, child)| *at != self.current && *at != top && child.valid())
            .map(|(_, child)| key::user_key(child.key()))
            .min();
        let limit = next.into_iter().chain(hidden.limit).min();
        if limit.is_some_and(|limit| key::user_key(self.key()) >= limit) {
            return Skipped::default();
        }
        let limit = limit.map(<[u8]>::to_vec);
        let hidden = SkipLimits {
            limit: limit.as_deref(),
            ..*hidden
        };
        let [child, other] = self
            .children
            .get_disjoint_mut([self.current, top])
            .expect("the winner is not the runner-up");
        let (skipped, progress, other_progress) = child.skip_deleted(other, &hidden, last);
        if skipped.total() > 0 {
            for (at, progress) in [(self.current, progress), (top, other_progress)] {
                if !progress.is_ready() {
                    self.pending.push(at);
                }
            }
            let _progress = self.after_moves(AfterMove::Rebuild);
        }
        skipped
    }

    /// The blocks that the iterator lacks, each with the child that lacks it.
    pub fn requests(&self) -> impl Iterator<Item = (usize, ReadRequest)> {
        let request = |&at: &usize| Some((at, self.children[at].request()?));
        self.pending.iter().filter_map(request)
    }

    /// Hands over what `child` lacks. Ready when no child lacks anything any more.
    pub fn supply(&mut self, child: usize, bytes: Result<Buffer>) -> Progress {
        if let Some(at) = self.pending.iter().position(|&pending| pending == child)
            && self.children[child].supply(bytes).is_ready()
        {
            self.pending.swap_remove(at);
        }
        self.after_moves(self.after_move)
    }

    /// Obtains what the iterator lacks on the calling thread, until it stands.
    pub fn wait(&mut self, io: &Io) {
        self.wait_with(|requests| io.read_batch(requests));
    }

    /// [`MergingIter::wait`] with reads that `read` carries out: all that are pending at once.
    pub fn wait_with(&mut self, mut read: impl FnMut(&[ReadRequest]) -> Vec<Result<Buffer>>) {
        while !self.pending.is_empty() {
            let (children, requests): (Vec<usize>, Vec<ReadRequest>) = self.requests().unzip();
            if children.is_empty() {
                self.pending.clear();
                return self.fail(Error::aborted("a source of an iterator was lost"));
            }
            for (child, bytes) in children.into_iter().zip(read(&requests)) {
                let _progress = self.supply(child, bytes);
            }
        }
    }

    /// All children seek, in steps that all make before the next, so that what one waits for of
    /// memory comes while the others are at work.
    #[inline]
    fn seek_all<'a>(&mut self, back: bool, target: impl Fn(usize) -> &'a [u8]) -> Progress {
        if !self.staged_seeks {
            return self.move_all(back, |at, child| match back {
                false => child.seek(target(at)),
                true => child.seek_for_prev(target(at)),
            });
        }
        for (at, child) in self.children.iter_mut().enumerate() {
            child.begin_seek(target(at), back);
        }
        self.children.iter_mut().for_each(Child::prefetch_block);
        self.children.iter_mut().for_each(Child::pin_block);
        self.move_all(back, |at, child| child.finish_seek(target(at), back))
    }

    fn move_all(
        &mut self,
        back: bool,
        mut step: impl FnMut(usize, &mut Child) -> Progress,
    ) -> Progress {
        self.back = back;
        self.error = None;
        self.pending.clear();
        for (at, child) in self.children.iter_mut().enumerate() {
            if !step(at, child).is_ready() {
                self.pending.push(at);
            }
        }
        self.after_moves(AfterMove::Rebuild)
    }

    /// The current child has moved, to a key of this prefix if it says so.
    #[inline]
    fn after_step_with_prefix(&mut self, prefix: Option<u64>) -> Progress {
        let Some(prefix) = prefix else {
            return self.after_step(self.children[self.current].progress());
        };
        let order = ChildOrder::of(&self.order, &self.children, self.back);
        let winner = self
            .tree
            .replay(order.oriented(prefix), |a, b| order.comes_first(a, b));
        self.set_winner(winner);
        Progress::Ready
    }

    #[inline(never)]
    fn after_step(&mut self, progress: Progress) -> Progress {
        if progress.is_ready() {
            self.replay_current();
            return Progress::Ready;
        }
        self.pending.push(self.current);
        self.is_valid = false;
        self.after_move = AfterMove::Replay;
        Progress::Lacks
    }

    fn after_moves(&mut self, then: AfterMove) -> Progress {
        if !self.pending.is_empty() {
            self.is_valid = false;
            self.after_move = then;
            return Progress::Lacks;
        }
        match then {
            AfterMove::Rebuild => self.rebuild_tree(),
            AfterMove::Replay => self.replay_current(),
        }
        Progress::Ready
    }

    /// Finds the first of all children.
    fn rebuild_tree(&mut self) {
        self.is_valid = false;
        let order = ChildOrder::of(&self.order, &self.children, self.back);
        self.tree.reset(self.children.len());
        for at in 0..self.children.len() {
            match order.prefix(at) {
                Ok(prefix) => self.tree.insert(at, prefix, |a, b| order.comes_first(a, b)),
                Err(error) => return self.fail(error),
            }
        }
        if let Some(winner) = self.tree.winner() {
            self.set_winner(winner);
        }
    }

    /// The current child has moved: sees whether it is still in front.
    fn replay_current(&mut self) {
        let order = ChildOrder::of(&self.order, &self.children, self.back);
        match order.prefix(self.current) {
            Ok(prefix) => {
                let winner = self.tree.replay(prefix, |a, b| order.comes_first(a, b));
                self.set_winner(winner);
            }
            Err(error) => self.fail(error),
        }
    }

    /// Makes the winner the current child.
    #[inline]
    fn set_winner(&mut self, winner: Player) {
        self.current = winner.source;
        self.is_valid = winner.prefix != ENDED || self.children[winner.source].valid();
    }

    #[cold]
    fn fail(&mut self, error: Error) {
        self.is_valid = false;
        self.error = Some(error);
    }
}

/// Steps by which a child tries to leave a hidden range before it seeks: many range tombstones hide few entries, and
/// steps in a block cost far less than a seek.
const MAX_STEPS: usize = 4;

/// After so many ranges in a row that were too long for steps the next ones are taken to be so too, ...
const FAILURES_BEFORE_SEEK: u32 = 4;

/// ... and only one of so many is tried.
const RETRY_INTERVAL: u32 = 16;

/// The number of ranges in a row that were too long for steps.
#[derive(Default)]
struct StepHeuristic(u32);

impl StepHeuristic {
    /// The number of steps to try.
    #[inline]
    fn steps(&self) -> usize {
        match self.0 < FAILURES_BEFORE_SEEK || self.0.is_multiple_of(RETRY_INTERVAL) {
            true => MAX_STEPS,
            false => 0,
        }
    }

    /// A range was left by steps, or `failed` tried or not tried.
    #[inline]
    fn record(&mut self, failed: bool) {
        self.0 = match failed {
            true => self.0.wrapping_add(1),
            false => 0,
        };
    }
}

/// The prefix of a child that has ended; others may have it too.
const ENDED: u64 = u64::MAX;

/// How children play against each other.
struct ChildOrder<'a> {
    order: &'a KeyOrder,
    children: &'a [Child],
    back: bool,
}

impl<'a> ChildOrder<'a> {
    #[inline]
    fn of(order: &'a KeyOrder, children: &'a [Child], back: bool) -> ChildOrder<'a> {
        ChildOrder {
            order,
            children,
            back,
        }
    }

    /// The rank in the loser_tree of a child whose key has this prefix.
    #[inline]
    fn oriented(&self, prefix: u64) -> u64 {
        if self.back { !prefix } else { prefix }
    }

    /// The rank in the loser_tree of child `at`. An error is the one that ended it.
    // A call would hand the result over through memory.
    #[inline(always)]
    fn prefix(&self, at: usize) -> Result<u64> {
        let child = &self.children[at];
        if !child.valid() {
            return child.status().map(|()| ENDED);
        }
        Ok(self.oriented(key::prefix(self.order, child.key())))
    }

    /// True if the entry of child `a` comes before that of `b` in the direction of the walk.
    #[inline(never)]
    fn comes_first(&self, a: usize, b: usize) -> bool {
        let (one, other) = (&self.children[a], &self.children[b]);
        if !one.valid() || !other.valid() {
            return one.valid();
        }
        let order = key::compare(self.order, one.key(), other.key()).then(a.cmp(&b));
        order.is_gt() == self.back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_out_of_hidden_ranges_are_not_tried_for_long_where_they_do_not_suffice() {
        let mut step_heuristic = StepHeuristic::default();
        let mut steps = 0;
        for _ in 0..1_000 {
            steps += step_heuristic.steps();
            step_heuristic.record(true);
        }
        assert!(steps <= 1_000 / 3, "{steps} steps in 1000 long ranges");
        // Soon after ranges have become short they are left by steps again, all of them.
        let seeks = (0..1_000).filter(|_| {
            let is_sought = step_heuristic.steps() == 0;
            step_heuristic.record(is_sought);
            is_sought
        });
        assert!(seeks.count() < RETRY_INTERVAL as usize);
    }
}
