//! An estimate of read amplification (`read_amp_bytes_per_bit`): the part of the data blocks read that is used.
//!
//! A data block has a bitmap with a bit for every `read_amp_bytes_per_bit` bytes, rounded down to a power of two. An entry
//! whose value is read sets the bit of its first granule, and counts as useful with all of its granules if the bit was not
//! set. Granules begin at a different place in each block, so that lengths of entries which divide a granule do not distort
//! the estimate. All as in RocksDB, except that the entry at which a lookup of an absent key ends is not useful.
//!
//! Cost: a read of a value takes the mutex of the bitmaps of the table. They take a bit per granule of the blocks that were
//! read and are still cached; those of others are dropped whenever their number has doubled. They are not charged to the
//! block cache. Without the option, a get tests a pointer, and an iterator a flag.

use std::collections::HashMap;
use std::ops::Range;

use cairn_format::block::{BlockKind, BlockLayout, DataCursor};
use cairn_format::hash::hash64;
use cairn_format::table::Handle;
use cairn_observe::statistics::{Meter, Ticker};
use cairn_platform::Buffer;
use cairn_platform::sync::Mutex;

/// The number of bitmaps from which on those of blocks that are not cached are dropped.
const FEW: usize = 64;

/// The bitmaps of a table.
pub(crate) struct ReadAmp {
    /// The binary logarithm of the bytes of a granule.
    shift: u32,
    marked: Mutex<Marked>,
    meter: Meter,
}

struct Marked {
    /// Bitmaps by block.
    blocks: HashMap<Handle, Bitmap>,
    /// The number of blocks at which those that are not cached are dropped.
    limit: usize,
}

/// The granules of a block that were used.
struct Bitmap {
    /// The distance of the start of the block from that of the first granule.
    skew: usize,
    words: Box<[u64]>,
}

impl Bitmap {
    fn new(handle: Handle, len: usize, shift: u32) -> Bitmap {
        let skew = hash64(&handle.offset.to_le_bytes()) as usize & ((1 << shift) - 1);
        let granules = ((len + skew) >> shift) + 1;
        Bitmap {
            skew,
            words: vec![0; granules.div_ceil(64)].into(),
        }
    }

    /// Marks the entry at `range` as used. Returns the bytes of its granules, unless it was used before.
    fn mark(&mut self, range: &Range<usize>, shift: u32) -> usize {
        // A granule belongs to the entry that contains its first byte.
        let granule = |at: usize| (at + self.skew).div_ceil(1 << shift);
        let (first, end) = (granule(range.start), granule(range.end));
        if first >= end {
            return 0;
        }
        let (word, bit) = (first / 64, 1 << (first % 64));
        match self.words.get_mut(word) {
            Some(word) if *word & bit == 0 => {
                *word |= bit;
                (end - first) << shift
            }
            _ => 0,
        }
    }
}

impl ReadAmp {
    /// No bitmaps yet, of granules of `bytes` bytes. `None` if the option is 0, or nothing counts them.
    pub(crate) fn new(bytes: u32, meter: &Meter) -> Option<Box<ReadAmp>> {
        meter.statistics()?;
        Some(Box::new(ReadAmp {
            shift: bytes.checked_ilog2()?,
            marked: Mutex::new(Marked {
                blocks: HashMap::new(),
                limit: FEW,
            }),
            meter: meter.clone(),
        }))
    }

    /// Counts `block`, a data block at `handle` that was read, and gives it an empty bitmap.
    #[cold]
    pub(crate) fn begin(
        &self,
        (handle, block): (Handle, &Buffer),
        is_cached: impl Fn(Handle) -> bool,
    ) {
        let Ok(layout) = BlockLayout::parse(block, BlockKind::Data) else {
            return;
        };
        self.drop_bitmaps(is_cached);
        let len = layout.restarts_at();
        let bitmap = Bitmap::new(handle, len, self.shift);
        self.marked.lock().blocks.insert(handle, bitmap);
        self.meter.add(Ticker::ReadAmpTotalReadBytes, len as u64);
    }

    /// Drops the bitmaps of blocks that are not cached, if their number has doubled.
    fn drop_bitmaps(&self, is_cached: impl Fn(Handle) -> bool) {
        let marked = self.marked.lock();
        if marked.blocks.len() < marked.limit {
            return;
        }
        let handles: Vec<Handle> = marked.blocks.keys().copied().collect();
        // The cache is not called under the mutex.
        drop(marked);
        let handles = handles.into_iter();
        let gone: Vec<Handle> = handles.filter(|&handle| !is_cached(handle)).collect();
        let mut marked = self.marked.lock();
        for handle in gone {
            marked.blocks.remove(&handle);
        }
        marked.limit = FEW.max(2 * marked.blocks.len());
    }

    /// Counts the entry of `cursor` in `block`, the data block at `handle`: its value is read.
    #[cold]
    pub(crate) fn count(
        &self,
        (handle, block): (Handle, &Buffer),
        (layout, cursor): (&BlockLayout, &DataCursor),
        is_cached: impl Fn(Handle) -> bool,
    ) {
        let entry = match layout.has_separate_values() {
            true => cursor.value_range(),
            false => cursor.entry_range(),
        };
        let useful = self.mark(handle, &entry).or_else(|| {
            // The block was cached by another opening of the file, or by its writer.
            self.begin((handle, block), is_cached);
            self.mark(handle, &entry)
        });
        let ticker = Ticker::ReadAmpEstimateUsefulBytes;
        self.meter.add(ticker, useful.unwrap_or(0) as u64);
    }

    /// See [`Bitmap::mark`]; `None` if the block at `handle` has no bitmap.
    fn mark(&self, handle: Handle, entry: &Range<usize>) -> Option<usize> {
        let mut marked = self.marked.lock();
        let bitmap = marked.blocks.get_mut(&handle)?;
        Some(bitmap.mark(entry, self.shift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bitmap of a block of a kilobyte with granules of 32 bytes, of which the first begins `skew` bytes before it.
    fn bitmap(skew: usize) -> Bitmap {
        let handle = Handle::default();
        Bitmap {
            skew,
            ..Bitmap::new(handle, 1_024, 5)
        }
    }

    #[test]
    fn every_byte_of_a_fully_read_block_is_useful_once() {
        for skew in [0, 1, 17, 31] {
            for len in [1, 7, 31, 32, 33, 100] {
                let mut bitmap = bitmap(skew);
                let entries = || (0..1_024).step_by(len).map(|at| at..(at + len).min(1_024));
                let useful: usize = entries().map(|entry| bitmap.mark(&entry, 5)).sum();
                assert!(useful.abs_diff(1_024) <= 32, "{useful}, {skew}, {len}");
                let again: usize = entries().map(|entry| bitmap.mark(&entry, 5)).sum();
                assert_eq!(again, 0);
            }
        }
    }

    #[test]
    fn a_range_outside_of_the_block_is_ignored() {
        assert_eq!(bitmap(0).mark(&(1 << 20..1 << 21), 5), 0);
    }
}
