//! Events of the engine in listeners and in the info log.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, OpenRequest, open};
use cairn_observe::listener::{
    BackgroundJobPressure, BlobFileCreationInfo, CompactionJobInfo, EventListener,
    FileCreationBriefInfo, FileDeletionInfo, FileOperation, FileOperationInfo, FlushJobInfo,
    IoErrorInfo, ManualFlushInfo, MemTableInfo, SubcompactionJobInfo, TableFileCreationInfo,
    WriteStallInfo,
};
use cairn_observe::{CompactionReason, FlushReason, Level, LogSink, StallCondition};
use cairn_options::{CompactRangeOptions, DbOptions};
use cairn_platform::World;
use cairn_platform::sync::Mutex;

use cairn_sim::trace::Call;
use cairn_sim::{Fault, SimWorld};

use crate::basic::{db_options, small};
use crate::errors;

/// Records each event as a line.
#[derive(Default)]
struct Diary(Mutex<Vec<String>>);

impl Diary {
    fn note(&self, line: String) {
        self.0.lock().push(line);
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    fn count(&self, word: &str) -> usize {
        self.lines()
            .iter()
            .filter(|line| line.starts_with(word))
            .count()
    }
}

impl EventListener for Diary {
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        assert_eq!(info.file_path, "/db/000000.sst");
        assert!(info.db_name == "/db" && info.job_id > 0 && info.thread_id > 0);
        self.note(format!("flush begins: {}", info.flush_reason.text()));
    }

    fn on_flush_completed(&self, info: &FlushJobInfo) {
        assert!(
            info.file_path
                .ends_with(&format!("{:06}.sst", info.file_number))
        );
        let properties = info.table_properties.as_ref().expect("the table is there");
        assert!(info.smallest_seqno <= info.largest_seqno);
        self.note(format!(
            "flush ended: {} {} entries",
            info.flush_reason.text(),
            properties.num_entries
        ));
    }

    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        assert!(info.output_files.is_empty() && !info.input_files.is_empty());
        self.note(format!(
            "compaction begins: {}",
            info.compaction_reason.text()
        ));
    }

    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        assert!(info.status.is_none());
        let described: Vec<_> = info.table_properties.iter().map(|(path, _)| path).collect();
        let files: Vec<_> = info.input_files.iter().chain(&info.output_files).collect();
        assert_eq!(described, files, "inputs and outputs have properties");
        assert_eq!(info.input_files.len() as u64, info.stats.num_input_files);
        assert_eq!(info.output_files.len() as u64, info.stats.num_output_files);
        self.note(format!(
            "compaction ended: {} {} to {}: {} in, {} out",
            info.compaction_reason.text(),
            info.base_input_level,
            info.output_level,
            info.stats.num_input_records,
            info.stats.num_output_records
        ));
    }

    fn on_manual_flush_scheduled(&self, infos: &[ManualFlushInfo]) {
        let names: Vec<_> = infos.iter().map(|info| &*info.family_name).collect();
        self.note(format!("asked for {}", names.join(" ")));
    }

    fn on_compaction_pre_commit(&self, info: &CompactionJobInfo) {
        assert_eq!(info.output_files.len() as u64, info.stats.num_output_files);
        assert!(info.status.is_none() && !info.input_files.is_empty());
        self.note(format!(
            "compaction commits: {} out",
            info.stats.num_output_records
        ));
    }

    fn on_db_shutdown_begin(&self) {
        self.note("closing".to_owned());
    }

    fn on_subcompaction_begin(&self, info: &SubcompactionJobInfo) {
        self.note(format!("part {} begins", info.subcompaction_job_id));
    }

    fn on_subcompaction_completed(&self, info: &SubcompactionJobInfo) {
        assert_eq!(info.compaction_reason, CompactionReason::ManualCompaction);
        self.note(format!("part {} ended", info.subcompaction_job_id));
    }

    fn on_table_file_created(&self, info: &TableFileCreationInfo) {
        assert!(info.file_size > 0 && info.table_properties.data_size > 0);
        self.note(format!("created {}", info.brief.file_path));
    }

    fn on_table_file_deleted(&self, info: &FileDeletionInfo) {
        assert!(info.status.is_none());
        self.note(format!("deleted {}", info.file_path));
    }

    fn on_blob_file_creation_started(&self, info: &FileCreationBriefInfo) {
        self.note(format!("begun {}", info.file_path));
    }

    fn on_blob_file_created(&self, info: &BlobFileCreationInfo) {
        self.note(format!("blobs: {}", info.total_blob_count));
    }

    fn on_memtable_sealed(&self, info: &MemTableInfo) {
        self.note(format!(
            "sealed {} of {}",
            info.num_entries, info.family_name
        ));
    }

    fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
        self.note(format!("stall {:?} -> {:?}", info.previous, info.current));
    }
}

