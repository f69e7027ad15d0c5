//! `Options`, `DBOptions`, `ColumnFamilyOptions`, `ReadOptions` and the options of single operations.

use std::borrow::Cow;
use std::sync::Arc;

use cairn_memory::BlockCache;
use cairn_observe::statistics::Keeping;
use cairn_options::{
    Canceled, CompactRangeOptions, Compression, DbOptions, DbPath, DefaultCache, FamilyOptions,
    FifoCompactionOptions, FlushOptions, IngestExternalFileOptions, Plugin,
    UniversalCompactionOptions, WriteOptions,
};
use cairn_platform::World;
use cairn_types::{Error, KeyOrder, MergeOperator, PrefixExtractor, Result};
use jni_sys::{jint, jlong, jvalue};

use crate::callbacks::ComparatorHandle;
use crate::env::{ByteArray, Env, IntArray, JString, LongArray, Object, ObjectArray, Outcome};
use crate::handle::{Mut, New, Own, Ref};
use crate::listener::ListenerHandle;
use crate::objects::{Memtable, StatisticsHandle, TableFormat};
use crate::scalar::{self, DISABLED};
use crate::slice::Slice;

/// The object of `Options`, `DBOptions` and `ColumnFamilyOptions`, each of which uses a part of it.
#[derive(Clone)]
pub struct AllOptions {
    /// Options of the database.
    pub db: DbOptions,
    /// Options of a column family.
    pub family: FamilyOptions,
    /// The file system, clock and threads; `None` for those of the operating system.
    pub world: Option<World>,
    /// The handle of `world`, which Java keeps; 0 for the default.
    pub env_handle: jlong,
    /// The listeners, which are bound to each database that is opened.
    pub listeners: Vec<ListenerHandle>,
    /// True if the compression is `DISABLE_COMPRESSION_OPTION`, with which no family can be opened.
    pub compression_disabled: bool,
    /// Options of RocksJava that have no effect on results, kept for their getters.
    pub inert: Inert,
}

/// Options without an effect.
#[derive(Clone)]
pub struct Inert {
    /// `random_access_max_buffer_size`, which RocksDB no longer has.
    pub random_access_max_buffer_size: i64,
    /// `access_hint_on_compaction_start`, which RocksDB no longer has.
    pub access_hint: i8,
    /// A failure to write the OPTIONS file always fails the operation.
    pub fail_if_options_file_error: bool,
    /// Sizes are always checked.
    pub skip_checking_sst_file_sizes: bool,
    /// Superseded by `max_write_buffer_size_to_maintain`.
    pub max_write_buffer_number_to_maintain: i32,
    /// `base_background_compactions`, which RocksDB no longer has.
    pub base_background_compactions: i32,
    /// `new_table_reader_for_compaction_inputs`, which RocksDB no longer has.
    pub new_table_reader_for_compaction_inputs: bool,
}

/// The default options of a family. RocksDB's library of the loaded classes can read the tables.
fn default_family() -> FamilyOptions {
    let mut family = FamilyOptions::default();
    family.table.format_version = crate::versions::format_version();
    family.table.checksum = crate::versions::checksum();
    family
}

/// `options` with the defaults of RocksJava: no statistics, and a default block cache shared by copies. Family objects
/// do not contribute a cache.
fn java_defaults(mut options: DbOptions) -> DbOptions {
    options.statistics = Keeping::Nothing;
    options.default_block_cache = Some(DefaultCache::default());
    options
}

impl Default for AllOptions {
    fn default() -> AllOptions {
        AllOptions {
            db: java_defaults(DbOptions::default()),
            family: default_family(),
            world: None,
            env_handle: 0,
            listeners: Vec::new(),
            compression_disabled: false,
            inert: Inert {
                random_access_max_buffer_size: 1 << 20,
                access_hint: 1,
                fail_if_options_file_error: true,
                skip_checking_sst_file_sizes: false,
                max_write_buffer_number_to_maintain: 0,
                base_background_compactions: -1,
                new_table_reader_for_compaction_inputs: false,
            },
        }
    }
}

