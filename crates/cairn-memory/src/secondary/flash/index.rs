//! One shard of the index of the flash cache: the locations of entries. Everything here runs under the
//! shard's lock.
//!
//! An entry is *pending* while its bytes are in memory, waiting to be written or being moved from a segment
//! that is about to be overwritten, and *placed* when it is in a segment. It may be both, and is then counted
//! once.
//!
//! The index stores a 64-bit hash of each key. The key itself is in the record and compared there.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::super::recent_keys::RecentKeys;
use super::super::{Bytes, Offer, Removal, TierCounts};
use crate::cache::{CacheKey, CachePriority, CacheRole};

/// The place of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of the segment.
    pub(super) segment: u32,
    /// The offset of the record.
    pub(super) offset: u32,
    /// The length of the record.
    pub(super) len: u32,
    /// The role of the entry.
    pub(super) role: CacheRole,
    /// True if the entry was hit since it was written.
    pub(super) hit: bool,
}

/// An entry in memory.
#[derive(Clone)]
pub(super) struct Pending {
    pub(super) key: CacheKey,
    pub(super) bytes: Bytes,
    pub(super) role: CacheRole,
    pub(super) priority: CachePriority,
    pub(super) hit: bool,
}

/// The result of a search.
pub(super) enum Located {
    Pending(Pending),
    Placed(Place),
}

/// A hasher that returns the hash of a key unchanged.
#[derive(Default)]
pub(super) struct Identity(u64);

impl Hasher for Identity {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are hashed")
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

type Map<T> = HashMap<u64, T, BuildHasherDefault<Identity>>;

/// One shard; see the module's documentation.
#[derive(Default)]
pub(super) struct IndexShard {
    placed: Map<Place>,
    pending: Map<Pending>,
    keys: RecentKeys,
    counts: [TierCounts; CacheRole::ALL.len()],
    pub(super) placeholders: u64,
}

impl IndexShard {
    pub(super) fn new(bytes_for_keys: usize) -> IndexShard {
        IndexShard {
            keys: RecentKeys::new(bytes_for_keys),
            ..IndexShard::default()
        }
    }

    pub(super) fn contains(&self, hash: u64) -> bool {
        self.placed.contains_key(&hash) || self.pending.contains_key(&hash)
    }

    /// Removes a recorded key. Returns true if it was recorded.
    pub(super) fn was_recorded(&mut self, hash: u64) -> bool {
        self.keys.remove(hash)
    }

    /// Records the key of an entry that is not stored now.
    pub(super) fn record(&mut self, hash: u64) {
        self.keys.add(hash);
    }

    /// Counts an entry with merit that is not stored. Its key is recorded, so that the next offer is
    /// accepted.
    pub(super) fn refuse(&mut self, hash: u64, role: CacheRole) {
        self.keys.add(hash);
        self.counts[role as usize].refusals += 1;
    }

    /// Adds a new entry in memory.
    pub(super) fn add(&mut self, hash: u64, offer: &Offer<'_>) {
        self.counts[offer.role as usize].inserted(offer.bytes.stored().len());
        let pending = Pending {
            key: offer.key,
            bytes: offer.bytes.clone(),
            role: offer.role,
            priority: offer.priority,
            hit: false,
        };
        let before = self.pending.insert(hash, pending);
        debug_assert!(before.is_none(), "the entry is new");
    }

    /// Adds an entry found in a segment at a restart. An entry of an older segment is replaced.
    pub(super) fn restore(&mut self, hash: u64, place: Place) {
        if let Some(older) = self.placed.insert(hash, place) {
            let (older, role) = (older.len as usize, older.role as usize);
            self.counts[role].removed(older, Removal::Evicted);
        }
        self.counts[place.role as usize].inserted(place.len as usize);
    }

    /// Keeps the bytes of a placed entry in memory, if it is still at `place`.
    pub(super) fn hold(&mut self, hash: u64, place: Place, pending: Pending) -> bool {
        let same = self.at(hash, place.segment, place.offset);
        if same && !self.pending.contains_key(&hash) {
            self.pending.insert(hash, pending);
            return true;
        }
        false
    }

    pub(super) fn pending(&self, hash: u64) -> Option<&Pending> {
        self.pending.get(&hash)
    }

    pub(super) fn place(&self, hash: u64) -> Option<Place> {
        self.placed.get(&hash).copied()
    }

    /// Finds an entry for a reader. With `touch` it is marked as hit.
    pub(super) fn locate(&mut self, hash: u64, key: &CacheKey, touch: bool) -> Option<Located> {
        if let Some(pending) = self.pending.get_mut(&hash) {
            if pending.key != *key {
                return None;
            }
            pending.hit |= touch;
            let found = pending.clone();
            self.counts[found.role as usize].hits += 1;
            return Some(Located::Pending(found));
        }
        let place = self.placed.get_mut(&hash)?;
        place.hit |= touch;
        Some(Located::Placed(*place))
    }

