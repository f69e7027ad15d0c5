//! The position in a block, shared by data and index cursors.
//!
//! A [`Position`] is on an entry or invalid. Its key is in the block if no part of it is shared, and
//! otherwise at the end of a buffer. The encoding of entries differs between kinds of blocks and is provided
//! by a [`Coding`].
//!
//! A step back that uses the block's key words decodes only the entry it reaches. Without key
//! words, or where they do not distinguish keys, it scans forward from a restart point. The scanned
//! entries are kept (up to [`MAX_PASSED`] and the size of the block), so that a reverse scan
//! decodes each entry once: their keys stay in the buffer, before that of the current entry, and
//! stepping back to one of them copies nothing.

use std::cmp::Ordering;
use std::ops::Range;

use cairn_types::{Decoded, Malformed};

use super::key_words::{DataWords, Place};
use super::layout::BlockLayout;
use crate::key::common_prefix;

/// The encoding of the entries of a kind of block.
pub(super) trait Coding {
    /// The data that a cursor keeps for an entry besides its key.
    type Value: Copy + Default;

    /// Decodes the entry at offset `at`, whose predecessor has the value `previous`. Returns `None` if it is
    /// malformed. `next` of the result is greater than `at`, and the key delta lies within `bytes`.
    fn entry(
        &self,
        bytes: &[u8],
        layout: &BlockLayout,
        at: usize,
        previous: &Self::Value,
    ) -> Option<Entry<Self::Value>>;

    /// The key of the entry at `at`, a restart point; `None` if it is not complete.
    fn whole_key<'a>(&self, bytes: &'a [u8], layout: &BlockLayout, at: usize) -> Option<&'a [u8]>;

    /// The value assumed before restart point `i`.
    fn before_restart(&self, i: u32) -> Self::Value;
}

/// A decoded entry, whose key has `shared` bytes of the previous key, followed by the delta.
#[derive(Clone, Copy)]
pub(super) struct Entry<V> {
    pub shared: usize,
    pub delta_at: usize,
    pub delta_len: usize,
    pub next: usize,
    pub value: V,
}

impl<V> Entry<V> {
    #[inline]
    pub fn delta<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.delta_at..][..self.delta_len]
    }

    #[inline]
    pub fn delta_range(&self) -> Range<usize> {
        self.delta_at..self.delta_at + self.delta_len
    }
}

/// The maximum number of entries that a step back keeps.
const MAX_PASSED: usize = 256;
/// The total size of their keys that is kept for a block of any size.
const MIN_KEPT_KEY_BYTES: usize = 4096;

#[derive(Clone, Copy)]
struct Passed<V> {
    at: usize,
    next: usize,
    /// See [`Position`].
    owned: bool,
    key_at: usize,
    key_len: usize,
    /// The length of the buffer in use while this is the current entry.
    buffered: usize,
    value: V,
}

/// A position in a block, or an invalid one.
#[derive(Clone)]
pub(super) struct Position<V> {
    valid: bool,
    at: usize,
    next: usize,
    pub value: V,
    /// The likely index of the entry. Maintained by movements that use key words.
    index: usize,
    /// True if the key is at the end of `buffer` rather than in the block.
    owned: bool,
    key_at: usize,
    key_len: usize,
    /// The keys of `passed`, followed by the current one.
    buffer: Vec<u8>,
    /// Entries before the current one, the nearest last.
    passed: Vec<Passed<V>>,
}

impl<V: Copy + Default> Default for Position<V> {
    fn default() -> Self {
        Position {
            valid: false,
            at: 0,
            next: 0,
            value: V::default(),
            index: 0,
            owned: false,
            key_at: 0,
            key_len: 0,
            buffer: Vec::new(),
            passed: Vec::new(),
        }
    }
}

/// Parts of keys up to this length are copied as a whole chunk, and the excess is truncated: a copy
/// of constant length is inlined.
const CHUNK: usize = 32;
const SMALL_CHUNK: usize = 16;

