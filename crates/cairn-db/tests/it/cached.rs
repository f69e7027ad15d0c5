//! The content of the block cache: a dump across a restart, and a property.

#![expect(clippy::unwrap_used, reason = "an absent value fails the test")]

use std::path::Path;
use std::sync::Arc;

use cairn_db::{CacheDump, Db, FamilyDescriptor, OpenRequest, open};
use cairn_memory::{BlockCache, CacheOptions, CacheRole};
use cairn_options::{FamilyOptions, FilterPolicy};
use cairn_platform::World;
use cairn_platform::fs::FileMode;
use cairn_types::Code;

use crate::basic::{db_options, small};

const KEYS: u32 = 400;
const DUMP: &str = "/dump";

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

struct Cached {
    db: Db,
    cache: Arc<BlockCache>,
}

impl Cached {
    fn open(world: &World, dir: &str, capacity: usize) -> Cached {
        let cache = Arc::new(BlockCache::new(capacity, CacheOptions::default()));
        let mut family = FamilyOptions {
            disable_auto_compactions: true,
            ..small()
        };
        family.table.block_size = 1 << 10;
        family.table.filter_policy = Some(FilterPolicy::Bloom { bits_per_key: 10.0 });
        family.table.cache_index_and_filter_blocks = true;
        family.table.block_cache = Some(cache.clone());
        let options = cairn_options::DbOptions {
            create_missing_column_families: true,
            ..db_options()
        };
        let db = open(&OpenRequest {
            path: Path::new(dir),
            options: &options,
            families: &[
                FamilyDescriptor::new("default", family.clone()),
                FamilyDescriptor::new("second \"family\"", family),
            ],
            others: None,
            read_only: false,
            world: world.clone(),
        });
        Cached {
            db: db.expect("it opens"),
            cache,
        }
    }

    fn fill(&self) {
        for family in self.db.families() {
            for n in 0..KEYS {
                family.put(&key(n), &[b'v'; 100]).unwrap();
            }
            family.flush().unwrap();
        }
    }

    /// Reads everything, and returns the number of blocks that were not cached.
    fn misses(&self) -> u64 {
        let before = self.cache.counts().misses;
        for family in self.db.families() {
            for n in 0..KEYS {
                let found = family.get(&key(n)).unwrap();
                assert_eq!(found.as_deref(), Some(&[b'v'; 100][..]));
            }
        }
        self.cache.counts().misses - before
    }
}

