//! Callbacks of the program: even if they panic or use the database, the operation and all later ones end.

mod kinds;
mod led;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::time::Duration;

use cairn_db::{
    ColumnFamilyMetaDataOptions, Db, FamilyDescriptor, OpenRequest, Range,
    SizeApproximationOptions, WriteBatch, open,
};
use cairn_observe::{Level, LogSink};
use cairn_options::{
    CompactRangeOptions, DbOptions, FamilyOptions, FlushOptions, Plugin, ReadOptions, TableFilter,
    WaitForCompactOptions,
};
use cairn_platform::World;
use cairn_platform::sync::Mutex;
use cairn_types::{Code, FileNumber, Result, WalDecision, WalFilter};

use crate::basic::db_options;
use kinds::{Callee, TABLE_FILTER, caught, install, only_hears, panic_on_purpose};

/// The use of the database in a case while its callee is armed.
const PHASES: [&str; 10] = [
    "put",
    "batch",
    "merge",
    "get",
    "scan",
    "flush",
    "compact",
    "set options",
    "ingest over a memtable",
    "close",
];

/// A use of the database by a callee that it calls.
type Use = (&'static str, fn(&Db) -> Result<()>);

const USES: [Use; 34] = [
    ("put", |db| db.put(b"key5", b"used")),
    ("get", |db| db.get(&key(1)).map(drop)),
    ("multi get", |db| {
        let found = db.multi_get(&[key(1), key(2)], &ReadOptions::default());
        found.into_iter().try_for_each(|one| one.map(drop))
    }),
    ("iterator", |db| {
        let mut iter = db.iter();
        iter.seek_to_first();
        iter.status()
    }),
    ("snapshot", |db| {
        drop(db.snapshot());
        Ok(())
    }),
    ("flush", |db| db.flush()),
    ("flush without waiting", |db| {
        let options = FlushOptions {
            wait: false,
            ..FlushOptions::default()
        };
        db.default_family().flush_with(&options)
    }),
    ("set options", |db| {
        let changed = [("level0_slowdown_writes_trigger", "40")];
        db.default_family().set_options(&changed)
    }),
    ("set database options", |db| {
        db.set_db_options(&[("max_background_jobs", "3")])
    }),
    ("compact", compact),
    ("suggest compaction", |db| {
        db.default_family().suggest_compact_range(None, None)
    }),
    ("delete files", |db| {
        let range = (Some(&b"x"[..]), Some(&b"y"[..]));
        db.default_family().delete_files_in_ranges(&[range], false)
    }),
    ("create and drop a family", |db| {
        let family = db.create_family("used", &FamilyOptions::default())?;
        db.drop_family(&family)
    }),
    ("export", |db| db.export("/export".as_ref()).map(drop)),
    ("checkpoint", |db| {
        db.create_checkpoint("/checkpoint".as_ref(), 0).map(drop)
    }),
    ("checkpoint with the log", |db| {
        let all = db.create_checkpoint("/checkpoint".as_ref(), u64::MAX);
        all.map(drop)
    }),
    ("sync the log", Db::sync_wal),
    ("lock the log", |db| {
        db.lock_wal()?;
        db.unlock_wal()
    }),
    ("logs", |db| db.sorted_wal_files().map(drop)),
    ("current log", |db| db.current_wal_file().map(drop)),
    ("updates", |db| {
        db.updates_since(db.latest_sequence()).map(drop)
    }),
    ("keep files", |db| {
        db.disable_file_deletions()?;
        db.enable_file_deletions()
    }),
    ("live files", |db| db.live_files(false).map(drop)),
    ("live files and a flush", |db| db.live_files(true).map(drop)),
    ("metadata", |db| {
        drop(db.live_files_metadata());
        drop(db.metadata(&ColumnFamilyMetaDataOptions::default()));
        drop(db.live_files_checksum_info());
        Ok(())
    }),
    ("properties", |db| {
        for name in Db::property_names() {
            let _text = db.property(name);
            let _number = db.property_number(name);
            let _map = db.property_map(name);
        }
        Ok(())
    }),
    ("sizes", |db| {
        let range = Range::new(b"a", b"z");
        let _stats = db.default_family().approximate_memtable_stats(&range);
        let options = SizeApproximationOptions::default();
        let sizes = db.default_family().approximate_sizes(&[range], &options);
        sizes.map(drop)
    }),
    ("background error", |db| {
        drop(db.background_error_state());
        drop(db.damaged_tables());
        Ok(())
    }),
    ("resume", Db::resume),
    ("pause", |db| {
        db.pause_background_work();
        db.continue_background_work()
    }),
    ("disable manual compaction", |db| {
        db.disable_manual_compaction();
        db.enable_manual_compaction();
        Ok(())
    }),
    ("wait for compactions", |db| {
        db.wait_for_compact(&WaitForCompactOptions::default())
    }),
    ("cancel background work", |db| {
        db.cancel_all_background_work(true)
    }),
    ("close", Db::close),
];

fn key(n: u32) -> Vec<u8> {
    format!("key{:04}", n * 37 % 100).into_bytes()
}

/// Creates a database with the default family only.
fn open_in_memory(options: &DbOptions, family: FamilyOptions) -> Db {
    open(&OpenRequest {
        path: Path::new("/db"),
        options,
        families: &[FamilyDescriptor::new("default", family)],
        others: None,
        read_only: false,
        world: World::in_memory(),
    })
    .expect("it opens")
}

/// Creates a database with the callback of `kind`, with data in memory and in two tables.
fn database(kind: &'static str, callee: &Arc<Callee>) -> Db {
    let mut options = db_options();
    let mut family = FamilyOptions {
        level0_file_num_compaction_trigger: 3,
        level0_slowdown_writes_trigger: 3,
        level0_stop_writes_trigger: 60,
        ..FamilyOptions::default()
    };
    install(kind, callee, &mut options, &mut family);
    let db = open_in_memory(&options, family);
    for _ in 0..2 {
        for n in 0..20 {
            db.put(&key(n), b"before").expect("nothing fails");
            db.default_family()
                .merge(&key(n), b"+")
                .expect("nothing fails");
        }
        db.flush().expect("nothing fails");
    }
    for n in 0..20 {
        db.put(&key(n), b"after").expect("nothing fails");
        db.default_family()
            .merge(&key(n), b"+")
            .expect("nothing fails");
    }
    led::write_table(&db, &[b"key0000", b"key0037"]);
    db
}

fn scan(db: &Db, callee: &Arc<Callee>, kind: &str) -> Result<()> {
    let mut options = ReadOptions::default();
    if kind == TABLE_FILTER {
        let callee = callee.clone();
        options.table_filter = TableFilter::new(move |_| {
            callee.called();
            true
        });
    }
    let mut iter = db.default_family().iter_with(&options);
    iter.seek(&key(3));
    iter.seek_to_first();
    while iter.valid() {
        iter.next();
    }
    iter.status()
}

fn compact(db: &Db) -> Result<()> {
    let all = CompactRangeOptions::default();
    db.default_family().compact_range(None, None, &all)
}

fn run(phase: &str, db: &Db, callee: &Arc<Callee>, kind: &str) -> Result<()> {
    match phase {
        "put" => (30..50).try_for_each(|n| db.put(&key(n), b"put")),
        "batch" => {
            let mut batch = WriteBatch::new();
            for n in 50..70 {
                batch.put(&key(n), b"batch");
                batch.merge_in(db.default_family(), &key(n), b"+");
            }
            batch.delete_range_in(db.default_family(), b"key00", b"key01");
            db.write(&batch)
        }
        "merge" => (0..20).try_for_each(|n| db.default_family().merge(&key(n % 3), b"+")),
        "get" => (0..20).try_for_each(|n| db.get(&key(n)).map(drop)),
        "scan" => scan(db, callee, kind),
        "flush" => db.flush(),
        "compact" => compact(db),
        "set options" => db
            .default_family()
            .set_options(&[("level0_slowdown_writes_trigger", "1")]),
        "ingest over a memtable" => led::ingest(db),
        _ => db.close(),
    }
}

/// Runs `case` on its own thread. The time limit only ends a test that hangs.
#[expect(
    clippy::disallowed_methods,
    reason = "a case that hangs outlives its test, which a scoped thread could not"
)]
pub fn within_bounds(name: String, case: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let runner = std::thread::spawn(move || {
        case();
        // The other end waits for the message.
        let _ = done.send(());
    });
    match ended.recv_timeout(Duration::from_secs(120)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{name}: hangs"),
        _ => assert!(runner.join().is_ok(), "{name}"),
    }
}

