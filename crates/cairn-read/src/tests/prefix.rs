//! Runs of deletions and prefix scans, compared with the map.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn runs_of_deletions_match_the_map(
        ops in proptest::collection::vec((0u8..60, 0u8..4), 1..150),
        shape in shape(),
        upper in proptest::option::of(0u8..60),
        seq in 0u64..150,
    ) {
        let changes: Vec<Change> = ops
            .iter()
            .map(|&(key, what)| match what {
                0 => Change::Put(vec![key], vec![what]),
                1 => Change::SingleDelete(vec![key]),
                _ => Change::Delete(vec![key]),
            })
            .collect();
        let world = World::new(&changes, &shape);
        let seq = seq.min(changes.len() as u64);
        let order = world.order();
        let within = |key: &Vec<u8>| {
            upper.is_none_or(|upper| order.compare(key, &[upper]).is_lt())
        };
        let expected: Pairs = world.model(seq).into_iter().filter(|(key, _)| within(key)).collect();
        let options = ReadOptions {
            iterate_upper_bound: upper.map(|key| vec![key]),
            ..ReadOptions::default()
        };
        let mut iter = DbIter::new(world.view.clone(), SequenceNumber(seq), &options);
        iter.seek_to_first();
        prop_assert_eq!(forward(&mut iter), &expected[..]);
        iter.seek_to_last();
        prop_assert_eq!(backward(&mut iter), &expected[..]);
    }

    #[test]
    fn prefix_scan_returns_all_keys_of_the_prefix(
        changes in proptest::collection::vec(change(), 1..60),
        shape in shape(),
        probe in key(),
    ) {
        let world = World::new(&changes, &shape);
        let seq = changes.len() as u64;
        let order = world.order();
        let options = ReadOptions { prefix_same_as_start: true, ..ReadOptions::default() };
        let expected: Pairs = world
            .model(seq)
            .into_iter()
            .filter(|(key, _)| key[0] == probe[0] && order.compare(key, &probe).is_ge())
            .collect();
        let mut iter = DbIter::new(world.view.clone(), SequenceNumber(seq), &options);
        iter.seek(&probe);
        prop_assert_eq!(forward(&mut iter), expected);
        // Backward from the end, the prefix is that of the last key, or of the upper bound.
        let all = world.model(seq);
        let last = all.last().map_or(0, |(key, _)| key[0]);
        iter.seek_to_last();
        let of_last = all.iter().filter(|(key, _)| key[0] == last);
        prop_assert_eq!(backward(&mut iter), of_last.cloned().collect::<Pairs>());
        let bounded = ReadOptions { iterate_upper_bound: Some(probe.clone()), ..options };
        let mut iter = DbIter::new(world.view.clone(), SequenceNumber(seq), &bounded);
        iter.seek_to_last();
        let below = all.iter().filter(|(key, _)| {
            key[0] == probe[0] && order.compare(key, &probe).is_lt()
        });
        prop_assert_eq!(backward(&mut iter), below.cloned().collect::<Pairs>());
    }
}

#[test]
fn runs_of_deletions_count_as_skipped_entries_backward_too() {
    let mut changes: Vec<Change> = vec![put("a", "here")];
    changes.extend((0..50u8).map(|n| Change::Put(vec![b'b', n], vec![n; 9])));
    changes.extend((0..50u8).map(|n| Change::Delete(vec![b'b', n])));
    changes.push(put("c", "there"));
    for layers in [&[102][..], &[51, 51][..], &[20, 20, 62][..], &[][..]] {
        let world = World::new(&changes, &shape_of(layers));
        for (limit, found) in [(40, false), (200, true)] {
            let options = ReadOptions {
                max_skippable_internal_keys: limit,
                ..ReadOptions::default()
            };
            let mut iter = DbIter::new(world.view.clone(), SequenceNumber(102), &options);
            iter.seek_to_last();
            assert!(iter.valid());
            iter.prev();
            assert_eq!(
                (iter.valid(), iter.status().is_ok()),
                (found, found),
                "{limit}"
            );
        }
    }
}

#[test]
fn run_of_deletions_counts_as_skipped_entries() {
    let mut changes: Vec<Change> = (0..50u8).map(|n| Change::Delete(vec![b'a', n])).collect();
    changes.push(put("b", "here"));
    for layers in [&[51][..], &[20, 20][..], &[][..]] {
        let world = World::new(&changes, &shape_of(layers));
        for (limit, found) in [(49, false), (50, true), (200, true)] {
            let options = ReadOptions {
                max_skippable_internal_keys: limit,
                ..ReadOptions::default()
            };
            let mut iter = DbIter::new(world.view.clone(), SequenceNumber(99), &options);
            iter.seek_to_first();
            assert_eq!(iter.valid(), found, "at most {limit}");
            assert_eq!(iter.status().is_ok(), found);
        }
    }
}

