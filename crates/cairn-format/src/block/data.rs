//! The cursor in data blocks, and in every other block of keys and values.

use std::cmp::Ordering;
use std::ops::Range;

use cairn_types::{Decoded, KeyOrder, SequenceNumber};

use super::cursor::{Coding, Entry, Position};
use super::hash_index::{HashHit, hash_lookup};
use super::key_words::DataWords;
use super::layout::BlockLayout;
use crate::coding::decode_varint32;
use crate::key;

/// Where a value lies. `restart` counts the restarts passed; it matters, and is kept up, only
/// where values lie apart from keys.
#[derive(Clone, Copy, Default)]
pub(super) struct ValuePlace {
    start: u32,
    end: u32,
    restart: u32,
}

impl ValuePlace {
    /// True if the value at `next` lies right behind this one.
    pub(super) fn is_followed_by(&self, next: &ValuePlace) -> bool {
        self.end == next.start
    }
}

/// The three lengths at the head of an entry, and where they end.
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

/// Entries of keys and values, each value behind its key.
pub(super) struct Together;

impl Coding for Together {
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

/// Entries whose values lie in a section of their own: an entry at a restart says where.
pub(super) struct Apart;

impl Coding for Apart {
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

/// Moves with the coding that the layout asks for.
macro_rules! with_coding {
    ($layout:expr, |$coding:ident| $move:expr) => {
        if $layout.separated {
            let $coding = &Apart;
            $move
        } else {
            let $coding = &Together;
            $move
        }
    };
}

/// A cursor over the entries of a data block; it owns its position and borrows no bytes.
///
/// Keys are internal keys. Blocks of other keys (metaindex, properties) are walked with `first`,
/// `next`, `last` and `prev`, or sought with [`DataCursor::seek_bytes`].
#[derive(Default)]
pub struct DataCursor {
    pub(super) position: Position<ValuePlace>,
    /// The sequence number that replaces that of every key, if any.
    global: Option<SequenceNumber>,
    /// The suffix of the current key as the block has it, while the buffer has another.
    stored: Option<[u8; key::SUFFIX_LEN]>,
}

impl DataCursor {
    /// A cursor that stands nowhere.
    #[must_use]
    pub fn new() -> DataCursor {
        DataCursor::default()
    }

    /// The same cursor, for a file whose entries all have the sequence number `global`.
    #[must_use]
    pub fn with_global_seqno(mut self, global: Option<SequenceNumber>) -> DataCursor {
        self.global = global;
        self
    }

    /// Bytes of memory that the cursor keeps for its next movements.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.position.memory_usage()
    }

    /// True if the cursor stands on an entry.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        self.position.valid()
    }

    /// True if keys of a block of this layout are shown as they are, each before its value.
    pub(super) fn is_plain(&self, layout: &BlockLayout) -> bool {
        self.global.is_none() && !layout.separated
    }

    /// Leaves the cursor standing nowhere.
    pub fn clear(&mut self) {
        self.stored = None;
        self.position.clear();
    }

