//! Reads that are waited for together, counted by a file system whose reads take a millisecond of its own clock.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_db::{Db, OpenRequest, open};
use cairn_memory::secondary::{FlashCache, SecondaryCache};
use cairn_memory::{BlockCache, CacheKind};
use cairn_options::enums::IoMode;
use cairn_options::{
    CompactRangeOptions, CompactionOptions, Compression, DbOptions, FamilyOptions, Options,
    ReadOptions, ReadTier,
};
use cairn_platform::fs::FileMode;
use cairn_platform::sync::{AtomicU64, Ordering};
use cairn_platform::{Clock, RemoteFileSystem, RemoteSettings, World};
use cairn_types::Code;

use crate::basic::db_options;
use crate::tiers;

pub const MS: u64 = 1_000_000;

/// A clock that advances by sleeping only.
#[derive(Default)]
pub struct Still(AtomicU64);

impl Clock for Still {
    fn wall_micros(&self) -> u64 {
        self.monotonic_nanos() / 1_000
    }
    fn monotonic_nanos(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn sleep(&self, duration: Duration) {
        let nanos = duration.as_nanos() as u64;
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// A world whose files have a latency by `clock`.
pub fn remote(clock: &Arc<Still>) -> World {
    let world = World::in_memory();
    let settings = RemoteSettings {
        queue_depth: 1000,
        ..RemoteSettings::default()
    };
    World {
        fs: Arc::new(RemoteFileSystem::new(world.fs, clock.clone(), settings)),
        ..world
    }
}

pub fn opened(world: &World, io_mode: IoMode, table: &str) -> Db {
    opened_with(world, io_mode, table, -1, None)
}

/// [`opened`] with `max_open_files` and a block cache.
pub fn opened_with(
    world: &World,
    io_mode: IoMode,
    table: &str,
    max_open_files: i32,
    cache: Option<Arc<BlockCache>>,
) -> Db {
    let family = FamilyOptions::from_text(&format!(
        "disable_auto_compactions=true;compression=kNoCompression;block_based_table_factory={{{table}}}"
    ));
    let mut family = family.expect("the options are known");
    if cache.is_some() {
        family.table.block_cache = cache;
    }
    let options = DbOptions {
        io_mode,
        max_open_files,
        ..db_options()
    };
    open(&OpenRequest {
        path: Path::new("/db"),
        options: &options,
        families: &[],
        others: Some(&family),
        read_only: false,
        world: world.clone(),
    })
    .expect("it opens")
}

const FILES: u32 = 6;

/// Fills `files` of level 0. Each has every sixth key.
fn fill(db: &Db, files: Range<u32>) {
    for file in files {
        for n in (file..6000).step_by(FILES as usize) {
            db.put(&n.to_be_bytes(), &[n as u8; 100])
                .expect("it is written");
        }
        db.flush().expect("it is flushed");
    }
}

/// Opens the tables, which the first lookup in each of them does one after another.
fn open_tables(db: &Db) {
    for key in 0..FILES {
        assert!(db.get(&key.to_be_bytes()).expect("it is read").is_some());
    }
}

/// The number of reads waited for by a batch of 32 keys.
fn rounds(db: &Db, clock: &Still, options: &ReadOptions, seed: u32) -> u64 {
    let keys: Vec<_> = (0..32_u32).map(|n| (seed + n * 181) % 6000).collect();
    let asked: Vec<[u8; 4]> = keys.iter().map(|key| key.to_be_bytes()).collect();
    let asked: Vec<&[u8]> = asked.iter().map(|key| &key[..]).collect();
    let began = clock.monotonic_nanos();
    let found = db.multi_get(&asked, options);
    let took = clock.monotonic_nanos() - began;
    for (value, key) in found.into_iter().zip(keys) {
        let value = value.expect("it is read").expect("it exists");
        assert_eq!(value[..], [key as u8; 100]);
    }
    assert_eq!(took % MS, 0, "{took}");
    took / MS
}

fn options(async_io: bool, optimize_multiget_for_io: bool) -> ReadOptions {
    ReadOptions {
        async_io,
        optimize_multiget_for_io,
        ..ReadOptions::default()
    }
}

#[test]
fn a_batch_of_cold_blocks_takes_three_rounds_whatever_the_number_of_files() {
    let clock = Arc::new(Still::default());
    let world = remote(&clock);
    let table = "block_size=512;metadata_block_size=512;index_type=kTwoLevelIndexSearch;\
                 partition_filters=true;filter_policy=bloomfilter:20;\
                 cache_index_and_filter_blocks=true;pin_top_level_index_and_filter=true";
    fill(&opened(&world, IoMode::Auto, table), 0..FILES);
    for mode in [IoMode::Auto, IoMode::Threads] {
        let db = opened(&world, mode, table);
        let driver = db.property("cairn.io").expect("it is known");
        assert!(mode == IoMode::Auto || driver == "threads", "{driver}");
        open_tables(&db);
        assert_eq!(rounds(&db, &clock, &options(true, true), 3), 3);
        assert_eq!(rounds(&db, &clock, &options(true, true), 3), 0, "cached");
    }
    let db = opened(&world, IoMode::Blocking, table);
    assert_eq!(db.property("cairn.io").as_deref(), Some("blocking"));
    open_tables(&db);
    assert!(rounds(&db, &clock, &options(true, true), 3) > 32);
}

#[test]
fn a_batch_opens_all_its_tables_in_one_round() {
    let clock = Arc::new(Still::default());
    let world = remote(&clock);
    let table = "block_size=512;metadata_block_size=512;index_type=kTwoLevelIndexSearch;\
                 partition_filters=true;filter_policy=bloomfilter:20;\
                 cache_index_and_filter_blocks=true;pin_top_level_index_and_filter=true";
    let db = opened(&world, IoMode::Auto, table);
    fill(&db, 0..FILES);
    let family = db.default_family();
    let whole = CompactRangeOptions::default();
    let compacted = family.compact_range(None, None, &whole);
    compacted.expect("it is compacted");
    for upper in 0..3 {
        fill(&db, 0..FILES);
        let files = db.live_files_metadata();
        let files: Vec<_> = files.iter().filter(|file| file.level == 0).collect();
        let names: Vec<&str> = files.iter().map(|file| &*file.relative_filename).collect();
        let small = CompactionOptions {
            output_file_size_limit: 100_000,
            ..CompactionOptions::default()
        };
        let compacted = family.compact_files(&small, &names, 3 - upper, None);
        compacted.expect("it is compacted");
    }
    fill(&db, 0..FILES);
    let tables = db.live_files_metadata().len();
    assert!(tables > 20, "{tables}");
    drop(db);
    for mode in [IoMode::Auto, IoMode::Threads] {
        let db = opened(&world, mode, table);
        // The ends of the files; then filters, indexes and data.
        let cold = rounds(&db, &clock, &options(true, true), 3);
        assert_eq!(cold, 1 + 3, "{mode:?}");
    }
    // Some are closed before the keys have searched them, and opened again.
    let db = opened_with(&world, IoMode::Auto, table, 20, None);
    assert!(rounds(&db, &clock, &options(true, true), 3) < 60);
    drop(db);
    // A level at a time, each with its tables, and its filters, indexes and data.
    let db = opened(&world, IoMode::Auto, table);
    let by_level = rounds(&db, &clock, &options(true, false), 3);
    assert!((8..50).contains(&by_level), "{by_level}");
    drop(db);
    let db = opened(&world, IoMode::Auto, table);
    let serial = rounds(&db, &clock, &options(false, false), 3);
    assert!(serial > 20, "{serial}");
}

#[test]
fn pinned_partitions_are_read_with_the_table() {
    let clock = Arc::new(Still::default());
    let world = remote(&clock);
    let table = "block_size=512;metadata_block_size=512;index_type=kTwoLevelIndexSearch;\
                 partition_filters=true;filter_policy=bloomfilter:20;\
                 cache_index_and_filter_blocks=true;\
                 metadata_cache_options={partition_pinning=kAll;top_level_index_pinning=kAll}";
    fill(&opened(&world, IoMode::Auto, table), 0..FILES);
    let db = opened(&world, IoMode::Auto, table);
    let cold = rounds(&db, &clock, &options(true, true), 3);
    assert_eq!(cold, 1 + 1, "the tables, then data");
}

#[test]
fn the_read_options_select_what_is_read_in_parallel() {
    let clock = Arc::new(Still::default());
    let world = remote(&clock);
    // Filters and indexes are in memory, and each key is in one of the files.
    let table = "block_size=512;filter_policy=bloomfilter:20;no_block_cache=true";
    let db = opened(&world, IoMode::Auto, table);
    fill(&db, 0..3);
    let whole = CompactRangeOptions::default();
    let family = db.default_family();
    family
        .compact_range(None, None, &whole)
        .expect("it is compacted");
    fill(&db, 3..FILES);
    open_tables(&db);
    for optimized in [false, true] {
        let files = rounds(&db, &clock, &options(false, optimized), 0);
        assert_eq!(files, 3 + 1, "three files of level 0, one of the last");
    }
    assert_eq!(rounds(&db, &clock, &options(true, false), 0), 2, "levels");
    assert_eq!(rounds(&db, &clock, &options(true, true), 0), 1, "all");
}

#[test]
fn blocks_of_a_flash_tier_are_read_together_with_those_of_tables() {
    let clock = Arc::new(Still::default());
    let world = remote(&clock);
    let table = "block_size=512;filter_policy=bloomfilter:20";
    // Each run has an empty cache above the entries that the run before evicted to flash.
    let stack = || {
        let flash = tiers::flash(&world);
        let cache = tiers::above(CacheKind::Clock, 16 << 10, flash.clone());
        (flash, cache)
    };
    let (flash, cache) = stack();
    let db = opened_with(&world, IoMode::Auto, table, -1, Some(cache));
    fill(&db, 0..FILES);
    for key in 0..6000_u32 {
        assert!(db.get(&key.to_be_bytes()).expect("it is read").is_some());
    }
    drop(db);
    flash.close();
    drop(flash);
    for (mode, async_io) in [
        (IoMode::Threads, true),
        (IoMode::Blocking, false),
        (IoMode::Auto, true),
    ] {
        let (flash, cache) = stack();
        assert!(flash.stats().restored > 1000, "{flash:?}");
        let db = opened_with(&world, mode, table, -1, Some(cache.clone()));
        open_tables(&db);
        let (hits, entries) = (flash.counts().hits, cache.counts().insertions);
        let rounds = rounds(&db, &clock, &options(async_io, true), 3);
        let hits = flash.counts().hits - hits;
        assert!(hits > 25, "{hits}");
        match async_io {
            true => assert_eq!(rounds, 1),
            false => assert!(rounds > 25, "{rounds}"),
        }
        // Entries of flash move up, others are inserted; the opening of tables has read one.
        assert!(cache.counts().insertions - entries >= 31);
        iterators_wait_for_flash_once(&db, &clock, &flash, mode);
        cache_only_reads_wait_for_flash_once(&db, &clock, async_io);
        if mode == IoMode::Auto {
            entries_lost_on_flash_are_read_from_tables(&world, &db, &flash);
        }
        flash.close();
    }
}

fn entries_lost_on_flash_are_read_from_tables(world: &World, db: &Db, flash: &FlashCache) {
    let before = flash.counts().evictions;
    overwrite(world, Path::new("/flash"));
    for (async_io, keys) in [(false, 0..3000), (true, 3000..6000_u32)] {
        let mut iter = db.iter_with(&options(async_io, true));
        iter.seek(&keys.start.to_be_bytes());
        for n in keys {
            assert_eq!(iter.key(), n.to_be_bytes());
            assert_eq!(iter.value(), [n as u8; 100]);
            iter.next();
        }
        iter.status().expect("all is read");
    }
    let lost = flash.counts().evictions - before;
    assert!(lost > 30, "{lost}");
}

/// Overwrites the files in `dir`.
fn overwrite(world: &World, dir: &Path) {
    for name in world.fs.list(dir).expect("it is a directory") {
        let path = dir.join(name);
        let len = world.fs.status(&path).expect("it is a file").len;
        if let Ok(file) = world.fs.open_overwrite(&path, FileMode::default()) {
            file.append(&vec![0xa5; len as usize])
                .expect("it is written");
        }
    }
}

/// A seek asks all six files of level 0 at once, whose blocks are on flash.
fn iterators_wait_for_flash_once(db: &Db, clock: &Still, flash: &FlashCache, mode: IoMode) {
    for read_tier in [ReadTier::All, ReadTier::BlockCache] {
        let options = ReadOptions {
            read_tier,
            ..ReadOptions::default()
        };
        let mut iter = db.iter_with(&options);
        let (mut sought, mut waited) = (0, 0);
        for n in (100..5900).step_by(200) {
            let (began, hits) = (clock.monotonic_nanos(), flash.counts().hits);
            iter.seek(&u32::to_be_bytes(n));
            if flash.counts().hits - hits < u64::from(FILES) {
                // A block was in memory, or in its table only.
                continue;
            }
            assert!(iter.valid(), "{:?}", iter.status());
            assert_eq!(iter.value(), [n as u8; 100]);
            sought += 1;
            waited += (clock.monotonic_nanos() - began) / MS;
        }
        assert!(sought > 10, "{sought}");
        match mode {
            IoMode::Blocking => assert!(waited >= sought * u64::from(FILES), "{waited}"),
            // Some seeks end in the next block.
            _ => assert!(waited < sought * 2, "{waited} of {sought}"),
        }
    }
}

/// A batch that may read nothing but the cache waits for flash like others, and never for a table.
fn cache_only_reads_wait_for_flash_once(db: &Db, clock: &Still, async_io: bool) {
    let options = ReadOptions {
        read_tier: ReadTier::BlockCache,
        ..options(async_io, true)
    };
    let keys: Vec<_> = (0..32_u32).map(|n| (n * 181 + 90) % 6000).collect();
    let asked: Vec<[u8; 4]> = keys.iter().map(|key| key.to_be_bytes()).collect();
    let began = clock.monotonic_nanos();
    let found = db.multi_get(&asked, &options);
    let took = (clock.monotonic_nanos() - began) / MS;
    let mut on_flash = 0;
    for (found, key) in found.into_iter().zip(&keys) {
        match found {
            Ok(value) => {
                assert_eq!(value.expect("it exists")[..], [*key as u8; 100]);
                on_flash += 1;
            }
            Err(error) => assert_eq!(error.code(), Code::Incomplete),
        }
    }
    assert!(on_flash > 25, "{on_flash}");
    match async_io {
        true => assert_eq!(took, 1),
        false => assert!(took > 25 && took <= 32, "{took}"),
    }
}

/// Values in blob files, and columns of entities, of which the blob cache has evicted most to flash.
#[test]
fn blobs_of_a_flash_tier_are_read_together() {
    let clock = Arc::new(Still::default());
    let world = remote(&clock);
    let flash = tiers::flash(&world);
    let cache = tiers::above(CacheKind::Clock, 16 << 10, flash.clone());
    let family = FamilyOptions {
        enable_blob_files: true,
        enable_blob_columns: true,
        min_blob_size: 50,
        blob_cache: Some(cache),
        compression: Compression::None,
        ..FamilyOptions::default()
    };
    let db = open(&OpenRequest {
        path: Path::new("/db"),
        options: &db_options(),
        families: &[],
        others: Some(&family),
        read_only: false,
        world: world.clone(),
    });
    let db = db.expect("it opens");
    let columns = |n: u32| [[n as u8; 100], [!n as u8; 100]];
    for n in 0..3000_u32 {
        let [first, second] = columns(n);
        let key = n.to_be_bytes();
        match n % 2 {
            0 => db.put(&key, &first),
            _ => db.put_entity(&key, &[(b"a", &first), (b"b", &second), (b"c", b"inline")]),
        }
        .expect("it is written");
    }
    db.flush().expect("it is flushed");
    let every: Vec<_> = (0..3000_u32).map(u32::to_be_bytes).collect();
    let check = |keys: &[[u8; 4]], options: &ReadOptions| {
        let (began, hits) = (clock.monotonic_nanos(), flash.counts().hits);
        let found = db.multi_get_entity(keys, options);
        let waited = (clock.monotonic_nanos() - began) / MS;
        for (found, key) in found.into_iter().zip(keys) {
            let n = u32::from_be_bytes(*key);
            let found = found.expect("it is read").expect("it exists");
            let [first, second] = columns(n);
            let values: Vec<_> = found.iter().map(|(_, value)| value.to_vec()).collect();
            match n % 2 {
                0 => assert_eq!(values, [&first[..]]),
                _ => assert_eq!(values, [&first[..], &second, b"inline"]),
            }
        }
        (waited, flash.counts().hits - hits)
    };
    let (waited, _) = check(&every, &options(true, true));
    assert!(waited < 100, "{waited}: columns are read together");
    let some: Vec<_> = (0..32_u32).map(|n| (n * 51 + 7).to_be_bytes()).collect();
    let (waited, hits) = check(&some, &options(true, true));
    assert!(hits > 30 && waited == 1, "{hits} {waited}");
    // Single reads wait for each.
    let alone = (20..40_u32).map(|n| (n * 51 + 11).to_be_bytes());
    for key in alone {
        assert!(check(&[key], &ReadOptions::default()).0 <= 2);
    }
    overwrite(&world, Path::new("/flash"));
    let (_, hits) = check(&every, &options(true, true));
    assert!(hits < 3000, "{hits}");
    let mut iter = db.iter();
    iter.seek_to_first();
    for n in 0..3000_u32 {
        assert_eq!(iter.key(), n.to_be_bytes());
        let plain = columns(n)[0];
        let expected = &plain[..if n % 2 == 0 { plain.len() } else { 0 }];
        assert_eq!(iter.value(), expected);
        iter.next();
    }
    flash.close();
}
