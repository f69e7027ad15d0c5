//! Query traces: the recorded operations, their replay on another database, and failures of the trace.

use std::path::Path;
use std::sync::Arc;

use cairn_db::{
    Db, FamilyDescriptor, FileTraceReader, FileTraceWriter, OpenRequest, Query, ReplayOptions,
    Replayed, Replayer, SampledTraceOptions, Seek, TraceFilter, TraceOptions, TraceReader,
    TraceRecord, TraceWriter, WriteBatch, open,
};
use cairn_options::{DbOptions, FamilyOptions, ReadOptions, WriteOptions};
use cairn_platform::World;
use cairn_platform::fs::FileMode;
use cairn_platform::sync::Mutex;
use cairn_sim::fault::{FaultPlan, FaultRule, Trigger};
use cairn_sim::trace::Call;
use cairn_sim::{Fault, SimWorld};
use cairn_types::{Code, Error, Result};

use crate::basic::{db_options, small};
use crate::opening::read_only;

const TRACE: &str = "/queries.trace";

pub(crate) fn open_db(world: &World, path: &str) -> Db {
    let families = [
        FamilyDescriptor::new("default", small()),
        FamilyDescriptor::new("other", small()),
    ];
    let options = DbOptions {
        create_missing_column_families: true,
        allow_2pc: true,
        ..db_options()
    };
    let opened = open(&OpenRequest {
        path: Path::new(path),
        options: &options,
        families: &families,
        others: None,
        read_only: false,
        world: world.clone(),
    });
    opened.expect("a new database opens")
}

pub(crate) fn start(db: &Db, options: &TraceOptions) {
    start_at(db, Path::new(TRACE), options).expect("it starts");
}

fn start_at(db: &Db, path: &Path, options: &TraceOptions) -> Result<()> {
    db.start_trace(options, || {
        Ok(Box::new(FileTraceWriter::create(db.world(), path)?))
    })
}

fn reader(world: &World) -> Box<dyn TraceReader> {
    Box::new(FileTraceReader::open(world, Path::new(TRACE)).expect("the trace exists"))
}

/// Replays the trace on `db` with handles of all families.
fn replayer(db: &Db) -> Replayer {
    let other = db.family("other").expect("it exists");
    let mut replayer = Replayer::new(db, &[&other], reader(db.world())).expect("its family");
    replayer.prepare().expect("a header");
    replayer
}

/// The operations in the trace.
fn records(db: &Db) -> Vec<TraceRecord> {
    let mut replayer = replayer(db);
    let mut all = Vec::new();
    loop {
        match replayer.next() {
            Ok(record) => all.push(record),
            Err(error) => {
                assert_eq!(error.code(), Code::Incomplete, "{error}");
                return all;
            }
        }
    }
}

/// The keys of the writes in the trace.
pub(crate) fn written_keys(db: &Db) -> Vec<String> {
    let mut keys = Vec::new();
    for record in records(db) {
        let Ok(Query::Write(batch)) = record.query() else {
            continue;
        };
        for record in WriteBatch::from_data(batch).expect("a batch").records() {
            if let cairn_db::Record::Put { key, .. } = record.expect("a record") {
                keys.push(String::from_utf8_lossy(key).into_owned());
            }
        }
    }
    keys
}

/// Fast enough that no test waits.
fn at_once(num_threads: u32) -> ReplayOptions {
    ReplayOptions {
        num_threads,
        fast_forward: 1e12,
    }
}

