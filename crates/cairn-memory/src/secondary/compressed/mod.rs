//! The compressed tier: entries evicted from the block cache, compressed, in memory.
//!
//! **Admission.** The first eviction of an entry only records its key; the second stores it. An entry is thus
//! stored if it was read again after its eviction from the block cache, and a scan leaves only keys behind.
//! RocksDB's other policies ([`AdmissionPolicy`]) differ in the entries that skip the first step.
//!
//! **Promotion.** The first hit decompresses an entry for the caller and leaves it in this tier. The second
//! moves it to the block cache, and its key is recorded, so that its next eviction stores it at once.
//!
//! **Eviction** is that of S3-FIFO. Entries with merit (a recorded key, or hits in the block cache) are
//! inserted into the main queue, others into a small one of a tenth of the shard. Entries that reach the end
//! of the small queue without a hit are evicted and their keys recorded; those with a hit move to the main
//! queue. The oldest entries of the main queue are moved to its young end if they were hit, and evicted
//! otherwise. Even if everything is admitted, a scan occupies only a tenth of the memory.
//!
//! **Memory.** The capacity bounds all memory: stored bytes as rounded by the allocator, nodes, hash tables
//! and recorded keys. A compressed entry costs about 100 bytes beyond its stored bytes, and 1/128 of the
//! capacity is for keys. Readers never hold memory of the tier, so the limit is always strict. Each entry is
//! an allocation of its own length: RocksDB's `enable_custom_split_merge`, which splits entries to fit the
//! size classes of jemalloc, has no counterpart. Neither has the `compress_format_version` of earlier
//! versions, because the in-memory format is not visible to users.
//!
//! **Locks.** Each shard has a lock, held for a search in a hash table and the links of a queue. Compression
//! happens before it is taken, decompression after it is released.
//!
//! A tier may be placed below this one ([`CompressedSecondaryCache::with_tier_below`]). With
//! [`AdmissionPolicy::ThreeQueue`] it receives the blocks read from storage, as in RocksDB; otherwise it is
//! offered the entries that this tier evicts, in their compressed form.

mod shard;

use cairn_compress::{CodecOptions, Compression};
use cairn_platform::sync::{Arc, AtomicU8, AtomicU64, AtomicUsize, Mutex, Ordering};
use cairn_types::Result;

use super::codec::Codec;
use super::{
    Bytes, CacheTier, Found, LookupCounts, Offer, SecondaryCache, Sought, TierCounts, hash_of,
};
use crate::cache::{CacheKey, CacheRole};
use shard::{Admission, Evicted, Searched, Shard};

/// The entries that a tier admits (RocksDB's `TieredAdmissionPolicy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum AdmissionPolicy {
    /// [`AdmissionPolicy::ThreeQueue`] if there is a tier below, otherwise [`AdmissionPolicy::Placeholder`].
    #[default]
    Auto = 0,
    /// Entries whose key was recorded by an earlier eviction.
    Placeholder = 1,
    /// Also entries with a hit in the block cache.
    AllowCacheHits = 2,
    /// No entries evicted from the block cache. The tier below receives blocks read from storage, and its
    /// hits are offered to this tier, which applies [`AdmissionPolicy::Placeholder`] to them.
    ThreeQueue = 3,
    /// All entries.
    AllowAll = 4,
}

impl AdmissionPolicy {
    const ALL: [AdmissionPolicy; 5] = [
        AdmissionPolicy::Auto,
        AdmissionPolicy::Placeholder,
        AdmissionPolicy::AllowCacheHits,
        AdmissionPolicy::ThreeQueue,
        AdmissionPolicy::AllowAll,
    ];
}

/// Options of a [`CompressedSecondaryCache`]. The defaults are RocksDB's.
#[derive(Clone, Debug)]
pub struct CompressedCacheOptions {
    /// The capacity in bytes. With 0 nothing is cached.
    pub capacity: usize,
    /// The base-2 logarithm of the number of shards, of which 12 is the maximum; `None` derives it from the capacity.
    pub num_shard_bits: Option<u32>,
    /// The codec.
    pub compression: Compression,
    /// Options of the codec.
    pub codec: CodecOptions,
    /// Roles stored without compression. Filters are hardly compressible.
    pub do_not_compress_roles: Vec<CacheRole>,
    /// The admission policy.
    pub admission: AdmissionPolicy,
}

impl Default for CompressedCacheOptions {
    fn default() -> CompressedCacheOptions {
        CompressedCacheOptions {
            capacity: 0,
            num_shard_bits: None,
            compression: Compression::FAST,
            codec: CodecOptions::default(),
            do_not_compress_roles: vec![CacheRole::Filter],
            admission: AdmissionPolicy::Auto,
        }
    }
}