    /// Counts a hit on a placed entry whose record was read.
    pub(super) fn count_hit(&mut self, role: CacheRole) {
        self.counts[role as usize].hits += 1;
    }

    /// Removes the entry. Returns the bytes of memory that it held, if it was there.
    pub(super) fn erase(&mut self, hash: u64) -> Option<usize> {
        self.keys.remove(hash);
        let pending = self.pending.remove(&hash);
        let place = self.placed.remove(&hash);
        let (len, role) = match (&place, &pending) {
            (Some(place), _) => (place.len as usize, place.role),
            (None, Some(pending)) => (pending.bytes.stored().len(), pending.role),
            (None, None) => return None,
        };
        self.counts[role as usize].removed(len, Removal::Erased);
        Some(pending.map_or(0, |pending| pending.bytes.memory_usage()))
    }

    /// Drops an entry whose record at `place` is lost, unless it has moved since. Returns true if it was
    /// dropped.
    pub(super) fn lose(&mut self, hash: u64, place: Place) -> bool {
        let lost = self.at(hash, place.segment, place.offset) && !self.pending.contains_key(&hash);
        if lost {
            self.unplace(hash, place.segment);
        }
        lost
    }

    /// Removes the location of the entry in `segment`, and the entry itself unless it is also in memory.
    pub(super) fn unplace(&mut self, hash: u64, segment: u32) {
        let Some(place) = self.placed.get(&hash).copied() else {
            return;
        };
        if place.segment != segment {
            return;
        }
        self.placed.remove(&hash);
        let counts = &mut self.counts[place.role as usize];
        match self.pending.get(&hash) {
            Some(pending) => {
                counts.usage -= u64::from(place.len);
                counts.usage += pending.bytes.stored().len() as u64;
            }
            None => counts.removed(place.len as usize, Removal::Evicted),
        }
    }

    /// Drops a pending entry that cannot be written. Returns the bytes of memory that it held.
    pub(super) fn drop_pending(&mut self, hash: u64) -> usize {
        let Some(pending) = self.pending.remove(&hash) else {
            return 0;
        };
        if !self.placed.contains_key(&hash) {
            let counts = &mut self.counts[pending.role as usize];
            counts.removed(pending.bytes.stored().len(), Removal::Evicted);
        }
        pending.bytes.memory_usage()
    }

    /// Replaces the bytes of a pending entry by another form of the same bytes. Returns the bytes of memory
    /// that it held, if it is present.
    pub(super) fn replace(&mut self, hash: u64, by: &Pending) -> Option<usize> {
        let pending = self.pending.get_mut(&hash)?;
        let held = pending.bytes.memory_usage();
        if !self.placed.contains_key(&hash) {
            let counts = &mut self.counts[pending.role as usize];
            counts.usage -= pending.bytes.stored().len() as u64;
            counts.usage += by.bytes.stored().len() as u64;
        }
        pending.bytes = by.bytes.clone();
        Some(held)
    }

    /// Moves a pending entry to the place where it was written. Returns the bytes of memory that it held, or
    /// `None` if it was erased in the meantime.
    pub(super) fn publish(&mut self, hash: u64, mut place: Place) -> Option<usize> {
        let pending = self.pending.remove(&hash)?;
        place.hit = pending.hit;
        place.role = pending.role;
        debug_assert!(
            !self.placed.contains_key(&hash),
            "the old place was removed"
        );
        let counts = &mut self.counts[pending.role as usize];
        counts.usage -= pending.bytes.stored().len() as u64;
        counts.usage += u64::from(place.len);
        self.placed.insert(hash, place);
        Some(pending.bytes.memory_usage())
    }

    /// Removes all entries for the given reason. Returns the bytes of memory that they held.
    pub(super) fn clear(&mut self, reason: Removal) -> usize {
        self.keys.clear();
        let held = self.pending.values().map(|it| it.bytes.memory_usage());
        let held = held.sum();
        for (hash, pending) in std::mem::take(&mut self.pending) {
            if !self.placed.contains_key(&hash) {
                self.counts[pending.role as usize].removed(pending.bytes.stored().len(), reason);
            }
        }
        for place in std::mem::take(&mut self.placed).into_values() {
            self.counts[place.role as usize].removed(place.len as usize, reason);
        }
        held
    }

    pub(super) fn counts(&self, role: CacheRole) -> TierCounts {
        self.counts[role as usize]
    }

    /// The memory used in addition to the bytes of pending entries.
    pub(super) fn memory_usage(&self) -> usize {
        // A place also takes a byte in the table, and a hash in the list of its segment.
        self.placed.len() * size_of::<u64>()
            + self.placed.capacity() * (size_of::<(u64, Place)>() + 1) * 8 / 7
            + self.pending.capacity() * (size_of::<(u64, Pending)>() + 1) * 8 / 7
            + self.keys.memory_usage()
    }

    fn at(&self, hash: u64, segment: u32, offset: u32) -> bool {
        let place = self.placed.get(&hash);
        place.is_some_and(|place| place.segment == segment && place.offset == offset)
    }
}