impl AllOptions {
    /// The file system, clock and threads.
    pub fn world(&self) -> World {
        self.world.clone().unwrap_or_else(World::posix)
    }

    /// The options of a family that is opened or created.
    pub fn family(&self) -> Result<&FamilyOptions> {
        match self.compression_disabled {
            false => Ok(&self.family),
            true => Err(Error::invalid_argument(
                "compression is kDisableCompressionOption, which is for bottommost_compression only",
            )),
        }
    }
}

/// The object of `ReadOptions`: the options, and the handles that its getters return.
#[derive(Clone, Default)]
pub struct ReadOptions {
    /// The options except the slices, which [`ReadOptions::current`] adds.
    pub options: cairn_options::ReadOptions,
    snapshot: jlong,
    upper: SliceOption,
    lower: SliceOption,
    timestamp: SliceOption,
    start_timestamp: SliceOption,
    /// `managed`, which RocksDB no longer has.
    pub managed: bool,
}

/// An option of a read that is a slice. As in RocksDB, each read uses the content of the slice at that time.
#[derive(Clone, Default)]
struct SliceOption {
    /// For the getter only: Java may have closed it.
    handle: jlong,
    slice: Option<Slice>,
}

impl SliceOption {
    fn bytes(&self) -> Option<Vec<u8>> {
        self.slice.as_ref().map(|slice| slice.bytes().to_vec())
    }
}

impl ReadOptions {
    /// The options for an iterator, with the current content of the slices.
    pub fn current(&self) -> Cow<'_, cairn_options::ReadOptions> {
        let mut options = self.for_lookup();
        if self.upper.slice.is_some() || self.lower.slice.is_some() {
            let options = options.to_mut();
            options.iterate_upper_bound = self.upper.bytes();
            options.iterate_lower_bound = self.lower.bytes();
        }
        if self.start_timestamp.slice.is_some() {
            options.to_mut().iter_start_ts = self.start_timestamp.bytes();
        }
        options
    }

    /// The options for a point lookup, which has no bounds, with the current timestamp.
    #[inline]
    pub fn for_lookup(&self) -> Cow<'_, cairn_options::ReadOptions> {
        match self.timestamp.slice {
            None => Cow::Borrowed(&self.options),
            Some(_) => Cow::Owned(cairn_options::ReadOptions {
                timestamp: self.timestamp.bytes(),
                ..self.options.clone()
            }),
        }
    }
}

pub fn new(_env: Env) -> New<AllOptions> {
    New(AllOptions::default())
}

pub fn new_of(_env: Env, db: Ref<AllOptions>, family: Ref<AllOptions>) -> New<AllOptions> {
    New(AllOptions {
        family: family.family.clone(),
        compression_disabled: family.compression_disabled,
        ..db.clone()
    })
}

pub fn copy(_env: Env, options: Ref<AllOptions>) -> New<AllOptions> {
    New(options.clone())
}

pub fn destroy(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<AllOptions>(env, handle)
}

pub fn destroy_read(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<ReadOptions>(env, handle)
}

macro_rules! plain {
    ($($create:ident, $destroy:ident: $type:ty;)+) => {$(
        pub fn $create(_env: Env) -> New<$type> {
            New(<$type>::default())
        }
        pub fn $destroy(env: Env, handle: jlong) -> Outcome<()> {
            crate::handle::destroy::<$type>(env, handle)
        }
    )+};
}

plain! {
    new_write, destroy_write: WriteOptions;
    new_flush, destroy_flush: FlushOptions;
    new_compression, destroy_compression: crate::CompressionOptions;
    new_universal, destroy_universal: UniversalCompactionOptions;
    new_fifo, destroy_fifo: FifoCompactionOptions;
    new_ingest, destroy_ingest: IngestExternalFileOptions;
    new_txn, destroy_txn: crate::TransactionOptions;
    new_txn_db, destroy_txn_db: crate::TransactionDbOptions;
    new_read, _destroy_read: ReadOptions;
}

pub fn copy_write(_env: Env, options: Ref<WriteOptions>) -> New<WriteOptions> {
    New(options.clone())
}

pub fn copy_read(_env: Env, options: Ref<ReadOptions>) -> New<ReadOptions> {
    New(options.clone())
}

