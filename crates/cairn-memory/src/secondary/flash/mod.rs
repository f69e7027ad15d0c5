//! The flash tier: entries in files of a local device, kept across restarts.
//!
//! ```text
//!  insert ──► pending entries ──► segment under construction ──► file of the oldest segment
//!             in memory           in memory, one job              overwritten from its start
//!                  │                     ▲                               │
//!  lookup ◄────────┴── index ◄───────────┼───────────────────────────────┤
//!                                        └── entries that were hit ◄─────┘
//! ```
//!
//! **Files.** The device is used as a log of segments of one size. Each is a file of its own, whose space is
//! allocated once, because the file system interface only appends or overwrites from the start. Separate
//! files also work with encrypted and simulated file systems, allow the cache to shrink, and confine damage.
//! There are at most as many files as segments in the capacity.
//!
//! **Writing.** An insertion keeps a reference to the bytes and returns. A job compresses the entries, fills
//! a segment in memory, and writes it over the oldest one. Entries hit since they were written are first
//! copied to the new segment, up to half of it; all others of the oldest segment are evicted. Insertions are
//! rejected while too many bytes wait to be written.
//!
//! **Admission.** An entry is stored if it was hit in the tier above, or when it is offered for the second
//! time, so that a scan writes nothing and does not wear the device.
//!
//! **Crashes.** Nothing is synced. A segment is valid if its header and its table match their checksums; a
//! record is verified when it is read, including its key and generation. After a crash of the process or the
//! machine, an entry is therefore either as it was inserted, or absent ([`cairn_format::cache_segment`]). A
//! restart reads the headers and tables, not the records.
//!
//! **Faults.** Errors of the file system are not returned to readers. They disable the cache: all entries are
//! dropped, [`FlashCache::disabled`] returns the reason, and the callback in the options is called with it. A
//! record that does not match its checksum is dropped, and the cache continues to work.
//!
//! **Keys.** Blocks of tables without a unique id have keys that contain a number of this process
//! ([`is_process_local`]). They would denote other blocks after a restart, and are not stored.
//!
//! **Cost.** An entry takes 37 to 65 bytes of memory. A lookup is a search in a sharded hash table and, if
//! the entry is found, a read of one record. The read is the caller's ([`DeviceRead`]): point lookups execute it like
//! those of their tables, in batches or asynchronously. Capacity and usage refer to the device; [`FlashCacheStats`] has
//! the memory.
//!
//! **Security.** Blocks are written in plain text unless the file system encrypts.
//!
//! # The crate `foyer`
//!
//! `foyer` is a mature hybrid cache with a similar design: blocks of a device written in turn, an index of
//! 64-bit hashes, reinsertion, quiet recovery. It is not used, for these reasons (version 0.22):
//!
//! - Its devices return raw file descriptors, on which its engines make system calls. That rules out
//!   simulated crashes and faults, and encryption.
//! - It runs on tokio: flushing and reclaiming are tasks of a runtime, and a lookup is a future. The engine
//!   has no runtime, and the threads that look up entries must not wait for one.
//! - It uses the clock and the random numbers of the operating system, so simulated runs would not be
//!   reproducible.
//! - It adds some 90 crates to a library that has about 20.

mod files;
mod index;
mod writer;

use std::path::PathBuf;

use cairn_compress::{CodecOptions, Compression};
use cairn_format::cache_segment::{
    HEADER_LEN, RECORD_HEADER_LEN, ROW_LEN, SegmentRecord, SegmentRow,
};
use cairn_platform::fs::FileLock;
use cairn_platform::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, OnceLock, Ordering};
use cairn_platform::{Buffer, Executor, Priority, ReadRequest, World};
use cairn_types::{Code, Error, Result};

use super::codec::Codec;
use super::{
    Bytes, CacheTier, DeviceRead, Found, LookupCounts, Offer, Removal, SecondaryCache, Sought,
    TierCounts, hash_of,
};
use crate::cache::{CacheKey, CachePriority, CacheRole};
use files::{FoundSegment, SegmentFiles};
use index::{IndexShard, Located, Place};
use writer::{Intake, Writer};

