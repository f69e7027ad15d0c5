//! Sorted runs of entries, and the merge of several runs.
//!
//! A compaction reads each run once, from front to back, so runs only move forward. The merge is a
//! [`LoserTree`]. The winner stays the winner while its next key is smaller than the runner-up's,
//! at the cost of one comparison.

use cairn_format::key;
use cairn_read::loser_tree::{LoserTree, Player};
use cairn_types::{KeyOrder, Result};

/// A forward-only iterator over entries in internal-key order, with the contract of
/// `cairn_types::iter`.
pub trait Run {
    /// Positions at the first entry at or after the internal key `target`, or at the first entry
    /// without a target.
    fn start(&mut self, target: Option<&[u8]>);
    /// Moves to the next entry. The run must be valid.
    fn next(&mut self);
    /// True if the run is positioned at an entry.
    fn valid(&self) -> bool;
    /// Returns the internal key of the entry.
    fn key(&self) -> &[u8];
    /// Returns the value of the entry.
    fn value(&self) -> &[u8];
    /// Returns the error that ended the run, if any.
    ///
    /// # Errors
    ///
    /// The error that ended the run.
    fn status(&self) -> Result<()>;
    /// Returns the name of what the entry is read from, for errors.
    #[cold]
    fn source(&self) -> String {
        "an input of a compaction".to_owned()
    }
}

/// The merge of several runs.
pub struct Merge<R> {
    order: KeyOrder,
    runs: Vec<R>,
    tree: LoserTree,
    /// Index of the run with the current entry, once started.
    at: usize,
    /// The best run other than the winner, if it is known.
    runner_up: Option<Player>,
    /// The number of entries passed.
    passed: u64,
}

impl<R: Run> Merge<R> {
    /// Creates the merge of `runs`, newest first: among equal keys the earlier run wins.
    #[must_use]
    pub fn new(order: KeyOrder, runs: Vec<R>) -> Merge<R> {
        Merge {
            order,
            runs,
            tree: LoserTree::NONE,
            at: usize::MAX,
            runner_up: None,
            passed: 0,
        }
    }

    /// Returns the number of entries passed with [`Run::next`].
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Returns the rank of `run` in the loser tree: the [prefix](key::prefix) of its key, or the
    /// largest number at its end.
    #[inline]
    fn prefix(&self, run: usize) -> u64 {
        match self.runs[run].valid() {
            true => key::prefix(&self.order, self.runs[run].key()),
            false => u64::MAX,
        }
    }

    /// Returns the best run other than the winner.
    #[inline]
    fn runner_up(&self) -> Option<Player> {
        let comes_first = comes_first(&self.order, &self.runs);
        let first = |a: Player, b: Player| if b.beats(a, &comes_first) { b } else { a };
        self.tree.rivals().reduce(first)
    }

    /// Returns the winner, once started.
    #[inline]
    fn current(&self) -> Option<&R> {
        self.runs.get(self.at)
    }
}

/// Breaks ties between two runs with equal prefixes.
#[inline]
fn comes_first<R: Run>(order: &KeyOrder, runs: &[R]) -> impl Fn(usize, usize) -> bool {
    move |a, b| {
        let (one, other) = (&runs[a], &runs[b]);
        match (one.valid(), other.valid()) {
            (true, true) => key::compare(order, one.key(), other.key())
                .then(a.cmp(&b))
                .is_lt(),
            (lives, _) => lives,
        }
    }
}

impl<R: Run> Run for Merge<R> {
    fn start(&mut self, target: Option<&[u8]>) {
        self.tree.reset(self.runs.len());
        for run in 0..self.runs.len() {
            self.runs[run].start(target);
            let prefix = self.prefix(run);
            self.tree
                .insert(run, prefix, comes_first(&self.order, &self.runs));
        }
        self.at = self
            .tree
            .winner()
            .map_or(usize::MAX, |winner| winner.source);
        self.runner_up = None;
    }

