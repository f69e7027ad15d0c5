//! Cache tiers below the block cache: compressed memory, and a local flash device.
//!
//! The block cache offers each entry that it evicts to a [`SecondaryCache`], and searches it after a miss. A
//! tier may reject an entry: it selects entries by merit, since most evicted blocks are never read again and
//! would displace those that are.
//!
//! - [`CompressedSecondaryCache`] keeps entries compressed in memory. It may have a tier below it.
//! - [`FlashCache`] keeps entries in files, across restarts.
//! - [`compressed_share`] divides one capacity, less the charges to it, between a block cache and the compressed
//!   tier (RocksDB's tiered cache).
//!
//! A tier never fails: if it cannot return an entry, for any reason, the entry is absent. No lock is held
//! while a tier compresses, decompresses, or accesses a file.
//!
//! A search of a tier on a device can be split: [`SecondaryCache::seek`] returns the read that it needs
//! ([`DeviceRead`]), which its caller performs in its own way, such as in one batch with other reads.
//!
//! Equal keys imply equal bytes ([`CacheKey`]). An entry that is found in a tier is therefore never stale, and
//! the same entry may be in several tiers at a time.

mod codec;
mod compressed;
mod division;
mod flash;
mod recent_keys;

use cairn_compress::Compression;
use cairn_platform::sync::Arc;
use cairn_platform::{Allocation, Buffer, ReadRequest};
use cairn_types::Result;

use crate::cache::{CacheKey, CachePriority, CacheRole};

pub use compressed::{
    AdmissionPolicy, CompressedCacheOptions, CompressedCacheStats, CompressedSecondaryCache,
};
pub use division::{checked_ratio, compressed_share};
pub use flash::{FlashAdmission, FlashCache, FlashCacheOptions, FlashCacheStats};

/// A cache tier that a database may use, from fastest to slowest (RocksDB's `CacheTier`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum CacheTier {
    /// The block cache (`kVolatileTier`).
    Volatile = 0,
    /// Compressed memory (`kVolatileCompressedTier`).
    VolatileCompressed = 1,
    /// Flash (`kNonVolatileBlockTier`).
    #[default]
    NonVolatileBlock = 2,
}

/// The bytes of an entry, shared.
#[derive(Clone, Debug)]
pub enum Bytes {
    /// As in the block cache, without the tail of the buffer, which is derived from the rest.
    Plain(Buffer),
    /// Compressed by a tier, which does not need the header of a buffer.
    Compressed {
        /// The compressed bytes.
        bytes: Arc<[u8]>,
        /// The codec, which is not [`Compression::None`].
        codec: Compression,
        /// The length of the decompressed bytes.
        len: u32,
    },
}

impl Bytes {
    /// The bytes as they are stored.
    #[must_use]
    pub fn stored(&self) -> &[u8] {
        match self {
            Bytes::Plain(buffer) => buffer,
            Bytes::Compressed { bytes, .. } => bytes,
        }
    }

    /// The memory in use, with the rounding of glibc's allocator.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        /// The header of an allocation, and of a buffer, and two reference counts.
        const ALLOCATION: usize = 8;
        const BUFFER: usize = 64;
        const COUNTS: usize = 16;
        let rounded = |len: usize| (len + ALLOCATION).next_multiple_of(16).max(32);
        match self {
            Bytes::Plain(buffer) => BUFFER + rounded(buffer.memory_usage()),
            Bytes::Compressed { bytes, .. } => rounded(COUNTS + bytes.len()),
        }
    }

    /// The decompressed bytes. `None` if they are damaged.
    fn expand(&self) -> Option<Buffer> {
        match self {
            Bytes::Plain(buffer) => Some(buffer.clone()),
            Bytes::Compressed { bytes, codec, len } => {
                // At least 32 bits on every supported platform.
                codec::expand(*codec, bytes, *len as usize)
            }
        }
    }

    /// Returns the bytes in an allocation of their own length, without a tail.
    fn trimmed(&self) -> Bytes {
        match self {
            Bytes::Plain(buffer) if buffer.memory_usage() != buffer.len() => {
                let allocation = Allocation::of_kind(buffer.memory_kind());
                Bytes::Plain(Buffer::copy_of(buffer, allocation))
            }
            bytes => bytes.clone(),
        }
    }
}