/// Appends `range` of `bytes`; appends nothing if the range is out of bounds.
#[inline]
pub(super) fn append(buffer: &mut Vec<u8>, bytes: &[u8], range: Range<usize>) {
    let len = range.len();
    if let Some(chunk) = bytes
        .get(range.start..)
        .and_then(|rest| rest.first_chunk::<CHUNK>())
        && len <= CHUNK
    {
        let end = buffer.len() + len;
        buffer.extend_from_slice(chunk);
        buffer.truncate(end);
    } else {
        buffer.extend_from_slice(bytes.get(range).unwrap_or_default());
    }
}

/// Appends `range` of `buffer` to it.
#[inline]
fn append_within(buffer: &mut Vec<u8>, range: Range<usize>) {
    let len = range.len();
    if let Some(&chunk) = buffer[range.start..].first_chunk::<SMALL_CHUNK>()
        && len <= SMALL_CHUNK
    {
        let end = buffer.len() + len;
        buffer.extend_from_slice(&chunk);
        buffer.truncate(end);
    } else {
        buffer.extend_from_within(range);
    }
}

#[cold]
#[inline(never)]
pub(super) fn bad_entry(at: usize) -> Malformed {
    Malformed::at(at, "block entry is truncated or shares too many bytes")
}

#[cold]
#[inline(never)]
fn bad_restart(i: u32, offset: u32) -> Malformed {
    Malformed::at(
        offset as usize,
        format!("restart point {i} of the block has no complete key"),
    )
}

/// True if the last `SUFFIX` bytes of `key`, numbers of 8 bytes, precede those of `target`: greater numbers come
/// first.
#[inline(always)]
fn is_before_suffix<const SUFFIX: usize>(key: &[u8], target: &[u8]) -> bool {
    use crate::key::{packed, user_key};
    match SUFFIX {
        0 => false,
        8 => packed(key) > packed(target),
        _ => {
            let numbers = |key| (packed(user_key(key)), packed(key));
            numbers(key) > numbers(target)
        }
    }
}

impl<V: Copy + Default> Position<V> {
    /// The memory used, excluding the position itself.
    pub fn memory_usage(&self) -> usize {
        let passed = self.passed.capacity() * size_of::<Passed<V>>();
        self.buffer.capacity() + passed
    }

    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The offset of the entry.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The end of the entry.
    pub fn end(&self) -> usize {
        self.next
    }

