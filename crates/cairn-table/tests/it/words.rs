//! Key words of cached blocks are built in memory allocated with the block.

use std::sync::Arc;

use cairn_compress::Compression;
use cairn_format::block::DataWords;
use cairn_format::id::UniqueId;
use cairn_format::key;
use cairn_memory::{BlockCache, CacheKey, CacheOptions};
use cairn_platform::Io;
use cairn_table::{BuildParams, IterOptions, OpenParams, Table, TableIdentity, TableIter};
use cairn_types::{SequenceNumber, ValueKind};

use crate::world::{Entry, build, forward, get, open};

fn entries(value_len: impl Fn(usize) -> usize) -> Vec<Entry> {
    let entry = |n: usize| {
        let mut key = Vec::new();
        let user = format!("{n:016}");
        key::append_internal(
            &mut key,
            user.as_bytes(),
            SequenceNumber(7),
            ValueKind::Value,
        );
        (key, vec![n as u8; value_len(n)])
    };
    (0..3000).map(entry).collect()
}

fn cached(entries: &[Entry], compression: Compression) -> (Arc<Table>, Arc<BlockCache>) {
    let params = BuildParams {
        compression,
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
fn the_words_of_an_index_are_built_by_the_second_get() {
    let entries = entries(|_| 100);
    let (table, _) = cached(&entries, Compression::None);
    let opened = table.memory_usage();
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
