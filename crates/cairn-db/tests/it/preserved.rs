//! Write times that are preserved (`preserve_internal_time_seconds`).

use std::path::Path;
use std::time::Duration;

use cairn_db::{Db, OpenRequest, open};
use cairn_format::seqno_times::SeqnoTimes;
use cairn_options::{CompactRangeOptions, FamilyOptions};
use cairn_sim::SimWorld;

use crate::basic::{db_options, small};

const SPAN: u64 = 1000;

fn preserving() -> FamilyOptions {
    FamilyOptions {
        preserve_internal_time_seconds: SPAN,
        disable_auto_compactions: true,
        ..small()
    }
}

fn open_on(sim: &SimWorld, options: &FamilyOptions) -> Db {
    open(&OpenRequest {
        path: Path::new("/db"),
        options: &db_options(),
        families: &[],
        others: Some(options),
        read_only: false,
        world: sim.world.clone(),
    })
    .expect("the options are valid")
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