/// Counters of a [`CompressedSecondaryCache`] that are not per role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompressedCacheStats {
    /// Evictions of the block cache that only recorded a key.
    pub placeholders: u64,
    /// Lookups that found a recorded key.
    pub placeholder_hits: u64,
    /// Entries that moved to the block cache.
    pub promotions: u64,
    /// Hits in the tier below that were offered to this tier (RocksDB's `PROMOTIONS`).
    pub hits_below_offered: u64,
    /// Hits in the tier below that were not (RocksDB's `PROMOTION_SKIPS`).
    pub hits_below_skipped: u64,
    /// Bytes passed to the codec.
    pub uncompressed_bytes: u64,
    /// Bytes stored for them.
    pub compressed_bytes: u64,
}

/// The compressed tier; see the module's documentation.
pub struct CompressedSecondaryCache {
    /// A power of two.
    shards: Box<[Padded]>,
    capacity: AtomicUsize,
    /// Held while a capacity takes effect, so that all shards get the limit of the same one.
    resizing: Mutex<()>,
    policy: AtomicU8,
    codec: Codec,
    /// True for each role stored without compression.
    plain_roles: [bool; CacheRole::ALL.len()],
    below: Option<Arc<dyn SecondaryCache>>,
    uncompressed_bytes: AtomicU64,
    compressed_bytes: AtomicU64,
    hits_below_offered: AtomicU64,
    hits_below_skipped: AtomicU64,
}

/// A shard on cache lines of its own.
#[repr(align(128))]
struct Padded(Mutex<Shard>);

/// The size below which a shard is not divided, so that it can hold filters and index blocks.
const MIN_SHARD_BYTES: usize = 4 << 20;
const MAX_AUTO_SHARD_BITS: u32 = 6;
/// The shards exist from the start, and take a kibibyte each.
const MAX_SHARD_BITS: u32 = 12;

impl CompressedSecondaryCache {
    /// Creates a tier with none below it.
    ///
    /// # Errors
    ///
    /// `NotSupported` if the codec is not part of this build; `InvalidArgument` for invalid options of the
    /// codec.
    pub fn new(options: &CompressedCacheOptions) -> Result<CompressedSecondaryCache> {
        CompressedSecondaryCache::create(options, None)
    }

    /// Creates a tier above `below`.
    ///
    /// # Errors
    ///
    /// Those of [`CompressedSecondaryCache::new`].
    pub fn with_tier_below(
        options: &CompressedCacheOptions,
        below: Arc<dyn SecondaryCache>,
    ) -> Result<CompressedSecondaryCache> {
        CompressedSecondaryCache::create(options, Some(below))
    }

    fn create(
        options: &CompressedCacheOptions,
        below: Option<Arc<dyn SecondaryCache>>,
    ) -> Result<CompressedSecondaryCache> {
        let by_capacity = || {
            let shards = options.capacity / MIN_SHARD_BYTES;
            shards.checked_ilog2().unwrap_or(0).min(MAX_AUTO_SHARD_BITS)
        };
        let bits = options
            .num_shard_bits
            .map_or_else(by_capacity, |bits| bits.min(MAX_SHARD_BITS));
        let mut plain_roles = [false; CacheRole::ALL.len()];
        for role in &options.do_not_compress_roles {
            plain_roles[*role as usize] = true;
        }
        let cache = CompressedSecondaryCache {
            shards: (0..1usize << bits)
                .map(|_| Padded(Mutex::new(Shard::default())))
                .collect(),
            capacity: AtomicUsize::new(0),
            resizing: Mutex::new(()),
            policy: AtomicU8::new(options.admission as u8),
            codec: Codec::new(options.compression, options.codec)?,
            plain_roles,
            below,
            uncompressed_bytes: AtomicU64::new(0),
            compressed_bytes: AtomicU64::new(0),
            hits_below_offered: AtomicU64::new(0),
            hits_below_skipped: AtomicU64::new(0),
        };
        cache.set_capacity(options.capacity);
        Ok(cache)
    }

