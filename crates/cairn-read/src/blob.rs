//! Values in blob files: the open blob files of a family, and the blob cache.
//!
//! The cache holds blobs in the form in which reads return them, so that a hit copies nothing: the
//! whole record if values are uncompressed, the decompressed value otherwise. In a cache shared
//! with blocks, blobs are evicted first.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use cairn_blob::BlobFile;
use cairn_compress::Compression;
use cairn_format::blob::{BlobIndex, RECORD_HEADER_LEN, encode_record};
use cairn_format::names;
use cairn_memory::secondary::{CacheTier, DeviceRead, LookupCounts, Sought};
use cairn_memory::{
    BlockCache, CacheCharge, CacheKey, CachePriority, CacheRole, ChargePolicy, MemoryUse,
};
use cairn_observe::files::{ReadOf, counted_reads};
use cairn_observe::perf::{self, PerfMetric};
use cairn_observe::statistics::{Histogram, Meter, Ticker, Update};
use cairn_options::{ReadOptions, ReadTier};
use cairn_platform::fs::FileMode;
use cairn_platform::sync::Mutex;
use cairn_platform::{Allocation, Buffer, FileSystem, Io, MemoryKind, ReadRequest};
use cairn_table::count_lookup_below;
use cairn_types::{Error, FileNumber, Result};

use crate::value::Value;

/// The blob cache of a family.
#[derive(Clone, Debug)]
pub struct BlobCache {
    /// The cache, possibly shared with blocks.
    pub cache: Arc<BlockCache>,
    /// A random number that distinguishes this opening of the family from other users of the cache.
    pub salt: u64,
    /// The lowest tier of the cache in use.
    pub lowest_tier: CacheTier,
}

/// Options of a blob read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobReadOptions {
    /// True if the blob is inserted into the cache.
    pub fill_cache: bool,
    /// True if only the cache may be read.
    pub cache_only: bool,
}

impl Default for BlobReadOptions {
    fn default() -> BlobReadOptions {
        BlobReadOptions {
            fill_cache: true,
            cache_only: false,
        }
    }
}

impl From<&ReadOptions> for BlobReadOptions {
    fn from(options: &ReadOptions) -> BlobReadOptions {
        BlobReadOptions {
            fill_cache: options.fill_cache,
            cache_only: options.read_tier == ReadTier::BlockCache,
        }
    }
}

/// Reads values from the blob files of a family, and keeps the files open.
pub struct BlobSource {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    mode: FileMode,
    cache: Option<BlobCache>,
    open: Mutex<HashMap<FileNumber, Arc<BlobFile>>>,
    meter: Meter,
    charge: ChargePolicy,
}

/// The file number of blobs embedded in the table that refers to them.
const EMBEDDED: FileNumber = FileNumber(0);

impl BlobSource {
    /// A source for the blob files in `dir`.
    #[must_use]
    pub fn new(
        fs: Arc<dyn FileSystem>,
        dir: PathBuf,
        mode: FileMode,
        cache: Option<BlobCache>,
    ) -> BlobSource {
        BlobSource {
            fs,
            dir,
            mode,
            cache,
            open: Mutex::new(HashMap::new()),
            meter: Meter::default(),
            charge: ChargePolicy::default(),
        }
    }

    /// Sets the block cache that reads of blobs, and the blob cache, are charged to.
    #[must_use]
    pub fn charging(mut self, policy: ChargePolicy) -> BlobSource {
        if let Some(blobs) = &self.cache
            && let Some(blocks) = policy.cache_of(MemoryUse::BlobCache)
        {
            blobs.cache.charge_to(blocks, MemoryUse::BlobCache);
        }
        self.charge = policy;
        self
    }

    /// Sets the meter for statistics and timings of reads.
    #[must_use]
    pub fn counting(mut self, meter: Meter) -> BlobSource {
        self.meter = meter;
        self
    }

