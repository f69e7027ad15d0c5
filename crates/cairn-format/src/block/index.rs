//! The cursor of index blocks, which map separators to block handles.
//!
//! ```text
//! plain   like a data block; value = varint64 offset, varint64 size
//! delta   varint32 shared | varint32 delta length | key delta | value
//!         value = varint64 offset, varint64 size           when shared = 0
//!                 varsigned64 (size - size before)          otherwise: the block directly follows
//!                                                           the previous one and its trailer
//! escaped like delta, but when shared is not 0
//!         value = varint64 (1 + zigzag (size - size before))
//!                 0, varint64 offset, varint64 size        for a block that lies somewhere else
//! either is followed by lps first internal key of the block, if the index has first keys
//! ```

use std::cmp::Ordering;
use std::ops::Range;

use cairn_types::{Decoded, KeyOrder};

use super::cursor::{Coding, Entry, Position};
use super::data::lengths;
use super::key_words::KeyWords;
use super::layout::{BlockKind, BlockLayout};
use crate::coding::{Input, decode_varint32, short_varint64, unzigzag};
use crate::key;
use crate::protection::EntryChecksum;
use crate::table::TRAILER_LEN;
use crate::table::handle::Handle;

/// The format of the entries of an index, according to the table properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexForm {
    /// True if keys are user keys rather than internal keys (`rocksdb.index.key.is.user.key`).
    pub user_keys: bool,
    /// True if handles are delta-encoded (`rocksdb.index.value.is.delta.encoded`).
    pub delta_values: bool,
    /// True if each handle is followed by the first key of its block (index type 3).
    pub first_keys: bool,
    /// True if delta-encoded handles may be escaped (format version 8).
    pub escaped: bool,
}

/// An index entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry<'a> {
    /// The separator: at or after every key of the block, and before every key of the next. An internal key
    /// or a user key, depending on the format.
    pub key: &'a [u8],
    /// The handle of the block.
    pub handle: Handle,
    /// The first internal key of the block, if the index has it.
    pub first_key: Option<&'a [u8]>,
}

/// The data that a cursor keeps for an entry: its handle, and the location of its first key.
#[derive(Clone, Copy, Default)]
pub(super) struct IndexValue {
    offset: u64,
    size: u64,
    first_at: u32,
    first_len: u32,
}

impl IndexValue {
    #[inline]
    pub(super) fn handle(&self) -> Handle {
        Handle {
            offset: self.offset,
            size: self.size,
        }
    }
}

/// Decodes a handle and, if the format has it, a first key at `at`, and returns the offset after them.
/// `before` is the handle that a delta is relative to.
#[inline]
fn value(
    bytes: &[u8],
    at: usize,
    before: Option<&IndexValue>,
    form: &IndexForm,
) -> Option<(IndexValue, usize)> {
    let mut input = Input::new(bytes.get(at..)?);
    let delta = match before {
        None => None,
        Some(_) if form.escaped => input.varint64().ok()?.checked_sub(1).map(unzigzag),
        Some(_) => Some(input.varsigned64().ok()?),
    };
    let (offset, size) = match before.zip(delta) {
        None => (input.varint64().ok()?, input.varint64().ok()?),
        Some((before, delta)) => (
            before
                .offset
                .checked_add(before.size)?
                .checked_add(TRAILER_LEN as u64)?,
            before.size.checked_add_signed(delta)?,
        ),
    };
    let mut value = IndexValue {
        offset,
        size,
        first_at: 0,
        first_len: 0,
    };
    if form.first_keys {
        value.first_len = input.lps().ok()?.len() as u32;
        value.first_at = (at + input.at()) as u32 - value.first_len;
    }
    Some((value, at + input.at()))
}

impl Coding for IndexForm {
    type Value = IndexValue;

