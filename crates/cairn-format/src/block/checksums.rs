//! Checksums of the entries of a block in memory.
//!
//! ```text
//! the first n bytes of the checksum of each entry | fixed32 offset of each entry | u8 n | ff ff
//! ```
//!
//! They are computed when a block is loaded, kept as its tail in memory, and verified when a cursor comes to an entry. A
//! tail of [`DataWords`](super::DataWords) never ends with `ff ff`.

use cairn_types::{Decoded, Malformed};

use super::data::DataCursor;
use super::index::{IndexCursor, IndexForm};
use super::key_words::NOT_WORDS;
use super::layout::BlockLayout;
use crate::protection::{EntryChecksum, MAX_CHECKSUM_LEN};

const OFFSET_LEN: usize = 4;

/// The checksums of a block, from its tail.
#[derive(Clone, Copy, Debug)]
pub struct BlockChecksums<'a> {
    len: usize,
    sums: &'a [u8],
    offsets: &'a [[u8; OFFSET_LEN]],
}

/// Collects the checksums of entries.
struct Encoder {
    len: usize,
    sums: Vec<u8>,
    offsets: Vec<u8>,
}

impl Encoder {
    fn new(len: u8) -> Encoder {
        debug_assert!((1..=MAX_CHECKSUM_LEN).contains(&usize::from(len)));
        Encoder {
            len: len.into(),
            sums: Vec::new(),
            offsets: Vec::new(),
        }
    }

    fn add(&mut self, at: usize, sum: EntryChecksum) {
        // Offsets in blocks have 32 bits.
        self.offsets.extend_from_slice(&(at as u32).to_le_bytes());
        self.sums.extend_from_slice(&sum.bytes()[..self.len]);
    }

    fn finish(mut self) -> Vec<u8> {
        self.sums.append(&mut self.offsets);
        // A length of at most eight bytes.
        self.sums.push(self.len as u8);
        self.sums.extend_from_slice(&NOT_WORDS);
        self.sums
    }
}

impl<'a> BlockChecksums<'a> {
    /// Computes checksums of `len` bytes for the entries of a data block, for [`BlockChecksums::parse`]. If the block is
    /// damaged, they end there, where no cursor comes further.
    ///
    /// # Panics
    ///
    /// In debug builds, if checksums cannot have `len` bytes.
    #[must_use]
    pub fn of_data(bytes: &[u8], layout: &BlockLayout, len: u8) -> Vec<u8> {
        let (mut found, mut cursor) = (Encoder::new(len), DataCursor::new());
        let mut moved = cursor.first(bytes, layout);
        while moved.is_ok() && cursor.valid() {
            found.add(cursor.at(), cursor.checksum(bytes));
            moved = cursor.next(bytes, layout);
        }
        found.finish()
    }

    /// [`BlockChecksums::of_data`] for an index block.
    ///
    /// # Panics
    ///
    /// In debug builds, if checksums cannot have `len` bytes.
    #[must_use]
    pub fn of_index(bytes: &[u8], layout: &BlockLayout, form: IndexForm, len: u8) -> Vec<u8> {
        let (mut found, mut cursor) = (Encoder::new(len), IndexCursor::new(form));
        let mut moved = cursor.first(bytes, layout);
        while moved.is_ok() && cursor.valid() {
            found.add(cursor.at(), cursor.checksum(bytes));
            moved = cursor.next(bytes, layout);
        }
        found.finish()
    }

