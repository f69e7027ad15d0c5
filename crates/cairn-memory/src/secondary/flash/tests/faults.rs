//! Device faults and hostile files. A reader gets correct entries or none.

use cairn_format::hash::xxh3_128;
use cairn_sim::{FAULTS, Fault, FaultPlan, FaultRule, Trigger};

use super::*;

/// Runs a load with `fault` injected at operation `at`, for `lasts` operations. Returns true if it occurred.
fn run(fault: Fault, at: usize, lasts: usize) -> bool {
    let sim = SimWorld::new(3);
    fill(&sim, &open(&sim, 3), 0..30);
    let rule = FaultRule {
        trigger: Trigger::Operation(sim.fs.operations() + at),
        fault,
        lasts,
    };
    sim.fs.set_plan(FaultPlan::new(vec![rule]));
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&reasons);
    let options = FlashCacheOptions {
        on_disabled: Some(Arc::new(move |error| seen.lock().push(error.to_string()))),
        ..options(3)
    };
    if let Ok(cache) = FlashCache::open(&options, &sim.world) {
        for n in 0..60 {
            look(&cache, n * 5 % 40);
            put(&cache, 100 + n, true);
            sim.executor.run(10);
            check_counts(&cache);
        }
        let reason = cache.disabled().map(ToString::to_string);
        if reason.is_some() {
            assert!(!put(&cache, 500, true) && look(&cache, 159).is_none());
            assert_eq!(cache.counts().entries, 0);
        } else {
            assert!(look(&cache, 159).is_some());
        }
        assert_eq!(*reasons.lock(), reason.into_iter().collect::<Vec<_>>());
    }
    let struck = sim.fs.injected() > 0;
    sim.fs.set_plan(FaultPlan::default());
    // The next process finds correct entries.
    let cache = open(&sim, 3);
    found(&cache, 0..40);
    found(&cache, 100..160);
    check_counts(&cache);
    fill(&sim, &cache, 300..330);
    assert!(cache.disabled().is_none());
    struck
}

#[test]
fn any_fault_at_any_operation_is_survived() {
    for (fault, name) in FAULTS {
        let struck = (0..200).filter(|at| run(fault, *at, 1)).count();
        // Nothing is synced.
        assert_eq!(struck > 5, fault != Fault::SyncReverted, "{name}: {struck}");
        for at in [0, 3, 9, 20, 60] {
            run(fault, at, usize::MAX);
        }
    }
}

/// Regression: a cache that was closed after a fault unlocked its directory while its job was still running.
#[test]
fn the_directory_is_locked_as_long_as_the_job_runs() {
    let sim = SimWorld::new(3);
    let cache = Arc::new(OnceLock::<FlashCache>::new());
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let (opened, world) = (attempts.clone(), sim.world.clone());
    // Weak, because the cache owns the callback.
    let closed = Arc::downgrade(&cache);
    let with_callback = FlashCacheOptions {
        on_disabled: Some(Arc::new(move |_| {
            let cache = closed.upgrade().expect("it is not dropped");
            cache.get().expect("it is set").close();
            let again = FlashCache::open(&options(8), &world);
            opened.lock().push(again.is_ok());
        })),
        ..options(8)
    };
    let set = cache.set(FlashCache::open(&with_callback, &sim.world).unwrap());
    assert!(set.is_ok());
    let cache = cache.get().unwrap();
    sim.fs.set_capacity(3 * SEGMENT as u64);
    for n in 0..100 {
        put(cache, n, true);
        sim.executor.run(10);
    }
    assert!(cache.disabled().is_some());
    assert_eq!(*attempts.lock(), [false], "the job reports the fault");
    sim.fs.set_capacity(u64::MAX);
    FlashCache::open(&options(8), &sim.world).unwrap();
}

#[test]
fn a_full_device_disables_the_cache() {
    let sim = SimWorld::new(3);
    let cache = open(&sim, 8);
    sim.fs.set_capacity(3 * SEGMENT as u64);
    for n in 0..100 {
        put(&cache, n, true);
        sim.executor.run(10);
    }
    let reason = cache.disabled().expect("there is no space").to_string();
    assert!(reason.contains("/flash/segment-"), "{reason}");
}

/// The only segment of a cache, and its path.
fn segment(sim: &SimWorld) -> (std::path::PathBuf, Vec<u8>) {
    let image = sim.fs.image();
    let mut files = image.files().filter(|(path, _)| !path.ends_with("LOCK"));
    let (path, bytes) = files.next().expect("there is a segment");
    (path, bytes.to_vec())
}