    #[inline]
    fn entry(
        &self,
        bytes: &[u8],
        layout: &BlockLayout,
        at: usize,
        previous: &IndexValue,
    ) -> Option<Entry<IndexValue>> {
        if let Some(entry) = self.short_restart(bytes, layout, at) {
            return Some(entry);
        }
        let entries = bytes.get(..layout.entries_end as usize)?;
        let (shared, delta_len, value_len, delta_at) = self.lengths(entries, at)?;
        let value_at = delta_at.checked_add(delta_len as usize)?;
        let before = (self.delta_values && shared > 0).then_some(previous);
        let (value, mut next) = value(entries, value_at, before, self)?;
        if let Some(len) = value_len {
            let end = value_at.checked_add(len as usize)?;
            if next > end || end > entries.len() {
                return None;
            }
            next = end;
        }
        Some(Entry {
            shared: shared as usize,
            delta_at,
            delta_len: delta_len as usize,
            next,
            value,
        })
    }

    #[inline]
    fn whole_key<'a>(&self, bytes: &'a [u8], _: &BlockLayout, at: usize) -> Option<&'a [u8]> {
        let (shared, delta_len, _, delta_at) = self.lengths(bytes, at)?;
        let end = delta_at.checked_add(delta_len as usize)?;
        bytes.get(delta_at..end).filter(|_| shared == 0)
    }

    fn before_restart(&self, _: u32) -> IndexValue {
        IndexValue::default()
    }
}

impl IndexForm {
    /// Decodes the entry at a restart point of an index in the default format, with a key of less than 128
    /// bytes and a handle, followed by more data.
    #[inline]
    fn short_restart(
        &self,
        bytes: &[u8],
        layout: &BlockLayout,
        at: usize,
    ) -> Option<Entry<IndexValue>> {
        if !self.delta_values || self.first_keys {
            return None;
        }
        let entry = bytes.get(at..layout.entries_end as usize)?;
        let (&[0, delta_len @ ..0x80], rest) = entry.split_first_chunk()? else {
            return None;
        };
        let delta_len = usize::from(delta_len);
        let handle = rest.get(delta_len..)?;
        let (offset, a) = short_varint64(handle)?;
        let (size, b) = short_varint64(&handle[a..])?;
        Some(Entry {
            shared: 0,
            delta_at: at + 2,
            delta_len,
            next: at + 2 + delta_len + a + b,
            value: IndexValue {
                offset,
                size,
                first_at: 0,
                first_len: 0,
            },
        })
    }

    /// Shared bytes, delta length, value length if the entry has it, and the offset after them.
    #[inline]
    fn lengths(&self, bytes: &[u8], at: usize) -> Option<(u32, u32, Option<u32>, usize)> {
        if !self.delta_values {
            let (shared, delta, value, end) = lengths(bytes, at)?;
            return Some((shared, delta, Some(value), end));
        }
        let head = bytes.get(at..)?;
        if let Some(&[shared, delta]) = head.first_chunk::<2>()
            && shared | delta < 0x80
        {
            return Some((u32::from(shared), u32::from(delta), None, at + 2));
        }
        let (shared, a) = decode_varint32(head)?;
        let (delta, b) = decode_varint32(&head[a..])?;
        Some((shared, delta, None, at + a + b))
    }
}

/// A cursor over the entries of an index block. It owns its position and does not borrow the block.
///
/// Seek targets are internal keys, even if the index has user keys.
#[derive(Clone, Default)]
pub struct IndexCursor {
    form: IndexForm,
    position: Position<IndexValue>,
    /// The restart point of the cursor if it was positioned by key words; the position then has
    /// only the handle.
    by_words: Option<u32>,
}

impl IndexCursor {
    /// Creates an invalid cursor for blocks of this format.
    #[must_use]
    pub fn new(form: IndexForm) -> IndexCursor {
        IndexCursor {
            form,
            position: Position::default(),
            by_words: None,
        }
    }

    /// Makes the cursor invalid and sets the format of its blocks.
    #[inline]
    pub fn reset(&mut self, form: IndexForm) {
        self.form = form;
        self.clear();
    }