/// The entries that a flash cache stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlashAdmission {
    /// Entries with a hit in the tier above, and entries offered for the second time.
    #[default]
    Merit,
    /// All entries.
    All,
}

/// A function called with the reason when a cache is disabled.
pub type DisabledCallback = Arc<dyn Fn(&Error) + Send + Sync>;

/// Options of a [`FlashCache`].
#[derive(Clone)]
pub struct FlashCacheOptions {
    /// The directory, used by this cache only.
    pub dir: PathBuf,
    /// The capacity of the device in bytes. At least two segments.
    pub capacity: usize,
    /// The size of a segment in bytes. Larger ones wear the device less; one is held in memory while it is
    /// filled.
    pub segment_size: usize,
    /// The maximum number of bytes of entries waiting to be written.
    pub write_buffer_size: usize,
    /// The codec for entries that are not yet compressed.
    pub compression: Compression,
    /// Options of the codec.
    pub codec: CodecOptions,
    /// Roles stored without compression.
    pub do_not_compress_roles: Vec<CacheRole>,
    /// The entries to store.
    pub admission: FlashAdmission,
    /// True to bypass the page cache.
    pub direct_io: bool,
    /// The identity of the content: segments of another identity are ignored at a restart, so a change
    /// discards the content.
    pub identity: [u8; 16],
    /// Called when the cache is disabled by a fault of the device.
    pub on_disabled: Option<DisabledCallback>,
}

impl Default for FlashCacheOptions {
    fn default() -> FlashCacheOptions {
        FlashCacheOptions {
            dir: PathBuf::new(),
            capacity: 0,
            segment_size: 4 << 20,
            write_buffer_size: 16 << 20,
            compression: Compression::FAST,
            codec: CodecOptions::default(),
            do_not_compress_roles: vec![CacheRole::Filter],
            admission: FlashAdmission::Merit,
            direct_io: false,
            identity: [0; 16],
            on_disabled: None,
        }
    }
}

impl std::fmt::Debug for FlashCacheOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlashCacheOptions")
            .field("dir", &self.dir)
            .field("capacity", &self.capacity)
            .field("segment_size", &self.segment_size)
            .finish_non_exhaustive()
    }
}

/// Counters of a [`FlashCache`] that are not per role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashCacheStats {
    /// Offers that only recorded a key.
    pub placeholders: u64,
    /// Entries found at a restart.
    pub restored: u64,
    /// Segments written.
    pub segments_written: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Entries copied from a segment that was about to be overwritten, because they were hit.
    pub reinsertions: u64,
    /// Entries dropped because their records were damaged.
    pub lost: u64,
    /// Bytes of entries in memory, waiting to be written.
    pub pending_bytes: usize,
    /// Memory used: the index, recorded keys, and entries waiting to be written.
    pub memory_usage: usize,
}

/// Numbers that replace the unique id of a table without one are below this.
const PROCESS_LOCAL: u64 = 1 << 40;

/// True if `key` is valid in this process only: the table has no unique id, and a number of the process takes
/// its place. Also true, by chance, for one in 2²⁴ of the other keys.
fn is_process_local(key: &CacheKey) -> bool {
    key.high < PROCESS_LOCAL
}

/// The base-2 logarithm of the number of shards of the index.
const SHARD_BITS: u32 = 6;

/// The memory for recorded keys: a share of the capacity, one key per 4 KiB, and its limits.
const KEYS_SHARE: usize = 1024;
const MIN_KEYS_BYTES: usize = 16 << 10;
const MAX_KEYS_BYTES: usize = 16 << 20;

/// The minimum number of segments: one is overwritten while the others are read.
const MIN_SEGMENTS: usize = 2;

/// The flash tier; see the module's documentation. Dropping it writes all pending entries.
pub struct FlashCache {
    inner: Arc<Inner>,
}

