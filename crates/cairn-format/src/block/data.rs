//! The cursor of data blocks and other blocks of keys and values.

use std::cmp::Ordering;
use std::ops::Range;

use cairn_types::{Decoded, KeyOrder, SequenceNumber};

use super::cursor::{Coding, Entry, Position};
use super::hash_index::{HashHit, hash_lookup};
use super::key_words::{DataWords, Place};
use super::layout::BlockLayout;
use crate::coding::decode_varint32;
use crate::key;
use crate::protection::EntryChecksum;

/// The location of a value. `restart` is the number of restart points passed, which is maintained and used
/// only if values are stored separately.
#[derive(Clone, Copy, Default)]
pub(super) struct ValuePlace {
    start: u32,
    end: u32,
    restart: u32,
}

impl ValuePlace {
    /// True if the value at `next` directly follows this one.
    pub(super) fn is_followed_by(&self, next: &ValuePlace) -> bool {
        self.end == next.start
    }
}

/// The three lengths at the start of an entry, and the offset after them.
#[inline(always)]
pub(super) fn lengths(bytes: &[u8], at: usize) -> Option<(u32, u32, u32, usize)> {
    let head = bytes.get(at..)?;
    if let Some(&[a, b, c]) = head.first_chunk::<3>()
        && a | b | c < 0x80
    {
        return Some((u32::from(a), u32::from(b), u32::from(c), at + 3));
    }
    long_lengths(head, at)
}

#[inline(never)]
fn long_lengths(head: &[u8], at: usize) -> Option<(u32, u32, u32, usize)> {
    let (shared, a) = decode_varint32(head)?;
    let (delta, b) = decode_varint32(&head[a..])?;
    let (value, c) = decode_varint32(&head[a + b..])?;
    Some((shared, delta, value, at + a + b + c))
}

/// The encoding in which each value follows its key.
pub(super) struct Interleaved;

impl Coding for Interleaved {
    type Value = ValuePlace;

    #[inline]
    fn entry(
        &self,
        bytes: &[u8],
        layout: &BlockLayout,
        at: usize,
        _: &ValuePlace,
    ) -> Option<Entry<ValuePlace>> {
        let (shared, delta_len, value_len, delta_at) = lengths(bytes, at)?;
        let start = delta_at.checked_add(delta_len as usize)?;
        let end = start.checked_add(value_len as usize)?;
        if end > layout.entries_end as usize || end > bytes.len() {
            return None;
        }
        Some(Entry {
            shared: shared as usize,
            delta_at,
            delta_len: delta_len as usize,
            next: end,
            value: ValuePlace {
                start: start as u32,
                end: end as u32,
                restart: 0,
            },
        })
    }

    #[inline]
    fn whole_key<'a>(&self, bytes: &'a [u8], _: &BlockLayout, at: usize) -> Option<&'a [u8]> {
        let (shared, delta_len, _, delta_at) = lengths(bytes, at)?;
        let end = delta_at.checked_add(delta_len as usize)?;
        bytes.get(delta_at..end).filter(|_| shared == 0)
    }

    fn before_restart(&self, _: u32) -> ValuePlace {
        ValuePlace::default()
    }
}

/// The encoding in which values are stored separately, and restart points store the offset of their
/// value.
pub(super) struct Separated;

impl Coding for Separated {
    type Value = ValuePlace;

    fn entry(
        &self,
        bytes: &[u8],
        layout: &BlockLayout,
        at: usize,
        previous: &ValuePlace,
    ) -> Option<Entry<ValuePlace>> {
        let (shared, delta_len, value_len, mut delta_at) = lengths(bytes, at)?;
        let (mut start, mut restart) = (previous.end, previous.restart);
        if layout.restart(bytes, restart) as usize == at {
            let (offset, len) = decode_varint32(bytes.get(delta_at..)?)?;
            delta_at += len;
            start = layout.entries_end.checked_add(offset)?;
            restart += 1;
        }
        let end = start.checked_add(value_len)?;
        let next = delta_at.checked_add(delta_len as usize)?;
        if end > layout.restarts_at
            || next > layout.entries_end as usize
            || layout.restarts_at as usize > bytes.len()
        {
            return None;
        }
        Some(Entry {
            shared: shared as usize,
            delta_at,
            delta_len: delta_len as usize,
            next,
            value: ValuePlace {
                start,
                end,
                restart,
            },
        })
    }