fn overwrite(sim: &SimWorld, path: &Path, bytes: &[u8]) {
    sim.fs.remove(path).unwrap();
    let file = sim.fs.create(path, FileMode::default()).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn hostile_bytes_give_no_wrong_entries(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut: prop::sample::Index,
        cuts: bool,
        at_start: bool,
        mends: bool,
    ) {
        let sim = SimWorld::new(3);
        let cache = open(&sim, 3);
        (0..9).for_each(|n| assert!(put(&cache, n, true)));
        drop(cache);
        let (path, mut bytes) = segment(&sim);
        for (at, byte) in edits {
            let at = if at_start { at.index(400) } else { at.index(bytes.len()) };
            bytes[at] = byte;
        }
        if cuts {
            bytes.truncate(cut.index(bytes.len()));
        }
        if mends && let Some(header) = bytes.get(..56) {
            let generation = u64::from_le_bytes(header[16..24].try_into().unwrap());
            let sum = xxh3_128(header, generation).1.to_le_bytes();
            if let Some(place) = bytes.get_mut(56..64) {
                place.copy_from_slice(&sum);
            }
        }
        overwrite(&sim, &path, &bytes);
        let cache = open(&sim, 3);
        let right = found(&cache, 0..9).len() as u64;
        check_counts(&cache);
        let counts = cache.counts();
        prop_assert_eq!((counts.hits, counts.entries), (right, right));
        fill(&sim, &cache, 100..140);
    }
}

/// Replaces the segment by a forged one with valid checksums.
fn forge(sim: &SimWorld, generation: u64, record: &SegmentRecord<'_>) {
    let (path, _) = segment(sim);
    let mut builder = SegmentBuilder::new(generation);
    assert!(builder.add(record));
    let forged = builder.finish([0; 16]);
    let bytes = [forged.head, forged.records].concat();
    assert!(SegmentHeader::decode(&bytes, bytes.len() as u64).is_ok());
    overwrite(sim, &path, &bytes);
}

#[test]
fn a_forged_record_allocates_nothing_and_is_dropped() {
    for (codec, raw_len, payload) in [
        (4, u32::MAX, &[255; 100][..]),
        (7, u32::MAX, b"\xff\xff\xff\xff\x0f\x28\xb5\x2f\xfd"),
        (1, 1000, b"\xe8\x07abc"),
        (6, 100, b"xpress"),
        (99, 100, b"unknown"),
    ] {
        let sim = SimWorld::new(3);
        let cache = open(&sim, 3);
        put(&cache, 1, true);
        drop(cache);
        let key = key(1);
        let record = SegmentRecord {
            key: [key.high, key.low],
            raw_len,
            role: 200,
            priority: 200,
            codec,
            payload,
        };
        forge(&sim, 5, &record);
        let cache = open(&sim, 3);
        assert_eq!(cache.role_counts(CacheRole::Other).entries, 1);
        assert!(look(&cache, 1).is_none());
        assert_eq!((cache.stats().lost, cache.counts().entries), (1, 0));
        assert!(cache.disabled().is_none());
    }
}

#[test]
fn a_forged_generation_is_not_continued() {
    let sim = SimWorld::new(3);
    let cache = open(&sim, 3);
    put(&cache, 1, true);
    drop(cache);
    let key = key(1);
    let record = SegmentRecord {
        key: [key.high, key.low],
        raw_len: 3,
        role: 0,
        priority: 0,
        codec: 0,
        payload: b"abc",
    };
    forge(&sim, u64::MAX, &record);
    let cache = open(&sim, 3);
    assert_eq!(cache.counts().entries, 0);
    fill(&sim, &cache, 10..40);
    drop(cache);
    let entries = open(&sim, 3).counts().entries;
    assert!(entries >= 20, "{entries}");
}

#[test]
fn a_flipped_bit_costs_one_entry() {
    let sim = SimWorld::new(3);
    let cache = open(&sim, 3);
    fill(&sim, &cache, 0..20);
    let (path, bytes) = segment(&sim);
    sim.fs.flip_bit(&path, bytes.len() - 5, 3).unwrap();
    let before = cache.counts().entries;
    assert_eq!(found(&cache, 0..20).len() as u64, before - 1);
    assert_eq!((cache.stats().lost, cache.counts().evictions), (1, 1));
    check_counts(&cache);
}
