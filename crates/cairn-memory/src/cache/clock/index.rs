//! The index of a shard: from the hash of a key to the number of an entry. Readers take no lock.
//!
//! The index is a hash table of cache lines. A line has [`PER_LINE`] entries and the number of entries that
//! were displaced past it. An entry is one word: a tag, which is part of the hash, and the number. The neighbouring
//! line has the addresses of the contents of the entries: a reader prefetches the content while it waits for the header.
//! An entry never moves within a table. A full table is replaced by one of twice the size; readers of the old one may miss
//! an entry added in the meantime, at the cost of reading the block. Old tables are kept until the index is
//! dropped; together they are smaller than the newest.
//!
//! Changes are serialized by the shard's lock.
//!
//! Cost: 24 to 49 bytes per entry; a lookup touches one pair of lines, rarely two.

use cairn_platform::sync::Ordering;
use cairn_platform::{PrefetchHint, prefetch_address};

#[cfg(not(loom))]
use cairn_platform::sync::modelled::{AtomicU32, AtomicU64, AtomicUsize};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use std::sync::OnceLock;

/// The number of entries per line.
const PER_LINE: usize = 7;
/// The number of lines in the first table.
const FIRST_LINES: usize = if cfg!(loom) { 1 } else { 4 };
/// The maximum number of tables: 2^30 lines.
const TABLES: usize = 28;
/// The maximum load factor, in eighths.
const LOAD: usize = 6;

/// The word of an empty place.
const EMPTY: u64 = 0;

#[repr(C, align(128))]
#[derive(Default)]
struct Line {
    places: [AtomicU64; PER_LINE],
    /// Entries whose search passes this line because it was full.
    displaced: AtomicU32,
    /// The [`PrefetchHint`]s of the entries, in the second line.
    hints: Hints,
}

#[repr(align(64))]
#[derive(Default)]
struct Hints([AtomicU64; PER_LINE]);

impl Line {
    /// The words of the entries and their hints.
    #[inline]
    fn pairs(&self) -> impl Iterator<Item = (&AtomicU64, &AtomicU64)> {
        self.places.iter().zip(&self.hints.0)
    }
}

struct Table {
    /// A power of two.
    lines: Box<[Line]>,
}

/// An index; see the module's documentation.
pub(super) struct Index {
    tables: [OnceLock<Table>; TABLES],
    /// The table in use.
    current: AtomicUsize,
    len: AtomicUsize,
}

/// The word of an entry.
#[inline]
fn word(hash: u64, number: u32) -> u64 {
    tag(hash) | u64::from(number)
}

/// The upper half of a word. Its highest bit is set, so that no word is [`EMPTY`].
#[inline]
fn tag(hash: u64) -> u64 {
    (hash | 1 << 63) & !u64::from(u32::MAX)
}

#[inline]
fn number(word: u64) -> u32 {
    // Truncation is intended: the lower half.
    word as u32
}

impl Table {
    fn new(lines: usize) -> Table {
        debug_assert!(lines.is_power_of_two(), "lines are selected by a mask");
        Table {
            lines: (0..lines).map(|_| Line::default()).collect(),
        }
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        // Truncation is intended: the lowest bits, which are not part of the tag.
        hash as usize & (self.lines.len() - 1)
    }

    /// Calls `is` with the numbers and hints of entries with the tag of `hash`, until it returns `Some`.
    #[inline]
    fn find<T>(&self, hash: u64, mut is: impl FnMut(u32, PrefetchHint) -> Option<T>) -> Option<T> {
        let tag = tag(hash);
        let mut at = self.home(hash);
        for _ in 0..self.lines.len() {
            let line = &self.lines[at];
            for (place, hint) in line.pairs() {
                // Acquire: the header of the entry was published before.
                let word = place.load(Ordering::Acquire);
                if word & !u64::from(u32::MAX) == tag {
                    let hint = PrefetchHint::from_bits(hint.load(Ordering::Relaxed));
                    if let Some(found) = is(number(word), hint) {
                        return Some(found);
                    }
                }
            }
            if line.displaced.load(Ordering::Acquire) == 0 {
                return None;
            }
            at = (at + 1) & (self.lines.len() - 1);
        }
        None
    }

