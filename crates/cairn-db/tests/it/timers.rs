//! What comes again: statistics in the LOG, and their history.

#![expect(clippy::unwrap_used, reason = "what is not there fails the test")]

use std::path::Path;
use std::time::Duration;

use cairn_db::{Db, OpenRequest, open};
use cairn_observe::statistics::Ticker;
use cairn_observe::statistics::history::Slice;
use cairn_options::DbOptions;
use cairn_platform::Executor;
use cairn_sim::SimWorld;

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

/// How many dumps the LOG has.
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
fn statistics_are_dumped_every_so_often_as_long_as_somebody_wants_it() {
    let sim = SimWorld::new(1);
    let options = DbOptions {
        stats_dump_period_sec: 10,
        ..db_options()
    };
    let db = open_on(&sim, &options, false);
    assert_eq!(dumps(&sim), 0);
    // Nobody waits for a dump, and no time passes for its sake.
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
    // Who only reads dumps nothing.
    let _reader = open_on(&sim, &options, true);
    let_pass(&sim, 100);
    assert_eq!(dumps(&sim), 7);
}

#[test]
fn the_history_says_what_tickers_grew_by_in_each_period() {
    let sim = SimWorld::new(1);
    let options = DbOptions {
        stats_persist_period_sec: 10,
        // Three slices.
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
