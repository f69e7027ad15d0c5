//! Periodic tasks: statistics in the LOG, and their history.

#![expect(clippy::unwrap_used, reason = "an absent value fails the test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_db::{Db, OpenRequest, STATS_FAMILY, WriteBatch, list_families, open};
use cairn_observe::listener::CompactionJobInfo;
use cairn_observe::statistics::Ticker;
use cairn_observe::statistics::history::Slice;
use cairn_observe::{CompactionReason, EventListener};
use cairn_options::{
    BottommostLevelCompaction, CompactRangeOptions, DbOptions, FamilyOptions, ReadOptions,
};
use cairn_platform::sync::Mutex;
use cairn_platform::{Clock, Executor};
use cairn_sim::SimWorld;
use cairn_types::{Code, KeyOrder};

use crate::basic::{db_options, open_with, small};

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
        let slices = db.stats_history(0, u64::MAX).unwrap();
        assert_eq!(slices.last().map(|slice| written(slice)), Some(period));
    }
    let slices = db.stats_history(0, u64::MAX).unwrap();
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
            .unwrap()
            .len(),
        1
    );
    // A period of 0 ends it.
    db.set_db_options(&[("stats_persist_period_sec", "0")])
        .unwrap();
    let_pass(&sim, 30);
    assert_eq!(db.stats_history(0, u64::MAX).unwrap().len(), 3);
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

const INTERVAL: u64 = 10_000;
const FAMILIES: usize = 8;

/// Records the times of periodic compactions.
struct PeriodicTimes {
    clock: Arc<dyn Clock>,
    seen: Mutex<Vec<u64>>,
}

impl EventListener for PeriodicTimes {
    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        if info.compaction_reason == CompactionReason::PeriodicCompaction {
            self.seen.lock().push(self.clock.wall_seconds());
        }
    }
}

/// A database of families that were all written when it was created.
fn alike_families(sim: &SimWorld, percent: i32) -> (Db, Arc<PeriodicTimes>) {
    let seen = Mutex::default();
    let clock = sim.world.clock.clone();
    let times = Arc::new(PeriodicTimes { clock, seen });
    let mut options = DbOptions {
        periodic_compaction_phase_recovery_percent: percent,
        ..db_options()
    };
    options.listeners.push(times.clone());
    let db = open_on(sim, &options, false);
    let periodic = FamilyOptions {
        ttl: 0,
        periodic_compaction_seconds: INTERVAL,
        ..small()
    };
    for n in 0..FAMILIES {
        let family = db.create_family(&format!("f{n}"), &periodic).unwrap();
        family.put(b"key", b"value").unwrap();
        family.flush().unwrap();
    }
    (db, times)
}

/// Lets `intervals` pass, and returns the times of compactions in them, in hundredths of the interval.
fn compactions(sim: &SimWorld, times: &PeriodicTimes, intervals: u64) -> Vec<u64> {
    let began = sim.world.clock.wall_seconds();
    for _ in 0..intervals * 200 {
        sim.clock.advance(Duration::from_secs(INTERVAL / 200));
        sim.executor.run(10_000);
    }
    let seen = std::mem::take(&mut *times.seen.lock());
    let seen = seen.into_iter();
    let mut at: Vec<u64> = seen.map(|time| (time - began) * 100 / INTERVAL).collect();
    at.sort_unstable();
    at
}

fn spread(times: &[u64]) -> u64 {
    times.last().unwrap() - times.first().unwrap()
}

/// Families that are written at the same time are rewritten at the same time, unless their periodic compactions have
/// phases.
#[test]
fn periodic_compactions_are_spread_over_their_interval() {
    let sim = SimWorld::new(1);
    let (db, times) = alike_families(&sim, 0);
    // Due times are checked every fifth of the interval, or with each change of the tree.
    let together = compactions(&sim, &times, 2);
    assert!(together.len() >= FAMILIES, "{together:?}");
    assert!(spread(&together[..FAMILIES]) <= 1, "{together:?}");
    drop(db);

    let sim = SimWorld::new(1);
    let (db, times) = alike_families(&sim, 100);
    db.set_db_options(&[("max_compaction_trigger_wakeup_seconds", "100")])
        .unwrap();
    // None is later than its deadline, but for the time between two checks.
    let first = compactions(&sim, &times, 1);
    assert!(first.len() >= FAMILIES - 1, "{first:?}");
    assert!(spread(&first) > 40, "{first:?}");
    let later = compactions(&sim, &times, 1);
    assert!(spread(&later) > 40, "{later:?}");
    db.close().unwrap();
}