/// Waits until no job is running. A wait for quiet ends earlier in a broken database: shortly before writes are refused.
fn wait_for_jobs(db: &Db) {
    let runs = |name| db.property_number(name).is_some_and(|jobs| jobs > 0);
    while runs("rocksdb.num-running-flushes") || runs("rocksdb.num-running-compactions") {
        std::thread::yield_now();
    }
}

/// Regardless of the earlier events, writes, reads, flushes and closing end. They fail if and only if the
/// database is broken; the job that breaks it may end meanwhile.
fn goes_on(name: &str, db: &Db) {
    wait_for_jobs(db);
    let is_broken = || db.background_error_state().is_some();
    let agrees = |before: bool, result: &Result<()>| {
        let is_right = match result {
            Ok(()) => !before,
            Err(_) => is_broken(),
        };
        assert!(is_right, "{name}: broken: {before}, {result:?}");
    };
    let before = is_broken();
    let written = db.put(b"later", b"1");
    let code = written.as_ref().map_err(cairn_types::Error::code);
    if code != Err(Code::ShutdownInProgress) {
        agrees(before, &written);
        let read = db.get(b"later").expect("reads succeed");
        assert_eq!(read.is_some(), written.is_ok(), "{name}");
        let before = is_broken();
        agrees(before, &db.flush());
    }
    db.get(&key(1)).expect("reads succeed");
    let closed = db.close();
    assert!(is_broken() || closed.is_ok(), "{name}: {closed:?}");
}