#[test]
fn each_operation_is_recorded_once_and_replayed_with_the_same_result() {
    let world = World::in_memory();
    let db = open_db(&world, "/db");
    let other = db.family("other").unwrap();
    db.put(b"before", b"not traced").unwrap();
    start(&db, &TraceOptions::default());
    db.put(b"a", b"1").unwrap();
    other.put(b"b", b"2").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"c", b"3");
    batch.delete_in(&other, b"d");
    db.write(&batch).unwrap();
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(db.get(b"missing").unwrap().is_none());
    let options = ReadOptions::default();
    let _found = db.multi_get_in(&[(&other, b"b"), (&db, b"c")], &options, false);
    let _found = cairn_db::multi_get_with_timestamps(&[(&other, b"b")], &options);
    let bounded = ReadOptions {
        iterate_upper_bound: Some(b"z".to_vec()),
        ..ReadOptions::default()
    };
    let mut iter = db.iter_with(&bounded);
    iter.seek(b"b");
    iter.next();
    iter.seek_for_prev(b"b");
    iter.seek_to_first();
    iter.seek_to_last();
    drop(iter);
    db.end_trace().unwrap();
    db.put(b"after", b"not traced").unwrap();

    let records = records(&db);
    let queries: Vec<_> = records
        .iter()
        .map(|record| record.query().unwrap())
        .collect();
    let seek = Seek {
        family: 0,
        key: b"b",
        lower: b"",
        upper: b"z",
    };
    assert!(matches!(
        queries[..3],
        [Query::Write(_), Query::Write(_), Query::Write(_)]
    ));
    assert_eq!(queries[2], Query::Write(batch.data()));
    assert_eq!(
        queries[3..],
        [
            Query::Get {
                family: 0,
                key: b"a"
            },
            Query::Get {
                family: 0,
                key: b"missing"
            },
            Query::MultiGet(vec![(other.id(), b"b"), (0, b"c")]),
            Query::MultiGet(vec![(other.id(), b"b")]),
            Query::Seek(seek),
            Query::SeekForPrev(seek),
            // The move to the last key.
            Query::SeekForPrev(Seek { key: b"z", ..seek }),
        ]
    );
    assert!(records.is_sorted_by_key(TraceRecord::timestamp_micros));

    let copy = open_db(&world, "/copy");
    let mut replayer = replayer(&copy);
    assert!(replayer.header_timestamp_micros() <= records[0].timestamp_micros());
    let results = Arc::new(Mutex::new(Vec::new()));
    let collected = results.clone();
    let collect = move |result: Result<cairn_db::TraceRecordResult>| {
        collected.lock().push(result.expect("it succeeds").outcome);
    };
    replayer
        .replay(&at_once(1), Some(Arc::new(collect)))
        .unwrap();
    let entry = |key: &[u8], value: &[u8]| Replayed::Entry(Some((key.to_vec(), value.to_vec())));
    assert_eq!(
        results.lock()[2..],
        [
            Replayed::Written,
            Replayed::Value(Some(b"1".to_vec())),
            Replayed::Value(None),
            Replayed::Values(vec![Some(b"2".to_vec()), Some(b"3".to_vec())]),
            Replayed::Values(vec![Some(b"2".to_vec())]),
            entry(b"c", b"3"),
            entry(b"a", b"1"),
            entry(b"c", b"3"),
        ]
    );
    let ended = replayer.replay(&at_once(1), None).unwrap_err();
    assert_eq!(ended.code(), Code::Incomplete);
    assert!(copy.get(b"before").unwrap().is_none() && copy.get(b"after").unwrap().is_none());
}

#[test]
fn filters_sampling_and_the_size_limit_select_operations() {
    let world = World::in_memory();
    let db = open_db(&world, "/db");
    let put_and_get = |count: u32| {
        for n in 0..count {
            db.put(&n.to_be_bytes(), b"value").unwrap();
            db.get(&n.to_be_bytes()).unwrap();
        }
    };
    let filter = TraceFilter::GET | TraceFilter::MULTI_GET;
    start(
        &db,
        &TraceOptions {
            filter,
            ..TraceOptions::default()
        },
    );
    put_and_get(3);
    db.end_trace().unwrap();
    let kinds = records(&db);
    assert_eq!(kinds.len(), 3);
    assert!(
        kinds
            .iter()
            .all(|record| matches!(record.query(), Ok(Query::Write(_))))
    );

    // Only the gets are counted.
    let sampled = TraceOptions {
        filter: TraceFilter::WRITE,
        sampling_frequency: 3,
        ..TraceOptions::default()
    };
    start(&db, &sampled);
    put_and_get(10);
    db.end_trace().unwrap();
    let third = records(&db);
    let gets: Vec<_> = third.iter().map(|record| record.query().unwrap()).collect();
    let get = |n: u32| n.to_be_bytes();
    assert_eq!(
        gets,
        [2, 5, 8]
            .map(get)
            .each_ref()
            .map(|key| Query::Get { family: 0, key })
    );

    let limited = TraceOptions {
        max_trace_file_size: 200,
        ..TraceOptions::default()
    };
    start(&db, &limited);
    put_and_get(100);
    db.end_trace().unwrap();
    assert!((1..5).contains(&records(&db).len()));
    let len = world.fs.status(Path::new(TRACE)).unwrap().len;
    assert!((200..400).contains(&len), "{len}");
}

