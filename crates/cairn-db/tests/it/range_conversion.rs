//! Range tombstones that scans add over runs of deletions (`min_tombstones_for_range_conversion`).

use std::sync::Arc;

use cairn_db::{Db, Family, Iter, KeyState, SstFileWriter};
use cairn_observe::statistics::{Statistics, StatsLevel, Ticker};
use cairn_options::{
    CompactRangeOptions, CompactionStyle, DbOptions, FamilyOptions, IngestExternalFileOptions,
    ReadOptions, TableFilter,
};
use cairn_platform::World;
use cairn_sim::{CrashModel, SimWorld};
use cairn_types::{Code, SequenceNumber};

use crate::basic::{db_options, open_with, small};

fn converting(threshold: u32) -> FamilyOptions {
    FamilyOptions {
        min_tombstones_for_range_conversion: threshold,
        disable_auto_compactions: true,
        ..small()
    }
}

/// A database that counts.
struct Counted {
    db: Db,
    world: World,
    statistics: Arc<Statistics>,
}

impl Counted {
    fn new(family: &FamilyOptions) -> Counted {
        let statistics = Arc::new(Statistics::new(StatsLevel::All));
        let options = DbOptions {
            statistics: statistics.clone().into(),
            ..db_options()
        };
        let world = World::in_memory();
        let db = open_with(&world, &options, family).expect("the database opens");
        Counted {
            db,
            world,
            statistics,
        }
    }

    /// The number of range tombstones added and of those not added.
    fn conversions(&self) -> (u64, u64) {
        let ticker = |ticker| self.statistics.ticker(ticker);
        (
            ticker(Ticker::ReadPathRangeTombstonesInserted),
            ticker(Ticker::ReadPathRangeTombstonesDiscarded),
        )
    }
}

fn key(n: u32) -> Vec<u8> {
    format!("k{n:04}").into_bytes()
}

/// Puts the even keys below 2 * `count` and flushes them, deletes them but the first and the last, and puts `z`.
fn delete_most(db: &Db, count: u32) {
    for n in 0..count {
        db.put(&key(2 * n), b"old").expect("a write");
    }
    db.flush().expect("a flush");
    for n in 1..count - 1 {
        db.delete(&key(2 * n)).expect("a write");
    }
    db.put(b"z", b"new").expect("a write");
}

fn keys(mut iter: Iter) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        found.push(iter.key().to_vec());
        iter.next();
    }
    iter.status().expect("the scan returns no error");
    found
}

fn ingest(counted: &Counted, key: &[u8]) {
    let fs = &counted.world.fs;
    fs.create_dir_all("/out".as_ref()).expect("a directory");
    let mut writer = SstFileWriter::new(
        &counted.world,
        &DbOptions::default(),
        &FamilyOptions::default(),
    );
    writer.open("/out/1.sst".as_ref()).expect("a file");
    writer.put(key, b"ingested").expect("a write");
    writer.finish().expect("a file");
    let options = IngestExternalFileOptions::default();
    counted
        .db
        .ingest_external_file(["/out/1.sst"], &options)
        .expect("an ingestion");
}

#[test]
fn later_scans_skip_a_run_of_deletions() {
    let counted = Counted::new(&converting(50));
    let db = &counted.db;
    delete_most(db, 100);
    let before = db.snapshot();
    let skipped = || counted.statistics.ticker(Ticker::NumberIterSkip);
    let expected = [key(0), key(198), b"z".to_vec()];
    assert_eq!(keys(db.iter()), expected);
    assert_eq!(counted.conversions(), (1, 0));
    let first = skipped();
    assert!(first >= 98, "{first}");
    for _ in 0..3 {
        assert_eq!(keys(db.iter()), expected);
    }
    assert!(skipped() - first < 98, "{}", skipped() - first);
    assert_eq!(counted.conversions(), (1, 0));
    // New writes in the range are visible, and so is the state before.
    db.put(&key(51), b"later").unwrap();
    assert_eq!(db.get(&key(51)).unwrap().as_deref(), Some(&b"later"[..]));
    assert_eq!(keys(db.iter()).len(), 4);
    let at = ReadOptions {
        snapshot: Some(before.sequence()),
        ..ReadOptions::default()
    };
    assert_eq!(keys(db.iter_with(&at)), expected);
    drop(before);
    for _ in 0..2 {
        db.flush().unwrap();
        assert_eq!(keys(db.iter()).len(), 4);
        db.compact_range(None, None, &CompactRangeOptions::default())
            .unwrap();
    }
    assert_eq!(keys(db.iter()).len(), 4);
}