#[test]
fn a_callee_that_panics_fails_its_operation_and_no_thread_waits_forever() {
    for kind in kinds::all() {
        let called: Arc<Mutex<usize>> = Arc::default();
        for phase in PHASES {
            let called = called.clone();
            let name = format!("{kind} during {phase}");
            within_bounds(name.clone(), move || {
                let callee = Arc::new(Callee::default());
                let db = database(kind, &callee);
                *callee.act.lock() = Some(Arc::new(panic_on_purpose));
                callee.armed.store(true, SeqCst);
                let ran = caught(|| run(phase, &db, &callee, kind));
                // Jobs that have started find the callee in the same state as the phase.
                let quiet = caught(|| db.wait_until_quiet());
                callee.armed.store(false, SeqCst);
                if callee.calls.load(SeqCst) > 0 {
                    *called.lock() += 1;
                    let failed = ran.is_err() || quiet.is_err();
                    let broken = db.background_error_state().is_some();
                    // An operand that cannot be merged early is merged by the next read.
                    let later = kind == "merge operator, early" && phase == "merge";
                    assert!(
                        failed || broken || later || only_hears(kind),
                        "{name}: {ran:?}"
                    );
                    if later && !broken {
                        let value = db
                            .get(&key(0))
                            .expect("reads succeed")
                            .expect("it is there");
                        assert_eq!(&*value, b"after++++++++", "{name}");
                    }
                }
                goes_on(&name, &db);
            });
        }
        assert!(*called.lock() > 0, "{kind} is never called");
    }
}

#[test]
fn a_group_whose_members_panic_releases_all_writers() {
    within_bounds("writers".to_owned(), || {
        let callee = Arc::new(Callee::default());
        let db = database("comparator", &callee);
        *callee.act.lock() = Some(Arc::new(panic_on_purpose));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (db, callee) = (&db, &callee);
                scope.spawn(move || {
                    for n in 0..200 {
                        if thread == 0 && n == 100 {
                            callee.armed.store(true, SeqCst);
                        }
                        // They succeed until one panics, and fail from then on.
                        let _ = db.put(&key(100 * thread + n), b"1");
                    }
                });
            }
        });
        callee.armed.store(false, SeqCst);
        let error = db.background_error_state().expect("an insertion panicked");
        assert!(error.error.text().contains("panicked"), "{}", error.error);
        goes_on("writers", &db);
    });
}

#[test]
fn a_callee_that_uses_the_database_is_served_or_gets_the_restriction() {
    let kinds: Vec<&str> = kinds::all().collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let answers: Vec<[usize; 2]> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                let kinds = kinds.iter().skip(thread).step_by(threads);
                scope.spawn(|| kinds.map(|kind| uses(kind)).collect::<Vec<_>>())
            })
            .collect();
        let done = threads.into_iter().map(|thread| thread.join().unwrap());
        done.flatten().collect()
    });
    let [served, refused] = answers.iter().fold([0, 0], |sum, answers| {
        [sum[0] + answers[0], sum[1] + answers[1]]
    });
    assert!(
        served > 100 && refused > 50,
        "{served} served, {refused} refused"
    );
}

/// Runs every phase with every use of the database in the callback of this kind. Returns the numbers of uses that
/// succeeded and that were rejected.
fn uses(kind: &'static str) -> [usize; 2] {
    let [mut served, mut refused] = [0, 0];
    for phase in PHASES {
        for (what, act) in USES {
            let name = format!("{kind} during {phase} uses {what}");
            let Some(answer) = use_once(kind, phase, &name, act) else {
                // This phase does not call the callback, so the other uses cannot run.
                break;
            };
            let closes = what == "close" || phase == "close";
            match answer {
                Ok(()) => served += 1,
                Err(error) if error.text().contains("may not") => refused += 1,
                Err(error) if closes && error.code() == Code::ShutdownInProgress => {}
                // In the error passed to it.
                Err(error) if kind == "background error" => drop(error),
                Err(error) => panic!("{name}: {error}"),
            }
        }
    }
    [served, refused]
}