pub fn new_read_with(_env: Env, verify_checksums: bool, fill_cache: bool) -> New<ReadOptions> {
    let mut new = ReadOptions::default();
    new.options.verify_checksums = verify_checksums;
    new.options.fill_cache = fill_cache;
    New(new)
}

pub fn new_ingest_with(
    _env: Env,
    move_files: bool,
    snapshot_consistency: bool,
    allow_global_seqno: bool,
    allow_blocking_flush: bool,
) -> New<IngestExternalFileOptions> {
    New(IngestExternalFileOptions {
        move_files,
        snapshot_consistency,
        allow_global_seqno,
        allow_blocking_flush,
        ..IngestExternalFileOptions::default()
    })
}

pub fn set_snapshot(_env: Env, mut options: Mut<ReadOptions>, snapshot: jlong) -> Outcome<()> {
    options.snapshot = snapshot;
    options.options.snapshot = match snapshot {
        0 => None,
        handle => Some(crate::db::snapshot_sequence(handle)?),
    };
    Ok(())
}

pub fn snapshot(_env: Env, options: Ref<ReadOptions>) -> jlong {
    options.snapshot
}

macro_rules! bounds {
    ($($set:ident, $get:ident;)+) => {$(
        pub fn $set(_env: Env, mut options: Mut<ReadOptions>, handle: jlong) -> Outcome<()> {
            let slice = match handle {
                0 => None,
                handle => Some(crate::handle::of::<Slice>(handle)?.clone()),
            };
            options.$get = SliceOption { handle, slice };
            Ok(())
        }
        pub fn $get(_env: Env, options: Ref<ReadOptions>) -> jlong {
            options.$get.handle
        }
    )+};
}

bounds! {
    set_upper, upper;
    set_lower, lower;
    set_timestamp, timestamp;
    set_start_timestamp, start_timestamp;
}

pub fn increase_parallelism(_env: Env, mut options: Mut<AllOptions>, threads: jint) {
    let executor = options.world().executor;
    cairn_options::presets::increase_parallelism(&mut options.db, &*executor, threads);
}

pub fn prepare_for_bulk_load(_env: Env, options: Mut<AllOptions>) {
    let all = options.0;
    cairn_options::presets::prepare_for_bulk_load(&mut all.db, &mut all.family);
}

pub fn old_defaults(_env: Env, options: Mut<AllOptions>, major: jint, minor: jint) {
    let all = options.0;
    let (major, minor) = (
        u32::try_from(major).unwrap_or(0),
        u32::try_from(minor).unwrap_or(0),
    );
    all.db.old_defaults(major, minor);
    all.family.old_defaults(major, minor);
}

pub fn small_db(_env: Env, options: Mut<AllOptions>) {
    let all = options.0;
    all.db.optimize_for_small_db();
    all.family.optimize_for_small_db(None);
}

pub fn small_db_with(_env: Env, options: Mut<AllOptions>, cache: Option<Ref<Arc<BlockCache>>>) {
    let all = options.0;
    all.db.optimize_for_small_db();
    all.family
        .optimize_for_small_db(cache.map(|cache| (*cache).clone()));
}

pub fn point_lookup(_env: Env, mut options: Mut<AllOptions>, megabytes: jlong) {
    options.family.optimize_for_point_lookup(megabytes as u64);
}

pub fn level_style(_env: Env, mut options: Mut<AllOptions>, bytes: jlong) {
    options.family.optimize_level_style_compaction(bytes as u64);
}

pub fn universal_style(_env: Env, mut options: Mut<AllOptions>, bytes: jlong) {
    options
        .family
        .optimize_universal_style_compaction(bytes as u64);
}

pub fn set_builtin_comparator(_env: Env, mut options: Mut<AllOptions>, number: jint) {
    options.family.comparator = match number {
        1 => KeyOrder::ReverseBytewise,
        _ => KeyOrder::Bytewise,
    };
}

pub fn set_comparator(
    _env: Env,
    mut options: Mut<AllOptions>,
    order: Ref<ComparatorHandle>,
    _kind: i8,
) {
    options.family.comparator = order.clone();
}

