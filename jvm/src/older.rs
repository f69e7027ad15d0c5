//! Native methods that later releases of RocksJava declare with other parameters, or no longer have.
//!
//! Overloads call the function of the present release.

use std::sync::Arc;

use cairn_memory::{BlockCache, WriteBufferManager};
use cairn_options::FilterPolicy;
use cairn_options::table::TableOptions;
use cairn_platform::World;
use cairn_types::Error;
use jni_sys::{jint, jlong};

use crate::db::{Database, family_or_default};
use crate::env::{ByteArray, Env, JString, Object, Outcome};
use crate::handle::{Mut, New, Ref};
use crate::iterator::Cursor;
use crate::objects::{self, TableFormat, block_based};
use crate::options::{self, AllOptions, ConfigOptions, ReadOptions, Source};
use crate::txn::{self, Txn};

macro_rules! table_factories {
    ($($(#[$doc:meta])* $name:ident($($parameter:ident: $kind:ty),* $(,)?) $(if $check:ident($($checked:ident),*))? =
        $newer:ident($($argument:expr),* $(,)?);)+) => {$(
        $(#[$doc])*
        pub fn $name(env: Env, $($parameter: $kind),*) -> Outcome<New<TableFormat>> {
            $($check($($checked),*)?;)?
            $newer(env, $($argument),*)
        }
    )+};
}

table_factories! {
    /// `newTableFactoryHandle` of release 11.0.
    block_based_11_0(
        cache_meta: bool, high_priority: bool, pin_l0: bool, pin_top: bool, index_type: i8, data_index: i8, ratio: f64,
        checksum: i8, no_cache: bool, cache: Option<Ref<Arc<BlockCache>>>, persistent: jlong, block_size: jlong,
        deviation: jint, restart: jint, index_restart: jint, metadata_size: jlong, partition_filters: bool,
        filters_for_memory: bool, delta: bool, filter: Option<Ref<FilterPolicy>>, whole_key: bool,
        verify_compression: bool, read_amp: jint, format_version: jint, separate: bool, compress_index: bool, align: bool,
        super_block: jlong, super_block_ratio: jlong, shortening: i8, search: i8, cache_size: jlong, shard_bits: jint,
    ) = block_based(
        cache_meta, high_priority, pin_l0, pin_top, index_type, data_index, ratio, checksum, no_cache, cache, persistent,
        block_size, deviation, restart, index_restart, metadata_size, partition_filters, filters_for_memory, delta, filter,
        whole_key, verify_compression, read_amp, format_version, separate, TableOptions::default().uniform_cv_threshold,
        compress_index, align, super_block, super_block_ratio, shortening, search, cache_size, shard_bits,
    );
    /// `newTableFactoryHandle` of release 10.10.
    block_based_10_10(
        cache_meta: bool, high_priority: bool, pin_l0: bool, pin_top: bool, index_type: i8, data_index: i8, ratio: f64,
        checksum: i8, no_cache: bool, cache: Option<Ref<Arc<BlockCache>>>, persistent: jlong, block_size: jlong,
        deviation: jint, restart: jint, index_restart: jint, metadata_size: jlong, partition_filters: bool,
        filters_for_memory: bool, delta: bool, filter: Option<Ref<FilterPolicy>>, whole_key: bool,
        verify_compression: bool, read_amp: jint, format_version: jint, compress_index: bool, align: bool,
        super_block: jlong, super_block_ratio: jlong, shortening: i8, cache_size: jlong, shard_bits: jint,
    ) = block_based_11_0(
        cache_meta, high_priority, pin_l0, pin_top, index_type, data_index, ratio, checksum, no_cache, cache, persistent,
        block_size, deviation, restart, index_restart, metadata_size, partition_filters, filters_for_memory, delta, filter,
        whole_key, verify_compression, read_amp, format_version, false, compress_index, align, super_block,
        super_block_ratio, shortening, 0, cache_size, shard_bits,
    );
    /// `newTableFactoryHandle` of releases 8 to 10.6.
    block_based_8(
        cache_meta: bool, high_priority: bool, pin_l0: bool, pin_top: bool, index_type: i8, data_index: i8, ratio: f64,
        checksum: i8, no_cache: bool, cache: Option<Ref<Arc<BlockCache>>>, persistent: jlong, block_size: jlong,
        deviation: jint, restart: jint, index_restart: jint, metadata_size: jlong, partition_filters: bool,
        filters_for_memory: bool, delta: bool, filter: Option<Ref<FilterPolicy>>, whole_key: bool,
        verify_compression: bool, read_amp: jint, format_version: jint, compress_index: bool, align: bool,
        shortening: i8, cache_size: jlong, shard_bits: jint,
    ) = block_based_10_10(
        cache_meta, high_priority, pin_l0, pin_top, index_type, data_index, ratio, checksum, no_cache, cache, persistent,
        block_size, deviation, restart, index_restart, metadata_size, partition_filters, filters_for_memory, delta, filter,
        whole_key, verify_compression, read_amp, format_version, compress_index, align, 0,
        TableOptions::default().super_block_alignment_space_overhead_ratio as jlong, shortening, cache_size, shard_bits,
    );
    /// `newTableFactoryHandle` before release 8, when a cache could have a second one for compressed blocks.
    block_based_7(
        cache_meta: bool, high_priority: bool, pin_l0: bool, pin_top: bool, index_type: i8, data_index: i8, ratio: f64,
        checksum: i8, no_cache: bool, cache: Option<Ref<Arc<BlockCache>>>, persistent: jlong, compressed: jlong,
        block_size: jlong, deviation: jint, restart: jint, index_restart: jint, metadata_size: jlong,
        partition_filters: bool, filters_for_memory: bool, delta: bool, filter: Option<Ref<FilterPolicy>>, whole_key: bool,
        verify_compression: bool, read_amp: jint, format_version: jint, compress_index: bool, align: bool,
        shortening: i8, cache_size: jlong, shard_bits: jint, compressed_size: jlong, _compressed_shard_bits: jint,
    ) if check_uncompressed(compressed, compressed_size) = block_based_8(
        cache_meta, high_priority, pin_l0, pin_top, index_type, data_index, ratio, checksum, no_cache, cache, persistent,
        block_size, deviation, restart, index_restart, metadata_size, partition_filters, filters_for_memory, delta, filter,
        whole_key, verify_compression, read_amp, format_version, compress_index, align, shortening, cache_size, shard_bits,
    );
}

/// Rejects a cache of compressed blocks: its handle, or its size.
fn check_uncompressed(cache: jlong, size: jlong) -> Outcome<()> {
    if cache != 0 || size > 0 {
        let text = "a block cache of compressed blocks, which RocksDB 8 removed";
        return Err(Error::not_supported(text).into());
    }
    Ok(())
}

/// The second argument chose filters per block, which RocksDB 7 no longer writes.
pub fn bloom(env: Env, bits_per_key: f64, _per_block: bool) -> New<FilterPolicy> {
    objects::bloom(env, bits_per_key)
}

pub fn lru_cache(
    env: Env,
    capacity: jlong,
    shard_bits: jint,
    strict: bool,
    high_pri_pool_ratio: f64,
) -> Outcome<New<Arc<BlockCache>>> {
    objects::lru_cache(env, capacity, shard_bits, strict, high_pri_pool_ratio, 0.0)
}

pub fn write_buffer_manager(
    env: Env,
    size: jlong,
    cache: Option<Ref<Arc<BlockCache>>>,
) -> New<Arc<WriteBufferManager>> {
    objects::write_buffer_manager(env, size, cache, false)
}

pub fn load_latest(
    env: Env,
    path: JString,
    world: Option<Ref<World>>,
    options: jlong,
    descriptors: Object,
    ignore_unknown: bool,
) -> Outcome<()> {
    let config = config(world, ignore_unknown);
    options::load(env, &config, Source::Latest(path), options, descriptors)
}

pub fn load_file(
    env: Env,
    path: JString,
    world: Option<Ref<World>>,
    options: jlong,
    descriptors: Object,
    ignore_unknown: bool,
) -> Outcome<()> {
    let config = config(world, ignore_unknown);
    options::load(env, &config, Source::File(path), options, descriptors)
}

fn config(world: Option<Ref<World>>, ignore_unknown: bool) -> ConfigOptions {
    ConfigOptions {
        world: world.map(|world| world.clone()),
        ignore_unknown,
    }
}

pub fn iterator(env: Env, db: Ref<Database>) -> Outcome<New<Cursor>> {
    iterator_of(env, db, 0)
}

pub fn iterator_with(
    env: Env,
    db: Ref<Database>,
    options: Ref<ReadOptions>,
) -> Outcome<New<Cursor>> {
    crate::db::iterator(env, db, 0, options)
}

pub fn iterator_of(_env: Env, db: Ref<Database>, family: jlong) -> Outcome<New<Cursor>> {
    Ok(crate::iterator::family(
        family_or_default(db.0, family)?.iter(),
    ))
}

pub fn txn_get(
    env: Env,
    txn: Ref<Txn>,
    options: Ref<ReadOptions>,
    key: ByteArray,
    len: jint,
) -> Outcome<ByteArray> {
    txn::get(env, txn, options, key, 0, len, 0)
}

pub fn txn_get_in(
    env: Env,
    txn: Ref<Txn>,
    options: Ref<ReadOptions>,
    key: ByteArray,
    len: jint,
    family: jlong,
) -> Outcome<ByteArray> {
    txn::get(env, txn, options, key, 0, len, family)
}

pub fn txn_get_for_update(
    env: Env,
    txn: Mut<Txn>,
    options: Ref<ReadOptions>,
    key: ByteArray,
    len: jint,
    exclusive: bool,
    validate: bool,
) -> Outcome<ByteArray> {
    txn::get_for_update(env, txn, options, key, 0, len, 0, exclusive, validate)
}

pub fn txn_get_for_update_in(
    env: Env,
    txn: Mut<Txn>,
    options: Ref<ReadOptions>,
    key: ByteArray,
    len: jint,
    family: jlong,
    exclusive: bool,
    validate: bool,
) -> Outcome<ByteArray> {
    txn::get_for_update(env, txn, options, key, 0, len, family, exclusive, validate)
}

pub fn txn_iterator(env: Env, txn: Ref<Txn>, options: Ref<ReadOptions>) -> Outcome<New<Cursor>> {
    txn::iterator(env, txn, options, 0)
}

pub fn preserve_deletes(_env: Env, _options: Ref<AllOptions>) -> bool {
    false
}

pub fn set_preserve_deletes(_env: Env, _options: Ref<AllOptions>, preserve: bool) -> Outcome<()> {
    match preserve {
        false => Ok(()),
        true => Err(Error::not_supported("preserve_deletes, which RocksDB 7 removed").into()),
    }
}

pub fn set_start_sequence(_env: Env, _options: Ref<ReadOptions>, number: jlong) -> Outcome<()> {
    match number {
        0 => Ok(()),
        _ => Err(Error::not_supported("iter_start_seqnum, which RocksDB 7 removed").into()),
    }
}

pub fn start_sequence(_env: Env, _options: Ref<ReadOptions>) -> jlong {
    0
}
