//! The open table, shared by all its readers.

use std::cell::Cell;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use cairn_compress::Dictionary;
use cairn_format::block::{BlockKind, BlockLayout, DataCursor, DataWords, EntryForm, KeyWords};
use cairn_format::range_del::Fragments;
use cairn_format::table::{Footer, Handle, MetaIndex, Properties, TRAILER_LEN};
use cairn_format::trace::block_cache::CacheCaller;
use cairn_memory::secondary::{DeviceRead, LookupCounts, Sought};
use cairn_memory::{BlockCache, CacheCharge, CacheKey, CachePriority, CacheRole, MemoryUse};
use cairn_observe::statistics::TableCounts;
use cairn_observe::traces::block_cache::is_in_use as is_traced;
use cairn_platform::{Allocation, Buffer, Io, RandomAccessFile, ReadRequest};
use cairn_types::{
    Error, FileNumber, KeyOrder, Malformed, PrefixExtractor, Result, SequenceNumber,
};

use super::block_fetcher::{self, Raw};
use super::filter::{Bits, Filter};
use super::image::Image;
use super::index::{Index, IndexIter, Landing};
use super::lookup_trace::{TracedLookups, TracedReader};
use super::open::OpenParams;
use super::read_amp::ReadAmp;
use super::tier_stats::count_lookup_below;
use crate::block_stats::part_of;
use crate::metadata::{Tier, is_pinned};

/// A metadata block: held in memory, or looked up in the cache.
pub(crate) struct MetaBlock {
    pub handle: Handle,
    pub held: Option<Buffer>,
}

/// A block that a read needs and that is not in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissingBlock {
    pub handle: Handle,
    pub role: CacheRole,
}

/// Blocks by offset.
pub(crate) type Blocks = Vec<(u64, Buffer)>;

/// A block that was read for one operation.
#[derive(Debug)]
pub(crate) struct SuppliedBlock {
    pub offset: u64,
    pub role: CacheRole,
    pub block: Buffer,
    /// The charge of a block that the cache does not hold.
    pub charge: Option<CacheCharge>,
}

/// Blocks read for one operation, which are not, or not certainly, in the cache; and the counts of the
/// operation.
#[derive(Default)]
pub(crate) struct SuppliedBlocks {
    blocks: Vec<SuppliedBlock>,
    pub counts: TableCounts,
    /// The reader, for the block-cache trace; `None` for a get.
    pub reader: Option<TracedReader>,
    /// The get, if it is traced.
    pub get: Option<Box<TracedLookups>>,
    /// The last missing block that a tier below the cache has on a device.
    on_device: Cell<Option<Box<OnDevice>>>,
}

/// A block that a tier below the cache has on a device.
enum OnDevice {
    /// The read of the block at an offset.
    Read(u64, DeviceRead),
    /// The read of the block at this offset failed: the table has to be read.
    Lost(u64),
}

impl SuppliedBlocks {
    /// Those of a reader that is not a get. `fills` is true if it inserts blocks into the cache.
    pub(crate) fn of_reader(caller: CacheCaller, fills: bool) -> SuppliedBlocks {
        SuppliedBlocks {
            reader: Some(TracedReader { caller, fills }),
            ..SuppliedBlocks::default()
        }
    }

    pub(crate) fn push(&mut self, block: SuppliedBlock) {
        self.blocks.push(block);
    }

