//! Traces of the block cache and of file operations: the recorded lookups and operations, and failures of the trace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use cairn_db::{
    Db, FamilyDescriptor, FileTraceReader, FileTraceWriter, OpenRequest, SampledTraceOptions,
    TraceOptions, TraceReader, TraceWriter, open,
};
use cairn_format::filter::FilterPolicy;
use cairn_format::key;
use cairn_format::trace::block_cache::{Access, CacheCaller, TracedBlock, WriterVersion};
use cairn_format::trace::io::IoOperation;
use cairn_format::trace::{METADATA_LEN, Metadata};
use cairn_memory::{BlockCache, CacheOptions};
use cairn_observe::{Level, LogSink};
use cairn_options::{
    BottommostLevelCompaction, CompactRangeOptions, DbOptions, FamilyOptions, ReadOptions,
    ReadTier, WriteOptions,
};
use cairn_platform::World;
use cairn_platform::sync::Mutex;
use cairn_sim::fault::{FaultPlan, FaultRule, Trigger};
use cairn_sim::trace::Call;
use cairn_sim::{Fault, SimWorld};
use cairn_types::{Code, Error, Result};

use crate::basic::{db_options, small};

const TRACE: &str = "/lookups.trace";
const IO_TRACE: &str = "/io.trace";
const KEYS: u32 = 2000;

/// Options with which every block is looked up in the cache.
fn cached() -> FamilyOptions {
    let mut family = small();
    family.table.filter_policy = Some(FilterPolicy::Bloom { bits_per_key: 10.0 });
    family.table.cache_index_and_filter_blocks = true;
    family.table.block_cache = Some(Arc::new(BlockCache::new(8 << 20, CacheOptions::default())));
    family
}

fn open_at(world: &World, path: &str, options: &DbOptions) -> Db {
    let families = [
        FamilyDescriptor::new("default", cached()),
        FamilyDescriptor::new("other", cached()),
    ];
    let options = DbOptions {
        create_missing_column_families: true,
        ..options.clone()
    };
    let opened = open(&OpenRequest {
        path: Path::new(path),
        options: &options,
        families: &families,
        others: None,
        read_only: false,
        world: world.clone(),
    });
    opened.expect("it opens")
}

/// A database with `KEYS` keys in the family `other`, in one table of level 6, and one key in level 0.
fn filled(world: &World) -> Db {
    let db = open_at(world, "/db", &db_options());
    let other = db.family("other").expect("no fault");
    for n in 0..KEYS {
        other.put(&n.to_be_bytes(), &[7; 20]).expect("no fault");
    }
    // Into one table, however many memtables were flushed.
    other
        .compact_range(None, None, &rewriting())
        .expect("no fault");
    other.put(b"in level 0", b"value").expect("no fault");
    other.flush().expect("no fault");
    db.close().expect("no fault");
    // The cache of this database is empty.
    open_at(world, "/db", &db_options())
}

/// Options of a compaction that writes every table.
fn rewriting() -> CompactRangeOptions {
    CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    }
}

fn to_file(db: &Db, path: &str) -> Result<Box<dyn TraceWriter>> {
    Ok(Box::new(FileTraceWriter::create(
        db.world(),
        Path::new(path),
    )?))
}

fn start(db: &Db, options: &SampledTraceOptions) {
    let started = db.start_block_cache_trace(options, || to_file(db, TRACE));
    started.expect("it starts");
}

/// The records of the trace at `path`, without the header.
fn records(world: &World, path: &str) -> Vec<Vec<u8>> {
    let mut reader = FileTraceReader::open(world, Path::new(path)).expect("it exists");
    let mut records = Vec::new();
    while let Some(record) = reader.read().expect("complete") {
        records.push(record);
    }
    let header = records.remove(0);
    let expected = WriterVersion {
        major: 11,
        minor: 12,
    };
    assert_eq!(WriterVersion::decode(&header[METADATA_LEN..]), Ok(expected));
    records
}

fn lookup(record: &[u8]) -> Access<'_> {
    let kind = Metadata::decode(record).expect("complete").kind;
    Access::decode(kind, &record[METADATA_LEN..]).expect("a lookup")
}

fn operation(record: &[u8]) -> IoOperation<'_> {
    let kind = Metadata::decode(record).expect("complete").kind;
    IoOperation::decode(kind, &record[METADATA_LEN..]).expect("an operation")
}

