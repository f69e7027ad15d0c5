//! Objects that options refer to: caches, filters, statistics, limiters, environments, merge operators.

use std::sync::{Arc, OnceLock};

use cairn_memory::{BlockCache, CacheOptions, WriteBufferManager};
use cairn_observe::Statistics;
use cairn_observe::perf::{self, PerfLevel, PerfMetric};
use cairn_observe::statistics::{Histogram, StatsLevel, Ticker};
use cairn_options::{
    ChecksumKind, Collectors, CompactOnDeletion, DataBlockIndexType, FilterPolicy,
    FixedPrefixPartitions, IndexBlockSearchType, IndexShortening, IndexType, MemtableFactory,
    PlainEncodingType, PlainTableOptions, TableOptions,
};
use cairn_platform::sync::Mutex;
use cairn_platform::{
    IoKind, IoPriority, Priority, RateLimited, RateLimiter, SstFileManager, World,
};
use cairn_types::{Error, MergeOperator, SstPartitionerFactory, TablePropertiesCollectorFactory};
use jni_sys::{jint, jlong, jvalue};

use crate::env::{ByteArray, Env, JString, LongArray, Object, Outcome, illegal};
use crate::handle::{Mut, New, Ref};
use crate::options::AllOptions;
use crate::tickers;

/// A factory of tables: Java owns it and passes it to options at once.
pub enum TableFormat {
    /// Block-based tables.
    Blocks(Box<TableOptions>),
    /// Plain tables.
    Plain(Box<PlainTableOptions>),
}

/// A factory of memtables.
pub struct Memtable(pub MemtableFactory);

/// The object of `Statistics`.
pub struct StatisticsHandle(pub Arc<Statistics>);

macro_rules! destructors {
    ($($name:ident: $type:ty;)+) => {$(
        pub fn $name(env: Env, handle: jlong) -> Outcome<()> {
            crate::handle::destroy::<$type>(env, handle)
        }
    )+};
}

destructors! {
    destroy_cache: Arc<BlockCache>;
    destroy_filter: FilterPolicy;
    destroy_statistics: StatisticsHandle;
    destroy_rate_limiter: Arc<RateLimiter>;
    destroy_write_buffer_manager: Arc<WriteBufferManager>;
    destroy_sst_file_manager: Arc<SstFileManager>;
    destroy_env: World;
    destroy_merge_operator: Arc<dyn MergeOperator>;
    destroy_collector: Arc<dyn TablePropertiesCollectorFactory>;
    destroy_partitioner: Arc<dyn SstPartitionerFactory>;
}

/// An enumeration by its number.
fn choice<T: Copy>(all: &[(T, &str)], number: i8) -> Outcome<T> {
    let found = usize::try_from(number)
        .ok()
        .and_then(|number| all.get(number));
    found
        .map(|(choice, _)| *choice)
        .ok_or_else(|| illegal("unknown number of an enumeration"))
}

fn table(
    env: Env,
    fill: impl FnOnce(&mut TableOptions) -> Outcome<()>,
    cache: Option<Ref<Arc<BlockCache>>>,
    filter: Option<Ref<FilterPolicy>>,
    cache_size: jlong,
    shard_bits: jint,
) -> Outcome<New<TableFormat>> {
    let _ = env;
    let mut options = TableOptions::default();
    fill(&mut options)?;
    options.filter_policy = filter.map(|filter| *filter.0);
    if !options.no_block_cache {
        match (cache, usize::try_from(cache_size)) {
            (Some(cache), _) => options.block_cache = Some(cache.clone()),
            (None, Ok(size)) => {
                let num_shard_bits = u32::try_from(shard_bits).ok().filter(|bits| *bits > 0);
                let cache = BlockCache::new(
                    size,
                    CacheOptions {
                        num_shard_bits,
                        ..CacheOptions::lru()
                    },
                );
                options.block_cache = Some(Arc::new(cache));
            }
            (None, Err(_)) => options.no_block_cache = true,
        }
    }
    Ok(New(TableFormat::Blocks(Box::new(options))))
}

