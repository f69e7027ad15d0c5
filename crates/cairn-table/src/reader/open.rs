//! Opens a table: footer, metaindex, properties, and the parts held in memory.

use std::sync::Arc;

use cairn_compress::Dictionary;
use cairn_format::block::{BlockKind, BlockLayout, DataCursor, DataWords, EntryForm, IndexForm};
use cairn_format::flat::FlatFormat;
use cairn_format::id::UniqueId;
use cairn_format::range_del::{Fragments, Tombstone};
use cairn_format::table::footer::FOOTER_LEN;
use cairn_format::table::properties::IndexKind;
use cairn_format::table::{Footer, Handle, MetaIndex, Properties, TRAILER_LEN, meta};
use cairn_memory::secondary::CacheTier;
use cairn_memory::{BlockCache, CacheCharge, ChargePolicy, MemoryUse};
use cairn_observe::statistics::{Histogram, Meter, Ticker};
use cairn_observe::traces::BlockCacheTracer;
use cairn_options::TableOptions;
use cairn_platform::sync::{AtomicU64, Ordering};
use cairn_platform::{Allocation, Buffer, Io, MemoryKind, RandomAccessFile, ReadRequest};
use cairn_types::{
    Code, Error, FileNumber, KeyOrder, Malformed, PrefixExtractor, Result, SequenceNumber,
};

use super::block_fetcher::{self, Raw};
use super::filter::{Bits, Filter};
use super::guard::guarded_index;
use super::image;
use super::index::{Index, RootWords};
use super::read_amp::ReadAmp;
use super::table::{MetaBlock, Table};
use crate::metadata::{Tier, is_pinned, metadata_priority, unique_id};

/// Parameters of opening a table.
#[derive(Clone)]
pub struct OpenParams {
    /// File number.
    pub number: FileNumber,
    /// Level of the file, which determines what is pinned; `None` outside of a tree.
    pub level: Option<usize>,
    /// The order of the user keys.
    pub order: KeyOrder,
    /// The family's prefix extractor, used if the filter was built with the same one.
    pub prefix_extractor: Option<PrefixExtractor>,
    /// Caching, pinning and readahead options.
    pub options: Arc<TableOptions>,
    /// The block cache; `None` for no cache.
    pub cache: Option<Arc<BlockCache>>,
    /// The lowest tier of the cache in use.
    pub lowest_tier: CacheTier,
    /// The memory of the table and its readers that is charged, usually to the block cache.
    pub charge: ChargePolicy,
    /// Unique id in the MANIFEST, if it is to be verified.
    pub expected_unique_id: Option<[u64; 2]>,
    /// Largest sequence number in the MANIFEST; in an ingested file, the sequence number of every
    /// entry.
    pub largest_seq: Option<SequenceNumber>,
    /// Size of everything after the data blocks, if known. It is read in one piece.
    pub tail_size: Option<u64>,
    /// Bits per key of the filter that a table without blocks gets in memory; 0 for none.
    pub flat_filter_bits: u32,
    /// Bytes of checksum for each entry of a data or index block in memory: 0, 1, 2, 4 or 8.
    pub block_checksum_len: u8,
    /// Statistics sink.
    pub meter: Meter,
    /// The recorder of block lookups.
    pub cache_tracer: Option<Arc<BlockCacheTracer>>,
}

/// The default of [`OpenParams::flat_filter_bits`].
const FLAT_FILTER_BITS: u32 = 10;

impl Default for OpenParams {
    fn default() -> OpenParams {
        OpenParams {
            number: FileNumber(0),
            level: None,
            order: KeyOrder::Bytewise,
            prefix_extractor: None,
            options: Arc::default(),
            cache: None,
            lowest_tier: CacheTier::default(),
            charge: ChargePolicy::default(),
            expected_unique_id: None,
            largest_seq: None,
            tail_size: None,
            flat_filter_bits: FLAT_FILTER_BITS,
            block_checksum_len: 0,
            meter: Meter::default(),
            cache_tracer: None,
        }
    }
}