    /// Adds an entry. There must be a free place.
    fn insert(&self, hash: u64, number: u32, hint: PrefetchHint) {
        let mut at = self.home(hash);
        for _ in 0..self.lines.len() {
            let line = &self.lines[at];
            let free = line
                .pairs()
                .find(|(place, _)| place.load(Ordering::Relaxed) == EMPTY);
            if let Some((place, its_hint)) = free {
                its_hint.store(hint.to_bits(), Ordering::Relaxed);
                place.store(word(hash, number), Ordering::Release);
                return;
            }
            // Release, before the entry is stored: every search that must continue past the line sees the
            // count.
            line.displaced.fetch_add(1, Ordering::Release);
            at = (at + 1) & (self.lines.len() - 1);
        }
        unreachable!("a quarter of the places is free");
    }

    /// The place and the hint of an entry, and the number of lines that its search passes.
    fn place_of(&self, hash: u64, number: u32) -> Option<(&AtomicU64, &AtomicU64, usize)> {
        let home = self.home(hash);
        let sought = word(hash, number);
        for passed in 0..self.lines.len() {
            let line = &self.lines[(home + passed) & (self.lines.len() - 1)];
            let found = line
                .pairs()
                .find(|(place, _)| place.load(Ordering::Relaxed) == sought);
            if let Some((place, hint)) = found {
                return Some((place, hint, passed));
            }
            if line.displaced.load(Ordering::Relaxed) == 0 {
                return None;
            }
        }
        None
    }

    /// Removes an entry. Returns false if it is not there.
    fn remove(&self, hash: u64, number: u32) -> bool {
        let Some((place, _, passed)) = self.place_of(hash, number) else {
            return false;
        };
        place.store(EMPTY, Ordering::Release);
        let home = self.home(hash);
        for step in 0..passed {
            let at = (home + step) & (self.lines.len() - 1);
            self.lines[at].displaced.fetch_sub(1, Ordering::Release);
        }
        true
    }

    /// Replaces the hint of an entry, if it is there.
    fn set_hint(&self, hash: u64, number: u32, hint: PrefetchHint) {
        if let Some((_, its_hint, _)) = self.place_of(hash, number) {
            its_hint.store(hint.to_bits(), Ordering::Relaxed);
        }
    }

    /// The words and hints of all entries.
    fn all(&self) -> impl Iterator<Item = (u64, PrefetchHint)> {
        let pairs = self.lines.iter().flat_map(Line::pairs);
        pairs.filter_map(|(place, hint)| {
            let word = place.load(Ordering::Relaxed);
            let hint = PrefetchHint::from_bits(hint.load(Ordering::Relaxed));
            (word != EMPTY).then_some((word, hint))
        })
    }
}

impl Index {
    pub(super) fn new() -> Index {
        let index = Index {
            tables: [const { OnceLock::new() }; TABLES],
            current: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
        };
        let _ = index.tables[0].set(Table::new(FIRST_LINES));
        index
    }

    #[inline]
    fn table(&self) -> &Table {
        let current = self.current.load(Ordering::Acquire);
        self.tables[current].get().expect("the table in use exists")
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// The number of places.
    pub(super) fn places(&self) -> usize {
        self.table().lines.len() * PER_LINE
    }

    /// Calls `is` with the numbers and hints of entries whose keys may have `hash`, until it returns `Some`.
    #[inline]
    pub(super) fn find<T>(
        &self,
        hash: u64,
        is: impl FnMut(u32, PrefetchHint) -> Option<T>,
    ) -> Option<T> {
        self.table().find(hash, is)
    }

    /// Prefetches the lines where a search for `hash` begins.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        let table = self.table();
        let line = &table.lines[table.home(hash)];
        prefetch_address(std::ptr::from_ref(line).addr());
        prefetch_address(std::ptr::from_ref(&line.hints).addr());
    }

    /// Adds an entry. `hash_of` returns the hash of an entry's key, which is needed to grow the table. Only
    /// one thread calls it at a time.
    pub(super) fn insert(
        &self,
        hash: u64,
        number: u32,
        hint: PrefetchHint,
        hash_of: impl Fn(u32) -> u64,
    ) {
        let len = self.len() + 1;
        if len * 8 > self.places() * LOAD {
            self.grow(hash_of);
        }
        self.table().insert(hash, number, hint);
        self.len.store(len, Ordering::Relaxed);
    }