    /// The codec.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.codec.kind()
    }

    /// The number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The tier below.
    #[must_use]
    pub fn tier_below(&self) -> Option<&Arc<dyn SecondaryCache>> {
        self.below.as_ref()
    }

    /// The admission policy in effect, which is not [`AdmissionPolicy::Auto`].
    #[must_use]
    pub fn admission_policy(&self) -> AdmissionPolicy {
        // Relaxed: the policy orders no other access.
        let set = AdmissionPolicy::ALL[usize::from(self.policy.load(Ordering::Relaxed))];
        match set {
            AdmissionPolicy::Auto if self.below.is_some() => AdmissionPolicy::ThreeQueue,
            AdmissionPolicy::Auto => AdmissionPolicy::Placeholder,
            set => set,
        }
    }

    /// Changes the admission policy.
    pub fn set_admission_policy(&self, policy: AdmissionPolicy) {
        self.policy.store(policy as u8, Ordering::Relaxed);
    }

    /// Returns the counters that are not per role.
    #[must_use]
    pub fn stats(&self) -> CompressedCacheStats {
        // Relaxed, here and where they are added to: counters.
        let mut stats = CompressedCacheStats {
            uncompressed_bytes: self.uncompressed_bytes.load(Ordering::Relaxed),
            compressed_bytes: self.compressed_bytes.load(Ordering::Relaxed),
            hits_below_offered: self.hits_below_offered.load(Ordering::Relaxed),
            hits_below_skipped: self.hits_below_skipped.load(Ordering::Relaxed),
            ..CompressedCacheStats::default()
        };
        for shard in &self.shards {
            shard.0.lock().add_stats(&mut stats);
        }
        stats
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        // The recorded keys use the lowest and the middle bits; these are the highest.
        let at = (hash >> (64 - MAX_SHARD_BITS)) as usize & (self.shards.len() - 1);
        &self.shards[at].0
    }

    /// Records or inserts an entry, regardless of the policy for evictions.
    fn admit(&self, hash: u64, offer: &Offer<'_>, force: bool) -> bool {
        // Relaxed: the limit of the shard is authoritative.
        if self.capacity.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let admission = self.shard(hash).lock().admit(hash, &offer.key, force);
        match admission {
            Admission::Present => true,
            Admission::Recorded => false,
            Admission::Admitted { proven } => self.store(hash, offer, proven),
        }
    }

    /// Compresses and inserts an admitted entry.
    fn store(&self, hash: u64, offer: &Offer<'_>, proven: bool) -> bool {
        let bytes = self.compressed(offer);
        let mut evicted = Vec::new();
        let mut shard = self.shard(hash).lock();
        let kept = shard.insert(hash, offer, bytes, proven, &mut evicted);
        drop(shard);
        self.demote(evicted);
        kept
    }

    /// Returns the bytes of an offered entry to store.
    fn compressed(&self, offer: &Offer<'_>) -> Bytes {
        let Bytes::Plain(plain) = offer.bytes else {
            return offer.bytes.clone();
        };
        if self.plain_roles[offer.role as usize] || self.codec.kind() == Compression::None {
            return offer.bytes.trimmed();
        }
        let bytes = self.codec.compress(plain);
        let bytes = bytes.unwrap_or_else(|| offer.bytes.trimmed());
        self.uncompressed_bytes
            .fetch_add(plain.len() as u64, Ordering::Relaxed);
        self.compressed_bytes
            .fetch_add(bytes.stored().len() as u64, Ordering::Relaxed);
        bytes
    }

    /// Offers evicted entries to the tier below.
    fn demote(&self, evicted: Vec<Evicted>) {
        let Some(below) = &self.below else { return };
        if self.admission_policy() == AdmissionPolicy::ThreeQueue {
            return;
        }
        for entry in evicted {
            if entry.lowest == CacheTier::NonVolatileBlock {
                below.insert(&Offer {
                    key: entry.key,
                    bytes: &entry.bytes,
                    role: entry.role,
                    priority: entry.priority,
                    hit: entry.hit,
                    lowest: entry.lowest,
                });
            }
        }
    }

    /// Completes the search of an entry that the tier below has. An entry found there for the first time is inserted
    /// into the block cache, and its key is recorded. If it is found there again, the block cache has evicted it, and
    /// it is inserted into this tier.
    fn found_below(
        &self,
        key: &CacheKey,
        mut found: Found,
        promote: bool,
        counts: &mut LookupCounts,
    ) -> Found {
        if !promote {
            counts.hits_below_skipped += 1;
            self.hits_below_skipped.fetch_add(1, Ordering::Relaxed);
            return found;
        }
        counts.hits_below_offered += 1;
        self.hits_below_offered.fetch_add(1, Ordering::Relaxed);
        let offer = Offer {
            key: *key,
            bytes: &found.stored,
            role: found.role,
            priority: found.priority,
            hit: true,
            lowest: CacheTier::NonVolatileBlock,
        };
        let is_admitted = self.admit(hash_of(key), &offer, false);
        found.keep = !is_admitted;
        found
    }

    fn seek_below(
        &self,
        key: &CacheKey,
        promote: bool,
        counts: &mut LookupCounts,
    ) -> Sought<Found> {
        let Some(below) = &self.below else {
            return Sought::Absent;
        };
        match below.seek(key, promote, CacheTier::NonVolatileBlock, counts) {
            Sought::Found(found) => Sought::Found(self.found_below(key, found, promote, counts)),
            other => other,
        }
    }
}

