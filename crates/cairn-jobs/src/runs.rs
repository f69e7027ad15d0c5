//! Sorted runs of entries, and merging them into one.
//!
//! A compaction reads each run from front to back, once, so a run only goes forward. The merge
//! keeps a heap of runs by their current keys. The run on top stays there as long as its next key
//! is smaller than that of the runner-up, which costs one comparison; most comparisons end with
//! the first 8 bytes of the keys, which the heap keeps beside the runs.

use std::cmp::Ordering;

use cairn_format::key;
use cairn_types::{KeyOrder, Result};

/// Entries in internal-key order, seen one at a time from front to back. Keeps the contract of
/// `cairn_types::iter` as far as it goes forward.
pub trait Run {
    /// Goes to the first entry at or after `target`, an internal key; to the first of all without.
    fn start(&mut self, target: Option<&[u8]>);
    /// Goes to the following entry. Only while the run stands on an entry.
    fn next(&mut self);
    /// Whether the run stands on an entry.
    fn valid(&self) -> bool;
    /// The internal key of the entry.
    fn key(&self) -> &[u8];
    /// The value of the entry.
    fn value(&self) -> &[u8];
    /// Why the run stands nowhere, if not because it ended.
    ///
    /// # Errors
    ///
    /// The error that ended it.
    fn status(&self) -> Result<()>;
}

/// Several runs as one.
pub struct Merge<R> {
    order: KeyOrder,
    runs: Vec<R>,
    /// Runs that stand on an entry, as a binary heap: the smallest key first.
    heap: Vec<Top>,
    /// Which child of the top has the smaller key, while that is known.
    runner_up: Option<usize>,
    /// Entries that were passed by.
    passed: u64,
}

/// A run in the heap.
#[derive(Clone, Copy)]
struct Top {
    /// The first 8 bytes of its user key, if those order keys; 0 if not.
    prefix: u64,
    /// Its position in `Merge::runs`.
    run: usize,
}

/// The first 8 bytes of the user key of `internal`, as a number that orders as they do.
#[inline]
fn prefix(internal: &[u8]) -> u64 {
    let user = key::user_key(internal);
    match user.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => user
            .iter()
            .fold(0, |number, &byte| number << 8 | u64::from(byte))
            .checked_shl(8 * (8 - user.len() as u32))
            .unwrap_or(0),
    }
}

impl<R: Run> Merge<R> {
    /// The entries of `runs`, the newest run first: among equal keys, the earlier run wins.
    #[must_use]
    pub fn new(order: KeyOrder, runs: Vec<R>) -> Merge<R> {
        Merge {
            order,
            heap: Vec::with_capacity(runs.len()),
            runs,
            runner_up: None,
            passed: 0,
        }
    }

    /// How many entries were passed by with [`Run::next`].
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.passed
    }

    #[inline]
    fn top(&self, run: usize) -> Top {
        let prefix = match self.order.is_bytewise() {
            true => prefix(self.runs[run].key()),
            false => 0,
        };
        Top { prefix, run }
    }

    #[inline]
    fn less(&self, a: Top, b: Top) -> bool {
        let compare = || key::compare(&self.order, self.runs[a.run].key(), self.runs[b.run].key());
        match a.prefix.cmp(&b.prefix).then_with(compare) {
            Ordering::Less => true,
            Ordering::Equal => a.run < b.run,
            Ordering::Greater => false,
        }
    }

    /// The child of `at` with the smaller key.
    #[inline]
    fn smaller_child(&self, at: usize) -> Option<usize> {
        let (left, right) = (2 * at + 1, 2 * at + 2);
        match (self.heap.get(left), self.heap.get(right)) {
            (None, _) => None,
            (Some(&a), Some(&b)) if self.less(b, a) => Some(right),
            _ => Some(left),
        }
    }

    /// Restores the heap below `at`, whose key has grown.
    fn sift_down(&mut self, mut at: usize) {
        while let Some(child) = self.smaller_child(at) {
            if !self.less(self.heap[child], self.heap[at]) {
                break;
            }
            self.heap.swap(child, at);
            at = child;
        }
    }
}

impl<R: Run> Run for Merge<R> {
    fn start(&mut self, target: Option<&[u8]>) {
        self.heap.clear();
        self.runner_up = None;
        for run in 0..self.runs.len() {
            self.runs[run].start(target);
            if self.runs[run].valid() {
                self.heap.push(self.top(run));
            }
        }
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
    }

    #[inline]
    fn next(&mut self) {
        self.passed += 1;
        let run = self.heap[0].run;
        self.runs[run].next();
        if !self.runs[run].valid() {
            self.heap.swap_remove(0);
            self.runner_up = None;
            self.sift_down(0);
            return;
        }
        self.heap[0] = self.top(run);
        if self.runner_up.is_none() {
            self.runner_up = self.smaller_child(0);
        }
        if let Some(child) = self.runner_up
            && self.less(self.heap[child], self.heap[0])
        {
            self.heap.swap(child, 0);
            self.runner_up = None;
            self.sift_down(child);
        }
    }

    #[inline]
    fn valid(&self) -> bool {
        !self.heap.is_empty()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.runs[self.heap[0].run].key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.runs[self.heap[0].run].value()
    }

    fn status(&self) -> Result<()> {
        // A run that failed has left the heap; its error must not be taken for its end.
        self.runs.iter().try_for_each(Run::status)
    }
}
