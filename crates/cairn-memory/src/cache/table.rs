//! The hash table of a shard: open addressing with linear probing, a cache line an entry.
//!
//! A lookup waits for memory once: the line of an entry has all that a hit needs, and where it most
//! likely lies follows from the hash alone, so that a caller that knows the address of the lines can ask
//! for it ahead of the lookup and without the shard's lock. Removal closes the gap that it leaves, so
//! that there are no tombstones.
//!
//! At most two thirds of the places are taken; memory is 96 to 192 bytes an entry.

/// An item of a table, which knows its own hash.
pub(super) trait Hashed {
    /// The hash of the key; the lowest bits say where it lies.
    fn hash(&self) -> u64;
}

#[repr(align(64))]
struct Place<T>(Option<T>);

/// See the module's documentation. Equal hashes are told apart by the caller's predicates.
pub(super) struct Table<T> {
    /// None, or a power of two of them.
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

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The address of the first line, and what the hash is masked with for the number of a line. Good
    /// until the next insertion, and for asking for memory only.
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

    /// Adds `entry`, which is not here yet.
    pub(super) fn insert(&mut self, entry: T) {
        if (self.len + 1) * 3 > self.places.len() * 2 {
            self.grow();
        }
        self.put(entry);
        self.len += 1;
    }

    /// Takes an entry out.
    pub(super) fn remove(&mut self, hash: u64, is: impl Fn(&T) -> bool) -> Option<T> {
        let mut gap = self.place_of(hash, is)?;
        let removed = self.places[gap].0.take();
        self.len -= 1;
        // An item that could not have its place because the gap was taken moves into it.
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
        // Truncation is meant: the lowest bits count.
        hash as usize & self.mask()
    }

    #[inline]
    fn place_of(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut at = self.home(hash);
        loop {
            // A third of the places is free, so that the walk ends.
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

    /// Hashes to few places, many of them next to each other and around the end.
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