impl SecondaryCache for CompressedSecondaryCache {
    fn insert(&self, offer: &Offer<'_>) -> bool {
        let force = match self.admission_policy() {
            AdmissionPolicy::ThreeQueue => return false,
            AdmissionPolicy::AllowAll => true,
            AdmissionPolicy::AllowCacheHits => offer.hit,
            AdmissionPolicy::Auto | AdmissionPolicy::Placeholder => false,
        };
        if offer.lowest < CacheTier::VolatileCompressed {
            return false;
        }
        self.admit(hash_of(&offer.key), offer, force)
    }

    fn fill(&self, offer: &Offer<'_>) {
        if let Some(below) = &self.below
            && offer.lowest == CacheTier::NonVolatileBlock
            && self.admission_policy() == AdmissionPolicy::ThreeQueue
        {
            below.insert(offer);
        }
    }

    fn seek(
        &self,
        key: &CacheKey,
        promote: bool,
        lowest: CacheTier,
        counts: &mut LookupCounts,
    ) -> Sought<Found> {
        if lowest < CacheTier::VolatileCompressed {
            return Sought::Absent;
        }
        let hash = hash_of(key);
        let searched = self.shard(hash).lock().lookup(hash, key, promote);
        let hit = match searched {
            Searched::Hit(hit) => hit,
            Searched::Miss { recorded } => {
                counts.placeholder_hits += u32::from(recorded);
                return match lowest {
                    CacheTier::NonVolatileBlock => self.seek_below(key, promote, counts),
                    _ => Sought::Absent,
                };
            }
        };
        counts.compressed_hits += 1;
        let buffer = hit.bytes.expand();
        debug_assert!(buffer.is_some(), "entries in memory are not damaged");
        match buffer {
            Some(buffer) => Sought::Found(Found {
                buffer,
                role: hit.role,
                priority: hit.priority,
                keep: hit.promoted,
                stored: hit.bytes,
            }),
            None => Sought::Absent,
        }
    }

    fn found_on_device(
        &self,
        key: &CacheKey,
        found: Found,
        promote: bool,
        counts: &mut LookupCounts,
    ) -> Found {
        let Some(below) = &self.below else {
            return found;
        };
        let found = below.found_on_device(key, found, promote, counts);
        self.found_below(key, found, promote, counts)
    }

    fn contains(&self, key: &CacheKey) -> bool {
        let hash = hash_of(key);
        let here = self.shard(hash).lock().contains(hash, key);
        here || self.below.as_ref().is_some_and(|below| below.contains(key))
    }

    fn erase(&self, key: &CacheKey) -> bool {
        let hash = hash_of(key);
        let erased = self.shard(hash).lock().erase(hash, key);
        let below = self.below.as_ref().is_some_and(|below| below.erase(key));
        erased || below
    }

    fn clear(&self) {
        for shard in &self.shards {
            // Freed outside the lock.
            let cleared = shard.0.lock().clear();
            drop(cleared);
        }
        if let Some(below) = &self.below {
            below.clear();
        }
    }

    fn usage(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().usage()).sum()
    }

    fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    fn set_capacity(&self, capacity: usize) {
        let _resizing = self.resizing.lock();
        // Relaxed: the effective limits are set under each shard's lock.
        self.capacity.store(capacity, Ordering::Relaxed);
        let limit = capacity / self.shards.len();
        for shard in &self.shards {
            // In steps, so that a lookup does not wait for the eviction of an entire shard.
            loop {
                let mut evicted = Vec::new();
                let done = shard.0.lock().set_limit(limit, &mut evicted);
                self.demote(evicted);
                if done {
                    break;
                }
            }
        }
    }

    fn role_counts(&self, role: CacheRole) -> TierCounts {
        let mut sum = TierCounts::default();
        for shard in &self.shards {
            sum.add(&shard.0.lock().counts(role));
        }
        sum
    }

    fn as_compressed(&self) -> Option<&CompressedSecondaryCache> {
        Some(self)
    }
}

impl std::fmt::Debug for CompressedSecondaryCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "CompressedSecondaryCache({} of {} bytes in {} shards, {:?})",
            self.usage(),
            self.capacity(),
            self.shards.len(),
            self.codec.kind()
        )
    }
}

#[cfg(test)]
mod tests;