/// The lookups that `call` causes in a database with an empty cache, as text.
fn lookups_of(world: &World, db: &Db, call: impl FnOnce()) -> Vec<Vec<u8>> {
    start(db, &SampledTraceOptions::default());
    call();
    db.end_block_cache_trace().expect("no fault");
    records(world, TRACE)
}

#[test]
fn the_lookups_of_a_get_are_recorded_with_its_number_and_key() {
    use TracedBlock::{Data, Filter, Index};
    let world = World::in_memory();
    let db = filled(&world);
    let other = db.family("other").unwrap();
    let wanted = 1000_u32.to_be_bytes();
    let all = lookups_of(&world, &db, || {
        assert!(other.get(&wanted).unwrap().is_some());
        assert!(other.get(&wanted).unwrap().is_some());
        assert!(other.get(&[0, 0, 0, 1, 0]).unwrap().is_none());
    });
    let all: Vec<_> = all.iter().map(|record| lookup(record)).collect();
    let shape = |access: &Access<'_>| {
        let get = access.get.expect("each is a get");
        (get.id, access.block, access.is_hit)
    };
    let shapes: Vec<_> = all.iter().map(shape).collect();
    let first = [(1, Filter, false), (1, Index, false), (1, Data, false)];
    assert_eq!(shapes[..3], first);
    assert_eq!(
        shapes[3..6],
        [(2, Filter, true), (2, Index, true), (2, Data, true)]
    );
    // The third key is outside of the file in level 0, and excluded by the other filter or searched for in vain.
    assert_eq!(shapes[6], (3, Filter, true));
    let id = u64::from(other.id());
    let size = all[2].block_size;
    assert!((4096..8192).contains(&size), "{size}");
    for access in &all {
        assert_eq!((access.family, access.family_name), (id, &b"other"[..]));
        assert_eq!((access.level, access.caller), (6, CacheCaller::Get));
        assert!(!access.no_insert && access.file > 0);
        assert_eq!(access.block_key.len(), 16);
        let get = access.get.unwrap();
        assert!(!get.at_snapshot);
        assert_eq!(get.search.is_some(), access.block == Data);
    }
    for data in [&all[2], &all[5]] {
        let get = data.get.unwrap();
        assert_eq!(key::user_key(get.key), wanted);
        let search = get.search.unwrap();
        assert!(search.is_found);
        assert_eq!(search.entry_size, 4 + 8 + 20);
        assert!((50..400).contains(&search.keys_in_block), "{search:?}");
        assert_eq!((data.block_size, data.file), (size, all[0].file));
        assert_eq!(data.block_key, all[2].block_key);
    }
    let keys: BTreeSet<_> = all[..3].iter().map(|access| access.block_key).collect();
    assert_eq!(keys.len(), 3, "three blocks");
}

#[test]
fn the_search_of_a_get_tells_values_from_deletions_and_missing_keys() {
    let world = World::in_memory();
    let db = filled(&world);
    let other = db.family("other").unwrap();
    other.put(b"in level 0", b"newer").unwrap();
    other.delete(b"kept").unwrap();
    other.flush().unwrap();
    let snapshot = db.snapshot();
    let options = ReadOptions {
        snapshot: Some(snapshot.sequence()),
        ..ReadOptions::default()
    };
    let all = lookups_of(&world, &db, || {
        assert!(other.get_with(b"in level 0", &options).unwrap().is_some());
        assert!(other.get(b"kept").unwrap().is_none());
    });
    let all: Vec<_> = all.iter().map(|record| lookup(record)).collect();
    let searched = all
        .iter()
        .filter(|access| access.block == TracedBlock::Data);
    let searched: Vec<_> = searched
        .map(|access| {
            let get = access.get.unwrap();
            let search = get.search.unwrap();
            let user = key::user_key(get.key).to_vec();
            (
                get.id,
                get.at_snapshot,
                user,
                search.is_found,
                search.entry_size,
                access.level,
            )
        })
        .collect();
    assert_eq!(
        searched,
        [
            (1, true, b"in level 0".to_vec(), true, 18 + 5, 0),
            (2, false, b"kept".to_vec(), false, 0, 0),
        ]
    );
}