/// The cache, shared with its job.
struct Inner {
    settings: Settings,
    shards: Box<[Padded]>,
    files: SegmentFiles,
    executor: Arc<dyn Executor>,
    capacity: AtomicUsize,
    /// The number of segment files.
    segments: AtomicUsize,
    intake: Mutex<Intake>,
    /// Locked by the job while it runs. Never acquired with another lock held. The lock of the intake may be
    /// acquired with a shard's lock held.
    writer: Mutex<Writer>,
    /// Bytes of memory held by pending entries.
    pending_bytes: AtomicUsize,
    /// True when disabled or closed.
    stopped: AtomicBool,
    disabled: OnceLock<Error>,
    on_disabled: Option<DisabledCallback>,
    /// The lock of the directory, until the cache is closed. The job shares it while it runs.
    lock: Mutex<Option<Arc<dyn FileLock>>>,
    counters: Counters,
}

/// The options that stay as they were when the cache was opened.
struct Settings {
    segment_size: usize,
    write_buffer_size: usize,
    codec: Codec,
    /// Roles stored without compression, by number.
    plain_roles: [bool; CacheRole::ALL.len()],
    admission: FlashAdmission,
    identity: [u8; 16],
}

impl Settings {
    fn new(options: &FlashCacheOptions) -> Result<Settings> {
        let mut plain_roles = [false; CacheRole::ALL.len()];
        for role in &options.do_not_compress_roles {
            plain_roles[*role as usize] = true;
        }
        Ok(Settings {
            segment_size: options.segment_size,
            write_buffer_size: options.write_buffer_size,
            codec: Codec::new(options.compression, options.codec)?,
            plain_roles,
            admission: options.admission,
            identity: options.identity,
        })
    }
}

/// Counters of [`FlashCacheStats`].
#[derive(Default)]
struct Counters {
    restored: AtomicU64,
    segments_written: AtomicU64,
    bytes_written: AtomicU64,
    reinsertions: AtomicU64,
    lost: AtomicU64,
}

/// A shard on cache lines of its own.
#[repr(align(128))]
struct Padded(Mutex<IndexShard>);

impl FlashCache {
    /// Opens the cache in the directory of `options`, with the entries left by earlier processes.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the capacity is less than two segments, or a segment is smaller than 4 KiB or
    /// larger than 1 GiB; `IoError` if the directory cannot be created or locked, or surplus files cannot be
    /// deleted. Damaged content is not an error.
    pub fn open(options: &FlashCacheOptions, world: &World) -> Result<FlashCache> {
        check(options)?;
        let (files, lock) = SegmentFiles::open(
            Arc::clone(&world.fs),
            options.dir.clone(),
            options.direct_io,
            options.identity,
            options.segment_size,
        )?;
        let shards = 1usize << SHARD_BITS;
        let keys = (options.capacity / KEYS_SHARE).clamp(MIN_KEYS_BYTES, MAX_KEYS_BYTES) / shards;
        let inner = Inner {
            settings: Settings::new(options)?,
            shards: (0..shards)
                .map(|_| Padded(Mutex::new(IndexShard::new(keys))))
                .collect(),
            files,
            executor: Arc::clone(&world.executor),
            capacity: AtomicUsize::new(options.capacity),
            segments: AtomicUsize::new(0),
            intake: Mutex::default(),
            writer: Mutex::default(),
            pending_bytes: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            disabled: OnceLock::new(),
            on_disabled: options.on_disabled.clone(),
            lock: Mutex::new(Some(Arc::from(lock))),
            counters: Counters::default(),
        };
        inner.executor.reserve(Priority::User, 1);
        inner.restore()?;
        Ok(FlashCache {
            inner: Arc::new(inner),
        })
    }

    /// The reason for which the cache is disabled, or `None` if it is enabled.
    #[must_use]
    pub fn disabled(&self) -> Option<&Error> {
        self.inner.disabled.get()
    }

    /// Returns the counters that are not per role.
    #[must_use]
    pub fn stats(&self) -> FlashCacheStats {
        self.inner.stats()
    }

