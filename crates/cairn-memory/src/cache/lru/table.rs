//! The hash table of a shard: open addressing with linear probing, one cache line per entry.
//!
//! A lookup costs one cache miss: the line of an entry has everything that a hit needs, and its most likely
//! address follows from the hash alone. A caller that knows the address of the table can therefore prefetch
//! the line without the shard's lock. Removal shifts later entries back, so that there are no tombstones.
//!
//! The load factor is at most two thirds; an entry takes 96 to 192 bytes.

/// An item of a table, which provides its own hash.
pub(super) trait Hashed {
    /// The hash of the key. The lowest bits select its line.
    fn hash(&self) -> u64;
}

#[repr(align(64))]
struct Place<T>(Option<T>);

/// A hash table; see the module's documentation. Items with equal hashes are distinguished by the caller's
/// predicate.
pub(super) struct Table<T> {
    /// Empty, or a power of two in length.
    places: Box<[Place<T>]>,
    len: usize,
}

const MIN_PLACES: usize = 16;

impl<T: Hashed> Table<T> {
    pub(super) fn new() -> Table<T> {
        Table {
            places: Box::default(),
            len: 0,
        }
    }

    pub(super) fn places(&self) -> usize {
        self.places.len()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The address of the first line and the mask for line numbers. Valid until the next insertion, and only
    /// for prefetching.
    pub(super) fn lines(&self) -> (usize, usize) {
        (self.places.as_ptr().addr(), self.mask())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| place.0.as_ref())
    }

    #[inline]
    pub(super) fn find(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<&T> {
        let at = self.place_of(hash, is)?;
        self.places[at].0.as_ref()
    }

    #[inline]
    pub(super) fn find_mut(&mut self, hash: u64, is: impl Fn(&T) -> bool) -> Option<&mut T> {
        let at = self.place_of(hash, is)?;
        self.places[at].0.as_mut()
    }

    /// Adds `entry`, which must not be present.
    pub(super) fn insert(&mut self, entry: T) {
        if (self.len + 1) * 3 > self.places.len() * 2 {
            self.grow();
        }
        self.put(entry);
        debug_assert!(
            self.places.len().is_power_of_two() && self.len * 3 <= self.places.len() * 2,
            "a third of the lines is free"
        );
        self.len += 1;
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, hash: u64, is: impl Fn(&T) -> bool) -> Option<T> {
        let mut gap = self.place_of(hash, is)?;
        let removed = self.places[gap].0.take();
        debug_assert!(self.len > 0, "the entry was counted");
        self.len -= 1;
        // An item that was displaced by the gap's former occupant moves into the gap.
        let mut at = gap;
        loop {
            at = (at + 1) & self.mask();
            let Some(entry) = &self.places[at].0 else {
                return removed;
            };
            let home = self.home(entry.hash());
            let passes_gap =
                at.wrapping_sub(home) & self.mask() >= at.wrapping_sub(gap) & self.mask();
            if passes_gap {
                self.places.swap(gap, at);
                gap = at;
            }
        }
    }

    #[inline]
    fn mask(&self) -> usize {
        self.places.len().wrapping_sub(1)
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        // Truncation is intended: the lowest bits are used.
        hash as usize & self.mask()
    }

    #[inline]
    fn place_of(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut at = self.home(hash);
        loop {
            // A third of the lines is free, so the probe terminates.
            if is(self.places[at].0.as_ref()?) {
                return Some(at);
            }
            at = (at + 1) & self.mask();
        }
    }

    fn put(&mut self, entry: T) {
        let mut at = self.home(entry.hash());
        while self.places[at].0.is_some() {
            at = (at + 1) & self.mask();
        }
        self.places[at] = Place(Some(entry));
    }

    #[cold]
    fn grow(&mut self) {
        let count = (self.places.len() * 2).max(MIN_PLACES);
        let places = (0..count).map(|_| Place(None)).collect();
        let before = std::mem::replace(&mut self.places, places);
        for entry in before.into_iter().filter_map(|place| place.0) {
            self.put(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Hashes to few lines, many of them adjacent or around the end.
    impl Hashed for u16 {
        fn hash(&self) -> u64 {
            u64::from(*self % 37).wrapping_sub(5)
        }
    }

    proptest! {
        #[test]
        fn a_table_is_a_set(steps in proptest::collection::vec((any::<bool>(), 0..300_u16), 0..900)) {
            let mut table = Table::new();
            let mut set = BTreeSet::new();
            for (adds, entry) in steps {
                let found = table.find(entry.hash(), |it| *it == entry).copied();
                prop_assert_eq!(found, set.get(&entry).copied());
                if adds && set.insert(entry) {
                    table.insert(entry);
                } else if !adds {
                    let removed = table.remove(entry.hash(), |it| *it == entry);
                    prop_assert_eq!(removed.is_some(), set.remove(&entry));
                }
                prop_assert_eq!(table.len(), set.len());
            }
            for entry in &set {
                prop_assert!(table.find_mut(entry.hash(), |it| it == entry).is_some());
            }
            let all: BTreeSet<u16> = table.iter().copied().collect();
            prop_assert_eq!(all, set);
        }
    }
}