#[test]
fn batches_iterators_and_compactions_are_told_apart() {
    let world = World::in_memory();
    let db = filled(&world);
    let other = db.family("other").unwrap();
    let (one, two) = (5_u32.to_be_bytes(), 1999_u32.to_be_bytes());
    let options = ReadOptions::default();
    let batch = lookups_of(&world, &db, || {
        let found = db.multi_get_in(&[(&other, &one), (&other, &two)], &options, false);
        assert_eq!(found.len(), 2);
        let found = db.multi_get_in(&[(&other, &one), (&other, &one)], &options, false);
        assert_eq!(found.len(), 2);
    });
    let batch: Vec<_> = batch.iter().map(|record| lookup(record)).collect();
    let mut data: BTreeMap<(u64, bool), usize> = BTreeMap::new();
    for access in &batch {
        assert_eq!(access.caller, CacheCaller::MultiGet);
        let get = access.get.expect("a batch of gets");
        assert!((1..=2).contains(&get.id), "{get:?}");
        if access.block == TracedBlock::Data {
            assert!(get.search.unwrap().is_found);
            *data.entry((get.id, access.is_hit)).or_default() += 1;
        }
    }
    assert_eq!(
        data.get(&(1, false)),
        Some(&2),
        "two blocks are read: {data:?}"
    );
    assert_eq!(data.get(&(1, true)), None);
    assert_eq!(data.get(&(2, false)), None, "{data:?}");

    let unfilled = ReadOptions {
        fill_cache: false,
        ..ReadOptions::default()
    };
    let scan = lookups_of(&world, &db, || {
        let mut iter = other.iter_with(&unfilled);
        iter.seek_to_first();
        let mut count = 0;
        while iter.valid() {
            iter.next();
            count += 1;
        }
        assert_eq!(count, KEYS + 1);
    });
    let scan: Vec<_> = scan.iter().map(|record| lookup(record)).collect();
    let scanned = scan
        .iter()
        .filter(|access| access.block == TracedBlock::Data);
    let hits = scanned.clone().filter(|access| access.is_hit).count();
    assert!(hits >= 2 && scanned.count() > 10, "{}", scan.len());
    for access in &scan {
        assert_eq!((access.caller, access.get), (CacheCaller::Iterator, None));
        assert!(access.no_insert);
    }

    // A file that overlaps the large one.
    other.put(&1_u32.to_be_bytes(), b"newer").unwrap();
    other.flush().unwrap();
    let compaction = lookups_of(&world, &db, || {
        other
            .compact_range(None, None, &CompactRangeOptions::default())
            .unwrap();
    });
    let compaction: Vec<_> = compaction.iter().map(|record| lookup(record)).collect();
    assert!(!compaction.is_empty());
    for access in &compaction {
        assert_eq!(access.caller, CacheCaller::Compaction, "{access:?}");
    }
    let levels: BTreeSet<_> = compaction.iter().map(|access| access.level).collect();
    assert_eq!(levels, BTreeSet::from([0, 6]));
}

/// A read that must not access storage looks up the block, does not read it, and does not insert it.
#[test]
fn a_lookup_without_storage_is_recorded_with_size_0() {
    let world = World::in_memory();
    let db = filled(&world);
    let other = db.family("other").unwrap();
    let wanted = 7_u32.to_be_bytes();
    let options = ReadOptions {
        read_tier: ReadTier::BlockCache,
        ..ReadOptions::default()
    };
    // The tables are opened, and their blocks are cached but for some.
    other.get(&1999_u32.to_be_bytes()).unwrap().unwrap();
    other.get(b"in level 0").unwrap().unwrap();
    let all = lookups_of(&world, &db, || {
        let error = other.get_with(&wanted, &options).unwrap_err();
        assert_eq!(error.code(), Code::Incomplete);
        let mut iter = other.iter_with(&options);
        iter.seek(&wanted);
        assert!(!iter.valid());
    });
    let all: Vec<_> = all.iter().map(|record| lookup(record)).collect();
    let refused: Vec<_> = all.iter().filter(|access| !access.is_hit).collect();
    let callers: Vec<_> = refused.iter().map(|access| access.caller).collect();
    assert_eq!(callers[0], CacheCaller::Get, "{all:?}");
    assert_eq!(callers.last(), Some(&CacheCaller::Iterator), "{all:?}");
    for access in refused {
        assert_eq!((access.block_size, access.no_insert), (0, true));
    }
}