    /// Writes all pending entries and closes the cache: later lookups and insertions find and store nothing.
    pub fn close(&self) {
        self.inner.close();
    }
}

impl Drop for FlashCache {
    fn drop(&mut self) {
        self.close();
    }
}

fn check(options: &FlashCacheOptions) -> Result<()> {
    let (least, most) = (4 << 10, 1 << 30);
    let size = options.segment_size;
    if !(least..=most).contains(&size) {
        return Err(Error::invalid_argument(format!(
            "segment_size of the flash cache: expected {least} to {most}, found {size}"
        )));
    }
    let least = size * MIN_SEGMENTS;
    if options.capacity < least {
        return Err(Error::invalid_argument(format!(
            "capacity of the flash cache: expected at least {least}, which is {MIN_SEGMENTS} segments, found {}",
            options.capacity
        )));
    }
    Ok(())
}

/// The role with the number `role`, or `Other`.
fn role_of(role: u8) -> CacheRole {
    let known = CacheRole::ALL.get(usize::from(role));
    known.copied().unwrap_or(CacheRole::Other)
}

/// The priority with the number `priority`, or the lowest.
fn priority_of(priority: u8) -> CachePriority {
    match priority {
        2 => CachePriority::High,
        1 => CachePriority::Low,
        _ => CachePriority::Bottom,
    }
}

/// The bytes in a record, which is compressed by `codec`.
fn bytes_of(codec: Compression, record: &SegmentRecord<'_>) -> Bytes {
    match codec {
        Compression::None => Bytes::Plain(Buffer::from(record.payload)),
        codec => Bytes::Compressed {
            bytes: Arc::from(record.payload),
            codec,
            len: record.raw_len,
        },
    }
}

