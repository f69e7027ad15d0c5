//! Builds a table file from sorted entries.
//!
//! Entries are added to the current data block; a full block is compressed and written. Block metadata
//! (separators, filter hashes, counts) is kept in flat arrays, from which the index, the filter and the
//! other parts are built when the table is finished.
//!
//! With `parallel_threads`, threads of the builder compress blocks, which are written in their order.
//! With a compression dictionary, the first data blocks are buffered in memory until there is enough
//! data to build the dictionary; then they are written, and later blocks are written directly.

mod auto_skip_compressor;
mod compression_threads;
mod data_blocks;
mod file_writer;
mod filter;
mod finish;
mod flat;
mod hash_buffer;
mod index;
mod packer;
mod params;
mod table_builder;
mod warmer;

use std::sync::Arc;

use cairn_format::batch::check_entry;
use cairn_format::checksum::ChecksumKind;
use cairn_format::key;
use cairn_format::table::Properties;
use cairn_format::table::properties::IndexKind;
use cairn_memory::{CacheCharge, MemoryUse};
use cairn_options::IndexType;
use cairn_options::file_checksum::NamedChecksum;
use cairn_platform::WritableFile;
use cairn_types::{Error, KeyOrder, Result};

use data_blocks::{DataBlocks, Place};
use file_writer::{BUFFER_BYTES, FileWriter, FileWriterOptions};
use filter::FilterKeys;
use index::{IndexRows, PrefixRows};
pub use params::{BuildParams, TableIdentity, TablePlace, TableTimes, WarmBlocks};
use table_builder::Counts;
pub use table_builder::TableBuilder;
use warmer::Warmer;

/// The facts about a finished table that its file metadata needs.
#[derive(Clone, Debug)]
pub struct TableStats {
    /// The table properties.
    pub properties: Properties,
    /// File size in bytes.
    pub file_size: u64,
    /// Size of everything after the data blocks, in bytes.
    pub tail_size: u64,
    /// The checksum of the whole file, if enabled.
    pub file_checksum: Option<NamedChecksum>,
}

/// Builder of one block-based table.
pub(crate) struct BlockBasedBuilder {
    params: BuildParams,
    /// The key order in the file: without timestamps if those are stripped.
    order: KeyOrder,
    /// Bytes of timestamp stripped from every key; 0 for none.
    strip: usize,
    /// True if the keys in the file have timestamps.
    has_timestamps: bool,
    output: FileWriter,
    data: DataBlocks,
    index: IndexRows,
    index_kind: IndexKind,
    prefixes: Option<PrefixRows>,
    filter: Option<FilterKeys>,
    tombstones: Vec<(Vec<u8>, Vec<u8>)>,
    properties: Properties,
    warmer: Option<Warmer>,
    stripped: Vec<u8>,
    counts: Counts,
    /// True if an index block was stored compressed.
    index_is_packed: bool,
    base_context: u32,
    charges: Charges,
}

/// The charges of a builder's memory to the block cache.
struct Charges {
    /// Buffers and index rows.
    job: Option<CacheCharge>,
    /// Hashes, and the filter while it is built.
    filter: Option<CacheCharge>,
}

impl BlockBasedBuilder {
    /// Creates a builder that writes to `file`, which must be empty.
    pub(crate) fn create(
        file: Arc<dyn WritableFile>,
        params: BuildParams,
    ) -> Result<BlockBasedBuilder> {
        params.validate()?;
        let options = &params.options;
        let base_context = if options.format_version >= 6 {
            params.base_context.max(1)
        } else {
            0
        };
        let checksum = ChecksumKind::from_u8(options.checksum as u8);
        let output = FileWriter::new(
            file,
            FileWriterOptions {
                checksum: checksum.expect("options name known checksums"),
                base_context,
                bytes_per_sync: params.bytes_per_sync,
                file_checksum: params.file_checksum.clone(),
                meter: params.meter.clone(),
            },
        );
        let charges = Charges {
            job: params.charge.charge(MemoryUse::Job, BUFFER_BYTES),
            filter: params.charge.charge(MemoryUse::FilterConstruction, 0),
        };
        let timestamp_size = params.order.timestamp_size();
        let strip = if params.strip_timestamps {
            timestamp_size
        } else {
            0
        };
        let order = crate::stripped_order(&params.order, strip > 0)?;
        let file_timestamp_size = timestamp_size - strip;
        let index_kind = match options.index_type {
            IndexType::BinarySearch => IndexKind::Binary,
            IndexType::HashSearch if params.prefix_extractor.is_some() => IndexKind::Hash,
            IndexType::HashSearch => IndexKind::Binary,
            IndexType::TwoLevelIndexSearch => IndexKind::TwoLevel,
            IndexType::BinarySearchWithFirstKey => IndexKind::FirstKey,
        };
        let prefixes = params
            .prefix_extractor
            .clone()
            .filter(|_| index_kind == IndexKind::Hash)
            .map(|extractor| PrefixRows::new(extractor, file_timestamp_size));
        let first_keys = index_kind == IndexKind::FirstKey;
        let properties = params.properties();
        Ok(BlockBasedBuilder {
            warmer: Warmer::new(&params, &properties),
            data: DataBlocks::new(&params)?,
            index: IndexRows::new(order.clone(), params.index_shortening(), first_keys),
            filter: params.filter_keys(file_timestamp_size),
            properties,
            order,
            strip,
            has_timestamps: file_timestamp_size > 0,
            output,
            index_kind,
            prefixes,
            tombstones: Vec::new(),
            stripped: Vec::new(),
            counts: Counts::default(),
            index_is_packed: false,
            base_context,
            charges,
            params,
        })
    }

