//! New memtables, created with the options of their family and counted against the memory budget of the write
//! path.

use std::sync::Arc;

use cairn_memtable::{Checks, FilterOptions, Memtable};
use cairn_options::{FamilyOptions, MemtableFactory};
use cairn_types::SequenceNumber;

use crate::shared::Shared;

/// The maximum size of the Bloom filter of a memtable, in bytes. RocksDB counts the bits of a filter in 32 bits.
const MAX_FILTER_BYTES: usize = u32::MAX as usize / 8;

/// The least number of blocks of memtables in their budget.
const BLOCKS_OF_BUDGET: usize = 32;

impl Shared {
    /// Creates a memtable for a family with `options`, for writes after `last`.
    pub(crate) fn new_memtable(
        &self,
        options: &FamilyOptions,
        last: SequenceNumber,
    ) -> Arc<Memtable> {
        let memtable = self.uncharged_memtable(options).created_after(last);
        Arc::new(self.charged(memtable))
    }

    /// Charges `memtable` to the memory budget of the write path.
    pub(crate) fn charged(&self, memtable: Memtable) -> Memtable {
        match &self.writes.buffers {
            Some(buffers) => memtable.accounted(buffers.clone()),
            None => memtable,
        }
    }

    /// Creates a memtable for a family with `options` that is not charged to the memory budget.
    pub(crate) fn uncharged_memtable(&self, options: &FamilyOptions) -> Memtable {
        // Small blocks under a small budget, because the unused end of a block counts as used.
        let limit = self.writes.buffers.as_ref().filter(|it| it.enabled());
        let step = limit.map_or(usize::MAX, |it| it.buffer_size() / BLOCKS_OF_BUDGET);
        let memtable = cairn_memtable::MemtableOptions {
            arena_block_size: options.arena_block_size.min(step),
            filter: memtable_filter(options),
            sort_on_read: options.memtable_factory == MemtableFactory::Vector,
            checks: Checks {
                // One of the lengths that the options allow.
                checksum_len: options.memtable_protection_bytes_per_key as u8,
                on_seek: options.memtable_verify_per_key_checksum_on_seek,
                order: options.paranoid_memory_checks,
            },
        };
        Memtable::new(options.comparator.clone(), memtable)
    }
}

/// Creates the Bloom filter of a memtable with `options`.
fn memtable_filter(options: &FamilyOptions) -> FilterOptions {
    let ratio = options.memtable_prefix_bloom_size_ratio.clamp(0.0, 0.25);
    FilterOptions {
        // A share of a length in memory: the loss of precision is irrelevant.
        bytes: ((options.write_buffer_size as f64 * ratio) as usize).min(MAX_FILTER_BYTES),
        whole_keys: options.memtable_whole_key_filtering,
        prefix_extractor: options.prefix_extractor.clone(),
    }
}

#[cfg(all(test, debug_assertions, not(loom)))]
mod tests;
