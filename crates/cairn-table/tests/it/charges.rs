//! Charges of the memory of tables, builders and readers to the block cache, and their release.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cairn_compress::Compression;
use cairn_format::filter::FilterPolicy;
use cairn_format::key::{self, LookupKey};
use cairn_memory::{BlockCache, CacheKind, CacheOptions, ChargePolicy, MemoryUse, MemoryUses};
use cairn_options::{CompressionOptions, IndexType, TableOptions};
use cairn_platform::Io;
use cairn_platform::fs::{FileMode, FileSystem};
use cairn_platform::mem::MemFileSystem;
use cairn_table::{
    BuildParams, GetOptions, IterOptions, OpenParams, Table, TableBuilder, TableGet, TableIter,
};
use cairn_types::{Error, Progress, SequenceNumber, ValueKind};

use crate::world::{Entry, build, open};

fn entries(count: usize) -> Vec<Entry> {
    let entry = |n: usize| {
        let mut key = Vec::new();
        let user = format!("{n:016}");
        let seq = SequenceNumber(7);
        key::append_internal(&mut key, user.as_bytes(), seq, ValueKind::Value);
        (key, vec![n as u8; 100])
    };
    (0..count).map(entry).collect()
}

fn cache(capacity: usize) -> Arc<BlockCache> {
    Arc::new(BlockCache::new(capacity, CacheOptions::default()))
}

fn options(index_type: IndexType) -> TableOptions {
    TableOptions {
        filter_policy: FilterPolicy::from_text("bloomfilter:10"),
        index_type,
        metadata_block_size: 1024,
        ..TableOptions::default()
    }
}

/// A table of 3,000 entries, whose memory is charged to `cache`.
fn charged(cache: &Arc<BlockCache>, options: TableOptions) -> Arc<Table> {
    let options = Arc::new(options);
    let params = BuildParams {
        options: options.clone(),
        ..BuildParams::default()
    };
    let (bytes, _) = build(params, &entries(3000), &[]).unwrap();
    let params = OpenParams {
        options,
        cache: Some(cache.clone()),
        charge: ChargePolicy::new(Some(cache.clone()), MemoryUses::ALL),
        ..OpenParams::default()
    };
    open(&bytes, params).unwrap()
}

/// Asserts that `cache` is charged for `uses` alone.
fn assert_charged(cache: &BlockCache, uses: &[MemoryUse]) {
    for what in MemoryUse::ALL {
        let is_charged = cache.charged(what) > 0;
        assert_eq!(is_charged, uses.contains(&what), "{what:?}");
    }
}

fn lookup() -> LookupKey {
    LookupKey::new(b"0000000000001500", SequenceNumber(9))
}

/// Starts a get of one key; returns the state, which lacks a block.
fn lacking(table: &Table, options: &GetOptions) -> TableGet {
    let mut state = TableGet::new();
    let step = table.get(&lookup(), options, &mut state, &mut |_, _| {
        ControlFlow::Break(())
    });
    assert_eq!(step.unwrap(), Progress::Lacks);
    state
}

#[test]
fn an_open_table_is_charged_until_it_is_closed() {
    for (in_cache, index_type) in [
        (false, IndexType::BinarySearch),
        (true, IndexType::BinarySearch),
        (false, IndexType::TwoLevelIndexSearch),
    ] {
        let cache = cache(8 << 20);
        let options = TableOptions {
            cache_index_and_filter_blocks: in_cache,
            ..options(index_type)
        };
        let table = charged(&cache, options);
        assert_charged(&cache, &[MemoryUse::TableReader]);
        let held = cache.charged(MemoryUse::TableReader);
        assert_eq!(held, table.memory_usage());
        // The second get builds the search words of an index that the table holds.
        for _ in 0..3 {
            let found = crate::world::get(&table, b"0000000000001500", 9).unwrap();
            assert_eq!(found.len(), 1);
        }
        assert_eq!(cache.charged(MemoryUse::TableReader), table.memory_usage());
        let grows = !in_cache && index_type == IndexType::BinarySearch;
        assert_eq!(cache.charged(MemoryUse::TableReader) > held, grows);
        drop(table);
        assert_charged(&cache, &[]);
    }
}

