//! Callbacks of single writes: when they are called, and that they can neither stop nor damage the database.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use cairn_db::{Db, TraceOptions, WriteBatch, WriteCallback};
use cairn_options::{
    CompactRangeOptions, DbOptions, FamilyOptions, FlushOptions, WalWriteMode, WriteOptions,
};
use cairn_platform::World;
use cairn_platform::sync::{Mutex, MutexGuard};
use cairn_sim::trace::Call;
use cairn_sim::{Fault, SimWorld};
use cairn_types::{Code, Error, Result, SequenceNumber};

use crate::basic::{db_options, open_with, small};
use crate::errors::{failing, get, open_on, synced};
use crate::traces::{open_db, start, written_keys};

const ENQUEUED: &str = "enqueued";
const LOGGED: &str = "logged";

fn database(options: &DbOptions) -> Db {
    open_with(&World::in_memory(), options, &small()).expect("it opens")
}

fn one(key: &[u8], value: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(key, value);
    batch
}

/// Keeps the calls, with their threads, and runs a function in each.
struct Noted<F> {
    calls: Mutex<Vec<(&'static str, ThreadId)>>,
    run: F,
}

impl<F: Fn(&'static str)> Noted<F> {
    fn running(run: F) -> Noted<F> {
        Noted {
            calls: Mutex::default(),
            run,
        }
    }

    fn note(&self, call: &'static str) {
        self.calls.lock().push((call, thread::current().id()));
        (self.run)(call);
    }

    /// The calls, all of which were made by this thread.
    fn calls(&self) -> Vec<&'static str> {
        let calls = self.calls.lock();
        let own = thread::current().id();
        assert!(calls.iter().all(|(_, thread)| *thread == own));
        calls.iter().map(|(call, _)| *call).collect()
    }
}

impl<F: Fn(&'static str)> WriteCallback for Noted<F> {
    fn on_write_enqueued(&self) {
        self.note(ENQUEUED);
    }

    fn on_wal_write_finish(&self) {
        self.note(LOGGED);
    }
}

/// The calls of a write with `options`, in which the key is not yet visible.
fn calls_of(db: &Db, options: &WriteOptions) -> (Result<()>, Vec<&'static str>) {
    let noted = Noted::running(|_| assert_eq!(get(db, b"k"), None));
    let written = db.write_with_callback(&one(b"k", b"1"), options, &noted);
    let calls = noted.calls();
    (written, calls)
}

#[test]
fn a_write_calls_back_when_it_is_queued_and_when_it_is_logged() {
    let unlogged = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    let protected = WriteOptions {
        protection_bytes_per_key: 8,
        ..WriteOptions::default()
    };
    let in_turn = DbOptions {
        allow_concurrent_memtable_write: false,
        ..db_options()
    };
    for (options, write, expected) in [
        (
            db_options(),
            WriteOptions::default(),
            &[ENQUEUED, LOGGED][..],
        ),
        (db_options(), synced(), &[ENQUEUED, LOGGED]),
        (db_options(), protected, &[ENQUEUED, LOGGED]),
        (db_options(), unlogged, &[ENQUEUED]),
        (in_turn, synced(), &[ENQUEUED, LOGGED]),
    ] {
        let db = database(&options);
        let (written, calls) = calls_of(&db, &write);
        written.unwrap();
        assert_eq!(calls, expected);
        assert_eq!(get(&db, b"k"), Some(b"1".to_vec()));
    }
}

#[test]
fn a_rejected_write_does_not_call_back() {
    let db = database(&db_options());
    let both = WriteOptions {
        sync: true,
        disable_wal: true,
        ..WriteOptions::default()
    };
    let (rejected, calls) = calls_of(&db, &both);
    assert_eq!(rejected.unwrap_err().code(), Code::InvalidArgument);
    assert!(calls.is_empty());
}

#[test]
fn a_write_that_cannot_be_logged_is_not_reported_as_logged() {
    for (call, write) in [
        (Call::Sync, synced()),
        (Call::Append, WriteOptions::default()),
    ] {
        let sim = SimWorld::new(1);
        let options = DbOptions {
            wal_write_mode: WalWriteMode::Plain,
            ..db_options()
        };
        let db = open_on(&sim, &options, &small()).unwrap();
        db.put(b"before", b"1").unwrap();
        sim.fs
            .set_plan(failing(call, ".log", Fault::InputOutput, 1));
        let (failed, calls) = calls_of(&db, &write);
        assert_eq!(failed.unwrap_err().code(), Code::IoError, "{call:?}");
        assert_eq!(calls, [ENQUEUED], "{call:?}");
    }
}

