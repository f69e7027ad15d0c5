//! Customizable options, whose value is an object: comparators, operators, extractors, caches,
//! directories.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_compress::Compression;
use cairn_format::filter::FilterPolicy;
use cairn_format::options_text::{from_bytes, statements, to_bytes};
use cairn_memory::secondary::{CompressedCacheOptions, CompressedSecondaryCache, SecondaryCache};
use cairn_memory::{
    BlockCache, CacheKind, CacheOptions, MemoryBudget, MemoryKind, WriteBufferManager,
};
use cairn_observe::statistics::{Keeping, StatsLevel};
use cairn_observe::{Listeners, LogSink, Statistics};
use cairn_platform::{ConcurrentTaskLimiter, RateLimiter, SstFileManager};
use cairn_types::{KeyOrder, MergeOperator, PrefixExtractor, SequenceNumber};

use crate::default_cache::DefaultCache;
use crate::file_checksum::HandoffFileTypes;
use crate::merge_operators;
use crate::object_registry;
use crate::text::{NULL, Named, Refusal, Text, object};

impl Text for KeyOrder {
    fn parse(text: &str) -> Result<KeyOrder, Refusal> {
        object_registry::comparator(text)
            .ok_or_else(|| "no comparator has this name; register it or set it in code".to_owned())
    }

    fn print(&self) -> String {
        self.name().to_owned()
    }
}

impl Text for Option<Arc<dyn MergeOperator>> {
    fn parse(text: &str) -> Result<Self, Refusal> {
        if text == NULL || text.is_empty() {
            return Ok(None);
        }
        merge_operators::from_text(text).map(Some)
    }

    fn print(&self) -> String {
        match self {
            Some(operator) => operator.option_text(),
            None => NULL.to_owned(),
        }
    }
}

/// Implements [`Text`] for objects that are set in code: texts neither name nor change them.
macro_rules! set_in_code {
    ($($object:ty => $refusal:literal,)+) => {$(
        impl Text for $object {
            fn parse(text: &str) -> Result<Self, Refusal> {
                match text {
                    NULL | "" => Ok(Self::default()),
                    _ => Err($refusal.to_owned()),
                }
            }

            fn print(&self) -> String {
                NULL.to_owned()
            }

            fn update(&mut self, text: &str) -> Result<(), Refusal> {
                Self::parse(text).map(drop)
            }
        }
    )+};
}

set_in_code! {
    Listeners => "listeners are set in code",
    HandoffFileTypes => "the types of files are set in code",
    Option<Arc<dyn LogSink>> => "an info log is set in code",
    Option<DefaultCache> => "a default block cache is set in code",
    Option<Arc<ConcurrentTaskLimiter>> => "a limiter of compactions is set in code",
}

/// The rule by which data blocks end (RocksDB's `FlushBlockPolicyFactory`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlushBlockPolicy {
    /// Before an entry that does not fit into `block_size`.
    #[default]
    BySize,
    /// After each entry: a block has one.
    EveryKey,
    /// A class of the program that wrote the text, with which no table can be written.
    Other(String),
}

impl FlushBlockPolicy {
    fn name(&self) -> &str {
        match self {
            FlushBlockPolicy::BySize => "FlushBlockBySizePolicyFactory",
            FlushBlockPolicy::EveryKey => "FlushBlockEveryKeyPolicyFactory",
            FlushBlockPolicy::Other(name) => name,
        }
    }
}

impl Text for FlushBlockPolicy {
    fn parse(text: &str) -> Result<FlushBlockPolicy, Refusal> {
        let (name, _) = object(text)?;
        let mut known = [FlushBlockPolicy::BySize, FlushBlockPolicy::EveryKey].into_iter();
        Ok(match known.find(|known| known.name() == name) {
            Some(policy) => policy,
            None if name == NULL || name.is_empty() => FlushBlockPolicy::BySize,
            None if name.contains(|c: char| !c.is_ascii_alphanumeric() && !"._:".contains(c)) => {
                return Err("expected the name of a class".to_owned());
            }
            None => FlushBlockPolicy::Other(name.to_owned()),
        })
    }

    fn print(&self) -> String {
        self.name().to_owned()
    }
}

/// RocksDB's name for its built-in statistics.
const BASIC_STATISTICS: &str = "BasicStatistics";
/// Cairn's name for the default statistics.
const OWN_STATISTICS: &str = "own";