pub fn block_based(
    env: Env,
    cache_meta: bool,
    high_priority: bool,
    pin_l0: bool,
    pin_top: bool,
    index_type: i8,
    data_index: i8,
    ratio: f64,
    checksum: i8,
    no_cache: bool,
    cache: Option<Ref<Arc<BlockCache>>>,
    _persistent: jlong,
    block_size: jlong,
    deviation: jint,
    restart: jint,
    index_restart: jint,
    metadata_size: jlong,
    partition_filters: bool,
    filters_for_memory: bool,
    delta: bool,
    filter: Option<Ref<FilterPolicy>>,
    whole_key: bool,
    verify_compression: bool,
    read_amp: jint,
    format_version: jint,
    separate: bool,
    uniform: f64,
    compress_index: bool,
    align: bool,
    super_block: jlong,
    super_block_ratio: jlong,
    shortening: i8,
    search: i8,
    cache_size: jlong,
    shard_bits: jint,
) -> Outcome<New<TableFormat>> {
    let fill = |options: &mut TableOptions| {
        options.cache_index_and_filter_blocks = cache_meta;
        options.cache_index_and_filter_blocks_with_high_priority = high_priority;
        options.pin_l0_filter_and_index_blocks_in_cache = pin_l0;
        options.pin_top_level_index_and_filter = pin_top;
        options.index_type = choice(IndexType::ALL, index_type)?;
        options.data_block_index_type = choice(DataBlockIndexType::ALL, data_index)?;
        options.data_block_hash_table_util_ratio = ratio;
        options.checksum = u8::try_from(checksum)
            .ok()
            .and_then(ChecksumKind::from_u8)
            .ok_or_else(|| illegal("unknown checksum type"))?;
        options.no_block_cache = no_cache;
        options.block_size = block_size as u64;
        options.block_size_deviation = deviation;
        options.block_restart_interval = restart;
        options.index_block_restart_interval = index_restart;
        options.metadata_block_size = metadata_size as u64;
        options.partition_filters = partition_filters;
        options.optimize_filters_for_memory = filters_for_memory;
        options.use_delta_encoding = delta;
        options.whole_key_filtering = whole_key;
        options.verify_compression = verify_compression;
        options.read_amp_bytes_per_bit = read_amp.cast_unsigned();
        options.format_version = format_version.cast_unsigned();
        options.separate_key_value_in_data_block = separate;
        options.uniform_cv_threshold = uniform;
        options.enable_index_compression = compress_index;
        options.block_align = align;
        options.super_block_alignment_size = super_block as u64;
        options.super_block_alignment_space_overhead_ratio = super_block_ratio as u64;
        options.index_shortening = choice(IndexShortening::ALL, shortening)?;
        options.index_block_search_type = choice(IndexBlockSearchType::ALL, search)?;
        Ok(())
    };
    table(env, fill, cache, filter, cache_size, shard_bits)
}

const TABLE_CONFIG: &str = "org/rocksdb/BlockBasedTableConfig";

/// The constructor of [`TABLE_CONFIG`] with all options, and how many groups of options it has more than release 8.10:
/// those of releases 10.10, 11.0 and 11.1.
fn table_constructor(env: Env) -> Outcome<(&'static str, u8)> {
    const NEWER: [(&str, u8); 3] = [
        ("(ZZZZBBDBZJIIIJZZZZZIIZDZZJJBBBJD)V", 3),
        ("(ZZZZBBDBZJIIIJZZZZZIIZZZJJBBBJD)V", 2),
        ("(ZZZZBBDBZJIIIJZZZZZIIZZJJBBJD)V", 1),
    ];
    let class = env.class(TABLE_CONFIG)?;
    let found = NEWER
        .into_iter()
        .find(|(descriptor, _)| env.has_method(class, "<init>", descriptor));
    Ok(found.unwrap_or(("(ZZZZBBDBZJIIIJZZZZZIIZZBBJD)V", 0)))
}