    fn update_stats(&self, change: impl FnOnce(&Update<'_>)) {
        self.meter.update(change);
    }

    /// The path of the blob file `number`.
    #[must_use]
    pub fn path(&self, number: FileNumber) -> PathBuf {
        self.dir.join(names::blob(number))
    }

    /// The blob cache, if there is one.
    #[must_use]
    pub fn cache(&self) -> Option<&Arc<BlockCache>> {
        self.cache.as_ref().map(|cache| &cache.cache)
    }

    /// The kind of memory of values: that of the cache, also for those that the cache does not hold.
    fn memory_kind(&self) -> MemoryKind {
        let options = self.cache().map(|cache| cache.options());
        options.map_or(MemoryKind::default(), |options| options.memory)
    }

    /// True if the blob file `number` was opened by [`BlobSource::open_unsealed`], and is open.
    #[must_use]
    pub fn is_unsealed(&self, number: FileNumber) -> bool {
        let open = self.open.lock();
        open.get(&number).is_some_and(|file| !file.is_sealed())
    }

    /// True if the blob file `number` is open.
    pub(crate) fn is_open(&self, number: FileNumber) -> bool {
        self.open.lock().contains_key(&number)
    }

    /// The blob file `number`, opened if necessary.
    ///
    /// # Errors
    ///
    /// `IoError`, or `Corruption` if it is not a blob file.
    pub fn file(&self, number: FileNumber) -> Result<Arc<BlobFile>> {
        if let Some(file) = self.open.lock().get(&number) {
            return Ok(file.clone());
        }
        if number == EMBEDDED {
            return Err(Error::not_supported("values embedded in a table file"));
        }
        // The lock is not held while opening: if two readers open the file, one of the results is
        // dropped.
        let opened = self.fs.open(&self.path(number), self.mode);
        let opened = opened
            .map(|file| counted_reads(file, &self.meter, ReadOf::Blob))
            .and_then(|file| BlobFile::open(file, number));
        self.update_stats(|update| {
            update.add(Ticker::NoFileOpens, 1);
            update.add(Ticker::NoFileErrors, u64::from(opened.is_err()));
        });
        let file = Arc::new(opened?);
        Ok(self.open.lock().entry(number).or_insert(file).clone())
    }

    /// Opens the blob file `number`, which may have no footer (yet), for [`BlobSource::file`] and for reads.
    ///
    /// # Errors
    ///
    /// Those of [`BlobFile::open_unsealed`].
    pub fn open_unsealed(&self, number: FileNumber) -> Result<Arc<BlobFile>> {
        if let Some(file) = self.open.lock().get(&number) {
            return Ok(file.clone());
        }
        // Neither a mapping nor direct reads suit a file that grows.
        let file = self.fs.open(&self.path(number), FileMode::default())?;
        let file = counted_reads(file, &self.meter, ReadOf::Blob);
        let file = Arc::new(BlobFile::open_unsealed(file, number)?);
        Ok(self.open.lock().entry(number).or_insert(file).clone())
    }

    /// Reads the value of `user_key` (including its timestamp) that the encoded `index` refers to.
    ///
    /// # Errors
    ///
    /// `Corruption` if the index or the blob is damaged, those of [`BlobSource::file`], and
    /// `Incomplete` if the blob is not cached and `options` allow only the cache.
    pub fn read(
        &self,
        index: &[u8],
        user_key: &[u8],
        io: &Io,
        options: BlobReadOptions,
    ) -> Result<Value> {
        self.read_located(self.locate(index, user_key, options)?, user_key, io)
    }

    /// Executes the read of `located`, if it needs one, and returns the value of `user_key`.
    ///
    /// # Errors
    ///
    /// Those of [`BlobSource::read`].
    pub(crate) fn read_located(
        &self,
        mut located: Located,
        user_key: &[u8],
        io: &Io,
    ) -> Result<Value> {
        loop {
            match located {
                Located::Cached(value) => return Ok(value),
                Located::InFile(place, request) => {
                    let read = self.read_again(io.read_now(&request), &request, io);
                    located = self.complete(place, user_key, read)?;
                }
            }
        }
    }

    /// Returns `read`, the result of `request`, or that of another attempt if it failed in the background.
    pub(crate) fn read_again(
        &self,
        read: Result<Buffer>,
        request: &ReadRequest,
        io: &Io,
    ) -> Result<Buffer> {
        if read.is_ok() || request.started().is_none() {
            return read;
        }
        self.update_stats(|update| update.add(Ticker::AsyncReadErrorCount, 1));
        // Its result was collected: this reads on the calling thread.
        io.read_now(request)
    }

    /// Returns the value of `user_key` (including its timestamp) that the encoded `index` refers to
    /// if it is cached, or else the read that obtains it.
    ///
    /// # Errors
    ///
    /// Those of [`BlobSource::read`], except for those of reading the blob.
    pub fn locate(
        &self,
        index: &[u8],
        user_key: &[u8],
        options: BlobReadOptions,
    ) -> Result<Located> {
        let index = BlobIndex::decode(index).map_err(|e| e.in_file("a blob index", 0))?;
        let sought = match &self.cache {
            Some(cache) => cache.seek(&index, &self.meter),
            None => Sought::Absent,
        };
        match sought {
            Sought::Absent => {}
            Sought::Found(buffer) => {
                if let Some(value) = self.value_in_cache(&index, user_key, buffer) {
                    return Ok(Located::Cached(value));
                }
            }
            Sought::OnDevice(read) => {
                let request = read.request().clone();
                let place = PendingBlob {
                    _charge: self.charge.charge(MemoryUse::ReadInProgress, request.len),
                    source: Source::Device(Box::new(read)),
                    index,
                    options,
                };
                return Ok(Located::InFile(place, request));
            }
        }
        self.locate_in_file(index, user_key, options)
    }

    /// Returns the value of `user_key` at `index` in `buffer`, which was in the cache or a tier below.
    fn value_in_cache(&self, index: &BlobIndex, user_key: &[u8], buffer: Buffer) -> Option<Value> {
        let range = cached_value(index, user_key, &buffer)?;
        self.update_stats(|update| {
            update.add(Ticker::BlobDbCacheHit, 1);
            update.add(Ticker::BlobDbCacheBytesRead, range.len() as u64);
        });
        perf::count(|perf| {
            perf.add(PerfMetric::BlobCacheHitCount, 1);
            perf.add(PerfMetric::BlobCacheReadByte, range.len() as u64);
        });
        Some(Value::in_block(buffer, range))
    }

    /// Returns the read of the value at `index`, which is not cached, from its file.
    fn locate_in_file(
        &self,
        index: BlobIndex,
        user_key: &[u8],
        options: BlobReadOptions,
    ) -> Result<Located> {
        if self.cache.is_some() {
            self.update_stats(|update| update.add(Ticker::BlobDbCacheMiss, 1));
        }
        if options.cache_only {
            return Err(Error::incomplete(
                "the value is in a blob file, and read_tier forbids reading it",
            ));
        }
        let file = self.file(index.file)?;
        let mut request = file.request(&index, user_key)?;
        request.allocation.kind = self.memory_kind();
        let place = PendingBlob {
            _charge: self.charge.charge(MemoryUse::ReadInProgress, request.len),
            source: Source::File(file),
            index,
            options,
        };
        Ok(Located::InFile(place, request))
    }

    /// True if the value that the encoded `index` refers to is cached. Does not count as a lookup.
    pub(crate) fn is_cached(&self, index: &[u8]) -> bool {
        let Some(cache) = &self.cache else {
            return false;
        };
        BlobIndex::decode(index).is_ok_and(|index| cache.cache.contains(&cache.key(&index)))
    }

    /// Decodes the value of `user_key` at `place` from `read`, the result of its request. Returns another read if the
    /// value was on the device of a cache tier, and is lost there.
    ///
    /// # Errors
    ///
    /// That of the read; `Corruption` if the bytes are damaged or belong to another key.
    pub fn complete(
        &self,
        place: PendingBlob,
        user_key: &[u8],
        read: Result<Buffer>,
    ) -> Result<Located> {
        let PendingBlob {
            source,
            index,
            options,
            ..
        } = place;
        let device = match source {
            Source::File(file) => {
                let value = self.complete_from_file(&file, &index, user_key, read?, options)?;
                return Ok(Located::Cached(value));
            }
            Source::Device(device) => device,
        };
        let found = match &self.cache {
            Some(cache) => cache.finish(&index, (*device, read), &self.meter)?,
            None => None,
        };
        match found.and_then(|buffer| self.value_in_cache(&index, user_key, buffer)) {
            Some(value) => Ok(Located::Cached(value)),
            None => self.locate_in_file(index, user_key, options),
        }
    }

    fn complete_from_file(
        &self,
        file: &BlobFile,
        index: &BlobIndex,
        user_key: &[u8],
        record: Buffer,
        options: BlobReadOptions,
    ) -> Result<Value> {
        let bytes = record.len() as u64;
        perf::count(|perf| {
            perf.add(PerfMetric::BlobReadCount, 1);
            perf.add(PerfMetric::BlobReadByte, bytes);
        });
        self.update_stats(|update| update.add(Ticker::BlobDbBlobFileBytesRead, bytes));
        let is_compressed = index.compression != Compression::None as u8;
        let began = is_compressed.then(|| self.meter.began());
        let value = file.complete(index, user_key, record)?;
        if let Some(began) = began {
            self.meter
                .time_since(began, Histogram::BlobDbDecompressionMicros);
        }
        let (buffer, range) = value.into_parts();
        if let Some(cache) = &self.cache
            && options.fill_cache
        {
            let kept = cache.insert(index, buffer.clone());
            self.update_stats(|update| count_insertion(update, kept, range.len()));
        }
        Ok(Value::in_block(buffer, range))
    }

    /// Inserts `value` of `user_key`, which was just written, into the cache.
    pub fn warm(&self, index: &BlobIndex, user_key: &[u8], value: &[u8]) {
        let Some(cache) = &self.cache else { return };
        let bytes = if index.compression == Compression::None as u8 {
            let mut record = Vec::new();
            encode_record(user_key, value, &mut record);
            record
        } else {
            value.to_vec()
        };
        let allocation = Allocation::of_kind(self.memory_kind());
        let kept = cache.insert(index, Buffer::copy_of(&bytes, allocation));
        self.update_stats(|update| count_insertion(update, kept, value.len()));
    }

    /// Closes an obsolete blob file.
    pub fn forget(&self, number: FileNumber) {
        self.open.lock().remove(&number);
    }
}

/// The location of a blob value.
pub enum Located {
    /// In memory.
    Cached(Value),
    /// In its file, or on the device of a cache tier: the pending blob and the read that obtains it.
    InFile(PendingBlob, ReadRequest),
}

/// A blob value that has to be read.
pub struct PendingBlob {
    source: Source,
    index: BlobIndex,
    options: BlobReadOptions,
    /// The charge of the read, made before it.
    _charge: Option<CacheCharge>,
}

/// The place of a blob value.
enum Source {
    File(Arc<BlobFile>),
    /// The device of a tier of the blob cache.
    Device(Box<DeviceRead>),
}

impl PendingBlob {
    /// The number of the file.
    pub(crate) fn file_number(&self) -> usize {
        self.index.file.0 as usize
    }
}

impl BlobCache {
    fn key(&self, index: &BlobIndex) -> CacheKey {
        // The factor is odd, so the products of different file numbers differ.
        let file = index.file.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        CacheKey {
            high: self.salt.wrapping_add(file),
            low: index.offset,
        }
    }