#[test]
fn the_option_changes_while_the_database_is_open() {
    let counted = Counted::new(&converting(0));
    let db = &counted.db;
    delete_most(db, 20);
    keys(db.iter());
    assert_eq!(counted.conversions(), (0, 0));
    let name = "min_tombstones_for_range_conversion";
    db.set_options(&[(name, "18")]).unwrap();
    keys(db.iter());
    assert_eq!(counted.conversions(), (1, 0));
    let filtered = ReadOptions {
        table_filter: TableFilter::new(|_| true),
        ..ReadOptions::default()
    };
    let refused = |db: &Db| {
        let mut iter = db.iter_with(&filtered);
        iter.seek_to_first();
        iter.status().err().map(|error| error.code())
    };
    assert_eq!(refused(db), Some(Code::InvalidArgument));
    db.set_options(&[(name, "0")]).unwrap();
    assert_eq!(refused(db), None);
}

/// Bug of the design: the tombstone of an iterator that does not see an ingested file hides its keys.
#[test]
fn an_iterator_from_before_an_ingestion_adds_nothing() {
    // The second file overlaps the memtable, which is switched.
    for ingested in [key(51), b"z".to_vec()] {
        let counted = Counted::new(&converting(10));
        let db = &counted.db;
        delete_most(db, 100);
        let old = db.iter();
        ingest(&counted, &ingested);
        db.put(b"zz", b"").unwrap();
        assert_eq!(keys(old), [key(0), key(198), b"z".to_vec()]);
        assert_eq!(counted.conversions(), (0, 1));
        let value = db.get(&ingested).unwrap();
        assert_eq!(value.as_deref(), Some(&b"ingested"[..]));
        assert!(keys(db.iter()).contains(&ingested));
    }
}

#[test]
fn an_iterator_from_before_a_switch_of_memtables_adds_nothing() {
    let counted = Counted::new(&converting(10));
    let db = &counted.db;
    delete_most(db, 100);
    let old = db.iter();
    db.flush().unwrap();
    db.put(&key(51), b"new").unwrap();
    assert_eq!(keys(old).len(), 3);
    assert_eq!(counted.conversions(), (0, 1));
    assert_eq!(db.get(&key(51)).unwrap().as_deref(), Some(&b"new"[..]));
}

#[test]
fn an_iterator_that_sees_future_writes_adds_nothing() {
    let counted = Counted::new(&converting(10));
    let db = &counted.db;
    delete_most(db, 100);
    let future = ReadOptions {
        snapshot: Some(SequenceNumber(db.latest_sequence().0 + 1)),
        ..ReadOptions::default()
    };
    keys(db.iter_with(&future));
    assert_eq!(counted.conversions(), (0, 0));
    db.put(&key(51), b"new").unwrap();
    assert_eq!(db.get(&key(51)).unwrap().as_deref(), Some(&b"new"[..]));
}

#[test]
fn families_with_files_behind_get_no_range_tombstones() {
    let counted = Counted::new(&FamilyOptions {
        compaction_style: CompactionStyle::Universal,
        cf_allow_ingest_behind: true,
        num_levels: 3,
        ..converting(2)
    });
    delete_most(&counted.db, 20);
    keys(counted.db.iter());
    assert_eq!(counted.conversions(), (0, 0));
}

#[test]
fn keys_that_were_never_written_are_no_conflicts() {
    let counted = Counted::new(&converting(10));
    let db = &counted.db;
    delete_most(db, 20);
    let start = SequenceNumber(1);
    let before = db.latest_sequence();
    db.put(b"zz", b"").unwrap();
    keys(db.iter());
    assert_eq!(counted.conversions(), (1, 0));
    // Tables are searched, too.
    let since_start = |n| db.state_since(&key(n), start, false).unwrap();
    assert_eq!(since_start(7), KeyState::Unchanged);
    assert_eq!(since_start(8), KeyState::Written);
    let state = |key: &[u8]| db.state_since(key, before, true).unwrap();
    assert_eq!(state(&key(7)), KeyState::Unchanged);
    assert_eq!(state(b"zz"), KeyState::Written);
    db.delete_range(&key(7), &key(8)).unwrap();
    assert_eq!(state(&key(7)), KeyState::Written);
    assert_eq!(state(&key(9)), KeyState::Unchanged);
}