#[test]
fn a_trace_that_is_not_ended_is_ended_by_the_next_one_and_by_closing() {
    let world = World::in_memory();
    let db = open_db(&world, "/db");
    assert_eq!(db.end_trace().unwrap_err().code(), Code::IoError);
    let (first, ended) = Probe::new();
    db.start_trace(&TraceOptions::default(), || Ok(first))
        .unwrap();
    assert!(!ended.lock().closed);
    start(&db, &TraceOptions::default());
    assert!(ended.lock().closed);
    db.put(b"k", b"v").unwrap();
    db.close().unwrap();
    let other = open_db(&world, "/other");
    assert_eq!(records(&other).len(), 1);
    let (late, _) = Probe::new();
    let refused = db.start_trace(&TraceOptions::default(), || Ok(late));
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::ShutdownInProgress);
}

/// A trace writer of a test.
struct Probe(Arc<Mutex<Probed>>);

#[derive(Default)]
struct Probed {
    records: usize,
    closed: bool,
    /// Called with each record but the first.
    call: Option<Box<dyn FnMut() -> Result<()> + Send>>,
    /// True if the size cannot be told.
    has_no_size: bool,
}

impl Probe {
    fn new() -> (Box<Probe>, Arc<Mutex<Probed>>) {
        let probed = Arc::<Mutex<Probed>>::default();
        (Box::new(Probe(probed.clone())), probed)
    }
}

impl TraceWriter for Probe {
    fn write(&mut self, _record: &[u8]) -> Result<()> {
        let mut probed = self.0.lock();
        probed.records += 1;
        match probed.call.as_mut() {
            Some(call) => call(),
            None => Ok(()),
        }
    }

    fn file_size(&self) -> u64 {
        assert!(!self.0.lock().has_no_size, "on purpose");
        0
    }

    fn close(&mut self) -> Result<()> {
        self.0.lock().closed = true;
        Ok(())
    }
}

#[test]
fn a_failed_or_panicking_writer_fails_no_operation() {
    let db = open_db(&World::in_memory(), "/db");
    let failures: [fn() -> Result<()>; 2] =
        [|| Err(Error::io_text("no space")), || panic!("on purpose")];
    for failure in failures {
        for preserve_write_order in [false, true] {
            let (writer, probed) = Probe::new();
            let options = TraceOptions {
                preserve_write_order,
                ..TraceOptions::default()
            };
            db.start_trace(&options, || Ok(writer)).unwrap();
            probed.lock().call = Some(Box::new(failure));
            db.put(b"k", b"v").unwrap();
            assert!(db.get(b"k").unwrap().is_some());
            let error = db.end_trace().unwrap_err();
            assert!(
                matches!(error.code(), Code::IoError | Code::Aborted),
                "{error}"
            );
            let probed = probed.lock();
            assert_eq!((probed.records, probed.closed), (2, true));
        }
    }
    let (writer, probed) = Probe::new();
    db.start_trace(&TraceOptions::default(), || Ok(writer))
        .unwrap();
    probed.lock().has_no_size = true;
    db.put(b"k", b"v").unwrap();
    assert_eq!(db.end_trace().unwrap_err().code(), Code::Aborted);
}

