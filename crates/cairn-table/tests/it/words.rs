//! Key words of cached blocks are built in memory allocated with the block.

use std::sync::Arc;

use cairn_compress::Compression;
use cairn_format::block::DataWords;
use cairn_format::id::UniqueId;
use cairn_format::key;
use cairn_memory::{BlockCache, CacheKey, CacheOptions};
use cairn_platform::Io;
use cairn_table::{BuildParams, IterOptions, OpenParams, Table, TableIdentity, TableIter};
use cairn_types::{KeyOrder, SequenceNumber, ValueKind};

use crate::world::{Entry, build, forward, get, open, put};

fn entries(value_len: impl Fn(usize) -> usize) -> Vec<Entry> {
    let entry = |n: usize| put(&format!("{n:016}"), vec![n as u8; value_len(n)]);
    (0..3000).map(entry).collect()
}

fn cached(entries: &[Entry], compression: Compression) -> (Arc<Table>, Arc<BlockCache>) {
    cached_in(&KeyOrder::Bytewise, entries, compression)
}

fn cached_in(
    order: &KeyOrder,
    entries: &[Entry],
    compression: Compression,
) -> (Arc<Table>, Arc<BlockCache>) {
    let params = BuildParams {
        compression,
        order: order.clone(),
        identity: TableIdentity {
            db_id: "a database".to_owned(),
            session_id: "ABCDEFGHIJKLMNOPQRST".to_owned(),
            ..TableIdentity::default()
        },
        ..BuildParams::default()
    };
    let (bytes, _) = build(params, entries, &[]).unwrap();
    let cache = Arc::new(BlockCache::new(4 << 20, CacheOptions::default()));
    let params = OpenParams {
        cache: Some(cache.clone()),
        order: order.clone(),
        ..OpenParams::default()
    };
    (open(&bytes, params).unwrap(), cache)
}

/// Gets every key, and returns the resulting cache usage.
fn used_after_gets(table: &Table, cache: &BlockCache, entries: &[Entry]) -> usize {
    for (key, value) in entries {
        let found = get(table, key::user_key(key), 9).unwrap();
        assert_eq!(found, [(7, value.clone())]);
    }
    cache.usage()
}

#[test]
fn blocks_of_uniform_entries_do_not_move() {
    let entries = entries(|_| 100);
    for compression in [Compression::None, Compression::Lz4] {
        let (table, cache) = cached(&entries, compression);
        // Reads some blocks one by one and some by readahead.
        get(&table, key::user_key(&entries[2500].0), 9).unwrap();
        assert_eq!(forward(&table).unwrap(), entries);
        let read = cache.usage();
        assert_eq!(used_after_gets(&table, &cache, &entries), read);
        assert_eq!(used_after_gets(&table, &cache, &entries), read);
    }
}

#[test]
fn repeated_iterator_seeks_build_key_words_on_block_read() {
    let entries = entries(|_| 100);
    for compression in [Compression::None, Compression::Lz4] {
        let (table, cache) = cached(&entries, compression);
        let io = Io::blocking();
        let mut iter = TableIter::new(table.clone(), IterOptions::default());
        for (key, value) in entries.iter().step_by(50) {
            let progress = iter.seek(key);
            iter.complete(progress, &io);
            assert!(iter.valid());
            assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
        }
        let properties = table.properties();
        let id = UniqueId::of_table(
            &properties.db_id,
            &properties.db_session_id,
            properties.original_file_number,
        );
        let [first, second, _] = id.expect("the table has an identity").external();
        let blocks = (0..properties.data_size)
            .filter_map(|offset| cache.get(&CacheKey::of_block([first, second], offset)));
        let (mut with_words, mut without) = (0, 0);
        for block in blocks {
            match DataWords::parse(block.tail()) {
                Some(_) => with_words += 1,
                None => without += 1,
            }
        }
        assert!(
            with_words > 30,
            "{with_words} {without} {}",
            cache.entries()
        );
        assert_eq!(without, 3, "the blocks of the first searches");
    }
}

