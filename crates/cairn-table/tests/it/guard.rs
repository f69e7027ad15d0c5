//! Checksums of the entries of cached blocks: damage to a block in memory is an error, not a wrong answer.

use std::sync::Arc;

use cairn_format::block::BlockChecksums;
use cairn_format::key;
use cairn_memory::{BlockCache, CacheKey, CacheOptions, CachePriority, CacheRole};
use cairn_options::{IndexType, TableOptions};
use cairn_platform::Buffer;
use cairn_table::{BuildParams, OpenParams, Table, TableIdentity};
use cairn_types::Code;

use crate::world::{Entry, backward, build, forward, get, open, put};

fn entries() -> Vec<Entry> {
    let entry = |n: usize| put(&format!("{n:08}"), vec![n as u8; n % 50]);
    (0..2000).map(entry).collect()
}

struct Cached {
    bytes: Vec<u8>,
    cache: Arc<BlockCache>,
    options: Arc<TableOptions>,
}

impl Cached {
    fn new(index_type: IndexType, entries: &[Entry]) -> Cached {
        let options = Arc::new(TableOptions {
            index_type,
            block_size: 1024,
            metadata_block_size: 256,
            cache_index_and_filter_blocks: true,
            ..TableOptions::default()
        });
        let params = BuildParams {
            options: options.clone(),
            identity: TableIdentity {
                db_id: "a database".to_owned(),
                session_id: "ABCDEFGHIJKLMNOPQRST".to_owned(),
                ..TableIdentity::default()
            },
            ..BuildParams::default()
        };
        let (bytes, _) = build(params, entries, &[]).expect("the entries ascend");
        Cached {
            bytes,
            cache: Arc::new(BlockCache::new(8 << 20, CacheOptions::default())),
            options,
        }
    }

    fn open(&self, block_checksum_len: u8) -> Arc<Table> {
        let params = OpenParams {
            cache: Some(self.cache.clone()),
            options: self.options.clone(),
            block_checksum_len,
            ..OpenParams::default()
        };
        open(&self.bytes, params).expect("the table is whole")
    }

    /// The cached blocks of `role`, with their keys.
    fn blocks(&self, table: &Table, role: CacheRole) -> Vec<(CacheKey, Buffer)> {
        let keys = (0..self.bytes.len() as u64)
            .map(|offset| CacheKey::of_block(table.cache_id(), offset))
            .filter_map(|key| Some((key, self.cache.lookup(&key, role)?)));
        keys.collect()
    }

    /// Replaces a cached block by one with an inverted bit.
    fn damage(&self, key: CacheKey, block: &Buffer, role: CacheRole, at: usize) {
        let mut bytes = block.to_vec();
        bytes[at] ^= 0x10;
        let damaged = Buffer::from(&*bytes).with_tail(block.tail());
        self.cache.erase(&key);
        self.cache.insert(key, damaged, role, CachePriority::Low);
    }
}

#[test]
fn guarded_tables_read_as_others() {
    let entries = entries();
    for index_type in [IndexType::BinarySearch, IndexType::TwoLevelIndexSearch] {
        for len in [1, 2, 4, 8] {
            let cached = Cached::new(index_type, &entries);
            let table = cached.open(len);
            for _ in 0..2 {
                assert_eq!(forward(&table).unwrap(), entries);
                let reversed: Vec<_> = entries.iter().rev().cloned().collect();
                assert_eq!(backward(&table).unwrap(), reversed);
                for (key, value) in &entries {
                    let found = get(&table, key::user_key(key), 9).unwrap();
                    assert_eq!(found, [(7, value.clone())]);
                }
            }
            for (_, block) in cached.blocks(&table, CacheRole::Data) {
                assert!(BlockChecksums::parse(block.tail()).is_some());
            }
        }
    }
}

/// Another opening of the file has cached blocks with search words, or without a tail.
#[test]
fn blocks_without_checksums_get_them_when_they_are_found() {
    let entries = entries();
    let cached = Cached::new(IndexType::BinarySearch, &entries);
    let plain = cached.open(0);
    for _ in 0..2 {
        for (key, _) in &entries {
            get(&plain, key::user_key(key), 9).unwrap();
        }
    }
    let guarded = cached.open(8);
    assert_eq!(guarded.cache_id(), plain.cache_id());
    assert_eq!(forward(&guarded).unwrap(), entries);
    // Blocks with checksums have no search words, which a table without them does not need.
    assert_eq!(forward(&plain).unwrap(), entries);
    for (key, value) in &entries {
        let found = get(&plain, key::user_key(key), 9).unwrap();
        assert_eq!(found, [(7, value.clone())]);
    }
}

#[test]
fn a_damaged_data_block_is_an_error() {
    let entries = entries();
    let cached = Cached::new(IndexType::BinarySearch, &entries);
    let table = cached.open(8);
    assert_eq!(forward(&table).unwrap(), entries);
    let blocks = cached.blocks(&table, CacheRole::Data);
    assert!(blocks.len() > 20, "{} blocks", blocks.len());
    for (nth, (key, block)) in blocks.into_iter().enumerate() {
        // Early in the block, which has a restart array at its end.
        cached.damage(key, &block, CacheRole::Data, 5 + nth % 40);
        let all = forward(&table).unwrap_err();
        assert_eq!(all.code(), Code::Corruption);
        assert_eq!(backward(&table).unwrap_err().code(), Code::Corruption);
        // A get is right or fails; it cannot see damage to a key that it does not come to.
        for (key, value) in &entries {
            match get(&table, key::user_key(key), 9) {
                Ok(found) => assert!(found.is_empty() || found == [(7, value.clone())]),
                Err(error) => assert_eq!(error.code(), Code::Corruption),
            }
        }
        cached.cache.erase(&key);
        assert_eq!(forward(&table).unwrap(), entries);
    }
}

#[test]
fn a_damaged_index_block_is_an_error() {
    let entries = entries();
    for index_type in [IndexType::BinarySearch, IndexType::TwoLevelIndexSearch] {
        let cached = Cached::new(index_type, &entries);
        let table = cached.open(8);
        assert_eq!(forward(&table).unwrap(), entries);
        let blocks = cached.blocks(&table, CacheRole::Index);
        assert!(!blocks.is_empty());
        for (key, block) in blocks {
            for at in [2, 7, 12] {
                cached.damage(key, &block, CacheRole::Index, at);
                assert_eq!(forward(&table).unwrap_err().code(), Code::Corruption);
            }
            cached.cache.erase(&key);
            assert_eq!(forward(&table).unwrap(), entries);
        }
    }
}
