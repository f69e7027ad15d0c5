//! The merging iterator: joins sorted children into one sorted sequence.
//!
//! The current child, the one with the first key, is the winner of a [`LoserTree`]. A step advances
//! that child and replays its games.
//!
//! A seek runs on all children in stages, so that their cache misses overlap. It collects the
//! children that miss a block, so that the caller can read all missing blocks in one batch:
//! [`MergingIter::requests`] lists them, [`MergingIter::supply`] takes them one by one, and the
//! iterator is positioned once every child is.
//!
//! A lazy seek (`MergingIter::seek_lazily`) positions only the children that may have the target, if one of them
//! has it; the next step positions the others.
//!
//! A step keeps the direction of the preceding seek: `next` after a forward seek, `prev` after a
//! backward one. To reverse direction, the caller seeks, which costs the same.

mod lazy_seek;

use std::sync::Arc;

use cairn_format::block::{SkipLimits, Skipped};
use cairn_format::key;
use cairn_platform::{Buffer, Io, ReadRequest};
use cairn_table::ReadAhead;
use cairn_types::{Error, KeyOrder, PrefixExtractor, Progress, Result, SequenceNumber, ValueKind};
use cairn_version::FileToOpen;

use crate::child::Child;
use crate::loser_tree::{LoserTree, Player};
use crate::value::Value;
use lazy_seek::LazySeek;
pub use lazy_seek::LazySeeks;

/// The work left once the last pending child has been supplied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterMove {
    /// All children have moved: rebuild the tree.
    Rebuild,
    /// Only the current child has moved: replay its games.
    Replay,
    /// The children that a lazy seek has left out have moved: rebuild the tree, and move to the next entry.
    RebuildAndStep,
}

/// An iterator over the entries of all its children, in internal-key order. Implements the contract
/// of `cairn_types::iter`, except for the direction of steps (see the module documentation).
pub struct MergingIter {
    order: KeyOrder,
    children: Vec<Child>,
    /// True if more than one child reads blocks, so that staged seeks pay off.
    staged_seeks: bool,
    tree: LoserTree,
    /// The child with the first key, if `is_valid`.
    current: usize,
    is_valid: bool,
    back: bool,
    pending: Vec<usize>,
    after_move: AfterMove,
    error: Option<Error>,
    /// Buffer for the target of a child that leaves a hidden range.
    target: Vec<u8>,
    step_heuristic: StepHeuristic,
    lazy: LazySeek,
}

/// Maximum number of children, and maximum bytes of the target, whose memory is kept.
const MAX_KEPT_CHILDREN: usize = 64;
const MAX_KEPT_TARGET: usize = 1 << 10;

impl Drop for MergingIter {
    fn drop(&mut self) {
        self.drop_children();
    }
}

impl MergingIter {
    /// Merges `children`, newest first, whose keys are in `order`.
    #[must_use]
    pub fn new(order: KeyOrder, children: Vec<Child>) -> MergingIter {
        let mut merging = MergingIter {
            order,
            staged_seeks: false,
            tree: LoserTree::NONE,
            children,
            current: 0,
            is_valid: false,
            back: false,
            pending: Vec::new(),
            after_move: AfterMove::Rebuild,
            error: None,
            target: Vec::new(),
            step_heuristic: StepHeuristic::default(),
            lazy: LazySeek::default(),
        };
        merging.begin();
        merging
    }

    /// Sets the order of the keys, before there are children.
    pub(crate) fn set_order(&mut self, order: &KeyOrder) {
        self.order.clone_from(order);
    }

    /// The children, to be filled before [`MergingIter::begin`].
    pub(crate) fn children_to_fill(&mut self) -> &mut Vec<Child> {
        &mut self.children
    }

    /// Prepares to merge the children.
    pub(crate) fn begin(&mut self) {
        let has_blocks = |child: &&Child| !matches!(child, Child::Memtable(_));
        self.staged_seeks = self.children.iter().filter(has_blocks).count() > 1;
    }

