//! File systems that panic: the jobs that call them end nevertheless, and the database can be closed.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use cairn_db::Db;
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::World;
use cairn_types::Result;

use crate::basic::{db_options, open_with, small};
use crate::hooked_files::{Operation, world_with};

/// Returns a world in which the next `operation` on a file with the extension `extension` panics once the flag
/// is set, which clears it.
fn world_that_panics(operation: Operation, extension: &'static str) -> (World, Arc<AtomicBool>) {
    let armed = Arc::new(AtomicBool::new(false));
    let flag = armed.clone();
    let world = world_with(move |called, path: &Path| {
        let is_meant = called == operation && path.extension() == Some(OsStr::new(extension));
        assert!(
            !is_meant || !flag.swap(false, Ordering::AcqRel),
            "a panic of a test"
        );
    });
    (world, armed)
}

/// Waits until the operation has panicked, and closes the database. `None` if that takes a minute.
#[expect(
    clippy::disallowed_methods,
    reason = "the thread is not joined if closing does not return"
)]
fn close_after_panic(db: Db, armed: &AtomicBool) -> Option<Result<()>> {
    while armed.load(Ordering::Acquire) {
        thread::yield_now();
    }
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(db.close()));
    receiver.recv_timeout(Duration::from_secs(60)).ok()
}

/// Regression: the deletion of obsolete files after a job stayed counted, and closing waited for it.
#[test]
fn a_purge_that_panics_ends() {
    let (world, armed) = world_that_panics(Operation::Remove, "sst");
    let family = FamilyOptions {
        level0_file_num_compaction_trigger: 2,
        ..small()
    };
    let db = open_with(&world, &db_options(), &family).expect("it opens");
    armed.store(true, Ordering::Release);
    db.put(b"a", b"1").expect("a write");
    db.flush().expect("a flush");
    db.put(b"a", b"2").expect("a write");
    // The compaction that follows may panic before the call returns, which then fails.
    drop(db.flush());
    let closed = close_after_panic(db, &armed);
    assert_eq!(closed, Some(Ok(())));
}

/// Regression: the log stayed registered as ending, and closing waited for it.
#[test]
fn the_end_of_a_log_that_panics_makes_the_database_read_only() {
    let (world, armed) = world_that_panics(Operation::Sync, "log");
    let options = DbOptions {
        // Ended logs are synced.
        wal_ttl_seconds: 1000,
        ..db_options()
    };
    let db = open_with(&world, &options, &small()).expect("it opens");
    db.put(b"a", b"1").expect("a write");
    armed.store(true, Ordering::Release);
    // The job may end before the flush, which then fails.
    let _ = db.flush();
    while db.background_error().is_none() {
        thread::yield_now();
    }
    let error = db.put(b"b", b"2").expect_err("writes are stopped");
    assert!(error.text().contains("a panic of a test"), "{error}");
    assert!(close_after_panic(db, &armed).is_some());
    let db = open_with(&world, &options, &small()).expect("it opens again");
    assert_eq!(db.get(b"a").expect("a read").as_deref(), Some(&b"1"[..]));
}
