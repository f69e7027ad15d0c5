//! Writes that have to wait for jobs, and writes that do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cairn_db::{Db, Family, WriteBatch};
use cairn_options::{CompactionStyle, DbOptions, FamilyOptions, WriteOptions};
use cairn_platform::Clock;
use cairn_platform::World;
use cairn_platform::sync::Mutex;
use cairn_types::{Code, KeyOrder, Result};

use crate::basic::db_options;
use crate::wal::open_with;

/// Creates a database with a family whose writes stop at two tables in level 0, which are not compacted.
fn stopped(world: &World) -> (Db, Family) {
    stopped_with(world, KeyOrder::Bytewise)
}

fn stopped_with(world: &World, comparator: KeyOrder) -> (Db, Family) {
    let db = open_with(world, &db_options(), false);
    let options = FamilyOptions {
        comparator,
        compaction_style: CompactionStyle::None,
        level0_file_num_compaction_trigger: 2,
        level0_slowdown_writes_trigger: 2,
        level0_stop_writes_trigger: 2,
        ..FamilyOptions::default()
    };
    let family = db.create_family("full", &options).expect("it is new");
    for key in [b"a", b"b"] {
        put(&db, &family, key).expect("there is room");
        db.flush_families(&[&family]).expect("nothing fails");
    }
    (db, family)
}

fn put(db: &Db, family: &Family, key: &[u8]) -> Result<()> {
    let mut batch = WriteBatch::new();
    match family.timestamp_size() {
        0 => batch.put_in(family, key, b"1"),
        _ => batch.put_with_timestamp(family, key, &7_u64.to_le_bytes(), b"1"),
    }
    db.write(&batch)
}

#[test]
fn writes_with_timestamps_are_delayed_like_others() {
    let world = World::in_memory();
    let (db, family) = stopped_with(&world, KeyOrder::BytewiseU64Ts);
    let timestamp = 7_u64.to_le_bytes();
    let mut whole = WriteBatch::new();
    whole.put_with_timestamp(&family, b"k", &timestamp, b"1");
    let mut updated = WriteBatch::new();
    updated.put_in(&family, b"k", b"1");
    updated.update_timestamps(&timestamp, |_| Some(8)).unwrap();
    for batch in [whole, updated] {
        let refused = db.write_with(&batch, &impatient()).unwrap_err();
        assert_eq!(refused.code(), Code::Incomplete, "{refused}");
    }
}

fn impatient() -> WriteOptions {
    WriteOptions {
        no_slowdown: true,
        ..WriteOptions::default()
    }
}

#[test]
fn only_writes_of_the_family_that_is_behind_are_delayed() {
    let world = World::in_memory();
    let (db, family) = stopped(&world);
    assert_eq!(db.property_number("rocksdb.is-write-stopped"), Some(1));
    let mut elsewhere = WriteBatch::new();
    elsewhere.put(b"k", b"1");
    db.write_with(&elsewhere, &impatient()).unwrap();
    let mut both = elsewhere.clone();
    both.put_in(&family, b"k", b"2");
    let refused = db.write_with(&both, &impatient()).unwrap_err();
    assert_eq!(refused.code(), Code::Incomplete, "{refused}");
    assert!(refused.text().contains("LevelZero"), "{refused}");

    // A waiting writer lets others pass, and proceeds when the family has room again.
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| put(&db, &family, b"c"));
        for _ in 0..100 {
            db.put(b"k", b"2").unwrap();
        }
        assert!(family.get(b"c").unwrap().is_none());
        let more = [
            ("level0_stop_writes_trigger", "9"),
            ("level0_slowdown_writes_trigger", "9"),
        ];
        family.set_options(&more).unwrap();
        writer.join().unwrap().unwrap();
    });
    assert!(family.get(b"c").unwrap().is_some());
    assert_eq!(db.property_number("rocksdb.is-write-stopped"), Some(0));
    db.close().unwrap();
}

#[test]
fn a_waiting_writer_is_woken_by_closing() {
    let world = World::in_memory();
    let (db, family) = stopped(&world);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| put(&db, &family, b"c"));
        db.close().unwrap();
        let ended = writer.join().unwrap().unwrap_err();
        assert_eq!(ended.code(), Code::ShutdownInProgress, "{ended}");
    });
}