    /// The key of the entry on which the cursor stands, from `bytes` or from the cursor.
    #[inline]
    #[must_use]
    pub fn key<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        self.position.key(bytes)
    }

    /// The key of the entry before the one on which the cursor stands, if it is at hand; its sequence
    /// number may be that of the block where the cursor shows another.
    #[inline]
    #[must_use]
    pub fn key_before<'a>(&'a self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        self.position.key_before(bytes)
    }

    /// The length of the entry's key.
    #[inline]
    #[must_use]
    pub fn key_len(&self) -> usize {
        self.position.key_len()
    }

    /// Where in the block the value of the entry lies.
    #[inline]
    #[must_use]
    pub fn value_range(&self) -> Range<usize> {
        self.position.value.start as usize..self.position.value.end as usize
    }

    /// The value of the entry; empty when there is none.
    #[inline]
    #[must_use]
    pub fn value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.value_range()).unwrap_or_default()
    }

    /// Gives the key the suffix that the block has, so that the next key can be built on it.
    #[cold]
    fn restore(&mut self, bytes: &[u8]) {
        if let Some(suffix) = self.stored.take()
            && let Some(tail) = self.position.key_tail_mut(bytes)
        {
            *tail = suffix;
        }
    }

    /// Gives the key the sequence number of the whole file.
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

    /// Goes to the first entry.
    ///
    /// # Errors
    ///
    /// When the block is malformed there; the cursor then stands nowhere. This and the offset in
    /// the block hold for every method that moves.
    pub fn first(&mut self, bytes: &[u8], layout: &BlockLayout) -> Decoded<()> {
        self.stored = None;
        with_coding!(layout, |coding| self
            .position
            .first(coding, bytes, layout)?);
        self.after_move(bytes);
        Ok(())
    }

    /// Goes to the last entry.
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

    /// Goes to the following entry, or nowhere at the end. Only while the cursor is valid.
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

    /// Goes to the entry before, or nowhere at the start. Only while the cursor is valid.
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

    /// [`DataCursor::last`] with the words that lie behind the block, if there are any.
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
            && self.position.last_by_words(&Together, bytes, layout, words)
        {
            self.stored = None;
            return Ok(());
        }
        self.last(bytes, layout)
    }

    /// [`DataCursor::prev`] with the words that lie behind the block, if there are any.
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
                self.position.back_by_words(&Together, bytes, layout, words)
            }
            _ => self.prev(bytes, layout),
        }
    }

    /// True if the entry is seen to have another user key than the one before it: by the words that lie
    /// behind the block, or by that key if it is at hand. User keys are the same if `same` says so.
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

    /// Where the entry lies, which has its value behind its key.
    #[inline]
    #[must_use]
    pub fn entry_range(&self) -> Range<usize> {
        self.position.at()..self.value_range().end
    }

    /// Goes to the first entry at or after the internal key `target`, or nowhere.
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
            return self.seek_slowly(bytes, layout, order, target);
        }
        self.stored = None;
        let compare = |key: &[u8]| compare_bytewise(key, target);
        self.position.seek::<_, { key::SUFFIX_LEN }>(
            &Together,
            bytes,
            layout,
            compare,
            Some(target),
        )
    }

    /// [`DataCursor::seek`] with the words that lie behind the block, if there are any.
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

    /// [`DataCursor::seek_point`] with the words that lie behind the block, if there are any.
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

    /// Seeks by words alone; `false` if there are none or that cannot be done.
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
        if self.global.is_some() || layout.separated || !order.is_bytewise() {
            return Ok(false);
        }
        self.stored = None;
        let compare = |key: &[u8]| compare_bytewise(key, target);
        let sought = (compare, key::user_key(target));
        self.position
            .seek_by_words(&Together, bytes, layout, &words, sought)
    }

    #[inline(never)]
    fn seek_slowly(
        &mut self,
        bytes: &[u8],
        layout: &BlockLayout,
        order: &KeyOrder,
        target: &[u8],
    ) -> Decoded<()> {
        self.stored = None;
        let global = self.global;
        let compare = |key: &[u8]| compare(order, global, key, target);
        let bytewise = (global.is_none() && order.is_bytewise()).then_some(target);
        with_coding!(layout, |coding| {
            self.position
                .seek::<_, { key::SUFFIX_LEN }>(coding, bytes, layout, compare, bytewise)?;
        });
        self.after_move(bytes);
        Ok(())
    }

    /// Goes to the last entry at or before the internal key `target`, or nowhere.
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

    /// [`DataCursor::seek_for_prev`] with the words that lie behind the block, if there are any.
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

    /// Goes to the first entry whose key, taken as plain bytes, is at or after `target`: for
    /// metaindex and properties.
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
    /// When the user key of `target` is in the block, the cursor stands on its first entry at or
    /// after `target`. Otherwise it stands on some greater user key, and the key is in no block;
    /// or nowhere, and the key may be in the next block.
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
                // It may still be the first key of the next block: that is so when the last
                // interval ends before it.
                HashHit::Absent => Some(layout.restarts - 1),
                HashHit::Restart(_) | HashHit::Collision | HashHit::None => None,
            };
            if let Some(i) = restart {
                return self.seek_from_restart(bytes, layout, order, target, i);
            }
        }
        self.seek(bytes, layout, order, target)
    }

    /// Goes from restart `i` on to the first entry at or after `target`, or nowhere.
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

/// A packed suffix with another sequence number.
fn rewritten(suffix: [u8; key::SUFFIX_LEN], global: SequenceNumber) -> u64 {
    global.0 << 8 | u64::from_le_bytes(suffix) & 0xff
}

/// How a key of the block, under the sequence number `global` if there is one, stands to `target`.
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

/// [`key::compare`] for the bytewise order.
#[inline(always)]
fn compare_bytewise(key: &[u8], target: &[u8]) -> Ordering {
    match key::compare_bytewise(key::user_key(key), key::user_key(target)) {
        Ordering::Equal => key::packed(target).cmp(&key::packed(key)),
        unequal => unequal,
    }
}
