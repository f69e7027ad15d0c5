//! The memory budget of memtables.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_db::{Db, OpenRequest, open};
use cairn_memory::WriteBufferManager;
use cairn_memory::write_buffer::FlushPolicy;
use cairn_observe::listener::{EventListener, FlushJobInfo};
use cairn_options::{DbOptions, FamilyOptions, Options, WriteOptions};
use cairn_platform::World;
use cairn_platform::sync::{Condvar, Mutex};
use cairn_sim::trace::Call;
use cairn_sim::{Fault, SimWorld};
use cairn_types::Code;

use crate::basic::db_options;
use crate::errors::failing;

fn open_in(world: &World, db: &DbOptions) -> Db {
    let family = FamilyOptions::from_text(
        "arena_block_size=4096;level0_slowdown_writes_trigger=1000;level0_stop_writes_trigger=1000",
    )
    .expect("they are good");
    open(&OpenRequest {
        path: Path::new("/db"),
        options: db,
        families: &[],
        others: Some(&family),
        read_only: false,
        world: world.clone(),
    })
    .expect("it opens")
}

fn fill(db: &Db, writes: u32) {
    for n in 0..writes {
        db.put(&n.to_be_bytes(), &[7; 1000]).expect("it is written");
    }
}

#[test]
fn two_databases_keep_one_budget() {
    let manager = Arc::new(WriteBufferManager::new(200_000, None, false));
    let options = DbOptions {
        write_buffer_manager: Some(manager.clone()),
        ..db_options()
    };
    let worlds = [World::in_memory(), World::in_memory()];
    let dbs = [open_in(&worlds[0], &options), open_in(&worlds[1], &options)];
    for db in &dbs {
        fill(db, 120);
    }
    // Either of them would have fitted.
    let flushed = |db: &Db| db.property_number("rocksdb.live-sst-files-size") > Some(0);
    dbs.iter().for_each(|db| db.wait_until_quiet().unwrap());
    assert!(flushed(&dbs[0]) || flushed(&dbs[1]));
    assert!(manager.memory_usage() < 250_000, "{manager:?}");
    drop(dbs);
    // A job may still hold the last memtable for a moment.
    while manager.memory_usage() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(manager.mutable_memtable_memory_usage(), 0);
}

/// The policy selects the memtable to flush: that of the family written first, or the largest one.
#[test]
fn the_policy_of_a_budget_picks_the_memtable() {
    for (policy, flushed) in [
        (FlushPolicy::Oldest, "first"),
        (FlushPolicy::Largest, "large"),
    ] {
        let manager = Arc::new(WriteBufferManager::new(400_000, None, false));
        manager.set_flush_policy(policy);
        assert_eq!(manager.flush_policy(), policy);
        let options = DbOptions {
            write_buffer_manager: Some(manager),
            ..db_options()
        };
        let db = open_in(&World::in_memory(), &options);
        for name in ["first", "large"] {
            let small = FamilyOptions::from_text("arena_block_size=4096").expect("it is good");
            db.create_family(name, &small).expect("it is made");
        }
        let (first, large) = (db.family("first").unwrap(), db.family("large").unwrap());
        first.put(b"key", &[7; 1000]).expect("it is written");
        let tables = |name: &str| {
            let family = db.family(name).unwrap();
            family
                .property_number("rocksdb.live-sst-files-size")
                .unwrap()
        };
        for n in 0..1000_u32 {
            large
                .put(&n.to_be_bytes(), &[7; 1000])
                .expect("it is written");
            db.wait_until_quiet().unwrap();
            if tables("first") + tables("large") > 0 {
                break;
            }
        }
        assert!(tables(flushed) > 0, "{policy:?}");
        let other = if flushed == "first" { "large" } else { "first" };
        assert_eq!(tables(other), 0, "{policy:?}");
    }
}

#[test]
fn writes_that_wait_for_memory_proceed() {
    let manager = Arc::new(WriteBufferManager::new(64 << 10, None, true));
    let options = DbOptions {
        write_buffer_manager: Some(manager.clone()),
        ..db_options()
    };
    let world = World::in_memory();
    let db = open_in(&world, &options);
    fill(&db, 2000);
    assert!(db.get(&1999_u32.to_be_bytes()).unwrap().is_some());
    db.close().unwrap();
}

/// Regression: a write with `no_slowdown` waited behind a writer that was stalled for memory, or by `lock_wal`.
#[test]
fn writes_with_no_slowdown_do_not_wait_behind_a_stalled_one() {
    let impatient = WriteOptions {
        no_slowdown: true,
        ..WriteOptions::default()
    };
    let manager = Arc::new(WriteBufferManager::new(64 << 10, None, true));
    let options = DbOptions {
        write_buffer_manager: Some(manager.clone()),
        ..db_options()
    };
    let world = World::in_memory();
    for locks in [false, true] {
        let db = open_in(&world, &options);
        db.pause_background_work();
        if locks {
            db.lock_wal().unwrap();
        }
        std::thread::scope(|scope| {
            let stalled = scope.spawn(|| fill(&db, 1000));
            while !locks && !manager.should_stall() {
                std::thread::yield_now();
            }
            for _ in 0..100 {
                world.clock.sleep(Duration::from_millis(1));
                let refused = db.put_with(b"k", b"v", &impatient).unwrap_err();
                assert_eq!(refused.code(), Code::Incomplete, "{refused}");
            }
            assert!(!stalled.is_finished());
            if locks {
                db.unlock_wal().unwrap();
            }
            db.continue_background_work().unwrap();
            stalled.join().unwrap();
        });
        db.put_with(b"k", b"v", &WriteOptions::default()).unwrap();
        db.close().unwrap();
    }
}