impl OpenParams {
    /// Charges `bytes`, if `what` is charged.
    #[inline]
    pub(crate) fn charge(&self, what: MemoryUse, bytes: usize) -> Option<CacheCharge> {
        self.charge.charge(what, bytes)
    }

    /// The kind of memory of the table's blocks: that of the cache, also for those that the cache does not hold.
    #[inline]
    pub(crate) fn memory_kind(&self) -> MemoryKind {
        let options = self.cache.as_ref().map(|cache| cache.options());
        options.map_or(MemoryKind::default(), |options| options.memory)
    }
}

/// Bytes read from the end of a file of unknown tail size.
const DEFAULT_TAIL: u64 = 16 << 10;
/// Bytes read from the end of a file for its properties.
const PROPERTIES_TAIL: u64 = 4 << 10;
/// The first format version with escaped handles in an index.
const ESCAPES_SINCE: u32 = 8;
/// The maximum number of bytes read at once when a table is opened, whatever size the MANIFEST
/// states.
const MAX_TAIL: u64 = 8 << 20;

/// A file being opened, with its tail in memory.
struct Opening<'a> {
    file: &'a Arc<dyn RandomAccessFile>,
    io: &'a Io,
    tail: Buffer,
    tail_at: u64,
    footer: Footer,
    /// Offset of the footer: blocks end at or before it.
    limit: u64,
    /// The memory of blocks.
    allocation: Allocation,
    meter: Meter,
}

impl Opening<'_> {
    #[cold]
    fn bad(&self, error: Malformed, base: u64) -> Error {
        error.in_file(self.file.path().display(), base)
    }

    /// Returns the block at `handle`, which was checked, with its trailer.
    fn raw(&self, handle: Handle) -> Result<Raw<'_>> {
        if let Some(raw) = self.in_tail(handle) {
            self.meter.add(Ticker::TableOpenPrefetchTailHit, 1);
            return Ok(Raw::Part(raw));
        }
        self.meter.add(Ticker::TableOpenPrefetchTailMiss, 1);
        let len = handle.size as usize + TRAILER_LEN;
        let request = ReadRequest {
            allocation: self.allocation,
            ..ReadRequest::new(self.file.clone(), handle.offset, len)
        };
        self.io.read_now(&request).map(Raw::Whole)
    }

    /// Returns the block at `handle` with its trailer, if it is in the tail.
    fn in_tail(&self, handle: Handle) -> Option<&[u8]> {
        let start = usize::try_from(handle.offset.checked_sub(self.tail_at)?).ok()?;
        let len = usize::try_from(handle.size)
            .ok()?
            .checked_add(TRAILER_LEN)?;
        self.tail.get(start..start.checked_add(len)?)
    }

    /// Returns the contents of a block.
    fn block(&self, handle: Handle) -> Result<Buffer> {
        let raw = self.raw(handle)?;
        let (footer, allocation) = (&self.footer, self.allocation);
        block_fetcher::unpack(&raw, handle, footer, None, true, allocation, &self.meter)
            .map_err(|error| self.bad(error, handle.offset))
    }

    /// Returns the contents of an index block, or of one with the same encoding.
    fn index_block(&self, handle: Handle, form: IndexForm) -> Result<Buffer> {
        let (block, version) = (self.block(handle)?, self.footer.version);
        block_fetcher::without_prefix(block, EntryForm::Index(form), version, self.allocation)
            .map_err(|error| self.bad(error, handle.offset))
    }
}

/// Returns the metadata block at `handle`, held by the table unless it belongs in the cache. `form`
/// is the encoding of its entries if it is an index.
fn part(
    opening: &Opening<'_>,
    params: &OpenParams,
    (handle, form): (Handle, Option<IndexForm>),
    tier: Tier,
) -> Result<MetaBlock> {
    let cached = params.options.cache_index_and_filter_blocks && params.cache.is_some();
    if cached && !is_pinned(&params.options, params.level, tier) {
        return Ok(MetaBlock { handle, held: None });
    }
    let held = match form {
        Some(form) => guarded_index(opening.index_block(handle, form)?, form, params),
        None => opening.block(handle)?,
    };
    let held = Some(held);
    Ok(MetaBlock { handle, held })
}