    /// Releases the blocks and keeps the counts.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if !self.blocks.is_empty() {
            self.blocks.clear();
        }
    }

    /// Forgets a block of a tier on a device.
    #[inline]
    pub(crate) fn forget_on_device(&mut self) {
        if self.on_device.get_mut().is_some() {
            self.on_device.set(None);
        }
    }

    /// True if the block at `offset` could not be read from a device.
    fn is_lost(&self, offset: u64) -> bool {
        let on_device = self.on_device.take();
        let is_lost = matches!(on_device.as_deref(), Some(OnDevice::Lost(at)) if *at == offset);
        if is_lost {
            self.on_device.set(on_device);
        }
        is_lost
    }

    /// Takes the read of the block at `offset` from a device, if a tier has it there.
    pub(crate) fn take_on_device(&self, offset: u64) -> Option<DeviceRead> {
        match self.on_device.take().map(|on_device| *on_device) {
            Some(OnDevice::Read(at, read)) if at == offset => Some(read),
            _ => None,
        }
    }

    /// True if there are no blocks.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The block at `offset`.
    pub(crate) fn find(&self, offset: u64) -> Option<&SuppliedBlock> {
        self.blocks.iter().find(|block| block.offset == offset)
    }

    pub(crate) fn last(&self) -> Option<&SuppliedBlock> {
        self.blocks.last()
    }

    /// Takes over the charges of index blocks, with the offsets of the blocks.
    pub(crate) fn take_index_charges(&mut self) -> impl Iterator<Item = (u64, CacheCharge)> {
        let blocks = self.blocks.iter_mut();
        let index = blocks.filter(|block| block.role == CacheRole::Index);
        index.filter_map(|block| Some((block.offset, block.charge.take()?)))
    }

    /// Takes over the charge of the block at `offset`, if it has one.
    #[inline]
    pub(crate) fn take_charge(&mut self, offset: u64) -> Option<CacheCharge> {
        let mut blocks = self.blocks.iter_mut();
        blocks.find(|block| block.offset == offset)?.charge.take()
    }
}

/// Bytes of the small allocations of an open table and its file, as measured with 10,000 tables.
const ALLOCATIONS: usize = 1 << 10;

/// A table open for reading, shared by its readers. It does no I/O by itself.
pub struct Table {
    pub(crate) file: Arc<dyn RandomAccessFile>,
    pub(crate) footer: Footer,
    /// Offset of the footer: blocks end at or before it.
    pub(crate) limit: u64,
    pub(crate) cache_file: [u64; 2],
    pub(crate) metadata_priority: CachePriority,
    pub(crate) properties: Properties,
    pub(crate) parts: MetaIndex,
    /// The key order in the file.
    pub(crate) order: KeyOrder,
    /// Bytes of timestamp added to every key because the file stores none.
    pub(crate) pad: usize,
    pub(crate) global_seqno: Option<SequenceNumber>,
    pub(crate) index: Index,
    pub(crate) filter: Option<Filter>,
    pub(crate) dictionary: Option<Dictionary>,
    pub(crate) tombstones: Option<Arc<Fragments>>,
    /// The family's prefix extractor, if the table was built with the same one.
    pub(crate) prefix_extractor: Option<PrefixExtractor>,
    /// Size of the search words of a typical data block; 0 if they are not used.
    pub(crate) words: u64,
    /// The blocks of a table that has none in its file.
    pub(super) image: Option<Image>,
    /// The estimate of read amplification, if it is wanted.
    pub(super) read_amp: Option<Box<ReadAmp>>,
    /// The charge of the memory that the table holds.
    pub(crate) charge: Option<CacheCharge>,
    pub(crate) params: OpenParams,
}

impl Table {
    /// True if the prefixes in the table are those of `extractor`.
    #[must_use]
    pub fn has_prefixes_of(&self, extractor: Option<&PrefixExtractor>) -> bool {
        let mine = self.prefix_extractor.as_ref();
        mine.zip(extractor)
            .is_some_and(|(mine, other)| mine.is_like(other))
    }