impl Inner {
    fn shard(&self, hash: u64) -> &Mutex<IndexShard> {
        // The index and the recorded keys use the lower bits; these are the highest.
        &self.shards[(hash >> (64 - SHARD_BITS)) as usize].0
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// The number of segments that the capacity permits.
    fn max_segments(&self) -> usize {
        // Relaxed: a change takes effect when the job sees it.
        self.capacity.load(Ordering::Relaxed) / self.settings.segment_size
    }

    /// Fills the index with the segments found, oldest first. Files beyond the capacity are deleted.
    fn restore(&self) -> Result<()> {
        let mut writer = self.writer.lock();
        let mut found: Vec<FoundSegment> = Vec::new();
        for number in self.files.list()? {
            match self.files.restore(number) {
                Some(segment) => found.push(segment),
                None => writer.add_free(number),
            }
        }
        found.sort_by_key(|segment| segment.generation);
        for segment in found {
            let FoundSegment {
                number,
                generation,
                rows,
            } = segment;
            let rows = rows
                .into_iter()
                .filter(|row| !is_process_local(&key_of(row)));
            let tags = rows.map(|row| self.restore_row(number, &row)).collect();
            writer.add_found(number, generation, tags);
        }
        self.segments.store(writer.segments(), Ordering::Relaxed);
        writer.trim(self)
    }

    /// Adds a row of a segment to the index. Returns the hash of its key.
    fn restore_row(&self, segment: u32, row: &SegmentRow) -> u64 {
        let hash = hash_of(&key_of(row));
        let place = Place {
            segment,
            offset: row.offset,
            len: row.len,
            role: role_of(row.role),
            hit: false,
        };
        self.shard(hash).lock().restore(hash, place);
        // Relaxed, here and below: counters.
        self.counters.restored.fetch_add(1, Ordering::Relaxed);
        hash
    }

    /// Stops the cache because of `error`, and drops all entries.
    #[cold]
    fn disable(&self, error: Error) {
        self.stopped.store(true, Ordering::Release);
        if self.disabled.set(error).is_err() {
            return;
        }
        self.drop_all(Removal::Evicted);
        self.files.close();
        if let (Some(callback), Some(error)) = (&self.on_disabled, self.disabled.get()) {
            callback(error);
        }
    }

    fn drop_all(&self, reason: Removal) {
        self.intake.lock().clear();
        for shard in &self.shards {
            let held = shard.0.lock().clear(reason);
            self.pending_bytes.fetch_sub(held, Ordering::Relaxed);
        }
    }

    /// Reads the record at `place` into `bytes` and verifies it. Returns `None` if it is damaged or the device
    /// failed.
    fn read<'b>(&self, place: Place, bytes: &'b mut Vec<u8>) -> Option<SegmentRecord<'b>> {
        let segment = self.files.segment(place.segment)?;
        // At most the size of a segment: the row was checked.
        bytes.resize(place.len as usize, 0);
        match segment.file.read_at(u64::from(place.offset), bytes) {
            Ok(got) if got == bytes.len() => {}
            Ok(_) => return None,
            Err(error) => {
                self.disable(error);
                return None;
            }
        }
        SegmentRecord::decode(bytes, segment.generation).ok()
    }

    /// Removes the entry of `hash` if it is still at `place`, which does not hold it.
    fn lose(&self, hash: u64, place: Place) {
        if self.shard(hash).lock().lose(hash, place) {
            self.counters.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The read of the record at `place`.
    fn read_of(self: &Arc<Inner>, hash: u64, key: CacheKey, place: Place) -> Option<DeviceRead> {
        let Some(segment) = self.files.segment(place.segment) else {
            self.lose(hash, place);
            return None;
        };
        let inner = self.clone();
        // At most the size of a segment: the row was checked.
        let request = ReadRequest::new(segment.file, place.offset.into(), place.len as usize);
        Some(DeviceRead::new(request, move |bytes| {
            inner.finish_read(hash, &key, (place, segment.generation), bytes)
        }))
    }

    /// Completes the read of the record at a place of a generation.
    fn finish_read(
        &self,
        hash: u64,
        key: &CacheKey,
        (place, generation): (Place, u64),
        bytes: Result<Buffer>,
    ) -> Result<Option<Found>> {
        let found = match bytes {
            Ok(bytes) => found_in(&bytes, key, generation),
            Err(error) => match error.code() {
                Code::IoError => {
                    self.disable(error);
                    None
                }
                // The file ends early.
                Code::Corruption => None,
                // Of the caller: a deadline, or a read that was not executed.
                _ => return Err(error),
            },
        };
        match &found {
            // The cache may have been disabled or cleared in the meantime; the bytes are right in any case.
            Some(_) => self.shard(hash).lock().count_hit(place.role),
            None => self.lose(hash, place),
        }
        Ok(found)
    }

    fn stats(&self) -> FlashCacheStats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let pending_bytes = self.pending_bytes.load(Ordering::Relaxed);
        let mut stats = FlashCacheStats {
            placeholders: 0,
            restored: load(&self.counters.restored),
            segments_written: load(&self.counters.segments_written),
            bytes_written: load(&self.counters.bytes_written),
            reinsertions: load(&self.counters.reinsertions),
            lost: load(&self.counters.lost),
            pending_bytes,
            memory_usage: pending_bytes,
        };
        for shard in &self.shards {
            let shard = shard.0.lock();
            stats.placeholders += shard.placeholders;
            stats.memory_usage += shard.memory_usage();
        }
        stats
    }
}

/// The entry of `key` in the record `bytes`. `None` if it is damaged or another one.
fn found_in(bytes: &[u8], key: &CacheKey, generation: u64) -> Option<Found> {
    let record = SegmentRecord::decode(bytes, generation).ok()?;
    if record.key != [key.high, key.low] {
        return None;
    }
    let stored = bytes_of(Compression::from_u8(record.codec)?, &record);
    Some(Found {
        buffer: stored.expand()?,
        role: role_of(record.role),
        priority: priority_of(record.priority),
        keep: true,
        stored,
    })
}

fn key_of(row: &SegmentRow) -> CacheKey {
    CacheKey {
        high: row.key[0],
        low: row.key[1],
    }
}