/// Returns the encoding of the index blocks, or of those of a partitioned filter; only the former may
/// have first keys.
fn index_form(footer: &Footer, properties: &Properties, first_keys: bool) -> IndexForm {
    IndexForm {
        user_keys: properties.index_key_is_user_key != 0,
        delta_values: properties.index_value_is_delta_encoded != 0,
        first_keys,
        escaped: footer.version >= ESCAPES_SINCE,
    }
}

/// Returns the size of the key words of a typical data block; 0 if keys are not compared as stored, bytewise apart from
/// timestamps.
fn words(properties: &Properties, order: &KeyOrder, global_seqno: Option<SequenceNumber>) -> u64 {
    if order.bytewise_before_timestamp().is_none() || global_seqno.is_some() {
        return 0;
    }
    let usual = properties
        .num_entries
        .div_ceil(properties.num_data_blocks.max(1));
    // Plus one, because the count per block varies by one even if all entries have the same length.
    DataWords::encoded_len(usual.saturating_add(1))
}

/// A table that is to be opened, once the end of its file has been read.
///
/// A caller that opens several tables executes the requests of all of them together.
pub struct UnopenedTable {
    file: Arc<dyn RandomAccessFile>,
    len: u64,
    params: OpenParams,
    tail_len: u64,
    /// The charge of the read.
    reading: Option<CacheCharge>,
}

impl UnopenedTable {
    /// The table in `file`, which has `len` bytes.
    #[must_use]
    pub fn new(file: Arc<dyn RandomAccessFile>, len: u64, params: OpenParams) -> UnopenedTable {
        let tail_len = params
            .tail_size
            .unwrap_or(DEFAULT_TAIL)
            .clamp(FOOTER_LEN as u64, MAX_TAIL)
            .min(len);
        // The tail contains what the table will hold.
        let reading = params.charge(MemoryUse::ReadInProgress, tail_len as usize);
        UnopenedTable {
            file,
            len,
            params,
            tail_len,
            reading,
        }
    }

    /// Returns the request for the end of the file.
    #[must_use]
    pub fn request(&self) -> ReadRequest {
        let at = self.len - self.tail_len;
        ReadRequest {
            allocation: Allocation::of_kind(self.params.memory_kind()),
            ..ReadRequest::new(self.file.clone(), at, self.tail_len as usize)
        }
    }

    /// Opens the table with the end of its file, `tail`. What is not there is read by `io`. If the data read is
    /// damaged, all of it is read once more before the damage is reported, because not every part of a footer has
    /// a checksum.
    ///
    /// # Errors
    ///
    /// `Corruption` with file, offset, expected and found values; `NotSupported` for unsupported formats;
    /// `InvalidArgument` for a table with another key order.
    pub fn open(self, tail: Result<Buffer>, io: &Io) -> Result<Arc<Table>> {
        let (file, len, params) = (self.file.clone(), self.len, self.params.clone());
        match self.open_once(tail, io) {
            Err(error) if matches!(error.code(), Code::Corruption | Code::NotSupported) => {
                let again = UnopenedTable::new(file, len, params);
                let tail = io.read_now(&again.request());
                again.open_once(tail, io).map_err(|_| error)
            }
            opened => opened,
        }
    }