    /// The checksums in `tail`, if it has any.
    #[must_use]
    pub fn parse(tail: &'a [u8]) -> Option<BlockChecksums<'a>> {
        let rest = tail.strip_suffix(&NOT_WORDS)?;
        let (len, rest) = rest.split_last()?;
        let len = usize::from(*len);
        let count = rest.len() / (len + OFFSET_LEN);
        let (sums, offsets) = rest.split_at_checked(count * len)?;
        Some(BlockChecksums {
            len,
            sums,
            offsets: offsets.as_chunks().0,
        })
    }

    /// Compares the checksum of the entry at offset `at` with `sum`.
    ///
    /// # Errors
    ///
    /// If they differ, or if no entry began there when the block was loaded.
    pub fn verify(&self, at: usize, sum: EntryChecksum) -> Decoded<()> {
        let found = self
            .offsets
            .binary_search_by_key(&(at as u32), |offset| u32::from_le_bytes(*offset));
        let kept = found
            .ok()
            .and_then(|nth| self.sums.chunks_exact(self.len).nth(nth));
        match kept == sum.bytes().get(..self.len) {
            true => Ok(()),
            false => Err(Malformed::at(
                at,
                "an entry of a block does not match the checksum that it had when the block was loaded: memory is damaged",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{BlockBuilder, BlockKind, BlockOptions, DataWords};
    use super::*;
    use crate::key;

    fn block(entries: usize, restart_interval: usize) -> Vec<u8> {
        let options = BlockOptions {
            restart_interval,
            ..BlockOptions::default()
        };
        let mut builder = BlockBuilder::new(options);
        for nth in 0..entries {
            let mut key = format!("key{nth:04}").into_bytes();
            key.extend_from_slice(&(((nth as u64 + 1) << 8) | 1).to_le_bytes());
            builder.add(&key, &vec![b'v'; nth % 30]);
        }
        builder.finish().to_vec()
    }

    fn walk(bytes: &[u8], sums: &BlockChecksums<'_>, back: bool) -> Decoded<usize> {
        let layout = BlockLayout::parse(bytes, BlockKind::Data)?;
        let (mut cursor, mut seen) = (DataCursor::new(), 0);
        match back {
            true => cursor.last(bytes, &layout)?,
            false => cursor.first(bytes, &layout)?,
        }
        while cursor.valid() {
            sums.verify(cursor.at(), cursor.checksum(bytes))?;
            seen += 1;
            match back {
                true => cursor.prev(bytes, &layout)?,
                false => cursor.next(bytes, &layout)?,
            }
        }
        Ok(seen)
    }

    #[test]
    fn every_entry_has_the_checksum_that_it_was_loaded_with() {
        for len in [1, 2, 4, 8] {
            for entries in [0, 1, 16, 100] {
                let bytes = block(entries, 16);
                let layout = BlockLayout::parse(&bytes, BlockKind::Data).unwrap();
                let tail = BlockChecksums::of_data(&bytes, &layout, len);
                let sums = BlockChecksums::parse(&tail).unwrap();
                assert!(DataWords::parse(&tail).is_none());
                for back in [false, true] {
                    assert_eq!(walk(&bytes, &sums, back).unwrap(), entries);
                }
                let words = DataWords::encode(&bytes, &layout, &cairn_types::KeyOrder::Bytewise);
                assert!(BlockChecksums::parse(&words).is_none());
            }
        }
    }

    /// The global sequence number of a file is not known when its blocks are loaded.
    #[test]
    fn a_global_sequence_number_does_not_count() {
        let bytes = block(20, 4);
        let layout = BlockLayout::parse(&bytes, BlockKind::Data).unwrap();
        let tail = BlockChecksums::of_data(&bytes, &layout, 8);
        let sums = BlockChecksums::parse(&tail).unwrap();
        let global = cairn_types::SequenceNumber(77);
        let mut cursor = DataCursor::new().with_global_seqno(Some(global));
        cursor.first(&bytes, &layout).unwrap();
        while cursor.valid() {
            assert_eq!(key::sequence(cursor.key(&bytes)), global);
            sums.verify(cursor.at(), cursor.checksum(&bytes)).unwrap();
            cursor.next(&bytes, &layout).unwrap();
        }
    }

    proptest! {
        /// Damage is an error of the check or of the decoder, and never a wrong entry.
        #[test]
        fn a_damaged_entry_is_an_error(
            entries in 1_usize..60,
            interval in 1_usize..20,
            at in any::<prop::sample::Index>(),
            bit in 0_u32..8,
        ) {
            let mut bytes = block(entries, interval);
            let layout = BlockLayout::parse(&bytes, BlockKind::Data).unwrap();
            let tail = BlockChecksums::of_data(&bytes, &layout, 8);
            let sums = BlockChecksums::parse(&tail).unwrap();
            let end = layout.entries_end;
            bytes[at.index(end as usize)] ^= 1 << bit;
            let layout_after = BlockLayout::parse(&bytes, BlockKind::Data).unwrap();
            prop_assert_eq!(layout_after.entries_end, end);
            prop_assert!(walk(&bytes, &sums, false).is_err());
        }

        #[test]
        fn any_tail_is_parsed_and_verified_without_a_panic(
            tail in prop::collection::vec(any::<u8>(), 0..60),
            marked: bool,
            at: u16,
        ) {
            let mut tail = tail;
            if marked {
                tail.extend_from_slice(&NOT_WORDS);
            }
            if let Some(sums) = BlockChecksums::parse(&tail) {
                let _verified = sums.verify(at.into(), EntryChecksum::new(b"k", b"v"));
            }
        }
    }
}