#[test]
fn a_trace_starts_once_and_its_end_is_repeatable() {
    let world = World::in_memory();
    let db = filled(&world);
    db.end_block_cache_trace().unwrap();
    db.end_io_trace().unwrap();
    start(&db, &SampledTraceOptions::default());
    let io = SampledTraceOptions::default();
    db.start_io_trace(&io, || to_file(&db, IO_TRACE)).unwrap();
    let options = SampledTraceOptions::default();
    let again = db.start_block_cache_trace(&options, || to_file(&db, "/second"));
    assert_eq!(again.unwrap_err().code(), Code::Busy);
    let again = db.start_io_trace(&io, || to_file(&db, "/second"));
    assert_eq!(again.unwrap_err().code(), Code::Busy);
    assert!(!world.fs.exists(Path::new("/second")).unwrap());
    db.get(b"x").unwrap();
    db.close().unwrap();
    // Closing ended them.
    records(&world, TRACE);
    records(&world, IO_TRACE);
    let closed = db.start_io_trace(&io, || to_file(&db, "/second"));
    assert_eq!(closed.unwrap_err().code(), Code::ShutdownInProgress);
}

#[test]
fn the_operations_on_the_files_of_a_database_are_recorded() {
    let sim = SimWorld::new(3);
    let world = sim.world.clone();
    let db = filled(&world);
    let other = db.family("other").unwrap();
    let options = SampledTraceOptions::default();
    db.start_io_trace(&options, || to_file(&db, IO_TRACE))
        .unwrap();
    // Its file is not recorded.
    start(&db, &SampledTraceOptions::default());
    let synced = WriteOptions {
        sync: true,
        ..WriteOptions::default()
    };
    other.put_with(b"key", &[1; 3000], &synced).unwrap();
    other.flush().unwrap();
    other.get(&3_u32.to_be_bytes()).unwrap().unwrap();
    other.compact_range(None, None, &rewriting()).unwrap();
    db.end_io_trace().unwrap();
    other.put(b"after", b"the end").unwrap();

    let all = records(&world, IO_TRACE);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut seen: BTreeMap<(String, String), u64> = BTreeMap::new();
    for record in &all {
        let operation = operation(record);
        assert_eq!(text(operation.status), "OK");
        let file = text(operation.file);
        assert!(!file.contains("LOG") && !file.contains("trace"), "{file}");
        let kind = match file.rsplit_once('.') {
            Some((_, extension)) => extension.to_owned(),
            None => file.split('-').next().unwrap().to_owned(),
        };
        let bytes = operation.len.unwrap_or(0);
        *seen.entry((text(operation.operation), kind)).or_default() += bytes;
    }
    for (operation, kind) in [
        ("Append", "log"),
        ("Sync", "log"),
        ("NewWritableFile", "sst"),
        ("Append", "sst"),
        ("Close", "sst"),
        ("NewRandomAccessFile", "sst"),
        ("Append", "MANIFEST"),
        ("Read", "sst"),
        ("Fsync", "db"),
        ("DeleteFile", "sst"),
    ] {
        let wanted = (operation.to_owned(), kind.to_owned());
        assert!(seen.contains_key(&wanted), "{wanted:?} in {seen:?}");
    }
    let logged = seen[&("Append".to_owned(), "log".to_owned())];
    assert!((3000..3100).contains(&logged), "{logged}");
}

/// Destinations whose calls fail, panic, or use the database.
struct Called(Box<dyn FnMut() -> Result<()> + Send>, usize);