/// A `BlockBasedTableConfig` with the options of a column family. Java does not own the filter, whose handle is that of
/// the last call with the same number of bits.
pub fn table_config(env: Env, all: Ref<AllOptions>) -> Outcome<Object> {
    if all.family.table_factory != cairn_options::TableKind::BlockBased {
        return Ok(Object::default());
    }
    let o = &all.family.table;
    let place = |found: Option<usize>| found.unwrap_or(0) as i8;
    macro_rules! number {
        ($kind:ident, $value:expr) => {
            jvalue {
                b: place($kind::ALL.iter().position(|(choice, _)| *choice == $value)),
            }
        };
    }
    let flag = |z: bool| jvalue { z };
    let (filter, bits) = match o.filter_policy {
        Some(FilterPolicy::Bloom { bits_per_key }) => (shared_filter(bits_per_key), bits_per_key),
        _ => (0, 0.0),
    };
    let mut arguments = vec![
        flag(o.cache_index_and_filter_blocks),
        flag(o.cache_index_and_filter_blocks_with_high_priority),
        flag(o.pin_l0_filter_and_index_blocks_in_cache),
        flag(o.pin_top_level_index_and_filter),
        number!(IndexType, o.index_type),
        number!(DataBlockIndexType, o.data_block_index_type),
        jvalue {
            d: o.data_block_hash_table_util_ratio,
        },
        jvalue {
            b: o.checksum as i8,
        },
        flag(o.no_block_cache),
        jvalue {
            j: o.block_size as jlong,
        },
        jvalue {
            i: o.block_size_deviation,
        },
        jvalue {
            i: o.block_restart_interval,
        },
        jvalue {
            i: o.index_block_restart_interval,
        },
        jvalue {
            j: o.metadata_block_size as jlong,
        },
        flag(o.partition_filters),
        flag(o.optimize_filters_for_memory),
        flag(o.use_delta_encoding),
        flag(o.whole_key_filtering),
        flag(o.verify_compression),
        jvalue {
            i: o.read_amp_bytes_per_bit.cast_signed(),
        },
        jvalue {
            i: o.format_version.cast_signed(),
        },
    ];
    let (constructor, release) = table_constructor(env)?;
    if release >= 2 {
        arguments.push(flag(o.separate_key_value_in_data_block));
    }
    if release >= 3 {
        arguments.push(jvalue {
            d: o.uniform_cv_threshold,
        });
    }
    arguments.push(flag(o.enable_index_compression));
    arguments.push(flag(o.block_align));
    if release >= 1 {
        let sizes = [
            o.super_block_alignment_size,
            o.super_block_alignment_space_overhead_ratio,
        ];
        arguments.extend(sizes.map(|size| jvalue { j: size as jlong }));
    }
    arguments.push(number!(IndexShortening, o.index_shortening));
    if release >= 2 {
        arguments.push(number!(IndexBlockSearchType, o.index_block_search_type));
    }
    arguments.push(jvalue {
        b: i8::from(filter != 0),
    });
    arguments.push(jvalue { j: filter });
    arguments.push(jvalue { d: bits });
    env.create(TABLE_CONFIG, constructor, &arguments)
}

/// The handle of a Bloom filter that no Java object owns.
fn shared_filter(bits_per_key: f64) -> jlong {
    static SHARED: Mutex<Vec<(f64, jlong)>> = Mutex::new(Vec::new());
    let mut shared = SHARED.lock();
    if let Some((_, handle)) = shared.iter().find(|(bits, _)| *bits == bits_per_key) {
        return *handle;
    }
    let handle = crate::handle::create(FilterPolicy::Bloom { bits_per_key });
    shared.push((bits_per_key, handle));
    handle
}

pub fn plain_table(
    _env: Env,
    key_size: jint,
    bloom_bits: jint,
    ratio: f64,
    sparseness: jint,
    huge_page: jint,
    encoding: i8,
    full_scan: bool,
    store_index: bool,
) -> Outcome<New<TableFormat>> {
    let unsigned = |value: jint| {
        u32::try_from(value).map_err(|_| illegal("an option of a PlainTable is negative"))
    };
    Ok(New(TableFormat::Plain(Box::new(PlainTableOptions {
        user_key_len: unsigned(key_size)?,
        bloom_bits_per_key: bloom_bits,
        hash_table_ratio: ratio,
        index_sparseness: unsigned(sparseness)?.into(),
        huge_page_tlb_size: unsigned(huge_page)?.into(),
        encoding_type: match encoding {
            0 => PlainEncodingType::Plain,
            _ => PlainEncodingType::Prefix,
        },
        full_scan_mode: full_scan,
        store_index_in_file: store_index,
    }))))
}

pub fn skip_list(_env: Env, _lookahead: jlong) -> New<Memtable> {
    New(Memtable(MemtableFactory::SkipList))
}