#[test]
fn a_read_is_charged_before_it_and_its_block_by_the_cache_after_it() {
    let cache = cache(8 << 20);
    let table = charged(&cache, options(IndexType::BinarySearch));
    let mut state = lacking(&table, &GetOptions::default());
    let request = state.request(&table);
    let reading = cache.charged(MemoryUse::ReadInProgress);
    assert!(reading >= request.len, "{reading} of {}", request.len);
    let before = cache.entries();
    state
        .supply(&table, Io::blocking().read_now(&request))
        .unwrap();
    assert_charged(&cache, &[MemoryUse::TableReader]);
    assert_eq!(cache.entries(), before + 1);
    drop(state);
    // A get that is abandoned, or whose read fails.
    for fails in [false, true] {
        cache.erase_unused();
        let mut state = lacking(&table, &GetOptions::default());
        assert!(cache.charged(MemoryUse::ReadInProgress) > 0);
        match fails {
            true => {
                let failed = state.supply(&table, Err(Error::io_text("the device is gone")));
                assert!(failed.is_err());
            }
            false => state.reset(),
        }
        assert_charged(&cache, &[MemoryUse::TableReader]);
    }
}

#[test]
fn a_block_that_is_not_cached_is_charged_to_its_reader() {
    let cache = cache(8 << 20);
    let table = charged(&cache, options(IndexType::BinarySearch));
    let options = GetOptions {
        fill_cache: false,
        ..GetOptions::default()
    };
    let mut state = lacking(&table, &options);
    let request = state.request(&table);
    state
        .supply(&table, Io::blocking().read_now(&request))
        .unwrap();
    assert_eq!(cache.entries(), 0);
    assert!(cache.charged(MemoryUse::ReadInProgress) >= 3000);
    let mut found = 0;
    let step = table.get(&lookup(), &options, &mut state, &mut |_, _| {
        found += 1;
        ControlFlow::Break(())
    });
    assert_eq!((step.unwrap(), found), (Progress::Ready, 1));
    assert_charged(&cache, &[MemoryUse::TableReader]);
}

#[test]
fn a_scan_is_charged_for_its_block_and_its_readahead() {
    for index_type in [IndexType::BinarySearch, IndexType::TwoLevelIndexSearch] {
        let cache = cache(8 << 20);
        let options = TableOptions {
            cache_index_and_filter_blocks: true,
            pin_top_level_index_and_filter: false,
            ..options(index_type)
        };
        let table = charged(&cache, options);
        let iteration = IterOptions {
            fill_cache: false,
            readahead: 16 << 10,
            ..IterOptions::default()
        };
        let io = Io::blocking();
        let mut iter = TableIter::new(table.clone(), iteration);
        let step = iter.seek_to_first();
        iter.complete(step, &io);
        let (mut count, mut most) = (0, 0);
        while iter.valid() {
            count += 1;
            assert_eq!(cache.charged(MemoryUse::ReadInProgress), 0);
            assert!(cache.charged(MemoryUse::Iterator) >= 3000);
            most = most.max(cache.charged(MemoryUse::Iterator));
            assert!(cache.charged(MemoryUse::Prefetch) <= 20 << 10);
            let step = iter.next();
            iter.complete(step, &io);
        }
        iter.status().unwrap();
        assert_eq!((count, cache.entries()), (3000, 0));
        // A data block, and an index block or two.
        assert!((3000..40_000).contains(&most), "{most}");
        assert!(cache.charged(MemoryUse::Prefetch) > 0);
        drop(iter);
        assert_charged(&cache, &[MemoryUse::TableReader]);
        // Blocks that are in the cache are not charged twice.
        let mut iter = TableIter::new(table.clone(), IterOptions::default());
        for _ in 0..2 {
            let step = iter.seek(&entries(1)[0].0);
            iter.complete(step, &io);
        }
        assert!(cache.entries() > 0);
        assert_charged(&cache, &[MemoryUse::TableReader]);
    }
}

#[test]
fn with_a_strict_capacity_reads_and_opens_go_on_without_caching() {
    for kind in [CacheKind::Clock, CacheKind::Lru] {
        let strict = CacheOptions {
            kind,
            num_shard_bits: Some(0),
            strict_capacity_limit: true,
            ..CacheOptions::default()
        };
        let cache = Arc::new(BlockCache::new(2000, strict));
        let table = charged(&cache, options(IndexType::BinarySearch));
        assert!(cache.usage() > cache.capacity());
        let read = crate::world::forward(&table).unwrap();
        assert_eq!(read, entries(3000));
        for (key, _) in entries(3000).iter().step_by(100) {
            assert_eq!(
                crate::world::get(&table, key::user_key(key), 9)
                    .unwrap()
                    .len(),
                1
            );
        }
        assert_eq!(cache.entries(), 0);
        drop(table);
        assert_eq!((cache.all_charged(), cache.usage()), (0, 0));
    }
}