    /// Returns the table properties.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Returns the range tombstones, or `None` if there are none.
    #[must_use]
    pub fn range_tombstones(&self) -> Option<&Arc<Fragments>> {
        self.tombstones.as_ref()
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the file number.
    #[must_use]
    pub fn number(&self) -> FileNumber {
        self.params.number
    }

    /// Returns the footer: format version, checksum kind, and handles. That of its image for a table without blocks.
    #[must_use]
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Returns the metaindex.
    #[must_use]
    pub fn parts(&self) -> &MetaIndex {
        &self.parts
    }

    /// Returns the global sequence number of an ingested file.
    #[must_use]
    pub fn global_seqno(&self) -> Option<SequenceNumber> {
        self.global_seqno
    }

    /// Returns the id from which the keys of the table's blocks in the cache derive: of the file's unique id, or
    /// of this opening for files without one.
    #[inline]
    #[must_use]
    pub fn cache_id(&self) -> [u64; 2] {
        self.cache_file
    }

    /// True if [`Table::cache_id`] is that of every opening of the file.
    #[must_use]
    pub fn has_lasting_cache_id(&self) -> bool {
        crate::metadata::unique_id(&self.properties).is_some()
    }

    /// Returns the order of user keys that the table was opened with.
    #[must_use]
    pub fn order(&self) -> &KeyOrder {
        &self.params.order
    }

    /// Returns the memory held by the open table outside of the block cache, in bytes.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        let held = |part: &MetaBlock| part.held.as_ref().map_or(0, Buffer::memory_usage);
        let all = |parts: &[(u64, Buffer)]| {
            let each = parts.iter().map(|(_, buffer)| buffer.memory_usage());
            each.sum::<usize>()
        };
        let filter = self.filter.as_ref();
        size_of::<Table>()
            + ALLOCATIONS
            + held(&self.index.root)
            + self.index.words.get().map_or(0, KeyWords::memory_usage)
            + all(&self.index.partitions)
            + filter.map_or(0, |filter| {
                let bits = filter.bits.as_ref().map_or(0, Bits::memory_usage);
                bits + held(&filter.root) + all(&filter.partitions)
            })
            + self.dictionary.as_ref().map_or(0, Dictionary::memory_usage)
            + self.image.as_ref().map_or(0, Image::memory_usage)
            + self.properties.memory_usage()
            + self
                .tombstones
                .as_ref()
                .map_or(0, |tombstones| tombstones.memory())
    }

    /// Returns the user-visible error for `error` in the block at `offset`.
    #[cold]
    pub(crate) fn bad(&self, error: Malformed, offset: u64) -> Error {
        error.in_file(self.file.path().display(), offset)
    }

    /// Rejects a handle outside of the file before anything is allocated for it.
    pub(crate) fn check(&self, handle: Handle, found_in: Handle) -> Result<()> {
        handle
            .check(self.limit, 0)
            .map_err(|error| self.bad(error, found_in.offset))
    }

    pub(crate) fn cache_key(&self, handle: Handle) -> CacheKey {
        CacheKey::of_block(self.cache_file, handle.offset)
    }

    /// Returns the block at `handle`, if it is in memory.
    #[inline]
    pub(crate) fn find(&self, lack: MissingBlock, supplied: &SuppliedBlocks) -> Option<Buffer> {
        let offset = lack.handle.offset;
        let mut supplied_blocks = supplied.blocks.iter();
        if let Some(found) = supplied_blocks.find(|block| block.offset == offset) {
            return Some(found.block.clone());
        }
        let Some(cache) = self.params.cache.as_ref() else {
            return self.image.as_ref()?.find(lack.handle);
        };
        let key = self.cache_key(lack.handle);
        let Some(found) = cache.lookup(&key, lack.role) else {
            return match cache.has_tier() {
                true => self
                    .find_below(cache, lack, supplied)
                    .map(|found| self.guarded(lack, found)),
                false => None,
            };
        };
        let size = found.memory_usage();
        supplied.counts.hit(part_of(lack.role), size);
        if is_traced() {
            self.trace_lookup(lack, size, true, supplied);
        }
        Some(self.guarded(lack, found))
    }

