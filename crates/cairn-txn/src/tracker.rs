//! The keys that a transaction has locked, or that its commit must check.

use std::collections::hash_map::Entry;

use cairn_locks::{KeyMap, LockKey};
use cairn_types::SequenceNumber;

/// A tracked key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tracked {
    /// The key was not written by others after this sequence number.
    pub(crate) seq: SequenceNumber,
    /// The number of reads for update.
    pub(crate) reads: u32,
    /// The number of writes.
    pub(crate) writes: u32,
    /// True if the lock is exclusive.
    pub(crate) exclusive: bool,
}

/// The outcome of [`Tracker::untrack_read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Untracked {
    /// The read was not tracked.
    No,
    /// The key stays tracked for other accesses.
    Read,
    /// The key is no longer tracked.
    Key,
}

/// The tracked keys of a transaction, or those since a save point.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracker {
    keys: KeyMap<Tracked>,
}

impl Tracker {
    /// Returns the state of `key`, if it is tracked.
    pub(crate) fn get(&self, key: &LockKey) -> Option<Tracked> {
        self.keys.get(key).copied()
    }

    /// Tracks an access to `key`, which was not written after `seq`.
    pub(crate) fn track(
        &mut self,
        key: LockKey,
        seq: SequenceNumber,
        read_only: bool,
        exclusive: bool,
    ) {
        self.add(
            key,
            Tracked {
                seq,
                reads: u32::from(read_only),
                writes: u32::from(!read_only),
                exclusive,
            },
        );
    }

    /// Adds accesses to `key`.
    fn add(&mut self, key: LockKey, added: Tracked) {
        match self.keys.entry(key) {
            Entry::Vacant(place) => {
                place.insert(added);
            }
            Entry::Occupied(mut place) => {
                let tracked = place.get_mut();
                tracked.seq = tracked.seq.min(added.seq);
                tracked.reads += added.reads;
                tracked.writes += added.writes;
                tracked.exclusive |= added.exclusive;
            }
        }
    }

    /// Forgets a read of `key`.
    pub(crate) fn untrack_read(&mut self, key: &LockKey) -> Untracked {
        let Some(tracked) = self.keys.get_mut(key) else {
            return Untracked::No;
        };
        let had_read = tracked.reads > 0;
        tracked.reads = tracked.reads.saturating_sub(1);
        match (tracked.reads + tracked.writes == 0, had_read) {
            (true, _) => {
                self.keys.remove(key);
                Untracked::Key
            }
            (false, true) => Untracked::Read,
            (false, false) => Untracked::No,
        }
    }

    /// Adds the accesses of `other`.
    pub(crate) fn merge(&mut self, other: Tracker) {
        for (key, added) in other.keys {
            self.add(key, added);
        }
    }

    /// Forgets the accesses of `since`, which are part of this. Returns the keys that had no others.
    pub(crate) fn subtract(&mut self, since: Tracker) -> Vec<LockKey> {
        let mut gone = Vec::new();
        for (key, removed) in since.keys {
            let Some(tracked) = self.keys.get_mut(&key) else {
                continue;
            };
            debug_assert!(
                tracked.reads >= removed.reads && tracked.writes >= removed.writes,
                "a save point tracks a part of the accesses"
            );
            tracked.reads -= removed.reads;
            tracked.writes -= removed.writes;
            if tracked.reads + tracked.writes == 0 {
                self.keys.remove(&key);
                gone.push(key);
            }
        }
        gone
    }

    /// The tracked keys, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&LockKey, &Tracked)> {
        self.keys.iter()
    }

    /// The number of keys.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Removes all keys and calls `each` with them. Memory for a few keys is kept.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(&LockKey)) {
        for (key, _) in self.keys.drain() {
            each(&key);
        }
        self.keys.shrink_to(64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> LockKey {
        LockKey::new(0, &[n])
    }

    #[test]
    fn a_key_keeps_its_earliest_number_and_counts_accesses() {
        let mut tracker = Tracker::default();
        tracker.track(key(1), SequenceNumber(9), true, false);
        tracker.track(key(1), SequenceNumber(7), false, true);
        tracker.track(key(1), SequenceNumber(8), true, false);
        let tracked = tracker.get(&key(1)).unwrap();
        assert_eq!((tracked.seq.0, tracked.reads, tracked.writes), (7, 2, 1));
        assert!(tracked.exclusive);
        assert_eq!(tracker.untrack_read(&key(1)), Untracked::Read);
        assert_eq!(tracker.untrack_read(&key(1)), Untracked::Read);
        assert_eq!(tracker.untrack_read(&key(1)), Untracked::No);
        assert_eq!(tracker.untrack_read(&key(2)), Untracked::No);
    }

    #[test]
    fn a_rollback_releases_only_keys_first_accessed_since_the_save_point() {
        let (mut all, mut since) = (Tracker::default(), Tracker::default());
        all.track(key(1), SequenceNumber(1), false, true);
        for n in [1, 2] {
            all.track(key(n), SequenceNumber(2), false, true);
            since.track(key(n), SequenceNumber(2), false, true);
        }
        assert_eq!(all.subtract(since), [key(2)]);
        assert_eq!(all.len(), 1);
    }
}
