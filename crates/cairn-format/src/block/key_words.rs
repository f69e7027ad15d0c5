//! The keys of a block in a form that is searched fast.
//!
//! A search in a block touches, for each candidate, the restart array and the entry: two cache lines
//! that are nowhere near those of the next candidate, and then every entry of one interval. So the
//! bytes that tell most keys apart, those behind what all of them share, are laid side by side
//! once. A search then touches few lines, decodes nothing, and leaves to the block only what those
//! bytes cannot tell apart.
//!
//! [`KeyWords`] are those of an index that stays in memory: 8 bytes for each restart, and 8 more that
//! say where its block lies.
//! [`DataWords`] are those of a data block that is used again and again: 4 bytes for each entry, and
//! where it lies, which is also the way back from an entry to the one before. They are bytes that lie behind the block:
//!
//! ```text
//! words: big-endian, 4 bytes x n | offsets of entries: fixed16 x n | length of the shared part: fixed16
//! ```

use std::cmp::Ordering;
use std::hint::black_box;
use std::ops::Range;

use super::cursor::{Coding, Position, common_prefix};
use super::data::Together;
use super::index::IndexForm;
use super::layout::BlockLayout;
use crate::key;
use crate::sorted_u64::{Sorted, word};
use crate::table::TRAILER_LEN;
use crate::table::handle::Handle;

/// Blocks with fewer restarts are searched as they are.
const MIN_RESTARTS: u32 = 8;

/// The words of one block; good for this block and for keys in the order of their bytes only.
pub struct KeyWords {
    /// What all user keys begin with.
    prefix: Box<[u8]>,
    /// Of each restart's user key the 8 bytes behind the prefix, as a big-endian number; what is
    /// missing counts as zeros.
    words: Sorted,
    /// True if every entry is a restart.
    dense: bool,
    /// Where the block of each entry begins, and where that of the last one ends; empty unless the
    /// blocks lie one behind the other, as writers that pad nothing leave them.
    offsets: Box<[u64]>,
}

impl KeyWords {
    /// The words of the index block `bytes`; `None` if it is small or damaged. A seek without
    /// words finds the damage where it is.
    #[must_use]
    pub fn of_index(bytes: &[u8], layout: &BlockLayout, form: IndexForm) -> Option<KeyWords> {
        if layout.restarts < MIN_RESTARTS {
            return None;
        }
        let user_key = |i| {
            let at = layout.restart(bytes, i) as usize;
            let key = form.whole_key(bytes, layout, at)?;
            Some(if form.user_keys {
                key
            } else {
                key::user_key(key)
            })
        };
        let first = user_key(0)?;
        let shared = common_prefix(first, user_key(layout.restarts - 1)?);
        let words = (0..layout.restarts)
            .map(|i| Some(word(user_key(i)?.get(shared..)?)))
            .collect::<Option<Vec<u64>>>()?;
        let entry = |i| {
            let at = layout.restart(bytes, i) as usize;
            let entry = form.entry(bytes, layout, at, &form.before_restart(i));
            let end = layout.restart(bytes, i + 1).min(layout.entries_end) as usize;
            entry.filter(|entry| entry.next == end)
        };
        let dense = (0..layout.restarts).all(|i| entry(i).is_some());
        let handles = (0..layout.restarts).map_while(entry);
        let offsets = match dense && !form.first_keys {
            true => one_behind_the_other(handles.map(|entry| entry.value.handle())),
            false => None,
        };
        Some(KeyWords {
            prefix: first[..shared].into(),
            words: Sorted::new(words.into_iter()),
            dense,
            offsets: offsets.unwrap_or_default(),
        })
    }

    /// Where the block of entry `i` lies, if that is known here.
    #[inline]
    #[must_use]
    pub fn handle(&self, i: u32) -> Option<Handle> {
        let &[offset, end] = self.offsets.get(i as usize..)?.first_chunk()?;
        Some(Handle {
            offset,
            size: end - offset - TRAILER_LEN as u64,
        })
    }

    /// The restart that is the first entry at or after the key of which `undecided` is left, or the
    /// number of restarts if there is none; `None` if the block has to be asked.
    #[inline]
    pub(super) fn decided(&self, undecided: &Range<u32>) -> Option<u32> {
        (self.dense && undecided.is_empty()).then_some(undecided.start)
    }

    /// The restarts whose keys `user_key` has yet to be compared with: those before them have
    /// smaller user keys, those behind them greater ones.
    #[inline]
    #[must_use]
    pub fn undecided(&self, user_key: &[u8]) -> Range<u32> {
        // The number of restarts comes from 28 bits of a footer.
        let len = self.words.len() as u32;
        let Some((head, rest)) = user_key.split_at_checked(self.prefix.len()) else {
            return match user_key.cmp(&self.prefix) {
                Ordering::Greater => len..len,
                _ => 0..0,
            };
        };
        match head.cmp(&self.prefix) {
            Ordering::Less => return 0..0,
            Ordering::Greater => return len..len,
            Ordering::Equal => {}
        }
        let wanted = word(rest);
        let low = self.words.before(wanted, |first| {
            // Asked for in vain only where the block has to be asked, too.
            black_box(self.offsets.get(first).copied());
        });
        let high = match self.words.get(low) {
            Some(word) if word == wanted => wanted
                .checked_add(1)
                .map_or(self.words.len(), |behind| self.words.before(behind, |_| ())),
            _ => low,
        };
        low as u32..high as u32
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        size_of::<KeyWords>()
            + self.prefix.len()
            + self.words.memory_usage()
            + size_of_val(&*self.offsets)
    }
}

