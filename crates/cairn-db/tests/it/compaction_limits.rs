//! A limit on concurrent compactions that databases share.

use std::sync::Arc;

use cairn_db::Db;
use cairn_options::{CompactRangeOptions, FamilyOptions, WaitForCompactOptions};
use cairn_platform::{ConcurrentTaskLimiter, World};
use cairn_sim::SimWorld;
use cairn_types::Code;

use crate::basic::{db_options, open_with, small};
use crate::controls::files;

fn open_limited(world: &World, limiter: &Arc<ConcurrentTaskLimiter>) -> Db {
    let family = FamilyOptions {
        compaction_thread_limiter: Some(limiter.clone()),
        level0_file_num_compaction_trigger: 2,
        level_compaction_dynamic_level_bytes: false,
        ..small()
    };
    open_with(world, &db_options(), &family).expect("it opens")
}

/// Writes two tables with the same keys, so that a compaction is due.
fn make_compaction_due(db: &Db) {
    for value in [b"1", b"2"] {
        db.put(b"a", value).expect("a write");
        db.put(b"b", value).expect("a write");
        db.flush().expect("a flush");
    }
}

#[test]
fn a_compaction_waits_for_that_of_another_database() {
    let limiter = Arc::new(ConcurrentTaskLimiter::new("both", 1));
    let sims = [SimWorld::new(1), SimWorld::new(2)];
    let [one, other] = sims
        .each_ref()
        .map(|sim| open_limited(&sim.world, &limiter));
    let blocked = limiter.force_token();
    for (sim, db) in sims.iter().zip([&one, &other]) {
        make_compaction_due(db);
        sim.executor.run(1_000);
        assert_eq!(files(db, 2), [2, 0]);
    }
    drop(blocked);
    // The first database takes the token, and has not run its compaction.
    sims[0].executor.run(1);
    assert_eq!(limiter.outstanding_tasks(), 1);
    sims[1].executor.run(1_000);
    assert_eq!(files(&other, 2), [2, 0]);
    sims[0].executor.run(1_000);
    assert_eq!(files(&one, 2), [0, 1]);
    sims[1].executor.run(1_000);
    assert_eq!(files(&other, 2), [0, 1]);
    assert_eq!(limiter.outstanding_tasks(), 0);
}

#[test]
fn a_manual_compaction_does_not_wait() {
    let limiter = Arc::new(ConcurrentTaskLimiter::new("none", 0));
    let db = open_limited(&World::in_memory(), &limiter);
    make_compaction_due(&db);
    assert_eq!(files(&db, 2), [2, 0]);
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    assert_eq!(files(&db, 2), [0, 1]);
    assert_eq!(limiter.outstanding_tasks(), 0);
    // The limit is not for flushes, and a closing does not wait for compactions without a token.
    make_compaction_due(&db);
    db.close().unwrap();
}

#[test]
fn waiting_for_compactions_includes_those_without_a_token() {
    let limiter = Arc::new(ConcurrentTaskLimiter::new("none", 0));
    let db = open_limited(&World::in_memory(), &limiter);
    make_compaction_due(&db);
    let impatient = WaitForCompactOptions {
        timeout: 20_000,
        ..WaitForCompactOptions::default()
    };
    assert_eq!(
        db.wait_for_compact(&impatient).unwrap_err().code(),
        Code::TimedOut
    );
    limiter.set_max_outstanding_tasks(1);
    db.wait_for_compact(&WaitForCompactOptions::default())
        .unwrap();
    assert_eq!(files(&db, 2), [0, 1]);
    limiter.set_max_outstanding_tasks(0);
    make_compaction_due(&db);
    db.set_options(&[("disable_auto_compactions", "true")])
        .unwrap();
    db.wait_for_compact(&WaitForCompactOptions::default())
        .unwrap();
    assert_eq!(files(&db, 2), [2, 1]);
}