    /// Replaces the hint of an entry. Only one thread calls it at a time.
    pub(super) fn set_hint(&self, hash: u64, number: u32, hint: PrefetchHint) {
        self.table().set_hint(hash, number, hint);
    }

    /// Removes an entry. Returns false if it is not there. Only one thread calls it at a time.
    pub(super) fn remove(&self, hash: u64, number: u32) -> bool {
        let removed = self.table().remove(hash, number);
        if removed {
            self.len.store(self.len() - 1, Ordering::Relaxed);
        }
        removed
    }

    /// The numbers of all entries.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.table().all().map(|(word, _)| number(word)).collect()
    }

    #[cold]
    fn grow(&self, hash_of: impl Fn(u32) -> u64) {
        let next = self.current.load(Ordering::Relaxed) + 1;
        let old = self.table();
        let table = Table::new(old.lines.len() * 2);
        for (word, hint) in old.all() {
            let number = number(word);
            table.insert(hash_of(number), number, hint);
        }
        assert!(
            self.tables[next].set(table).is_ok(),
            "tables are not replaced"
        );
        self.current.store(next, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Hashes with few homes and few tags.
    fn hash(number: u32) -> u64 {
        u64::from(number % 5) << 32 | u64::from(number % 11)
    }

    fn hint(number: u32) -> PrefetchHint {
        PrefetchHint::from_bits(u64::from(number) + 1)
    }

    #[test]
    fn a_hint_is_replaced_where_its_entry_is() {
        let index = Index::new();
        for number in 0..100 {
            index.insert(hash(number), number, PrefetchHint::default(), hash);
        }
        for number in 0..120 {
            index.set_hint(hash(number), number, hint(number));
        }
        for number in 0..100 {
            assert!(numbers(&index, hash(number)).contains(&number));
        }
    }

    fn numbers(index: &Index, hash: u64) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        let none: Option<()> = index.find(hash, |number, its_hint| {
            assert_eq!(its_hint, hint(number));
            found.insert(number);
            None
        });
        assert!(none.is_none());
        found
    }

    proptest! {
        #[test]
        fn an_index_is_a_set(steps in proptest::collection::vec((any::<bool>(), 0..200_u32), 0..600)) {
            let index = Index::new();
            let mut set = BTreeSet::new();
            for (adds, number) in steps {
                if adds && set.insert(number) {
                    index.insert(hash(number), number, hint(number), hash);
                } else if !adds {
                    prop_assert_eq!(index.remove(hash(number), number), set.remove(&number));
                }
                prop_assert_eq!(index.len(), set.len());
            }
            for number in 0..200 {
                prop_assert_eq!(numbers(&index, hash(number)).contains(&number), set.contains(&number));
            }
            for number in set {
                prop_assert!(index.remove(hash(number), number));
            }
            let table = index.table();
            prop_assert!(table.lines.iter().all(|it| it.displaced.load(Ordering::Relaxed) == 0));
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    fn has(index: &Index, hash: u64, sought: u32) -> bool {
        let found = index.find(hash, |number, _| (number == sought).then_some(()));
        found.is_some()
    }

    /// A reader always finds a permanent entry while other threads insert, displace and remove entries and
    /// grow the table.
    #[test]
    fn loom_a_permanent_entry_is_always_found() {
        loom::model(|| {
            let index = Index::new();
            // One line of seven places, of which five may be filled.
            for number in 0..5 {
                index.insert(0, number, PrefetchHint::default(), |_| 0);
            }
            let index = Arc::new(index);
            let reader = {
                let index = index.clone();
                thread::spawn(move || {
                    assert!(has(&index, 0, 4), "an entry of the first table");
                })
            };
            index.insert(0, 5, PrefetchHint::default(), |_| 0);
            assert!(index.remove(0, 0));
            reader.join().unwrap();
            assert!(has(&index, 0, 4) && has(&index, 0, 5) && !has(&index, 0, 0));
        });
    }
}