impl TraceWriter for Called {
    fn write(&mut self, _record: &[u8]) -> Result<()> {
        self.1 += 1;
        match self.1 {
            1 => Ok(()),
            _ => (self.0)(),
        }
    }
    fn file_size(&self) -> u64 {
        0
    }
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_failed_or_panicking_writer_fails_no_operation() {
    let world = World::in_memory();
    let db = filled(&world);
    let other = db.family("other").unwrap();
    let failures: [fn() -> Result<()>; 2] =
        [|| Err(Error::io_text("no space")), || panic!("on purpose")];
    for failure in failures {
        let writer = || Ok(Box::new(Called(Box::new(failure), 0)) as Box<dyn TraceWriter>);
        let options = SampledTraceOptions::default();
        db.start_block_cache_trace(&options, writer).unwrap();
        db.start_io_trace(&SampledTraceOptions::default(), writer)
            .unwrap();
        other.put(b"k", b"v").unwrap();
        other.flush().unwrap();
        other.get(&9_u32.to_be_bytes()).unwrap().unwrap();
        for ended in [db.end_block_cache_trace(), db.end_io_trace()] {
            let code = ended.unwrap_err().code();
            assert!(matches!(code, Code::IoError | Code::Aborted), "{code:?}");
        }
        assert!(db.background_error().is_none());
    }
}

#[test]
fn a_writer_that_uses_the_database_is_refused_and_not_traced() {
    let world = World::in_memory();
    let db = filled(&world);
    let other = db.family("other").unwrap();
    let calls = Arc::new(Mutex::new(0));
    let (inner, counted) = (db.clone(), calls.clone());
    let call = move || {
        *counted.lock() += 1;
        for refused in [
            inner.put(b"x", b"y"),
            inner.end_block_cache_trace(),
            inner.end_io_trace(),
            inner.close(),
        ] {
            assert_eq!(refused.unwrap_err().code(), Code::Busy);
        }
        Ok(())
    };
    let options = SampledTraceOptions::default();
    db.start_block_cache_trace(&options, || Ok(Box::new(Called(Box::new(call), 0))))
        .unwrap();
    other.get(&9_u32.to_be_bytes()).unwrap().unwrap();
    db.end_block_cache_trace().unwrap();
    assert_eq!(*calls.lock(), 3, "filter, index, and data block");
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
        let db = filled(&sim.world);
        let other = db.family("other").unwrap();
        let rule = FaultRule {
            trigger: Trigger::Class {
                call,
                name_end: ".trace".to_owned(),
                count: 0,
            },
            fault: Fault::InputOutput,
            lasts: usize::MAX,
        };
        sim.fs.set_plan(FaultPlan::new(vec![rule]));
        let (lookups, io) = (
            SampledTraceOptions::default(),
            SampledTraceOptions::default(),
        );
        let started = [
            db.start_block_cache_trace(&lookups, || to_file(&db, TRACE)),
            db.start_io_trace(&io, || to_file(&db, IO_TRACE)),
        ];
        for started in started {
            assert_eq!(started.is_err(), fails_at_start, "{call:?}");
        }
        for n in 0..KEYS {
            other.put(&n.to_be_bytes(), &[8; 40]).unwrap();
            other.get(&n.to_be_bytes()).unwrap().unwrap();
        }
        other.flush().unwrap();
        for n in 0..KEYS {
            other.get(&n.to_be_bytes()).unwrap().unwrap();
        }
        for ended in [db.end_block_cache_trace(), db.end_io_trace()] {
            match fails_at_start {
                true => ended.expect("it has not started"),
                false => {
                    let error = ended.unwrap_err();
                    assert_eq!(error.code(), Code::IoError, "{call:?}");
                    assert!(error.text().contains(".trace"), "{error}");
                }
            }
        }
        assert!(db.background_error().is_none());
    }
}

#[test]
fn four_threads_are_traced_with_complete_records() {
    let world = World::in_memory();
    let db = filled(&world);
    let other = db.family("other").unwrap();
    start(&db, &SampledTraceOptions::default());
    db.start_io_trace(&SampledTraceOptions::default(), || to_file(&db, IO_TRACE))
        .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let other = &other;
            scope.spawn(move || {
                for n in 0..500_u32 {
                    let key = ((n * 37 + thread) % KEYS).to_be_bytes();
                    assert!(other.get(&key).unwrap().is_some());
                    let written = (KEYS + 4 * n + thread).to_be_bytes();
                    other.put(&written, &[1; 10]).unwrap();
                }
            });
        }
    });
    db.end_block_cache_trace().unwrap();
    db.end_io_trace().unwrap();
    let mut found: BTreeMap<u64, usize> = BTreeMap::new();
    for record in records(&world, TRACE) {
        let access = lookup(&record);
        let Some(get) = access.get else { continue };
        let key = key::user_key(get.key).to_vec();
        if get.search.is_some_and(|search| search.is_found) {
            assert_eq!(key.len(), 4);
            *found.entry(get.id).or_default() += 1;
        }
    }
    // Every get finds its key in one block.
    assert_eq!(found.len(), 2000);
    assert!(found.values().all(|&blocks| blocks == 1));
    let appended = records(&world, IO_TRACE);
    let appends = appended
        .iter()
        .filter(|record| operation(record).operation == b"Append");
    assert!(appends.count() > 0);
}