/// Blocks flushes until it is released.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    changed: Condvar,
}

impl EventListener for Gate {
    fn on_flush_begin(&self, _: &FlushJobInfo) {
        let mut is_open = self.is_open.lock();
        while !*is_open {
            self.changed.wait(&mut is_open);
        }
    }
}

/// Regression: writers that were stalled for memory noticed a change of the limit only when a thread for flushes was
/// free; and their databases stopped, with a small memtable switched while the one before it was not flushed.
#[test]
fn a_changed_limit_ends_stalls_while_all_threads_are_busy() {
    for raises in [false, true] {
        let manager = Arc::new(WriteBufferManager::new(64 << 10, None, true));
        let gate = Arc::new(Gate::default());
        let mut options = DbOptions {
            write_buffer_manager: Some(manager.clone()),
            ..db_options()
        };
        options.listeners.push(gate.clone());
        let world = World::in_memory();
        let dbs = ["/first", "/second"].map(|path| {
            open(&OpenRequest {
                path: Path::new(path),
                options: &options,
                families: &[],
                others: Some(&FamilyOptions::from_text("arena_block_size=4096").unwrap()),
                read_only: false,
                world: world.clone(),
            })
            .unwrap()
        });
        std::thread::scope(|scope| {
            let writers = dbs.each_ref().map(|db| scope.spawn(|| fill(db, 500)));
            while !manager.should_stall() {
                std::thread::yield_now();
            }
            world.clock.sleep(Duration::from_millis(30));
            assert!(writers.iter().all(|writer| !writer.is_finished()));
            match raises {
                true => manager.set_buffer_size(8 << 20),
                false => manager.set_allow_stall(false),
            }
            for writer in writers {
                writer.join().unwrap();
            }
            for db in &dbs {
                assert_eq!(db.property_number("rocksdb.is-write-stopped"), Some(0));
            }
            *gate.is_open.lock() = true;
            gate.changed.notify_all();
        });
        for db in dbs {
            db.close().unwrap();
        }
    }
}

#[test]
fn a_budget_of_its_own_flushes_and_holds_during_recovery() {
    let world = World::in_memory();
    let options = DbOptions {
        db_write_buffer_size: 100_000,
        ..db_options()
    };
    let db = open_in(&world, &options);
    fill(&db, 500);
    db.wait_until_quiet().unwrap();
    // In whatever level compactions have placed it since.
    assert!(db.property_number("rocksdb.live-sst-files-size") > Some(0));
    drop(db);
    let db = open_in(&world, &options);
    assert!(db.get(&499_u32.to_be_bytes()).unwrap().is_some());
}

#[test]
fn a_memtable_with_many_range_deletions_is_flushed() {
    let world = World::in_memory();
    let db = open_in(&world, &db_options());
    db.set_options(&[("memtable_max_range_deletions", "3")])
        .unwrap();
    for n in 0..4_u8 {
        db.delete_range(&[n], &[n + 1]).unwrap();
        db.put_with(&[n], b"v", &WriteOptions::default()).unwrap();
    }
    db.wait_until_quiet().unwrap();
    assert_eq!(
        db.property("rocksdb.num-files-at-level0").as_deref(),
        Some("1")
    );
}

/// With the policy across databases, the memtable of an idle database is flushed for the writes of another,
/// even while those are stalled.
#[test]
fn a_budget_flushes_the_largest_memtable_of_all_databases() {
    for allow_stall in [false, true] {
        let manager = Arc::new(WriteBufferManager::new(400_000, None, allow_stall));
        manager.set_flush_policy(FlushPolicy::LargestAcrossDatabases);
        let options = DbOptions {
            write_buffer_manager: Some(manager.clone()),
            ..db_options()
        };
        let worlds = [World::in_memory(), World::in_memory()];
        let [idle, written] = [0, 1].map(|n| open_in(&worlds[n], &options));
        fill(&idle, 200);
        assert_eq!(manager.flushes(), 0);
        let tables = |db: &Db| {
            db.wait_until_quiet().unwrap();
            db.property_number("rocksdb.live-sst-files-size").unwrap()
        };
        for n in 0..2000_u32 {
            written.put(&n.to_be_bytes(), &[7; 1000]).unwrap();
            if manager.flushes() > 0 {
                break;
            }
        }
        // Waiting for background work does not include the flush of the other database before that acquires
        // the lead.
        let mut waits = 0;
        while tables(&idle) == 0 {
            assert!(waits < 6000, "{manager:?}");
            waits += 1;
            worlds[0].clock.sleep(Duration::from_millis(10));
        }
        fill(&written, 2000);
        assert!(tables(&written) > 0);
        // Writes that are not stalled do not wait for the flush either.
        if allow_stall {
            assert!(manager.memory_usage() < 500_000, "{manager:?}");
        }
    }
}

