//! A loser tree: finds the first of many sorted sources.
//!
//! Each internal node keeps the loser of the game played there. When the winner's source advances,
//! only the games on its path to the root are replayed. A game compares the first 8 bytes of the
//! keys, which are stored in the tree, and does so without a branch: the outcome is unpredictable,
//! and a mispredicted branch would cost more than the game. Full keys are compared only if these
//! prefixes are equal.

use std::hint::select_unpredictable;

/// A source and the prefix of its current key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Player {
    /// The player with the smaller prefix wins. The largest value if the source is exhausted.
    pub prefix: u64,
    /// The index of the source.
    pub source: usize,
}

impl Player {
    /// True if this player wins against `other`; see [`LoserTree`] for `comes_first`.
    #[inline]
    #[must_use]
    pub fn beats(self, other: Player, comes_first: impl Fn(usize, usize) -> bool) -> bool {
        match self.prefix == other.prefix {
            true => comes_first(self.source, other.source),
            false => self.prefix < other.prefix,
        }
    }
}

/// Marks a node at which no game has been played.
const EMPTY: Player = Player {
    prefix: 0,
    source: usize::MAX,
};

/// A loser tree over a number of sources.
///
/// `comes_first(a, b)` is called for sources with equal prefixes and returns true if `a` precedes
/// `b`.
#[derive(Debug, Default)]
pub struct LoserTree {
    /// The losers of all games. The winner of game `n` proceeds to game `n / 2`; source `s` starts
    /// in game `(sources + s) / 2`. Index 0 holds the overall winner.
    losers: Vec<Player>,
}

impl LoserTree {
    /// An empty tree without allocation.
    pub const NONE: LoserTree = LoserTree { losers: Vec::new() };

    /// Resets the tree to `count` sources, to be [inserted](LoserTree::insert) one by one.
    #[inline]
    pub fn reset(&mut self, count: usize) {
        if self.losers.len() != count {
            self.losers.resize(count, EMPTY);
        }
        self.losers.fill(EMPTY);
    }

    /// Inserts `source`, whose key has this prefix. The winner is known once all sources are
    /// inserted.
    ///
    /// # Panics
    ///
    /// If `source` is out of range.
    #[inline]
    pub fn insert(
        &mut self,
        source: usize,
        prefix: u64,
        comes_first: impl Fn(usize, usize) -> bool,
    ) {
        let mut player = Player { prefix, source };
        let mut game = (self.losers.len() + source) / 2;
        // The first player at a game waits for its opponent.
        while game > 0 && self.losers[game].source != EMPTY.source {
            player = self.play(game, player, &comes_first);
            game /= 2;
        }
        self.losers[game] = player;
    }

    /// Replays the games of the winner, whose source has advanced to a key of this prefix. Returns
    /// the new winner.
    ///
    /// # Panics
    ///
    /// If there are no sources.
    #[inline]
    pub fn replay(&mut self, prefix: u64, comes_first: impl Fn(usize, usize) -> bool) -> Player {
        let source = self.losers[0].source;
        let mut winner = Player { prefix, source };
        let mut game = (self.losers.len() + source) / 2;
        while game > 0 {
            winner = self.play(game, winner, &comes_first);
            game /= 2;
        }
        self.losers[0] = winner;
        winner
    }

    /// Updates the prefix of the winner, whose source has advanced and is known to win again.
    ///
    /// # Panics
    ///
    /// If there are no sources.
    #[inline]
    pub fn keep(&mut self, prefix: u64) {
        self.losers[0].prefix = prefix;
    }

    /// Plays `player` against the loser stored at `game`, stores the loser there and returns the
    /// winner.
    #[inline]
    fn play(
        &mut self,
        game: usize,
        player: Player,
        comes_first: &impl Fn(usize, usize) -> bool,
    ) -> Player {
        let other = self.losers[game];
        let changes = other.beats(player, comes_first);
        self.losers[game] = select_unpredictable(changes, player, other);
        select_unpredictable(changes, other, player)
    }