    /// Drops the children, and keeps the memory.
    pub(crate) fn reset(&mut self) {
        self.drop_children();
        self.order = KeyOrder::Bytewise;
        self.current = 0;
        self.is_valid = false;
        self.back = false;
        self.pending.clear();
        self.after_move = AfterMove::Rebuild;
        self.error = None;
        self.target.clear();
        self.step_heuristic = StepHeuristic::default();
        self.lazy.reset();
    }

    /// True if little memory is kept.
    pub(crate) fn is_small(&self) -> bool {
        let targets = self.target.capacity() + self.lazy.capacity();
        self.children.capacity() <= MAX_KEPT_CHILDREN && targets <= MAX_KEPT_TARGET
    }

    fn drop_children(&mut self) {
        for child in self.children.drain(..) {
            if let Child::Table(iter, _) = child {
                iter.recycle();
            }
        }
    }

    /// True if the iterator is positioned on an entry.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        self.is_valid
    }

    /// True if there are no children.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// True if the last operation is waiting for blocks that are not in memory.
    #[inline]
    #[must_use]
    pub fn lacks(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The internal key of the current entry.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.children[self.current].key()
    }

    /// The value of the current entry.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &[u8] {
        self.children[self.current].value()
    }

    /// The internal key and the value of the current entry.
    #[inline(always)]
    #[must_use]
    pub fn entry(&self) -> (&[u8], &[u8]) {
        self.children[self.current].entry()
    }

    /// The internal key of the current entry and the length of its value.
    #[inline(always)]
    #[must_use]
    pub fn head(&self) -> (&[u8], usize) {
        self.children[self.current].head()
    }

    /// Backward only: true if the positions of the children prove that no version of `user`, the
    /// current user key, is newer than the current entry. `same` compares user keys for equality.
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

    /// Backward only: true if another child is positioned on a version of `user`, the current user
    /// key, that hides the current entry from a read at `seq`. `same` compares user keys for
    /// equality.
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
            // The truncation is intended: the kind is the lowest byte.
            packed >> 8 <= seq.0
                && packed as u8 != ValueKind::Merge as u8
                && same(key::user_key(newer), user)
        })
    }

    /// Children whose key has the same prefix as the current one and that lost directly against it.
    /// If none of them is on the current user key, no other child is.
    #[inline]
    fn rivals_with_same_prefix(&self) -> impl Iterator<Item = usize> {
        let prefix = self.tree.winner().map(|winner| winner.prefix);
        self.tree
            .rivals()
            .filter(move |rival| Some(rival.prefix) == prefix)
            .map(|rival| rival.source)
            .filter(|&at| self.children[at].valid())
    }

    /// The value of the current entry, pinned.
    #[must_use]
    pub fn value_pin(&self) -> Value {
        self.children[self.current].value_pin()
    }

    /// Passes the entries of the blocks of all children from the current ones on, in the direction of iteration, to
    /// `visit`, child by child, each until it returns false. `visit` also gets the index of the child.
    pub fn visit_following(&self, mut visit: impl FnMut(usize, &[u8], &[u8]) -> bool) {
        for (at, child) in self.children.iter().enumerate() {
            child.visit_following(self.back, |key, value| visit(at, key, value));
        }
    }

    /// The error that ended the iteration, if any.
    ///
    /// # Errors
    ///
    /// The first error of a child or of a read.
    pub fn status(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// The tables that have to be opened for a seek to `target`, or to the end if there is none.
    pub(crate) fn unopened(&self, target: Option<&[u8]>, back: bool) -> Vec<FileToOpen<'_>> {
        let levels = self.children.iter().filter_map(|child| match child {
            Child::Level(level) => level.unopened(target, back),
            Child::Memtable(_) | Child::Table(..) | Child::Unread(_) => None,
        });
        levels.collect()
    }

    /// Moves to the first entry at or after `target`.
    pub fn seek(&mut self, target: &[u8]) -> Progress {
        self.seek_all(false, |_| target)
    }

    /// Moves to the last entry at or before `target`.
    pub fn seek_for_prev(&mut self, target: &[u8]) -> Progress {
        self.seek_all(true, |_| target)
    }

    /// [`MergingIter::seek`], or `seek_for_prev` if `back`, except that the children after `child`
    /// seek to the user key `end` instead: to its first entry if forward, to the last entry before
    /// it if backward. The entries that they skip are hidden.
    pub fn seek_split(&mut self, back: bool, target: &[u8], child: usize, end: &[u8]) -> Progress {
        let end = self.take_target_before(end);
        let progress = self.seek_all(back, |at| if at <= child { target } else { &end });
        self.target = end;
        progress
    }

    /// Returns a target before all versions of `user`. The buffer is taken from `self.target`; the
    /// caller puts it back.
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

    /// Moves to the next entry.
    #[expect(
        clippy::should_implement_trait,
        reason = "named by the contract of `cairn_types::iter`"
    )]
    #[inline]
    pub fn next(&mut self) -> Progress {
        debug_assert!(self.is_valid && !self.back);
        if self.lazy.is_partial() {
            return self.step_after_lazy_seek();
        }
        let prefix = self.children[self.current].next_prefix(&self.order);
        self.after_step_with_prefix(prefix)
    }

    /// Moves to the previous entry.
    #[inline]
    pub fn prev(&mut self) -> Progress {
        debug_assert!(self.is_valid && self.back);
        let prefix = self.children[self.current].prev_prefix(&self.order);
        self.after_step_with_prefix(prefix)
    }

    /// Moves every child that is inside a hidden range out of it, in the direction of iteration.
    /// `end` returns the end of the hidden range of a child, if any: forward, the first user key
    /// after the range; backward, the first key in it. Returns false, without moving anything, if
    /// the current child is not inside such a range, or a lazy seek has left out children.
    pub fn skip_ranges<'a>(
        &mut self,
        mut end: impl FnMut(usize, &mut Child) -> Option<&'a [u8]>,
    ) -> bool {
        if self.lazy.is_partial() {
            return false;
        }
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

    /// Moves child `at` out of the range that ends at `end`: by up to [`MAX_STEPS`] steps, then by
    /// a seek. Returns false if the child is not inside the range.
    fn leave_range(&mut self, at: usize, end: &[u8]) -> bool {
        let (back, order) = (self.back, &self.order);
        let is_inside = |child: &Child| {
            child.valid()
                && key::compare_plain(order, key::user_key(child.key()), end).is_lt() != back
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

    /// Reads ahead by `ahead`, with other bounds, from the next movement on, which is a seek.
    pub(crate) fn renew_readahead(&mut self, ahead: &Arc<ReadAhead>) {
        for child in &mut self.children {
            child.renew_readahead(ahead);
        }
    }

    /// Controls whether seeks may skip tables whose prefix filters exclude the prefix of the
    /// target.
    pub fn set_prefix_filter(&mut self, on: bool, extractor: Option<&PrefixExtractor>) {
        for child in &mut self.children {
            child.set_prefix_filter(on, extractor);
        }
    }

    /// Skips visible deletions of the current child while it stays current: at most `budget` of
    /// them, not newer than `seq` and before the user key `limit`. `last` is set to the user key of
    /// the last one. Returns the number of skipped entries. Forward only, and only if keys are in
    /// bytewise order. Skips nothing if a lazy seek has left out children.
    #[inline]
    pub fn skip_deletions(
        &mut self,
        seq: SequenceNumber,
        limit: Option<&[u8]>,
        budget: u64,
        last: &mut Vec<u8>,
    ) -> u64 {
        debug_assert!(self.is_valid && !self.back);
        if self.lazy.is_partial() {
            return 0;
        }
        let (skipped, progress) = match self.runner_up() {
            // The run ends at the key of the next child.
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

    /// False if it is certain that no other child is on the current user key.
    #[inline]
    #[must_use]
    pub fn may_have_more_of_key(&self) -> bool {
        self.lazy.is_partial() || !self.tree.wins_by_prefix()
    }

    /// Returns the child that would be current without the current one.
    #[inline]
    fn runner_up(&self) -> Option<usize> {
        let order = ChildOrder::of(&self.order, &self.children, self.back);
        let comes_first = |a, b| order.comes_first(a, b);
        let first = |a: Player, b: Player| if b.beats(a, comes_first) { b } else { a };
        let runner_up = self.tree.rivals().reduce(first)?.source;
        self.children[runner_up].valid().then_some(runner_up)
    }

    /// Skips visible deletions of the current child together with the entries that they delete in
    /// the next child, until the key of a third child. `last` is set to the user key of the last
    /// deletion. Forward only, and only if keys are in bytewise order. Skips nothing if a lazy seek has left out
    /// children.
    pub fn skip_deleted(&mut self, hidden: &SkipLimits<'_>, last: &mut Vec<u8>) -> Skipped {
        debug_assert!(self.is_valid && !self.back);
        if self.lazy.is_partial() {
            return Skipped::default();
        }
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

    /// The missing blocks, each with the child that needs it.
    pub fn requests(&self) -> impl Iterator<Item = (usize, ReadRequest)> {
        let request = |&at: &usize| Some((at, self.children[at].request()?));
        self.pending.iter().filter_map(request)
    }

    /// Supplies the block that `child` is waiting for. Returns `Ready` once no child is waiting.
    pub fn supply(&mut self, child: usize, bytes: Result<Buffer>) -> Progress {
        if let Some(at) = self.pending.iter().position(|&pending| pending == child)
            && self.children[child].supply(bytes).is_ready()
        {
            self.pending.swap_remove(at);
        }
        self.after_moves(self.after_move)
    }

    /// Reads missing blocks on the calling thread until the iterator is positioned.
    pub fn wait(&mut self, io: &Io) {
        self.wait_with(|requests| io.read_batch(requests));
    }

    /// [`MergingIter::wait`] with a custom `read`, which receives all pending requests in one
    /// batch.
    pub fn wait_with(&mut self, mut read: impl FnMut(&[ReadRequest]) -> Vec<Result<Buffer>>) {
        while self.is_waiting() {
            self.wait_once(&mut read);
        }
    }

    /// True if blocks are missing.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// True if a block is missing that only storage has. The device of a cache tier is not storage.
    pub(crate) fn lacks_storage(&self) -> bool {
        let waiting = self.pending.iter().filter_map(|&at| self.children.get(at));
        waiting.into_iter().any(|child| !child.lacks_only_device())
    }

    /// Records the lookups of the missing blocks, which are not read.
    #[cold]
    pub(crate) fn trace_refused(&self) {
        let waiting = self.pending.iter().filter_map(|&at| self.children.get(at));
        waiting.into_iter().for_each(Child::trace_refused);
    }

    /// One round of [`MergingIter::wait_with`].
    pub(crate) fn wait_once(
        &mut self,
        read: &mut impl FnMut(&[ReadRequest]) -> Vec<Result<Buffer>>,
    ) {
        let (children, requests): (Vec<usize>, Vec<ReadRequest>) = self.requests().unzip();
        if children.is_empty() {
            self.pending.clear();
            return self.fail(Error::aborted(
                "a child of the merging iterator is pending without a request",
            ));
        }
        for (child, bytes) in children.into_iter().zip(read(&requests)) {
            let _progress = self.supply(child, bytes);
        }
    }

    /// Seeks all children.
    #[inline]
    fn seek_all<'a>(&mut self, back: bool, target: impl Fn(usize) -> &'a [u8]) -> Progress {
        if !self.staged_seeks {
            return self.move_all(back, |at, child| match back {
                false => child.seek(target(at)),
                true => child.seek_for_prev(target(at)),
            });
        }
        self.begin_move(back);
        self.seek_in_stages(target, |_| true);
        self.after_moves(AfterMove::Rebuild)
    }

    /// Seeks the chosen children in stages, each of which prefetches memory that the next one touches, so
    /// that their cache misses overlap.
    #[inline]
    fn seek_in_stages<'a>(
        &mut self,
        target: impl Fn(usize) -> &'a [u8],
        chooses: impl Fn(usize) -> bool,
    ) {
        #[inline]
        fn chosen(
            children: &mut [Child],
            chooses: impl Fn(usize) -> bool,
        ) -> impl Iterator<Item = (usize, &mut Child)> {
            let children = children.iter_mut().enumerate();
            children.filter(move |(at, _)| chooses(*at))
        }
        let (children, back) = (&mut self.children, self.back);
        for (at, child) in chosen(children, &chooses) {
            child.begin_seek(target(at), back);
        }
        chosen(children, &chooses).for_each(|(_, child)| child.prefetch_block());
        chosen(children, &chooses).for_each(|(_, child)| child.pin_block());
        for (at, child) in chosen(children, &chooses) {
            if !child.finish_seek(target(at), back).is_ready() {
                self.pending.push(at);
            }
        }
    }

    fn move_all(
        &mut self,
        back: bool,
        mut step: impl FnMut(usize, &mut Child) -> Progress,
    ) -> Progress {
        self.begin_move(back);
        for (at, child) in self.children.iter_mut().enumerate() {
            if !step(at, child).is_ready() {
                self.pending.push(at);
            }
        }
        self.after_moves(AfterMove::Rebuild)
    }

    /// Prepares for a movement that does not depend on the current position.
    #[inline]
    fn begin_move(&mut self, back: bool) {
        self.back = back;
        self.error = None;
        self.pending.clear();
        self.lazy.forget();
    }

    /// Replays the games of the current child after a step, with the prefix of its new key if
    /// known.
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
            AfterMove::RebuildAndStep => {
                self.rebuild_tree();
                if self.is_valid {
                    return self.next();
                }
            }
        }
        Progress::Ready
    }

    /// Rebuilds the tree from the positions of all children.
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

    /// Replays the games of the current child.
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

/// Maximum number of steps by which a child leaves a hidden range before it seeks. Most range
/// tombstones hide few entries, and a step within a block is far cheaper than a seek.
const MAX_STEPS: usize = 4;

/// Number of consecutive ranges longer than [`MAX_STEPS`] after which children seek at once.
const FAILURES_BEFORE_SEEK: u32 = 4;

/// Steps are still tried for one range in this many.
const RETRY_INTERVAL: u32 = 16;

/// Number of consecutive ranges that were too long to leave by steps.
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

    /// Records that a range was left by steps, or that it had to be left by a seek (`failed`).
    #[inline]
    fn record(&mut self, failed: bool) {
        self.0 = match failed {
            true => self.0.wrapping_add(1),
            false => 0,
        };
    }
}

/// The prefix of an exhausted child. A key may have the same prefix.
const ENDED: u64 = u64::MAX;

/// The order of children by their current keys and the direction of iteration.
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

    /// The rank in the tree of a child whose key has this prefix.
    #[inline]
    fn oriented(&self, prefix: u64) -> u64 {
        if self.back { !prefix } else { prefix }
    }

    /// The rank in the tree of child `at`, or the error that ended it.
    // Otherwise the result would be returned through memory.
    #[inline(always)]
    fn prefix(&self, at: usize) -> Result<u64> {
        let child = &self.children[at];
        if !child.valid() {
            return child.status().map(|()| ENDED);
        }
        Ok(self.oriented(key::prefix(self.order, child.key())))
    }

    /// True if the entry of child `a` precedes that of child `b` in the direction of iteration.
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
    fn long_hidden_ranges_disable_steps_until_ranges_are_short_again() {
        let mut step_heuristic = StepHeuristic::default();
        let mut steps = 0;
        for _ in 0..1_000 {
            steps += step_heuristic.steps();
            step_heuristic.record(true);
        }
        assert!(steps <= 1_000 / 3, "{steps} steps in 1000 long ranges");
        // Once ranges are short again, steps are soon used for all of them.
        let seeks = (0..1_000).filter(|_| {
            let is_sought = step_heuristic.steps() == 0;
            step_heuristic.record(is_sought);
            is_sought
        });
        assert!(seeks.count() < RETRY_INTERVAL as usize);
    }
}