/// The option is changed while the database is open, in both directions; files that are overdue then are spread over a
/// quarter of the interval.
#[test]
fn overdue_files_are_spread_after_a_change() {
    let sim = SimWorld::new(1);
    let (db, times) = alike_families(&sim, 0);
    let long = (INTERVAL * 100).to_string();
    let changes = [("periodic_compaction_seconds", long.as_str())];
    let short = INTERVAL.to_string();
    let back = [("periodic_compaction_seconds", short.as_str())];
    let families: Vec<_> = (0..FAMILIES)
        .map(|n| db.family(&format!("f{n}")).unwrap())
        .collect();
    let set = |changes: &[(&str, &str)]| {
        let all: Vec<_> = families.iter().map(|family| (family, changes)).collect();
        db.set_options_of(&all).unwrap();
    };
    set(&changes);
    assert_eq!(compactions(&sim, &times, 3), []);
    db.set_db_options(&[
        ("periodic_compaction_phase_recovery_percent", "33"),
        ("max_compaction_trigger_wakeup_seconds", "50"),
    ])
    .unwrap();
    set(&back);
    let spread_out = compactions(&sim, &times, 1);
    // Files that were rewritten are due again in the second half of the interval.
    let overdue = spread_out.into_iter().filter(|&at| at < 50);
    let overdue: Vec<u64> = overdue.collect();
    assert!(overdue.len() >= FAMILIES, "{overdue:?}");
    assert!(overdue.iter().all(|&at| at <= 27), "{overdue:?}");
    assert!(spread(&overdue) > 10, "{overdue:?}");

    set(&changes);
    assert_eq!(compactions(&sim, &times, 3), []);
    db.set_db_options(&[("periodic_compaction_phase_recovery_percent", "0")])
        .unwrap();
    set(&back);
    let at_once = compactions(&sim, &times, 1);
    assert!(spread(&at_once[..FAMILIES]) <= 1, "{at_once:?}");
    db.close().unwrap();
}

fn persisting() -> DbOptions {
    DbOptions {
        stats_persist_period_sec: 10,
        persist_stats_to_disk: true,
        ..db_options()
    }
}

/// Lets one period pass and waits until its statistics, which another thread writes, are the `count`th.
fn pass_period(sim: &SimWorld, db: &Db, count: usize) {
    let_pass(sim, 10);
    while db.stats_history(0, u64::MAX).expect("a read").len() < count {
        std::thread::yield_now();
    }
}

fn keys_written(db: &Db) -> Vec<u64> {
    let slices = db.stats_history(0, u64::MAX).expect("a read");
    let slices = slices.iter();
    slices
        .map(|slice| slice.ticker(Ticker::NumberKeysWritten))
        .collect()
}