#[test]
fn a_writer_that_uses_the_database_does_not_deadlock() {
    let db = open_db(&World::in_memory(), "/db");
    for preserve_write_order in [false, true] {
        let (writer, probed) = Probe::new();
        let options = TraceOptions {
            preserve_write_order,
            ..TraceOptions::default()
        };
        db.start_trace(&options, || Ok(writer)).unwrap();
        let inner = db.clone();
        let call = move || {
            assert!(inner.get(b"none").unwrap().is_none());
            for refused in [inner.put(b"x", b"y"), inner.end_trace(), inner.close()] {
                assert_eq!(refused.unwrap_err().code(), Code::Busy);
            }
            Ok(())
        };
        probed.lock().call = Some(Box::new(call));
        db.put(b"k", b"v").unwrap();
        db.get(b"k").unwrap();
        db.end_trace().unwrap();
        let mut probed = probed.lock();
        // The header, the write, the get, and the end.
        assert_eq!(probed.records, 4);
        probed.call = None;
    }
}

/// Concurrent writes are in the trace in the order of the log.
#[test]
fn the_order_of_writes_is_preserved_on_request() {
    const EACH: u32 = 200;
    let world = World::in_memory();
    let db = open_db(&world, "/db");
    let options = TraceOptions {
        preserve_write_order: true,
        ..TraceOptions::default()
    };
    start(&db, &options);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let db = &db;
            scope.spawn(move || {
                for n in 0..EACH {
                    db.put(format!("{thread}-{n}").as_bytes(), b"v").unwrap();
                }
            });
        }
    });
    db.end_trace().unwrap();
    let mut logged = Vec::new();
    let mut updates = db.updates_since(cairn_types::SequenceNumber(1)).unwrap();
    while updates.valid() {
        for record in updates.batch().unwrap().1.records() {
            if let cairn_db::Record::Put { key, .. } = record.unwrap() {
                logged.push(String::from_utf8_lossy(key).into_owned());
            }
        }
        updates.next();
    }
    assert_eq!(logged.len() as u32, 4 * EACH);
    assert_eq!(written_keys(&db), logged);
}

#[test]
fn a_transaction_is_recorded_when_it_is_committed_and_a_condition_that_fails_is_not() {
    let world = World::in_memory();
    let db = open_db(&world, "/db");
    start(&db, &TraceOptions::default());
    let (mut prepared, mut dropped, options) = (
        WriteBatch::new(),
        WriteBatch::new(),
        WriteOptions::default(),
    );
    prepared.put(b"committed", b"v");
    dropped.put(b"rolled back", b"v");
    db.prepare(b"one", &prepared, &options).unwrap();
    db.prepare(b"two", &dropped, &options).unwrap();
    db.put(b"between", b"v").unwrap();
    db.commit_prepared(b"one", &options).unwrap();
    db.roll_back_prepared(b"two", &options).unwrap();
    let refused = || Err(Error::busy("a conflict"));
    db.write_if(&dropped, &options, refused).unwrap_err();
    db.end_trace().unwrap();
    assert_eq!(written_keys(&db), ["between", "committed"]);
    let copy = open_db(&world, "/copy");
    replayer(&copy).replay(&at_once(1), None).unwrap();
    assert!(copy.get(b"committed").unwrap().is_some());
    assert!(copy.get(b"rolled back").unwrap().is_none());
}

#[test]
fn the_values_of_a_database_with_a_time_to_live_are_recorded_with_their_dates() {
    let world = World::in_memory();
    let db = open_dated(&world, "/db");
    start(&db, &TraceOptions::default());
    db.put(b"a", b"single").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"b", b"prepared");
    db.prepare(b"one", &batch, &WriteOptions::default())
        .unwrap();
    db.commit_prepared(b"one", &WriteOptions::default())
        .unwrap();
    db.end_trace().unwrap();
    let copy = open_dated(&world, "/copy");
    replay_default(&copy);
    assert_eq!(copy.get(b"a").unwrap().as_deref(), Some(&b"single"[..]));
    assert_eq!(copy.get(b"b").unwrap().as_deref(), Some(&b"prepared"[..]));

    // Like RocksDB's, the replay on another database does not remove the dates.
    let undated = open_db(&world, "/undated");
    replay_default(&undated);
    for (key, value) in [(b"a", &b"single"[..]), (b"b", b"prepared")] {
        let found = undated.get(key).unwrap().unwrap();
        assert_eq!(found.strip_prefix(value).map(<[u8]>::len), Some(4));
    }
}