#[test]
fn a_builder_is_charged_for_its_buffers_its_filter_and_its_dictionary() {
    let fs = MemFileSystem::new();
    for ends in [true, false] {
        let cache = cache(64 << 20);
        let params = BuildParams {
            options: Arc::new(options(IndexType::BinarySearch)),
            compression: Compression::Zstd,
            compression_options: CompressionOptions {
                max_dict_bytes: 4096,
                ..CompressionOptions::default()
            },
            target_file_size: 256 << 10,
            charge: ChargePolicy::new(Some(cache.clone()), MemoryUses::ALL),
            ..BuildParams::default()
        };
        let path = format!("/{ends}");
        let file = fs.create(path.as_ref(), FileMode::default()).unwrap();
        let mut builder = TableBuilder::create(file, params).unwrap();
        let mut buffered = 0;
        for (key, value) in entries(20_000) {
            builder.add(&key, &value).unwrap();
            buffered = buffered.max(cache.charged(MemoryUse::CompressionDictionaryBuffer));
        }
        assert!(buffered >= 200 << 10, "{buffered}");
        assert!(cache.charged(MemoryUse::FilterConstruction) >= 20_000 * 8 - (40 << 10));
        assert_charged(&cache, &[MemoryUse::FilterConstruction, MemoryUse::Job]);
        match ends {
            true => drop(builder.finish().unwrap()),
            false => builder.abandon(),
        }
        assert_eq!((cache.all_charged(), cache.usage()), (0, 0));
    }
}

#[test]
fn a_full_strict_cache_ends_the_buffering_for_a_dictionary() {
    let strict = CacheOptions {
        strict_capacity_limit: true,
        ..CacheOptions::default()
    };
    let cache = Arc::new(BlockCache::new(300 << 10, strict));
    let uses = MemoryUses::NONE.with(MemoryUse::CompressionDictionaryBuffer);
    let params = BuildParams {
        compression: Compression::Zstd,
        compression_options: CompressionOptions {
            max_dict_bytes: 4096,
            ..CompressionOptions::default()
        },
        charge: ChargePolicy::new(Some(cache.clone()), uses),
        ..BuildParams::default()
    };
    let fs = MemFileSystem::new();
    let file = fs.create("/t".as_ref(), FileMode::default()).unwrap();
    let mut builder = TableBuilder::create(file, params).unwrap();
    let mut most = 0;
    for (key, value) in entries(20_000) {
        builder.add(&key, &value).unwrap();
        most = most.max(cache.usage());
    }
    assert!((200 << 10..1 << 20).contains(&most), "{most}");
    assert_eq!(cache.usage(), 0);
    builder.finish().unwrap();
}

#[test]
fn nothing_stays_charged_after_a_panic() {
    let cache = cache(8 << 20);
    let table = charged(&cache, options(IndexType::BinarySearch));
    let fill = GetOptions::default();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let state = lacking(&table, &fill);
        assert!(cache.charged(MemoryUse::ReadInProgress) > 0);
        panic!(
            "while the block of {:?} is read",
            state.request(&table).offset
        );
    }));
    assert!(panicked.is_err());
    assert_charged(&cache, &[MemoryUse::TableReader]);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let state = &mut TableGet::new();
        let io = |state: &mut TableGet| {
            let bytes = Io::blocking().read_now(&state.request(&table));
            state.supply(&table, bytes).unwrap();
        };
        let mut visit = |_: key::ParsedKey<'_>, _: cairn_table::ValueRef<'_>| -> ControlFlow<()> {
            panic!("while the value is used")
        };
        while table.get(&lookup(), &fill, state, &mut visit).unwrap() == Progress::Lacks {
            io(state);
        }
    }));
    assert!(panicked.is_err());
    assert_charged(&cache, &[MemoryUse::TableReader]);
    drop(table);
    cache.erase_unused();
    assert_eq!((cache.entries(), cache.usage()), (0, 0));
}
