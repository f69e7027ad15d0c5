//! The row cache: the entries that single tables have for single keys.
//!
//! A *row* holds the entries of a key that a point lookup visits in one table, newest first, down to the first
//! that is no merge operand. A later lookup takes the row instead of searching filter, index and block.
//!
//! A row has entries as stored, not results, so that it is valid for every read that sees the same entries:
//!
//! - Each entry has its sequence number. Range tombstones hide entries of a row as they hide those of a table.
//!   The tombstones of the table itself are looked up in the open table each time and are not part of a row.
//! - A row for all reads (`ALL`) is kept by reads that see the whole table: those at the largest sequence
//!   number of the file or later. A read at an older snapshot has rows of its own, for its sequence number.
//! - A lookup that ends at a hidden merge operand has not visited all entries that other reads may need, and inserts
//!   no row.
//! - Merge operands, references to blobs, entities and TTL timestamps are kept as stored.
//! - A table and its global sequence number identify a row. Tables are never changed, so rows never expire;
//!   those of deleted files are evicted in time.
//!
//! Keys that a table does not have get no row, as in RocksDB. The position in the cache is a hash; a row
//! begins with its table, sequence number and key, which are compared before it is used:
//!
//! ```text
//! size  content
//!   16  file id
//!    8  global sequence number plus 1, 0 for none
//!    8  sequence number of the read, or ALL
//!    v  length of the key, and the key
//!       then, for each entry:
//!    1  kind
//!    v  sequence number
//!    v  length of the value, and the value
//! ```

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use cairn_format::coding::{Input, put_fixed64, put_lps, put_varint64};
use cairn_format::hash::xxh3_128;
use cairn_memory::secondary::CacheTier;
use cairn_memory::{BlockCache, CacheKey, CachePriority, CacheRole};
use cairn_platform::{Allocation, Buffer};
use cairn_table::Table;
use cairn_types::{Decoded, Error, Result, SequenceNumber, ValueKind};

use crate::versions::Stored;

/// The row cache of a family.
#[derive(Clone, Debug)]
pub struct RowCache {
    /// The cache, possibly shared with other families, databases, and blocks.
    pub cache: Arc<BlockCache>,
    /// A random number, so that the position of a row in the cache cannot be chosen by the choice of its key.
    pub salt: u64,
}

/// The sequence number of rows for all reads that see the whole table.
const ALL: u64 = u64::MAX;

/// Factors that spread sequence numbers. Odd, so that different numbers have different products.
const SPREAD: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03];

/// The identity of a row without its key.
#[derive(Clone, Copy)]
struct Place {
    file: [u64; 2],
    global: u64,
    read: u64,
}

impl Place {
    /// The place of the rows of `table` for reads at `seq`. `largest` is the largest sequence number of the file.
    fn new(table: &Table, largest: SequenceNumber, seq: SequenceNumber) -> Place {
        Place {
            file: table.cache_id(),
            global: table.global_seqno().map_or(0, |seq| seq.0.wrapping_add(1)),
            read: if seq < largest { seq.0 } else { ALL },
        }
    }

    fn encode(&self, user_key: &[u8]) -> Vec<u8> {
        let mut row = Vec::with_capacity(user_key.len() + 128);
        for number in [self.file[0], self.file[1], self.global, self.read] {
            put_fixed64(&mut row, number);
        }
        put_lps(&mut row, user_key);
        row
    }

    /// Returns the position of the entries of `row` if it is that of `user_key` at this place.
    fn entries(&self, row: &[u8], user_key: &[u8]) -> Option<usize> {
        let mut input = Input::new(row);
        for number in [self.file[0], self.file[1], self.global, self.read] {
            if input.fixed64().ok()? != number {
                return None;
            }
        }
        (input.lps().ok()? == user_key).then_some(input.at())
    }
}

impl RowCache {
    fn key(&self, place: &Place, user_key: &[u8]) -> CacheKey {
        let (high, low) = xxh3_128(user_key, self.salt);
        CacheKey {
            high: high ^ place.file[0] ^ place.global.wrapping_mul(SPREAD[0]),
            low: low ^ place.file[1] ^ place.read.wrapping_mul(SPREAD[1]),
        }
    }

    /// The position of the row of `user_key` in the cache.
    #[cfg(test)]
    pub(crate) fn position(
        &self,
        table: &Table,
        largest: SequenceNumber,
        seq: SequenceNumber,
        user_key: &[u8],
    ) -> CacheKey {
        self.key(&Place::new(table, largest, seq), user_key)
    }

    /// Looks up the row of `user_key` in `table` for a read at `seq`. `largest` is the largest sequence number
    /// of the file.
    pub(crate) fn lookup(
        &self,
        table: &Table,
        largest: SequenceNumber,
        seq: SequenceNumber,
        user_key: &[u8],
    ) -> Lookup {
        let place = Place::new(table, largest, seq);
        let key = self.key(&place, user_key);
        let found = self.cache.lookup(&key, CacheRole::Other);
        let row = found.and_then(|buffer| {
            let at = place.entries(&buffer, user_key)?;
            Some(Row { buffer, at })
        });
        match row {
            Some(row) => Lookup::Hit(row),
            None => Lookup::Miss(Box::new(NewRow::new(key, place.encode(user_key)))),
        }
    }