    fn open_once(self, tail: Result<Buffer>, io: &Io) -> Result<Arc<Table>> {
        let UnopenedTable {
            file,
            len,
            params,
            tail_len,
            reading,
        } = self;
        let (tail, tail_at) = (tail?, len - tail_len);
        params.meter.update(|update| {
            update.record(Histogram::TableOpenPrefetchTailReadBytes, tail_len);
        });
        if FlatFormat::recognize(&tail).is_some() {
            drop((tail, reading));
            let mut table = image::open(&file, len, params, io)?;
            let bytes = table.memory_usage();
            table.charge = table.params.charge(MemoryUse::TableReader, bytes);
            return Ok(Arc::new(table));
        }
        let footer = Footer::decode(&tail, len).map_err(|error| {
            params.meter.add(Ticker::SstFooterCorruptionCount, 1);
            error.in_file(file.path().display(), tail_at)
        })?;
        let limit = len - footer.encoded_len() as u64;
        let opening = Opening {
            file: &file,
            io,
            tail,
            tail_at,
            footer,
            limit,
            allocation: Allocation::of_kind(params.memory_kind()),
            meter: params.meter.clone(),
        };
        let mut table = opening.table(params)?;
        table.pin_partitions(|handle| opening.in_tail(handle), io)?;
        drop((opening, reading));
        let bytes = table.memory_usage();
        table.charge = table.params.charge(MemoryUse::TableReader, bytes);
        Ok(Arc::new(table))
    }
}

impl Table {
    /// Opens the table in `file`, which has `len` bytes; see [`UnopenedTable::open`].
    ///
    /// # Errors
    ///
    /// Those of [`UnopenedTable::open`].
    pub fn open(
        file: Arc<dyn RandomAccessFile>,
        len: u64,
        params: OpenParams,
        io: &Io,
    ) -> Result<Arc<Table>> {
        let unopened = UnopenedTable::new(file, len, params);
        let tail = io.read_now(&unopened.request());
        unopened.open(tail, io)
    }

    /// Returns the properties of the table in `file`, which has `len` bytes, without opening it. Reads a few
    /// kilobytes at the end of the file.
    ///
    /// # Errors
    ///
    /// `IoError`; `Corruption` with file and offset; `NotSupported` for unsupported formats.
    pub fn read_properties(
        file: &Arc<dyn RandomAccessFile>,
        len: u64,
        io: &Io,
    ) -> Result<Properties> {
        let tail_at = len - PROPERTIES_TAIL.min(len);
        let tail = ReadRequest::new(file.clone(), tail_at, (len - tail_at) as usize);
        let tail = io.read_now(&tail)?;
        if FlatFormat::recognize(&tail).is_some() {
            return image::read_properties(file, &tail, len, io);
        }
        let footer = Footer::decode(&tail, len)
            .map_err(|error| error.in_file(file.path().display(), tail_at))?;
        let opening = Opening {
            file,
            io,
            tail,
            tail_at,
            footer,
            limit: len - footer.encoded_len() as u64,
            allocation: Allocation::default(),
            meter: Meter::default(),
        };
        opening.properties(&opening.parts()?)
    }
}