/// Panics on every event.
struct Clumsy;

impl EventListener for Clumsy {
    fn on_flush_begin(&self, _: &FlushJobInfo) {
        panic!("on purpose");
    }

    fn on_memtable_sealed(&self, _: &MemTableInfo) {
        panic!("on purpose");
    }
}

/// Returns options with a listener, and its diary.
fn with_diary(atomic_flush: bool) -> (Arc<Diary>, DbOptions) {
    let diary = Arc::new(Diary::default());
    let mut options = DbOptions {
        atomic_flush,
        ..db_options()
    };
    options.listeners.push(diary.clone());
    (diary, options)
}

/// Regression: the flush before an ingestion, and those of the other families with `atomic_flush`, had the reason "Write Buffer
/// Full".
#[test]
fn flushes_have_the_reason_of_the_operation_that_needs_them() {
    for atomic_flush in [false, true] {
        let (diary, options) = with_diary(atomic_flush);
        let world = World::in_memory();
        let db = crate::basic::open_with(&world, &options, &small()).unwrap();
        let other = db.create_family("other", &small()).unwrap();
        let flushed_by = |operation: &dyn Fn()| {
            db.put(b"k", b"1").unwrap();
            other.put(b"k", b"1").unwrap();
            diary.0.lock().clear();
            operation();
            let lines = diary.0.lock();
            let begun = lines
                .iter()
                .filter_map(|line| line.strip_prefix("flush begins: "));
            begun.map(str::to_owned).collect::<Vec<_>>()
        };
        let count = if atomic_flush { 2 } else { 1 };
        let reasons = flushed_by(&|| {
            db.compact_range(None, None, &CompactRangeOptions::default())
                .unwrap();
        });
        assert_eq!(reasons, vec!["Manual Compaction"; count]);
        let mut table = cairn_db::SstFileWriter::new(&world, &options, &small());
        table.open("/table.sst".as_ref()).unwrap();
        table.put(b"k", b"2").unwrap();
        table.finish().unwrap();
        let reasons = flushed_by(&|| {
            db.ingest_external_file(["/table.sst"], &Default::default())
                .unwrap();
        });
        assert_eq!(reasons, vec!["External File Ingestion"; count]);
    }
}

#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl LogSink for Lines {
    fn log(&self, level: Level, message: &str) {
        let mut lines = self.0.lock();
        lines.push(format!("{level:?} {message}"));
    }
}

/// Also panics on every event.
#[derive(Default)]
struct AllLines(Lines);

impl LogSink for AllLines {
    fn log(&self, level: Level, message: &str) {
        self.0.log(level, message);
    }

    fn level(&self) -> Level {
        Level::Debug
    }
}

fn open_with(options: DbOptions) -> Db {
    open(&OpenRequest {
        path: Path::new("/db"),
        options: &options,
        families: &[],
        others: Some(&small()),
        read_only: false,
        world: World::in_memory(),
    })
    .expect("it opens")
}

#[test]
fn listeners_are_notified_of_every_job() {
    let diary = Arc::new(Diary::default());
    let mut options = db_options();
    options.listeners.push(Arc::new(Clumsy));
    options.listeners.push(diary.clone());
    let db = open_with(options);
    db.set_options(&[("disable_auto_compactions", "true")])
        .unwrap();
    for n in 0..3_u8 {
        db.put(b"a", &[n]).unwrap();
        db.put(b"b", &[n]).unwrap();
        db.flush().unwrap();
    }
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    db.wait_until_quiet().unwrap();
    let flushed = [
        "sealed 2 of default",
        "flush begins: Manual Flush",
        "flush ended: Manual Flush 2 entries",
    ];
    // The flush may begin before the listeners are notified of the request.
    assert_eq!(diary.count("asked for default"), 3);
    let lines = diary.lines();
    let told = |line: &&String| {
        !["created", "deleted", "asked"]
            .iter()
            .any(|other| line.starts_with(other))
    };
    let told: Vec<&String> = lines.iter().filter(told).collect();
    assert_eq!(told[..9], flushed.repeat(3), "{lines:#?}");
    assert_eq!(
        told[9..],
        [
            "compaction begins: ManualCompaction",
            "part 0 begins",
            "part 0 ended",
            "compaction commits: 2 out",
            "compaction ended: ManualCompaction 0 to 6: 6 in, 2 out",
        ],
        "{lines:#?}"
    );
    assert_eq!(
        (diary.count("created"), diary.count("deleted")),
        (4, 3),
        "{lines:#?}"
    );
}