pub fn set_merge_operator(
    _env: Env,
    mut options: Mut<AllOptions>,
    operator: Ref<Arc<dyn MergeOperator>>,
) {
    options.family.merge_operator = Some(operator.clone());
}

pub fn set_merge_operator_name(
    env: Env,
    mut options: Mut<AllOptions>,
    name: JString,
) -> Outcome<()> {
    // As in RocksJava, an unknown name selects none.
    options.family.merge_operator =
        cairn_options::merge_operators::from_text(&env.text(name)?).ok();
    Ok(())
}

pub fn fixed_prefix(_env: Env, mut options: Mut<AllOptions>, len: jint) {
    options.family.prefix_extractor =
        Some(PrefixExtractor::Fixed(usize::try_from(len).unwrap_or(0)));
}

pub fn capped_prefix(_env: Env, mut options: Mut<AllOptions>, len: jint) {
    options.family.prefix_extractor =
        Some(PrefixExtractor::Capped(usize::try_from(len).unwrap_or(0)));
}

pub fn set_table_format(_env: Env, mut options: Mut<AllOptions>, format: Own<TableFormat>) {
    // In RocksDB the default cache belongs to the table format.
    options.db.default_block_cache = Some(DefaultCache::default());
    match format.0 {
        TableFormat::Blocks(table) => {
            options.family.table_factory = cairn_options::TableKind::BlockBased;
            options.family.table = *table;
        }
        TableFormat::Plain(table) => {
            options.family.table_factory = cairn_options::TableKind::Plain;
            options.family.plain_table = *table;
        }
    }
}

pub fn table_format_name(env: Env, options: Ref<AllOptions>) -> Outcome<JString> {
    env.string(match options.family.table_factory {
        cairn_options::TableKind::Plain => "PlainTable",
        cairn_options::TableKind::Cuckoo => "CuckooTable",
        _ => "BlockBasedTable",
    })
}

pub fn set_memtable(_env: Env, mut options: Mut<AllOptions>, memtable: Own<Memtable>) {
    options.family.memtable_factory = memtable.0.0;
}

pub fn memtable_name(env: Env, options: Ref<AllOptions>) -> Outcome<JString> {
    use cairn_options::MemtableFactory;
    env.string(match options.family.memtable_factory {
        MemtableFactory::Vector => "VectorRepFactory",
        MemtableFactory::HashSkipList => "HashSkipListRepFactory",
        MemtableFactory::HashLinkList => "HashLinkedListRepFactory",
        _ => "SkipListFactory",
    })
}

pub fn set_env(_env: Env, mut options: Mut<AllOptions>, handle: jlong) -> Outcome<()> {
    let world = crate::handle::of::<World>(handle)?;
    options.world = Some(world.clone());
    options.env_handle = handle;
    Ok(())
}

pub fn set_statistics(_env: Env, mut options: Mut<AllOptions>, statistics: Ref<StatisticsHandle>) {
    options.db.statistics = Keeping::Shared(statistics.0.0.clone());
}

pub fn statistics(_env: Env, options: Ref<AllOptions>) -> jlong {
    match &options.db.statistics {
        Keeping::Shared(statistics) => crate::handle::create(StatisticsHandle(statistics.clone())),
        Keeping::Own | Keeping::Nothing => 0,
    }
}

macro_rules! shared {
    ($($set:ident: $type:ty => $($field:ident).+;)+) => {$(
        pub fn $set(_env: Env, mut options: Mut<AllOptions>, object: Option<Ref<Arc<$type>>>) {
            options.$($field).+ = object.map(|object| (*object).clone());
        }
    )+};
}

shared! {
    set_rate_limiter: cairn_platform::RateLimiter => db.rate_limiter;
    set_compaction_limiter: cairn_platform::ConcurrentTaskLimiter => family.compaction_thread_limiter;
    set_write_buffer_manager: cairn_memory::WriteBufferManager => db.write_buffer_manager;
    set_row_cache: BlockCache => db.row_cache;
    set_sst_file_manager: cairn_platform::SstFileManager => db.sst_file_manager;
}