#[test]
fn a_persisted_history_outlives_the_database_and_keeps_no_logs() {
    let sim = SimWorld::new(1);
    let db = open_on(&sim, &persisting(), false);
    let opened = sim.world.clock.wall_seconds();
    let stats = db.family(STATS_FAMILY).unwrap();
    for key in ["format", "compatible"] {
        let key = format!("__persistent_stats_{key}_version__");
        let value = stats.get(key.as_bytes()).unwrap();
        assert_eq!(value.as_deref(), Some(&b"1"[..]));
    }
    assert!(keys_written(&db).is_empty());
    for period in 1..=3_u64 {
        for n in 0..1000 * period {
            db.put(&n.to_be_bytes(), b"1").unwrap();
        }
        pass_period(&sim, &db, period as usize);
    }
    // The writes of the statistics themselves are counted in the next period.
    let own = Ticker::COUNT as u64;
    assert_eq!(keys_written(&db), [1000 + 2, 2000 + own, 3000 + own]);
    let slices = db.stats_history(0, u64::MAX).unwrap();
    for (slice, seconds) in slices.iter().zip([10, 20, 30]) {
        assert!((slice.seconds() - opened).abs_diff(seconds) <= 1);
    }
    let (second, third) = (slices[1].seconds(), slices[2].seconds());
    assert_eq!(db.stats_history(second, third).unwrap(), slices[1..2]);
    let logs = || {
        let names = sim.world.fs.list(Path::new("/db")).unwrap();
        names.iter().filter(|name| name.ends_with(".log")).count()
    };
    let most = (0..5).map(|round: u32| {
        db.put(b"k", &round.to_be_bytes()).unwrap();
        db.default_family().flush().unwrap();
        logs()
    });
    assert!(most.max().unwrap() <= 3, "{} logs", logs());
    assert_eq!(logs(), 1);
    db.close().unwrap();
    drop((db, stats));

    // Without the option, the family is opened nevertheless, and keeps what it has.
    let db = open_on(&sim, &db_options(), false);
    assert!(db.stats_history(0, u64::MAX).unwrap().is_empty());
    let names = list_families(Path::new("/db"), &sim.world).unwrap();
    assert_eq!(names, ["default", STATS_FAMILY]);
    db.close().unwrap();
    drop(db);
    for read_only in [true, false] {
        let db = open_on(&sim, &persisting(), read_only);
        assert_eq!(db.stats_history(0, u64::MAX).unwrap(), slices);
        db.close().unwrap();
    }
}

#[test]
fn a_persisted_history_of_unknown_form_is_begun_again() {
    let sim = SimWorld::new(1);
    // The comparator of the other families does not apply to it.
    let reverse = FamilyOptions {
        comparator: KeyOrder::from_name("rocksdb.ReverseBytewiseComparator").unwrap(),
        ..small()
    };
    let open = || open_with(&sim.world, &persisting(), &reverse).unwrap();
    let db = open();
    pass_period(&sim, &db, 1);
    let slices = db.stats_history(0, u64::MAX).unwrap();
    db.close().unwrap();
    drop(db);
    let known = [("1", "1", true), ("2", "1", true)];
    let unknown = [("2", "2", false), ("x", "1", false)];
    for (format, compatible, is_kept) in known.into_iter().chain(unknown) {
        let db = open();
        let mut batch = WriteBatch::new();
        let family = db.family(STATS_FAMILY).unwrap();
        for (key, value) in [("format", format), ("compatible", compatible)] {
            let key = format!("__persistent_stats_{key}_version__");
            batch.put_in(&family, key.as_bytes(), value.as_bytes());
        }
        db.write(&batch).unwrap();
        drop(family);
        db.close().unwrap();
        drop(db);
        let db = open();
        let found = db.stats_history(0, u64::MAX).unwrap();
        assert_eq!(found == slices, is_kept, "{format} {compatible}");
        assert_eq!(found.is_empty(), !is_kept);
        db.close().unwrap();
    }
}

#[test]
fn a_persisted_history_has_no_dates() {
    let sim = SimWorld::new(1);
    let dated = FamilyOptions {
        value_ttl: Some(5),
        ..small()
    };
    let open = || open_with(&sim.world, &persisting(), &dated).unwrap();
    for _opening in 0..2 {
        let db = open();
        let family = db.family(STATS_FAMILY).unwrap();
        assert_eq!(family.options().value_ttl, None);
        let before = db.stats_history(0, u64::MAX).unwrap().len();
        pass_period(&sim, &db, before + 1);
        family.flush().unwrap();
        let forced = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::Force,
            ..CompactRangeOptions::default()
        };
        family.compact_range(None, None, &forced).unwrap();
        assert_eq!(db.stats_history(0, u64::MAX).unwrap().len(), before + 1);
        db.close().unwrap();
    }
}
