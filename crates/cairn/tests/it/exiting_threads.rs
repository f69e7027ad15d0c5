//! Operations from the destructor of a thread-local value of the program, after the engine's thread-local data is gone.

use std::cell::Cell;
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, mpsc};

use cairn::backup::{BackupEngineOptions, CreateBackupOptions};
use cairn::observe::perf::{self, PerfLevel, PerfMetric};
use cairn::observe::threads;
use cairn::observe::{EventListener, FlushJobInfo, Ticker};
use cairn::transactions::{TransactionDbOptions, TransactionOptions};
use cairn::{
    BackupEngine, CompactRangeOptions, Comparator, Db, KeyOrder, MultiScanArgs, Options,
    ReadOptions, ScanRange, TransactionDb, WriteBatch, WriteOptions,
};
use tempfile::TempDir;

/// Runs when the thread ends.
#[derive(Default)]
struct AtEnd(Cell<Option<Box<dyn FnOnce()>>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run();
        }
    }
}

thread_local! {
    static AT_END: AtEnd = AtEnd::default();
}

/// Calls `work` on a thread, and again when the thread ends, after the destruction of thread-local values that the first call
/// created.
fn at_thread_end<D: Send + Sync + 'static>(database: D, work: fn(&D)) {
    let (done, result) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let database = Arc::new(database);
        let kept = database.clone();
        // The value that was created first is destroyed last.
        AT_END.with(|at_end| {
            at_end.0.set(Some(Box::new(move || {
                let worked = catch_unwind(AssertUnwindSafe(move || work(&kept)));
                done.send(worked).unwrap();
            })));
        });
        work(&database);
    });
    thread.join().unwrap();
    if let Err(panic) = result.recv().unwrap() {
        resume_unwind(panic);
    }
}

/// The bytewise order, as the program's own.
struct Own;

impl Comparator for Own {
    fn name(&self) -> &str {
        "own"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    fn different_bytes_may_be_equal(&self) -> bool {
        false
    }
}

struct Listener;

impl EventListener for Listener {
    fn on_flush_completed(&self, _info: &FlushJobInfo) {
        assert!(!threads::list().is_empty());
    }
}

fn options() -> Options {
    let text = "enable_thread_tracking=true;compression=kZSTD;merge_operator=stringappend;\
                block_based_table_factory={no_block_cache=true}";
    let options = Options::default().create_if_missing(true).text(text);
    options.unwrap().listener(Arc::new(Listener))
}

fn filled(options: &Options) -> (Db, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), options).unwrap();
    for key in 0..100 {
        db.put(&[key], &[b'v'; 1000]).unwrap();
    }
    db.flush().unwrap();
    db.put(b"in memory", b"").unwrap();
    (db, dir)
}

fn opened() -> (Db, TempDir) {
    filled(&options())
}

#[test]
fn gets() {
    at_thread_end(opened(), |(db, _)| {
        assert_eq!(db.get(&[7]).unwrap().unwrap().len(), 1000);
        assert!(db.get(b"in memory").unwrap().is_some());
        assert!(db.get(b"missing").unwrap().is_none());
    });
}

#[test]
fn batches_of_gets() {
    at_thread_end(opened(), |(db, _)| {
        let values = db.multi_get(&[[3], [4], [200]], &ReadOptions::default());
        let found: Vec<_> = values.into_iter().map(|v| v.unwrap().is_some()).collect();
        assert_eq!(found, [true, true, false]);
    });
}

#[test]
fn awaited_gets() {
    at_thread_end(opened(), |(db, _)| {
        assert!(pollster::block_on(db.get_async(&[7])).unwrap().is_some());
        assert!(
            pollster::block_on(db.get_async(b"in memory"))
                .unwrap()
                .is_some()
        );
    });
}

#[test]
fn scans() {
    at_thread_end(opened(), |(db, _)| {
        let mut iter = db.iter();
        iter.seek(&[50]);
        iter.prev();
        assert_eq!(iter.key(), [49]);
        assert_eq!(db.iter().into_iter().count(), 101);
        let range = ScanRange {
            start: vec![10],
            limit: Some(vec![20]),
        };
        let args = MultiScanArgs {
            ranges: vec![range],
            ..MultiScanArgs::default()
        };
        let mut scan = db.multi_scan(&ReadOptions::default(), args).unwrap();
        assert_eq!(scan.next_range().unwrap().count(), 10);
    });
}

#[test]
fn writes() {
    at_thread_end(opened(), |(db, _)| {
        db.put(b"key", b"1").unwrap();
        db.merge(b"key", b"2").unwrap();
        assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"1,2"[..]));
        db.delete(b"key").unwrap();
        let mut batch = WriteBatch::new();
        batch.put(b"key", b"1");
        batch.delete_range(b"a", b"b");
        db.write(&batch).unwrap();
    });
}

#[test]
fn jobs() {
    at_thread_end(opened(), |(db, _)| {
        db.put(b"key", b"1").unwrap();
        db.flush().unwrap();
        let all = CompactRangeOptions::default();
        db.compact_range(None, None, &all).unwrap();
        assert!(db.get(b"key").unwrap().is_some());
    });
}

#[test]
fn operations_with_a_comparator() {
    let mut options = options();
    options.family.comparator = KeyOrder::Custom(Arc::new(Own));
    at_thread_end(filled(&options), |(db, _)| {
        db.put(b"key", b"1").unwrap();
        // The key "a" is one of the hundred.
        db.delete_range(b"a", b"b").unwrap();
        assert!(db.get(b"key").unwrap().is_some());
        assert_eq!(db.iter().into_iter().count(), 101);
        db.flush().unwrap();
    });
}

#[test]
fn transactions() {
    let dir = tempfile::tempdir().unwrap();
    let builder = Db::builder(dir.path().join("db")).options(options());
    let db = builder.open_transactional(&TransactionDbOptions::default());
    let database = (db.unwrap(), dir);
    at_thread_end(database, |(db, _): &(TransactionDb, TempDir)| {
        let (write, options) = (WriteOptions::default(), TransactionOptions::default());
        let mut transaction = db.begin_with(&write, &options);
        transaction.put(b"key", b"1").unwrap();
        let read = ReadOptions::default();
        assert!(transaction.get_for_update(b"key", &read).unwrap().is_some());
        assert!(transaction.iter(&read).into_iter().count() > 0);
        transaction.commit().unwrap();
        db.put(b"key", b"2").unwrap();
    });
}

#[test]
fn backups() {
    at_thread_end(opened(), |(db, dir)| {
        let options = BackupEngineOptions::new(dir.path().join("backups"));
        let backups = BackupEngine::open(&options).unwrap();
        let create = CreateBackupOptions {
            progress: Some(Arc::new(|_| ())),
            ..CreateBackupOptions::default()
        };
        let id = backups.create(db, &create).unwrap();
        backups.verify_backup(id, true).unwrap();
    });
}

#[test]
fn counters() {
    at_thread_end(opened(), |(db, _)| {
        perf::set_level(PerfLevel::EnableTime);
        perf::reset();
        db.get(&[7]).unwrap();
        assert_eq!(perf::metric(PerfMetric::GetReadBytes), 1000);
        assert!(db.statistics().unwrap().ticker(Ticker::NumberKeysRead) > 0);
        assert!(db.property("rocksdb.stats").is_some());
    });
}

#[test]
fn opening_and_closing() {
    at_thread_end(tempfile::tempdir().unwrap(), |dir| {
        let db = Db::open(dir.path().join("db"), &options()).unwrap();
        db.put(b"key", b"1").unwrap();
        db.close().unwrap();
    });
}