pub fn vector(_env: Env, _reserved: jlong) -> New<Memtable> {
    New(Memtable(MemtableFactory::Vector))
}

pub fn hash_skip_list(
    _env: Env,
    _buckets: jlong,
    _height: jint,
    _branching: jint,
) -> New<Memtable> {
    New(Memtable(MemtableFactory::HashSkipList))
}

pub fn hash_linked_list(
    _env: Env,
    _buckets: jlong,
    _huge_page: jlong,
    _threshold: jint,
    _log: bool,
    _skip_list: jint,
) -> New<Memtable> {
    New(Memtable(MemtableFactory::HashLinkList))
}

pub fn bloom(_env: Env, bits_per_key: f64) -> New<FilterPolicy> {
    New(FilterPolicy::Bloom { bits_per_key })
}

fn cache(capacity: jlong, shard_bits: jint, build: CacheOptions) -> Outcome<New<Arc<BlockCache>>> {
    let capacity = usize::try_from(capacity).map_err(|_| illegal("the capacity is negative"))?;
    let num_shard_bits = u32::try_from(shard_bits).ok();
    Ok(New(Arc::new(BlockCache::new(
        capacity,
        CacheOptions {
            num_shard_bits,
            ..build
        },
    ))))
}

pub fn lru_cache(
    _env: Env,
    capacity: jlong,
    shard_bits: jint,
    strict_capacity_limit: bool,
    high_pri_pool_ratio: f64,
    low_pri_pool_ratio: f64,
) -> Outcome<New<Arc<BlockCache>>> {
    let build = CacheOptions {
        strict_capacity_limit,
        high_pri_pool_ratio,
        low_pri_pool_ratio,
        ..CacheOptions::lru()
    };
    cache(capacity, shard_bits, build)
}

pub fn clock_cache(
    _env: Env,
    capacity: jlong,
    shard_bits: jint,
    strict: bool,
) -> Outcome<New<Arc<BlockCache>>> {
    cache(
        capacity,
        shard_bits,
        CacheOptions {
            strict_capacity_limit: strict,
            ..CacheOptions::default()
        },
    )
}

pub fn hyper_clock_cache(
    _env: Env,
    capacity: jlong,
    _charge: jlong,
    shard_bits: jint,
    strict: bool,
) -> Outcome<New<Arc<BlockCache>>> {
    cache(
        capacity,
        shard_bits,
        CacheOptions {
            strict_capacity_limit: strict,
            ..CacheOptions::default()
        },
    )
}

pub fn cache_usage(_env: Env, cache: Ref<Arc<BlockCache>>) -> jlong {
    cache.usage() as jlong
}

pub fn cache_pinned_usage(_env: Env, cache: Ref<Arc<BlockCache>>) -> jlong {
    cache.pinned_usage() as jlong
}

pub fn write_buffer_manager(
    _env: Env,
    size: jlong,
    cache: Option<Ref<Arc<BlockCache>>>,
    allow_stall: bool,
) -> New<Arc<WriteBufferManager>> {
    let size = usize::try_from(size).unwrap_or(0);
    New(Arc::new(WriteBufferManager::new(
        size,
        cache.map(|cache| cache.clone()),
        allow_stall,
    )))
}

pub fn rate_limiter(
    _env: Env,
    bytes_per_second: jlong,
    refill: jlong,
    fairness: jint,
    mode: i8,
    auto_tuned: bool,
) -> New<Arc<RateLimiter>> {
    let mode = match mode {
        0 => RateLimited::ReadsOnly,
        2 => RateLimited::AllIo,
        _ => RateLimited::WritesOnly,
    };
    New(Arc::new(RateLimiter::new(
        bytes_per_second as u64,
        refill as u64,
        fairness.cast_unsigned(),
        mode,
        auto_tuned,
    )))
}

pub fn set_rate(_env: Env, limiter: Ref<Arc<RateLimiter>>, rate: jlong) {
    limiter.set_bytes_per_second(rate as u64);
}

pub fn rate(_env: Env, limiter: Ref<Arc<RateLimiter>>) -> jlong {
    limiter.bytes_per_second() as jlong
}

pub fn request(_env: Env, limiter: Ref<Arc<RateLimiter>>, bytes: jlong) {
    let world = World::posix();
    // As in RocksDB, a negative number is no request.
    let bytes = u64::try_from(bytes).unwrap_or(0);
    limiter.request(&*world.clock, bytes, IoPriority::User, IoKind::Write);
}