pub fn set_partitioner(
    _env: Env,
    mut options: Mut<AllOptions>,
    factory: Ref<Arc<dyn cairn_types::SstPartitionerFactory>>,
) {
    options.family.sst_partitioner_factory = Plugin::Object(factory.clone());
}

pub fn set_compression_options(
    _env: Env,
    mut options: Mut<AllOptions>,
    compression: Ref<crate::CompressionOptions>,
) {
    options.family.compression_opts = compression.clone();
}

pub fn set_bottommost_compression_options(
    _env: Env,
    mut options: Mut<AllOptions>,
    compression: Ref<crate::CompressionOptions>,
) {
    options.family.bottommost_compression_opts = compression.clone();
}

pub fn set_universal(
    _env: Env,
    mut options: Mut<AllOptions>,
    universal: Ref<UniversalCompactionOptions>,
) {
    options.family.compaction_options_universal = universal.clone();
}

pub fn set_fifo(_env: Env, mut options: Mut<AllOptions>, fifo: Ref<FifoCompactionOptions>) {
    options.family.compaction_options_fifo = fifo.clone();
}

pub fn set_compression(_env: Env, mut options: Mut<AllOptions>, kind: i8) -> Outcome<()> {
    options.compression_disabled = kind == DISABLED;
    match options.compression_disabled {
        true => Ok(()),
        false => scalar::set(&mut options.family.compression, kind, "setCompressionType"),
    }
}

pub fn compression(_env: Env, options: Ref<AllOptions>) -> Outcome<i8> {
    match options.compression_disabled {
        true => Ok(DISABLED),
        false => scalar::get(&options.family.compression),
    }
}

pub fn set_compression_per_level(
    env: Env,
    mut options: Mut<AllOptions>,
    levels: ByteArray,
) -> Outcome<()> {
    let levels = env.all_bytes(levels)?;
    let levels: Option<Vec<Compression>> = levels
        .iter()
        .map(|level| Compression::from_u8(*level))
        .collect();
    options.family.compression_per_level =
        levels.ok_or_else(|| Error::invalid_argument("unknown compression"))?;
    Ok(())
}

pub fn compression_per_level(env: Env, options: Ref<AllOptions>) -> Outcome<ByteArray> {
    let levels: Vec<u8> = options
        .family
        .compression_per_level
        .iter()
        .map(|level| *level as u8)
        .collect();
    env.byte_array(&levels)
}

pub fn set_level_multipliers(
    env: Env,
    mut options: Mut<AllOptions>,
    factors: IntArray,
) -> Outcome<()> {
    options.family.max_bytes_for_level_multiplier_additional = env.ints(factors)?;
    Ok(())
}

pub fn level_multipliers(env: Env, options: Ref<AllOptions>) -> Outcome<IntArray> {
    env.int_array(&options.family.max_bytes_for_level_multiplier_additional)
}

fn paths(env: Env, names: ObjectArray, sizes: LongArray) -> Outcome<Vec<DbPath>> {
    let (names, sizes) = (env.paths(names)?, env.longs(sizes)?);
    let pairs = names.into_iter().zip(sizes);
    Ok(pairs
        .map(|(path, size)| DbPath {
            path,
            target_size: size as u64,
        })
        .collect())
}

fn store_paths(env: Env, paths: &[DbPath], names: ObjectArray, sizes: LongArray) -> Outcome<()> {
    let longs: Vec<jlong> = paths.iter().map(|path| path.target_size as jlong).collect();
    env.set_longs(sizes, &longs)?;
    for (at, path) in paths.iter().enumerate() {
        let name = env.string_of_path(&path.path)?;
        env.set_element(names, at, crate::env::Object(name.0))?;
    }
    Ok(())
}

macro_rules! path_lists {
    ($($set:ident, $get:ident, $len:ident => $($field:ident).+;)+) => {$(
        pub fn $set(env: Env, mut options: Mut<AllOptions>, names: ObjectArray, sizes: LongArray) -> Outcome<()> {
            options.$($field).+ = paths(env, names, sizes)?;
            Ok(())
        }
        pub fn $get(env: Env, options: Ref<AllOptions>, names: ObjectArray, sizes: LongArray) -> Outcome<()> {
            store_paths(env, &options.$($field).+, names, sizes)
        }
        pub fn $len(_env: Env, options: Ref<AllOptions>) -> jlong {
            options.$($field).+.len() as jlong
        }
    )+};
}