/// Opens a database whose values have dates, and no time to live.
fn open_dated(world: &World, path: &str) -> Db {
    let family = FamilyOptions {
        value_ttl: Some(0),
        ..small()
    };
    let opened = open(&OpenRequest {
        path: Path::new(path),
        options: &DbOptions {
            allow_2pc: true,
            ..db_options()
        },
        families: &[FamilyDescriptor::new("default", family)],
        others: None,
        read_only: false,
        world: world.clone(),
    });
    opened.expect("a new database opens")
}

/// Replays the trace on `db`, with a handle of the default family.
fn replay_default(db: &Db) {
    let mut replayer = Replayer::new(db, &[], reader(db.world())).expect("its family");
    replayer.prepare().expect("a header");
    replayer.replay(&at_once(1), None).expect("no fault");
}

/// Makes the trace `bytes` that of the test.
fn store(world: &World, bytes: &[u8]) {
    let file = world.fs.create(Path::new(TRACE), FileMode::default());
    file.expect("a new file").append(bytes).expect("no fault");
}

/// Values that RocksDB 11.12 traced with their dates have one date after the replay.
#[test]
fn a_trace_of_rocksdb_with_dated_values_is_replayed() {
    let world = World::in_memory();
    let trace = include_bytes!("../../../cairn-format/testdata/queries_ttl_11_12.trace");
    store(&world, trace);
    let db = open_dated(&world, "/db");
    replay_default(&db);
    assert_eq!(
        db.get(b"granite").unwrap().as_deref(),
        Some(&b"igneous"[..])
    );
    assert_eq!(db.get(b"chalk").unwrap().as_deref(), Some(&b""[..]));
    assert!(db.get(b"slate").unwrap().is_none());
}

/// Transactions that RocksDB 11.12 prepared take effect when they are committed, also past the memtable, where its
/// trace does not repeat the section.
#[test]
fn a_trace_of_rocksdb_with_prepared_transactions_is_replayed() {
    for threads in [1, 4] {
        let world = World::in_memory();
        let trace = include_bytes!("../../../cairn-format/testdata/queries_prepared_11_12.trace");
        store(&world, trace);
        let db = open_db(&world, "/db");
        replayer(&db).replay(&at_once(threads), None).unwrap();
        let has = |key: &[u8]| db.get(key).unwrap().is_some();
        assert!(has(b"committed") && has(b"between") && has(b"bypassing"));
        assert!(!has(b"rolled back"));
        assert!(db.prepared().unwrap().is_empty());
    }
}

/// The file of a trace is truncated where it is: a symbolic link is followed, and permissions stay.
#[cfg(unix)]
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the file belongs to no database, and its permissions matter"
)]
fn the_file_of_a_trace_is_not_replaced() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    type Start = fn(&Db, &Path) -> Result<()>;
    let starts: [Start; 3] = [
        |db, path| start_at(db, path, &TraceOptions::default()),
        |db, path| {
            db.start_block_cache_trace(&SampledTraceOptions::default(), || {
                Ok(Box::new(FileTraceWriter::create(db.world(), path)?))
            })
        },
        |db, path| {
            db.start_io_trace(&SampledTraceOptions::default(), || {
                Ok(Box::new(FileTraceWriter::create(db.world(), path)?))
            })
        },
    ];
    let dir = tempfile::tempdir().unwrap();
    let db = open_db(&World::posix(), dir.path().join("db").to_str().unwrap());
    let (target, link) = (dir.path().join("target"), dir.path().join("link"));
    symlink(&target, &link).unwrap();
    for start in starts {
        std::fs::write(&target, vec![7; 1 << 20]).unwrap();
        std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o600)).unwrap();
        start(&db, &link).unwrap();
    }
    db.end_trace().unwrap();
    db.end_block_cache_trace().unwrap();
    db.end_io_trace().unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    let found = std::fs::metadata(&target).unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert!((1..1 << 20).contains(&found.len()), "{}", found.len());
    // A directory, in place of any path that is not a file.
    let error = start_at(&db, dir.path(), &TraceOptions::default()).unwrap_err();
    assert_eq!(error.code(), Code::IoError, "{error}");
    db.close().unwrap();
}