#[test]
fn run_of_deletions_over_values_counts_both_as_skipped() {
    let mut changes: Vec<Change> = (0..50u8)
        .map(|n| Change::Put(vec![b'a', n], vec![n; 9]))
        .collect();
    changes.extend((0..50u8).map(|n| Change::Delete(vec![b'a', n])));
    changes.push(put("b", "here"));
    for layers in [
        &[50, 51][..],
        &[50, 0, 25, 26][..],
        &[20, 30, 51][..],
        &[50][..],
    ] {
        let world = World::new(&changes, &shape_of(layers));
        for (limit, found) in [(1, false), (99, false), (100, true)] {
            let options = ReadOptions {
                max_skippable_internal_keys: limit,
                ..ReadOptions::default()
            };
            let mut iter = DbIter::new(world.view.clone(), SequenceNumber(101), &options);
            iter.seek_to_first();
            assert_eq!(iter.valid(), found, "{layers:?}, at most {limit}");
            assert_eq!(iter.status().is_ok(), found);
        }
        // A snapshot before the deletions sees all values; a snapshot between them sees the
        // remaining values.
        for (seq, count) in [(50, 50), (75, 25), (100, 0)] {
            let seq = SequenceNumber(seq);
            let mut iter = DbIter::new(world.view.clone(), seq, &ReadOptions::default());
            iter.seek_to_first();
            assert_eq!(forward(&mut iter).len(), count, "{layers:?} at {seq}");
        }
    }
}

/// The cost of a seek over a run of deletions. Run by hand, optimized:
/// `CARGO_PROFILE_DEV_OPT_LEVEL=3 cargo test -p cairn-read seek_over_run_cost -- --ignored
/// --nocapture`.
#[test]
#[ignore = "a measurement"]
fn seek_over_run_cost() {
    let key = |n: u32| [b"key".as_slice(), &n.to_be_bytes()].concat();
    let mut changes: Vec<Change> = (0..100_000)
        .map(|n| Change::Put(key(n), vec![7; 20]))
        .collect();
    changes.extend((0..100_000).map(|n| Change::Delete(key(n))));
    changes.push(put("live", "here"));
    // Deletions alone in a table; over the deleted values; alone in a memtable.
    for (what, from, layers) in [
        ("in a table", 100_000, &[100_001][..]),
        ("over values", 0, &[100_000, 100_001][..]),
        ("in a memtable", 100_000, &[][..]),
    ] {
        let shape = Shape {
            files: 1,
            block_size: 4096,
            interval: 16,
            ..shape_of(layers)
        };
        let world = World::new(&changes[from..], &shape);
        let seq = SequenceNumber(1_000_000);
        let mut iter = DbIter::new(world.view.clone(), seq, &ReadOptions::default());
        let best = best_nanos(&mut || {
            iter.seek(b"key");
            assert_eq!(iter.key(), b"live");
        });
        println!("{what}: {} us for 100,000 deletions", best / 1000);
    }
}

/// The cost of steps and seeks in one sorted run. Run by hand, optimized:
/// `CARGO_PROFILE_DEV_OPT_LEVEL=3 cargo test -p cairn-read step_cost -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn step_cost_in_one_run() {
    measure_steps(&[20_000]);
}

/// The same in four sorted runs.
#[test]
#[ignore = "a measurement"]
fn step_cost_in_four_runs() {
    measure_steps(&[5_000; 4]);
}

fn measure_steps(layers: &[usize]) {
    const KEYS: u64 = 20_000;
    // Each key once, in random order.
    let mut numbers: Vec<u64> = (0..KEYS).collect();
    let mut random = 1u64;
    for at in (1..numbers.len()).rev() {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        numbers.swap(at, (random >> 33) as usize % (at + 1));
    }
    let change = |n: u64| Change::Put([n.to_be_bytes(), [b'0'; 8]].concat(), vec![7; 100]);
    let changes: Vec<Change> = numbers.into_iter().map(change).collect();
    let shape = Shape {
        files: 1,
        block_size: 4096,
        interval: 16,
        ..shape_of(layers)
    };
    let world = World::new(&changes, &shape);
    let iter = || {
        let seq = SequenceNumber(1_000_000);
        DbIter::new(world.view.clone(), seq, &ReadOptions::default())
    };
    // Open tables are known to have no range tombstones.
    iter().seek_to_first();
    let mut iter = iter();
    for (what, back) in [("forward", false), ("back", true)] {
        let best = best_nanos(&mut || {
            let mut bytes = 0;
            match back {
                false => iter.seek_to_first(),
                true => iter.seek_to_last(),
            }
            while iter.valid() {
                bytes += iter.key().len() + iter.value().len();
                match back {
                    false => iter.next(),
                    true => iter.prev(),
                }
            }
            assert_eq!(bytes as u64, KEYS * 116);
        });
        println!("{what}: {} ns per step", best / KEYS);
    }
    let mut at = 0;
    let best = best_nanos(&mut || {
        for _ in 0..100 {
            at = (at + 7919) % KEYS;
            iter.seek(&at.to_be_bytes());
            assert!(iter.valid());
        }
    });
    println!("seek: {} ns", best / 100);
}

/// The shortest time that `measured` takes.
fn best_nanos(measured: &mut dyn FnMut()) -> u64 {
    let clock = cairn_platform::SystemClock;
    let now = || cairn_platform::Clock::monotonic_nanos(&clock);
    let took = |_| {
        let began = now();
        measured();
        now() - began
    };
    (0..20).map(took).min().unwrap_or_default()
}