#[test]
fn listeners_are_notified_of_requested_flushes_and_of_closing() {
    for atomic_flush in [false, true] {
        let (diary, options) = with_diary(atomic_flush);
        let db = open_with(options);
        let other = db.create_family("other", &small()).unwrap();
        db.put(b"a", b"1").unwrap();
        other.put(b"a", b"1").unwrap();
        db.flush_families(&[db.default_family(), &other]).unwrap();
        // Flushes initiated by the engine are not requests.
        db.put(b"a", b"2").unwrap();
        db.compact_range(None, None, &CompactRangeOptions::default())
            .unwrap();
        db.close().unwrap();
        db.close().unwrap();
        let asked: Vec<String> = diary.lines();
        let asked: Vec<&str> = asked
            .iter()
            .map(|line| &**line)
            .filter(|line| line.starts_with("asked") || *line == "closing")
            .collect();
        let expected = match atomic_flush {
            true => vec!["asked for default other", "closing"],
            false => vec!["asked for default", "asked for other", "closing"],
        };
        assert_eq!(asked, expected);
    }
}

#[test]
fn stalls_are_reported_by_family() {
    let diary = Arc::new(Diary::default());
    let mut options = db_options();
    options.listeners.push(diary.clone());
    let db = open_with(options);
    db.set_options(&[("disable_auto_compactions", "true")])
        .unwrap();
    for n in 0..3_u8 {
        db.put(b"a", &[n]).unwrap();
        db.flush().unwrap();
    }
    assert_eq!(diary.count("stall"), 0);
    db.set_options(&[
        ("level0_file_num_compaction_trigger", "2"),
        ("level0_slowdown_writes_trigger", "2"),
        ("disable_auto_compactions", "false"),
    ])
    .unwrap();
    db.wait_until_quiet().unwrap();
    assert_eq!(diary.count("stall"), 2, "{:#?}", diary.lines());
    let last = format!(
        "stall {:?} -> {:?}",
        StallCondition::Delayed,
        StallCondition::Normal
    );
    let stalls: Vec<String> = diary
        .lines()
        .into_iter()
        .filter(|line| line.starts_with("stall"))
        .collect();
    assert_eq!(stalls.last(), Some(&last));
}

#[test]
fn the_log_has_its_header_and_events_and_no_keys() {
    let lines = Arc::new(Lines::default());
    let db = open_with(DbOptions {
        info_log: Some(lines.clone()),
        ..db_options()
    });
    for n in 0..500 {
        db.put(format!("SECRET{n}").as_bytes(), b"HIDDEN").unwrap();
    }
    db.flush().unwrap();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    // Not a move.
    db.put(b"SECRET7", b"HIDDEN").unwrap();
    db.flush().unwrap();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    db.delete_range(b"SECRET1", b"SECRET4").unwrap();
    db.close().unwrap();
    let text = lines.0.lock().join("\n");
    for part in [
        "Header RocksDB version: 11.12.0",
        "Options.max_background_jobs: 2",
        "Options.use_fsync: 0",
        "Options.paranoid_checks: 1",
        "Options.bottommost_compression: Disabled",
        "Options.blob_compression_type: NoCompression",
        "Options.disable_auto_compactions: 0",
        "Options.enable_blob_files: false",
        "Options.enforce_single_del_contracts: true",
        "Options for column family [default]",
        "  block_cache_options:\n    capacity : 33554432",
        "\"event\": \"flush_started\"",
        "\"flush_reason\": \"Manual Flush\"",
        "\"event\": \"table_file_creation\"",
        "\"num_entries\": 500",
        "\"file_checksum\": \"\", \"file_checksum_func_name\": \"Unknown\", \"smallest_seqno\": 1, \
         \"largest_seqno\": 500, \"table_properties\": {",
        "}, \"status\": \"OK\"}",
        "\"event\": \"flush_finished\"",
        "\"lsm_state\": [1, 0, 0, 0, 0, 0, 0]",
        "\"event\": \"trivial_move\"",
        "\"oldest_snapshot_seqno\": -1}",
        "\"num_single_delete_mismatches\": 0, \"num_single_delete_fallthrough\": 0, \"lsm_state\": [",
    ] {
        assert!(text.contains(part), "{part} is missing from\n{text}");
    }
    let end_of_header = text
        .find("Header DB pointer 0x")
        .expect("the last line of the header");
    assert!(
        text.find("Header DB ID: ")
            .is_some_and(|at| at < end_of_header)
    );
    assert!(
        text.find("flush_started")
            .is_some_and(|at| at > end_of_header)
    );
    assert!(!text.contains("DynMetadata") && !text.contains("\"output_compression\": \"k"));
    assert!(
        !text.contains("SECRET") && !text.contains("HIDDEN"),
        "{text}"
    );
    assert!(!text.contains("Debug "));
    assert_eq!(FlushReason::ManualFlush.number(), 10);

    let all = Arc::new(AllLines::default());
    let db = open_with(DbOptions {
        info_log: Some(all.clone()),
        ..db_options()
    });
    db.close().unwrap();
    let lines = all.0.0.lock();
    let found = |line: &String| line.starts_with("Debug ") && line.ends_with("files in /db");
    assert!(lines.iter().any(found), "{lines:?}");
}