/// A clock that advances with every sleep, and records the sleep times.
#[derive(Default)]
struct Slept {
    now: AtomicU64,
    longest: AtomicU64,
}

impl Clock for Slept {
    fn wall_micros(&self) -> u64 {
        self.monotonic_nanos() / 1000
    }
    fn monotonic_nanos(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }
    fn sleep(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).expect("a sleep of less than centuries");
        self.now.fetch_add(nanos, Ordering::SeqCst);
        self.longest.fetch_max(nanos, Ordering::SeqCst);
    }
}

#[test]
fn writes_slow_down_before_they_would_stop_for_a_flush() {
    const WRITE: u64 = 1_000_000;
    let clock = Arc::new(Slept::default());
    let world = World {
        clock: clock.clone(),
        ..World::in_memory()
    };
    let db = open_with(&world, &db_options(), false);
    db.default_family()
        .set_options(&[("write_buffer_size", "1048576")])
        .unwrap();
    let write = |options: &WriteOptions| {
        clock.now.fetch_add(WRITE, Ordering::SeqCst);
        db.put_with(b"key", &[7; 1000], options).unwrap();
    };
    let waited = || clock.monotonic_nanos();
    let number = |name| db.property_number(name).unwrap();
    // Nothing is flushed, as on a device that stalls.
    db.pause_background_work();
    while number("rocksdb.num-immutable-mem-table") == 0 {
        write(&WriteOptions::default());
    }
    assert_eq!(clock.longest.load(Ordering::SeqCst), 0, "there is room");
    while number("rocksdb.cur-size-active-mem-table") < (1 << 20) / 8 * 7 {
        write(&WriteOptions::default());
    }
    // In five seconds, five times as long as a memtable takes, the rest is not filled.
    let (began, mut writes) = (waited(), 0);
    while waited() - began < 5_000_000_000 {
        write(&WriteOptions::default());
        writes += 1;
        assert!(writes < 115, "the next ones would stop");
    }
    assert!(writes > 50, "{writes}");
    assert_eq!(db.property_number("rocksdb.is-write-stopped"), Some(0));
    let stalls = db.property("rocksdb.cf-write-stall-stats").unwrap();
    assert!(stalls.contains("memtable-limit-delays: 1"), "{stalls}");
    // A write that must not be slowed down is not, since there is room.
    let before = waited();
    write(&impatient());
    assert_eq!(waited() - before, WRITE);

    // A flush makes room for another memtable, and no write waits any more.
    db.continue_background_work().unwrap();
    db.wait_until_quiet().unwrap();
    let before = waited();
    (0..20).for_each(|_| write(&WriteOptions::default()));
    assert_eq!(waited() - before, 20 * WRITE);
    db.close().unwrap();
}

/// A clock that advances with every sleep, and ends the cause of the wait after the first one.
#[derive(Default)]
struct Ending {
    slept: AtomicU64,
    end: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Clock for Ending {
    fn wall_micros(&self) -> u64 {
        self.monotonic_nanos() / 1000
    }
    fn monotonic_nanos(&self) -> u64 {
        self.slept.load(Ordering::SeqCst)
    }
    fn sleep(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).expect("a sleep of less than centuries");
        self.slept.fetch_add(nanos, Ordering::SeqCst);
        let end = self.end.lock().take();
        if let Some(end) = end {
            end();
        }
    }
}

/// Writes with minutes of delay; the first one that sleeps runs `end` meanwhile. Returns the duration of the
/// sleep, and the result of the write.
fn delayed(write: WriteOptions, end: fn(&Db)) -> (Db, Duration, Result<()>) {
    let clock = Arc::new(Ending::default());
    let world = World {
        clock: clock.clone(),
        ..World::in_memory()
    };
    let options = DbOptions {
        delayed_write_rate: 1000,
        ..db_options()
    };
    let db = open_with(&world, &options, false);
    let options = FamilyOptions {
        compaction_style: CompactionStyle::None,
        level0_file_num_compaction_trigger: 1,
        level0_slowdown_writes_trigger: 1,
        ..FamilyOptions::default()
    };
    let family = db.create_family("slow", &options).expect("it is new");
    put(&db, &family, b"k").expect("there is room");
    db.flush_families(&[&family]).expect("nothing fails");
    let stalls = db.property_number("rocksdb.actual-delayed-write-rate");
    assert!(stalls > Some(0), "writes are delayed");
    family
        .put_with(b"debt", &[7; 100_000], &write)
        .expect("there is no delay yet");
    let ended = db.clone();
    *clock.end.lock() = Some(Box::new(move || end(&ended)));
    let before = clock.monotonic_nanos();
    let written = family.put_with(b"k", b"2", &write);
    let slept = Duration::from_nanos(clock.monotonic_nanos() - before);
    (db, slept, written)
}