/// A trace in the file of the active one begins when that is complete.
#[test]
fn a_trace_may_restart_in_its_file() {
    let world = World::in_memory();
    let db = open_db(&world, "/db");
    start(&db, &TraceOptions::default());
    for n in 0..100_u32 {
        db.put(&n.to_be_bytes(), &[7; 1000]).unwrap();
    }
    start(&db, &TraceOptions::default());
    db.put(b"second", b"v").unwrap();
    db.end_trace().unwrap();
    assert_eq!(written_keys(&db), ["second"]);
    assert_eq!(records(&db).len(), 1);
    let len = world.fs.status(Path::new(TRACE)).unwrap().len;
    assert!(len < 300, "{len}");
    // If the file cannot be created, there is no trace.
    start(&db, &TraceOptions::default());
    start_at(&db, Path::new("/no/folder"), &TraceOptions::default()).unwrap_err();
    assert_eq!(db.end_trace().unwrap_err().code(), Code::IoError);
}

/// A write that a read-only database refuses is not traced: a replay would perform it.
#[test]
fn the_writes_of_a_read_only_database_are_not_recorded() {
    let world = World::in_memory();
    let db = open_db(&world, "/db");
    db.put(b"k", b"v").unwrap();
    db.close().unwrap();
    let reader = read_only(&world, &db_options(), &["default", "other"]).unwrap();
    for preserve_write_order in [false, true] {
        let options = TraceOptions {
            preserve_write_order,
            ..TraceOptions::default()
        };
        start(&reader, &options);
        let mut batch = WriteBatch::new();
        batch.put(b"k", b"refused");
        let ingested = WriteOptions {
            disable_wal: true,
            ..WriteOptions::default()
        };
        for refused in [reader.write(&batch), reader.ingest_batch(&batch, &ingested)] {
            assert_eq!(refused.unwrap_err().code(), Code::NotSupported);
        }
        reader.get(b"k").unwrap();
        reader.end_trace().unwrap();
        let all = records(&reader);
        assert_eq!(all.len(), 1);
        assert!(matches!(all[0].query(), Ok(Query::Get { .. })));
    }
}

#[test]
fn a_replay_stops_at_the_first_error_and_threads_replay_everything() {
    let world = World::in_memory();
    let db = open_db(&world, "/db");
    let other = db.family("other").unwrap();
    start(&db, &TraceOptions::default());
    for n in 0..50_u32 {
        db.put(&n.to_be_bytes(), b"v").unwrap();
    }
    other.get(b"k").unwrap();
    db.put(b"last", b"v").unwrap();
    db.end_trace().unwrap();

    // Without a handle of the family that is read.
    let without = open_db(&world, "/without");
    let mut stopped = Replayer::new(&without, &[], reader(&world)).unwrap();
    assert_eq!(
        stopped.replay(&at_once(1), None).unwrap_err().code(),
        Code::Incomplete
    );
    stopped.prepare().unwrap();
    let error = stopped.replay(&at_once(1), None).unwrap_err();
    assert_eq!(error.code(), Code::Corruption);
    assert!(error.text().contains("Invalid Column Family ID"), "{error}");
    assert!(without.get(&49_u32.to_be_bytes()).unwrap().is_some());
    assert!(without.get(b"last").unwrap().is_none());
    stopped.prepare().unwrap();
    let error = stopped.replay(&at_once(4), None).unwrap_err();
    assert_eq!(error.code(), Code::Corruption);

    let copy = open_db(&world, "/copy");
    replayer(&copy).replay(&at_once(4), None).unwrap();
    for n in 0..50_u32 {
        assert!(copy.get(&n.to_be_bytes()).unwrap().is_some(), "{n}");
    }
    assert!(copy.get(b"last").unwrap().is_some());
    for fast_forward in [0.0, -1.0, f64::NAN] {
        let options = ReplayOptions {
            num_threads: 1,
            fast_forward,
        };
        let error = replayer(&copy).replay(&options, None).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
    }
}