pub fn burst(_env: Env, limiter: Ref<Arc<RateLimiter>>) -> jlong {
    limiter.single_burst_bytes() as jlong
}

pub fn bytes_through(_env: Env, limiter: Ref<Arc<RateLimiter>>) -> jlong {
    limiter.total_bytes_through(None) as jlong
}

pub fn requests(_env: Env, limiter: Ref<Arc<RateLimiter>>) -> jlong {
    limiter.total_requests(None) as jlong
}

/// The handle of the default environment, which is never freed.
pub fn default_env(_env: Env) -> jlong {
    static DEFAULT: OnceLock<jlong> = OnceLock::new();
    *DEFAULT.get_or_init(|| crate::handle::create(World::posix()))
}

pub fn memory_env(_env: Env, _base: jlong) -> New<World> {
    New(World::in_memory())
}

pub fn timed_env(_env: Env, base: Ref<World>) -> New<World> {
    New(base.clone())
}

pub fn sst_file_manager(
    _env: Env,
    _world: Ref<World>,
    _logger: jlong,
    rate: jlong,
    ratio: f64,
    _chunk: jlong,
) -> New<Arc<SstFileManager>> {
    let manager = SstFileManager::new();
    manager.set_delete_rate_bytes_per_second(rate);
    manager.set_max_trash_db_ratio(ratio);
    New(Arc::new(manager))
}

pub fn set_max_space(_env: Env, manager: Ref<Arc<SstFileManager>>, bytes: jlong) {
    manager.set_max_allowed_space_usage(bytes as u64);
}

pub fn set_compaction_buffer(_env: Env, manager: Ref<Arc<SstFileManager>>, bytes: jlong) {
    manager.set_compaction_buffer_size(bytes as u64);
}

pub fn space_reached(_env: Env, manager: Ref<Arc<SstFileManager>>) -> bool {
    manager.is_max_allowed_space_reached()
}

pub fn space_reached_by_compactions(_env: Env, manager: Ref<Arc<SstFileManager>>) -> bool {
    manager.is_max_allowed_space_reached_including_compactions()
}

pub fn total_size(_env: Env, manager: Ref<Arc<SstFileManager>>) -> jlong {
    manager.total_size() as jlong
}

pub fn tracked_files(env: Env, manager: Ref<Arc<SstFileManager>>) -> Outcome<Object> {
    let files = manager.tracked_files();
    env.map(files.iter().map(|(path, bytes)| {
        let path = env.string_of_path(path)?;
        Ok((Object(path.0), env.boxed_long(*bytes as jlong)?))
    }))
}

pub fn delete_rate(_env: Env, manager: Ref<Arc<SstFileManager>>) -> jlong {
    manager.delete_rate_bytes_per_second()
}

pub fn set_delete_rate(_env: Env, manager: Ref<Arc<SstFileManager>>, rate: jlong) {
    manager.set_delete_rate_bytes_per_second(rate);
}

pub fn trash_ratio(_env: Env, manager: Ref<Arc<SstFileManager>>) -> f64 {
    manager.max_trash_db_ratio()
}

pub fn set_trash_ratio(_env: Env, manager: Ref<Arc<SstFileManager>>, ratio: f64) {
    manager.set_max_trash_db_ratio(ratio);
}

fn operator(text: &str) -> Outcome<New<Arc<dyn MergeOperator>>> {
    let found = cairn_options::merge_operators::from_text(text);
    Ok(New(found.map_err(|_| {
        Error::not_supported(format!("merge operator {text}"))
    })?))
}

pub fn string_append(env: Env, delimiter: JString) -> Outcome<New<Arc<dyn MergeOperator>>> {
    Ok(New(Arc::new(
        cairn_options::merge_operators::StringAppend::new(env.modified_utf8(delimiter)?),
    )))
}

/// As in RocksJava, the delimiter is the low byte of the character.
pub fn string_append_char(_env: Env, delimiter: u16) -> New<Arc<dyn MergeOperator>> {
    New(Arc::new(cairn_options::merge_operators::StringAppend::new(
        [delimiter as u8],
    )))
}