fn content(world: &World) -> Vec<u8> {
    let file = world.fs.open(DUMP.as_ref(), FileMode::default()).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

fn put(world: &World, bytes: &[u8]) {
    world.fs.remove(DUMP.as_ref()).unwrap();
    let file = world.fs.create(DUMP.as_ref(), FileMode::default()).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
}

#[test]
fn a_dump_warms_the_cache_of_the_next_opening() {
    let world = World::in_memory();
    let first = Cached::open(&world, "/db", 8 << 20);
    first.fill();
    assert!(first.misses() > 0);
    assert_eq!(first.misses(), 0);
    let dumped = first.db.dump_cache(DUMP.as_ref()).unwrap();
    assert_eq!(dumped.blocks, first.cache.entries() as u64);
    // An older dump is replaced.
    assert_eq!(first.db.dump_cache(DUMP.as_ref()).unwrap(), dumped);
    first.db.close().unwrap();

    let second = Cached::open(&world, "/db", 8 << 20);
    assert_eq!(second.cache.entries(), 0);
    let load = second.db.load_cache(DUMP.as_ref()).unwrap();
    assert_eq!((load.loaded, load.unknown, load.left_out), (dumped, 0, 0));
    assert_eq!(second.misses(), 0);
    // Blocks that are already cached stay.
    let load = second.db.load_cache(DUMP.as_ref()).unwrap();
    assert_eq!(
        (load.loaded, load.left_out),
        (CacheDump::default(), dumped.blocks)
    );
}

#[test]
fn a_cache_that_is_too_small_loads_metadata_first() {
    let world = World::in_memory();
    let first = Cached::open(&world, "/db", 8 << 20);
    first.fill();
    first.misses();
    let dumped = first.db.dump_cache(DUMP.as_ref()).unwrap();
    let usage = first.cache.usage();
    first.db.close().unwrap();
    let second = Cached::open(&world, "/db", usage / 2);
    let load = second.db.load_cache(DUMP.as_ref()).unwrap();
    assert!(load.left_out > 0 && load.loaded.blocks + load.left_out == dumped.blocks);
    for role in [CacheRole::Index, CacheRole::Filter] {
        let before = first.cache.role_counts(role).entries;
        assert_eq!(second.cache.role_counts(role).entries, before);
    }
    assert!(second.cache.usage() <= usage / 2);
    assert_eq!(second.cache.counts().evictions, 0);
}

#[test]
fn blocks_of_files_that_the_database_does_not_have_are_not_loaded() {
    let world = World::in_memory();
    let first = Cached::open(&world, "/db", 8 << 20);
    first.fill();
    first.misses();
    let dumped = first.db.dump_cache(DUMP.as_ref()).unwrap();
    let other = Cached::open(&world, "/other", 8 << 20);
    other.fill();
    let load = other.db.load_cache(DUMP.as_ref()).unwrap();
    assert_eq!(
        (load.loaded, load.unknown),
        (CacheDump::default(), dumped.blocks)
    );
    // Files that a compaction has replaced.
    for family in first.db.families() {
        family
            .compact_range(None, None, &Default::default())
            .unwrap();
    }
    first.fill();
    let load = first.db.load_cache(DUMP.as_ref()).unwrap();
    assert_eq!(load.loaded, CacheDump::default());
}

#[test]
fn a_damaged_dump_is_an_error_and_does_not_affect_reads() {
    let world = World::in_memory();
    let first = Cached::open(&world, "/db", 8 << 20);
    first.fill();
    first.misses();
    first.db.dump_cache(DUMP.as_ref()).unwrap();
    let whole = content(&world);
    let refused = |damaged: &[u8]| {
        put(&world, damaged);
        first.cache.erase_unused();
        let error = first.db.load_cache(DUMP.as_ref()).unwrap_err();
        assert!(
            matches!(error.code(), Code::Corruption | Code::NotSupported),
            "{error}"
        );
        assert!(error.to_string().contains(DUMP), "{error}");
    };
    let mut damaged = whole.clone();
    for at in (0..whole.len()).step_by(997).chain(0..140) {
        damaged[at] ^= 0x41;
        refused(&damaged);
        damaged[at] = whole[at];
    }
    for len in (0..whole.len()).step_by(4999).chain(0..140) {
        refused(&whole[..len]);
    }
    refused(&[&whole[..], b"more"].concat());
    // The values are verified, including those loaded before the damage.
    first.misses();
    put(&world, &whole);
    assert!(first.db.load_cache(DUMP.as_ref()).is_ok());
    assert_eq!(first.misses(), 0);
    let missing = first.db.load_cache("/nothing".as_ref()).unwrap_err();
    assert_eq!(missing.code(), Code::IoError);
}

#[test]
fn the_property_lists_entries_by_role_family_and_level() {
    let world = World::in_memory();
    let cached = Cached::open(&world, "/db", 8 << 20);
    cached.fill();
    let property = || cached.db.property("cairn.cache").unwrap();
    let empty = format!(
        "{{\"caches\":[{{\"capacity\":{},\"usage\":0,\"groups\":[]}}]}}",
        8 << 20
    );
    assert_eq!(property(), empty);
    cached.misses();
    let text = property();
    for role in ["DataBlock", "IndexBlock", "FilterBlock"] {
        for family in ["default", "second \\\"family\\\""] {
            let group = format!("{{\"role\":\"{role}\",\"family\":\"{family}\",\"level\":0,");
            assert_eq!(text.matches(&group).count(), 1, "{group} in {text}");
        }
    }
    let entries = text.split("\"entries\":").skip(1);
    let count = |rest: &str| rest.split(',').next().unwrap().parse::<usize>().unwrap();
    assert_eq!(entries.map(count).sum::<usize>(), cached.cache.entries());
}