/// Where each of the blocks at `handles` begins and the last one ends, if each lies right behind the
/// one before.
fn one_behind_the_other(handles: impl Iterator<Item = Handle>) -> Option<Box<[u64]>> {
    let mut offsets = Vec::new();
    let mut end = None;
    for handle in handles {
        if end.is_some_and(|end| end != handle.offset) {
            return None;
        }
        offsets.push(handle.offset);
        let size = handle.size.checked_add(TRAILER_LEN as u64)?;
        end = Some(handle.offset.checked_add(size)?);
    }
    offsets.extend(end);
    Some(offsets.into())
}

/// Larger blocks have no words: an offset has 16 bits.
const MAX_DATA_BLOCK: usize = 1 << 16;
const WORD_LEN: usize = 4;
const OFFSET_LEN: usize = 2;
/// No entry takes less: three lengths of a byte each, and what a key ends with.
const MIN_ENTRY: usize = 3 + key::SUFFIX_LEN;

/// The words of a data block; good for this block and for keys in the order of their bytes only.
#[derive(Clone, Copy)]
pub struct DataWords<'a> {
    words: &'a [[u8; WORD_LEN]],
    offsets: &'a [[u8; OFFSET_LEN]],
    shared: usize,
}

/// An entry as its words know it.
pub(super) struct Place {
    /// Which entry of the block it is.
    pub index: usize,
    /// Where the entry lies.
    pub at: usize,
    /// The bytes of its user key behind the shared ones, as far as they are known.
    pub word: [u8; WORD_LEN],
    /// True if the user key may be the one that a search looks for, rather than surely greater.
    pub may_be_equal: bool,
}

impl<'a> DataWords<'a> {
    /// What goes behind the data block `bytes` for [`DataWords::parse`]. It says that there are no
    /// words if the block is damaged, too large, or of another form.
    #[must_use]
    pub fn encode(bytes: &[u8], layout: &BlockLayout) -> Vec<u8> {
        DataWords::try_encode(bytes, layout).unwrap_or_else(|| vec![0; OFFSET_LEN])
    }

    /// How long [`DataWords::encode`] is for a block of `entries`.
    #[must_use]
    pub fn encoded_len(entries: u64) -> u64 {
        entries
            .saturating_mul((WORD_LEN + OFFSET_LEN) as u64)
            .saturating_add(OFFSET_LEN as u64)
    }

    fn try_encode(bytes: &[u8], layout: &BlockLayout) -> Option<Vec<u8>> {
        if bytes.len() > MAX_DATA_BLOCK || layout.separated || layout.is_empty() {
            return None;
        }
        let restart = |i| {
            let mut position = Position::default();
            position.jump(&Together, bytes, layout, i).ok()?;
            Some(position)
        };
        let (first, mut last) = (restart(0)?, restart(layout.restarts - 1)?);
        let first = key::user_key(first.key(bytes));
        // Mostly the keys behind the last restart begin as that one does. Where one does not, the last of all says how.
        let shared = common_prefix(first, key::user_key(last.key(bytes)));
        let behind = last.at();
        if let Some(words) = DataWords::with_shared(bytes, layout, shared, behind) {
            return Some(words);
        }
        let mut shared = shared;
        while last.valid() {
            shared = common_prefix(first, key::user_key(last.key(bytes)));
            last.step(&Together, bytes, layout).ok()?;
        }
        DataWords::with_shared(bytes, layout, shared, bytes.len())
    }

    /// The words of keys that all begin with the first `shared` bytes of the first one; `None` if one from the offset
    /// `behind` on does not, or the block is damaged.
    fn with_shared(
        bytes: &[u8],
        layout: &BlockLayout,
        shared: usize,
        behind: usize,
    ) -> Option<Vec<u8>> {
        let mut position = Position::default();
        position.jump(&Together, bytes, layout, 0).ok()?;
        let prefix = key::user_key(position.key(bytes)).get(..shared)?.to_vec();
        // Most blocks have 16 entries to a restart, and no entry is shorter than its header and trailer.
        let entries = (layout.restarts as usize * 16).min(bytes.len() / MIN_ENTRY);
        let mut words = Vec::with_capacity(DataWords::encoded_len(entries as u64) as usize);
        let mut offsets: Vec<u8> = Vec::with_capacity(entries * OFFSET_LEN);
        while position.valid() {
            let user = key::user_key(position.key(bytes));
            if position.at() >= behind && !user.starts_with(&prefix) {
                return None;
            }
            let rest = user.get(shared..)?;
            let mut word = [0; WORD_LEN];
            let known = rest.len().min(WORD_LEN);
            word[..known].copy_from_slice(&rest[..known]);
            words.extend_from_slice(&word);
            offsets.extend_from_slice(&u16::try_from(position.at()).ok()?.to_le_bytes());
            position.step(&Together, bytes, layout).ok()?;
        }
        words.extend_from_slice(&offsets);
        words.extend_from_slice(&u16::try_from(shared).ok()?.to_le_bytes());
        Some(words)
    }

