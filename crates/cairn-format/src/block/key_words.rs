//! Key words: a compact, searchable digest of a block's keys.
//!
//! A binary search in a block accesses the restart array and an entry for each candidate, two cache
//! lines far from those of the next candidate, and then every entry of an interval. The bytes that
//! distinguish most keys, after their common prefix, are therefore stored contiguously. A search
//! then accesses few cache lines, decodes nothing, and falls back to the block only where those
//! bytes are equal.
//!
//! [`KeyWords`] are kept for an index block in memory: 8 bytes per restart point, and 8 more for
//! the offset of its block. [`DataWords`] are kept for a data block that is used repeatedly: 4
//! bytes per entry, and its offset, which also allows stepping back. They are stored after the
//! block:
//!
//! ```text
//! words: big-endian, 4 bytes x n | offsets of entries: fixed16 x n | fixed16
//!
//! fixed16   bits 0 to 14 length of the shared part; bit 15 keys end with 64-bit timestamps
//! ```
//!
//! Timestamps are not part of the words: keys are digested without them.

use std::cmp::Ordering;
use std::hint::black_box;
use std::ops::Range;

use super::cursor::{Coding, Position};
use super::data::Interleaved;
use super::index::IndexForm;
use super::layout::BlockLayout;
use crate::key;
use crate::sorted_u64::{Sorted, word};
use crate::table::TRAILER_LEN;
use crate::table::handle::Handle;

use cairn_types::KeyOrder;

/// The minimum number of restart points; smaller blocks are searched directly.
const MIN_RESTARTS: u32 = 8;

/// The key words of an index block, for keys in bytewise order, which may end with 64-bit timestamps.
pub struct KeyWords {
    /// The length of the timestamp of each key, which the words exclude.
    timestamp: usize,
    /// The common prefix of all user keys.
    prefix: Box<[u8]>,
    /// For each restart point the 8 bytes of the user key after the prefix, as a big-endian integer, padded
    /// with zeros.
    words: Sorted,
    /// True if every entry is a restart point.
    dense: bool,
    /// The offset of each entry's block, and the end of the last one. Empty unless the blocks are
    /// contiguous, which they are without padding.
    offsets: Box<[u64]>,
}

impl KeyWords {
    /// The key words of the index block `bytes`, whose keys are in `order`; `None` if the order is not bytewise, or
    /// the block is small or damaged. A seek without key words reports the damage.
    #[must_use]
    pub fn of_index(
        bytes: &[u8],
        layout: &BlockLayout,
        form: IndexForm,
        order: &KeyOrder,
    ) -> Option<KeyWords> {
        let timestamp = order.bytewise_before_timestamp()?;
        if layout.restarts < MIN_RESTARTS {
            return None;
        }
        let user_key = |i| {
            let at = layout.restart(bytes, i) as usize;
            let key = form.whole_key(bytes, layout, at)?;
            let user_key = if form.user_keys {
                key
            } else {
                key::user_key(key)
            };
            Some(key::strip_timestamp(user_key, timestamp))
        };
        let first = user_key(0)?;
        let shared = key::common_prefix(first, user_key(layout.restarts - 1)?);
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
            true => contiguous_offsets(handles.map(|entry| entry.value.handle())),
            false => None,
        };
        Some(KeyWords {
            timestamp,
            prefix: first[..shared].into(),
            words: Sorted::new(words.into_iter()),
            dense,
            offsets: offsets.unwrap_or_default(),
        })
    }

    /// The handle of the block of entry `i`, if known.
    #[inline]
    #[must_use]
    pub fn handle(&self, i: u32) -> Option<Handle> {
        let &[offset, end] = self.offsets.get(i as usize..)?.first_chunk()?;
        Some(Handle {
            offset,
            size: end - offset - TRAILER_LEN as u64,
        })
    }

    /// The index of the first entry at or after the key whose candidates are `undecided`, or the number of
    /// restart points if there is none; `None` if the block has to be searched.
    #[inline]
    pub(super) fn decided(&self, undecided: &Range<u32>) -> Option<u32> {
        (self.dense && undecided.is_empty()).then_some(undecided.start)
    }

    /// The restart points whose keys have to be compared to `user_key`: earlier ones have smaller
    /// user keys, later ones greater.
    #[inline]
    #[must_use]
    pub fn undecided(&self, user_key: &[u8]) -> Range<u32> {
        // The number of restart points has 28 bits.
        let len = self.words.len() as u32;
        let user_key = key::strip_timestamp(user_key, self.timestamp);
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
            // Loaded early; wasted only if the block has to be searched as well.
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

    /// The memory used, in bytes.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        size_of::<KeyWords>()
            + self.prefix.len()
            + self.words.memory_usage()
            + size_of_val(&*self.offsets)
    }
}