    fn whole_key<'a>(&self, bytes: &'a [u8], _: &BlockLayout, at: usize) -> Option<&'a [u8]> {
        let (shared, delta_len, _, offset_at) = lengths(bytes, at)?;
        let (_, len) = decode_varint32(bytes.get(offset_at..)?)?;
        let start = offset_at + len;
        let end = start.checked_add(delta_len as usize)?;
        bytes.get(start..end).filter(|_| shared == 0)
    }

    fn before_restart(&self, i: u32) -> ValuePlace {
        ValuePlace {
            restart: i,
            ..ValuePlace::default()
        }
    }
}

/// Evaluates an expression with the encoding that the layout selects.
macro_rules! with_coding {
    ($layout:expr, |$coding:ident| $move:expr) => {
        if $layout.separated {
            let $coding = &Separated;
            $move
        } else {
            let $coding = &Interleaved;
            $move
        }
    };
}

/// A cursor over the entries of a data block. It owns its position and does not borrow the block.
///
/// Keys are internal keys. Blocks with other keys (metaindex, properties) are iterated with `first`, `next`,
/// `last` and `prev`, or searched with [`DataCursor::seek_bytes`].
#[derive(Clone, Default)]
pub struct DataCursor {
    pub(super) position: Position<ValuePlace>,
    /// The sequence number that replaces that of every key, if any.
    global: Option<SequenceNumber>,
    /// The suffix that the current key has in the block, while the buffer has another.
    stored: Option<[u8; key::SUFFIX_LEN]>,
}

impl DataCursor {
    /// Creates an invalid cursor.
    #[must_use]
    pub fn new() -> DataCursor {
        DataCursor::default()
    }

    /// Sets the global sequence number of an ingested file.
    #[must_use]
    pub fn with_global_seqno(mut self, global: Option<SequenceNumber>) -> DataCursor {
        self.global = global;
        self
    }

    /// Sets the global sequence number. The cursor is then invalid.
    #[inline]
    pub fn set_global_seqno(&mut self, global: Option<SequenceNumber>) {
        self.clear();
        self.global = global;
    }