    /// Returns a blob, from a tier below if the cache does not have it, or its read from the device of a tier.
    fn seek(&self, index: &BlobIndex, meter: &Meter) -> Sought<Buffer> {
        let key = self.key(index);
        if let Some(found) = self.cache.lookup(&key, CacheRole::Blob) {
            return Sought::Found(found);
        }
        if !self.cache.has_tier() {
            return Sought::Absent;
        }
        let mut counts = LookupCounts::default();
        let sought = (self.cache).seek_below(&key, self.lowest_tier, &mut counts);
        let is_found = matches!(sought, Sought::Found(_));
        count_lookup_below(meter, &counts, is_found.then_some(CacheRole::Blob));
        sought
    }

    /// Completes a read from the device of a tier. Returns `None` if the tier has lost the blob.
    fn finish(
        &self,
        index: &BlobIndex,
        read: (DeviceRead, Result<Buffer>),
        meter: &Meter,
    ) -> Result<Option<Buffer>> {
        let key = self.key(index);
        let mut counts = LookupCounts::default();
        let found = (self.cache).finish_below(&key, self.lowest_tier, read, &mut counts)?;
        let found_role = found.is_some().then_some(CacheRole::Blob);
        count_lookup_below(meter, &counts, found_role);
        Ok(found)
    }