    /// Returns the missing block from a tier below the cache. As in RocksDB, it counts as a hit of the cache, too.
    #[cold]
    fn find_below(
        &self,
        cache: &BlockCache,
        lack: MissingBlock,
        supplied: &SuppliedBlocks,
    ) -> Option<Buffer> {
        let (key, lowest) = (self.cache_key(lack.handle), self.params.lowest_tier);
        let offset = lack.handle.offset;
        if supplied.is_lost(offset) {
            return None;
        }
        let mut counts = LookupCounts::default();
        let found = match cache.seek_below(&key, lowest, &mut counts) {
            Sought::Absent => None,
            Sought::Found(found) => Some(found),
            Sought::OnDevice(read) => {
                let on_device = OnDevice::Read(offset, read);
                supplied.on_device.set(Some(Box::new(on_device)));
                None
            }
        };
        self.count_below(lack, &counts, found.as_ref(), supplied);
        found
    }

    /// Counts a lookup below the cache with the result `found`.
    fn count_below(
        &self,
        lack: MissingBlock,
        counts: &LookupCounts,
        found: Option<&Buffer>,
        supplied: &SuppliedBlocks,
    ) {
        count_lookup_below(&self.params.meter, counts, found.map(|_| lack.role));
        if let Some(found) = found {
            let (part, size) = (part_of(lack.role), found.memory_usage());
            supplied.counts.hit(part, size);
            if is_traced() {
                self.trace_lookup(lack, size, true, supplied);
            }
        }
    }

    /// Completes the read of the missing block from the device of a tier. Returns `None` if the block has to be read
    /// from the table.
    pub(crate) fn take_from_device(
        &self,
        lack: MissingBlock,
        read: (DeviceRead, Result<Buffer>),
        supplied: &SuppliedBlocks,
    ) -> Result<Option<SuppliedBlock>> {
        let (offset, role) = (lack.handle.offset, lack.role);
        let Some(cache) = &self.params.cache else {
            return Ok(None);
        };
        let (key, lowest) = (self.cache_key(lack.handle), self.params.lowest_tier);
        let mut counts = LookupCounts::default();
        let found = cache.finish_below(&key, lowest, read, &mut counts)?;
        self.count_below(lack, &counts, found.as_ref(), supplied);
        if found.is_none() {
            let lost = OnDevice::Lost(offset);
            supplied.on_device.set(Some(Box::new(lost)));
        }
        Ok(found.map(|block| SuppliedBlock {
            offset,
            role,
            block,
            charge: None,
        }))
    }

    /// Returns the metadata block at `handle`, if it is in the cache itself.
    pub(crate) fn peek(&self, handle: Handle, role: CacheRole) -> Option<Buffer> {
        let cache = self.params.cache.as_ref()?;
        cache.lookup(&self.cache_key(handle), role)
    }

    /// True if the data block at `handle` is in memory. Does not count as a lookup.
    pub(crate) fn has_cached(&self, handle: Handle) -> bool {
        match self.params.cache.as_ref() {
            Some(cache) => cache.contains(&self.cache_key(handle)),
            None => self.image.is_some(),
        }
    }

    /// True if a step to an entry is more than decoding it: its key is built, it is verified, or its use is counted.
    pub(super) fn has_slow_entries(&self) -> bool {
        self.pad > 0 || self.guards() || self.read_amp.is_some()
    }

    /// Counts the entry of `cursor` in `block`, the data block at `handle`, for the estimate of read amplification: its
    /// value is read.
    #[inline]
    pub(crate) fn count_use(
        &self,
        (handle, block): (Handle, &Buffer),
        (layout, cursor): (&BlockLayout, &DataCursor),
    ) {
        if let Some(amp) = &self.read_amp {
            amp.count((handle, block), (layout, cursor), |handle| {
                self.has_cached(handle)
            });
        }
    }

    /// Prefetches the cache slot of the data block at `handle`.
    #[inline]
    pub(crate) fn announce(&self, handle: Handle) {
        if let Some(cache) = &self.params.cache {
            cache.announce(&self.cache_key(handle));
        }
    }