/// Regression: an iterator keeps a flushed memtable, which must not stall the writes of its own thread.
#[test]
fn an_iterator_does_not_stall_writes() {
    let manager = Arc::new(WriteBufferManager::new(200_000, None, true));
    let options = DbOptions {
        write_buffer_manager: Some(manager.clone()),
        ..db_options()
    };
    let db = open_in(&World::in_memory(), &options);
    fill(&db, 100);
    let iterators: Vec<_> = (0..5)
        .map(|_| {
            let iterator = db.iter();
            fill(&db, 300);
            iterator
        })
        .collect();
    assert!(manager.memory_usage() > 400_000, "{manager:?}");
    drop(iterators);
}

/// Two databases of one world, with a budget of 400,000 bytes that stalls writes and the policy across databases.
/// The first has a memtable of 300,000 bytes.
fn filled_and_empty(sim: &SimWorld) -> (Arc<WriteBufferManager>, Db, Db) {
    let manager = Arc::new(WriteBufferManager::new(400_000, None, true));
    manager.set_flush_policy(FlushPolicy::LargestAcrossDatabases);
    let options = DbOptions {
        write_buffer_manager: Some(manager.clone()),
        max_bgerror_resume_count: 0,
        ..db_options()
    };
    let [filled, empty] = ["/filled", "/empty"].map(|path| {
        let family = FamilyOptions::from_text("arena_block_size=4096").expect("it is good");
        open(&OpenRequest {
            path: Path::new(path),
            options: &options,
            families: &[],
            others: Some(&family),
            read_only: false,
            world: sim.world.clone(),
        })
        .expect("it opens")
    });
    fill(&filled, 290);
    assert_eq!(manager.flushes(), 0);
    (manager, filled, empty)
}

/// The failed flush of one database must not stall the writes of another for ever.
#[test]
fn memtables_of_a_stopped_database_do_not_stall_another() {
    let sim = SimWorld::new(1);
    let (manager, stopped, db) = filled_and_empty(&sim);
    sim.fs
        .set_plan(failing(Call::Create, ".sst", Fault::Denied, 1));
    stopped.flush().expect_err("the table cannot be created");
    assert!(stopped.background_error_state().is_some());
    fill(&db, 1000);
    assert!(manager.memory_usage() < 800_000, "{manager:?}");
    assert!(db.get(&999_u32.to_be_bytes()).unwrap().is_some());
    assert!(stopped.get(&289_u32.to_be_bytes()).unwrap().is_some());
}

/// A database that cannot carry out the flush that another requests stops; the other one proceeds.
#[test]
fn a_requested_flush_that_fails_does_not_stall_the_writer() {
    let sim = SimWorld::new(1);
    let (manager, requested, db) = filled_and_empty(&sim);
    sim.fs
        .set_plan(failing(Call::Create, ".log", Fault::Denied, 1));
    for n in 0..1000_u32 {
        db.put(&n.to_be_bytes(), &[7; 1000]).unwrap();
        // The requested flush starts, and fails, before this database flushes its own memtable.
        sim.executor.run(1_000);
    }
    assert!(requested.background_error_state().is_some());
    assert!(db.background_error_state().is_none());
    assert!(manager.memory_usage() < 800_000, "{manager:?}");
}

/// A database whose log is locked cannot flush; writes of others flush their own memtables.
#[test]
fn a_requested_flush_that_waits_for_a_lock_does_not_stall_the_writer() {
    let world = World::in_memory();
    let manager = Arc::new(WriteBufferManager::new(400_000, None, true));
    manager.set_flush_policy(FlushPolicy::LargestAcrossDatabases);
    let options = DbOptions {
        write_buffer_manager: Some(manager.clone()),
        ..db_options()
    };
    let (locked, db) = (
        open_in(&World::in_memory(), &options),
        open_in(&world, &options),
    );
    fill(&locked, 290);
    locked.lock_wal().unwrap();
    fill(&db, 1000);
    locked.unlock_wal().unwrap();
    db.wait_until_quiet().unwrap();
    assert!(db.property_number("rocksdb.live-sst-files-size") > Some(0));
    locked.close().unwrap();
}

/// Memtables of a closed database that an iterator keeps do not stall the writes of its thread.
#[test]
fn a_closed_database_does_not_stall_another() {
    let sim = SimWorld::new(1);
    let (manager, closed, db) = filled_and_empty(&sim);
    let iterator = closed.iter();
    closed.close().unwrap();
    drop(closed);
    fill(&db, 1000);
    assert!(manager.memory_usage() > 300_000, "{manager:?}");
    drop(iterator);
}