    /// The memory that the cursor keeps for later movements.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.position.memory_usage()
    }

    /// True if the cursor is on an entry.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        self.position.valid()
    }

    /// True if keys of a block with this layout are returned unchanged, and each is followed by its value.
    pub(super) fn is_plain(&self, layout: &BlockLayout) -> bool {
        self.global.is_none() && !layout.separated
    }

    /// Makes the cursor invalid.
    pub fn clear(&mut self) {
        self.stored = None;
        self.position.clear();
    }

    /// The key of the current entry, from `bytes` or from the cursor.
    #[inline]
    #[must_use]
    pub fn key<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        self.position.key(bytes)
    }

    /// The key of the previous entry, if available. Its sequence number may be that of the block even if the
    /// cursor replaces it.
    #[inline]
    #[must_use]
    pub fn key_before<'a>(&'a self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        self.position.key_before(bytes)
    }

    /// The offset of the current entry.
    #[must_use]
    pub fn at(&self) -> usize {
        self.position.at()
    }

    /// The checksum of the current entry, with the sequence number that it has in the block.
    #[must_use]
    pub fn checksum(&self, bytes: &[u8]) -> EntryChecksum {
        let key = self.key(bytes);
        let (user, packed) = match key.split_last_chunk::<{ key::SUFFIX_LEN }>() {
            Some((user, suffix)) => (user, self.stored.unwrap_or(*suffix)),
            None => (key, [0; key::SUFFIX_LEN]),
        };
        EntryChecksum::new(user, self.value(bytes)).with_packed(u64::from_le_bytes(packed))
    }

    /// The length of the current key.
    #[inline]
    #[must_use]
    pub fn key_len(&self) -> usize {
        self.position.key_len()
    }

    /// The range of the current value in the block.
    #[inline]
    #[must_use]
    pub fn value_range(&self) -> Range<usize> {
        self.position.value.start as usize..self.position.value.end as usize
    }

    /// The current value; empty if the cursor is invalid.
    #[inline]
    #[must_use]
    pub fn value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.value_range()).unwrap_or_default()
    }

    /// Restores the key's suffix in the block, so that the next key can be built on it.
    #[cold]
    fn restore(&mut self, bytes: &[u8]) {
        if let Some(suffix) = self.stored.take()
            && let Some(tail) = self.position.key_tail_mut(bytes)
        {
            *tail = suffix;
        }
    }

    /// Replaces the key's sequence number with the global one.
    #[cold]
    fn rewrite(&mut self, bytes: &[u8], global: SequenceNumber) {
        if self.position.valid()
            && let Some(tail) = self.position.key_tail_mut(bytes)
        {
            self.stored = Some(*tail);
            *tail = rewritten(*tail, global).to_le_bytes();
        }
    }

    #[inline]
    fn before_move(&mut self, bytes: &[u8]) {
        if self.stored.is_some() {
            self.restore(bytes);
        }
    }

    #[inline]
    fn after_move(&mut self, bytes: &[u8]) {
        if let Some(global) = self.global {
            self.rewrite(bytes, global);
        }
    }

    /// Moves to the first entry.
    ///
    /// # Errors
    ///
    /// If the block is malformed there. The cursor is then invalid. The error has the offset in the
    /// block. The same applies to all methods that move the cursor.
    pub fn first(&mut self, bytes: &[u8], layout: &BlockLayout) -> Decoded<()> {
        self.stored = None;
        with_coding!(layout, |coding| self
            .position
            .first(coding, bytes, layout)?);
        self.after_move(bytes);
        Ok(())
    }

    /// Moves to the last entry.
    ///
    /// # Errors
    ///
    /// See [`DataCursor::first`].
    pub fn last(&mut self, bytes: &[u8], layout: &BlockLayout) -> Decoded<()> {
        self.stored = None;
        with_coding!(layout, |coding| self
            .position
            .last(coding, bytes, layout)?);
        self.after_move(bytes);
        Ok(())
    }

    /// Moves to the next entry. Becomes invalid at the end. Requires a valid cursor.
    ///
    /// # Errors
    ///
    /// See [`DataCursor::first`].
    #[inline(always)]
    pub fn next(&mut self, bytes: &[u8], layout: &BlockLayout) -> Decoded<()> {
        self.before_move(bytes);
        with_coding!(layout, |coding| self
            .position
            .step(coding, bytes, layout)?);
        self.after_move(bytes);
        Ok(())
    }

    /// Moves to the previous entry. Becomes invalid at the start. Requires a valid cursor.
    ///
    /// # Errors
    ///
    /// See [`DataCursor::first`].
    #[inline]
    pub fn prev(&mut self, bytes: &[u8], layout: &BlockLayout) -> Decoded<()> {
        self.before_move(bytes);
        with_coding!(layout, |coding| self
            .position
            .back(coding, bytes, layout)?);
        self.after_move(bytes);
        Ok(())
    }

    /// [`DataCursor::last`] with the key words that follow the block, if there are any.
    ///
    /// # Errors
    ///
    /// See [`DataCursor::first`].
    pub fn last_with(
        &mut self,
        words: Option<DataWords<'_>>,
        bytes: &[u8],
        layout: &BlockLayout,
    ) -> Decoded<()> {
        if let Some(words) = &words
            && self.is_plain(layout)
            && self
                .position
                .last_by_words(&Interleaved, bytes, layout, words)
        {
            self.stored = None;
            return Ok(());
        }
        self.last(bytes, layout)
    }

    /// [`DataCursor::prev`] with the key words that follow the block, if there are any.
    ///
    /// # Errors
    ///
    /// See [`DataCursor::first`].
    #[inline]
    pub fn prev_with(
        &mut self,
        words: Option<DataWords<'_>>,
        bytes: &[u8],
        layout: &BlockLayout,
    ) -> Decoded<()> {
        match &words {
            Some(words) if self.is_plain(layout) => {
                self.position
                    .back_by_words(&Interleaved, bytes, layout, words)
            }
            _ => self.prev(bytes, layout),
        }
    }

    /// True if the entry is known to have another user key than its predecessor, by the key words that follow
    /// the block, or by the previous key if available. `same` compares user keys.
    #[inline]
    #[must_use]
    pub fn begins_key(
        &self,
        words: Option<DataWords<'_>>,
        bytes: &[u8],
        same: impl Fn(&[u8], &[u8]) -> bool,
    ) -> bool {
        words.is_some_and(|words| self.position.begins_key(&words))
            || self
                .position
                .key_before(bytes)
                .is_some_and(|before| !same(key::user_key(before), key::user_key(self.key(bytes))))
    }

    /// The range of the entry in a block whose values follow their keys.
    #[inline]
    #[must_use]
    pub fn entry_range(&self) -> Range<usize> {
        self.position.at()..self.value_range().end
    }

    /// Moves to the first entry at or after the internal key `target`. Becomes invalid if there is none.
    ///
    /// # Errors
    ///
    /// See [`DataCursor::first`].
    #[inline]
    pub fn seek(
        &mut self,
        bytes: &[u8],
        layout: &BlockLayout,
        order: &KeyOrder,
        target: &[u8],
    ) -> Decoded<()> {
        if self.global.is_some() || layout.separated || !order.is_bytewise() {
            return self.seek_generally(bytes, layout, order, target);
        }
        self.stored = None;
        let compare = |key: &[u8]| compare_bytewise(key, target);
        self.position.seek::<_, { key::SUFFIX_LEN }>(
            &Interleaved,
            bytes,
            layout,
            compare,
            Some(target),
        )
    }

    /// [`DataCursor::seek`] with the key words that follow the block, if there are any.
    ///
    /// # Errors
    ///
    /// See [`DataCursor::first`].
    #[inline]
    pub fn seek_with(
        &mut self,
        words: Option<DataWords<'_>>,
        bytes: &[u8],
        layout: &BlockLayout,
        order: &KeyOrder,
        target: &[u8],
    ) -> Decoded<()> {
        match self.seek_by_words(words, bytes, layout, order, target)? {
            true => Ok(()),
            false => self.seek(bytes, layout, order, target),
        }
    }

    /// [`DataCursor::seek_with`] from the place that the key words of the block give for `target`
    /// ([`DataWords::near`]).
    ///
    /// # Errors
    ///
    /// See [`DataCursor::first`].
    #[inline]
    pub fn seek_from(
        &mut self,
        place: &Place,
        words: &DataWords<'_>,
        bytes: &[u8],
        layout: &BlockLayout,
        order: &KeyOrder,
        target: &[u8],
    ) -> Decoded<()> {
        if order.is_bytewise() && self.is_plain(layout) {
            self.stored = None;
            let compare = |key: &[u8]| compare_bytewise(key, target);
            let coding = &Interleaved;
            if self
                .position
                .seek_from(coding, bytes, layout, words, (place, compare))?
            {
                return Ok(());
            }
        }
        self.seek_with(Some(*words), bytes, layout, order, target)
    }

    /// [`DataCursor::seek_point`] with the key words that follow the block, if there are any.
    ///
    /// # Errors
    ///
    /// See [`DataCursor::first`].
    #[inline]
    pub fn seek_point_with(
        &mut self,
        words: Option<DataWords<'_>>,
        bytes: &[u8],
        layout: &BlockLayout,
        order: &KeyOrder,
        target: &[u8],
    ) -> Decoded<()> {
        match self.seek_by_words(words, bytes, layout, order, target)? {
            true => Ok(()),
            false => self.seek_point(bytes, layout, order, target),
        }
    }

    /// Seeks by key words alone. Returns false if there are none or they do not suffice.
    #[inline]
    fn seek_by_words(
        &mut self,
        words: Option<DataWords<'_>>,
        bytes: &[u8],
        layout: &BlockLayout,
        order: &KeyOrder,
        target: &[u8],
    ) -> Decoded<bool> {
        let Some(words) = words else {
            return Ok(false);
        };
        if self.global.is_some() || layout.separated {
            return Ok(false);
        }
        match order {
            KeyOrder::Bytewise => {
                self.stored = None;
                let compare = |key: &[u8]| compare_bytewise(key, target);
                let sought = (compare, key::user_key(target));
                self.position
                    .seek_by_words(&Interleaved, bytes, layout, &words, sought)
            }
            KeyOrder::BytewiseU64Ts => self.seek_timestamped(&words, bytes, layout, target),
            _ => Ok(false),
        }
    }

    /// [`DataCursor::seek_by_words`] for keys with timestamps. Not inlined: the other order is searched more often.
    #[inline(never)]
    fn seek_timestamped(
        &mut self,
        words: &DataWords<'_>,
        bytes: &[u8],
        layout: &BlockLayout,
        target: &[u8],
    ) -> Decoded<bool> {
        self.stored = None;
        let compare = |key: &[u8]| compare_timestamped(key, target);
        let sought = (compare, key::user_key(target));
        self.position
            .seek_by_words(&Interleaved, bytes, layout, words, sought)
    }

    /// [`DataCursor::seek`] for any order and form of a block.
    #[inline(never)]
    fn seek_generally(
        &mut self,
        bytes: &[u8],
        layout: &BlockLayout,
        order: &KeyOrder,
        target: &[u8],
    ) -> Decoded<()> {
        self.stored = None;
        let global = self.global;
        if matches!(order, KeyOrder::BytewiseU64Ts)
            && self.is_plain(layout)
            && target.len() >= TIMESTAMPED_SUFFIX
        {
            let compare = |key: &[u8]| compare_timestamped(key, target);
            return self.position.seek::<_, TIMESTAMPED_SUFFIX>(
                &Interleaved,
                bytes,
                layout,
                compare,
                Some(target),
            );
        }
        let compare = |key: &[u8]| compare(order, global, key, target);
        let bytewise = (global.is_none() && order.is_bytewise()).then_some(target);
        with_coding!(layout, |coding| {
            self.position
                .seek::<_, { key::SUFFIX_LEN }>(coding, bytes, layout, compare, bytewise)?;
        });
        self.after_move(bytes);
        Ok(())
    }

    /// Moves to the last entry at or before the internal key `target`. Becomes invalid if there is none.
    ///
    /// # Errors
    ///
    /// See [`DataCursor::first`].
    pub fn seek_for_prev(
        &mut self,
        bytes: &[u8],
        layout: &BlockLayout,
        order: &KeyOrder,
        target: &[u8],
    ) -> Decoded<()> {
        self.seek_for_prev_with(None, bytes, layout, order, target)
    }

    /// [`DataCursor::seek_for_prev`] with the key words that follow the block, if there are any.
    ///
    /// # Errors
    ///
    /// See [`DataCursor::first`].
    pub fn seek_for_prev_with(
        &mut self,
        words: Option<DataWords<'_>>,
        bytes: &[u8],
        layout: &BlockLayout,
        order: &KeyOrder,
        target: &[u8],
    ) -> Decoded<()> {
        self.seek_with(words, bytes, layout, order, target)?;
        if !self.valid() {
            return self.last_with(words, bytes, layout);
        }
        if key::compare(order, self.key(bytes), target) == Ordering::Greater {
            return self.prev_with(words, bytes, layout);
        }
        Ok(())
    }

    /// Moves to the first entry whose key is bytewise at or after `target`. For metaindex and properties
    /// blocks.
    ///
    /// # Errors
    ///
    /// See [`DataCursor::first`].
    pub fn seek_bytes(&mut self, bytes: &[u8], layout: &BlockLayout, target: &[u8]) -> Decoded<()> {
        self.stored = None;
        let compare = |key: &[u8]| key.cmp(target);
        with_coding!(layout, |coding| {
            self.position
                .seek::<_, 0>(coding, bytes, layout, compare, Some(target))
        })
    }

    /// [`DataCursor::seek`] for a point lookup, which may use the block's hash index.
    ///
    /// If the block has the user key of `target`, the cursor moves to its first entry at or after
    /// `target`. Otherwise it moves to a greater user key, and then no block has the key, or it
    /// becomes invalid, and then the next block may have it.
    ///
    /// # Errors
    ///
    /// See [`DataCursor::first`].
    #[inline]
    pub fn seek_point(
        &mut self,
        bytes: &[u8],
        layout: &BlockLayout,
        order: &KeyOrder,
        target: &[u8],
    ) -> Decoded<()> {
        if layout.is_hashed() && order.timestamp_size() == 0 {
            let restart = match hash_lookup(bytes, layout, key::user_key(target)) {
                HashHit::Restart(i) if i < layout.restarts => Some(i),
                // If the last interval ends before the key, it may still be the first key of the
                // next block.
                HashHit::Absent => Some(layout.restarts - 1),
                HashHit::Restart(_) | HashHit::Collision | HashHit::None => None,
            };
            if let Some(i) = restart {
                return self.seek_from_restart(bytes, layout, order, target, i);
            }
        }
        self.seek(bytes, layout, order, target)
    }

    /// Moves from restart point `i` to the first entry at or after `target`. Becomes invalid if there is
    /// none.
    fn seek_from_restart(
        &mut self,
        bytes: &[u8],
        layout: &BlockLayout,
        order: &KeyOrder,
        target: &[u8],
        i: u32,
    ) -> Decoded<()> {
        self.stored = None;
        let global = self.global;
        with_coding!(layout, |coding| {
            self.position.jump(coding, bytes, layout, i)?;
            self.position.run(coding, bytes, layout, |key| {
                compare(order, global, key, target)
            })?;
        });
        self.after_move(bytes);
        Ok(())
    }
}