/// An entry offered to a tier.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// The key.
    pub key: CacheKey,
    /// The bytes.
    pub bytes: &'a Bytes,
    /// The role.
    pub role: CacheRole,
    /// The priority in the block cache.
    pub priority: CachePriority,
    /// True if the entry was hit in the tier above since it was inserted there.
    pub hit: bool,
    /// The lowest tier that may keep the entry.
    pub lowest: CacheTier,
}

/// An entry found in a tier.
#[derive(Clone, Debug)]
pub struct Found {
    /// The bytes, decompressed.
    pub buffer: Buffer,
    /// The role.
    pub role: CacheRole,
    /// The priority in the block cache.
    pub priority: CachePriority,
    /// True if the entry should be inserted into the block cache. Otherwise it has been used too rarely, and
    /// the buffer is exclusive to the caller.
    pub keep: bool,
    /// The bytes as the tier stores them.
    stored: Bytes,
}

/// The result of [`SecondaryCache::seek`].
#[derive(Debug)]
pub enum Sought<T> {
    /// The entry is absent.
    Absent,
    /// The entry is in memory.
    Found(T),
    /// The entry is on a device.
    OnDevice(DeviceRead),
}

/// The read of an entry from a device. An abandoned one has no effect.
pub struct DeviceRead {
    request: ReadRequest,
    finish: Box<FinishRead>,
}

/// The function that completes a read.
type FinishRead = dyn FnOnce(Result<Buffer>) -> Result<Option<Found>> + Send + Sync;

impl DeviceRead {
    /// A read that `finish` completes.
    fn new(
        request: ReadRequest,
        finish: impl FnOnce(Result<Buffer>) -> Result<Option<Found>> + Send + Sync + 'static,
    ) -> DeviceRead {
        DeviceRead {
            request,
            finish: Box::new(finish),
        }
    }

    /// The request to execute.
    #[must_use]
    pub fn request(&self) -> &ReadRequest {
        &self.request
    }

    /// Completes the read with the result of the request. Returns `None` if the entry is damaged or the device
    /// failed.
    ///
    /// # Errors
    ///
    /// Errors that are not the device's: `TimedOut`, and those of a read that was not executed.
    pub(crate) fn finish(self, bytes: Result<Buffer>) -> Result<Option<Found>> {
        (self.finish)(bytes)
    }
}

impl std::fmt::Debug for DeviceRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "DeviceRead({} bytes at {})",
            self.request.len, self.request.offset
        )
    }
}

/// Events of lookups, for the statistics of the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupCounts {
    /// Entries found in compressed memory.
    pub compressed_hits: u32,
    /// Misses of compressed memory for which an earlier eviction had recorded the key.
    pub placeholder_hits: u32,
    /// Hits below compressed memory that were offered to it.
    pub hits_below_offered: u32,
    /// Hits below compressed memory that were not offered to it.
    pub hits_below_skipped: u32,
}

/// Counters of the entries of one role in a tier, since it was created.
///
/// `insertions = evictions + erasures + entries` at any time at which no call is in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierCounts {
    /// Bytes of entries, in their stored form.
    pub usage: u64,
    /// Entries present.
    pub entries: u64,
    /// Lookups that found an entry.
    pub hits: u64,
    /// Entries inserted. For flash, this includes those found at a restart.
    pub insertions: u64,
    /// Entries admitted by merit that did not fit or could not be stored.
    pub refusals: u64,
    /// Entries dropped by the tier: for lack of space, or because their content was lost.
    pub evictions: u64,
    /// Entries removed by their owner, and entries that moved to the block cache.
    pub erasures: u64,
}

impl TierCounts {
    /// Adds `other` to these.
    pub fn add(&mut self, other: &TierCounts) {
        self.usage += other.usage;
        self.entries += other.entries;
        self.hits += other.hits;
        self.insertions += other.insertions;
        self.refusals += other.refusals;
        self.evictions += other.evictions;
        self.erasures += other.erasures;
    }

    /// Records the insertion of an entry of `len` stored bytes.
    fn inserted(&mut self, len: usize) {
        self.insertions += 1;
        self.entries += 1;
        self.usage += len as u64;
    }

