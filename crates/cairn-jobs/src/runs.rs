//! Sorted runs of entries, and merging them into one.
//!
//! A compaction reads each run from front to back, once, so a run only goes forward. The merge
//! is a tournament: runs play pairwise, each game's loser stays where it lost, and the winner's next
//! key plays again only where the winner came by. A run that wins again stays the winner as long as
//! its next key is smaller than that of the runner-up, which costs one comparison. Most comparisons
//! end with the first 8 bytes of the keys, which are kept beside the runs.

use std::hint::select_unpredictable;

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
    /// The losers of all games: that of game `n` plays on in game `n / 2` if it wins, and run `r`
    /// begins in game `(runs + r) / 2`. Game 0 is not played.
    losers: Vec<Player>,
    /// Who won all games; none before the start.
    winner: Option<Player>,
    /// Who would win without the winner, while that is known.
    runner_up: Option<Player>,
    /// Entries that were passed by.
    passed: u64,
}

/// A run with its current key.
#[derive(Clone, Copy)]
struct Player {
    /// The first 8 bytes of its user key, if those order keys; 0 if not. The largest number if the
    /// run has ended.
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
            losers: Vec::with_capacity(runs.len()),
            runs,
            winner: None,
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
    fn player(&self, run: usize) -> Player {
        let prefix = match (self.runs[run].valid(), self.order.is_bytewise()) {
            (false, _) => u64::MAX,
            (true, true) => prefix(self.runs[run].key()),
            (true, false) => 0,
        };
        Player { prefix, run }
    }

    /// Whether `a` wins against `b`.
    #[inline]
    fn beats(&self, a: Player, b: Player) -> bool {
        match a.prefix == b.prefix {
            true => self.beats_by_key(a, b),
            false => a.prefix < b.prefix,
        }
    }

    fn beats_by_key(&self, a: Player, b: Player) -> bool {
        let (one, other) = (&self.runs[a.run], &self.runs[b.run]);
        match (one.valid(), other.valid()) {
            (true, true) => key::compare(&self.order, one.key(), other.key())
                .then(a.run.cmp(&b.run))
                .is_lt(),
            (lives, _) => lives,
        }
    }

    /// All games that `player` would come by from its run on, the first one first.
    #[inline]
    fn games(&self, player: Player) -> impl Iterator<Item = usize> + use<R> {
        let first = (self.runs.len() + player.run) / 2;
        std::iter::successors(Some(first), |game| Some(game / 2)).take_while(|&game| game > 0)
    }

    /// Plays the games of the winner anew, which now has the key of `player`.
    #[inline]
    fn replay(&mut self, player: Player) {
        let mut winner = player;
        for game in self.games(player) {
            let other = self.losers[game];
            // Who wins cannot be foretold: a jump would be taken wrongly half of the time.
            let changes = self.beats(other, winner);
            let loser = select_unpredictable(changes, winner, other);
            winner = select_unpredictable(changes, other, winner);
            self.losers[game] = loser;
        }
        self.runner_up = match winner.run == player.run {
            // Whoever lost against the winner itself.
            true => self
                .games(player)
                .map(|game| self.losers[game])
                .reduce(|a, b| if self.beats(b, a) { b } else { a }),
            false => None,
        };
        self.winner = Some(winner);
    }
}

impl<R: Run> Run for Merge<R> {
    fn start(&mut self, target: Option<&[u8]>) {
        let count = self.runs.len();
        // The winners of all games, with the runs themselves behind them.
        let mut winners = vec![Player { prefix: 0, run: 0 }; count];
        for run in 0..count {
            self.runs[run].start(target);
            winners.push(self.player(run));
        }
        self.losers = winners[..count].to_vec();
        for game in (1..count).rev() {
            let (a, b) = (winners[2 * game], winners[2 * game + 1]);
            (winners[game], self.losers[game]) = match self.beats(b, a) {
                true => (b, a),
                false => (a, b),
            };
        }
        self.winner = winners.get(1).copied();
        self.runner_up = None;
    }

    #[inline]
    fn next(&mut self) {
        let Some(Player { run, .. }) = self.winner else {
            return;
        };
        self.passed += 1;
        self.runs[run].next();
        let player = self.player(run);
        match self.runner_up {
            Some(runner_up) if self.beats(player, runner_up) => self.winner = Some(player),
            _ => self.replay(player),
        }
    }

    #[inline]
    fn valid(&self) -> bool {
        self.winner
            .is_some_and(|winner| self.runs[winner.run].valid())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.winner
            .map_or(&[], |winner| self.runs[winner.run].key())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.winner
            .map_or(&[], |winner| self.runs[winner.run].value())
    }

    fn status(&self) -> Result<()> {
        // A run that failed loses every game; its error must not be taken for its end.
        self.runs.iter().try_for_each(Run::status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_format::key::InternalKey;
    use cairn_types::{SequenceNumber, ValueKind};
    use proptest::prelude::*;

    /// A run in memory, whose values are its name.
    struct Listed {
        keys: Vec<InternalKey>,
        at: usize,
        name: [u8; 1],
    }

    impl Run for Listed {
        fn start(&mut self, target: Option<&[u8]>) {
            let before = |key: &InternalKey| {
                target.is_some_and(|target| {
                    key::compare(&KeyOrder::Bytewise, key.as_bytes(), target).is_lt()
                })
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

    /// Keys of few letters, some longer than a prefix, and some whose prefix is the largest number.
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
        ) {
            let order = KeyOrder::Bytewise;
            let internal = |user: &[u8], seq| {
                InternalKey::new(user, SequenceNumber(seq), ValueKind::Value)
            };
            let runs: Vec<Listed> = lists.iter().zip(0..).map(|(list, name)| {
                let mut keys: Vec<_> = list.iter().map(|(user, seq)| internal(user, *seq)).collect();
                keys.sort_by(|a, b| key::compare(&order, a.as_bytes(), b.as_bytes()));
                Listed { keys, at: 0, name: [name] }
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
            // A second start leaves nothing of the first.
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
