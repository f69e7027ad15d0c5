//! After any crash, every entry found is correct, and the cache continues to work.

use cairn_sim::images::MODELS;
use cairn_sim::{DiskImage, Trace};

use super::*;

const KEYS: u64 = 90;

/// Fills a cache of three segments several times, with hits, and with restarts in between.
fn load(sim: &SimWorld) {
    for round in 0..3 {
        let cache = open(sim, 3);
        for n in 0..60 {
            put(&cache, (n * 7 + round * 11) % KEYS, true);
            look(&cache, (n * 3) % KEYS);
            if n % 4 == 0 {
                sim.executor.run(10);
            }
        }
        cache.set_capacity(if round == 1 { 2 } else { 3 } * SEGMENT);
        sim.executor.run(10);
    }
}

/// Opens the image, and checks all entries. Returns the number of entries found.
fn check(image: DiskImage, goes_on: bool) -> usize {
    let sim = SimWorld::on(image, 5);
    let cache = open(&sim, 3);
    check_counts(&cache);
    let before = found(&cache, 0..KEYS).len();
    check_counts(&cache);
    if goes_on {
        // Segments overwrite whatever is present.
        for n in 200..260 {
            put(&cache, n, true);
            sim.executor.run(10);
        }
        assert_eq!(
            look(&cache, 259).map(|found| found.len()),
            Some(block(259).len())
        );
        drop(cache);
        let cache = open(&sim, 3);
        assert!(found(&cache, 200..260).len() > 20);
        found(&cache, 0..KEYS);
        check_counts(&cache);
    }
    assert!(sim.fs.image().files().count() <= 4);
    before
}

/// Crashes at every operation in every way. Returns the numbers of images and of entries found, for all
/// crashes and for those of the process alone.
fn crash_everywhere(trace: &Trace) -> [(usize, usize); 2] {
    let mut sums = [(0, 0); 2];
    let mut replay = trace.replay();
    loop {
        if replay.changed() || replay.at() == 0 {
            for model in MODELS {
                for image in replay.images(model, replay.at() as u64) {
                    let entries = check(image, sums[0].0 % 23 == 0);
                    for sum in &mut sums[..1 + usize::from(model.kernel_survives())] {
                        sum.0 += 1;
                        sum.1 += entries;
                    }
                }
            }
        }
        if !replay.step() {
            return sums;
        }
    }
}

#[test]
fn entries_are_correct_after_a_crash_at_any_operation() {
    let trace = |seed| {
        let sim = SimWorld::new(seed);
        load(&sim);
        sim.fs.trace()
    };
    assert_eq!(trace(7).fingerprint(), trace(7).fingerprint());
    let [all, killed] = crash_everywhere(&trace(7));
    assert!(all.0 > 10_000 && all.1 > 3 * all.0, "{all:?}");
    assert!(killed.1 > 15 * killed.0, "{killed:?}");
}