#[test]
fn a_traced_write_calls_back_and_is_in_the_trace_once() {
    let db = open_db(&World::in_memory(), "/db");
    for preserves_order in [false, true] {
        let options = TraceOptions {
            preserve_write_order: preserves_order,
            ..TraceOptions::default()
        };
        start(&db, &options);
        let noted = Noted::running(|_| ());
        let options = WriteOptions::default();
        db.write_with_callback(&one(b"traced", b"1"), &options, &noted)
            .unwrap();
        db.end_trace().unwrap();
        assert_eq!(noted.calls(), [ENQUEUED, LOGGED]);
        assert_eq!(written_keys(&db), ["traced"]);
    }
}

/// A use of the database, by its name.
type Use = (&'static str, fn(&Db) -> Result<()>);

/// Uses of the database that could wait for the write that calls back.
const USES: [Use; 7] = [
    ("put", |db| db.put(b"inner", b"1")),
    ("batch", |db| db.write(&one(b"inner", b"1"))),
    ("callback", |db| {
        let noted = Noted::running(|_| ());
        db.write_with_callback(&one(b"inner", b"1"), &WriteOptions::default(), &noted)
    }),
    ("condition", |db| {
        db.write_if(&one(b"inner", b"1"), &WriteOptions::default(), || Ok(()))
    }),
    ("flush", |db| db.flush()),
    ("options", |db| {
        db.default_family()
            .set_options(&[("write_buffer_size", "1000000")])
    }),
    ("close", |db| db.clone().close()),
];

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a case that hangs must not hang the test"
)]
fn a_callback_that_uses_the_database_fails_instead_of_waiting_for_its_own_write() {
    for (name, used) in USES {
        for call in [ENQUEUED, LOGGED] {
            let (ended, ends) = mpsc::channel();
            let case = thread::spawn(move || {
                let db = database(&db_options());
                let outcome = Mutex::new(None);
                let noted = Noted::running(|called| {
                    if called == call {
                        *outcome.lock() = Some(used(&db));
                    }
                });
                let options = WriteOptions::default();
                let written = db.write_with_callback(&one(b"k", b"1"), &options, &noted);
                let outcome = outcome.lock().take().expect("it was called");
                let after = db.put(b"after", b"1");
                ended
                    .send((written, outcome.map_err(|error| error.code()), after))
                    .expect("the test waits");
            });
            let (written, outcome, after) = ends
                .recv_timeout(Duration::from_secs(60))
                .unwrap_or_else(|_| panic!("{name} in {call}: it hangs"));
            case.join().unwrap();
            written.unwrap();
            assert_eq!(outcome, Err(Code::Busy), "{name} in {call}");
            after.unwrap();
        }
    }
}

#[test]
fn a_panic_of_a_callback_reaches_the_writer_after_the_write() {
    for call in [ENQUEUED, LOGGED] {
        let db = database(&db_options());
        let noted = Noted::running(|called| {
            assert_ne!(called, call, "on purpose");
        });
        let options = WriteOptions::default();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            db.write_with_callback(&one(b"k", b"1"), &options, &noted)
        }));
        let said = panicked.unwrap_err();
        let said = said.downcast_ref::<String>().expect("a text");
        assert!(said.contains("on purpose"), "{said}");
        assert_eq!(noted.calls(), [ENQUEUED, LOGGED]);
        assert_eq!(get(&db, b"k"), Some(b"1".to_vec()));
        db.put(b"after", b"1").unwrap();
        db.close().unwrap();
    }
}

