//! The clock cache as a whole under shuttle: random schedules of threads that look up, insert, erase, and
//! change the capacity.

use std::sync::Arc;

use super::*;
use cairn_platform::{Allocation, EntryNote};
use shuttle::thread;

const SCHEDULES: usize = 3_000;
const KEYS: u64 = 4;
fn charge() -> usize {
    Buffer::from(vec![0; 64]).memory_usage() + clock::ENTRY_OVERHEAD
}

fn key(n: u64) -> CacheKey {
    CacheKey { high: 1, low: n }
}

fn small() -> Arc<BlockCache> {
    let options = CacheOptions {
        num_shard_bits: Some(0),
        ..CacheOptions::default()
    };
    Arc::new(BlockCache::new(3 * charge(), options))
}

fn put(cache: &BlockCache, n: u64) {
    let block = Buffer::from(vec![n as u8; 64]);
    cache.insert(key(n), block, CacheRole::Data, CachePriority::Low);
}

fn check(cache: &BlockCache, n: u64) -> Option<Buffer> {
    let found = cache.get(&key(n))?;
    assert_eq!(*found, [n as u8; 64], "another key's block");
    Some(found)
}

/// Once no reader is active, everything inserted is evicted, erased or present.
fn settled(cache: &BlockCache) {
    let counts = cache.counts();
    assert_eq!(counts.usage, cache.usage());
    assert_eq!(counts.usage, counts.entries * charge());
    assert_eq!(counts.entries, cache.entries());
    // Entries that were inserted while readers held all others are evicted now.
    cache.set_capacity(cache.capacity());
    assert!(cache.usage() <= cache.capacity());
}

fn explore(check: impl Fn() + Send + Sync + 'static) {
    shuttle::check_pct(check, SCHEDULES, 3);
}

#[test]
fn shuttle_readers_and_writers_share_a_full_cache() {
    explore(|| {
        let cache = small();
        let threads: Vec<_> = (0..3_u64)
            .map(|thread| {
                let cache = cache.clone();
                thread::spawn(move || {
                    for round in 0..4 {
                        let n = (thread + round * 3) % KEYS;
                        let pinned = check(&cache, n);
                        if pinned.is_none() {
                            put(&cache, n);
                        }
                        check(&cache, (n + 1) % KEYS);
                        drop(pinned);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|it| it.join().unwrap());
        settled(&cache);
    });
}

#[test]
fn shuttle_erasures_and_capacity_changes_race_with_readers() {
    explore(|| {
        let cache = small();
        put(&cache, 0);
        put(&cache, 1);
        let reader = {
            let cache = cache.clone();
            thread::spawn(move || {
                let first = check(&cache, 0);
                let second = check(&cache, 1);
                drop(first);
                check(&cache, 0);
                drop(second);
            })
        };
        let eraser = {
            let cache = cache.clone();
            thread::spawn(move || {
                cache.erase(&key(0));
                put(&cache, 0);
                cache.erase_unused();
            })
        };
        cache.set_capacity(charge());
        put(&cache, 2);
        cache.set_capacity(3 * charge());
        reader.join().unwrap();
        eraser.join().unwrap();
        settled(&cache);
    });
}

#[test]
fn shuttle_tails_are_appended_while_buffers_are_read() {
    explore(|| {
        let cache = small();
        let block = Buffer::copy_of(&[7; 40], Allocation::with_room(24));
        cache.insert(key(0), block, CacheRole::Data, CachePriority::Low);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let cache = cache.clone();
                thread::spawn(move || {
                    let Some(found) = cache.get(&key(0)) else {
                        return;
                    };
                    let before = found.clone();
                    let bare = before.tail().is_empty();
                    if bare {
                        let laid = cache.lay_tail(&key(0), found, &[9; 24]);
                        assert_eq!((&*laid, laid.tail()), (&[7; 40][..], &[9; 24][..]));
                        assert!(before.tail().is_empty());
                    } else {
                        assert_eq!(before.tail(), [9; 24]);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|it| it.join().unwrap());
        let found = cache.get(&key(0)).expect("it stays");
        assert_eq!(*found, [7; 40]);
        settled(&cache);
    });
}

#[test]
fn shuttle_a_copy_has_its_tail_while_its_header_is_pinned() {
    explore(|| {
        let key = [1, 2];
        let source = Buffer::from(vec![7; 40]);
        let entry = source.with_tail(&[]).publish(key, EntryNote::default());
        let number = entry.expect("it is new");
        // The number may be stale: the header of the entry is then that of the copy.
        let reader = thread::spawn(move || drop(Buffer::pin(number, key)));
        drop(Buffer::unpublish(number));
        let copy = source.with_tail(&[9; 8]);
        assert_eq!((&*copy, copy.tail()), (&[7; 40][..], &[9; 8][..]));
        reader.join().unwrap();
    });
}