/// A packed suffix with its sequence number replaced.
fn rewritten(suffix: [u8; key::SUFFIX_LEN], global: SequenceNumber) -> u64 {
    global.0 << 8 | u64::from_le_bytes(suffix) & 0xff
}

/// Compares a key of the block, with the sequence number `global` if there is one, to `target`.
fn compare(
    order: &KeyOrder,
    global: Option<SequenceNumber>,
    key: &[u8],
    target: &[u8],
) -> Ordering {
    let Some(global) = global else {
        return key::compare(order, key, target);
    };
    order
        .compare(key::user_key(key), key::user_key(target))
        .then_with(|| key::packed(target).cmp(&rewritten(key::packed(key).to_le_bytes(), global)))
}

/// The length of a timestamp, and of the sequence number and the kind after it.
const TIMESTAMPED_SUFFIX: usize = key::U64_TS + key::SUFFIX_LEN;

/// [`key::compare`] for the bytewise order with timestamps.
#[inline(always)]
fn compare_timestamped(key: &[u8], target: &[u8]) -> Ordering {
    match key::compare_timestamped(key::user_key(key), key::user_key(target)) {
        Ordering::Equal => key::packed(target).cmp(&key::packed(key)),
        unequal => unequal,
    }
}

/// [`key::compare`] for the bytewise order.
#[inline(always)]
fn compare_bytewise(key: &[u8], target: &[u8]) -> Ordering {
    match key::compare_bytewise(key::user_key(key), key::user_key(target)) {
        Ordering::Equal => key::packed(target).cmp(&key::packed(key)),
        unequal => unequal,
    }
}
