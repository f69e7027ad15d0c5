//! Write times that are preserved (`preserve_internal_time_seconds`), and young data that is kept out of the last level
//! (`preclude_last_level_data_seconds`).

use std::collections::BTreeMap;
use std::time::Duration;

use cairn_db::Db;
use cairn_format::seqno_times::SeqnoTimes;
use cairn_options::{
    CompactRangeOptions, CompactionStyle, Compression, FamilyOptions, Options, ReadOptions,
};
use cairn_sim::SimWorld;
use cairn_types::{Result, SequenceNumber};

use crate::basic::{db_options, open_with, small};

const SPAN: u64 = 1000;

fn preserving() -> FamilyOptions {
    FamilyOptions {
        preserve_internal_time_seconds: SPAN,
        disable_auto_compactions: true,
        ..small()
    }
}

fn open_on(sim: &SimWorld, options: &FamilyOptions) -> Db {
    open_result(sim, options).expect("the options are valid")
}

fn open_result(sim: &SimWorld, options: &FamilyOptions) -> Result<Db> {
    open_with(&sim.world, &db_options(), options)
}

fn let_pass(sim: &SimWorld, seconds: u64) {
    for _ in 0..seconds {
        sim.clock.advance(Duration::from_secs(1));
        sim.executor.run(1_000);
    }
}

