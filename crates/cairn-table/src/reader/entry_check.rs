//! Checks of the entries of a table against each other, its index and its properties.
//!
//! A block with a correct checksum can still be wrong if it was damaged before it was written. Reads trust that entries
//! are in order and in the block that the index names; a check of a whole table does not.

use std::cmp::Ordering;

use cairn_format::block::{BlockKind, BlockLayout, DataCursor};
use cairn_format::key;
use cairn_format::table::meta;
use cairn_memory::CacheRole;
use cairn_platform::Io;
use cairn_types::{Decoded, Malformed, Result};

use super::image::wrong_count;
use super::table::Table;

/// The check of a table, to which its blocks and separators are passed in the order of the index.
pub(super) struct EntryCheck<'t> {
    table: &'t Table,
    /// True if the order of keys is known.
    is_ordered: bool,
    /// The number of entries so far.
    found: u64,
    /// The key of the last entry; empty before the first.
    last: Vec<u8>,
    /// The greatest separator so far, which is before the next entry.
    separator: Option<Vec<u8>>,
}

impl<'t> EntryCheck<'t> {
    pub(super) fn new(table: &'t Table, is_ordered: bool) -> EntryCheck<'t> {
        EntryCheck {
            table,
            is_ordered,
            found: 0,
            last: Vec::new(),
            separator: None,
        }
    }

    /// Verifies the entries of the next data block.
    pub(super) fn verify_block(&mut self, bytes: &[u8]) -> Decoded<()> {
        let layout = BlockLayout::parse(bytes, BlockKind::Data)?;
        let mut cursor = DataCursor::new().with_global_seqno(self.table.global_seqno);
        cursor.first(bytes, &layout)?;
        while cursor.valid() {
            self.verify_entry(cursor.key(bytes))
                .map_err(|error| error.shifted(cursor.at()))?;
            cursor.next(bytes, &layout)?;
        }
        Ok(())
    }

    fn verify_entry(&mut self, key: &[u8]) -> Decoded<()> {
        let kind = key::parse(key)?.kind;
        if !kind.is_point() {
            return Err(Malformed::at(
                0,
                format!(
                    "entry has kind {:#04x}, which is not a point entry's",
                    kind as u8
                ),
            ));
        }
        self.found += 1;
        if !self.is_ordered {
            return Ok(());
        }
        let order = &self.table.order;
        if !self.last.is_empty() && key::compare(order, &self.last, key).is_ge() {
            return Err(Malformed::at(0, "keys are not in order"));
        }
        if let Some(separator) = &self.separator
            && self.compare(key, separator).is_le()
            && !self.is_tie(key, separator)
        {
            return Err(Malformed::at(
                0,
                "key is not after the separator in the index that precedes its block",
            ));
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }

    /// Verifies the separator after the last entry.
    pub(super) fn verify_separator(&mut self, separator: &[u8]) -> Decoded<()> {
        if !self.is_ordered {
            return Ok(());
        }
        if !self.last.is_empty() && self.compare(&self.last, separator).is_gt() {
            return Err(Malformed::at(
                0,
                "separator in the index is before the last key of its block",
            ));
        }
        // The separators of an index of two levels are those of a block, and then that of its partition.
        let user = self.user_key_of(separator);
        if self.separator.as_ref().is_none_or(|greatest| {
            let greatest = self.user_key_of(greatest);
            key::compare_user(&self.table.order, greatest, user).is_le()
        }) {
            self.separator = Some(separator.to_vec());
        }
        Ok(())
    }

    /// The user key of a separator.
    fn user_key_of<'k>(&self, separator: &'k [u8]) -> &'k [u8] {
        match self.table.index.form.user_keys {
            true => separator,
            false => key::user_key(separator),
        }
    }

    /// True if the sequence numbers of separators are compared with those of entries: both have them, and they are the
    /// stored ones.
    fn compares_seqs(&self) -> bool {
        !self.table.index.form.user_keys && self.table.global_seqno.is_none()
    }

    /// Compares the key of an entry with a separator.
    fn compare(&self, key: &[u8], separator: &[u8]) -> Ordering {
        let order = &self.table.order;
        match self.compares_seqs() {
            true => key::compare(order, key, separator),
            false => key::compare_user(order, key::user_key(key), self.user_key_of(separator)),
        }
    }

    /// True if the order of an entry and a separator is unknown, because the entry has another sequence number than the
    /// stored one.
    fn is_tie(&self, key: &[u8], separator: &[u8]) -> bool {
        !self.table.index.form.user_keys
            && self.table.global_seqno.is_some()
            && self.compare(key, separator).is_eq()
    }

    /// Compares the number of entries with the properties, unless they do not state it.
    pub(super) fn finish(self, io: &Io) -> Result<()> {
        let properties = &self.table.properties;
        let (entries, tombstones) = (properties.num_entries, properties.num_range_deletions);
        let expected = entries.saturating_sub(tombstones);
        if entries == 0 || self.found == expected {
            return Ok(());
        }
        // The first versions with range tombstones count them among the entries, but not on their own.
        if tombstones == 0 && self.found + self.tombstones(io)? == expected {
            return Ok(());
        }
        Err(wrong_count(self.table.file.path(), expected, self.found))
    }

    /// The number of range tombstones in the table.
    fn tombstones(&self, io: &Io) -> Result<u64> {
        let Some(handle) = self.table.parts.find(meta::RANGE_DEL) else {
            return Ok(0);
        };
        let bytes = self.table.verify_block(handle, CacheRole::Other, io)?;
        let count = || {
            let layout = BlockLayout::parse(&bytes, BlockKind::Meta)?;
            let (mut cursor, mut count) = (DataCursor::new(), 0);
            cursor.first(&bytes, &layout)?;
            while cursor.valid() {
                count += 1;
                cursor.next(&bytes, &layout)?;
            }
            Ok(count)
        };
        count().map_err(|error| self.table.bad(error, handle.offset))
    }
}