#[test]
fn a_block_with_more_entries_than_typical_moves_when_its_key_words_are_built() {
    let entries = entries(|n| if n < 200 { 20 } else { 100 });
    let (table, cache) = cached(&entries, Compression::None);
    assert_eq!(forward(&table).unwrap(), entries);
    let read = cache.usage();
    let used = used_after_gets(&table, &cache, &entries);
    assert!(used > read);
    assert_eq!(used_after_gets(&table, &cache, &entries), used);
}

#[test]
fn the_words_of_an_index_are_built_by_the_second_get_and_not_by_scans() {
    let entries = entries(|_| 100);
    let (table, _) = cached(&entries, Compression::None);
    let opened = table.memory_usage();
    for _ in 0..3 {
        assert_eq!(forward(&table).unwrap(), entries);
        assert_eq!(table.memory_usage(), opened);
    }
    let find = |at: usize| {
        let (key, value) = &entries[at];
        let found = get(&table, key::user_key(key), 9).unwrap();
        assert_eq!(found, [(7, value.clone())]);
        table.memory_usage()
    };
    assert_eq!(find(1234), opened);
    let laid = find(1234);
    assert!(laid > opened);
    (0..entries.len()).for_each(|at| assert_eq!(find(at), laid));
    assert_eq!(forward(&table).unwrap(), entries);
}

#[test]
fn short_entries_have_no_words() {
    for (value_len, has_words) in [(0, false), (20, false), (40, true)] {
        let entries = entries(|_| value_len);
        let (table, cache) = cached(&entries, Compression::None);
        let blocks = table.properties().data_size as usize;
        let taken = || {
            assert_eq!(forward(&table).unwrap(), entries);
            // Cache usage beyond the blocks and 200 bytes for each.
            cache.usage().saturating_sub(blocks + 200 * cache.entries())
        };
        assert_eq!(taken() > 0, has_words, "{value_len}");
        used_after_gets(&table, &cache, &entries);
        used_after_gets(&table, &cache, &entries);
        assert_eq!(taken() > 0, has_words, "{value_len}");
    }
}

#[test]
fn keys_with_timestamps_are_found_by_words() {
    let order = KeyOrder::BytewiseU64Ts;
    // Every 50th key has more versions than a block has entries.
    let versions = |n: u64| if n % 50 == 7 { 70 } else { n % 4 + 1 };
    let user = |n: u64, timestamp: u64| {
        let mut user = format!("{n:016}").into_bytes();
        user.extend_from_slice(&timestamp.to_le_bytes());
        user
    };
    let mut entries = Vec::new();
    for n in 0..600 {
        for version in (1..=versions(n)).rev() {
            let mut key = Vec::new();
            let timestamp = version * 1000;
            key::append_internal(
                &mut key,
                &user(n, timestamp),
                SequenceNumber(version),
                ValueKind::Value,
            );
            entries.push((key, vec![version as u8; 100]));
        }
    }
    let (table, cache) = cached_in(&order, &entries, Compression::None);
    assert_eq!(forward(&table).unwrap(), entries);
    let opened = table.memory_usage();
    for pass in 0..3 {
        for n in 0..601 {
            for timestamp in [0, 999, 1000, 2500, 40_000, u64::MAX] {
                let newest = (timestamp / 1000).min(if n < 600 { versions(n) } else { 0 });
                let wanted: Vec<_> = (1..=newest)
                    .rev()
                    .map(|it| (it, vec![it as u8; 100]))
                    .collect();
                let found = get(&table, &user(n, timestamp), 99).unwrap();
                assert_eq!(found, wanted, "{n} at {timestamp} in pass {pass}");
            }
        }
    }
    assert!(table.memory_usage() > opened, "the index has words");
    let mut iter = TableIter::new(table.clone(), IterOptions::default());
    let io = Io::blocking();
    for (at, (key, _)) in entries.iter().enumerate() {
        let progress = iter.seek(key);
        iter.complete(progress, &io);
        assert_eq!(iter.key(), &key[..]);
        let progress = iter.prev();
        iter.complete(progress, &io);
        let before = at.checked_sub(1).map(|before| &entries[before].0[..]);
        assert_eq!(iter.valid().then(|| iter.key()), before);
    }
    assert!(cache.usage() > 0);
}