/// The offsets of the blocks at `handles` and the end of the last one, if the blocks are contiguous.
fn contiguous_offsets(handles: impl Iterator<Item = Handle>) -> Option<Box<[u64]>> {
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

/// The maximum size of a block with key words: an offset has 16 bits.
const MAX_DATA_BLOCK: usize = 1 << 16;
const WORD_LEN: usize = 4;
const OFFSET_LEN: usize = 2;

/// The end of a tail that has other data than key words.
pub(super) const NOT_WORDS: [u8; OFFSET_LEN] = u16::MAX.to_le_bytes();

/// The minimum size of an entry: three one-byte lengths, and the suffix of a key.
const MIN_ENTRY: usize = 3 + key::SUFFIX_LEN;

/// The bit of the last field that is set if keys end with timestamps.
const TIMESTAMPED: u16 = 1 << 15;
/// The number of entries with equal words from which on a binary search in the block is preferred to a walk.
const MANY_EQUAL: usize = 16;

/// The key words of a data block, for keys in bytewise order, which may end with 64-bit timestamps.
#[derive(Clone, Copy)]
pub struct DataWords<'a> {
    words: &'a [[u8; WORD_LEN]],
    offsets: &'a [[u8; OFFSET_LEN]],
    shared: usize,
    /// The length of the timestamp of each key, which the words exclude.
    timestamp: usize,
}

/// The first `len` bytes of `word`, padded with zeros.
#[inline]
fn leading(word: [u8; WORD_LEN], len: usize) -> [u8; WORD_LEN] {
    match len {
        0 => [0; WORD_LEN],
        1..WORD_LEN => {
            let behind = 8 * (WORD_LEN - len) as u32;
            (u32::from_be_bytes(word) >> behind << behind).to_be_bytes()
        }
        _ => word,
    }
}

/// An entry according to the key words.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The index of the entry.
    pub(super) index: usize,
    /// The offset of the entry.
    pub(super) at: usize,
    /// The bytes of its user key after the common prefix, as far as known.
    pub(super) word: [u8; WORD_LEN],
    /// True if the user key may equal the target, false if it is greater.
    pub(super) may_be_equal: bool,
}

impl Place {
    /// The offset of the entry in its block.
    #[inline]
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }
}

impl<'a> DataWords<'a> {
    /// Encodes the key words of the data block `bytes`, whose keys are in `order`, for [`DataWords::parse`]. The
    /// result has no words if the order is not bytewise, or if the block is damaged, too large, or in another format.
    #[must_use]
    pub fn encode(bytes: &[u8], layout: &BlockLayout, order: &KeyOrder) -> Vec<u8> {
        let timestamp = order.bytewise_before_timestamp();
        let words = timestamp.and_then(|size| DataWords::try_encode(bytes, layout, size));
        words.unwrap_or_else(|| vec![0; OFFSET_LEN])
    }

    /// The length of [`DataWords::encode`] for a block of `entries`.
    #[must_use]
    pub fn encoded_len(entries: u64) -> u64 {
        entries
            .saturating_mul((WORD_LEN + OFFSET_LEN) as u64)
            .saturating_add(OFFSET_LEN as u64)
    }

    fn try_encode(bytes: &[u8], layout: &BlockLayout, timestamp: usize) -> Option<Vec<u8>> {
        fn plain_of(internal: &[u8], timestamp: usize) -> &[u8] {
            key::strip_timestamp(key::user_key(internal), timestamp)
        }
        if bytes.len() > MAX_DATA_BLOCK || layout.separated || layout.is_empty() {
            return None;
        }
        let restart = |i| {
            let mut position = Position::default();
            position.jump(&Interleaved, bytes, layout, i).ok()?;
            Some(position)
        };
        let (first, mut last) = (restart(0)?, restart(layout.restarts - 1)?);
        let first = plain_of(first.key(bytes), timestamp);
        // The keys after the last restart point usually have the same common prefix; if not, the
        // last key determines it.
        let shared = key::common_prefix(first, plain_of(last.key(bytes), timestamp));
        let behind = last.at();
        if let Some(words) = DataWords::with_shared(bytes, layout, (shared, timestamp), behind) {
            return Some(words);
        }
        let mut shared = shared;
        while last.valid() {
            shared = key::common_prefix(first, plain_of(last.key(bytes), timestamp));
            last.step(&Interleaved, bytes, layout).ok()?;
        }
        DataWords::with_shared(bytes, layout, (shared, timestamp), bytes.len())
    }

