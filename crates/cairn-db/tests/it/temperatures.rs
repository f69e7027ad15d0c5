//! Temperatures of tables, recorded in the MANIFEST.

use std::sync::Arc;
use std::time::Duration;

use cairn_db::Db;
use cairn_observe::statistics::{Statistics, StatsLevel, Ticker};
use cairn_options::{
    CompactRangeOptions, CompactionOptions, DbOptions, FamilyOptions, Options, Temperature,
    WaitForCompactOptions,
};
use cairn_sim::SimWorld;
use cairn_types::Code;

use crate::basic::db_options;
use crate::errors::open_on;

const UNKNOWN: &str = "0";
const WARM: &str = "8";
const COOL: &str = "10";
const COLD: &str = "12";

fn open(sim: &SimWorld, text: &str) -> Db {
    let family = FamilyOptions::from_text(text).expect("valid options");
    open_on(sim, &db_options(), &family).expect("the database opens")
}

fn has_files_at(db: &Db, temperature: &str) -> bool {
    let name = format!("rocksdb.live-sst-files-size-at-temperature{temperature}");
    db.property(&name).expect("a property") != "0"
}

#[test]
fn new_tables_get_the_temperature_of_their_level() {
    let sim = SimWorld::new(1);
    let text = "num_levels=3;default_write_temperature=kCool;last_level_temperature=kCold";
    let db = open(&sim, text);
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    assert!(has_files_at(&db, COOL) && !has_files_at(&db, COLD));
    // Rewritten, because the tables overlap.
    db.put(b"a", b"2").unwrap();
    db.flush().unwrap();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    assert!(!has_files_at(&db, COOL) && has_files_at(&db, COLD));
    drop(db);
    // The temperature is that in the MANIFEST, and not of the present options.
    let db = open(&sim, "num_levels=3");
    assert!(!has_files_at(&db, "0") && has_files_at(&db, COLD));
    db.set_options(&[("default_write_temperature", "kCool")])
        .unwrap();
    db.put(b"b", b"1").unwrap();
    db.flush().unwrap();
    assert!(has_files_at(&db, COOL) && has_files_at(&db, COLD));
}

/// The tables, with their numbers and temperatures.
fn tables(db: &Db) -> Vec<(String, u8)> {
    let tables = db.live_files_metadata();
    let tables = tables.into_iter();
    let mut tables: Vec<_> = tables
        .map(|table| (table.relative_filename, table.temperature))
        .collect();
    tables.sort();
    tables
}

#[test]
fn a_compaction_of_files_has_the_temperature_asked_for() {
    let sim = SimWorld::new(1);
    let db = open(
        &sim,
        "num_levels=3;disable_auto_compactions=true;default_write_temperature=kCool",
    );
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    let compact = |temperature: Temperature, level: usize| {
        let names: Vec<String> = tables(&db).into_iter().map(|table| table.0).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let options = CompactionOptions {
            output_temperature_override: temperature,
            allow_trivial_move: true,
            ..CompactionOptions::default()
        };
        db.compact_files(&options, &names, level, None).unwrap();
    };
    // A move would keep the temperature.
    let before = tables(&db);
    compact(Temperature::Cold, 1);
    assert!(has_files_at(&db, COLD) && !has_files_at(&db, COOL));
    assert_ne!(tables(&db)[0].0, before[0].0);
    // A file that has it already is moved.
    let before = tables(&db);
    compact(Temperature::Cold, 2);
    assert_eq!(tables(&db), before);
    compact(Temperature::Unknown, 2);
    assert!(has_files_at(&db, COOL) && !has_files_at(&db, COLD));
    drop(db);
    let db = open(&sim, "num_levels=3");
    assert!(has_files_at(&db, COOL));
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
}

const AGES: &str = "compaction_style=kCompactionStyleFIFO;num_levels=1;compaction_options_fifo=\
                    {file_temperature_age_thresholds={{age=100;temperature=kWarm}:\
                    {age=300;temperature=kCold}}}";

#[test]
fn files_of_a_fifo_tree_change_their_temperature_as_they_age() {
    let sim = SimWorld::new(1);
    let statistics = Arc::new(Statistics::new(StatsLevel::All));
    let options = DbOptions {
        statistics: statistics.clone().into(),
        ..db_options()
    };
    let family = FamilyOptions::from_text(AGES).expect("valid options");
    let reopen = || open_on(&sim, &options, &family).expect("the database opens");
    let settle = |db: &Db, seconds: u64| {
        for _ in 0..seconds {
            sim.clock.advance(Duration::from_secs(1));
            sim.executor.run(10);
        }
        db.wait_for_compact(&WaitForCompactOptions::default())
            .unwrap();
    };
    let db = reopen();
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    settle(&db, 90);
    db.put(b"b", b"2").unwrap();
    db.flush().unwrap();
    assert!(has_files_at(&db, UNKNOWN) && !has_files_at(&db, WARM));
    settle(&db, 40);
    assert!(has_files_at(&db, UNKNOWN) && has_files_at(&db, WARM));
    settle(&db, 200);
    // The age is that of the data, although the first file was written again.
    assert!(has_files_at(&db, COLD) && has_files_at(&db, WARM) && !has_files_at(&db, UNKNOWN));
    drop(db);
    let db = reopen();
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(db.get(b"b").unwrap().as_deref(), Some(&b"2"[..]));
    assert!(has_files_at(&db, COLD) && has_files_at(&db, WARM));
    settle(&db, 100);
    assert!(has_files_at(&db, COLD) && !has_files_at(&db, WARM));
    let before = tables(&db);
    settle(&db, 400);
    assert_eq!(tables(&db), before, "nothing is left to do");
    assert_eq!(
        statistics.ticker(Ticker::FifoChangeTemperatureCompactions),
        4
    );
    // The thresholds are dynamic; a file may become warmer again.
    db.set_options(&[(
        "compaction_options_fifo",
        "{file_temperature_age_thresholds={{age=10;temperature=kCool}}}",
    )])
    .unwrap();
    settle(&db, 20);
    assert!(has_files_at(&db, COOL) && !has_files_at(&db, COLD));
}

#[test]
fn a_change_of_temperature_does_not_prolong_the_time_to_live() {
    let sim = SimWorld::new(1);
    let text = format!("{AGES};ttl=200");
    let db = open(&sim, &text);
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    for _ in 0..250 {
        sim.clock.advance(Duration::from_secs(1));
        sim.executor.run(10);
        assert!(!has_files_at(&db, COLD));
    }
    db.wait_for_compact(&WaitForCompactOptions::default())
        .unwrap();
    assert_eq!(tables(&db), []);
}

#[test]
fn thresholds_are_for_fifo_trees_of_one_level_and_ascend() {
    let ages = "compaction_options_fifo={file_temperature_age_thresholds=";
    for text in [
        format!("{ages}{{{{age=1;temperature=kWarm}}}}}};num_levels=1"),
        format!("compaction_style=kCompactionStyleFIFO;num_levels=2;{ages}{{{{age=1}}}}}}"),
        format!(
            "compaction_style=kCompactionStyleFIFO;num_levels=1;{ages}{{{{age=1}}:{{age=1}}}}}}"
        ),
    ] {
        let family = FamilyOptions::from_text(&text).expect("well-formed options");
        let error = open_on(&SimWorld::new(1), &db_options(), &family);
        let error = error.err().expect("they are refused");
        assert_eq!(error.code(), Code::NotSupported, "{text}");
        assert!(error.text().contains("file_temperature_age_thresholds"));
    }
}
