//! Tests of the flash tier in the simulated world, where its job runs on demand.

mod crashes;
mod faults;

use std::path::Path;

use cairn_format::cache_segment::{SegmentBuilder, SegmentHeader};
use cairn_platform::FileSystem;
use cairn_platform::fs::FileMode;
use cairn_sim::SimWorld;
use proptest::prelude::*;

use super::*;

const SEGMENT: usize = 8 << 10;

fn key(n: u64) -> CacheKey {
    CacheKey::of_block([7 << 50, 9], n)
}

/// The bytes of entry `n`, which never change. Every second one is compressible.
fn block(n: u64) -> Buffer {
    let mixed = |at: u64| {
        let mixed = (n * 1_000_003 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 56
    };
    let step = if n.is_multiple_of(2) { 50 } else { 1 };
    let bytes: Vec<u8> = (0..700 + n % 300)
        .map(|at| mixed(at / step) as u8)
        .collect();
    Buffer::from(bytes)
}

fn role(n: u64) -> CacheRole {
    CacheRole::ALL[n as usize % 7]
}

fn options(segments: usize) -> FlashCacheOptions {
    FlashCacheOptions {
        dir: "/flash".into(),
        capacity: segments * SEGMENT,
        segment_size: SEGMENT,
        write_buffer_size: 64 << 10,
        ..FlashCacheOptions::default()
    }
}

fn open(sim: &SimWorld, segments: usize) -> FlashCache {
    FlashCache::open(&options(segments), &sim.world).expect("the options are valid")
}

fn put(cache: &FlashCache, n: u64, hit: bool) -> bool {
    cache.insert(&Offer {
        key: key(n),
        bytes: &Bytes::Plain(block(n)),
        role: role(n),
        priority: CachePriority::High,
        hit,
        lowest: CacheTier::NonVolatileBlock,
    })
}

/// Inserts entries and runs the job to write them.
fn fill(sim: &SimWorld, cache: &FlashCache, keys: impl IntoIterator<Item = u64>) {
    for n in keys {
        assert!(put(cache, n, true), "{n}");
        sim.executor.run(100);
    }
}

fn look(cache: &FlashCache, n: u64) -> Option<Buffer> {
    let found = cache.lookup(&key(n), true, CacheTier::NonVolatileBlock)?;
    assert_eq!(&found.buffer[..], &block(n)[..], "{n}");
    assert_eq!(
        (found.role, found.priority),
        (role(n), CachePriority::High),
        "{n}"
    );
    Some(found.buffer)
}

fn found(cache: &FlashCache, keys: std::ops::Range<u64>) -> Vec<u64> {
    keys.filter(|n| look(cache, *n).is_some()).collect()
}

fn check_counts(cache: &FlashCache) {
    for role in CacheRole::ALL {
        let counts = cache.role_counts(role);
        let gone = counts.evictions + counts.erasures;
        assert_eq!(counts.insertions, gone + counts.entries, "{role:?}");
    }
}

#[test]
fn an_entry_is_found_in_memory_and_then_on_the_device() {
    let sim = SimWorld::new(1);
    let cache = open(&sim, 4);
    assert!(!put(&cache, 1, false), "the first offer is recorded");
    assert!(put(&cache, 1, false) && put(&cache, 4, true));
    assert!(look(&cache, 1).is_some() && look(&cache, 3).is_none());
    let held = |n| Bytes::Plain(block(n)).memory_usage();
    assert_eq!(cache.stats().pending_bytes, held(1) + held(4));
    fill(&sim, &cache, 10..40);
    let stats = cache.stats();
    assert!(stats.segments_written > 0);
    assert!(look(&cache, 1).is_some() && look(&cache, 4).is_some());
    let found = cache.lookup(&key(4), false, CacheTier::NonVolatileBlock);
    assert!(found.is_some_and(|found| !found.keep && found.stored.stored().len() < 600));
    assert!(
        cache
            .lookup(&key(4), true, CacheTier::VolatileCompressed)
            .is_none()
    );
    check_counts(&cache);
}

/// The read of entry `n`, which is on the device.
fn seek(cache: &FlashCache, n: u64) -> DeviceRead {
    let mut counts = LookupCounts::default();
    match cache.seek(&key(n), true, CacheTier::NonVolatileBlock, &mut counts) {
        Sought::OnDevice(read) => read,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_read_of_an_entry_can_be_left_to_the_caller() {
    let sim = SimWorld::new(1);
    let cache = open(&sim, 4);
    fill(&sim, &cache, 0..20);
    let on_device = |n: u64| {
        let mut counts = LookupCounts::default();
        let sought = cache.seek(&key(n), true, CacheTier::NonVolatileBlock, &mut counts);
        matches!(sought, Sought::OnDevice(_))
    };
    let all: Vec<u64> = (0..20).filter(|&n| on_device(n)).collect();
    let [first, second, third] = all[..3] else {
        panic!("some are in segments: {all:?}")
    };
    let hits = cache.counts().hits;
    let read = seek(&cache, first);
    let bytes = read.request().read_now();
    let entry = read.finish(bytes).unwrap().expect("it is intact");
    assert_eq!(&entry.buffer[..], &block(first)[..]);
    assert_eq!(cache.counts().hits, hits + 1);

    // A deadline of the caller, or a batch that was abandoned, is no fault of the device.
    for error in [Error::timed_out("too late"), Error::aborted("not executed")] {
        let code = error.code();
        let returned = seek(&cache, first).finish(Err(error));
        assert_eq!(returned.unwrap_err().code(), code);
        assert!(look(&cache, first).is_some());
    }

    // Damage, and a file that is too short.
    let read = seek(&cache, second);
    let len = read.request().len;
    assert!(
        read.finish(Ok(Buffer::from(vec![7; len])))
            .unwrap()
            .is_none()
    );
    let end = Err(Error::corruption("the file ends early"));
    assert!(seek(&cache, third).finish(end).unwrap().is_none());
    assert!(look(&cache, second).is_none() && look(&cache, third).is_none());
    assert_eq!(cache.stats().lost, 2);
    check_counts(&cache);

    // A read that ends after its segment was overwritten, and after its entry was written again.
    let last = *all.last().unwrap();
    let read = seek(&cache, last);
    fill(&sim, &cache, 100..160);
    assert!(look(&cache, last).is_some() || put(&cache, last, true));
    let bytes = read.request().read_now();
    if let Some(entry) = read.finish(bytes).unwrap() {
        assert_eq!(&entry.buffer[..], &block(last)[..]);
    }
    assert!(look(&cache, last).is_some());
    check_counts(&cache);

    let n = (100..160).find(|&n| on_device(n)).unwrap();
    let reads = [seek(&cache, n), seek(&cache, n)];
    let [fails, ends] = reads;
    assert!(
        fails
            .finish(Err(Error::io_text("broken")))
            .unwrap()
            .is_none()
    );
    assert!(cache.disabled().is_some());
    // The bytes of a read that began before are right.
    drop(cache);
    let bytes = ends.request().read_now();
    assert_eq!(
        &ends.finish(bytes).unwrap().expect("it is intact").buffer[..],
        &block(n)[..]
    );
}

#[test]
fn entries_survive_a_restart() {
    let sim = SimWorld::new(1);
    let cache = open(&sim, 8);
    fill(&sim, &cache, 0..40);
    drop(cache);
    assert_eq!(sim.fs.leaks(), Vec::<String>::new());

    let cache = open(&sim, 8);
    assert_eq!(cache.stats().restored, 40);
    assert_eq!(found(&cache, 0..50).len(), 40);
    check_counts(&cache);
    // They are overwritten in turn.
    fill(&sim, &cache, 100..200);
    assert!(!cache.contains(&key(39)) || cache.counts().evictions > 0);
    drop(cache);

    let other = FlashCacheOptions {
        identity: [1; 16],
        ..options(8)
    };
    let cache = FlashCache::open(&other, &sim.world).unwrap();
    assert_eq!(cache.counts().entries, 0);
    fill(&sim, &cache, 0..20);
    assert!(cache.usage() <= cache.capacity());
}

#[test]
fn the_oldest_segment_is_overwritten_and_its_hit_entries_are_kept() {
    let sim = SimWorld::new(1);
    let cache = open(&sim, 4);
    fill(&sim, &cache, 1..20);
    assert!(cache.stats().segments_written >= 1);
    // 4 is compressible and was hit; 6 was looked up without a use.
    assert!(look(&cache, 4).is_some());
    cache.lookup(&key(6), false, CacheTier::NonVolatileBlock);
    let mut n = 100;
    while cache.contains(&key(6)) {
        fill(&sim, &cache, n..n + 1);
        n += 1;
    }
    assert!(cache.contains(&key(4)));
    assert_eq!(cache.stats().reinsertions, 1);
    check_counts(&cache);
    // Without another hit it is evicted the second time.
    fill(&sim, &cache, 1000..1100);
    assert!(!cache.contains(&key(4)));
    assert!(look(&cache, 1099).is_some());
    assert!(cache.usage() <= cache.capacity());
    check_counts(&cache);
}

#[test]
fn the_files_stay_within_the_capacity() {
    let sim = SimWorld::new(1);
    let cache = open(&sim, 3);
    fill(&sim, &cache, 0..200);
    let sizes = |sim: &SimWorld| -> Vec<usize> {
        let image = sim.fs.image();
        let files = image.files().filter(|(path, _)| !path.ends_with("LOCK"));
        files.map(|(_, bytes)| bytes.len()).collect()
    };
    assert_eq!(sizes(&sim).len(), 3);
    assert!(sizes(&sim).iter().all(|len| *len <= SEGMENT));
    assert_eq!(cache.usage(), 3 * SEGMENT);

    cache.set_capacity(SEGMENT);
    sim.executor.run(100);
    assert_eq!((sizes(&sim).len(), cache.usage()), (1, SEGMENT));
    assert!(cache.counts().entries > 0);
    cache.set_capacity(0);
    sim.executor.run(100);
    assert_eq!((sizes(&sim).len(), cache.counts().entries), (0, 0));
    put(&cache, 1000, true);
    fill(&sim, &cache, 1001..1010);
    cache.set_capacity(2 * SEGMENT);
    fill(&sim, &cache, 2000..2040);
    assert_eq!(cache.usage(), 2 * SEGMENT);
    check_counts(&cache);
    drop(cache);

    // A restart with a lower capacity keeps the youngest segments.
    let cache = open(&sim, 2);
    let before = found(&cache, 2000..2040);
    drop(cache);
    sim.fs
        .create(Path::new("/flash/segment-000007"), FileMode::default())
        .unwrap();
    let cache = open(&sim, 2);
    assert_eq!((sizes(&sim).len(), found(&cache, 2000..2040)), (2, before));
}

/// Regression: the memory for open segments was proportional to the largest number found.
#[test]
fn a_segment_with_a_large_number_is_like_any_other() {
    let sim = SimWorld::new(1);
    let cache = open(&sim, 8);
    fill(&sim, &cache, 0..40);
    drop(cache);
    for number in [400_000_000, u32::MAX] {
        let image = sim.fs.image();
        let path = Path::new("/flash/segment-000000");
        let (_, bytes) = image.files().find(|(found, _)| *found == path).unwrap();
        let path = format!("/flash/segment-{number}");
        let copy = sim.fs.create(Path::new(&path), FileMode::default());
        let copy = copy.unwrap();
        copy.append(bytes).unwrap();
        copy.close().unwrap();
        let cache = open(&sim, 8);
        assert_eq!(found(&cache, 0..40).len(), 40);
        check_counts(&cache);
    }
    let cache = open(&sim, 8);
    fill(&sim, &cache, 100..300);
    assert!(look(&cache, 299).is_some() && cache.usage() <= cache.capacity());
    check_counts(&cache);
}

#[test]
fn process_local_keys_are_not_stored() {
    let sim = SimWorld::new(1);
    let cache = open(&sim, 4);
    let key = CacheKey::of_block([17, 9], 4096);
    let stored = cache.insert(&Offer {
        key,
        bytes: &Bytes::Plain(block(1)),
        role: CacheRole::Data,
        priority: CachePriority::Low,
        hit: true,
        lowest: CacheTier::NonVolatileBlock,
    });
    assert!(!stored && !cache.contains(&key));
}

#[test]
fn insertions_are_rejected_while_too_many_bytes_wait() {
    let sim = SimWorld::new(1);
    let cache = open(&sim, 40);
    let stored = (0..200).filter(|n| put(&cache, *n, true)).count();
    let stats = cache.stats();
    assert!((70..92).contains(&stored), "{stored} were stored");
    assert!(stats.pending_bytes <= 64 << 10);
    assert_eq!(cache.counts().refusals, 200 - stored as u64);
    sim.executor.run(100);
    // Keys of rejected entries are recorded.
    assert!(put(&cache, 199, false));
    assert_eq!(found(&cache, 0..199).len(), stored);
}

#[test]
fn an_entry_larger_than_a_segment_is_rejected() {
    let sim = SimWorld::new(1);
    let cache = open(&sim, 4);
    let overhead = HEADER_LEN + ROW_LEN + RECORD_HEADER_LEN;
    for (len, stored) in [(SEGMENT - overhead, true), (SEGMENT - overhead + 1, false)] {
        let bytes = Bytes::Plain(Buffer::from(vec![1; len]));
        let offer = Offer {
            key: key(len as u64),
            bytes: &bytes,
            role: CacheRole::Filter,
            priority: CachePriority::High,
            hit: true,
            lowest: CacheTier::NonVolatileBlock,
        };
        assert_eq!(cache.insert(&offer), stored);
        sim.executor.run(100);
    }
    cache.close();
    let cache = open_again(&sim, cache);
    assert_eq!(cache.counts().entries, 1);
}

/// Opens the directory of `cache`, which is closed but not dropped.
fn open_again(sim: &SimWorld, cache: FlashCache) -> FlashCache {
    let again = open(sim, 4);
    drop(cache);
    again
}

#[test]
fn a_directory_can_be_opened_by_one_cache() {
    let sim = SimWorld::new(1);
    let cache = open(&sim, 4);
    assert!(FlashCache::open(&options(4), &sim.world).is_err());
    cache.close();
    assert!(!put(&cache, 1, true) && look(&cache, 1).is_none());
    open_again(&sim, cache);
}

#[test]
fn errors_of_invalid_options_name_the_minimum() {
    let sim = SimWorld::new(1);
    let open = |capacity, segment_size| {
        let options = FlashCacheOptions {
            capacity,
            segment_size,
            ..options(1)
        };
        FlashCache::open(&options, &sim.world).map(drop)
    };
    let text = open(12 << 10, 8 << 10).unwrap_err().to_string();
    assert!(text.contains("at least 16384"), "{text}");
    assert!(open(1 << 20, 1 << 10).is_err());
    assert!(open(16 << 10, 8 << 10).is_ok());
}

#[test]
fn erased_entries_are_gone() {
    let sim = SimWorld::new(1);
    let cache = open(&sim, 4);
    fill(&sim, &cache, 0..12);
    put(&cache, 50, true);
    for n in [0, 50] {
        assert!(cache.erase(&key(n)) && !cache.erase(&key(n)));
        assert!(look(&cache, n).is_none());
    }
    fill(&sim, &cache, 60..70);
    cache.clear();
    assert_eq!(cache.stats().pending_bytes, 0);
    let counts = cache.counts();
    assert_eq!((counts.entries, counts.usage), (0, 0));
    fill(&sim, &cache, 0..12);
    assert_eq!(found(&cache, 0..12).len(), 12);
    check_counts(&cache);
}

#[test]
fn the_compressed_form_is_kept() {
    let sim = SimWorld::new(1);
    let cache = open(&sim, 4);
    let raw = block(4);
    let codec = Codec::new(Compression::Zstd, CodecOptions::default()).unwrap();
    let stored = codec.compress(&raw).unwrap();
    let offer = Offer {
        key: key(4),
        bytes: &stored,
        role: role(4),
        priority: CachePriority::High,
        hit: true,
        lowest: CacheTier::NonVolatileBlock,
    };
    assert!(cache.insert(&offer) && look(&cache, 4).is_some());
    fill(&sim, &cache, 10..30);
    let found = cache
        .lookup(&key(4), true, CacheTier::NonVolatileBlock)
        .unwrap();
    assert_eq!(found.stored.stored(), stored.stored());
    assert_eq!(&found.buffer[..], &raw[..]);
}

#[test]
fn threads_share_the_cache() {
    let world = World::in_memory();
    let cache = FlashCache::open(&options(6), &world).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let cache = &cache;
            scope.spawn(move || {
                for round in 0..3_000u64 {
                    let n = (round * 31 + thread * 17) % 120;
                    if look(cache, n).is_none() {
                        put(cache, n, round % 2 == 0);
                    }
                    match round % 500 {
                        70 => cache.set_capacity(2 * SEGMENT),
                        90 => cache.set_capacity(6 * SEGMENT),
                        110 => cache.clear(),
                        130 => drop(cache.erase(&key(n))),
                        _ => {}
                    }
                }
            });
        }
    });
    // Their number depends on the scheduling of the job.
    assert!(cache.stats().segments_written > 0);
    assert!(cache.disabled().is_none());
    check_counts(&cache);
    drop(cache);
    let cache = FlashCache::open(&options(6), &world).unwrap();
    assert!(!found(&cache, 0..120).is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Put(u64, bool),
    Look(u64, bool),
    Erase(u64),
    Run,
    Capacity(usize),
    Restart,
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        30 => (0..100u64, any::<bool>()).prop_map(|(n, hit)| Step::Put(n, hit)),
        10 => (0..100u64, any::<bool>()).prop_map(|(n, promote)| Step::Look(n, promote)),
        3 => (0..100u64).prop_map(Step::Erase),
        8 => Just(Step::Run),
        1 => (0..6usize).prop_map(Step::Capacity),
        1 => Just(Step::Restart),
        1 => Just(Step::Clear),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    /// After any sequence of calls, the bytes found are those inserted, the files stay within the capacity,
    /// and the counters add up.
    #[test]
    fn any_sequence_of_calls(steps in proptest::collection::vec(step(), 1..400)) {
        let sim = SimWorld::new(3);
        let mut cache = open(&sim, 4);
        for step in steps {
            match step {
                Step::Put(n, hit) => {
                    let stored = put(&cache, n, hit);
                    prop_assert_eq!(cache.contains(&key(n)), stored);
                }
                Step::Look(n, promote) => {
                    let before = cache.contains(&key(n));
                    let found = cache.lookup(&key(n), promote, CacheTier::NonVolatileBlock);
                    prop_assert_eq!(found.is_some(), before);
                    if let Some(found) = found {
                        prop_assert_eq!(&found.buffer[..], &block(n)[..]);
                        prop_assert_eq!(found.keep, promote);
                    }
                }
                Step::Erase(n) => {
                    let before = cache.contains(&key(n));
                    prop_assert_eq!(cache.erase(&key(n)), before);
                }
                Step::Run => {
                    sim.executor.run(1);
                    let files = sim.fs.image().files().count() - 1;
                    prop_assert!(files * SEGMENT <= cache.usage().max(cache.capacity()));
                }
                Step::Capacity(segments) => cache.set_capacity(segments * SEGMENT),
                Step::Restart => {
                    drop(cache);
                    cache = open(&sim, 4);
                }
                Step::Clear => cache.clear(),
            }
            prop_assert!(cache.disabled().is_none());
            check_counts(&cache);
            let stats = cache.stats();
            prop_assert!(stats.lost == 0 && stats.pending_bytes <= (64 << 10) + 2 * SEGMENT);
        }
        while sim.executor.help() {}
        prop_assert!(cache.usage() <= cache.capacity());
    }
}