#[test]
fn a_delayed_write_proceeds_when_the_cause_ends_without_a_later_delay() {
    let low_pri = WriteOptions {
        low_pri: true,
        ..WriteOptions::default()
    };
    for write in [WriteOptions::default(), low_pri] {
        let (db, slept, written) = delayed(write, |db| {
            let slow = db.family("slow").expect("it is there");
            let more = [("level0_slowdown_writes_trigger", "9")];
            slow.set_options(&more).expect("it is an option");
        });
        written.unwrap();
        assert!(slept < Duration::from_millis(20), "{slept:?}");
        let slow = db.family("slow").unwrap();
        slow.set_options(&[("level0_slowdown_writes_trigger", "1")])
            .unwrap();
        put(&db, &slow, b"k").unwrap();
        db.close().unwrap();
    }
}

#[test]
fn a_delayed_write_is_woken_by_closing() {
    let (_, slept, written) = delayed(WriteOptions::default(), |db| {
        db.close().expect("nothing fails");
    });
    let ended = written.unwrap_err();
    assert_eq!(ended.code(), Code::ShutdownInProgress, "{ended}");
    assert!(slept < Duration::from_millis(20), "{slept:?}");
}

/// Writes `keys` until the memtable is switched. Returns its size in MiB.
fn filled(db: &Db, keys: &mut dyn Iterator<Item = u64>) -> u64 {
    let size = || db.property_number("rocksdb.cur-size-active-mem-table");
    let mut before = size();
    for key in keys {
        db.put(&key.to_be_bytes(), &[7; 64 << 10])
            .expect("nothing fails");
        if size() < before {
            break;
        }
        before = size();
    }
    before.expect("there is a memtable") >> 20
}

#[test]
fn memtables_of_ordered_keys_are_switched_early_if_filled_faster_than_flushed() {
    let clock = Arc::new(Slept::default());
    let world = World {
        clock: clock.clone(),
        ..World::in_memory()
    };
    let db = open_with(&world, &db_options(), false);
    let options = [
        ("write_buffer_size", "16777216"),
        ("level0_file_num_compaction_trigger", "20"),
    ];
    db.default_family().set_options(&options).unwrap();
    db.flush().unwrap();
    // The clock does not advance: filling is faster than any flush.
    let mut ascending = 1_000..;
    assert_eq!(filled(&db, &mut ascending), 8);
    db.wait_until_quiet().unwrap();
    // Not while the previous one is waiting, and at once when it no longer is.
    db.pause_background_work();
    assert_eq!(filled(&db, &mut ascending), 8);
    filled(&db, &mut ascending.by_ref().take(190));
    assert_eq!(
        db.property_number("rocksdb.num-immutable-mem-table"),
        Some(1)
    );
    db.continue_background_work().unwrap();
    db.wait_until_quiet().unwrap();
    assert!((11..14).contains(&filled(&db, &mut ascending)));
    db.wait_until_quiet().unwrap();
    // A memtable whose table would have to be merged is filled completely.
    assert!(filled(&db, &mut (0..1_000).rev()) >= 15);
    db.wait_until_quiet().unwrap();
    assert!(filled(&db, &mut (0..1_000).rev()) >= 15);
    db.wait_until_quiet().unwrap();
    // So is one that is filled slowly: 64 KiB per millisecond, which is 64 MB per second.
    let mut slow = ascending.inspect(|_| {
        clock.now.fetch_add(1_000_000, Ordering::SeqCst);
    });
    filled(&db, &mut slow);
    db.wait_until_quiet().unwrap();
    assert!(filled(&db, &mut slow) >= 15);
    db.close().unwrap();
}
