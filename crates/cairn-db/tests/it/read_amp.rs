//! The estimate of read amplification (`read_amp_bytes_per_bit`).

#![expect(clippy::unwrap_used, reason = "an absent value fails the test")]

use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, OpenRequest, open};
use cairn_observe::statistics::{Statistics, StatsLevel, Ticker};
use cairn_options::{DbOptions, FamilyOptions, Options};
use cairn_platform::World;

use crate::basic::db_options;

const ENTRIES: u32 = 2_000;

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// Opens the database in `world` with table options.
fn opened(world: &World, statistics: &Arc<Statistics>, table: &str) -> Db {
    let options = DbOptions {
        statistics: statistics.clone().into(),
        ..db_options()
    };
    let family = FamilyOptions::from_text(&format!(
        "disable_auto_compactions=true;compression=kNoCompression;block_based_table_factory={{{table}}}"
    ));
    open(&OpenRequest {
        path: Path::new("/db"),
        options: &options,
        families: &[],
        others: Some(&family.unwrap()),
        read_only: false,
        world: world.clone(),
    })
    .unwrap()
}

/// A database with an older and a newer version of each key in a table, and its statistics.
fn filled() -> (World, Arc<Statistics>) {
    let (world, statistics) = (
        World::in_memory(),
        Arc::new(Statistics::new(StatsLevel::All)),
    );
    let db = opened(&world, &statistics, "");
    let write = |value| (0..ENTRIES).for_each(|n| db.put(&key(n), &[value; 100]).unwrap());
    write(b'o');
    let snapshot = db.snapshot();
    write(b'n');
    db.flush().unwrap();
    drop(snapshot);
    db.close().unwrap();
    (world, statistics)
}

/// The bytes of the blocks read, and the useful ones.
fn counts(statistics: &Statistics) -> (u64, u64) {
    (
        statistics.ticker(Ticker::ReadAmpTotalReadBytes),
        statistics.ticker(Ticker::ReadAmpEstimateUsefulBytes),
    )
}

fn scan(db: &Db) {
    let mut iter = db.iter();
    iter.seek_to_first();
    while iter.valid() {
        assert_eq!(iter.value().len(), 100);
        iter.next();
    }
}

#[test]
fn entries_are_useful_once_and_blocks_count_when_they_are_read() {
    let (world, statistics) = filled();
    assert_eq!(counts(&statistics), (0, 0));
    let db = opened(&world, &statistics, "read_amp_bytes_per_bit=16");
    for n in (0..ENTRIES).step_by(50) {
        assert!(db.get(&key(n)).unwrap().is_some());
        assert!(db.get(&[&key(n)[..], b"-"].concat()).unwrap().is_none());
    }
    let few = counts(&statistics);
    // An entry has about 115 bytes, and is read with a block of 4 KiB.
    assert!((40 * 100..40 * 130).contains(&few.1), "{few:?}");
    assert!((40 * 4_000..80 * 4_600).contains(&few.0), "{few:?}");
    for n in (0..ENTRIES).step_by(50) {
        assert!(db.get(&key(n)).unwrap().is_some());
    }
    assert_eq!(counts(&statistics), few);
    for _ in 0..2 {
        scan(&db);
        let all = counts(&statistics);
        // Older versions are passed over.
        let share = all.1 as f64 / all.0 as f64;
        assert!((0.4..0.6).contains(&share), "{all:?}");
    }
}

#[test]
fn bitmaps_of_blocks_that_are_not_cached_do_not_accumulate() {
    let (world, statistics) = filled();
    for table in ["no_block_cache=true", "block_cache=64K"] {
        let db = opened(
            &world,
            &statistics,
            &format!("{table};read_amp_bytes_per_bit=1"),
        );
        statistics.reset();
        for _ in 0..3 {
            scan(&db);
        }
        let (read, useful) = counts(&statistics);
        let share = useful as f64 / read as f64;
        assert!((0.4..0.6).contains(&share), "{table} {read} {useful}");
        assert!(read > 3 * 400_000, "{table} {read}");
        db.close().unwrap();
    }
}

#[test]
fn without_the_option_nothing_is_counted() {
    let (world, statistics) = filled();
    scan(&opened(&world, &statistics, ""));
    assert_eq!(counts(&statistics), (0, 0));
}