impl Opening<'_> {
    /// Returns the metaindex.
    fn parts(&self) -> Result<MetaIndex> {
        let metaindex = self.footer.metaindex;
        let raw = self.raw(metaindex)?;
        block_fetcher::contents(&raw, metaindex, &self.footer, &self.meter)
            .and_then(|block| MetaIndex::decode(&block, self.limit))
            .map_err(|error| self.bad(error, metaindex.offset))
    }

    fn table(&self, params: OpenParams) -> Result<Table> {
        let parts = self.parts()?;
        let properties = self.properties(&parts)?;
        let id = unique_id(&properties);
        check_unique_id(self.file, &params, id)?;
        let stripped = self.timestamps_stripped(&params, &properties)?;
        let order = crate::stripped_order(&params.order, stripped)?;
        let pad = if stripped {
            params.order.timestamp_size()
        } else {
            0
        };
        let global_seqno = global_seqno(self.file, &params, &properties)?;
        let index = self.index(&params, &parts, &properties)?;
        let filter = self.filter(&params, &parts, &properties)?;
        let dictionary = match parts.find(meta::COMPRESSION_DICT) {
            Some(handle) => Some(Dictionary::new(self.block(handle)?.to_vec())),
            None => None,
        };
        let tombstones = self.tombstones(&params, &parts, pad, global_seqno)?;
        let prefix_extractor = params
            .prefix_extractor
            .clone()
            .filter(|extractor| properties.prefix_extractor == *extractor.name());
        Ok(Table {
            file: self.file.clone(),
            footer: self.footer,
            limit: self.limit,
            cache_file: cache_file(&params, id),
            metadata_priority: metadata_priority(&params.options),
            words: match params.block_checksum_len {
                0 => words(&properties, &order, global_seqno),
                // The tail of a block has checksums instead.
                _ => 0,
            },
            properties,
            parts,
            order,
            pad,
            global_seqno,
            index,
            filter,
            dictionary,
            tombstones,
            prefix_extractor,
            image: None,
            read_amp: ReadAmp::new(params.options.read_amp_bytes_per_bit, &params.meter),
            charge: None,
            params,
        })
    }

    fn properties(&self, parts: &MetaIndex) -> Result<Properties> {
        let Some(handle) = parts.find(meta::PROPERTIES) else {
            if self.footer.version < 2 {
                return Ok(Properties::default());
            }
            let missing = Malformed::at(0, "metaindex without a properties block");
            return Err(self.bad(missing, self.footer.metaindex.offset));
        };
        let bad = |error: Malformed| self.bad(error, handle.offset);
        let raw = self.raw(handle)?;
        let block = block_fetcher::properties_of(&raw, handle, &self.footer).map_err(bad)?;
        let mut properties = Properties::decode(&block).map_err(bad)?;
        if properties.global_seqno.is_some()
            && let Some(place) = Properties::find_global_seqno(&block)
        {
            properties.global_seqno_at = handle.offset + place.start as u64;
        }
        if properties.index_kind.is_none() && self.footer.version >= 2 {
            return Err(bad(Malformed::at(0, "properties without an index type")));
        }
        Ok(properties)
    }

    /// True if keys lack the timestamps that the order requires. Rejects other orders.
    fn timestamps_stripped(&self, params: &OpenParams, properties: &Properties) -> Result<bool> {
        let (ours, theirs) = (params.order.name(), &properties.comparator[..]);
        if theirs.is_empty() || ours == theirs {
            let has_timestamps = params.order.timestamp_size() > 0;
            return Ok(properties.timestamps_stripped && has_timestamps);
        }
        if ours.strip_suffix(".u64ts") == Some(theirs) {
            return Ok(true);
        }
        // An order without timestamps is accepted if the file never stored any.
        if theirs.strip_suffix(".u64ts") == Some(ours) && properties.timestamps_stripped {
            return Ok(false);
        }
        Err(Error::invalid_argument(format!(
            "key order of {}: expected {ours}, found {theirs}",
            self.file.path().display()
        )))
    }

    fn index(
        &self,
        params: &OpenParams,
        parts: &MetaIndex,
        properties: &Properties,
    ) -> Result<Index> {
        let handle = self.footer.index.or_else(|| parts.find(meta::INDEX));
        let handle = handle.ok_or_else(|| {
            let missing = Malformed::at(0, "metaindex without an index");
            self.bad(missing, self.footer.metaindex.offset)
        })?;
        let kind = properties.index_kind.unwrap_or_default();
        let form = index_form(&self.footer, properties, kind == IndexKind::FirstKey);
        let two_level = kind == IndexKind::TwoLevel;
        let tier = if two_level {
            Tier::TopLevel
        } else {
            Tier::Whole
        };
        Ok(Index {
            form,
            two_level,
            root: part(self, params, (handle, Some(form)), tier)?,
            words: RootWords::default(),
            partitions: Vec::new(),
        })
    }

    fn filter(
        &self,
        params: &OpenParams,
        parts: &MetaIndex,
        properties: &Properties,
    ) -> Result<Option<Filter>> {
        let (handle, partitioned) = if let Some(handle) = parts.filter(meta::FULL_FILTER) {
            (handle, false)
        } else if let Some(handle) = parts.filter(meta::PARTITIONED_FILTER) {
            (handle, true)
        } else {
            return Ok(None);
        };
        let tier = if partitioned {
            Tier::TopLevel
        } else {
            Tier::Whole
        };
        let form = index_form(&self.footer, properties, false);
        let root_form = partitioned.then_some(form);
        let mut root = part(self, params, (handle, root_form), tier)?;
        let whole = match partitioned {
            true => None,
            false => root.held.take(),
        };
        Ok(Some(Filter {
            bits: whole.map(|block| Bits::new(&block)),
            root,
            partitions: Vec::new(),
            partitioned,
            form,
            whole_keys: properties.whole_key_filtering != Some(false),
            prefixes: properties.prefix_filtering != Some(false),
        }))
    }

    fn tombstones(
        &self,
        params: &OpenParams,
        parts: &MetaIndex,
        pad: usize,
        global: Option<SequenceNumber>,
    ) -> Result<Option<Arc<Fragments>>> {
        let Some(handle) = parts.find(meta::RANGE_DEL) else {
            return Ok(None);
        };
        let block = self.block(handle)?;
        let bad = |error: Malformed| self.bad(error, handle.offset);
        if pad == 0 {
            let fragments = Fragments::decode(&block, &params.order, global).map_err(bad)?;
            return Ok(Some(Arc::new(fragments)));
        }
        let layout = BlockLayout::parse(&block, BlockKind::Meta).map_err(bad)?;
        let mut cursor = DataCursor::new().with_global_seqno(global);
        let mut tombstones = Vec::new();
        cursor.first(&block, &layout).map_err(bad)?;
        while cursor.valid() {
            let mut start = Vec::new();
            crate::pad_internal(cursor.key(&block), pad, &mut start);
            let mut end = cursor.value(&block).to_vec();
            end.resize(end.len() + pad, 0);
            tombstones.push(Tombstone::decode(&start, &end, pad).map_err(bad)?);
            cursor.next(&block, &layout).map_err(bad)?;
        }
        Ok(Some(Arc::new(Fragments::build(&params.order, tombstones))))
    }
}