    /// Adds an entry after all earlier ones.
    #[inline]
    pub(crate) fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        if self.strip > 0 {
            return self.add_stripped(internal_key, value);
        }
        self.add_as_stored(internal_key, value)
    }

    /// Strips the timestamp from the key and adds it.
    fn add_stripped(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        let mut stored = std::mem::take(&mut self.stripped);
        stored.clear();
        crate::strip_internal(internal_key, self.strip, &mut stored);
        let result = self.add_as_stored(&stored, value);
        self.stripped = stored;
        result
    }

    fn add_as_stored(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        debug_assert!(
            self.properties.num_entries == self.tombstones.len() as u64
                || key::compare(&self.order, self.last_key(), key).is_lt(),
            "entries are added in order"
        );
        // Merge operators and compaction filters may produce entries above the size limit.
        check_entry(key::user_key(key).len(), value.len())?;
        if self.data.is_full_for(key, value) {
            self.end_block(Some(key))?;
        }
        if self.data.is_empty() {
            self.index.begin_block(key);
        }
        self.data.add(key, value);
        let user_key = key::user_key(key);
        if let Some(filter) = &mut self.filter {
            filter.add(user_key);
        }
        if let Some(prefixes) = &mut self.prefixes {
            prefixes.add(user_key, self.index.len() as u32);
        }
        self.count(key, value);
        Ok(())
    }

    #[inline]
    fn count(&mut self, key: &[u8], value: &[u8]) {
        self.counts.count(&mut self.properties, key, value);
        if self.has_timestamps {
            self.count_timestamp();
        }
    }

    /// Extends the timestamp range by the timestamp of the last key.
    fn count_timestamp(&mut self) {
        let user_key = key::user_key(self.data.last_key());
        let size = self.params.order.timestamp_size();
        let timestamp = &user_key[user_key.len().saturating_sub(size)..];
        // Timestamps are little-endian: compare from the last byte.
        let before = |a: &[u8], b: &[u8]| a.iter().rev().lt(b.iter().rev());
        match &mut self.properties.timestamps {
            None => {
                self.properties.timestamps = Some((timestamp.to_vec(), timestamp.to_vec()));
            }
            Some((least, most)) => {
                if before(timestamp, least) {
                    *least = timestamp.to_vec();
                }
                if before(most, timestamp) {
                    *most = timestamp.to_vec();
                }
            }
        }
    }

    /// Adds a range tombstone from the internal key `start` to the user key `end`.
    fn add_range_tombstone(&mut self, start: &[u8], end: &[u8]) -> Result<()> {
        if start.len() < key::SUFFIX_LEN {
            return Err(Error::invalid_argument(
                "range tombstone without a sequence number",
            ));
        }
        let mut stored = Vec::with_capacity(start.len());
        crate::strip_internal(start, self.strip, &mut stored);
        let end = &end[..end.len().saturating_sub(self.strip)];
        self.counts.count_seq(key::packed(&stored) >> 8);
        let properties = &mut self.properties;
        properties.num_entries += 1;
        properties.num_deletions += 1;
        properties.num_range_deletions += 1;
        properties.raw_key_size += stored.len() as u64;
        properties.raw_value_size += end.len() as u64;
        self.tombstones.push((stored, end.to_vec()));
        Ok(())
    }

    /// Finishes the current data block, if it has entries; `next` is the first key of the next one.
    fn end_block(&mut self, next: Option<&[u8]>) -> Result<()> {
        if self.data.is_empty() {
            return Ok(());
        }
        self.index.end_block(self.data.last_key(), next);
        if let Some(filter) = &mut self.filter {
            filter.end_block();
        }
        self.follow_memory();
        let (data, mut place) = self.data_and_place();
        data.end_block(&mut place)
    }

    /// The data blocks, and the places to which they go.
    fn data_and_place(&mut self) -> (&mut DataBlocks, Place<'_>) {
        let place = Place {
            output: &mut self.output,
            index: &mut self.index,
            warmer: self.warmer.as_ref(),
        };
        (&mut self.data, place)
    }

    /// Adjusts the charges to the memory in use.
    #[inline]
    fn follow_memory(&mut self) {
        if let Some(charge) = &mut self.charges.job {
            charge.follow(BUFFER_BYTES + self.index.memory_usage() + self.data.memory_usage());
        }
        if let Some(charge) = &mut self.charges.filter {
            let filter = self.filter.as_ref();
            charge.follow(filter.map_or(0, FilterKeys::memory_usage));
        }
    }

    /// Returns the last key, without its timestamp if those are stripped; empty before the first.
    #[inline]
    fn last_key(&self) -> &[u8] {
        self.data.last_key()
    }

    /// Returns the file size up to the last finished data block; buffered blocks count uncompressed.
    #[inline]
    pub(crate) fn file_size(&self) -> u64 {
        self.output.offset() + self.data.buffered_bytes()
    }

    /// Returns the estimated final file size, including the current data block and the parts after it.
    fn estimated_file_size(&self) -> u64 {
        let filter = self
            .filter
            .as_ref()
            .map_or(0, |filter| filter.len() * 5 / 4);
        self.file_size()
            + self.data.current_bytes() as u64
            + (filter + self.index.len() * 32) as u64
    }
}