/// A text cannot refer to an existing object: it creates new statistics, or none.
impl Text for Keeping {
    fn parse(text: &str) -> Result<Keeping, Refusal> {
        match object(text)?.0 {
            OWN_STATISTICS => Ok(Keeping::Own),
            NULL => Ok(Keeping::Nothing),
            "" | BASIC_STATISTICS => {
                let level = StatsLevel::ExceptDetailedTimers;
                Ok(Arc::new(Statistics::new(level)).into())
            }
            _ => Err(format!(
                "expected {BASIC_STATISTICS}, {OWN_STATISTICS} or {NULL}"
            )),
        }
    }

    fn print(&self) -> String {
        let name = match self {
            Keeping::Own => OWN_STATISTICS,
            Keeping::Shared(_) => BASIC_STATISTICS,
            Keeping::Nothing => NULL,
        };
        name.to_owned()
    }
}

impl Named for PrefixExtractor {}

impl Text for PrefixExtractor {
    fn parse(text: &str) -> Result<PrefixExtractor, Refusal> {
        // Forms that RocksDB 11.x may write: `{id=rocksdb.FixedPrefix;length=8}`, or the name alone
        // in braces.
        let (name, properties) = object(text)?;
        let name = match properties[..] {
            [("length", length)] => format!("{name}.{length}"),
            _ => name.to_owned(),
        };
        object_registry::prefix_extractor(&name).ok_or_else(|| {
            "expected fixed:N, capped:N, noop, nullptr or a registered name".to_owned()
        })
    }

    fn print(&self) -> String {
        self.name()
    }
}

impl Named for FilterPolicy {}

impl Text for FilterPolicy {
    fn parse(text: &str) -> Result<FilterPolicy, Refusal> {
        FilterPolicy::from_text(text)
            .ok_or_else(|| "expected bloomfilter:BITS or ribbonfilter:BITS:LEVEL".to_owned())
    }

    fn print(&self) -> String {
        self.to_string()
    }
}

/// The path with this text, in which private characters stand for bytes that are not UTF-8.
fn path_of(text: &str) -> PathBuf {
    OsString::from_vec(to_bytes(text).into_owned()).into()
}

/// The inverse of [`path_of`].
fn text_of(path: &Path) -> String {
    from_bytes(path.as_os_str().as_bytes()).into_owned()
}

impl Text for PathBuf {
    fn parse(text: &str) -> Result<PathBuf, Refusal> {
        Ok(path_of(&String::parse(text)?))
    }

    fn print(&self) -> String {
        text_of(self).print()
    }

    fn print_line(&self) -> String {
        text_of(self).print_line()
    }
}

/// A directory for tables. Its text form is `PATH,BYTES`, and lists are joined by `:`, so a path
/// with one of these characters has no text form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DbPath {
    /// The path.
    pub path: PathBuf,
    /// Target size of its tables, in bytes.
    pub target_size: u64,
}

impl Text for DbPath {
    fn parse(text: &str) -> Result<DbPath, Refusal> {
        let (path, size) = text.split_once(',').ok_or("expected PATH,BYTES")?;
        Ok(DbPath {
            path: path_of(path),
            target_size: u64::parse(size)?,
        })
    }

    fn print(&self) -> String {
        format!("{},{}", text_of(&self.path), self.target_size)
    }
}

impl Named for SequenceNumber {}
impl Named for u64 {}
impl Named for i32 {}

impl Text for SequenceNumber {
    fn parse(text: &str) -> Result<SequenceNumber, Refusal> {
        u64::parse(text).map(SequenceNumber)
    }

    fn print(&self) -> String {
        self.to_string()
    }
}

impl Named for Vec<u8> {
    const NONE: &'static [&'static str] = &[NULL];
}

/// Keys and timestamps, in hexadecimal.
impl Text for Vec<u8> {
    fn parse(text: &str) -> Result<Vec<u8>, Refusal> {
        let pair = |pair: &[u8]| {
            let digits = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(digits, 16).ok()
        };
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(pair).collect();
        match bytes {
            Some(bytes) if text.len().is_multiple_of(2) => Ok(bytes),
            _ => Err("expected an even number of hexadecimal digits".to_owned()),
        }
    }