/// The simulated clock shows the time that a replay waits.
#[test]
fn operations_are_replayed_at_their_times() {
    let sim = SimWorld::new(1);
    let db = open_db(&sim.world, "/db");
    start(&db, &TraceOptions::default());
    db.put(b"a", b"1").unwrap();
    sim.clock.advance(std::time::Duration::from_secs(10));
    db.put(b"b", b"2").unwrap();
    db.end_trace().unwrap();
    let copy = open_db(&sim.world, "/copy");
    for (fast_forward, seconds) in [(1.0, 10), (4.0, 2), (0.5, 20)] {
        let mut replayer = replayer(&copy);
        let began = copy.clock().wall_seconds();
        let options = ReplayOptions {
            num_threads: 1,
            fast_forward,
        };
        replayer.replay(&options, None).unwrap();
        let took = copy.clock().wall_seconds() - began;
        assert!(
            (seconds..=seconds + 1).contains(&took),
            "{fast_forward}: {took} s"
        );
    }
}

#[test]
fn a_truncated_trace_is_replayed_up_to_its_damage() {
    let world = World::in_memory();
    let db = open_db(&world, "/db");
    start(&db, &TraceOptions::default());
    db.put(b"a", b"1").unwrap();
    db.put(b"b", b"2").unwrap();
    db.end_trace().unwrap();
    let file = world
        .fs
        .open(Path::new(TRACE), FileMode::default())
        .unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_at(0, &mut bytes).unwrap();
    // The end record, and a part of the last write.
    let cuts = [
        (13, None),
        (14, Some(Code::Corruption)),
        (13 + 30, Some(Code::Corruption)),
    ];
    for (round, (cut, expected)) in cuts.into_iter().enumerate() {
        world.fs.remove(Path::new(TRACE)).unwrap();
        let damaged = world
            .fs
            .create(Path::new(TRACE), FileMode::default())
            .unwrap();
        damaged.append(&bytes[..bytes.len() - cut]).unwrap();
        let copy = open_db(&world, &format!("/copy{round}"));
        let replayed = replayer(&copy).replay(&at_once(1), None);
        assert_eq!(
            replayed.as_ref().err().map(Error::code),
            expected,
            "{replayed:?}"
        );
        if let Err(error) = replayed {
            let text = error.text();
            assert!(text.contains("expected") && text.contains(TRACE), "{text}");
        }
        assert!(copy.get(b"a").unwrap().is_some());
    }
    // A length that the file does not have is not allocated.
    bytes[9..13].copy_from_slice(&u32::MAX.to_le_bytes());
    world.fs.remove(Path::new(TRACE)).unwrap();
    let hostile = world
        .fs
        .create(Path::new(TRACE), FileMode::default())
        .unwrap();
    hostile.append(&bytes).unwrap();
    let mut replayer = Replayer::new(&db, &[], reader(&world)).unwrap();
    assert_eq!(replayer.prepare().unwrap_err().code(), Code::Corruption);
}

/// Every file operation of a trace fails in turn: the traced operations succeed, and the trace reports the error.
#[test]
fn failures_of_the_trace_file_are_reported_by_the_trace_only() {
    for (call, fails_at_start) in [
        (Call::Create, true),
        (Call::Append, false),
        (Call::Close, false),
    ] {
        let sim = SimWorld::new(1);
        let db = open_db(&sim.world, "/db");
        let rule = FaultRule {
            trigger: Trigger::Class {
                call,
                name_end: "queries.trace".to_owned(),
                count: 0,
            },
            fault: Fault::InputOutput,
            lasts: usize::MAX,
        };
        sim.fs.set_plan(FaultPlan::new(vec![rule]));
        let started = start_at(&db, Path::new(TRACE), &TraceOptions::default());
        if fails_at_start {
            assert_eq!(started.unwrap_err().code(), Code::IoError, "{call:?}");
            continue;
        }
        started.unwrap();
        for n in 0..40_u32 {
            db.put(&n.to_be_bytes(), &[7; 4000]).unwrap();
        }
        let error = db.end_trace().unwrap_err();
        assert_eq!(error.code(), Code::IoError, "{call:?}");
        assert!(error.text().contains("queries.trace"), "{error}");
        assert!(db.get(&39_u32.to_be_bytes()).unwrap().is_some());
        assert!(db.background_error().is_none());
    }
}