    /// The memory that the cursor keeps for later movements.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.position.memory_usage()
    }

    /// The format of the blocks.
    #[must_use]
    pub fn form(&self) -> IndexForm {
        self.form
    }

    /// True if the cursor is on an entry.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        self.by_words.is_some() || self.position.valid()
    }

    /// Makes the cursor invalid.
    #[inline]
    pub fn clear(&mut self) {
        self.by_words = None;
        self.position.clear();
    }

    /// The current separator, a user key or an internal key depending on the format.
    #[inline]
    #[must_use]
    pub fn key<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        match self.by_words {
            Some(i) => self.key_at(bytes, i),
            None => self.position.key(bytes),
        }
    }

    /// The key at restart point `i`, which was decoded before.
    #[inline(never)]
    fn key_at<'a>(&self, bytes: &'a [u8], i: u32) -> &'a [u8] {
        let Ok(layout) = BlockLayout::parse(bytes, BlockKind::Index) else {
            return &[];
        };
        let at = layout.restart(bytes, i) as usize;
        let key = self.form.whole_key(bytes, &layout, at);
        key.unwrap_or_default()
    }

    /// Decodes the complete current entry.
    #[inline]
    fn take_entry(&mut self, bytes: &[u8], layout: &BlockLayout) -> Decoded<()> {
        match self.by_words.take() {
            Some(i) => self.position.jump(&self.form, bytes, layout, i),
            None => Ok(()),
        }
    }

    /// The user key of the current separator.
    #[inline]
    #[must_use]
    pub fn user_key<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        let key = self.key(bytes);
        if self.form.user_keys {
            key
        } else {
            key::user_key(key)
        }
    }

    /// The handle of the current block.
    #[inline]
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.position.value.handle()
    }

    /// The first internal key of that block, if the index has it.
    #[inline]
    #[must_use]
    pub fn first_key<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let value = &self.position.value;
        let start = value.first_at as usize;
        bytes
            .get(start..start + value.first_len as usize)
            .filter(|_| self.form.first_keys)
    }

    /// The offset of the current entry; that of another one if the cursor was positioned by key words.
    #[must_use]
    pub fn at(&self) -> usize {
        self.position.at()
    }

    /// The checksum of the current entry.
    #[must_use]
    pub fn checksum(&self, bytes: &[u8]) -> EntryChecksum {
        let handle = self.handle();
        let packed = handle.offset.rotate_left(32) ^ handle.size;
        let first = self.first_key(bytes).unwrap_or_default();
        EntryChecksum::new(self.key(bytes), first).with_packed(packed)
    }

    /// The current entry.
    #[must_use]
    pub fn entry<'a>(&'a self, bytes: &'a [u8]) -> IndexEntry<'a> {
        IndexEntry {
            key: self.key(bytes),
            handle: self.handle(),
            first_key: self.first_key(bytes),
        }
    }

    /// Moves to the first entry.
    ///
    /// # Errors
    ///
    /// If the block is malformed there. The cursor is then invalid. This applies to all methods that move the
    /// cursor.
    pub fn first(&mut self, bytes: &[u8], layout: &BlockLayout) -> Decoded<()> {
        self.by_words = None;
        self.position.first(&self.form, bytes, layout)
    }

    /// Moves to the last entry.
    ///
    /// # Errors
    ///
    /// See [`IndexCursor::first`].
    pub fn last(&mut self, bytes: &[u8], layout: &BlockLayout) -> Decoded<()> {
        self.by_words = None;
        self.position.last(&self.form, bytes, layout)
    }

    /// Moves to the next entry. Becomes invalid at the end. Requires a valid cursor.
    ///
    /// # Errors
    ///
    /// See [`IndexCursor::first`].
    pub fn next(&mut self, bytes: &[u8], layout: &BlockLayout) -> Decoded<()> {
        self.take_entry(bytes, layout)?;
        self.position.step(&self.form, bytes, layout)
    }

    /// Moves to the previous entry. Becomes invalid at the start. Requires a valid cursor.
    ///
    /// # Errors
    ///
    /// See [`IndexCursor::first`].
    pub fn prev(&mut self, bytes: &[u8], layout: &BlockLayout) -> Decoded<()> {
        self.take_entry(bytes, layout)?;
        self.position.back(&self.form, bytes, layout)
    }

    /// Moves to the first entry whose separator is at or after `target`, an internal key: the
    /// separator of the only block that may have `target`. Becomes invalid if there is none.
    ///
    /// # Errors
    ///
    /// See [`IndexCursor::first`].
    #[inline]
    pub fn seek(
        &mut self,
        bytes: &[u8],
        layout: &BlockLayout,
        order: &KeyOrder,
        target: &[u8],
    ) -> Decoded<()> {
        self.seek_between(bytes, layout, order, target, 0..layout.restarts)
    }

    /// [`IndexCursor::seek`] with the key words of this block, which were built for `order`.
    ///
    /// # Errors
    ///
    /// See [`IndexCursor::first`].
    #[inline]
    pub fn seek_with(
        &mut self,
        words: &KeyWords,
        bytes: &[u8],
        layout: &BlockLayout,
        order: &KeyOrder,
        target: &[u8],
    ) -> Decoded<()> {
        let undecided = words.undecided(key::user_key(target));
        if let Some(i) = words.decided(&undecided) {
            self.clear();
            if self.move_by_words(words, i) {
                return Ok(());
            }
            return match i < layout.restarts {
                true => self.position.jump(&self.form, bytes, layout, i),
                false => Ok(()),
            };
        }
        self.seek_between(bytes, layout, order, target, undecided)
    }

    /// Moves to entry `i` if the key words have its handle; otherwise returns false and leaves the
    /// cursor unchanged.
    #[inline]
    pub fn move_by_words(&mut self, words: &KeyWords, i: u32) -> bool {
        let Some(Handle { offset, size }) = words.handle(i) else {
            return false;
        };
        self.position.forget_passed();
        self.position.clear();
        self.position.value = IndexValue {
            offset,
            size,
            ..IndexValue::default()
        };
        self.by_words = Some(i);
        true
    }

    /// The index of the current entry if the cursor was positioned by key words.
    /// [`IndexCursor::move_by_words`] returns there.
    #[inline]
    #[must_use]
    pub fn entry_by_words(&self) -> Option<u32> {
        self.by_words
    }

    /// The index of the next entry, or the previous one if `back`, if the cursor was positioned by key words.
    #[inline]
    #[must_use]
    pub fn neighbour_by_words(&self, back: bool) -> Option<u32> {
        match back {
            true => self.by_words?.checked_sub(1),
            false => self.by_words?.checked_add(1),
        }
    }

    #[inline]
    fn seek_between(
        &mut self,
        bytes: &[u8],
        layout: &BlockLayout,
        order: &KeyOrder,
        target: &[u8],
        undecided: Range<u32>,
    ) -> Decoded<()> {
        self.by_words = None;
        let IndexCursor { form, position, .. } = self;
        if form.user_keys {
            let user = key::user_key(target);
            if order.is_bytewise() {
                let compare = |key: &[u8]| key::compare_bytewise(key, user);
                let bytewise = Some(user);
                return position
                    .seek_between::<_, 0>(form, bytes, layout, undecided, compare, bytewise);
            }
            let compare = |key: &[u8]| key::compare_user(order, key, user);
            return position.seek_between::<_, 0>(form, bytes, layout, undecided, compare, None);
        }
        let compare = |key: &[u8]| key::compare(order, key, target);
        let bytewise = order.is_bytewise().then_some(target);
        position.seek_between::<_, { key::SUFFIX_LEN }>(
            form, bytes, layout, undecided, compare, bytewise,
        )
    }

    /// True if the current separator is before `target`, an internal key.
    #[must_use]
    pub fn is_before(&self, bytes: &[u8], order: &KeyOrder, target: &[u8]) -> bool {
        let key = self.key(bytes);
        let ordering = if self.form.user_keys {
            order.compare(key, key::user_key(target))
        } else {
            key::compare(order, key, target)
        };
        ordering == Ordering::Less
    }
}