    #[inline]
    fn next(&mut self) {
        let source = self.at;
        let Some(run) = self.runs.get_mut(source) else {
            return;
        };
        debug_assert!(run.valid(), "`next` is called on an entry");
        self.passed += 1;
        run.next();
        if self.runs.len() == 1 {
            return;
        }
        let prefix = self.prefix(source);
        let player = Player { prefix, source };
        let comes_first = comes_first(&self.order, &self.runs);
        match self.runner_up {
            Some(runner_up) if player.beats(runner_up, &comes_first) => self.tree.keep(prefix),
            _ => {
                self.at = self.tree.replay(prefix, comes_first).source;
                let wins_again = self.at == source;
                self.runner_up = wins_again.then(|| self.runner_up()).flatten();
            }
        }
    }

    #[inline]
    fn valid(&self) -> bool {
        self.current().is_some_and(Run::valid)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.current().map_or(&[], Run::key)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.current().map_or(&[], Run::value)
    }

    fn status(&self) -> Result<()> {
        // A failed run loses every game, but its error must not be mistaken for its end.
        self.runs.iter().try_for_each(Run::status)
    }

    #[cold]
    fn source(&self) -> String {
        match self.current() {
            Some(run) => run.source(),
            None => "the inputs of a compaction".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_format::key::InternalKey;
    use cairn_types::{SequenceNumber, ValueKind};
    use proptest::prelude::*;

    /// A run in memory; its values are its name.
    struct Listed {
        order: KeyOrder,
        keys: Vec<InternalKey>,
        at: usize,
        name: [u8; 1],
    }

    impl Run for Listed {
        fn start(&mut self, target: Option<&[u8]>) {
            let before = |key: &InternalKey| {
                target
                    .is_some_and(|target| key::compare(&self.order, key.as_bytes(), target).is_lt())
            };
            self.at = self.keys.partition_point(before);
        }
        fn next(&mut self) {
            self.at += 1;
        }
        fn valid(&self) -> bool {
            self.at < self.keys.len()
        }
        fn key(&self) -> &[u8] {
            self.keys[self.at].as_bytes()
        }
        fn value(&self) -> &[u8] {
            &self.name
        }
        fn status(&self) -> Result<()> {
            Ok(())
        }
    }

    /// Keys over a small alphabet, some longer than a prefix, some with the largest prefix.
    fn key() -> impl Strategy<Value = Vec<u8>> {
        let letter = prop::sample::select(vec![0, b'a', b'b', 0xff]);
        prop_oneof![
            prop::collection::vec(letter.clone(), 0..3),
            prop::collection::vec(letter, 7..10)
        ]
    }

    proptest! {
        #[test]
        fn all_entries_come_in_order_and_of_equal_keys_the_newest_run_first(
            lists in prop::collection::vec(prop::collection::btree_set((key(), 0_u64..3), 0..12), 0..10),
            target in prop::option::of(key()),
            order in prop::sample::select(vec![KeyOrder::Bytewise, KeyOrder::ReverseBytewise]),
        ) {
            let internal = |user: &[u8], seq| {
                InternalKey::new(user, SequenceNumber(seq), ValueKind::Value)
            };
            let runs: Vec<Listed> = lists.iter().zip(0..).map(|(list, name)| {
                let mut keys: Vec<_> = list.iter().map(|(user, seq)| internal(user, *seq)).collect();
                keys.sort_by(|a, b| key::compare(&order, a.as_bytes(), b.as_bytes()));
                Listed { order: order.clone(), keys, at: 0, name: [name] }
            }).collect();
            let target = target.map(|user| internal(&user, 9));
            let mut expected: Vec<(Vec<u8>, u8)> = runs.iter()
                .flat_map(|run| run.keys.iter().map(|key| (key.as_bytes().to_vec(), run.name[0])))
                .filter(|(internal, _)| target.as_ref().is_none_or(|target| {
                    key::compare(&order, internal, target.as_bytes()).is_ge()
                }))
                .collect();
            expected.sort_by(|a, b| key::compare(&order, &a.0, &b.0).then(a.1.cmp(&b.1)));

            let mut merge = Merge::new(order.clone(), runs);
            // A second `start` resets all state.
            for target in [None, target.as_ref().map(InternalKey::as_bytes)] {
                merge.start(target);
            }
            let mut found = Vec::new();
            while merge.valid() {
                found.push((merge.key().to_vec(), merge.value()[0]));
                merge.next();
            }
            prop_assert_eq!(merge.passed(), found.len() as u64);
            prop_assert_eq!(found, expected);
        }
    }
}
