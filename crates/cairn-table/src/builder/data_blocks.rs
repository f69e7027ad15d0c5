//! The data blocks of a table under construction: the current block, the blocks buffered for the
//! compression dictionary, and those that are being compressed by other threads.

use cairn_compress::{Compression, train_zstd};
use cairn_format::block::{BlockBuilder, BlockOptions, can_hash, has_room};
use cairn_format::table::TRAILER_LEN;
use cairn_memory::{CacheCharge, MemoryUse};
use cairn_options::{DataBlockIndexType, FlushBlockPolicy, TableOptions};
use cairn_types::Result;

use crate::builder::compression_threads::{CompressionThreads, Done};
use crate::builder::file_writer::FileWriter;
use crate::builder::index::IndexRows;
use crate::builder::packer::Packer;
use crate::builder::params::BuildParams;
use crate::builder::warmer::Warmer;

/// Maximum alignment achieved by padding: the page size of a device, in bytes.
const MAX_ALIGNMENT: u64 = 4096;

/// More than an entry adds to a block, and a block to a file, beside the key and the value, in bytes.
const ENTRY_OVERHEAD: usize = 32;

/// A size up to which every block has room, in bytes.
const MAX_BLOCK_ROOM: usize = 1 << 30;

/// The first bytes of a trained zstd dictionary.
const ZSTD_DICTIONARY_MAGIC: [u8; 4] = 0xec30_a437_u32.to_le_bytes();

/// Data blocks buffered until the dictionary is built.
#[derive(Default)]
struct BufferedBlocks {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// The charge of the buffer.
    charge: Option<CacheCharge>,
    /// Buffer size at which the dictionary is built, in bytes.
    limit: usize,
}

/// Block sizes, alignment and padding.
struct Sizes {
    block_size: usize,
    /// A block that an entry extends to at most this size, without the lengths of its key and value, is not full.
    room: usize,
    /// A block smaller than this is not finished early because the next entry does not fit.
    deviation_limit: usize,
    /// Alignment of blocks, in bytes; 0 for none.
    align: u64,
    super_block: u64,
    /// Maximum padding before a super block.
    super_block_padding: u64,
}

impl Sizes {
    fn new(options: &TableOptions) -> Sizes {
        let block_size = match options.flush_block_policy_factory {
            // A block with an entry is full.
            FlushBlockPolicy::EveryKey => 1,
            _ => usize::try_from(options.block_size)
                .unwrap_or(usize::MAX)
                .max(1),
        };
        let deviation = options.block_size_deviation.clamp(0, 100).unsigned_abs() as usize;
        let align = if options.block_align {
            options.block_size.min(MAX_ALIGNMENT)
        } else {
            0
        };
        let room_ratio = options.super_block_alignment_space_overhead_ratio;
        Sizes {
            block_size,
            room: block_size
                .min(MAX_BLOCK_ROOM)
                .saturating_sub(ENTRY_OVERHEAD),
            deviation_limit: match block_size.saturating_mul(100 - deviation).div_ceil(100) {
                // As in RocksDB, blocks are then closed only once they have the target size.
                0 => usize::MAX,
                // A block must not cross the boundary.
                _ if options.block_align => 0,
                limit => limit,
            },
            align,
            super_block: options.super_block_alignment_size,
            super_block_padding: options
                .super_block_alignment_size
                .checked_div(room_ratio)
                .unwrap_or(0),
        }
    }
}

/// The data blocks of a table under construction.
pub(crate) struct DataBlocks {
    block: BlockBuilder,
    sizes: Sizes,
    packer: Packer,
    waiting: Option<BufferedBlocks>,
    threads: Option<CompressionThreads>,
    params: BuildParams,
    /// Number of entries in finished data blocks.
    entries: u64,
    /// Number of finished data blocks.
    pub count: u64,
    /// Their total size before compression, in bytes.
    pub raw_bytes: u64,
}

impl DataBlocks {
    pub(crate) fn new(params: &BuildParams) -> Result<DataBlocks> {
        let options = &params.options;
        let hashed = options.data_block_index_type == DataBlockIndexType::BinaryAndHash
            && can_hash(&params.order);
        let block = BlockBuilder::new(BlockOptions {
            restart_interval: options.block_restart_interval.unsigned_abs().max(1) as usize,
            delta_encoding: options.use_delta_encoding,
            hash_util_ratio: hashed.then_some(options.data_block_hash_table_util_ratio),
            separate_values: options.separate_key_value_in_data_block,
            common_prefix: params.common_prefix_in_data(),
        });
        let dictionary =
            params.compression_options.max_dict_bytes > 0 && params.compression.takes_dictionary();
        let waiting = dictionary.then(|| {
            let wanted = match params.compression_options.max_dict_buffer_bytes {
                0 => params.target_file_size,
                bytes => bytes.min(params.target_file_size),
            };
            BufferedBlocks {
                limit: usize::try_from(wanted).unwrap_or(usize::MAX),
                charge: params
                    .charge
                    .charge(MemoryUse::CompressionDictionaryBuffer, 0),
                ..BufferedBlocks::default()
            }
        });
        Ok(DataBlocks {
            block,
            sizes: Sizes::new(options),
            packer: Packer::new(params, None)?,
            waiting,
            threads: None,
            params: params.clone(),
            entries: 0,
            count: 0,
            raw_bytes: 0,
        })
    }