    /// Prefetches the data block at `handle`, if it is cached.
    #[inline]
    pub(crate) fn prefetch(&self, handle: Handle) {
        if let Some(cache) = &self.params.cache {
            cache.prefetch(&self.cache_key(handle));
        }
    }

    /// Like [`Table::find`], for a data block to be searched. A block found in the cache is reused, so
    /// search words are built for it.
    #[inline]
    pub(crate) fn find_to_search(
        &self,
        lack: MissingBlock,
        supplied: &SuppliedBlocks,
    ) -> Option<Buffer> {
        let block = self.find(lack, supplied)?;
        match supplied.blocks.is_empty() {
            true => Some(self.with_words(lack, block)),
            false => Some(block),
        }
    }

    /// Returns `block`, a cached data block, with its search words if it can have any.
    #[inline]
    pub(crate) fn with_words(&self, lack: MissingBlock, block: Buffer) -> Buffer {
        let is_bare = block.tail().is_empty();
        let wants_words = is_bare && lack.role == CacheRole::Data && self.room(lack.handle) > 0;
        match wants_words {
            true => self.lay_words(lack, block),
            false => block,
        }
    }

    #[cold]
    fn lay_words(&self, lack: MissingBlock, block: Buffer) -> Buffer {
        let Ok(layout) = BlockLayout::parse(&block, BlockKind::Data) else {
            return block;
        };
        let words = DataWords::encode(&block, &layout, &self.order);
        match &self.params.cache {
            Some(cache) => cache.lay_tail(&self.cache_key(lack.handle), block, &words),
            None => block.with_tail(&words),
        }
    }

    /// Returns the room to allocate with the data block at `handle` for its search words, so that the
    /// block need not move when they are built: the size for a typical block of the table. 0 if the
    /// block gets no words, because they would exceed an eighth of its size: with short entries a
    /// search gains little, and the cache holds less. The estimate is from the properties, which are
    /// not trusted beyond that limit.
    #[inline]
    fn room(&self, handle: Handle) -> usize {
        let block = handle.size.max(self.params.options.block_size);
        match self.words <= block / 8 {
            true => self.words as usize,
            false => 0,
        }
    }

    /// Returns the memory to allocate for a block, with `room`.
    #[inline]
    fn allocation(&self, room: usize) -> Allocation {
        let kind = self.params.memory_kind();
        Allocation { kind, room }
    }

    /// Returns the request for a missing block and `more` bytes after it.
    pub(crate) fn request(&self, lack: MissingBlock, more: u64) -> ReadRequest {
        let len = lack.handle.size + TRAILER_LEN as u64 + more;
        let room = match more {
            0 if lack.role == CacheRole::Data => self.room(lack.handle),
            // Blocks of a multi-block read are copied one by one.
            _ => 0,
        };
        ReadRequest {
            file: self.file.clone(),
            offset: lack.handle.offset,
            len: len.min(self.limit - lack.handle.offset) as usize,
            allocation: self.allocation(room),
        }
    }

    /// Returns the request for a range of the file with several blocks.
    pub(super) fn range_request(&self, range: &Range<u64>) -> ReadRequest {
        let len = (range.end - range.start) as usize;
        ReadRequest {
            allocation: self.allocation(0),
            ..ReadRequest::new(self.file.clone(), range.start, len)
        }
    }

    /// Charges the read of `request`, before memory is allocated for it.
    #[inline]
    pub(crate) fn charge_read(&self, request: &ReadRequest) -> Option<CacheCharge> {
        let bytes = request.len + request.allocation.room;
        self.params.charge(MemoryUse::ReadInProgress, bytes)
    }

