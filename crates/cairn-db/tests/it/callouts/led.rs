//! Callbacks that use the database while the leader of the write queue waits for their job, or compares keys.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use cairn_db::{Db, LiveFilesStorageInfoOptions, Snapshot, SstFileWriter};
use cairn_memory::WriteBufferManager;
use cairn_options::{DbOptions, FamilyOptions, IngestExternalFileOptions, ReadOptions};
use cairn_platform::sync::Mutex;
use cairn_types::{Code, Result};

use super::kinds::{Callee, caught, install};
use super::{USES, goes_on, key, open_in_memory, within_bounds};
use crate::basic::db_options;

/// The file that tests ingest.
const TABLE: &str = "/ingested.sst";

/// Writes a table with `keys`, which ascend.
pub fn write_table(db: &Db, keys: &[&[u8]]) {
    let mut writer = SstFileWriter::for_family(db.default_family());
    writer.open(Path::new(TABLE)).expect("it is created");
    for key in keys {
        writer.put(key, b"ingested").expect("it is written");
    }
    writer.finish().expect("it is finished");
}

pub fn ingest(db: &Db) -> Result<()> {
    db.ingest_external_file([TABLE], &IngestExternalFileOptions::default())
}

/// Calls `act` in the next call of `callee`, and returns its result once `run` has ended.
fn answer_in(
    callee: &Arc<Callee>,
    act: impl Fn() -> Result<()> + Send + Sync + 'static,
    run: impl FnOnce(),
) -> Result<()> {
    let answer: Arc<Mutex<Option<Result<()>>>> = Arc::default();
    let told = answer.clone();
    *callee.act.lock() = Some(Arc::new(move || {
        *told.lock() = Some(caught(&act));
    }));
    callee.once.store(true, SeqCst);
    callee.armed.store(true, SeqCst);
    run();
    *callee.act.lock() = None;
    let answer = answer.lock().take();
    answer.expect("the callback was called")
}

/// Regression: a callback of a flush that wrote while the write buffer manager stalled writes waited for its own flush.
#[test]
fn a_callback_of_a_flush_that_writes_during_a_stall_for_memory_gets_busy() {
    within_bounds("a stall for memory".to_owned(), || {
        let manager = Arc::new(WriteBufferManager::new(400_000, None, true));
        let callee = Arc::new(Callee::default());
        let mut options = DbOptions {
            write_buffer_manager: Some(manager.clone()),
            ..db_options()
        };
        let mut family = FamilyOptions::default();
        install("flush begin", &callee, &mut options, &mut family);
        let db = open_in_memory(&options, family);
        let used = db.clone();
        let act = move || {
            while !manager.should_stall() {
                std::thread::yield_now();
            }
            used.put(b"used", b"1")
        };
        let answer = answer_in(&callee, act, || {
            for n in 0..1000_u32 {
                db.put(&n.to_be_bytes(), &[7; 1000]).expect("it is written");
            }
        });
        assert_eq!(answer.map_err(|error| error.code()), Err(Code::Busy));
        assert!(db.get(b"used").expect("reads succeed").is_none());
        goes_on("a stall for memory", &db);
    });
}

/// Regression: a callback of the flush that precedes a copy of values in blob files waited for its own flush.
#[test]
fn a_callback_of_a_flush_for_live_files_that_writes_gets_busy() {
    for kind in ["flush begin", "table started"] {
        within_bounds(kind.to_owned(), move || {
            let callee = Arc::new(Callee::default());
            let mut options = db_options();
            let mut family = FamilyOptions {
                enable_blob_files: true,
                enable_blob_direct_write: true,
                ..FamilyOptions::default()
            };
            install(kind, &callee, &mut options, &mut family);
            let db = open_in_memory(&options, family);
            db.put(b"key", &[7; 10_000]).expect("it is written");
            let used = db.clone();
            let act = move || used.put(b"used", b"1");
            let answer = answer_in(&callee, act, || {
                let files = db.live_files_storage_info(&LiveFilesStorageInfoOptions {
                    wal_size_for_flush: u64::MAX,
                    ..LiveFilesStorageInfoOptions::default()
                });
                assert!(!files.expect("it succeeds").is_empty());
            });
            assert_eq!(answer.map_err(|error| error.code()), Err(Code::Busy));
            goes_on(kind, &db);
        });
    }
}