/// A get that reads while the trace of another database is active is not traced.
#[test]
fn only_the_lookups_of_the_database_are_recorded() {
    let (traced, untraced) = (World::in_memory(), World::in_memory());
    let (db, bystander) = (filled(&traced), filled(&untraced));
    let all = lookups_of(&traced, &db, || {
        let other = bystander.family("other").unwrap();
        other.get(&3_u32.to_be_bytes()).unwrap().unwrap();
    });
    assert!(all.is_empty());
}

#[test]
fn an_awaited_get_is_recorded_once() {
    let world = World::in_memory();
    let db = filled(&world);
    let other = db.family("other").unwrap();
    let all = lookups_of(&world, &db, || {
        let options = ReadOptions::default();
        let key = 3_u32.to_be_bytes();
        let mut get = std::pin::pin!(other.get_async(&key, &options));
        let found = loop {
            let mut context = Context::from_waker(Waker::noop());
            match get.as_mut().poll(&mut context) {
                Poll::Ready(found) => break found,
                Poll::Pending => std::thread::yield_now(),
            }
        };
        assert!(found.unwrap().is_some());
    });
    let blocks: Vec<_> = all.iter().map(|record| lookup(record).block).collect();
    assert_eq!(
        blocks,
        [TracedBlock::Filter, TracedBlock::Index, TracedBlock::Data]
    );
}

/// A destination of the info log that ends the query trace when it fails.
#[derive(Default)]
struct Ender {
    db: Mutex<Option<Db>>,
    ended: Mutex<Vec<Result<()>>>,
}

impl LogSink for Ender {
    fn log(&self, _: Level, message: &str) {
        let db = match message.contains("query trace") {
            true => self.db.lock().take(),
            false => None,
        };
        if let Some(db) = db {
            self.ended.lock().push(db.end_trace());
        }
    }
}

/// The failure of a query trace is logged without its lock: the destination of the info log may end the trace.
#[test]
fn a_query_trace_that_fails_may_be_ended_by_the_destination_of_the_info_log() {
    let ender = Arc::new(Ender::default());
    let options = DbOptions {
        info_log: Some(ender.clone()),
        ..db_options()
    };
    let db = open_at(&World::in_memory(), "/db", &options);
    let start = || {
        *ender.db.lock() = Some(db.clone());
        let fails = || Err(Error::io_text("no space"));
        db.start_trace(&TraceOptions::default(), || {
            Ok(Box::new(Called(Box::new(fails), 0)))
        })
    };
    start().unwrap();
    db.put(b"k", b"v").unwrap();
    let code = |ended: Result<()>| ended.unwrap_err().code();
    let failed = ender.ended.lock().pop().expect("the failure is logged");
    assert_eq!(code(failed), Code::IoError);
    assert_eq!(code(db.end_trace()), Code::IoError);
    // The next trace ends one that has failed to write its end, and is ended in turn.
    start().unwrap();
    start().unwrap();
    let second = ender.ended.lock().pop().expect("the failure is logged");
    second.unwrap_err();
    assert_eq!(code(db.end_trace()), Code::IoError);
}

/// The info log lists its directory with its lock held when it starts a new file. An I/O trace that failed at this
/// operation would log the failure there and wait for itself.
#[test]
fn a_trace_that_fails_does_not_deadlock_with_an_info_log_that_starts_a_new_file() {
    let world = World::in_memory();
    let options = DbOptions {
        max_log_file_size: 2000,
        keep_log_file_num: 2,
        ..db_options()
    };
    let db = open_at(&world, "/db", &options);
    for _ in 0..3 {
        let fails = || Err(Error::io_text("no space"));
        let writer = || Ok(Box::new(Called(Box::new(fails), 0)) as Box<dyn TraceWriter>);
        db.start_io_trace(&SampledTraceOptions::default(), writer)
            .unwrap();
        for n in 0..20_u32 {
            db.put(&n.to_be_bytes(), b"value").unwrap();
            db.flush().unwrap();
        }
        db.end_io_trace().unwrap_err();
    }
    let names = world.fs.list(Path::new("/db")).unwrap();
    let logs = names.iter().filter(|name| name.starts_with("LOG.old."));
    assert!(logs.count() > 0, "{names:?}");
}