    fn print(&self) -> String {
        self.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The kind of cache with RocksDB's name `id`.
fn cache_kind(id: &str) -> Result<CacheKind, Refusal> {
    match id {
        "LRUCache" => Ok(CacheKind::Lru),
        "HyperClockCache" => Ok(CacheKind::Clock),
        _ => Err(format!(
            "{id} is not a kind of cache: expected LRUCache or HyperClockCache"
        )),
    }
}

/// RocksDB's name for the allocator whose memory core dumps leave out.
const UNDUMPED_ALLOCATOR: &str = "JemallocNodumpAllocator";

/// The kind of memory of the allocator `text`: its name, or an object that consists of its name.
fn memory_kind(text: &str) -> Result<MemoryKind, Refusal> {
    if text == NULL {
        return Ok(MemoryKind::default());
    }
    let (id, properties) = object(text)?;
    if let Some((name, _)) = properties.first() {
        return Err(format!("{name} is not a property of an allocator"));
    }
    match id {
        UNDUMPED_ALLOCATOR => MemoryKind::undumped().map_err(|error| error.to_string()),
        _ => Err(format!(
            "{id} is not an allocator: expected {UNDUMPED_ALLOCATOR}"
        )),
    }
}

/// RocksDB's name for the compressed tier, and the scheme of its URIs.
const COMPRESSED_TIER: &str = "CompressedSecondaryCache";
const COMPRESSED_SCHEME: &str = "compressed_secondary_cache://";

/// A compressed tier as `{id=CompressedSecondaryCache;capacity=64M;compression_type=kZSTD;num_shard_bits=4}`, or
/// as `compressed_secondary_cache://capacity=64M;...`. The capacity is `total` if the text has none.
fn compressed_tier(text: &str, total: Option<usize>) -> Result<CompressedSecondaryCache, Refusal> {
    let inner = text
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'))
        .unwrap_or(text);
    let mut properties = match inner.strip_prefix(COMPRESSED_SCHEME) {
        Some(properties) => statements(properties).map_err(|error| error.to_string())?,
        None => {
            let (id, properties) = object(text)?;
            if id != COMPRESSED_TIER {
                return Err(format!(
                    "{id} is not a tier of a cache: expected {COMPRESSED_TIER}"
                ));
            }
            properties
        }
    };
    let mut capacity = total;
    let mut options = CompressedCacheOptions::default();
    for (name, value) in properties.drain(..) {
        match name {
            "capacity" => capacity = Some(usize::parse(value)?),
            "num_shard_bits" => options.num_shard_bits = i32::parse(value)?.try_into().ok(),
            "compression_type" => options.compression = Compression::parse(value)?,
            // The allocator's size classes are not considered.
            "enable_custom_split_merge" => drop(bool::parse(value)?),
            _ => return Err(format!("{name} is not a property of a compressed tier")),
        }
    }
    options.capacity = capacity.ok_or("expected a capacity of the tier in bytes")?;
    CompressedSecondaryCache::new(&options).map_err(|error| error.to_string())
}

/// The text form of a tier that has one.
fn print_tier(tier: &dyn SecondaryCache) -> Option<String> {
    let tier = tier
        .as_compressed()
        .filter(|tier| tier.tier_below().is_none())?;
    Some(format!(
        "{{id={COMPRESSED_TIER};capacity={};num_shard_bits={};compression_type={};}}",
        tier.capacity(),
        tier.shards().ilog2(),
        tier.compression().print(),
    ))
}

/// A block cache, as its capacity in bytes or as `{capacity=8M;num_shard_bits=4;...}`: an LRU cache unless
/// `id=HyperClockCache`. With `secondary_cache`, there is a compressed tier below it, and with
/// `compressed_secondary_ratio` it has this share of the capacity. Parsing creates a new cache; clones of the
/// options share it. With `memory_allocator=JemallocNodumpAllocator`, core dumps leave its entries out.
impl Text for Option<Arc<BlockCache>> {
    fn parse(text: &str) -> Result<Self, Refusal> {
        if text == NULL || text.is_empty() {
            return Ok(None);
        }
        let mut capacity = None;
        let mut options = CacheOptions::lru();
        let (mut tier, mut share) = (None, None);
        let inner = text
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'));
        let properties = match inner {
            Some(inner) => statements(inner).map_err(|error| error.to_string())?,
            None => vec![("capacity", text)],
        };
        for (name, value) in properties {
            match name {
                "id" => options.kind = cache_kind(value)?,
                "capacity" => capacity = Some(usize::parse(value)?),
                "num_shard_bits" => options.num_shard_bits = i32::parse(value)?.try_into().ok(),
                "strict_capacity_limit" => options.strict_capacity_limit = bool::parse(value)?,
                "high_pri_pool_ratio" => options.high_pri_pool_ratio = ratio(value)?,
                "low_pri_pool_ratio" => options.low_pri_pool_ratio = ratio(value)?,
                "memory_allocator" => options.memory = memory_kind(value)?,
                "secondary_cache" => tier = Some(value).filter(|tier| *tier != NULL),
                "compressed_secondary_ratio" => share = Some(ratio(value)?),
                _ => return Err(format!("{name} is not a property of a block cache")),
            }
        }
        let capacity = capacity.ok_or("expected a capacity in bytes")?;
        let total = share.map(|_| capacity);
        let tier = match tier {
            Some(tier) => Some(compressed_tier(tier, total)?),
            None if share.is_some() => Some(compressed_tier(COMPRESSED_SCHEME, total)?),
            None => None,
        };
        let cache = match (tier, share) {
            (None, _) => BlockCache::new(capacity, options),
            (Some(tier), None) => BlockCache::with_tier(capacity, options, Arc::new(tier)),
            (Some(tier), Some(share)) => {
                let cache = BlockCache::tiered(capacity, share, options, Arc::new(tier));
                cache.map_err(|error| error.to_string())?
            }
        };
        Ok(Some(Arc::new(cache)))
    }

    fn print(&self) -> String {
        let Some(cache) = self else {
            return NULL.to_owned();
        };
        let options = cache.options();
        let id = match options.kind {
            CacheKind::Clock => "id=HyperClockCache;",
            CacheKind::Lru => "",
        };
        let allocator = match options.memory.is_undumped() {
            true => format!("memory_allocator={UNDUMPED_ALLOCATOR};"),
            false => String::new(),
        };
        let tier = cache.tier().and_then(|tier| print_tier(&**tier));
        let tier = tier.map_or_else(String::new, |tier| format!("secondary_cache={tier};"));
        let share = cache.tier_ratio();
        let share = share.map_or_else(String::new, |share| {
            format!("compressed_secondary_ratio={};", share.print())
        });
        format!(
            "{{{id}capacity={};num_shard_bits={};strict_capacity_limit={};high_pri_pool_ratio={};low_pri_pool_ratio={};{allocator}{tier}{share}}}",
            cache.capacity(),
            options.num_shard_bits.map_or(-1, i64::from),
            options.strict_capacity_limit,
            options.high_pri_pool_ratio.print(),
            options.low_pri_pool_ratio.print(),
        )
    }
}

/// A memtable budget, as its size in bytes. Parsing creates a new one, without a cache; clones of the
/// options share it.
impl Text for Option<Arc<WriteBufferManager>> {
    fn parse(text: &str) -> Result<Self, Refusal> {
        if text == NULL || text.is_empty() {
            return Ok(None);
        }
        let bytes = usize::parse(text)?;
        Ok(Some(Arc::new(WriteBufferManager::new(bytes, None, false))))
    }

    fn print(&self) -> String {
        match self {
            Some(manager) => manager.buffer_size().print(),
            None => NULL.to_owned(),
        }
    }
}

/// The text form of a memory budget that follows from the available memory.
const AUTOMATIC: &str = "auto";

/// A memory budget, as its size in bytes or `auto`. Parsing creates a new one; clones of the options share it.
impl Text for Option<Arc<MemoryBudget>> {
    fn parse(text: &str) -> Result<Self, Refusal> {
        if text == NULL || text.is_empty() {
            return Ok(None);
        }
        let budget = match text {
            AUTOMATIC => MemoryBudget::automatic(),
            bytes => MemoryBudget::new(usize::parse(bytes)?),
        };
        budget.map(Some).map_err(|error| error.to_string())
    }

    fn print(&self) -> String {
        match self {
            Some(budget) if budget.is_automatic() => AUTOMATIC.to_owned(),
            Some(budget) => budget.bytes().print(),
            None => NULL.to_owned(),
        }
    }
}

/// A file manager, as its deletion rate. Parsing creates a new one, without a space limit; clones of
/// the options share it.
impl Text for Option<Arc<SstFileManager>> {
    fn parse(text: &str) -> Result<Self, Refusal> {
        if text == NULL || text.is_empty() {
            return Ok(None);
        }
        let manager = SstFileManager::new();
        manager.set_delete_rate_bytes_per_second(i64::parse(text)?);
        Ok(Some(Arc::new(manager)))
    }

    fn print(&self) -> String {
        match self {
            Some(manager) => manager.delete_rate_bytes_per_second().print(),
            None => NULL.to_owned(),
        }
    }
}

/// A rate limiter, as its bytes per second. Parsing creates a new limiter of writes; clones of the
/// options share it.
impl Text for Option<Arc<RateLimiter>> {
    fn parse(text: &str) -> Result<Self, Refusal> {
        if text == NULL || text.is_empty() {
            return Ok(None);
        }
        match u64::parse(text)? {
            0 => Err("expected bytes per second, at least 1".to_owned()),
            rate => Ok(Some(Arc::new(RateLimiter::of_writes(rate)))),
        }
    }

    fn print(&self) -> String {
        match self {
            Some(limiter) => limiter.bytes_per_second().print(),
            None => NULL.to_owned(),
        }
    }
}

fn ratio(text: &str) -> Result<f64, Refusal> {
    match f64::parse(text)? {
        ratio if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err("expected a fraction from 0 to 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_cache_may_have_an_allocator() {
        let parse = |allocator: &str| {
            let text = format!("{{capacity=1M;memory_allocator={allocator}}}");
            Option::<Arc<BlockCache>>::parse(&text).map(|cache| cache.expect("not null"))
        };
        for (allocator, is_undumped) in [
            ("JemallocNodumpAllocator", true),
            ("{id=JemallocNodumpAllocator}", true),
            ("nullptr", false),
        ] {
            let cache = parse(allocator).expect("a valid text");
            assert_eq!(cache.options().memory.is_undumped(), is_undumped);
            let printed = Some(cache).print();
            let part = "memory_allocator=JemallocNodumpAllocator;";
            assert_eq!(printed.contains(part), is_undumped, "{printed}");
            let again = Option::<Arc<BlockCache>>::parse(&printed).expect("a valid text");
            assert_eq!(again.print(), printed);
        }
        let refused = |allocator| parse(allocator).expect_err("refused");
        assert_eq!(
            refused("MemkindKmemAllocator"),
            "MemkindKmemAllocator is not an allocator: expected JemallocNodumpAllocator"
        );
        assert_eq!(
            refused("{id=JemallocNodumpAllocator;num_arenas=2}"),
            "num_arenas is not a property of an allocator"
        );
    }

    #[test]
    fn a_block_cache_may_have_a_compressed_tier() {
        let cache = |text: &str| {
            Option::<Arc<BlockCache>>::parse(text).map(|cache| cache.expect("not null"))
        };
        for tier in [
            "{id=CompressedSecondaryCache;capacity=2M;compression_type=kZSTD;num_shard_bits=1}",
            "{compressed_secondary_cache://capacity=2M;compression_type=kZSTD;num_shard_bits=1;\
             enable_custom_split_merge=true}",
        ] {
            let cache =
                cache(&format!("{{capacity=1M;secondary_cache={tier}}}")).expect("a valid text");
            let below = cache
                .tier()
                .and_then(|tier| tier.as_compressed())
                .expect("a compressed tier");
            assert_eq!((cache.capacity(), below.capacity()), (1 << 20, 2 << 20));
            assert_eq!(
                (below.shards(), below.compression()),
                (2, Compression::Zstd)
            );
            let printed = Some(cache).print();
            assert!(
                printed.ends_with(
                    "secondary_cache={id=CompressedSecondaryCache;capacity=2097152;num_shard_bits=1;\
                     compression_type=kZSTD;};}"
                ),
                "{printed}"
            );
            let again = Option::<Arc<BlockCache>>::parse(&printed).expect("a valid text");
            assert_eq!(again.print(), printed);
        }
        let uri = "{capacity=1M;secondary_cache=compressed_secondary_cache://capacity=4K}";
        let below = cache(uri)
            .expect("a valid text")
            .tier()
            .expect("a tier")
            .capacity();
        assert_eq!(below, 4 << 10);
        let shared = cache("{capacity=8M;compressed_secondary_ratio=0.25}").expect("a valid text");
        assert_eq!(
            (shared.capacity(), shared.tier_ratio()),
            (8 << 20, Some(0.25))
        );
        assert_eq!(shared.tier().expect("a tier").capacity(), 2 << 20);
        let printed = Some(shared).print();
        let again = Option::<Arc<BlockCache>>::parse(&printed).expect("a valid text");
        assert_eq!(again.print(), printed);
        assert!(
            cache("{capacity=1M;secondary_cache=nullptr}")
                .expect("a valid text")
                .tier()
                .is_none()
        );
        for wrong in [
            "{capacity=1M;secondary_cache={id=OtherCache;capacity=1M}}",
            "{capacity=1M;secondary_cache={id=CompressedSecondaryCache}}",
            "{capacity=1M;secondary_cache={id=CompressedSecondaryCache;capacity=1M;nosuch=1}}",
            "{capacity=1M;secondary_cache={id=CompressedSecondaryCache;capacity=1M;compression_type=kNone}}",
            "{capacity=1M;compressed_secondary_ratio=1.5}",
        ] {
            assert!(cache(wrong).is_err(), "{wrong}");
        }
    }
}