/// Runs `phase` once, with `act` in the callback of this kind. Returns the result of `act`, or `None` if the phase does
/// not call the callback.
fn use_once(
    kind: &'static str,
    phase: &'static str,
    name: &str,
    act: fn(&Db) -> Result<()>,
) -> Option<Result<()>> {
    let answer: Arc<Mutex<Option<Result<()>>>> = Arc::default();
    let told = answer.clone();
    let case = name.to_owned();
    within_bounds(name.to_owned(), move || {
        let callee = Arc::new(Callee::default());
        let db = database(kind, &callee);
        let used = db.clone();
        *callee.act.lock() = Some(Arc::new(move || {
            let result = caught(|| act(&used));
            *told.lock() = Some(result);
        }));
        callee.once.store(true, SeqCst);
        callee.armed.store(true, SeqCst);
        // Its result is checked by another test.
        let _ = caught(|| run(phase, &db, &callee, kind));
        let _ = caught(|| db.wait_until_quiet());
        callee.armed.store(false, SeqCst);
        goes_on(&case, &db);
        // The callee has a handle, and its database has the callee.
        *callee.act.lock() = None;
    });
    answer.lock().take()
}

/// Uses the database for the first line about a stall.
struct UsesInStall {
    act: fn(&Db) -> Result<()>,
    db: Mutex<Option<Db>>,
    answer: Mutex<Option<Result<()>>>,
}

impl LogSink for UsesInStall {
    fn log(&self, _: Level, message: &str) {
        if !message.contains("Stalling writes") {
            return;
        }
        let db = self.db.lock().take();
        if let Some(db) = db {
            let answer = caught(|| (self.act)(&db));
            *self.answer.lock() = Some(answer);
        }
    }
}

/// Regression: an info log can use the database for lines about stalls, which are written without the lock of the tree.
#[test]
fn an_info_log_that_uses_the_database_in_a_stall_is_served_or_gets_the_restriction() {
    for (what, act) in USES {
        let name = format!("a line about stalls uses {what}");
        within_bounds(name.clone(), move || {
            let sink = Arc::new(UsesInStall {
                act,
                db: Mutex::default(),
                answer: Mutex::default(),
            });
            let options = DbOptions {
                info_log: Some(sink.clone()),
                ..db_options()
            };
            let family = FamilyOptions {
                level0_file_num_compaction_trigger: 2,
                level0_slowdown_writes_trigger: 2,
                ..FamilyOptions::default()
            };
            let db = open_in_memory(&options, family);
            *sink.db.lock() = Some(db.clone());
            for n in 0..3 {
                db.put(&key(n), b"1").expect("nothing fails");
                db.flush().expect("nothing fails");
            }
            db.wait_until_quiet().expect("nothing fails");
            let answer = sink.answer.lock().take().expect("writes were stalled");
            let text = answer.map_err(|error| error.text().to_owned());
            assert!(
                text.clone()
                    .err()
                    .is_none_or(|text| text.contains("may not")),
                "{name}: {text:?}"
            );
            goes_on(&name, &db);
        });
    }
}

/// Panics at the first record.
struct Shaky;

impl WalFilter for Shaky {
    fn name(&self) -> &str {
        "shaky"
    }
    fn record(&self, _: FileNumber, _: &str, _: &[u8]) -> WalDecision {
        panic_on_purpose();
        WalDecision::Continue
    }
}

#[test]
fn a_log_filter_that_panics_fails_the_opening_and_leaves_no_lock() {
    let world = World::in_memory();
    let open_as = |options: &DbOptions| {
        let request = OpenRequest {
            path: Path::new("/db"),
            options,
            families: &[],
            others: Some(&FamilyOptions::default()),
            read_only: false,
            world: world.clone(),
        };
        open(&request)
    };
    let db = open_as(&db_options()).unwrap();
    db.put(b"k", b"1").unwrap();
    db.close().unwrap();
    let shaky = DbOptions {
        wal_filter: Plugin::Object(Arc::new(Shaky)),
        ..db_options()
    };
    caught(|| open_as(&shaky).map(drop)).unwrap_err();
    let db = open_as(&db_options()).unwrap();
    assert!(db.get(b"k").unwrap().is_some());
    db.close().unwrap();
}