/// The number of a range tombstone may belong to a write of another family that a power failure loses. Later writes get
/// larger numbers all the same.
#[test]
fn writes_after_a_power_failure_are_newer_than_the_range_tombstones() {
    for model in [CrashModel::Synced, CrashModel::Kill, CrashModel::DataFirst] {
        let sim = SimWorld::new(4);
        let db = open_with(&sim.world, &db_options(), &converting(10)).unwrap();
        let other = db.create_family("other", &converting(0)).unwrap();
        delete_most(&db, 100);
        for n in 0..300 {
            other.put(&key(n), b"lost").unwrap();
        }
        let highest = db.latest_sequence();
        assert_eq!(keys(db.iter()).len(), 3);
        db.flush().unwrap();
        let trace = sim.fs.trace();
        let images: Vec<_> = trace.images(trace.len(), model, 1).take(3).collect();
        assert!(!images.is_empty());
        for image in images {
            let world = SimWorld::on(image, 5).world;
            let db = open_with(&world, &db_options(), &converting(10)).unwrap();
            assert!(db.latest_sequence() >= highest, "{model:?}");
            db.put(&key(51), b"new").unwrap();
            assert_eq!(db.get(&key(51)).unwrap().as_deref(), Some(&b"new"[..]));
            assert_eq!(keys(db.iter()).len(), 4);
        }
        drop(db);
    }
}

/// Writes, deletes and reads the keys of one writer, and checks each read.
fn write_and_read(family: &Family, writer: u8, goes_on: impl Fn(u32) -> bool) {
    let mut seed = u64::from(writer) + 1;
    let mut present = [false; 40];
    for round in (0..).take_while(|&round| goes_on(round)) {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let n = (seed >> 33) as usize % present.len();
        // The keys of the writers alternate.
        let key = [n as u8, writer];
        let deletes = (seed >> 40) % 4 != 0;
        match deletes {
            true => family.delete(&key).expect("a write"),
            false => family.put(&key, &round.to_le_bytes()).expect("a write"),
        }
        present[n] = !deletes;
        for (n, present) in present.iter().enumerate() {
            let found = family.get(&[n as u8, writer]).expect("a read").is_some();
            assert_eq!(found, *present, "key {n} of writer {writer}, round {round}");
        }
    }
}

#[test]
fn concurrent_scans_hide_no_write() {
    let counted = Counted::new(&FamilyOptions {
        disable_auto_compactions: false,
        ..converting(1)
    });
    let family = counted.db.default_family();
    let done = std::sync::atomic::AtomicUsize::new(0);
    let running = || done.load(std::sync::atomic::Ordering::Relaxed) < 2;
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (done, counted) = (&done, &counted);
            scope.spawn(move || {
                // On a busy machine, no scan may see a run of deletions for a while.
                let goes_on = |round| match round {
                    0..600 => true,
                    600..100_000 => counted.conversions().0 == 0,
                    _ => false,
                };
                write_and_read(family, writer, goes_on);
                done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            while running() {
                let mut iter = family.iter();
                iter.seek_to_last();
                while iter.valid() {
                    iter.prev();
                }
                keys(family.iter());
            }
        });
        let mut n = 0_u8;
        while running() {
            n = n.wrapping_add(1) % 40;
            // Between the keys of the writers.
            ingest(&counted, &[n, 200]);
            assert!(family.get(&[n, 200]).expect("a read").is_some());
            if n % 8 == 1 {
                counted.db.flush().expect("a flush");
                // Until the next ingestion, scans add range tombstones to the new memtable.
                keys(family.iter());
            }
        }
    });
    let (added, _) = counted.conversions();
    assert!(added > 0, "scans added no range tombstone");
    assert!(counted.db.latest_sequence() > SequenceNumber::ZERO);
}