    /// True if the current block has no entry.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// True if the current block should be finished before this entry.
    #[inline]
    pub(crate) fn is_full_for(&self, key: &[u8], value: &[u8]) -> bool {
        let size = self.block.estimated_size();
        let most = size.saturating_add(key.len()).saturating_add(value.len());
        if most <= self.sizes.room {
            return false;
        }
        self.is_full_at(size, key, value)
    }

    /// [`DataBlocks::is_full_for`] for a block of `size` bytes.
    fn is_full_at(&self, size: usize, key: &[u8], value: &[u8]) -> bool {
        if self.block.is_empty() {
            return false;
        }
        if size >= self.sizes.block_size || !has_room(size, key, value) {
            return true;
        }
        let mut after = size + self.block.growth(key, value);
        if self.sizes.align > 0 {
            after += TRAILER_LEN;
        }
        after > self.sizes.block_size && size > self.sizes.deviation_limit
    }

    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        self.block.add(key, value);
    }

    /// Returns the last key. A full block is finished only when the next key arrives, so the last key
    /// is in the current block.
    #[inline]
    pub(crate) fn last_key(&self) -> &[u8] {
        self.block.last_key()
    }

    /// Returns the size of the current block, in bytes.
    pub(crate) fn current_bytes(&self) -> usize {
        self.block.estimated_size()
    }

    /// Returns the memory of the current block and of the compressor's output, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        let threads = self.threads.as_ref();
        self.block.estimated_size()
            + self.packer.memory_usage()
            + threads.map_or(0, CompressionThreads::memory_usage)
    }

    /// Returns the size of the finished blocks that are not written, in bytes.
    pub(crate) fn buffered_bytes(&self) -> u64 {
        let waiting = self.waiting.as_ref().map_or(0, |it| it.bytes.len() as u64);
        let threads = self.threads.as_ref();
        waiting + threads.map_or(0, CompressionThreads::raw_bytes)
    }

    /// Finishes the current block: writes or buffers it, or gives it to another thread.
    pub(crate) fn end_block(&mut self, place: &mut Place<'_>) -> Result<()> {
        self.count += 1;
        self.entries += self.block.entries() as u64;
        let raw = self.block.finish();
        self.raw_bytes += raw.len() as u64;
        let Some(waiting) = &mut self.waiting else {
            let mut emitter = Emitter {
                packer: &mut self.packer,
                threads: &mut self.threads,
                params: &self.params,
                sizes: &self.sizes,
                mean_entries: self.entries.div_ceil(self.count),
            };
            emitter.emit(raw, place)?;
            self.block.reset();
            return Ok(());
        };
        waiting.bytes.extend_from_slice(raw);
        waiting.ends.push(waiting.bytes.len());
        self.block.reset();
        let mut is_full = waiting.bytes.len() >= waiting.limit;
        if let Some(charge) = &mut waiting.charge {
            charge.follow(waiting.bytes.capacity());
            is_full |= charge.exceeds_strict_capacity();
        }
        if is_full {
            self.end_buffered(place)?;
        }
        Ok(())
    }

    /// Writes all finished blocks.
    pub(crate) fn end_all(&mut self, place: &mut Place<'_>) -> Result<()> {
        self.end_buffered(place)?;
        while self.threads.as_ref().is_some_and(|it| !it.is_empty()) {
            self.emitter().take(place)?;
        }
        // Ends the threads.
        self.threads = None;
        Ok(())
    }

    /// Builds the dictionary from the buffered blocks, and writes them or gives them to other threads.
    fn end_buffered(&mut self, place: &mut Place<'_>) -> Result<()> {
        let Some(waiting) = self.waiting.take() else {
            return Ok(());
        };
        if let Some(dictionary) = waiting.dictionary(&self.params) {
            self.packer = Packer::new(&self.params, Some(dictionary))?;
        }
        let mut start = 0;
        for end in waiting.ends {
            self.emitter().emit(&waiting.bytes[start..end], place)?;
            start = end;
        }
        Ok(())
    }

    fn emitter(&mut self) -> Emitter<'_> {
        Emitter {
            packer: &mut self.packer,
            threads: &mut self.threads,
            params: &self.params,
            sizes: &self.sizes,
            mean_entries: self.entries.div_ceil(self.count.max(1)),
        }
    }

    /// The packer of the data blocks.
    pub(crate) fn packer(&self) -> &Packer {
        &self.packer
    }
}