    /// The key of the entry; unspecified if the position is invalid.
    #[inline]
    pub fn key<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        self.key_in(bytes, self.owned, self.key_at, self.key_len)
    }

    #[inline]
    fn key_in<'a>(&'a self, bytes: &'a [u8], owned: bool, at: usize, len: usize) -> &'a [u8] {
        let holder = if owned { &self.buffer[..] } else { bytes };
        holder.get(at..at + len).unwrap_or_default()
    }

    /// The length of the key.
    #[inline]
    pub fn key_len(&self) -> usize {
        self.key_len
    }

    /// The key of the previous entry, if available.
    #[inline]
    pub fn key_before<'a>(&'a self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let before = self.passed.last().filter(|last| last.next == self.at)?;
        Some(self.key_in(bytes, before.owned, before.key_at, before.key_len))
    }

    /// The last bytes of the key, if they can be changed in place.
    pub fn key_tail_mut<const N: usize>(&mut self, bytes: &[u8]) -> Option<&mut [u8; N]> {
        if !self.owned {
            if self.passed.is_empty() {
                self.buffer.clear();
            }
            let key = bytes.get(self.key_at..self.key_at + self.key_len);
            self.key_at = self.buffer.len();
            self.buffer.extend_from_slice(key.unwrap_or_default());
            self.owned = true;
        }
        self.buffer[self.key_at..].last_chunk_mut()
    }

    /// Makes the position invalid.
    pub fn clear(&mut self) {
        self.valid = false;
    }

    #[inline]
    pub fn forget_passed(&mut self) {
        self.passed.clear();
    }

    /// Moves to `entry`, at offset `at` after the current one.
    // Inlined because every step uses it and a call would pass the entry through memory.
    #[inline(always)]
    fn load(&mut self, bytes: &[u8], at: usize, entry: &Entry<V>) -> bool {
        if entry.shared == 0 {
            self.passed.clear();
            self.owned = false;
            self.key_at = entry.delta_at;
        } else {
            if entry.shared > self.key_len {
                return false;
            }
            if self.owned {
                self.buffer.truncate(self.key_at + entry.shared);
            } else {
                let shared = self.key_at..self.key_at + entry.shared;
                self.own();
                append(&mut self.buffer, bytes, shared);
            }
            append(&mut self.buffer, bytes, entry.delta_range());
        }
        self.stand(at, entry);
        true
    }

    /// Clears the buffer for the current key.
    #[inline]
    fn own(&mut self) {
        self.passed.clear();
        self.buffer.clear();
        self.owned = true;
        self.key_at = 0;
    }

    /// Moves to the next entry. Becomes invalid at the end.
    #[inline(always)]
    pub fn step<C: Coding<Value = V>>(
        &mut self,
        coding: &C,
        bytes: &[u8],
        layout: &BlockLayout,
    ) -> Decoded<()> {
        let at = self.next;
        if at >= layout.entries_end as usize {
            self.valid = false;
            return Ok(());
        }
        if let Some(entry) = coding.entry(bytes, layout, at, &self.value)
            && self.load(bytes, at, &entry)
        {
            return Ok(());
        }
        self.valid = false;
        Err(bad_entry(at))
    }

    /// Decodes the entry at restart point `i`.
    #[inline]
    fn restart_entry<C: Coding<Value = V>>(
        coding: &C,
        bytes: &[u8],
        layout: &BlockLayout,
        i: u32,
    ) -> Decoded<(usize, Entry<V>)> {
        let offset = layout.restart(bytes, i);
        if offset < layout.entries_end
            && let Some(entry) =
                coding.entry(bytes, layout, offset as usize, &coding.before_restart(i))
            && entry.shared == 0
        {
            return Ok((offset as usize, entry));
        }
        Err(bad_restart(i, offset))
    }

    /// Moves to the entry at restart point `i`. Becomes invalid if the block is empty.
    #[inline]
    pub fn jump<C: Coding<Value = V>>(
        &mut self,
        coding: &C,
        bytes: &[u8],
        layout: &BlockLayout,
        i: u32,
    ) -> Decoded<()> {
        self.valid = false;
        if layout.is_empty() {
            return Ok(());
        }
        let (at, entry) = Self::restart_entry(coding, bytes, layout, i)?;
        self.passed.clear();
        self.owned = false;
        self.key_at = entry.delta_at;
        self.stand(at, &entry);
        Ok(())
    }

    /// Moves to the first entry.
    pub fn first<C: Coding<Value = V>>(
        &mut self,
        coding: &C,
        bytes: &[u8],
        layout: &BlockLayout,
    ) -> Decoded<()> {
        self.forget_passed();
        self.jump(coding, bytes, layout, 0)
    }

    /// Moves to the last entry.
    pub fn last<C: Coding<Value = V>>(
        &mut self,
        coding: &C,
        bytes: &[u8],
        layout: &BlockLayout,
    ) -> Decoded<()> {
        self.forget_passed();
        self.jump(coding, bytes, layout, layout.restarts - 1)?;
        if self.valid {
            self.walk_to(coding, bytes, layout, layout.entries_end as usize)?;
        }
        Ok(())
    }

    /// Moves to the previous entry. Becomes invalid at the start.
    #[inline]
    pub fn back<C: Coding<Value = V>>(
        &mut self,
        coding: &C,
        bytes: &[u8],
        layout: &BlockLayout,
    ) -> Decoded<()> {
        if self.passed.last().is_some_and(|last| last.next == self.at) {
            self.take_passed();
            if self.passed.is_empty() && self.at > 0 {
                self.pass_before(coding, bytes, layout);
            }
            return Ok(());
        }
        self.back_over_restart(coding, bytes, layout)
    }

    /// Moves to the previous entry by a scan from the restart point before it.
    #[inline(never)]
    fn back_over_restart<C: Coding<Value = V>>(
        &mut self,
        coding: &C,
        bytes: &[u8],
        layout: &BlockLayout,
    ) -> Decoded<()> {
        let goal = self.at;
        self.forget_passed();
        match layout.restarts_before(bytes, goal) {
            0 => {
                self.valid = false;
                Ok(())
            }
            i => {
                self.jump(coding, bytes, layout, i - 1)?;
                self.walk_to(coding, bytes, layout, goal)
            }
        }
    }

    /// Scans the entries from the previous restart point to the current entry and keeps them:
    /// further steps back need them, and they show whether a newer version of the key comes first.
    /// A malformed entry is reported by the step that reaches it.
    #[inline(never)]
    fn pass_before<C: Coding<Value = V>>(
        &mut self,
        coding: &C,
        bytes: &[u8],
        layout: &BlockLayout,
    ) {
        let i = layout.restarts_before(bytes, self.at);
        if self.owned || i == 0 {
            return;
        }
        let (at, next, value) = (self.at, self.next, self.value);
        let (key_at, key_len) = (self.key_at, self.key_len);
        let walked = self
            .jump(coding, bytes, layout, i - 1)
            .and_then(|()| self.walk_to(coding, bytes, layout, at));
        match walked {
            Ok(()) if self.valid => self.keep(),
            _ => self.forget_passed(),
        }
        self.valid = true;
        self.owned = false;
        (self.at, self.next, self.value) = (at, next, value);
        (self.key_at, self.key_len) = (key_at, key_len);
    }

    /// Adds the current entry to the passed entries.
    #[inline]
    fn keep(&mut self) {
        self.passed.push(Passed {
            at: self.at,
            next: self.next,
            owned: self.owned,
            key_at: self.key_at,
            key_len: self.key_len,
            buffered: self.buffer.len(),
            value: self.value,
        });
    }

    /// Scans to the entry that ends at `goal`, keeping the passed entries.
    fn walk_to<C: Coding<Value = V>>(
        &mut self,
        coding: &C,
        bytes: &[u8],
        layout: &BlockLayout,
        goal: usize,
    ) -> Decoded<()> {
        if !self.owned {
            self.buffer.clear();
        }
        while self.valid && self.next < goal {
            let at = self.next;
            let Some(entry) = coding.entry(bytes, layout, at, &self.value) else {
                self.valid = false;
                return Err(bad_entry(at));
            };
            if !self.load_behind(bytes, at, &entry) {
                self.valid = false;
                return Err(bad_entry(at));
            }
        }
        if self.valid && self.next == goal {
            return Ok(());
        }
        self.valid = false;
        Err(bad_entry(goal))
    }

    /// Like [`Position::load`], but keeps the current entry.
    #[inline]
    fn load_behind(&mut self, bytes: &[u8], at: usize, entry: &Entry<V>) -> bool {
        if entry.shared > self.key_len {
            return false;
        }
        // The entries nearest to the goal are needed first, so the older half can be dropped.
        if self.passed.len() >= MAX_PASSED
            || self.buffer.len() + self.key_len > bytes.len().max(MIN_KEPT_KEY_BYTES)
        {
            self.forget_buffered();
        }
        self.keep();
        if entry.shared == 0 {
            self.owned = false;
            self.key_at = entry.delta_at;
        } else {
            let shared = self.key_at..self.key_at + entry.shared;
            self.key_at = self.buffer.len();
            if self.owned {
                append_within(&mut self.buffer, shared);
            } else {
                append(&mut self.buffer, bytes, shared);
                self.owned = true;
            }
            append(&mut self.buffer, bytes, entry.delta_range());
        }
        self.stand(at, entry);
        true
    }

    /// Drops the passed entries and their keys.
    #[cold]
    fn forget_buffered(&mut self) {
        self.passed.clear();
        if self.owned {
            self.buffer.drain(..self.key_at);
            self.key_at = 0;
        } else {
            self.buffer.clear();
        }
    }

    #[inline]
    fn take_passed(&mut self) {
        if let Some(passed) = self.passed.pop() {
            self.buffer.truncate(passed.buffered);
            self.owned = passed.owned;
            self.key_at = passed.key_at;
            self.key_len = passed.key_len;
            self.at = passed.at;
            self.next = passed.next;
            self.value = passed.value;
        }
    }

    /// Moves to the first entry for which `compare` does not return less. Becomes invalid if there is none.
    ///
    /// `bytewise` is the target if keys are ordered bytewise except for the last `SUFFIX` bytes: numbers of 8 bytes,
    /// greater ones first (the timestamp, and the sequence number with the kind). The restart interval is then
    /// scanned without building keys.
    #[inline]
    pub fn seek<C: Coding<Value = V>, const SUFFIX: usize>(
        &mut self,
        coding: &C,
        bytes: &[u8],
        layout: &BlockLayout,
        compare: impl Fn(&[u8]) -> Ordering,
        bytewise: Option<&[u8]>,
    ) -> Decoded<()> {
        let all = 0..layout.restarts;
        self.seek_between::<C, SUFFIX>(coding, bytes, layout, all, compare, bytewise)
    }

    /// [`Position::seek`] with a known range of candidate restart points, `undecided`: restart
    /// points before the range are less than the target, those after it are not.
    #[inline]
    pub fn seek_between<C: Coding<Value = V>, const SUFFIX: usize>(
        &mut self,
        coding: &C,
        bytes: &[u8],
        layout: &BlockLayout,
        undecided: Range<u32>,
        compare: impl Fn(&[u8]) -> Ordering,
        bytewise: Option<&[u8]>,
    ) -> Decoded<()> {
        self.forget_passed();
        self.valid = false;
        if layout.is_empty() {
            return Ok(());
        }
        let Range {
            start: mut low,
            end: mut high,
        } = undecided;
        while low < high {
            let mid = low + (high - low) / 2;
            let offset = layout.restart(bytes, mid);
            let Some(key) = coding.whole_key(bytes, layout, offset as usize) else {
                return Err(bad_restart(mid, offset));
            };
            if compare(key) == Ordering::Less {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        if low == 0 {
            return self.jump(coding, bytes, layout, 0);
        }
        self.jump(coding, bytes, layout, low - 1)?;
        if self.next == layout.restart(bytes, low) as usize {
            return self.jump(coding, bytes, layout, low);
        }
        match bytewise {
            Some(target) => self.run_bytewise::<C, SUFFIX>(coding, bytes, layout, compare, target),
            None => self.run(coding, bytes, layout, compare),
        }
    }

    /// [`Position::seek`] by the key words of a data block. Returns false, leaving the position unchanged, if
    /// they do not suffice.
    #[inline]
    pub fn seek_by_words<C: Coding<Value = V>>(
        &mut self,
        coding: &C,
        bytes: &[u8],
        layout: &BlockLayout,
        words: &DataWords<'_>,
        (compare, user): (impl Fn(&[u8]) -> Ordering, &[u8]),
    ) -> Decoded<bool> {
        let Some(first) = coding.whole_key(bytes, layout, 0) else {
            return Ok(false);
        };
        let Some(place) = words.find(crate::key::user_key(first), user) else {
            self.forget_passed();
            self.valid = false;
            return Ok(true);
        };
        self.seek_from(coding, bytes, layout, words, (&place, compare))
    }

    /// [`Position::seek_by_words`] from the place that the key words give.
    #[inline]
    pub fn seek_from<C: Coding<Value = V>>(
        &mut self,
        coding: &C,
        bytes: &[u8],
        layout: &BlockLayout,
        words: &DataWords<'_>,
        (place, compare): (&Place, impl Fn(&[u8]) -> Ordering),
    ) -> Decoded<bool> {
        if place.may_be_equal && words.has_many_equal(place)
            || !self.move_by_words(coding, bytes, layout, words, place)
        {
            return Ok(false);
        }
        if place.may_be_equal {
            self.run(coding, bytes, layout, compare)?;
        }
        Ok(true)
    }

    /// Moves to the entry at `place`, building its key from the bytes that are known. Returns
    /// false, leaving the position unchanged, if they do not suffice.
    #[inline(always)]
    fn move_by_words<C: Coding<Value = V>>(
        &mut self,
        coding: &C,
        bytes: &[u8],
        layout: &BlockLayout,
        words: &DataWords<'_>,
        place: &Place,
    ) -> bool {
        let Some(entry) = coding.entry(bytes, layout, place.at, &V::default()) else {
            return false;
        };
        // The entry shares bytes of its user key with its predecessor, which are known: the common prefix of
        // all keys, and its word. Padding of the word is not used: the shared part must end within the user
        // key.
        let user_len = (entry.shared + entry.delta_len).checked_sub(crate::key::SUFFIX_LEN);
        let of_word = entry.shared.saturating_sub(words.shared());
        if of_word > place.word.len()
            || user_len.is_none_or(|len| entry.shared > words.plain_len(len))
        {
            return false;
        }
        if entry.shared > 0 {
            let first = coding.whole_key(bytes, layout, 0).unwrap_or_default();
            let Some(of_first) = first.get(..entry.shared - of_word) else {
                return false;
            };
            self.own();
            self.buffer.reserve(entry.shared + entry.delta_len);
            self.buffer.extend_from_slice(of_first);
            self.buffer.extend_from_slice(&place.word[..of_word]);
            append(&mut self.buffer, bytes, entry.delta_range());
        } else {
            self.passed.clear();
            self.owned = false;
            self.key_at = entry.delta_at;
        }
        self.index = place.index;
        self.stand(place.at, &entry);
        true
    }

    /// Moves to the last entry by the key words of a data block. Returns false if they do not suffice.
    #[inline]
    pub fn last_by_words<C: Coding<Value = V>>(
        &mut self,
        coding: &C,
        bytes: &[u8],
        layout: &BlockLayout,
        words: &DataWords<'_>,
    ) -> bool {
        words.last().is_some_and(|last| {
            words.begins_key(last.index) && self.move_by_words(coding, bytes, layout, words, &last)
        })
    }

    /// [`Position::back`] by the key words of a data block. If they distinguish the entry reached from its
    /// predecessor, only that entry is decoded.
    #[inline]
    pub fn back_by_words<C: Coding<Value = V>>(
        &mut self,
        coding: &C,
        bytes: &[u8],
        layout: &BlockLayout,
        words: &DataWords<'_>,
    ) -> Decoded<()> {
        if self.passed.last().is_some_and(|last| last.next == self.at) {
            self.take_passed();
            if self.passed.is_empty() && self.at > 0 && !self.begins_key(words) {
                self.pass_before(coding, bytes, layout);
            }
            return Ok(());
        }
        if let Some(index) = words.index_of(self.at, self.index)
            && let Some(before) = index.checked_sub(1)
            && (before == 0 || words.begins_key(before))
            && let Some(place) = words.place(before)
            && self.move_by_words(coding, bytes, layout, words, &place)
        {
            return Ok(());
        }
        self.back_over_restart(coding, bytes, layout)
    }

    /// True if the key words of a data block show that the entry has another user key than its predecessor.
    #[inline]
    pub fn begins_key(&self, words: &DataWords<'_>) -> bool {
        words
            .index_of(self.at, self.index)
            .is_some_and(|index| words.begins_key(index))
    }

    /// Moves to `entry`, whose key is already in place.
    #[inline]
    fn stand(&mut self, at: usize, entry: &Entry<V>) {
        self.valid = true;
        self.key_len = entry.shared + entry.delta_len;
        self.at = at;
        self.next = entry.next;
        self.value = entry.value;
    }

    /// Advances to the first entry for which `compare` does not return less. Becomes invalid if there is
    /// none.
    #[inline]
    pub fn run<C: Coding<Value = V>>(
        &mut self,
        coding: &C,
        bytes: &[u8],
        layout: &BlockLayout,
        compare: impl Fn(&[u8]) -> Ordering,
    ) -> Decoded<()> {
        while self.valid && compare(self.key(bytes)) == Ordering::Less {
            self.step(coding, bytes, layout)?;
        }
        Ok(())
    }

    /// [`Position::run`] from an entry before `target`, using the lengths of shared prefixes.
    ///
    /// While the last user key passed first differs from the target at byte `same`, an entry that
    /// shares more than `same` bytes with it differs at the same byte and is skipped. An entry that
    /// shares fewer bytes starts with bytes of the target, so only its delta is compared.
    #[inline]
    fn run_bytewise<C: Coding<Value = V>, const SUFFIX: usize>(
        &mut self,
        coding: &C,
        bytes: &[u8],
        layout: &BlockLayout,
        compare: impl Fn(&[u8]) -> Ordering,
        target: &[u8],
    ) -> Decoded<()> {
        let end = layout.entries_end as usize;
        let user = &target[..target.len().saturating_sub(SUFFIX)];
        let key = self.key(bytes);
        let (passed, _) = key.split_at(key.len().saturating_sub(SUFFIX));
        let mut same = common_prefix(passed, user);
        // True if the last user key passed is `user[..same]`: it is then followed by its suffix, and sharing
        // more than `same` bytes implies nothing about user keys.
        let mut whole = same == passed.len();
        let (mut passed_at, mut at, mut value) = (self.at, self.next, self.value);
        let mut passed_len = key.len();
        let mut passed_entry: Option<Entry<V>> = None;
        while at < end {
            let Some(entry) = coding.entry(bytes, layout, at, &value) else {
                self.valid = false;
                return Err(bad_entry(at));
            };
            if entry.shared <= same {
                let delta = entry.delta(bytes);
                let rest = &user[entry.shared..];
                let known = delta.len().checked_sub(SUFFIX).map(|len| &delta[..len]);
                let stop = match known {
                    // The delta starts within the suffix, so the key has to be built.
                    None => true,
                    Some(part) => {
                        let more = common_prefix(part, rest);
                        let before = match (part.get(more), rest.get(more)) {
                            (Some(ours), Some(theirs)) => ours < theirs,
                            (Some(_), None) => false,
                            (None, Some(_)) => true,
                            (None, None) => is_before_suffix::<SUFFIX>(delta, target),
                        };
                        same = entry.shared + more;
                        whole = more == part.len();
                        !before
                    }
                };
                if stop {
                    self.build(bytes, at, &entry, user);
                    return match known {
                        Some(_) => Ok(()),
                        None => self.run(coding, bytes, layout, compare),
                    };
                }
                passed_entry = Some(entry);
            } else if entry.shared > passed_len {
                self.valid = false;
                return Err(bad_entry(at));
            } else if whole {
                // Continue from the last entry passed, whose key is known, and build keys from there.
                if let Some(passed) = passed_entry {
                    self.build(bytes, passed_at, &passed, user);
                }
                return self.run(coding, bytes, layout, compare);
            }
            passed_at = at;
            passed_len = entry.shared + entry.delta_len;
            value = entry.value;
            at = entry.next;
        }
        self.valid = false;
        Ok(())
    }

    /// Makes `entry` the current one. Its shared bytes are those of `prefix`.
    #[inline]
    pub fn build(&mut self, bytes: &[u8], at: usize, entry: &Entry<V>, prefix: &[u8]) {
        if entry.shared > 0 {
            self.own();
            self.buffer.reserve(entry.shared + entry.delta_len);
            self.buffer.extend_from_slice(&prefix[..entry.shared]);
            self.buffer.extend_from_slice(entry.delta(bytes));
        } else {
            self.owned = false;
            self.key_at = entry.delta_at;
        }
        self.stand(at, entry);
    }
}
