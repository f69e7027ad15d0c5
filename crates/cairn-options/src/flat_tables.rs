//! Options of the table formats without blocks, and the format of new tables.

use crate::enums::{PlainEncodingType, TableKind};
use crate::family::FamilyOptions;
use crate::rows::options;

options! {
    /// Layout of PlainTable files (RocksDB's `PlainTableOptions`).
    PlainTableOptions, "PlainTableOptions" {
        /// The length of all user keys; 0 if it varies.
        user_key_len: u32 = 0, dynamic;
        /// Bits of the Bloom filter for each key; 0 for none.
        bloom_bits_per_key: i32 = 10, dynamic;
        /// The number of prefixes for each bucket of the stored index. Without a prefix extractor, it must be 0.
        hash_table_ratio: f64 = 0.75, dynamic;
        /// The interval at which keys of a prefix have a record in the stored index, and are stored in full by prefix
        /// encoding.
        index_sparseness: u64 = 16, dynamic;
        /// Size of the huge pages that hold indexes and filters, in bytes; 0 for none.
        huge_page_tlb_size: u64 = 0, dynamic, hint;
        /// The encoding of the keys.
        encoding_type: PlainEncodingType = PlainEncodingType::Plain, dynamic;
        /// True if tables are only read from the first entry to the last.
        full_scan_mode: bool = false, dynamic, hint;
        /// True if new tables have an index and a Bloom filter.
        store_index_in_file: bool = false, dynamic;
    }
}

options! {
    /// Layout of CuckooTable files (RocksDB's `CuckooTableOptions`).
    CuckooTableOptions, "CuckooTableOptions" {
        /// The number of entries for each bucket.
        hash_table_ratio: f64 = 0.9, dynamic;
        /// The maximum number of entries that move to make space for another.
        max_search_depth: u32 = 100, dynamic;
        /// The number of buckets in a row that hold the entries of a hash.
        cuckoo_block_size: u32 = 5, dynamic;
        /// True if the first hash is the first eight bytes of the key.
        identity_as_first_hash: bool = false, dynamic;
        /// True if hashes are reduced by a division, false if the number of buckets is a power of two.
        use_module_hash: bool = true, dynamic;
    }
}

/// The format of new tables, with the options of formats without blocks.
#[derive(Clone, Debug, Default)]
pub enum TableFormat {
    /// Blocks of sorted entries.
    #[default]
    BlockBased,
    /// A PlainTable.
    Plain {
        /// Its layout.
        options: PlainTableOptions,
        /// The `bloom_locality` of the family.
        bloom_locality: u32,
    },
    /// A CuckooTable.
    Cuckoo(CuckooTableOptions),
}

/// The bits per key of the filter of a CuckooTable in memory.
const CUCKOO_FILTER_BITS: u32 = 10;

impl FamilyOptions {
    /// Returns the format of new tables.
    #[must_use]
    pub fn table_format(&self) -> TableFormat {
        match self.table_factory {
            TableKind::BlockBased => TableFormat::BlockBased,
            TableKind::Plain => TableFormat::Plain {
                options: self.plain_table.clone(),
                bloom_locality: self.bloom_locality,
            },
            TableKind::Cuckoo => TableFormat::Cuckoo(self.cuckoo_table.clone()),
        }
    }

    /// Returns the number of bytes of checksum for each entry of a block in memory.
    #[must_use]
    pub fn block_checksum_len(&self) -> u8 {
        // One of the lengths that are allowed.
        self.block_protection_bytes_per_key as u8
    }

    /// Returns the bits per key of the filter that an open table without blocks has in memory.
    #[must_use]
    pub fn flat_filter_bits(&self) -> u32 {
        match self.table_factory {
            TableKind::Cuckoo => CUCKOO_FILTER_BITS,
            _ => u32::try_from(self.plain_table.bloom_bits_per_key).unwrap_or(0),
        }
    }
}
