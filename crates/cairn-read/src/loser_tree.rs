//! The first of many sorted sources, found by a loser_tree of their keys.
//!
//! Sources play pairwise; each game's loser stays where it lost, and when the winner has another key,
//! that plays again only where the winner came by. Games are decided by the first 8 bytes of the
//! keys, which lie here side by side, and without a jump: who wins cannot be foretold, and a jump that
//! is foretold wrongly costs more than the game. Only what those bytes cannot tell apart is asked for.

use std::hint::select_unpredictable;

/// A source that stands on a key, or has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Player {
    /// A number that is smaller than another source's only if the key comes first.
    pub prefix: u64,
    /// The source.
    pub source: usize,
}

impl Player {
    /// True if this one wins against `other`; see [`LoserTree`] for `comes_first`.
    #[inline]
    #[must_use]
    pub fn beats(self, other: Player, comes_first: impl Fn(usize, usize) -> bool) -> bool {
        match self.prefix == other.prefix {
            true => comes_first(self.source, other.source),
            false => self.prefix < other.prefix,
        }
    }
}

/// The entry of a place where no player has lost yet.
const EMPTY: Player = Player {
    prefix: 0,
    source: usize::MAX,
};

/// The games of some sources.
///
/// Functions that play take `comes_first`, which says of two sources with equal prefixes whether the
/// first one wins.
#[derive(Debug, Default)]
pub struct LoserTree {
    /// The losers of all games: that of game `n` plays on in game `n / 2` if it wins, and source `s`
    /// begins in game `(sources + s) / 2`. In place of game 0, which is not played, the winner.
    losers: Vec<Player>,
}

impl LoserTree {
    /// One that has not begun, and has allocated nothing.
    pub const NONE: LoserTree = LoserTree { losers: Vec::new() };

    /// Begins with `count` sources, which are to [enter](LoserTree::insert) one by one.
    #[inline]
    pub fn reset(&mut self, count: usize) {
        if self.losers.len() != count {
            self.losers.resize(count, EMPTY);
        }
        self.losers.fill(EMPTY);
    }

    /// Has `source` play for the first time, with a key of this prefix. Once all sources have entered there is
    /// a winner.
    ///
    /// # Panics
    ///
    /// If there are not as many sources.
    #[inline]
    pub fn insert(
        &mut self,
        source: usize,
        prefix: u64,
        comes_first: impl Fn(usize, usize) -> bool,
    ) {
        let mut player = Player { prefix, source };
        let mut game = (self.losers.len() + source) / 2;
        // Who comes to a game first waits there.
        while game > 0 && self.losers[game].source != EMPTY.source {
            player = self.play(game, player, &comes_first);
            game /= 2;
        }
        self.losers[game] = player;
    }

    /// The winner's source has another key, of this prefix: plays its games again. Returns who wins now.
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

    /// The winner's source has another key, of this prefix, and is known to win again.
    ///
    /// # Panics
    ///
    /// If there are no sources.
    #[inline]
    pub fn keep(&mut self, prefix: u64) {
        self.losers[0].prefix = prefix;
    }

    /// Plays `player` against who waits in `game`, and leaves the loser there.
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

    /// The winner of all games; `None` if there are no sources.
    #[inline]
    #[must_use]
    pub fn winner(&self) -> Option<Player> {
        self.losers.first().copied()
    }

    /// The tree that lost against the winner itself: the winner without it is one of them.
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

    /// Keys are a prefix and what follows it; a source that has ended has the largest prefix, which
    /// others may have too.
    type Key = Option<(u64, u8)>;

    fn key() -> impl Strategy<Value = Key> {
        let prefix = prop::sample::select(vec![0, 1, 2, u64::MAX]);
        prop::option::weighted(0.8, (prefix, 0_u8..3))
    }

    fn prefix(key: Key) -> u64 {
        key.map_or(u64::MAX, |(prefix, _)| prefix)
    }

    /// The order of sources: those that have ended are last, and of equal keys the first source's first.
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
        fn the_first_source_wins_and_the_second_is_among_its_rivals(
            mut keys in prop::collection::vec(key(), 0..12),
            changes in prop::collection::vec(key(), 0..40),
        ) {
            let mut tree = LoserTree::NONE;
            // What an earlier loser_tree left counts for nothing.
            tree.reset(3);
            (0..3).for_each(|source| tree.insert(source, 1, |a, b| a < b));
            let comes_first = |keys: &[Key], a, b| {
                assert_eq!(prefix(keys[a]), prefix(keys[b]), "others are not asked for");
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