path_lists! {
    set_db_paths, db_paths, db_paths_len => db.db_paths;
    set_cf_paths, cf_paths, cf_paths_len => family.cf_paths;
}

macro_rules! texts {
    ($($set:ident by $take:ident, $get:ident by $give:ident => $field:ident;)+) => {$(
        pub fn $set(env: Env, mut options: Mut<AllOptions>, text: JString) -> Outcome<()> {
            options.db.$field = env.$take(text)?;
            Ok(())
        }
        pub fn $get(env: Env, options: Ref<AllOptions>) -> Outcome<JString> {
            env.$give(&options.db.$field)
        }
    )+};
}

texts! {
    set_log_dir by path, log_dir by string_of_path => db_log_dir;
    set_wal_dir by path, wal_dir by string_of_path => wal_dir;
    set_offpeak by text, offpeak by string => daily_offpeak_time_utc;
}

fn family_from(env: Env, text: JString, ignore_unknown: bool) -> Outcome<jlong> {
    let parsed = parse(default_family(), &env.text(text)?, ignore_unknown);
    Ok(parsed.map_or(0, |family| {
        crate::handle::create(AllOptions {
            family,
            ..AllOptions::default()
        })
    }))
}

/// `options`, changed by `text`; `None`, which becomes null, if it is rejected.
fn parse<T: cairn_options::Options>(mut options: T, text: &str, ignore_unknown: bool) -> Option<T> {
    let parsed = match ignore_unknown {
        true => options.update_from_known(text).map(drop),
        false => options.update_from(text),
    };
    parsed.ok().map(|()| options)
}

pub fn family_from_text(env: Env, text: JString) -> Outcome<jlong> {
    family_from(env, text, false)
}

pub fn family_from_text_with(
    env: Env,
    config: Ref<ConfigOptions>,
    text: JString,
) -> Outcome<jlong> {
    family_from(env, text, config.ignore_unknown)
}

fn db_from(env: Env, text: JString, ignore_unknown: bool) -> Outcome<jlong> {
    let parsed = parse(DbOptions::default(), &env.text(text)?, ignore_unknown);
    Ok(parsed.map_or(0, |db| {
        crate::handle::create(AllOptions {
            db: java_defaults(db),
            ..AllOptions::default()
        })
    }))
}

pub fn db_from_text(env: Env, text: JString) -> Outcome<jlong> {
    db_from(env, text, false)
}

pub fn db_from_text_with(env: Env, config: Ref<ConfigOptions>, text: JString) -> Outcome<jlong> {
    db_from(env, text, config.ignore_unknown)
}

/// The object of `ConfigOptions`.
pub struct ConfigOptions {
    /// The environment of files.
    pub world: Option<World>,
    /// True if unknown options are ignored.
    pub ignore_unknown: bool,
}

pub fn new_config(_env: Env) -> New<ConfigOptions> {
    New(ConfigOptions {
        world: None,
        ignore_unknown: false,
    })
}

pub fn destroy_config(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<ConfigOptions>(env, handle)
}

pub fn set_config_env(_env: Env, mut config: Mut<ConfigOptions>, world: Ref<World>) {
    config.world = Some(world.clone());
}

pub fn set_config_delimiter(_env: Env, _config: Ref<ConfigOptions>, _delimiter: JString) {}

pub fn set_config_ignore_unknown(_env: Env, mut config: Mut<ConfigOptions>, ignore: bool) {
    config.ignore_unknown = ignore;
}

pub fn set_config_escaped(_env: Env, _config: Ref<ConfigOptions>, _escaped: bool) {}

pub fn set_config_sanity(_env: Env, _config: Ref<ConfigOptions>, _level: i8) {}

/// An OPTIONS file.
pub enum Source {
    /// The newest one of the database in a directory.
    Latest(JString),
    /// The one with a path.
    File(JString),
}