#[test]
fn listeners_are_notified_of_blob_files() {
    let diary = Arc::new(Diary::default());
    let mut options = db_options();
    options.listeners.push(diary.clone());
    let db = open_with(options);
    db.set_options(&[("enable_blob_files", "true"), ("min_blob_size", "100")])
        .unwrap();
    db.put(b"large", &[b'x'; 1000]).unwrap();
    db.put(b"small", b"1").unwrap();
    db.flush().unwrap();
    let lines = diary.lines();
    assert_eq!(diary.count("blobs: 1"), 1, "{lines:#?}");
    assert_eq!(diary.count("begun /db/"), 1, "{lines:#?}");
}

/// Records events of files and of the pending work.
#[derive(Default)]
struct OfFiles {
    asks: bool,
    /// The calls by name and suffix, with their number and total bytes.
    calls: Mutex<BTreeMap<(String, FileOperation), (u64, u64)>>,
    errors: Mutex<Vec<String>>,
    pressures: Mutex<Vec<BackgroundJobPressure>>,
}

impl OfFiles {
    fn note(&self, info: &FileOperationInfo<'_>, expected: &[FileOperation]) {
        assert!(expected.contains(&info.operation), "{info:?}");
        assert!(info.path.is_absolute() && info.start_micros > 0, "{info:?}");
        if info.error.is_none() {
            let name = info.path.extension().or(info.path.file_name());
            let name = name.and_then(|name| name.to_str()).unwrap_or_default();
            let name = name.trim_end_matches(|c: char| c == '-' || c.is_ascii_digit());
            let mut calls = self.calls.lock();
            let (count, bytes) = calls.entry((name.to_owned(), info.operation)).or_default();
            *count += 1;
            *bytes += info.length;
        }
    }

    fn of(&self, name: &str, operation: FileOperation) -> (u64, u64) {
        let calls = self.calls.lock();
        calls
            .get(&(name.to_owned(), operation))
            .copied()
            .unwrap_or_default()
    }
}

impl EventListener for OfFiles {
    fn should_be_notified_on_file_io(&self) -> bool {
        self.asks
    }

    fn on_file_read_finish(&self, info: &FileOperationInfo<'_>) {
        self.note(info, &[FileOperation::Read]);
    }

    fn on_file_write_finish(&self, info: &FileOperationInfo<'_>) {
        self.note(info, &[FileOperation::Write]);
    }

    fn on_file_flush_finish(&self, info: &FileOperationInfo<'_>) {
        self.note(info, &[FileOperation::Flush]);
    }

    fn on_file_sync_finish(&self, info: &FileOperationInfo<'_>) {
        self.note(info, &[FileOperation::Sync, FileOperation::Fsync]);
    }

    fn on_file_range_sync_finish(&self, info: &FileOperationInfo<'_>) {
        self.note(info, &[FileOperation::RangeSync]);
    }

    fn on_file_truncate_finish(&self, info: &FileOperationInfo<'_>) {
        self.note(info, &[FileOperation::Truncate]);
    }