    /// The words that lie in `tail`, if there are any.
    #[inline]
    #[must_use]
    pub fn parse(tail: &'a [u8]) -> Option<DataWords<'a>> {
        let (entries, shared) = tail.split_last_chunk::<OFFSET_LEN>()?;
        let count = entries.len() / (WORD_LEN + OFFSET_LEN);
        let (words, offsets) = entries.split_at(count * WORD_LEN);
        (count > 0).then(|| DataWords {
            words: words.as_chunks().0,
            offsets: offsets.as_chunks().0,
            shared: usize::from(u16::from_le_bytes(*shared)),
        })
    }

    /// How many bytes all user keys of the block begin with.
    #[inline]
    pub(super) fn shared(&self) -> usize {
        self.shared
    }

    /// Where in the block `bytes` the entry lies that a search for `user_key` looks at first, if there
    /// is one: for who wants to have it in the processor's cache by then.
    #[inline]
    #[must_use]
    pub fn near(&self, bytes: &[u8], layout: &BlockLayout, user_key: &[u8]) -> Option<usize> {
        let first = Together.whole_key(bytes, layout, 0)?;
        Some(self.find(key::user_key(first), user_key)?.at)
    }

    /// The first entry whose user key may be at or after `user_key`; `None` if all are before it.
    /// `first` is the user key of the first entry.
    #[inline]
    pub(super) fn find(&self, first: &[u8], user_key: &[u8]) -> Option<Place> {
        let prefix = first.get(..self.shared)?;
        let (head, rest) = user_key.split_at(user_key.len().min(self.shared));
        let (at, wanted) = match head.cmp(&prefix[..head.len()]) {
            Ordering::Less => (0, None),
            Ordering::Greater => return None,
            Ordering::Equal if head.len() < prefix.len() => (0, None),
            Ordering::Equal => {
                let mut padded = [0; WORD_LEN];
                let known = rest.len().min(WORD_LEN);
                padded[..known].copy_from_slice(&rest[..known]);
                let wanted = u32::from_be_bytes(padded);
                let before = |word: &[u8; WORD_LEN]| u32::from_be_bytes(*word) < wanted;
                (self.words.partition_point(before), Some(padded))
            }
        };
        let place = self.place(at)?;
        Some(Place {
            may_be_equal: wanted == Some(place.word),
            ..place
        })
    }

    /// The last entry.
    #[inline]
    pub(super) fn last(&self) -> Option<Place> {
        self.place(self.words.len().checked_sub(1)?)
    }

    /// Entry `index`.
    #[inline]
    pub(super) fn place(&self, index: usize) -> Option<Place> {
        Some(Place {
            index,
            at: self.offset(index)?,
            word: *self.words.get(index)?,
            may_be_equal: false,
        })
    }

    #[inline]
    fn offset(&self, index: usize) -> Option<usize> {
        let offset = self.offsets.get(index)?;
        Some(usize::from(u16::from_le_bytes(*offset)))
    }

    /// Which entry lies at offset `at`; most likely it is entry `likely`.
    #[inline]
    pub(super) fn index_of(&self, at: usize, likely: usize) -> Option<usize> {
        if self.offset(likely) == Some(at) {
            return Some(likely);
        }
        let at = u16::try_from(at).ok()?;
        let offset = |offset: &[u8; OFFSET_LEN]| u16::from_le_bytes(*offset);
        self.offsets.binary_search_by_key(&at, offset).ok()
    }

    /// True if entry `index` is seen to have another user key than the one before it.
    #[inline]
    pub(super) fn begins_key(&self, index: usize) -> bool {
        match index.checked_sub(1).map(|before| self.words.get(before)) {
            Some(before) => before != self.words.get(index),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_known_only_of_blocks_one_behind_the_other() {
        let handle = |offset, size| Handle { offset, size };
        let all = |handles: &[Handle]| one_behind_the_other(handles.iter().copied());
        let offsets = all(&[handle(7, 10), handle(22, 1), handle(28, 0)]);
        assert_eq!(offsets.as_deref(), Some(&[7, 22, 28, 33][..]));
        assert_eq!(all(&[handle(7, 10), handle(23, 1)]), None);
        assert_eq!(all(&[handle(u64::MAX - 9, 8)]), None);
    }
}