/// Sets the options of a file.
pub fn load(
    env: Env,
    config: &ConfigOptions,
    source: Source,
    options: jlong,
    descriptors: crate::env::Object,
) -> Outcome<()> {
    let world = &config.world.clone().unwrap_or_else(World::posix);
    let mut file = match source {
        Source::Latest(dir) => {
            let dir = env.path(dir)?;
            cairn_db::load_latest_options(&dir, config.ignore_unknown, world)?
        }
        Source::File(path) => {
            let path = env.path(path)?;
            cairn_db::load_options(&path, config.ignore_unknown, world)?
        }
    };
    file.forget_unknown_code();
    let target = crate::handle::of_mut::<AllOptions>(options)?;
    target.db = java_defaults(file.db);
    target.world = Some(world.clone());
    let items = file.families.into_iter().map(|(name, family)| {
        let handle = crate::handle::create(AllOptions {
            family,
            ..AllOptions::default()
        });
        let options = env.create(
            "org/rocksdb/ColumnFamilyOptions",
            "(J)V",
            &[jni_sys::jvalue { j: handle }],
        )?;
        let name = env.byte_array(name.as_bytes())?;
        let descriptor = env.create(
            "org/rocksdb/ColumnFamilyDescriptor",
            "([BLorg/rocksdb/ColumnFamilyOptions;)V",
            &[
                jni_sys::jvalue { l: name.0 },
                jni_sys::jvalue { l: options.0 },
            ],
        )?;
        env.forget(crate::env::Object(name.0));
        env.forget(options);
        Ok(descriptor)
    });
    env.append(descriptors, items)
}

pub fn load_latest(
    env: Env,
    config: Ref<ConfigOptions>,
    path: JString,
    options: jlong,
    descriptors: crate::env::Object,
) -> Outcome<()> {
    load(env, config.0, Source::Latest(path), options, descriptors)
}

pub fn load_file(
    env: Env,
    config: Ref<ConfigOptions>,
    path: JString,
    options: jlong,
    descriptors: crate::env::Object,
) -> Outcome<()> {
    load(env, config.0, Source::File(path), options, descriptors)
}

pub fn latest_file_name(env: Env, path: JString, world: Ref<World>) -> Outcome<JString> {
    let found = cairn_db::latest_options_file(&env.path(path)?, &world)?;
    let name = found
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    env.string(&name.unwrap_or_default())
}

pub fn new_compact_range(_env: Env) -> New<CompactRangeOptions> {
    // The flag exists from the beginning, so that it can be set while a compaction runs.
    New(CompactRangeOptions {
        canceled: Canceled::new(),
        ..CompactRangeOptions::default()
    })
}

pub fn destroy_compact_range(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<CompactRangeOptions>(env, handle)
}

pub fn set_canceled(_env: Env, options: Ref<CompactRangeOptions>, canceled: bool) {
    if let Some(flag) = options.canceled.flag() {
        flag.store(canceled, std::sync::atomic::Ordering::Release);
    }
}

pub fn canceled(_env: Env, options: Ref<CompactRangeOptions>) -> bool {
    options.canceled.is_canceled()
}

/// A timestamp of two numbers, in the encoding of RocksJava.
pub fn set_history_low(
    _env: Env,
    mut options: Mut<CompactRangeOptions>,
    start: jlong,
    range: jlong,
) {
    options.full_history_ts_low = Some([start.to_le_bytes(), range.to_le_bytes()].concat());
}

/// The timestamp, or null.
pub fn history_low(env: Env, options: Ref<CompactRangeOptions>) -> Outcome<Object> {
    let numbers = options.full_history_ts_low.as_ref().and_then(|low| {
        let (start, range) = low.split_at_checked(8)?;
        Some([
            jlong::from_le_bytes(start.try_into().ok()?),
            jlong::from_le_bytes(range.try_into().ok()?),
        ])
    });
    match numbers {
        None => Ok(Object::default()),
        Some(numbers) => env.create(
            "org/rocksdb/CompactRangeOptions$Timestamp",
            "(JJ)V",
            &numbers.map(|number| jvalue { j: number }),
        ),
    }
}