    fn on_file_close_finish(&self, info: &FileOperationInfo<'_>) {
        self.note(info, &[FileOperation::Close]);
    }

    fn on_io_error(&self, info: &IoErrorInfo<'_>) {
        self.errors.lock().push(format!(
            "{:?} {} {}",
            info.operation, info.offset, info.length
        ));
    }

    fn on_background_job_pressure_changed(&self, pressure: &BackgroundJobPressure) {
        self.pressures.lock().push(*pressure);
    }
}

#[test]
fn listeners_that_request_it_are_notified_of_every_file_operation() {
    let (asks, does_not) = (
        Arc::new(OfFiles {
            asks: true,
            ..OfFiles::default()
        }),
        Arc::new(OfFiles::default()),
    );
    let sim = SimWorld::new(1);
    let mut options = DbOptions {
        bytes_per_sync: 1 << 10,
        ..db_options()
    };
    options.listeners.push(asks.clone());
    options.listeners.push(does_not.clone());
    let db = errors::open_on(&sim, &options, &small()).unwrap();
    for n in 0..100_u32 {
        let value = [n as u8; 100];
        db.put_with(&n.to_be_bytes(), &value, &errors::synced())
            .unwrap();
    }
    let (writes, bytes) = asks.of("log", FileOperation::Write);
    assert!(writes >= 100 && bytes >= 100 * 100, "{writes} {bytes}");
    assert_eq!(asks.of("log", FileOperation::Sync).0, 100);
    db.flush().unwrap();
    db.wait_until_quiet().unwrap();
    let table = sim.fs.image().files().find_map(|(path, file)| {
        path.extension()
            .is_some_and(|end| end == "sst")
            .then_some(file.len() as u64)
    });
    assert_eq!(Some(asks.of("sst", FileOperation::Write).1), table);
    assert_eq!(asks.of("sst", FileOperation::Close).0, 1);
    assert_eq!(asks.of("sst", FileOperation::Sync).0, 1);
    assert!(asks.of("sst", FileOperation::RangeSync).0 > 0);
    assert!(asks.of("MANIFEST", FileOperation::Write).0 > 0);
    assert!(asks.of("MANIFEST", FileOperation::Sync).0 > 0);
    assert_eq!(asks.of("sst", FileOperation::Read).0, 0);
    assert!(errors::get(&db, &7_u32.to_be_bytes()).is_some());
    assert!(asks.of("sst", FileOperation::Read).0 > 0);
    db.close().unwrap();
    assert_eq!(asks.of("LOG", FileOperation::Write).0, 0);
    assert_eq!(asks.errors.lock().len(), 0);
    drop(db);
    let db = errors::open_on(&sim, &options, &small()).unwrap();
    assert!(asks.of("MANIFEST", FileOperation::Read).0 > 0);

    // Failures are reported as well, with their position.
    sim.fs
        .set_plan(errors::failing(Call::Append, ".sst", Fault::NoSpace, 1));
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap_err();
    assert_eq!(asks.errors.lock().len(), 1);
    let error = asks.errors.lock()[0].clone();
    assert!(error.starts_with("Append 0 "), "{error}");
    assert!(does_not.calls.lock().is_empty() && does_not.errors.lock().is_empty());
    db.close().unwrap();
}

#[test]
fn listeners_are_notified_of_the_pending_work() {
    let listener = Arc::new(OfFiles::default());
    let mut options = db_options();
    options.listeners.push(listener.clone());
    let db = open_with(options);
    db.set_options(&[
        ("level0_slowdown_writes_trigger", "4"),
        ("level0_stop_writes_trigger", "100"),
    ])
    .unwrap();
    db.abort_all_compactions();
    for n in 0..4_u8 {
        db.put(b"a", &[n]).unwrap();
        db.flush().unwrap();
        db.wait_until_quiet().unwrap();
    }
    let pressures = listener.pressures.lock().clone();
    let shares: Vec<u64> = pressures
        .iter()
        .map(|one| one.write_stall_proximity_pct)
        .collect();
    assert_eq!(shares, [25, 50, 75, 100], "{pressures:?}");
    assert!(!pressures[0].compaction_speedup_active && pressures[3].compaction_speedup_active);
    for pressure in pressures {
        assert_eq!((pressure.flush_scheduled, pressure.flush_running), (0, 0));
        assert_eq!(
            (pressure.compaction_scheduled, pressure.compaction_running),
            (0, 0)
        );
    }
    db.close().unwrap();
}
