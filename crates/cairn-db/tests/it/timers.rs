//! Periodic tasks: statistics in the LOG, and their history.

#![expect(clippy::unwrap_used, reason = "an absent value fails the test")]

use std::path::Path;
use std::time::Duration;

use cairn_db::{Db, OpenRequest, open};
use cairn_observe::statistics::Ticker;
use cairn_observe::statistics::history::Slice;
use cairn_options::{CompactRangeOptions, DbOptions, ReadOptions};
use cairn_platform::Executor;
use cairn_sim::SimWorld;
use cairn_types::Code;

use crate::basic::{db_options, small};

fn open_on(sim: &SimWorld, options: &DbOptions, read_only: bool) -> Db {
    open(&OpenRequest {
        path: Path::new("/db"),
        options,
        families: &[],
        others: Some(&small()),
        read_only,
        world: sim.world.clone(),
    })
    .unwrap()
}

fn let_pass(sim: &SimWorld, seconds: u64) {
    for _ in 0..seconds {
        sim.clock.advance(Duration::from_secs(1));
        sim.executor.run(1_000);
    }
}

/// Returns the number of dumps in the LOG.
fn dumps(sim: &SimWorld) -> usize {
    let file = sim
        .world
        .fs
        .open("/db/LOG".as_ref(), Default::default())
        .unwrap();
    let mut text = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_up_to_end(0, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let whole = text.matches("rocksdb.number.keys.written COUNT : ").count();
    assert_eq!(text.matches("DUMPING STATS").count(), whole);
    whole
}

#[test]
fn statistics_are_dumped_periodically_while_enabled() {
    let sim = SimWorld::new(1);
    let options = DbOptions {
        stats_dump_period_sec: 10,
        ..db_options()
    };
    let db = open_on(&sim, &options, false);
    assert_eq!(dumps(&sim), 0);
    // Nothing waits for a dump, and the clock does not advance for it.
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    db.wait_until_quiet().unwrap();
    assert!(!sim.executor.help_later());
    let_pass(&sim, 35);
    assert_eq!(dumps(&sim), 3);
    db.set_db_options(&[("stats_dump_period_sec", "5")])
        .unwrap();
    let_pass(&sim, 21);
    assert_eq!(dumps(&sim), 3 + 4);
    db.set_db_options(&[("stats_dump_period_sec", "0")])
        .unwrap();
    let_pass(&sim, 100);
    assert_eq!(dumps(&sim), 7);
    db.set_db_options(&[("stats_dump_period_sec", "50")])
        .unwrap();
    db.close().unwrap();
    drop(db);
    let_pass(&sim, 100);
    assert_eq!(dumps(&sim), 7);
    // A read-only database dumps nothing.
    let _reader = open_on(&sim, &options, true);
    let_pass(&sim, 100);
    assert_eq!(dumps(&sim), 7);
}

#[test]
fn the_history_has_the_increases_of_tickers_in_each_period() {
    let sim = SimWorld::new(1);
    let options = DbOptions {
        stats_persist_period_sec: 10,
        // Three intervals.
        stats_history_buffer_size: 3 * 2_200,
        ..db_options()
    };
    let db = open_on(&sim, &options, false);
    let opened = sim.world.clock.wall_seconds();
    let written = |slice: &Slice| slice.ticker(Ticker::NumberKeysWritten);
    for period in 0..5_u64 {
        for n in 0..period {
            db.put(&n.to_be_bytes(), b"1").unwrap();
        }
        let_pass(&sim, 10);
        let slices = db.stats_history(0, u64::MAX);
        assert_eq!(slices.last().map(|slice| written(slice)), Some(period));
    }
    let slices = db.stats_history(0, u64::MAX);
    assert_eq!(
        slices
            .iter()
            .map(|slice| written(slice))
            .collect::<Vec<_>>(),
        [2, 3, 4]
    );
    let times: Vec<u64> = slices
        .iter()
        .map(|slice| slice.seconds() - opened)
        .collect();
    for (time, expected) in times.iter().zip([30, 40, 50]) {
        assert!(time.abs_diff(expected) <= 1, "{times:?}");
    }
    assert_eq!(
        db.stats_history(slices[1].seconds(), slices[2].seconds())
            .len(),
        1
    );
    // A period of 0 ends it.
    db.set_db_options(&[("stats_persist_period_sec", "0")])
        .unwrap();
    let_pass(&sim, 30);
    assert_eq!(db.stats_history(0, u64::MAX).len(), 3);
}

/// Level 0 has deletions of all keys of level 6, in fewer tables than trigger a compaction.
fn deleted_above(sim: &SimWorld, options: &DbOptions) -> Db {
    let db = open_on(sim, options, false);
    for n in 0..100_u32 {
        db.put(&n.to_be_bytes(), b"1").unwrap();
    }
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    for n in 0..100_u32 {
        db.delete(&n.to_be_bytes()).unwrap();
    }
    db.flush().unwrap();
    db.wait_until_quiet().unwrap();
    assert_eq!(files_at(&db, 0), 1);
    db
}

fn files_at(db: &Db, level: u32) -> u64 {
    let name = format!("rocksdb.num-files-at-level{level}");
    db.property(&name).unwrap().parse().unwrap()
}

#[test]
fn compactions_due_by_age_alone_run_without_a_write() {
    let sim = SimWorld::new(1);
    let db = deleted_above(&sim, &db_options());
    // There is no check before another fifth of the age has passed.
    db.set_options(&[("ttl", "100")]).unwrap();
    let_pass(&sim, 99);
    assert_eq!(files_at(&db, 0), 1);
    let_pass(&sim, 25);
    assert_eq!(files_at(&db, 0), 0);
    db.close().unwrap();
}

#[test]
fn files_with_many_useless_reads_are_compacted() {
    let sim = SimWorld::new(1);
    let options = DbOptions {
        max_compaction_trigger_wakeup_seconds: 10,
        ..db_options()
    };
    let reads = |db: &Db, from: u32, how_many: u32| {
        for n in 0..how_many {
            let key = (from + n % 100).to_be_bytes();
            assert!(db.get(&key).unwrap().is_none());
        }
    };
    // Nothing is counted until it is enabled.
    let db = deleted_above(&sim, &options);
    reads(&db, 0, 10_000);
    let_pass(&sim, 11);
    assert_eq!(files_at(&db, 0), 1);
    let refused = db.set_options(&[("read_triggered_compaction_threshold", "-1")]);
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    db.set_options(&[("read_triggered_compaction_threshold", "0.5")])
        .unwrap();
    // Reads outside of the file do not count for it, and there is no check before its time.
    reads(&db, 1_000, 10_000);
    let_pass(&sim, 11);
    assert_eq!(files_at(&db, 0), 1);
    reads(&db, 0, 10_000);
    assert_eq!(files_at(&db, 0), 1);
    let_pass(&sim, 11);
    assert_eq!(files_at(&db, 0), 0);
    assert_eq!(db.property("rocksdb.estimate-num-keys").unwrap(), "0");
    // A file with useful reads is not compacted either.
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    for _ in 0..20_000 {
        assert!(db.get(b"a").unwrap().is_some());
        assert!(
            db.multi_get(&[b"a"], &ReadOptions::default())
                .pop()
                .unwrap()
                .unwrap()
                .is_some()
        );
    }
    let_pass(&sim, 11);
    assert_eq!(files_at(&db, 0), 1);
    db.close().unwrap();
}

#[test]
fn batches_and_seeks_count_too() {
    let options = DbOptions {
        max_compaction_trigger_wakeup_seconds: 10,
        ..db_options()
    };
    let key = 7_u32.to_be_bytes();
    // A seek counts only below level 0, as in RocksDB.
    type Way = fn(&Db, &[u8]);
    let ways: [(&str, Way); 2] = [
        ("batch", |db, key| {
            assert!(
                db.multi_get(&[key], &ReadOptions::default())
                    .pop()
                    .unwrap()
                    .unwrap()
                    .is_none()
            );
        }),
        ("seek", |db, key| {
            let mut iter = db.iter();
            iter.seek(key);
            assert!(!iter.valid());
        }),
    ];
    for (name, read) in ways {
        let sim = SimWorld::new(3);
        let db = deleted_above(&sim, &options);
        if name == "seek" {
            db.default_family().promote_level_zero(3).unwrap();
        }
        db.set_options(&[("read_triggered_compaction_threshold", "0.5")])
            .unwrap();
        for _ in 0..10_000 {
            read(&db, &key);
        }
        let_pass(&sim, 11);
        let files: u64 = (0..6).map(|level| files_at(&db, level)).sum();
        assert_eq!(files, 0, "{name}");
        db.close().unwrap();
    }
}
