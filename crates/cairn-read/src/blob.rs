//! Values in blob files: the blob files that are open, and the cache of blobs.
//!
//! A blob is cached as reads hand it out: the whole record where values are stored as they are, the
//! decompressed value where they are not, so that a hit is a pointer and nothing is copied. Blobs
//! are the first to leave a cache that they share with blocks.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use cairn_blob::BlobFile;
use cairn_compress::Compression;
use cairn_format::blob::{BlobIndex, RECORD_HEADER_LEN, encode_record};
use cairn_format::names;
use cairn_memory::{BlockCache, CacheKey, CachePriority, CacheRole};
use cairn_observe::files::{ReadOf, counted_reads};
use cairn_observe::perf::{self, PerfMetric};
use cairn_observe::statistics::{Histogram, Meter, Ticker, Update};
use cairn_options::{ReadOptions, ReadTier};
use cairn_platform::fs::FileMode;
use cairn_platform::sync::Mutex;
use cairn_platform::{Buffer, FileSystem, Io, ReadRequest};
use cairn_types::{Error, FileNumber, Result};

use crate::value::Value;

/// The cache of a family's blobs.
#[derive(Clone, Debug)]
pub struct BlobCache {
    /// Where they are kept.
    pub cache: Arc<BlockCache>,
    /// A random number: what tells this opening of the family's files from all others that use
    /// the cache.
    pub salt: u64,
}

/// The reach of a read for a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobReadOptions {
    /// True if the blob enters the cache.
    pub fill_cache: bool,
    /// True if only the cache may be asked.
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

/// Reads values out of a family's blob files, and keeps the files open.
pub struct BlobSource {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    mode: FileMode,
    cache: Option<BlobCache>,
    open: Mutex<HashMap<FileNumber, Arc<BlobFile>>>,
    meter: Meter,
}

/// The file number of blobs that lie in the table that refers to them.
const EMBEDDED: FileNumber = FileNumber(0);