    /// The overall winner; `None` if there are no sources.
    #[inline]
    #[must_use]
    pub fn winner(&self) -> Option<Player> {
        self.losers.first().copied()
    }

    /// The players that lost directly against the winner. The runner-up is one of them.
    #[inline]
    pub fn rivals(&self) -> impl Iterator<Item = Player> {
        let mut game = match self.winner() {
            Some(winner) => self.losers.len() + winner.source,
            None => 0,
        };
        std::iter::from_fn(move || {
            game /= 2;
            (game > 0).then(|| self.losers[game])
        })
    }

    /// True if no other source has the winner's prefix.
    #[inline]
    #[must_use]
    pub fn wins_by_prefix(&self) -> bool {
        let prefix = self.winner().map(|winner| winner.prefix);
        self.rivals().all(|rival| Some(rival.prefix) != prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A prefix and the rest of the key. An exhausted source has the largest prefix, which a key
    /// may have too.
    type Key = Option<(u64, u8)>;

    fn key() -> impl Strategy<Value = Key> {
        let prefix = prop::sample::select(vec![0, 1, 2, u64::MAX]);
        prop::option::weighted(0.8, (prefix, 0_u8..3))
    }

    fn prefix(key: Key) -> u64 {
        key.map_or(u64::MAX, |(prefix, _)| prefix)
    }

    /// The sort key of a source: exhausted sources last, equal keys by index.
    fn place(keys: &[Key], source: usize) -> (bool, Key, usize) {
        (keys[source].is_none(), keys[source], source)
    }

    fn in_order(keys: &[Key]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by_key(|&source| place(keys, source));
        order
    }

    proptest! {
        #[test]
        fn winner_is_first_source_and_runner_up_is_a_rival(
            mut keys in prop::collection::vec(key(), 0..12),
            changes in prop::collection::vec(key(), 0..40),
        ) {
            let mut tree = LoserTree::NONE;
            // A reset discards earlier games.
            tree.reset(3);
            (0..3).for_each(|source| tree.insert(source, 1, |a, b| a < b));
            let comes_first = |keys: &[Key], a, b| {
                assert_eq!(prefix(keys[a]), prefix(keys[b]), "called for equal prefixes only");
                place(keys, a) < place(keys, b)
            };
            tree.reset(keys.len());
            for (source, key) in keys.iter().enumerate() {
                tree.insert(source, prefix(*key), |a, b| comes_first(&keys, a, b));
            }
            for change in changes {
                let order = in_order(&keys);
                let Some(winner) = tree.winner() else {
                    prop_assert!(keys.is_empty());
                    break;
                };
                prop_assert_eq!((winner.source, winner.prefix), (order[0], prefix(keys[order[0]])));
                let best = tree.rivals().map(|rival| place(&keys, rival.source)).min();
                prop_assert_eq!(best.map(|(.., source)| source), order.get(1).copied());
                for rival in tree.rivals() {
                    prop_assert_eq!(rival.prefix, prefix(keys[rival.source]));
                    prop_assert_eq!(
                        winner.beats(rival, |a, b| comes_first(&keys, a, b)),
                        place(&keys, winner.source) < place(&keys, rival.source)
                    );
                }
                let others = order[1..].iter();
                let others_like = others.filter(|&&other| prefix(keys[other]) == winner.prefix);
                prop_assert_eq!(tree.wins_by_prefix(), others_like.count() == 0);
                keys[winner.source] = change;
                if in_order(&keys)[0] == winner.source && change.is_some_and(|(_, rest)| rest > 0) {
                    tree.keep(prefix(change));
                } else {
                    let now = tree.replay(prefix(change), |a, b| comes_first(&keys, a, b));
                    prop_assert_eq!(Some(now), tree.winner());
                }
            }
        }
    }
}