/// The writes of a group, whose leader waits in its callback until the others are queued, are all written, whatever
/// their callbacks do.
#[test]
fn panics_in_a_group_do_not_affect_its_other_writes() {
    const FOLLOWERS: usize = 4;
    let db = database(&db_options());
    let queued = AtomicUsize::new(0);
    let (leads, led) = mpsc::channel();
    thread::scope(|scope| {
        let (db, queued) = (&db, &queued);
        scope.spawn(move || {
            let leader = Noted::running(|call| {
                if call == ENQUEUED {
                    leads.send(()).expect("the test waits");
                    while queued.load(SeqCst) < FOLLOWERS {
                        thread::yield_now();
                    }
                }
            });
            let options = WriteOptions::default();
            db.write_with_callback(&one(b"leader", b"1"), &options, &leader)
                .expect("nothing fails");
            assert_eq!(leader.calls(), [ENQUEUED, LOGGED]);
        });
        led.recv().expect("a write leads");
        for n in 0..FOLLOWERS {
            scope.spawn(move || {
                let follower = Noted::running(|call| {
                    if call == ENQUEUED {
                        queued.fetch_add(1, SeqCst);
                    }
                    // No callback, the first, the second or both.
                    let panics = [[false, false], [true, false], [false, true], [true, true]];
                    assert!(!panics[n][usize::from(call == LOGGED)], "on purpose");
                });
                let options = WriteOptions::default();
                let written = catch_unwind(AssertUnwindSafe(|| {
                    db.write_with_callback(&one(&[n as u8], b"1"), &options, &follower)
                }));
                match (n, written) {
                    (0, Ok(written)) => written.expect("nothing fails"),
                    (0, Err(_)) => panic!("a write without a panic panicked"),
                    (_, written) => assert!(written.is_err(), "the panic of {n} is lost"),
                }
                assert_eq!(follower.calls(), [ENQUEUED, LOGGED]);
                assert_eq!(get(db, &[n as u8]), Some(b"1".to_vec()));
            });
        }
    });
    assert_eq!(get(&db, b"leader"), Some(b"1".to_vec()));
    assert_eq!(db.latest_sequence(), SequenceNumber(FOLLOWERS as u64 + 1));
}

/// A lock that is released when the write is queued.
struct Releases<'a>(Mutex<Option<MutexGuard<'a, u64>>>);

impl WriteCallback for Releases<'_> {
    fn on_write_enqueued(&self) {
        drop(self.0.lock().take());
    }
}

#[test]
fn writes_that_are_queued_under_a_lock_have_the_order_of_the_lock() {
    const WRITES: u64 = 400;
    let family = FamilyOptions::default();
    let db = open_with(&World::in_memory(), &db_options(), &family).unwrap();
    let (next, failures) = (Mutex::new(0_u64), AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..6_u64 {
            let (db, next, failures) = (&db, &next, &failures);
            scope.spawn(move || {
                for n in 0..WRITES {
                    let mut number = next.lock();
                    *number += 1;
                    let batch = one(&number.to_be_bytes(), b"1");
                    let options = WriteOptions {
                        sync: (thread + n) % 5 == 0,
                        ..WriteOptions::default()
                    };
                    let releases = Releases(Mutex::new(Some(number)));
                    let written = db.write_with_callback(&batch, &options, &releases);
                    failures.fetch_add(u64::from(written.is_err()), SeqCst);
                }
            });
        }
    });
    assert_eq!(failures.into_inner(), 0);
    let mut logged = db.updates_since(SequenceNumber(1)).unwrap();
    let mut last = 0;
    while logged.valid() {
        let (_, batch) = logged.batch().unwrap();
        for record in batch.records() {
            let cairn_db::Record::Put { key, .. } = record.unwrap() else {
                panic!("only puts were written");
            };
            let number = u64::from_be_bytes(key.try_into().unwrap());
            assert_eq!(number, last + 1, "the order of the lock is that of the log");
            last = number;
        }
        logged.next();
    }
    logged.status().unwrap();
    assert_eq!(last, 6 * WRITES);
}

/// Jobs need no lead: a flush ends while a callback holds it.
#[test]
fn reads_and_a_flush_without_waiting_go_on_in_a_callback() {
    let db = database(&db_options());
    db.put(b"before", b"1").unwrap();
    let seen: Mutex<Vec<Option<Error>>> = Mutex::default();
    let noted = Noted::running(|_| {
        assert_eq!(get(&db, b"before"), Some(b"1".to_vec()));
        let snapshot = db.snapshot();
        let mut iter = db.iter();
        iter.seek_to_first();
        assert!(iter.valid() && snapshot.sequence() >= SequenceNumber(1));
        let compact = db.compact_range(None, None, &CompactRangeOptions::default());
        let flush = db.flush_with(&FlushOptions::default());
        seen.lock().extend([compact.err(), flush.err()]);
    });
    let options = WriteOptions::default();
    db.write_with_callback(&one(b"k", b"1"), &options, &noted)
        .unwrap();
    for refused in seen.into_inner() {
        let refused = refused.expect("a wait is refused");
        assert_eq!(refused.code(), Code::Busy);
        assert!(refused.text().contains("write callback"), "{refused}");
    }
}