impl BlobSource {
    /// A source of the blob files in `dir`.
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
        }
    }

    /// The source, with what counts and measures its reads.
    #[must_use]
    pub fn counting(mut self, meter: Meter) -> BlobSource {
        self.meter = meter;
        self
    }

    fn update_stats(&self, change: impl FnOnce(&Update<'_>)) {
        self.meter.update(change);
    }

    /// Where the blob file with this number lies.
    #[must_use]
    pub fn path(&self, number: FileNumber) -> PathBuf {
        self.dir.join(names::blob(number))
    }

    /// The cache of blobs, if there is one.
    #[must_use]
    pub fn cache(&self) -> Option<&Arc<BlockCache>> {
        self.cache.as_ref().map(|cache| &cache.cache)
    }

    /// The blob file with this number, opened if it was not.
    ///
    /// # Errors
    ///
    /// `IoError`, or `Corruption` if it is no blob file.
    pub fn file(&self, number: FileNumber) -> Result<Arc<BlobFile>> {
        if let Some(file) = self.open.lock().get(&number) {
            return Ok(file.clone());
        }
        if number == EMBEDDED {
            return Err(Error::not_supported("values embedded in a table file"));
        }
        // Opened without the lock: two readers may both do it, and one of them wins.
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

    /// The value of `user_key` (timestamp included) that the encoded `index` leads to.
    ///
    /// # Errors
    ///
    /// `Corruption` if the index or what it leads to is damaged, those of [`BlobSource::file`],
    /// and `Incomplete` if the blob is not in the only place that `options` allow to look.
    pub fn read(
        &self,
        index: &[u8],
        user_key: &[u8],
        io: &Io,
        options: BlobReadOptions,
    ) -> Result<Value> {
        match self.locate(index, user_key, options)? {
            Located::Cached(value) => Ok(value),
            Located::InFile(place, request) => {
                self.complete(&place, user_key, io.read_now(&request)?)
            }
        }
    }

    /// The value of `user_key` (timestamp included) that the encoded `index` leads to, if it is in
    /// the cache, or what must be read for it.
    ///
    /// # Errors
    ///
    /// Those of [`BlobSource::read`], but for those of reading.
    pub fn locate(
        &self,
        index: &[u8],
        user_key: &[u8],
        options: BlobReadOptions,
    ) -> Result<Located> {
        let index = BlobIndex::decode(index).map_err(|e| e.in_file("a blob index", 0))?;
        if let Some(cache) = &self.cache
            && let Some(buffer) = cache.cache.lookup(&cache.key(&index), CacheRole::Blob)
            && let Some(range) = cached_value(&index, user_key, &buffer)
        {
            self.update_stats(|update| {
                update.add(Ticker::BlobDbCacheHit, 1);
                update.add(Ticker::BlobDbCacheBytesRead, buffer.len() as u64);
            });
            perf::count(|perf| {
                perf.add(PerfMetric::BlobCacheHitCount, 1);
                perf.add(PerfMetric::BlobCacheReadByte, buffer.len() as u64);
            });
            return Ok(Located::Cached(Value::in_block(buffer, range)));
        }
        if self.cache.is_some() {
            self.update_stats(|update| update.add(Ticker::BlobDbCacheMiss, 1));
        }
        if options.cache_only {
            return Err(Error::incomplete(
                "the value lies in a blob file, which read_tier forbids",
            ));
        }
        let file = self.file(index.file)?;
        let request = file.request(&index, user_key)?;
        let place = PendingBlob {
            file,
            index,
            fill_cache: options.fill_cache,
        };
        Ok(Located::InFile(place, request))
    }

    /// The value of `user_key` at `place`, of the bytes that were read for it.
    ///
    /// # Errors
    ///
    /// `Corruption` if they are damaged or another key's.
    pub fn complete(&self, place: &PendingBlob, user_key: &[u8], record: Buffer) -> Result<Value> {
        let bytes = record.len() as u64;
        perf::count(|perf| {
            perf.add(PerfMetric::BlobReadCount, 1);
            perf.add(PerfMetric::BlobReadByte, bytes);
        });
        self.update_stats(|update| update.add(Ticker::BlobDbBlobFileBytesRead, bytes));
        let is_compressed = place.index.compression != Compression::None as u8;
        let began = is_compressed.then(|| self.meter.began());
        let value = place.file.complete(&place.index, user_key, record)?;
        if let Some(began) = began {
            self.meter
                .time_since(began, Histogram::BlobDbDecompressionMicros);
        }
        let (buffer, range) = value.into_parts();
        if let Some(cache) = &self.cache
            && place.fill_cache
        {
            let kept = cache.insert(&place.index, buffer.clone());
            self.update_stats(|update| count_insertion(update, kept, buffer.len()));
        }
        Ok(Value::in_block(buffer, range))
    }

    /// Puts `value` of `user_key`, which was just written, into the cache.
    pub fn warm(&self, index: &BlobIndex, user_key: &[u8], value: &[u8]) {
        let Some(cache) = &self.cache else { return };
        let bytes = if index.compression == Compression::None as u8 {
            let mut record = Vec::new();
            encode_record(user_key, value, &mut record);
            record
        } else {
            value.to_vec()
        };
        let len = bytes.len();
        let kept = cache.insert(index, bytes.into());
        self.update_stats(|update| count_insertion(update, kept, len));
    }

    /// Closes a blob file that has become obsolete.
    pub fn forget(&self, number: FileNumber) {
        self.open.lock().remove(&number);
    }
}

/// Where a value of a blob file is.
pub enum Located {
    /// In memory.
    Cached(Value),
    /// In its file: what these bytes are read for.
    InFile(PendingBlob, ReadRequest),
}

/// A value in a blob file that was not read yet.
pub struct PendingBlob {
    file: Arc<BlobFile>,
    index: BlobIndex,
    fill_cache: bool,
}

impl BlobCache {
    fn key(&self, index: &BlobIndex) -> CacheKey {
        // Odd, so that different files of one opening have different halves.
        let file = index.file.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        CacheKey {
            high: self.salt.wrapping_add(file),
            low: index.offset,
        }
    }

    /// Puts a blob into the cache. Whether it is kept is the cache's affair.
    fn insert(&self, index: &BlobIndex, buffer: Buffer) -> bool {
        let key = self.key(index);
        self.cache
            .insert(key, buffer, CacheRole::Blob, CachePriority::Bottom)
    }
}

/// A blob of `len` bytes was put into the cache, which has kept it or not.
fn count_insertion(update: &Update<'_>, kept: bool, len: usize) {
    match kept {
        true => {
            update.add(Ticker::BlobDbCacheAdd, 1);
            update.add(Ticker::BlobDbCacheBytesWrite, len as u64);
        }
        false => update.add(Ticker::BlobDbCacheAddFailures, 1),
    }
}

/// Where in a cached buffer the value of `user_key` at `index` lies. `None` if it cannot be there:
/// an index that is damaged may lead to something else.
fn cached_value(index: &BlobIndex, user_key: &[u8], buffer: &Buffer) -> Option<Range<usize>> {
    if index.compression != Compression::None as u8 {
        return Some(0..buffer.len());
    }
    let start = RECORD_HEADER_LEN + user_key.len();
    let is_record = buffer.len().checked_sub(start)? as u64 == index.size
        && buffer[RECORD_HEADER_LEN..start] == *user_key;
    is_record.then_some(start..buffer.len())
}