/// The samples of all tables, oldest table first.
fn samples(db: &Db) -> Vec<SeqnoTimes> {
    let all = db.properties_of_all_tables().expect("tables can be read");
    let mut found: Vec<_> = all
        .iter()
        .map(|(name, properties)| {
            let times = SeqnoTimes::decode(&properties.seqno_time_map);
            (name.clone(), times.expect("the property is whole"))
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.into_iter().map(|(_, times)| times).collect()
}

/// The largest sequence number in the tables: 0 if all were dropped.
fn largest_seq(db: &Db) -> u64 {
    let files = db.live_files_metadata();
    files
        .iter()
        .map(|file| file.largest_seqno.0)
        .max()
        .unwrap_or(0)
}

fn compact(db: &Db) {
    let options = CompactRangeOptions {
        bottommost_level_compaction: cairn_options::BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range(None, None, &options)
        .expect("there is space");
}

#[test]
fn tables_have_samples_while_write_times_are_preserved() {
    let sim = SimWorld::new(1);
    let db = open_on(&sim, &preserving());
    db.put(b"a", b"1").unwrap();
    let began = sim.world.clock.wall_seconds();
    let_pass(&sim, 100);
    db.put(b"b", b"2").unwrap();
    let_pass(&sim, 100);
    db.flush().unwrap();
    let flushed = samples(&db);
    assert_eq!(flushed.len(), 1);
    let seqs: Vec<u64> = flushed[0]
        .samples()
        .iter()
        .map(|sample| sample.seq)
        .collect();
    assert_eq!(seqs, [1, 2]);
    // A sample every ten seconds: the first after each write.
    let times: Vec<u64> = flushed[0]
        .samples()
        .iter()
        .map(|sample| sample.time)
        .collect();
    assert!(
        (began..=began + 10).contains(&times[0]),
        "{times:?}, {began}"
    );
    assert!(
        (began + 100..=began + 110).contains(&times[1]),
        "{times:?}, {began}"
    );

    // Without the option there are none.
    db.set_options(&[("preserve_internal_time_seconds", "0")])
        .unwrap();
    db.put(b"c", b"3").unwrap();
    let_pass(&sim, 50);
    db.flush().unwrap();
    assert!(samples(&db)[1].is_empty());
}

#[test]
fn young_entries_keep_their_sequence_numbers_in_the_last_level() {
    let sim = SimWorld::new(2);
    let db = open_on(&sim, &preserving());
    db.put(b"old", b"1").unwrap();
    let_pass(&sim, SPAN / 2);
    db.put(b"young", b"2").unwrap();
    let_pass(&sim, 20);
    db.flush().unwrap();
    compact(&db);
    assert_eq!(largest_seq(&db), 2);
    let kept = samples(&db);
    assert_eq!(kept.len(), 1);
    assert!(!kept[0].is_empty(), "the compaction passes the samples on");
    // The older entry is past the span, and the younger one is not.
    let_pass(&sim, SPAN / 2);
    compact(&db);
    assert_eq!(largest_seq(&db), 2);
    let_pass(&sim, SPAN);
    compact(&db);
    assert_eq!(
        largest_seq(&db),
        0,
        "no write time has to be known any more"
    );
    assert_eq!(db.get(b"old").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(db.get(b"young").unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn samples_survive_a_reopening_in_their_tables() {
    let sim = SimWorld::new(3);
    let db = open_on(&sim, &preserving());
    db.put(b"a", b"1").unwrap();
    let_pass(&sim, 30);
    db.flush().unwrap();
    let before = samples(&db);
    db.close().unwrap();
    drop(db);
    let db = open_on(&sim, &preserving());
    db.put(b"b", b"2").unwrap();
    let_pass(&sim, 30);
    db.flush().unwrap();
    compact(&db);
    let after = samples(&db);
    assert_eq!(after.len(), 1);
    assert!(after[0].samples().starts_with(&before[0].samples()[..1]));
    assert_eq!(largest_seq(&db), 2);
}

/// The last level of the trees below.
const LAST: usize = 3;

/// Options that keep data younger than `SPAN` out of the last level.
fn precluding(style: CompactionStyle) -> FamilyOptions {
    FamilyOptions {
        preclude_last_level_data_seconds: SPAN,
        compaction_style: style,
        num_levels: i32::try_from(LAST + 1).expect("few levels"),
        disable_auto_compactions: true,
        ..small()
    }
}

/// The levels that have files, with the number of their entries.
fn levels(db: &Db) -> Vec<(usize, u64)> {
    let mut levels = BTreeMap::new();
    // The properties have the counts, and open the tables.
    db.properties_of_all_tables().expect("tables can be read");
    for file in db.live_files_metadata() {
        *levels.entry(file.level).or_default() += file.num_entries;
    }
    levels.into_iter().collect()
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

fn put_all(db: &Db, keys: impl Iterator<Item = u32>, value: &str) {
    for n in keys {
        db.put(&key(n), format!("{value}{n}").as_bytes())
            .expect("there is space");
    }
}

const STYLES: [CompactionStyle; 2] = [CompactionStyle::Level, CompactionStyle::Universal];

#[test]
fn young_entries_stay_above_the_last_level_until_they_are_old() {
    for style in STYLES {
        let sim = SimWorld::new(4);
        let db = open_on(&sim, &precluding(style));
        put_all(&db, (0..200).step_by(2), "old");
        let_pass(&sim, SPAN + 20);
        put_all(&db, (1..200).step_by(2), "young");
        db.flush().unwrap();
        compact(&db);
        assert_eq!(levels(&db), [(LAST - 1, 100), (LAST, 100)], "{style:?}");
        // Nothing changes before the time has come, even after an open.
        let_pass(&sim, SPAN / 2);
        drop(db);
        let db = open_on(&sim, &precluding(style));
        compact(&db);
        assert_eq!(levels(&db), [(LAST - 1, 100), (LAST, 100)], "{style:?}");
        let_pass(&sim, SPAN / 2 + 20);
        compact(&db);
        assert_eq!(levels(&db), [(LAST, 200)], "{style:?}");
        for n in 0..200 {
            let value = ["old", "young"][n as usize % 2];
            let expected = format!("{value}{n}").into_bytes();
            assert_eq!(db.get(&key(n)).unwrap().as_deref(), Some(&expected[..]));
        }
    }
}

#[test]
fn young_deletions_hide_old_data_in_the_last_level_from_all_but_older_snapshots() {
    for (style, blobs) in STYLES.into_iter().flat_map(|s| [(s, false), (s, true)]) {
        let sim = SimWorld::new(5);
        let options = FamilyOptions {
            enable_blob_files: blobs,
            enable_blob_garbage_collection: blobs,
            blob_garbage_collection_age_cutoff: 1.0,
            ..precluding(style)
        };
        let db = open_on(&sim, &options);
        put_all(&db, 0..60, "first");
        let_pass(&sim, SPAN + 20);
        db.flush().unwrap();
        let before = db.snapshot();
        db.delete_range(&key(10), &key(20)).unwrap();
        db.delete(&key(30)).unwrap();
        put_all(&db, 40..50, "second");
        let between = db.snapshot();
        db.delete_range(&key(5), &key(15)).unwrap();
        put_all(&db, 12..13, "third");
        let_pass(&sim, 20);
        db.flush().unwrap();
        let first = |n: u32| Some(format!("first{n}"));
        let expected = |n: u32, moment: usize| match (n, moment) {
            (12, 2) => Some("third12".to_owned()),
            (10..20, 1..) | (30, 1..) | (5..15, 2) => None,
            (40..50, 1..) => Some(format!("second{n}")),
            _ => first(n),
        };
        let check = |db: &Db, snapshots: &[Option<SequenceNumber>; 3]| {
            for (moment, snapshot) in snapshots.iter().enumerate() {
                if moment < 2 && snapshot.is_none() {
                    continue;
                }
                let options = ReadOptions {
                    snapshot: *snapshot,
                    ..ReadOptions::default()
                };
                for n in 0..60 {
                    let found = db.get_with(&key(n), &options).unwrap();
                    let found = found.map(|value| String::from_utf8(value.to_vec()).unwrap());
                    assert_eq!(found, expected(n, moment), "{style:?} {blobs} {n} {moment}");
                }
            }
        };
        let seqs = [Some(before.sequence()), Some(between.sequence()), None];
        compact(&db);
        let occupied: Vec<usize> = levels(&db).into_iter().map(|(level, _)| level).collect();
        assert_eq!(occupied, [LAST - 1, LAST], "{style:?} {blobs}");
        check(&db, &seqs);
        compact(&db);
        check(&db, &seqs);
        drop((before, between));
        compact(&db);
        check(&db, &[None, None, None]);
        drop(db);
        let db = open_on(&sim, &options);
        check(&db, &[None, None, None]);
        let_pass(&sim, SPAN + 20);
        compact(&db);
        check(&db, &[None, None, None]);
        assert_eq!(levels(&db).len(), 1, "{style:?} {blobs}");
    }
}

/// A level of young data far above its target is not compacted again and again.
#[test]
fn compactions_of_young_data_end() {
    for style in STYLES {
        let sim = SimWorld::new(6);
        let options = FamilyOptions {
            disable_auto_compactions: false,
            level0_file_num_compaction_trigger: 2,
            max_bytes_for_level_base: 10_000,
            target_file_size_base: 8_000,
            compression: Compression::None,
            ttl: SPAN / 4,
            ..precluding(style)
        };
        let db = open_on(&sim, &options);
        for round in 0..12 {
            put_all(
                &db,
                (0..400).map(|n| n * 7 % 400),
                &format!("{round} {} ", "x".repeat(100)),
            );
            db.flush().unwrap();
            sim.executor.run(1_000);
        }
        assert_eq!(sim.executor.run(1), 0, "{style:?}: a job is left");
        assert!(
            levels(&db).iter().all(|(level, _)| *level < LAST),
            "{style:?}"
        );
        // It is compacted when it is old, without a write.
        let_pass(&sim, 3 * SPAN);
        if style == CompactionStyle::Level {
            let found = levels(&db);
            assert!(found.iter().any(|(level, _)| *level == LAST), "{found:?}");
        }
    }
}

#[test]
fn the_option_can_be_changed_and_is_refused_with_timestamps() {
    let sim = SimWorld::new(7);
    let db = open_on(&sim, &precluding(CompactionStyle::Level));
    put_all(&db, 0..10, "value");
    db.flush().unwrap();
    compact(&db);
    assert_eq!(levels(&db), [(LAST - 1, 10)]);
    db.set_options(&[("preclude_last_level_data_seconds", "0")])
        .unwrap();
    compact(&db);
    assert_eq!(levels(&db), [(LAST, 10)]);
    drop(db);

    let sim = SimWorld::new(8);
    let options = FamilyOptions::from_text("comparator=leveldb.BytewiseComparator.u64ts").unwrap();
    let options = FamilyOptions {
        comparator: options.comparator,
        ..precluding(CompactionStyle::Level)
    };
    let error = open_result(&sim, &options).err().unwrap();
    assert!(
        error.text().contains("preclude_last_level_data_seconds"),
        "{error}"
    );
}

/// Regression: files of the last level were compacted again after an open, although their entries keep their sequence numbers.
#[test]
fn young_files_are_not_rewritten_when_a_snapshot_is_released() {
    let sim = SimWorld::new(9);
    let options = FamilyOptions {
        disable_auto_compactions: false,
        ..preserving()
    };
    let db = open_on(&sim, &options);
    put_all(&db, 0..10, "value");
    db.flush().unwrap();
    compact(&db);
    let tables = |db: &Db| -> Vec<String> {
        let files = db.live_files_metadata().into_iter();
        files.map(|file| file.relative_filename).collect()
    };
    let before = tables(&db);
    assert_eq!((before.len(), largest_seq(&db)), (1, 10));
    drop(db);
    let db = open_on(&sim, &options);
    let release = || {
        let snapshot = db.snapshot();
        put_all(&db, 10..12, "value");
        drop(snapshot);
        db.flush().unwrap();
        db.wait_until_quiet().unwrap();
    };
    release();
    assert!(tables(&db).contains(&before[0]), "{:?}", tables(&db));
    // Its entries lose their sequence numbers when they are old.
    let_pass(&sim, SPAN + 20);
    release();
    assert!(!tables(&db).contains(&before[0]), "{:?}", tables(&db));
}