impl SecondaryCache for FlashCache {
    fn insert(&self, offer: &Offer<'_>) -> bool {
        let inner = &self.inner;
        if inner.is_stopped()
            || offer.lowest < CacheTier::NonVolatileBlock
            || is_process_local(&offer.key)
        {
            return false;
        }
        let hash = hash_of(&offer.key);
        let memory = offer.bytes.memory_usage();
        let longest = inner.settings.segment_size - HEADER_LEN - ROW_LEN - RECORD_HEADER_LEN;
        let mut shard = inner.shard(hash).lock();
        if shard.contains(hash) {
            return true;
        }
        // Checked again: all entries are dropped once, after the flag is set.
        if inner.is_stopped() {
            return false;
        }
        let merit = offer.hit || inner.settings.admission == FlashAdmission::All;
        if !shard.was_recorded(hash) && !merit {
            shard.record(hash);
            shard.placeholders += 1;
            return false;
        }
        if offer.bytes.stored().len() > longest || !inner.enqueue(hash, memory) {
            shard.refuse(hash, offer.role);
            return false;
        }
        // The job finds the entry when it gets the lock.
        shard.add(hash, offer);
        inner.pending_bytes.fetch_add(memory, Ordering::Relaxed);
        drop(shard);
        inner.wake();
        true
    }

    fn seek(
        &self,
        key: &CacheKey,
        promote: bool,
        lowest: CacheTier,
        _counts: &mut LookupCounts,
    ) -> Sought<Found> {
        let inner = &self.inner;
        if inner.is_stopped() || lowest < CacheTier::NonVolatileBlock {
            return Sought::Absent;
        }
        let hash = hash_of(key);
        let located = inner.shard(hash).lock().locate(hash, key, promote);
        let found = match located {
            None => None,
            Some(Located::Placed(place)) => {
                let read = inner.read_of(hash, *key, place);
                return read.map_or(Sought::Absent, Sought::OnDevice);
            }
            Some(Located::Pending(pending)) => pending.bytes.expand().map(|buffer| Found {
                buffer,
                role: pending.role,
                priority: pending.priority,
                keep: promote,
                stored: pending.bytes,
            }),
        };
        found.map_or(Sought::Absent, Sought::Found)
    }

    fn found_on_device(
        &self,
        _key: &CacheKey,
        found: Found,
        promote: bool,
        _counts: &mut LookupCounts,
    ) -> Found {
        Found {
            keep: promote,
            ..found
        }
    }

    fn contains(&self, key: &CacheKey) -> bool {
        let hash = hash_of(key);
        self.inner.shard(hash).lock().contains(hash)
    }

    fn erase(&self, key: &CacheKey) -> bool {
        let hash = hash_of(key);
        let erased = self.inner.shard(hash).lock().erase(hash);
        if let Some(held) = erased {
            self.inner.pending_bytes.fetch_sub(held, Ordering::Relaxed);
        }
        erased.is_some()
    }

    fn clear(&self) {
        self.inner.drop_all(Removal::Erased);
    }

    fn usage(&self) -> usize {
        self.inner.segments.load(Ordering::Relaxed) * self.inner.settings.segment_size
    }

    fn capacity(&self) -> usize {
        self.inner.capacity.load(Ordering::Relaxed)
    }

    /// A lower capacity takes effect in the background.
    fn set_capacity(&self, capacity: usize) {
        self.inner.capacity.store(capacity, Ordering::Relaxed);
        self.inner.schedule();
    }

    fn role_counts(&self, role: CacheRole) -> TierCounts {
        let mut sum = TierCounts::default();
        for shard in &self.inner.shards {
            sum.add(&shard.0.lock().counts(role));
        }
        sum
    }
}

impl std::fmt::Debug for FlashCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "FlashCache({} of {} bytes, {} entries)",
            self.usage(),
            self.capacity(),
            self.counts().entries
        )
    }
}

#[cfg(test)]
mod tests;