pub fn uint64_add(_env: Env) -> Outcome<New<Arc<dyn MergeOperator>>> {
    operator("uint64add")
}

pub fn fixed_prefix_partitioner(_env: Env, len: jlong) -> New<Arc<dyn SstPartitionerFactory>> {
    New(Arc::new(FixedPrefixPartitions::new(
        usize::try_from(len).unwrap_or(0),
    )))
}

/// The Java levels: all but detailed timers, all but mutex times, all.
fn level_of(number: i8) -> StatsLevel {
    match number {
        0 => StatsLevel::ExceptDetailedTimers,
        1 => StatsLevel::ExceptTimeForMutex,
        _ => StatsLevel::All,
    }
}

fn empty_statistics() -> Statistics {
    Statistics::new(StatsLevel::ExceptDetailedTimers)
}

fn created(statistics: Statistics) -> New<StatisticsHandle> {
    New(StatisticsHandle(Arc::new(statistics)))
}

pub fn new_statistics(_env: Env) -> New<StatisticsHandle> {
    created(empty_statistics())
}

pub fn new_statistics_of(_env: Env, other: Ref<StatisticsHandle>) -> New<StatisticsHandle> {
    created(empty_statistics().forwarding_to(other.0.0.clone()))
}

pub fn new_statistics_without(env: Env, ignored: ByteArray) -> Outcome<New<StatisticsHandle>> {
    let ignored = histograms(env, ignored)?;
    Ok(created(empty_statistics().without_times_of(ignored)))
}

pub fn new_statistics_without_of(
    env: Env,
    ignored: ByteArray,
    other: Ref<StatisticsHandle>,
) -> Outcome<New<StatisticsHandle>> {
    let ignored = histograms(env, ignored)?;
    let inner = other.0.0.clone();
    Ok(created(
        empty_statistics()
            .forwarding_to(inner)
            .without_times_of(ignored),
    ))
}

/// The histograms with RocksJava's `numbers`. Numbers that Cairn does not have are skipped.
fn histograms(env: Env, numbers: ByteArray) -> Outcome<Vec<Histogram>> {
    let numbers = env.all_bytes(numbers)?;
    let known = numbers
        .iter()
        .filter_map(|number| histogram(number.cast_signed()));
    Ok(known.collect())
}

pub fn stats_level(_env: Env, statistics: Ref<StatisticsHandle>) -> i8 {
    match statistics.0.0.level() {
        StatsLevel::All => 2,
        StatsLevel::ExceptTimeForMutex => 1,
        _ => 0,
    }
}

pub fn set_stats_level(_env: Env, statistics: Ref<StatisticsHandle>, level: i8) {
    statistics.0.0.set_level(level_of(level));
}

fn ticker(number: i8) -> Option<Ticker> {
    Ticker::named(tickers::ticker(number)?)
}

fn histogram(number: i8) -> Option<Histogram> {
    Histogram::named(tickers::histogram(number)?)
}

pub fn ticker_count(_env: Env, statistics: Ref<StatisticsHandle>, number: i8) -> jlong {
    ticker(number).map_or(0, |ticker| statistics.0.0.ticker(ticker) as jlong)
}

pub fn take_ticker(_env: Env, statistics: Ref<StatisticsHandle>, number: i8) -> jlong {
    ticker(number).map_or(0, |ticker| statistics.0.0.take_ticker(ticker) as jlong)
}

pub fn histogram_data(env: Env, statistics: Ref<StatisticsHandle>, number: i8) -> Outcome<Object> {
    let data = histogram(number)
        .map(|histogram| statistics.0.0.histogram(histogram).data())
        .unwrap_or_default();
    env.create(
        "org/rocksdb/HistogramData",
        "(DDDDDDJJD)V",
        &[
            jvalue { d: data.median },
            jvalue {
                d: data.percentile95,
            },
            jvalue {
                d: data.percentile99,
            },
            jvalue { d: data.average },
            jvalue {
                d: data.standard_deviation,
            },
            jvalue { d: data.max },
            jvalue {
                j: data.count as jlong,
            },
            jvalue {
                j: data.sum as jlong,
            },
            jvalue { d: data.min },
        ],
    )
}

pub fn histogram_text(env: Env, statistics: Ref<StatisticsHandle>, number: i8) -> Outcome<JString> {
    let Some(histogram) = histogram(number) else {
        return env.string("");
    };
    env.string(&statistics.0.0.histogram(histogram).text())
}