impl BufferedBlocks {
    /// Builds a dictionary from samples of the buffered blocks. `None` if there is not enough data.
    fn dictionary(&self, params: &BuildParams) -> Option<Vec<u8>> {
        let options = &params.compression_options;
        let max = options.max_dict_bytes as usize;
        let zstd = params.compression == Compression::Zstd;
        let trains = zstd && options.use_zstd_dict_trainer && options.zstd_max_train_bytes > 0;
        let wanted = if trains {
            options.zstd_max_train_bytes as usize
        } else {
            max
        };
        let (mut samples, sizes) = self.samples(wanted);
        if samples.is_empty() {
            return None;
        }
        if trains {
            // Too little training data is not an error: the table gets no dictionary.
            return train_zstd(&samples, &sizes, max)
                .ok()
                .filter(|dict| !dict.is_empty());
        }
        samples.truncate(max);
        // zstd takes content that begins with the magic number for a trained dictionary.
        (!zstd || !samples.starts_with(&ZSTD_DICTIONARY_MAGIC)).then_some(samples)
    }

    /// Returns whole buffered blocks, evenly spread, of about `wanted` bytes in total.
    fn samples(&self, wanted: usize) -> (Vec<u8>, Vec<usize>) {
        let count = self.ends.len();
        let (mut samples, mut sizes) = (Vec::new(), Vec::new());
        // A stride coprime to the count visits every block once.
        let mut stride = (count * 5 / 8).max(1);
        while gcd(stride, count.max(1)) != 1 {
            stride += 1;
        }
        let mut at = 0usize;
        for _ in 0..count {
            if samples.len() >= wanted {
                break;
            }
            let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
            let block = &self.bytes[start..self.ends[at]];
            let piece = &block[..block.len().min(wanted - samples.len())];
            samples.extend_from_slice(piece);
            sizes.push(piece.len());
            at = (at + stride) % count;
        }
        (samples, sizes)
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The places to which finished blocks go.
pub(crate) struct Place<'a> {
    pub output: &'a mut FileWriter,
    pub index: &'a mut IndexRows,
    pub warmer: Option<&'a Warmer>,
}

/// Compresses and writes finished blocks.
struct Emitter<'a> {
    packer: &'a mut Packer,
    threads: &'a mut Option<CompressionThreads>,
    params: &'a BuildParams,
    sizes: &'a Sizes,
    /// The mean number of entries of a block.
    mean_entries: u64,
}

impl Emitter<'_> {
    /// Writes the block `raw`, or gives it to another thread and writes blocks that other threads have compressed.
    fn emit(&mut self, raw: &[u8], place: &mut Place<'_>) -> Result<()> {
        if self.threads.is_none() {
            let blocks = place.index.placed();
            *self.threads = CompressionThreads::start(self.params, self.packer, blocks)?;
        }
        let Some(threads) = self.threads.as_mut() else {
            let packed = self.packer.pack(raw)?;
            return write(self.sizes, (raw, self.mean_entries), packed, place);
        };
        let tries = self.packer.tries(raw.len());
        threads.give(raw, tries)?;
        if threads.is_full() {
            self.take(place)?;
        }
        Ok(())
    }

    /// Writes the block that was given to another thread first.
    fn take(&mut self, place: &mut Place<'_>) -> Result<()> {
        let Some(threads) = self.threads.as_mut() else {
            return Ok(());
        };
        let Done { raw, stored, tried } = threads.take()?;
        let kind = match tried {
            true => self.packer.note(raw.len(), stored.as_ref().map(Vec::len)),
            false => Compression::None,
        };
        write(
            self.sizes,
            (&raw, self.mean_entries),
            (stored.as_deref().unwrap_or(&raw), kind),
            place,
        )?;
        threads.recycle(raw, stored);
        Ok(())
    }
}

/// Writes the block `raw` in its stored form, with its padding.
fn write(
    sizes: &Sizes,
    (raw, mean_entries): (&[u8], u64),
    (stored, kind): (&[u8], Compression),
    place: &mut Place<'_>,
) -> Result<()> {
    let output = &mut *place.output;
    let len = (stored.len() + TRAILER_LEN) as u64;
    if sizes.super_block > 0 {
        let room = sizes.super_block - output.offset() % sizes.super_block;
        if len > room && room < sizes.super_block_padding {
            output.pad(room)?;
        }
    }
    let handle = output.append_block(stored, kind)?;
    if sizes.align > 0 {
        output.pad((sizes.align - len % sizes.align) % sizes.align)?;
    }
    place.index.place_block(handle);
    match place.warmer {
        Some(warmer) => warmer.data(handle, raw, mean_entries),
        None => Ok(()),
    }
}