    /// Inserts a blob into the cache. Returns false if the cache rejects it.
    fn insert(&self, index: &BlobIndex, buffer: Buffer) -> bool {
        let key = self.key(index);
        let (role, priority) = (CacheRole::Blob, CachePriority::Bottom);
        self.cache
            .insert_down_to(key, buffer, role, priority, self.lowest_tier)
            .is_kept()
    }
}

/// Records the insertion of a value of `len` bytes, or its rejection.
fn count_insertion(update: &Update<'_>, kept: bool, len: usize) {
    match kept {
        true => {
            update.add(Ticker::BlobDbCacheAdd, 1);
            update.add(Ticker::BlobDbCacheBytesWrite, len as u64);
        }
        false => update.add(Ticker::BlobDbCacheAddFailures, 1),
    }
}

/// The range of the value of `user_key` at `index` within a cached buffer. `None` if the buffer is
/// not that of the key: a damaged index may refer to another blob.
fn cached_value(index: &BlobIndex, user_key: &[u8], buffer: &Buffer) -> Option<Range<usize>> {
    if index.compression != Compression::None as u8 {
        return Some(0..buffer.len());
    }
    let start = RECORD_HEADER_LEN + user_key.len();
    let is_record = buffer.len().checked_sub(start)? as u64 == index.size
        && buffer[RECORD_HEADER_LEN..start] == *user_key;
    is_record.then_some(start..buffer.len())
}