/// Compares the unique id of the table in `file` with that in the MANIFEST.
pub(super) fn check_unique_id(
    file: &Arc<dyn RandomAccessFile>,
    params: &OpenParams,
    found: Option<UniqueId>,
) -> Result<()> {
    let Some(expected) = params.expected_unique_id else {
        return Ok(());
    };
    let found = found.map(|id| id.short());
    if found == Some(expected) {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "unique id of {}: expected {:016x}-{:016x} as in the MANIFEST, found {}",
        file.path().display(),
        expected[0],
        expected[1],
        found.map_or("none".to_owned(), |id| format!(
            "{:016x}-{:016x}",
            id[0], id[1]
        )),
    )))
}

/// Returns the sequence number of every entry of an external file.
pub(super) fn global_seqno(
    file: &Arc<dyn RandomAccessFile>,
    params: &OpenParams,
    properties: &Properties,
) -> Result<Option<SequenceNumber>> {
    if !properties.has_global_seqno() {
        return Ok(None);
    }
    let stored = properties.global_seqno.unwrap_or_default();
    match params.largest_seq {
        Some(largest) if stored == SequenceNumber::ZERO => Ok(Some(largest)),
        Some(largest) if stored != largest => Err(Error::corruption(format!(
            "global sequence number of {}: expected {largest} as in the MANIFEST, found {stored}",
            file.path().display()
        ))),
        _ => Ok(Some(stored)),
    }
}

/// Returns the base of the cache keys of this file: its hashed unique id, so that keys of different
/// files do not collide, or a process-wide number for files without an id. The flash cache, which outlives the
/// process, recognises such numbers by their size.
pub(super) fn cache_file(params: &OpenParams, id: Option<UniqueId>) -> [u64; 2] {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    match id {
        Some(id) => {
            let [first, second, _] = id.external();
            [first, second]
        }
        None => {
            // Relaxed: the numbers only need to be distinct.
            let unique = NEXT.fetch_add(1, Ordering::Relaxed);
            [unique, params.number.0.rotate_right(16)]
        }
    }
}