/// A database with the comparator of `callee`, and a table to ingest that overlaps one of its tables.
fn with_comparator(callee: &Arc<Callee>) -> Db {
    let mut options = db_options();
    let mut family = FamilyOptions::default();
    install("comparator", callee, &mut options, &mut family);
    let db = open_in_memory(&options, family);
    for n in 0..8 {
        db.put(&key(n), b"before").expect("it is written");
    }
    db.flush().expect("it is flushed");
    db.put(b"z", b"in memory").expect("it is written");
    write_table(&db, &[b"key0000", b"key0001"]);
    db
}

/// Regression: a comparator that used the database while an ingestion compared keys waited for its own thread.
#[test]
fn a_comparator_that_uses_the_database_in_an_ingestion_is_served_or_gets_the_restriction() {
    let tested = [
        "put",
        "get",
        "iterator",
        "snapshot",
        "flush",
        "compact",
        "create and drop a family",
        "live files and a flush",
    ];
    let mut refused = 0;
    for (what, act) in USES.into_iter().filter(|(what, _)| tested.contains(what)) {
        let texts: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = texts.clone();
        within_bounds(what.to_owned(), move || {
            let callee = Arc::new(Callee::default());
            let db = with_comparator(&callee);
            let (used, again) = (db.clone(), Arc::downgrade(&callee));
            *callee.act.lock() = Some(Arc::new(move || {
                if let Err(error) = caught(|| act(&used)) {
                    told.lock().push(error.to_string());
                }
                if let Some(callee) = again.upgrade() {
                    callee.armed.store(true, SeqCst);
                }
            }));
            callee.once.store(true, SeqCst);
            callee.armed.store(true, SeqCst);
            ingest(&db).expect("it succeeds");
            callee.armed.store(false, SeqCst);
            // The last call may be one of a job.
            db.wait_until_quiet().expect("nothing fails");
            *callee.act.lock() = None;
            callee.armed.store(false, SeqCst);
            goes_on(what, &db);
        });
        let texts = texts.lock();
        let other = texts.iter().find(|text| !text.contains("may not"));
        assert_eq!(other, None, "{what}");
        refused += texts.len();
    }
    assert!(refused > 20, "{refused}");
}

/// A snapshot that a comparator takes during an ingestion does not see the files, or the ingestion fails.
#[test]
fn a_snapshot_by_a_comparator_in_an_ingestion_is_consistent() {
    let mut failed = 0;
    for n in 1.. {
        let callee = Arc::new(Callee::default());
        let db = with_comparator(&callee);
        let taken: Arc<Mutex<Option<Snapshot>>> = Arc::default();
        let (used, kept) = (db.clone(), taken.clone());
        let again = Arc::downgrade(&callee);
        *callee.act.lock() = Some(Arc::new(move || {
            let Some(callee) = again.upgrade() else {
                return;
            };
            match callee.calls.load(SeqCst) == n {
                true => *kept.lock() = Some(used.snapshot()),
                false => callee.armed.store(true, SeqCst),
            }
        }));
        callee.once.store(true, SeqCst);
        callee.armed.store(true, SeqCst);
        let ingested = ingest(&db);
        callee.armed.store(false, SeqCst);
        *callee.act.lock() = None;
        let Some(snapshot) = taken.lock().take() else {
            break;
        };
        match ingested {
            Err(error) => {
                assert_eq!(error.code(), Code::Busy, "{error}");
                failed += 1;
            }
            Ok(()) => {
                let options = ReadOptions {
                    snapshot: Some(snapshot.sequence()),
                    ..ReadOptions::default()
                };
                let seen = db.default_family().get_with(b"key0001", &options);
                assert!(seen.expect("reads succeed").is_none(), "call {n}");
            }
        }
        drop(snapshot);
        db.close().expect("it closes");
    }
    assert!(failed > 0, "a snapshot is taken while the files are placed");
}