pub fn reset_statistics(_env: Env, statistics: Ref<StatisticsHandle>) {
    statistics.0.0.reset();
}

pub fn statistics_text(env: Env, statistics: Ref<StatisticsHandle>) -> Outcome<JString> {
    env.string(&statistics.0.0.to_string())
}

/// The number of a priority in Java: bottom, low, high.
fn priority(number: i8) -> Outcome<Priority> {
    match number {
        0 => Ok(Priority::Bottom),
        1 => Ok(Priority::Low),
        2 => Ok(Priority::High),
        _ => Err(illegal("unknown priority")),
    }
}

pub fn set_background_threads(
    _env: Env,
    world: Ref<World>,
    threads: jint,
    number: i8,
) -> Outcome<()> {
    world
        .executor
        .set_threads(priority(number)?, usize::try_from(threads).unwrap_or(0));
    Ok(())
}

pub fn background_threads(_env: Env, world: Ref<World>, number: i8) -> Outcome<jint> {
    crate::env::size(world.executor.threads(priority(number)?))
}

pub fn more_background_threads(
    _env: Env,
    world: Ref<World>,
    threads: jint,
    number: i8,
) -> Outcome<()> {
    let (pool, threads) = (priority(number)?, usize::try_from(threads).unwrap_or(0));
    if world.executor.threads(pool) < threads {
        world.executor.set_threads(pool, threads);
    }
    Ok(())
}

pub fn lower_io_priority(_env: Env, world: Ref<World>, number: i8) -> Outcome<()> {
    world.executor.lower_io_priority(priority(number)?);
    Ok(())
}

pub fn lower_cpu_priority(_env: Env, world: Ref<World>, number: i8) -> Outcome<()> {
    world.executor.lower_cpu_priority(priority(number)?);
    Ok(())
}

/// A factory of collectors that mark tables with many deletions.
pub fn compact_on_deletion(
    _env: Env,
    window: jlong,
    trigger: jlong,
    ratio: f64,
) -> New<Arc<dyn TablePropertiesCollectorFactory>> {
    let count = |value| usize::try_from(value).unwrap_or(0);
    New(Arc::new(CompactOnDeletion {
        deletion_ratio: ratio,
        ..CompactOnDeletion::new(count(window), count(trigger))
    }))
}

pub fn set_collectors(env: Env, mut options: Mut<AllOptions>, factories: LongArray) -> Outcome<()> {
    let mut collectors = Collectors::default();
    for factory in env.longs(factories)? {
        collectors
            .push(crate::handle::of::<Arc<dyn TablePropertiesCollectorFactory>>(factory)?.clone());
    }
    options.family.table_properties_collector_factories = collectors;
    Ok(())
}

/// New handles of the factories, which Java owns.
pub fn collectors(env: Env, options: Ref<AllOptions>) -> Outcome<LongArray> {
    let factories = options.family.table_properties_collector_factories.all();
    let handles: Vec<jlong> = factories
        .iter()
        .map(|factory| crate::handle::create(factory.clone()))
        .collect();
    env.long_array(&handles)
}

/// A perf counter of the calling thread.
pub fn perf(metric: PerfMetric, _handle: jlong) -> Outcome<jlong> {
    Ok(perf::metric(metric) as jlong)
}

/// Java's perf levels omit the level of waiting times.
pub fn set_perf_level(_env: Env, level: i8) -> Outcome<()> {
    let number = if level >= 3 { level + 1 } else { level };
    let level =
        PerfLevel::from_number(i64::from(number)).ok_or_else(|| illegal("unknown perf level"))?;
    perf::set_level(level);
    Ok(())
}

pub fn perf_level(_env: Env) -> i8 {
    let number = perf::level() as i8;
    if number >= 3 { number - 1 } else { number }
}

/// A number that stands for the counters of the calling thread.
pub fn perf_context(_env: Env) -> jlong {
    perf::begin_use();
    1
}

pub fn reset_perf(_env: Env, _handle: jlong) {
    perf::reset();
}

pub fn perf_text(env: Env, _handle: jlong, without_zeros: bool) -> Outcome<JString> {
    env.string(&perf::report(without_zeros))
}