    /// The key words of keys that start with the first `shared` bytes of the first key and end with a timestamp of
    /// `timestamp` bytes. `None` if a key at or after offset `behind` does not, or if the block is damaged.
    ///
    /// Of each key, only the bytes of its word are decoded.
    fn with_shared(
        bytes: &[u8],
        layout: &BlockLayout,
        (shared, timestamp): (usize, usize),
        behind: usize,
    ) -> Option<Vec<u8>> {
        let mut last = u16::try_from(shared)
            .ok()
            .filter(|shared| shared & TIMESTAMPED == 0)?;
        if timestamp > 0 {
            last |= TIMESTAMPED;
        }
        let mut at = layout.restart(bytes, 0) as usize;
        let prefix = Interleaved.whole_key(bytes, layout, at)?.get(..shared)?;
        // Most blocks have 16 entries per restart point, and no entry is smaller than its header and suffix.
        let entries = (layout.restarts as usize * 16).min(bytes.len() / MIN_ENTRY);
        let mut words = Vec::with_capacity(DataWords::encoded_len(entries as u64) as usize);
        let mut offsets: Vec<u8> = Vec::with_capacity(entries * OFFSET_LEN);
        let mut key_len = 0;
        // The bytes of the internal key from `shared` on, and the number of bytes of `prefix` that it starts with.
        let mut window = [0; WORD_LEN];
        let mut begins_with = 0;
        while at < layout.entries_end as usize {
            let entry = Interleaved.entry(bytes, layout, at, &Default::default())?;
            if entry.shared > key_len {
                return None;
            }
            let delta = entry.delta(bytes);
            if entry.shared < shared && entry.shared <= begins_with {
                begins_with = entry.shared + key::common_prefix(&prefix[entry.shared..], delta);
            }
            if entry.shared < shared + WORD_LEN {
                let kept = entry.shared.saturating_sub(shared);
                let fresh = delta.get(shared.saturating_sub(entry.shared)..);
                for (to, from) in window[kept..].iter_mut().zip(fresh.unwrap_or_default()) {
                    *to = *from;
                }
            }
            key_len = entry.shared + entry.delta_len;
            let plain_len = key_len
                .checked_sub(key::SUFFIX_LEN)?
                .saturating_sub(timestamp);
            let known = plain_len.checked_sub(shared)?;
            if at >= behind && begins_with < shared {
                return None;
            }
            words.extend_from_slice(&leading(window, known));
            offsets.extend_from_slice(&u16::try_from(at).ok()?.to_le_bytes());
            at = entry.next;
        }
        words.extend_from_slice(&offsets);
        let last = last.to_le_bytes();
        words.extend_from_slice(&last);
        (last != NOT_WORDS).then_some(words)
    }

    /// The key words in `tail`, if there are any.
    #[inline]
    #[must_use]
    pub fn parse(tail: &'a [u8]) -> Option<DataWords<'a>> {
        let (entries, last) = tail.split_last_chunk::<OFFSET_LEN>()?;
        if *last == NOT_WORDS {
            return None;
        }
        let last = u16::from_le_bytes(*last);
        let count = entries.len() / (WORD_LEN + OFFSET_LEN);
        let (words, offsets) = entries.split_at(count * WORD_LEN);
        (count > 0).then(|| DataWords {
            words: words.as_chunks().0,
            offsets: offsets.as_chunks().0,
            shared: usize::from(last & !TIMESTAMPED),
            timestamp: usize::from(last >> 15) * key::U64_TS,
        })
    }

    /// The length of the common prefix of all user keys.
    #[inline]
    pub(super) fn shared(&self) -> usize {
        self.shared
    }

    /// `user_key` without its timestamp.
    #[inline]
    pub(super) fn plain<'k>(&self, user_key: &'k [u8]) -> &'k [u8] {
        key::strip_timestamp(user_key, self.timestamp)
    }

    /// The length of a user key of `len` bytes without its timestamp.
    #[inline]
    pub(super) fn plain_len(&self, len: usize) -> usize {
        len.saturating_sub(self.timestamp)
    }

    /// True if many entries from `place` on have the same word: versions of a key, or keys that differ later.
    #[inline]
    pub(super) fn has_many_equal(&self, place: &Place) -> bool {
        self.words.get(place.index + MANY_EQUAL) == Some(&place.word)
    }

    /// The entry that a search for `user_key` accesses first, for prefetching and [`DataCursor::seek_from`](super::DataCursor::seek_from).
    #[inline]
    #[must_use]
    pub fn near(&self, bytes: &[u8], layout: &BlockLayout, user_key: &[u8]) -> Option<Place> {
        let first = Interleaved.whole_key(bytes, layout, 0)?;
        self.find(key::user_key(first), user_key)
    }

    /// The first entry whose user key may be at or after `user_key`; `None` if all are before it. `first` is
    /// the user key of the first entry.
    #[inline]
    pub(super) fn find(&self, first: &[u8], user_key: &[u8]) -> Option<Place> {
        let prefix = self.plain(first).get(..self.shared)?;
        let user_key = self.plain(user_key);
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

    /// The index of the entry at offset `at`; `likely` is tried first.
    #[inline]
    pub(super) fn index_of(&self, at: usize, likely: usize) -> Option<usize> {
        if self.offset(likely) == Some(at) {
            return Some(likely);
        }
        let at = u16::try_from(at).ok()?;
        let offset = |offset: &[u8; OFFSET_LEN]| u16::from_le_bytes(*offset);
        self.offsets.binary_search_by_key(&at, offset).ok()
    }

    /// True if entry `index` is known to have a different user key than its predecessor.
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
    fn offsets_require_contiguous_blocks() {
        let handle = |offset, size| Handle { offset, size };
        let all = |handles: &[Handle]| contiguous_offsets(handles.iter().copied());
        let offsets = all(&[handle(7, 10), handle(22, 1), handle(28, 0)]);
        assert_eq!(offsets.as_deref(), Some(&[7, 22, 28, 33][..]));
        assert_eq!(all(&[handle(7, 10), handle(23, 1)]), None);
        assert_eq!(all(&[handle(u64::MAX - 9, 8)]), None);
    }
}