    /// Inserts a row if it has entries and is complete.
    pub(crate) fn insert(&self, row: NewRow) {
        if row.bytes.len() > row.header && !row.is_cut && !row.is_too_long {
            let allocation = Allocation::of_kind(self.cache.options().memory);
            let bytes = Buffer::copy_of(&row.bytes, allocation);
            let (role, priority) = (CacheRole::Other, CachePriority::Low);
            let lowest = CacheTier::Volatile;
            self.cache
                .insert_down_to(row.key, bytes, role, priority, lowest);
        }
    }
}

/// The result of a lookup.
pub(crate) enum Lookup {
    /// The row.
    Hit(Row),
    /// A row to collect.
    Miss(Box<NewRow>),
}

/// A row found in the cache.
pub(crate) struct Row {
    buffer: Buffer,
    /// The position of the next entry.
    at: usize,
}

/// An entry of a row.
pub(crate) struct RowEntry {
    pub(crate) seq: SequenceNumber,
    pub(crate) kind: ValueKind,
    /// The range of the value in the row.
    range: Range<usize>,
}

impl Row {
    /// Returns the next entry, from the newest to the oldest.
    ///
    /// # Errors
    ///
    /// `Corruption` if the row is damaged.
    pub(crate) fn next(&mut self) -> Result<Option<RowEntry>> {
        let mut input = Input::new(&self.buffer[self.at..]);
        if input.is_empty() {
            return Ok(None);
        }
        let (kind, seq, len) = decode(&mut input).map_err(|_| damaged())?;
        let kind = ValueKind::from_u8(kind).ok_or_else(damaged)?;
        self.at += input.at();
        Ok(Some(RowEntry {
            seq: SequenceNumber(seq),
            kind,
            range: self.at - len..self.at,
        }))
    }

    /// Returns the place of the value of `entry` in the row.
    pub(crate) fn stored(&self, entry: &RowEntry) -> Stored<'_> {
        Stored::Block(&self.buffer, entry.range.clone())
    }
}

/// Decodes the next entry: kind, sequence number, and the length of the value, which ends there.
fn decode(input: &mut Input<'_>) -> Decoded<(u8, u64, usize)> {
    Ok((input.u8()?, input.varint64()?, input.lps()?.len()))
}

#[cold]
fn damaged() -> Error {
    Error::corruption("a row of the row cache cannot be decoded")
}

/// A row that a lookup collects while it searches a table.
pub(crate) struct NewRow {
    key: CacheKey,
    bytes: Vec<u8>,
    /// The size of what precedes the entries.
    header: usize,
    /// True if older entries may follow that were not visited.
    is_cut: bool,
    /// True if the row does not fit into a buffer. It is not collected any further.
    is_too_long: bool,
}

/// The maximum length of an entry in a row without its value: kind, sequence number, length of the value.
const ENTRY_HEADER_LEN: usize = 1 + 10 + 5;

/// True if a row of `len` bytes has room for an entry with a value of `value_len` bytes.
fn has_room(len: usize, value_len: usize) -> bool {
    len.saturating_add(ENTRY_HEADER_LEN)
        .saturating_add(value_len)
        <= Buffer::MAX_LEN
}

impl NewRow {
    fn new(key: CacheKey, header: Vec<u8>) -> NewRow {
        NewRow {
            key,
            header: header.len(),
            bytes: header,
            is_cut: false,
            is_too_long: false,
        }
    }

    /// Appends an entry that the lookup has visited; `then` is `Break` if the lookup ended with it.
    pub(crate) fn add(
        &mut self,
        seq: SequenceNumber,
        kind: ValueKind,
        value: &[u8],
        then: ControlFlow<()>,
    ) {
        self.is_too_long |= !has_room(self.bytes.len(), value.len());
        if self.is_too_long {
            self.bytes = Vec::new();
            return;
        }
        self.bytes.push(kind as u8);
        put_varint64(&mut self.bytes, seq.0);
        put_lps(&mut self.bytes, value);
        self.is_cut = then.is_break() && kind == ValueKind::Merge;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_does_not_fit_into_a_buffer_is_not_collected() {
        assert!(has_room(100, Buffer::MAX_LEN - 100 - ENTRY_HEADER_LEN));
        assert!(!has_room(100, Buffer::MAX_LEN - 100));
        assert!(!has_room(usize::MAX, usize::MAX));
        let mut row = NewRow::new(CacheKey { high: 0, low: 0 }, vec![0; 40]);
        row.is_too_long = true;
        let merge = ValueKind::Merge;
        row.add(
            SequenceNumber(7),
            merge,
            b"operand",
            ControlFlow::Continue(()),
        );
        assert!(row.is_too_long && row.bytes.is_empty());
    }
}