    /// Records the removal of an entry of `len` stored bytes, for the given reason.
    fn removed(&mut self, len: usize, reason: Removal) {
        debug_assert!(self.entries > 0, "the entry was counted");
        match reason {
            Removal::Evicted => self.evictions += 1,
            Removal::Erased => self.erasures += 1,
        }
        self.entries -= 1;
        self.usage -= len as u64;
    }
}

/// The reason for which an entry leaves a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Removal {
    Evicted,
    Erased,
}

/// A cache below the block cache. Shared between threads; every method may be called at any time.
///
/// 1. A lookup returns the bytes that were inserted under the key, or nothing.
/// 2. `usage` does not exceed `capacity`, except while a lower capacity takes effect.
/// 3. The counters of each role add up ([`TierCounts`]).
/// 4. No method panics or returns an error, regardless of failures of the device below.
pub trait SecondaryCache: Send + Sync {
    /// Offers an entry that the tier above evicted. Returns true if this tier has the entry now.
    fn insert(&self, offer: &Offer<'_>) -> bool;

    /// Offers an entry that was read from storage because no tier had it.
    fn fill(&self, offer: &Offer<'_>) {
        let _ = offer;
    }

    /// Searches the tiers down to `lowest` for the entry of `key`, without reading a device. With `promote`, an
    /// entry that is used repeatedly is returned with [`Found::keep`] and may be removed from this tier; without,
    /// it stays. Adds to `counts`.
    fn seek(
        &self,
        key: &CacheKey,
        promote: bool,
        lowest: CacheTier,
        counts: &mut LookupCounts,
    ) -> Sought<Found>;

    /// Completes the search of an entry that was read from the device of this tier or of one below. Adds to
    /// `counts`.
    fn found_on_device(
        &self,
        key: &CacheKey,
        found: Found,
        promote: bool,
        counts: &mut LookupCounts,
    ) -> Found {
        let _ = (key, promote, counts);
        found
    }

    /// Returns the entry of `key` like [`SecondaryCache::seek`], reading a device on the calling thread.
    fn search(
        &self,
        key: &CacheKey,
        promote: bool,
        lowest: CacheTier,
        counts: &mut LookupCounts,
    ) -> Option<Found> {
        match self.seek(key, promote, lowest, counts) {
            Sought::Absent => None,
            Sought::Found(found) => Some(found),
            Sought::OnDevice(read) => {
                let bytes = read.request().read_now();
                // A read on this thread is executed.
                let found = read.finish(bytes).ok()??;
                Some(self.found_on_device(key, found, promote, counts))
            }
        }
    }

    /// [`SecondaryCache::search`] without counts.
    fn lookup(&self, key: &CacheKey, promote: bool, lowest: CacheTier) -> Option<Found> {
        self.search(key, promote, lowest, &mut LookupCounts::default())
    }

    /// True if the tier has `key`. Does not count as a lookup.
    fn contains(&self, key: &CacheKey) -> bool;

    /// Removes the entry of `key`. Returns true if there was one.
    fn erase(&self, key: &CacheKey) -> bool;

    /// Removes all entries.
    fn clear(&self);

    /// Bytes in use, overhead included.
    fn usage(&self) -> usize;

    /// The capacity in bytes.
    fn capacity(&self) -> usize;

    /// Changes the capacity, and evicts entries beyond it.
    fn set_capacity(&self, capacity: usize);

    /// The counters of entries of `role`.
    fn role_counts(&self, role: CacheRole) -> TierCounts;

    /// The tier itself, if it is the compressed tier.
    fn as_compressed(&self) -> Option<&CompressedSecondaryCache> {
        None
    }

    /// The counters of all entries.
    fn counts(&self) -> TierCounts {
        let mut all = TierCounts::default();
        for role in CacheRole::ALL {
            all.add(&self.role_counts(role));
        }
        all
    }
}

/// A hash of all 128 bits of `key`. Not stored anywhere.
fn hash_of(key: &CacheKey) -> u64 {
    let a = u128::from(key.high ^ 0x8ebc_6af0_9c88_c6e3);
    let b = u128::from(key.low ^ 0x5895_58cd_6bdf_7a15);
    let product = a.wrapping_mul(b);
    // Truncation is intended: the two halves of the product are folded.
    let folded = (product as u64) ^ ((product >> 64) as u64);
    (folded ^ key.high.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
