//! Listeners and the info log see what the engine does.

use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, OpenRequest, open};
use cairn_observe::listener::{
    BlobFileCreationInfo, CompactionJobInfo, EventListener, FileCreationBriefInfo,
    FileDeletionInfo, FlushJobInfo, ManualFlushInfo, MemTableInfo, SubcompactionJobInfo,
    TableFileCreationInfo, WriteStallInfo,
};
use cairn_observe::{CompactionReason, FlushReason, Level, LogSink, StallCondition};
use cairn_options::{CompactRangeOptions, DbOptions};
use cairn_platform::World;
use cairn_platform::sync::Mutex;

use crate::basic::{db_options, small};

/// Keeps what it is told, in a line each.
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
        assert!(info.file_path.is_empty() && info.job_id > 0 && info.thread_id > 0);
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

/// Panics whenever it is told something.
struct Clumsy;

impl EventListener for Clumsy {
    fn on_flush_begin(&self, _: &FlushJobInfo) {
        panic!("on purpose");
    }

    fn on_memtable_sealed(&self, _: &MemTableInfo) {
        panic!("on purpose");
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
fn listeners_are_told_of_every_job() {
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
    let expected = [
        "sealed 2 of default",
        "asked for default",
        "flush begins: Manual Flush",
        "flush ended: Manual Flush 2 entries",
    ];
    let lines = diary.lines();
    let told = |line: &&String| !line.starts_with("created") && !line.starts_with("deleted");
    let told: Vec<&String> = lines.iter().filter(told).collect();
    assert_eq!(told[..4], expected, "{lines:#?}");
    assert_eq!(
        told[12..],
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
fn listeners_are_told_of_flushes_that_are_asked_for_and_of_the_end() {
    for atomic_flush in [false, true] {
        let diary = Arc::new(Diary::default());
        let mut options = DbOptions {
            atomic_flush,
            ..db_options()
        };
        options.listeners.push(diary.clone());
        let db = open_with(options);
        let other = db.create_family("other", &small()).unwrap();
        db.put(b"a", b"1").unwrap();
        other.put(b"a", b"1").unwrap();
        db.flush_families(&[db.default_family(), &other]).unwrap();
        // What the engine flushes on its own account is nobody's wish.
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
fn the_log_has_its_head_and_events_and_no_key() {
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
    db.delete_range(b"SECRET1", b"SECRET4").unwrap();
    db.close().unwrap();
    let text = lines.0.lock().join("\n");
    for part in [
        "Header RocksDB version: 11.9.0",
        "Options.max_background_jobs: 2",
        "Options for column family [default]",
        "\"event\": \"flush_started\"",
        "\"flush_reason\": \"Manual Flush\"",
        "\"event\": \"table_file_creation\"",
        "\"num_entries\": 500",
        "\"event\": \"flush_finished\"",
        "\"lsm_state\": [1, 0, 0, 0, 0, 0, 0]",
        "\"event\": \"trivial_move\"",
    ] {
        assert!(text.contains(part), "{part} is missing from\n{text}");
    }
    assert!(
        !text.contains("SECRET") && !text.contains("HIDDEN"),
        "{text}"
    );
    assert_eq!(FlushReason::ManualFlush.number(), 10);
}

#[test]
fn listeners_are_told_of_blob_files() {
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