    /// Decodes the block read as `raw`, and inserts it into the cache if `fill`. `reading` is the charge of the
    /// read. A block that the cache does not hold is charged to the reader.
    pub(crate) fn take(
        &self,
        lack: MissingBlock,
        raw: &Raw<'_>,
        verify: bool,
        fill: bool,
        reading: Option<CacheCharge>,
    ) -> Result<SuppliedBlock> {
        let dictionary = self
            .dictionary
            .as_ref()
            .filter(|_| lack.role == CacheRole::Data);
        let meter = &self.params.meter;
        let room = match fill && lack.role == CacheRole::Data {
            true => self.room(lack.handle),
            false => 0,
        };
        let memory = self.allocation(room);
        let form = self.form_of(lack.role);
        let unpack = |raw: &Raw<'_>| {
            let footer = &self.footer;
            let block =
                block_fetcher::unpack(raw, lack.handle, footer, dictionary, verify, memory, meter)?;
            match form {
                Some(form) => block_fetcher::without_prefix(block, form, footer.version, memory),
                None => Ok(block),
            }
        };
        let buffer = unpack(raw)
            .or_else(|error| {
                let again = block_fetcher::read_again(error, &self.request(lack, 0), unpack);
                self.count_damage(again.is_ok());
                again
            })
            .map_err(|error| self.bad(error, lack.handle.offset))?;
        let buffer = self.guarded_on_load(lack, buffer);
        if let Some(amp) = &self.read_amp
            && lack.role == CacheRole::Data
        {
            amp.begin((lack.handle, &buffer), |handle| self.has_cached(handle));
        }
        // The cache charges the block instead.
        drop(reading);
        let cache = self.params.cache.as_ref().filter(|_| fill);
        let inserted = cache.map(|cache| {
            let priority = if lack.role == CacheRole::Data {
                CachePriority::Low
            } else {
                self.metadata_priority
            };
            cache.insert_down_to(
                self.cache_key(lack.handle),
                buffer.clone(),
                lack.role,
                priority,
                self.params.lowest_tier,
            )
        });
        self.count_read(lack, raw, &buffer, verify, inserted);
        let charge = match inserted {
            Some(outcome) if outcome.is_kept() => None,
            _ => {
                let bytes = buffer.memory_usage();
                self.params.charge(MemoryUse::ReadInProgress, bytes)
            }
        };
        Ok(SuppliedBlock {
            offset: lack.handle.offset,
            role: lack.role,
            block: buffer,
            charge,
        })
    }

    /// Returns the encoding of the entries of blocks of `role`, if they have entries.
    fn form_of(&self, role: CacheRole) -> Option<EntryForm> {
        match role {
            CacheRole::Data => Some(EntryForm::Data),
            CacheRole::Index => Some(EntryForm::Index(self.index.form)),
            CacheRole::FilterMeta => {
                let filter = self.filter.as_ref()?;
                Some(EntryForm::Index(filter.form))
            }
            _ => None,
        }
    }

    /// Reads the missing block on the calling thread.
    pub(crate) fn fetch(&self, lack: MissingBlock, io: &Io, fill: bool) -> Result<SuppliedBlock> {
        let request = self.request(lack, 0);
        let reading = self.charge_read(&request);
        let raw = io.read_now(&request)?;
        self.take(lack, &Raw::Whole(raw), true, fill, reading)
    }

    /// Loads the partitions that the options pin. `tail` returns those that have been read.
    pub(crate) fn pin_partitions<'t>(
        &mut self,
        tail: impl Fn(Handle) -> Option<&'t [u8]>,
        io: &Io,
    ) -> Result<()> {
        if !is_pinned(&self.params.options, self.params.level, Tier::Partition) {
            return Ok(());
        }
        if self.index.two_level {
            self.index.partitions = self.partitions_under(false, &tail, io)?;
        }
        if self
            .filter
            .as_ref()
            .is_some_and(|filter| filter.partitioned)
        {
            let partitions = self.partitions_under(true, &tail, io)?;
            if let Some(filter) = &mut self.filter {
                filter.partitions = partitions;
            }
        }
        Ok(())
    }

    /// Returns all partitions of the index, or of the filter.
    fn partitions_under<'t>(
        &self,
        of_filter: bool,
        tail: &impl Fn(Handle) -> Option<&'t [u8]>,
        io: &Io,
    ) -> Result<Blocks> {
        let role = if of_filter {
            CacheRole::Filter
        } else {
            CacheRole::Index
        };
        let handles = self.partition_handles(of_filter, io)?;
        let mut partitions = Vec::with_capacity(handles.len());
        let mut missing = Vec::new();
        for handle in handles {
            let lack = MissingBlock { handle, role };
            match tail(handle) {
                Some(raw) => {
                    let taken = self.take(lack, &Raw::Part(raw), true, false, None)?;
                    partitions.push((handle.offset, taken.block));
                }
                None => {
                    let request = self.request(lack, 0);
                    missing.push((lack, self.charge_read(&request), request));
                }
            }
        }
        let requests: Vec<_> = missing.iter().map(|one| one.2.clone()).collect();
        for ((lack, reading, _), raw) in missing.into_iter().zip(io.read_batch(&requests)) {
            let taken = self.take(lack, &Raw::Whole(raw?), true, false, reading)?;
            partitions.push((lack.handle.offset, taken.block));
        }
        partitions.sort_by_key(|(offset, _)| *offset);
        Ok(partitions)
    }

    /// Returns the approximate file offset of the internal key `target`.
    ///
    /// # Errors
    ///
    /// Read errors of the index.
    pub fn approximate_offset_of(&self, target: &[u8], io: &Io) -> Result<u64> {
        let mut stored = Vec::new();
        let target = self.stored_target(target, &mut stored);
        let mut walk = IndexIter::new(self);
        let mut supplied = SuppliedBlocks::of_reader(CacheCaller::ApproximateSize, true);
        walk.start(Landing::Seek);
        while let Some(lack) = walk.settle(self, &supplied, target)? {
            let fetched = self.fetch(lack, io, true)?;
            self.trace_miss(lack, &fetched.block, &supplied);
            supplied.push(fetched);
        }
        if walk.valid() {
            return Ok(walk.handle().offset);
        }
        Ok(self.data_end())
    }

    /// Returns the approximate size of the data blocks, in bytes.
    #[must_use]
    pub fn data_size(&self) -> u64 {
        self.data_end()
    }

    /// Returns the end of the data blocks, limited to plausible values of the properties.
    pub(crate) fn data_end(&self) -> u64 {
        if let Some(image) = &self.image {
            return image.data_end();
        }
        match self.properties.data_size {
            0 => self.limit,
            size => size.min(self.limit),
        }
    }

    /// Returns the internal key `target` as the file would store it; in `buffer` if it must be changed.
    #[inline]
    pub(crate) fn stored_target<'a>(&self, target: &'a [u8], buffer: &'a mut Vec<u8>) -> &'a [u8] {
        if self.pad == 0 {
            return target;
        }
        self.strip_target(target, buffer)
    }

    /// Stores the internal key `target` in `buffer`, which is empty, as the file would store it.
    #[inline]
    pub(crate) fn store_target(&self, target: &[u8], buffer: &mut Vec<u8>) {
        match self.pad {
            0 => buffer.extend_from_slice(target),
            _ => {
                self.strip_target(target, buffer);
            }
        }
    }

    /// Strips the timestamp from a target. Entries of the file have the minimum timestamp, so they all
    /// follow a target of the same key with a later one.
    #[cold]
    pub(crate) fn strip_target<'a>(&self, target: &[u8], buffer: &'a mut Vec<u8>) -> &'a [u8] {
        use cairn_format::key;
        buffer.clear();
        crate::strip_internal(target, self.pad, buffer);
        let user = key::user_key(target);
        let timestamp = &user[user.len().saturating_sub(self.pad)..];
        if timestamp.iter().any(|&byte| byte != 0) {
            let first = key::pack(SequenceNumber::MAX, cairn_types::ValueKind::FOR_SEEK);
            if let Some(suffix) = buffer.last_chunk_mut() {
                *suffix = first.to_le_bytes();
            }
        }
        buffer
    }
}
