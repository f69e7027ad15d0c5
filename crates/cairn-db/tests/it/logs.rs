//! Recovery of data from logs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_db::{Db, FamilyDescriptor, OpenRequest, SstFileWriter, WriteBatch, open};
use cairn_format::checksum::{crc32c, mask};
use cairn_format::log::{Event, LogReader};
use cairn_format::manifest::{FamilyChange, VersionEdit};
use cairn_format::names::FileName;
use cairn_options::{
    DbOptions, FamilyOptions, IngestExternalFileOptions, Options, Plugin, WalRecoveryMode,
};
use cairn_platform::World;
use cairn_platform::fs::FileMode;
use cairn_sim::{CrashModel, SimWorld};
use cairn_types::{Code, FileNumber, Result, WalDecision, WalFilter};

fn open_as(world: &World, options: &DbOptions, read_only: bool) -> Result<Db> {
    open_in(world, "/db", options, read_only)
}

fn open_in(world: &World, dir: &str, options: &DbOptions, read_only: bool) -> Result<Db> {
    let families =
        ["default", "other"].map(|name| FamilyDescriptor::new(name, FamilyOptions::default()));
    open(&OpenRequest {
        path: Path::new(dir),
        options,
        families: &families,
        others: None,
        read_only,
        world: world.clone(),
    })
}

/// A log records where the last batch of the previous one starts, as in RocksDB: not where it ends.
#[test]
fn logs_of_long_batches_verify_each_other() {
    let world = World::in_memory();
    let options = DbOptions {
        create_if_missing: true,
        create_missing_column_families: true,
        track_and_verify_wals: true,
        ..DbOptions::default()
    };
    let db = open_as(&world, &options, false).unwrap();
    let (default, other) = (db.family("default").unwrap(), db.family("other").unwrap());
    for round in 0..3_u8 {
        let mut batch = WriteBatch::new();
        for n in 0..3 {
            batch.put_in(&default, &[round, n], b"x");
            batch.put_in(&other, &[round, n], b"y");
        }
        db.write(&batch).unwrap();
        // The other family still needs the old logs.
        db.flush_families(&[&default]).unwrap();
    }
    let reader = open_as(&world, &options, true).unwrap();
    let other = reader.family("other").unwrap();
    assert_eq!(other.get(&[0, 2]).unwrap().as_deref(), Some(&b"y"[..]));
    assert_eq!(other.get(&[2, 0]).unwrap().as_deref(), Some(&b"y"[..]));
}

/// Regression: the record of a dropped family had the end of its logs as well, of which RocksDB reads only the drop: it
/// then missed the deleted log. It ignores the tables of a record with changes of logs, too.
#[test]
fn the_manifest_has_changes_of_logs_in_separate_records() {
    let world = World::in_memory();
    let options = DbOptions {
        create_if_missing: true,
        create_missing_column_families: true,
        track_and_verify_wals_in_manifest: true,
        ..DbOptions::default()
    };
    let db = open_as(&world, &options, false).unwrap();
    let other = db.family("other").unwrap();
    other.put(b"a", b"in the first log").unwrap();
    for key in [b"a", b"b", b"c"] {
        db.put(key, b"x").unwrap();
        db.flush().unwrap();
    }
    db.drop_family(&other).unwrap();
    drop(other);
    db.close().unwrap();
    let names = world.fs.list(Path::new("/db")).unwrap();
    let manifest = names
        .iter()
        .find(|name| name.starts_with("MANIFEST"))
        .unwrap();
    let path = Path::new("/db").join(manifest);
    let file = world.fs.open(&path, FileMode::default()).unwrap();
    let mut reader = LogReader::new(|at: u64, buf: &mut [u8]| file.read_at(at, buf), 0);
    let (mut deletions, mut tables, mut drops) = (0, 0, 0);
    loop {
        match reader.next().unwrap() {
            Event::Record { payload, .. } => {
                let edit = VersionEdit::decode(payload).unwrap();
                let of_logs = !edit.wals.additions.is_empty() || edit.wals.deleted_before.is_some();
                assert!(
                    !of_logs
                        || (edit.tree.new_files.is_empty()
                            && edit.tree.deleted_files.is_empty()
                            && edit.family_change.is_none())
                );
                drops += u32::from(edit.family_change == Some(FamilyChange::Drop));
                deletions += u32::from(edit.wals.deleted_before.is_some());
                tables += edit.tree.new_files.len();
            }
            Event::End(_) => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((deletions > 0, tables, drops), (true, 3, 1));
}

/// Creates a database of two families, whose first log is still needed by `other`. Returns the number of that
/// log.
fn two_recycled_logs(world: &World, options: &DbOptions) -> u64 {
    let db = open_as(world, options, false).expect("no file fails");
    let (default, other) = (
        db.family("default").expect("no file fails"),
        db.family("other").expect("no file fails"),
    );
    let first = db.current_wal_file().expect("no file fails").log_number;
    for n in 0..3_u8 {
        other.put(&[n], b"in the first log").expect("no file fails");
    }
    default.put(b"flushed", b"x").expect("no file fails");
    db.flush_families(&[&default]).expect("no file fails");
    other
        .put(b"later", b"in the second log")
        .expect("no file fails");
    assert_ne!(
        db.current_wal_file().expect("no file fails").log_number,
        first
    );
    // The code below corresponds to the files left by a process killed at this point.
    std::mem::forget(db);
    first.0
}

/// Writes a record of another log to `log`: over its second record, or after its last.
fn show_a_former_life(world: &World, log: u64, behind: bool) {
    let path = Path::new("/db").join(format!("{log:06}.log"));
    let mut bytes = bytes_of(world, &path);
    let record_len = 11 + usize::from(u16::from_le_bytes([bytes[4], bytes[5]]));
    let mut old = bytes[..record_len].to_vec();
    old[7..11].copy_from_slice(&77_u32.to_le_bytes());
    let checksum = mask(crc32c(&old[6..]));
    old[..4].copy_from_slice(&checksum.to_le_bytes());
    match behind {
        true => bytes.extend_from_slice(&old),
        false => bytes[record_len..2 * record_len].copy_from_slice(&old),
    }
    replace(world, &path, &bytes);
}

/// Regression: a record lost in the middle of a recycled log exposed a record of the file's old content,
/// which was taken for the end of the log: newer logs and tables then left a gap.
#[test]
fn old_content_in_the_middle_of_a_recycled_log_is_damage() {
    let options = DbOptions {
        create_if_missing: true,
        create_missing_column_families: true,
        recycle_log_file_num: 2,
        ..DbOptions::default()
    };
    let world = World::in_memory();
    let log = two_recycled_logs(&world, &options);
    show_a_former_life(&world, log, false);
    let error = open_as(&world, &options, true).err().expect("a hole");
    assert!(error.is_corruption(), "{error}");
    let salvaging = DbOptions {
        wal_recovery_mode: WalRecoveryMode::SkipAnyCorruptedRecords,
        ..options.clone()
    };
    let reader = open_as(&world, &salvaging, true).unwrap();
    let other = reader.family("other").unwrap();
    let found =
        [&b"\0"[..], b"\x01", b"\x02", b"later"].map(|key| other.get(key).unwrap().is_some());
    assert_eq!(found, [true, false, true, true]);

    // After the last record it is the end of the log, because the next log continues from there.
    let world = World::in_memory();
    let log = two_recycled_logs(&world, &options);
    show_a_former_life(&world, log, true);
    let reader = open_as(&world, &options, true).unwrap();
    let other = reader.family("other").unwrap();
    assert!(other.get(b"\x02").unwrap().is_some());
    assert!(other.get(b"later").unwrap().is_some());
}

/// Regression: a log that another one describes as longer was rejected in the mode that salvages what is readable.
#[test]
fn logs_need_not_verify_each_other_where_damage_is_skipped() {
    let options = DbOptions {
        create_if_missing: true,
        create_missing_column_families: true,
        track_and_verify_wals: true,
        ..DbOptions::default()
    };
    let salvaging = DbOptions {
        wal_recovery_mode: WalRecoveryMode::SkipAnyCorruptedRecords,
        ..options.clone()
    };
    let world = World::in_memory();
    let log = two_recycled_logs(&world, &options);
    let path = Path::new("/db").join(format!("{log:06}.log"));
    let bytes = bytes_of(&world, &path);
    replace(&world, &path, &bytes[..bytes.len() - 3]);
    let error = open_as(&world, &options, true)
        .err()
        .expect("it is shorter");
    assert!(error.is_corruption(), "{error}");
    let reader = open_as(&world, &salvaging, true).unwrap();
    let other = reader.family("other").unwrap();
    for key in [&b"\0"[..], b"\x01", b"\x02", b"later"] {
        assert!(other.get(key).unwrap().is_some(), "{key:?}");
    }
}

/// Flips a bit of the record at `at` of `log`.
fn damage(world: &World, log: u64, at: impl FnOnce(&[u8]) -> usize) {
    let path = Path::new("/db").join(format!("{log:06}.log"));
    let mut bytes = bytes_of(world, &path);
    let at = at(&bytes);
    bytes[at + 7] ^= 1;
    replace(world, &path, &bytes);
}

/// Regression: the damage of a later log was taken for the first one, which hid that tables were newer than it.
#[test]
fn the_first_of_several_damaged_logs_is_where_recovery_stops() {
    let options = DbOptions {
        create_if_missing: true,
        create_missing_column_families: true,
        ..DbOptions::default()
    };
    let world = World::in_memory();
    let log = two_recycled_logs(&world, &options);
    let second = |bytes: &[u8]| 7 + usize::from(u16::from_le_bytes([bytes[4], bytes[5]]));
    damage(&world, log, second);
    let later = world.fs.list(Path::new("/db")).expect("no file fails");
    let later = later.iter().filter_map(|name| name.strip_suffix(".log"));
    let later: Vec<u64> = later.filter_map(|name| name.parse().ok()).collect();
    let later: Vec<u64> = later.into_iter().filter(|number| *number > log).collect();
    assert_eq!(later.len(), 1);
    damage(&world, later[0], |_| 0);
    let error = open_as(&world, &options, true).err().expect("a hole");
    assert!(error.to_string().contains("is damaged"), "{error}");
}

/// Skips, changes and stops according to the first key of a batch.
struct ByKey;

impl WalFilter for ByKey {
    fn name(&self) -> &str {
        "by key"
    }

    fn families(&self, logs: &BTreeMap<u32, FileNumber>, ids: &BTreeMap<String, u32>) {
        assert_eq!((logs.len(), ids["other"]), (2, 1));
    }

    fn record(&self, log: FileNumber, path: &str, batch: &[u8]) -> WalDecision {
        assert!(path.ends_with(&format!("{log}.log")), "{path}");
        let mut changed = WriteBatch::new();
        // After the header: the kind of the entry, the length of its key, the key.
        match batch[14] {
            b'i' => WalDecision::Ignore,
            b's' => WalDecision::Stop,
            b'd' => WalDecision::Corrupted,
            b'm' => {
                changed.put(b"a", b"1");
                changed.put(b"b", b"1");
                WalDecision::Change(changed.data().to_vec())
            }
            b'c' => {
                changed.put(b"changed", b"1");
                WalDecision::Change(changed.data().to_vec())
            }
            _ => WalDecision::Continue,
        }
    }
}

#[test]
fn a_filter_sees_the_batches_of_the_logs_and_decides_on_them() {
    let options = DbOptions {
        create_if_missing: true,
        create_missing_column_families: true,
        avoid_flush_during_recovery: true,
        ..DbOptions::default()
    };
    let filtered = DbOptions {
        wal_filter: Plugin::Object(Arc::new(ByKey)),
        ..options.clone()
    };
    let written = |keys: &[&str]| {
        let world = World::in_memory();
        let db = open_as(&world, &options, false).unwrap();
        for key in keys {
            db.put(key.as_bytes(), b"0").unwrap();
        }
        db.close().unwrap();
        world
    };
    let keys = |db: &Db| {
        let mut iter = db.iter();
        iter.seek_to_first();
        let mut keys = Vec::new();
        while iter.valid() {
            keys.push(String::from_utf8(iter.key().to_vec()).unwrap());
            iter.next();
        }
        keys
    };
    let world = written(&["x", "i", "c", "y", "s", "z"]);
    let db = open_as(&world, &filtered, false).unwrap();
    assert_eq!(keys(&db), ["changed", "x", "y"]);
    assert_eq!(db.dropped_at_recovery().len(), 2);
    db.close().unwrap();
    drop(db);
    // Skipped batches are gone for good, even if logs are kept.
    let db = open_as(&world, &options, false).unwrap();
    assert_eq!(keys(&db), ["changed", "x", "y"]);

    // Damage ends the recovery: the database is recovered up to it.
    let world = written(&["x", "d", "y"]);
    assert_eq!(keys(&open_as(&world, &filtered, true).unwrap()), ["x"]);
    let world = written(&["x", "m"]);
    let error = open_as(&world, &filtered, true).err().unwrap();
    assert_eq!(error.code(), Code::NotSupported);

    let named = DbOptions::from_text("wal_filter=theirs").unwrap();
    assert!(named.check_supported().is_err());
}

/// Creates a database whose default family has three records in the log, the first two of which are adjacent
/// in the first block, and whose other family has a file that was ingested after the second. Returns the log,
/// and the offset of its second record.
fn ingested_behind_logged(world: &World, options: &DbOptions) -> (PathBuf, usize) {
    world
        .fs
        .create_dir_all(Path::new("/out"))
        .expect("no file fails");
    let mut writer = SstFileWriter::new(world, options, &FamilyOptions::default());
    writer.open(Path::new("/out/x.sst")).expect("no file fails");
    writer.put(b"k", b"ingested").expect("no file fails");
    writer.finish().expect("no file fails");
    let db = open_as(world, options, false).expect("no file fails");
    db.put(b"first", b"1").expect("no file fails");
    db.put(b"second", b"2").expect("no file fails");
    let other = db.family("other").expect("no file fails");
    other
        .ingest_external_file(["/out/x.sst"], &IngestExternalFileOptions::default())
        .expect("no file fails");
    db.put(b"third", b"3").expect("no file fails");
    // Unrelated edits.
    let gone = db
        .create_family("gone", &FamilyOptions::default())
        .expect("no file fails");
    db.drop_family(&gone).expect("no file fails");
    let number = db.current_wal_file().expect("no file fails").log_number;
    let log = Path::new("/db").join(FileName::Wal(number).to_string());
    db.close().expect("no file fails");
    let first = bytes_of(world, &log);
    let len = usize::from(u16::from_le_bytes([first[4], first[5]]));
    (log, 7 + len)
}

pub fn bytes_of(world: &World, path: &Path) -> Vec<u8> {
    let file = world
        .fs
        .open(path, FileMode::default())
        .expect("no file fails");
    let mut bytes = vec![0; file.len().expect("no file fails") as usize];
    file.read_at(0, &mut bytes).expect("no file fails");
    bytes
}

fn replace(world: &World, path: &Path, bytes: &[u8]) {
    if world.fs.exists(path).expect("no file fails") {
        world.fs.remove(path).expect("no file fails");
    }
    let file = world
        .fs
        .create(path, FileMode::default())
        .expect("no file fails");
    file.append(bytes).expect("no file fails");
}

/// Regression: a log damaged before an ingestion into another family was treated as ending there, while the
/// ingested file was kept: a state that had never existed.
#[test]
fn a_log_that_ends_before_an_ingestion_is_rejected() {
    let mode = |wal_recovery_mode| DbOptions {
        create_if_missing: true,
        create_missing_column_families: true,
        wal_recovery_mode,
        ..DbOptions::default()
    };
    for recovery in [
        WalRecoveryMode::PointInTimeRecovery,
        WalRecoveryMode::TolerateCorruptedTailRecords,
        WalRecoveryMode::AbsoluteConsistency,
    ] {
        let options = mode(recovery);
        let world = World::in_memory();
        let (log, second) = ingested_behind_logged(&world, &options);
        let whole = bytes_of(&world, &log);
        let opens = |bytes: &[u8]| {
            replace(&world, &log, bytes);
            open_as(&world, &options, true)
        };
        opens(&whole).unwrap();
        let mut flipped = whole.clone();
        flipped[second + 9] ^= 4;
        for bytes in [&flipped[..], &whole[..second], &whole[..second + 3], &[]] {
            let error = opens(bytes).err().expect("the second record is missing");
            assert!(error.is_corruption(), "{error}");
            assert!(error.text().contains(&*log.to_string_lossy()), "{error}");
        }
        // Records logged after the ingestion may be lost, as usual.
        let third = 2 * second + 1;
        let reader = opens(&whole[..third]).unwrap();
        assert!(reader.get(b"second").unwrap().is_some());
        assert!(reader.get(b"third").unwrap().is_none());
        // A newer log does not replace it.
        world.fs.remove(&log).unwrap();
        let newer = Path::new("/db").join(FileName::Wal(FileNumber(99)).to_string());
        replace(&world, &newer, &[]);
        let error = open_as(&world, &options, true).err().expect("no log");
        assert!(error.text().contains("missing"), "{error}");
        world.fs.remove(&newer).unwrap();

        replace(&world, &log, &flipped);
        let salvaging = mode(WalRecoveryMode::SkipAnyCorruptedRecords);
        let db = open_as(&world, &salvaging, false).unwrap();
        assert!(db.get(b"second").unwrap().is_none());
        assert!(db.family("other").unwrap().get(b"k").unwrap().is_some());
        db.close().unwrap();
        drop(db);
        // The salvaged state is the current one from then on.
        open_as(&world, &options, false).unwrap();
    }
}

/// Regression: a database with an ingested table and unflushed data, restored from a backup without logs, was rejected.
/// Without any log, the state of the tables is opened, unless `track_and_verify_wals` is set.
#[test]
fn a_database_opens_without_any_log() {
    let options = DbOptions {
        create_if_missing: true,
        create_missing_column_families: true,
        ..DbOptions::default()
    };
    let world = World::in_memory();
    let (log, _) = ingested_behind_logged(&world, &options);
    world.fs.remove(&log).unwrap();
    let verifying = DbOptions {
        track_and_verify_wals: true,
        ..options.clone()
    };
    for read_only in [true, false] {
        let error = open_as(&world, &verifying, read_only).err();
        let error = error.expect("the logs are gone");
        assert!(error.is_corruption(), "{error}");
        assert!(error.text().contains("has no log"), "{error}");
    }
    for read_only in [true, false, true, false] {
        let db = open_as(&world, &options, read_only).unwrap();
        assert!(db.get(b"first").unwrap().is_none());
        let other = db.family("other").unwrap();
        assert_eq!(other.get(b"k").unwrap().as_deref(), Some(&b"ingested"[..]));
        if !read_only {
            db.put(b"later", b"1").unwrap();
        }
        db.close().unwrap();
    }
    let db = open_as(&world, &verifying, false).unwrap();
    assert!(db.get(b"later").unwrap().is_some());
    // Copies have a log.
    for (copy, limit) in [("/flushed", 0), ("/logged", u64::MAX)] {
        db.create_checkpoint(Path::new(copy), limit).unwrap();
        let read_only = open_in(&world, copy, &verifying, true).unwrap();
        assert!(read_only.get(b"later").unwrap().is_some());
        open_in(&world, copy, &verifying, false).unwrap();
    }
}

/// Regression: a database without tables was taken for a new one, and opened empty.
#[test]
fn a_database_with_all_its_data_in_logs_needs_them_if_they_are_tracked() {
    let tracking = DbOptions {
        create_if_missing: true,
        create_missing_column_families: true,
        track_and_verify_wals: true,
        avoid_flush_during_shutdown: true,
        wal_dir: "/logs".into(),
        ..DbOptions::default()
    };
    let world = World::in_memory();
    let db = open_as(&world, &tracking, false).unwrap();
    db.put(b"k", b"v").unwrap();
    db.sync_wal().unwrap();
    db.close().unwrap();
    drop(db);
    let mut logs = world.fs.list(Path::new("/logs")).unwrap();
    logs.retain(|name| name.ends_with(".log"));
    assert!(!logs.is_empty());
    for name in logs {
        world.fs.remove(&Path::new("/logs").join(name)).unwrap();
    }
    for read_only in [true, false] {
        let error = open_as(&world, &tracking, read_only).err();
        let error = error.expect("the logs are gone");
        assert!(error.text().contains("has no log"), "{error}");
    }
}

#[test]
fn a_database_with_tracked_logs_opens_after_a_crash_at_any_operation_of_its_creation() {
    for wal_dir in ["", "/logs"] {
        let tracking = DbOptions {
            create_if_missing: true,
            create_missing_column_families: true,
            track_and_verify_wals: true,
            wal_dir: wal_dir.into(),
            ..DbOptions::default()
        };
        let sim = SimWorld::new(1);
        open_as(&sim.world, &tracking, false).unwrap();
        let trace = sim.fs.trace();
        for at in 0..=trace.len() {
            for model in [
                CrashModel::Synced,
                CrashModel::Blocks,
                CrashModel::NamesFirst,
            ] {
                for image in trace.images(at, model, at as u64).take(8) {
                    let again = SimWorld::on(image, 1);
                    let opened = open_as(&again.world, &tracking, false);
                    assert!(opened.is_ok(), "{model:?} at {at}: {:?}", opened.err());
                }
            }
        }
    }
}

/// Regression: after one opening without the directory of the logs, such as one that was not mounted, the logs were obsolete,
/// and were deleted once they were there again.
#[test]
fn logs_that_were_not_there_are_replayed_later() {
    let with_logs_in = |dir: &str| DbOptions {
        create_if_missing: true,
        create_missing_column_families: true,
        wal_dir: dir.into(),
        ..DbOptions::default()
    };
    let (usual, wrong) = (with_logs_in("/logs"), with_logs_in("/empty"));
    let world = World::in_memory();
    let db = open_as(&world, &usual, false).unwrap();
    db.put(b"flushed", b"1").unwrap();
    db.flush().unwrap();
    for n in 0..100_u8 {
        db.put(&[n], b"logged").unwrap();
    }
    db.close().unwrap();
    drop(db);
    let db = open_as(&world, &wrong, false).unwrap();
    assert!(db.get(b"flushed").unwrap().is_some());
    assert!(db.get(&[7]).unwrap().is_none());
    db.put(b"meanwhile", b"1").unwrap();
    db.close().unwrap();
    drop(db);
    for _ in 0..2 {
        let db = open_as(&world, &usual, false).unwrap();
        for n in 0..100_u8 {
            assert!(db.get(&[n]).unwrap().is_some(), "{n}");
        }
        db.put(b"later", b"1").unwrap();
        db.close().unwrap();
    }
}

/// The end of the logs at an ingestion is kept when the MANIFEST is rewritten, and dropped with the log.
#[test]
fn the_end_of_the_logs_at_an_ingestion_survives_a_new_manifest_but_not_its_log() {
    let options = DbOptions {
        create_if_missing: true,
        create_missing_column_families: true,
        max_manifest_file_size: 1,
        max_manifest_space_amp_pct: 0,
        ..DbOptions::default()
    };
    let world = World::in_memory();
    let (log, second) = ingested_behind_logged(&world, &options);
    let whole = bytes_of(&world, &log);
    replace(&world, &log, &whole[..second]);
    assert!(open_as(&world, &options, true).is_err());
    replace(&world, &log, &whole);
    let db = open_as(&world, &options, false).unwrap();
    db.put(b"fourth", b"4").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    drop(db);
    let db = open_as(&world, &options, false).unwrap();
    assert!(db.get(b"second").unwrap().is_some());
}

/// While a log fills fast, space for the whole next log is reserved; otherwise it is reserved in steps of 8
/// MiB.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test bypasses the file system under test"
)]
fn a_log_behind_one_that_filled_fast_has_its_space() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let family = FamilyOptions {
        write_buffer_size: 12 << 20,
        disable_auto_compactions: true,
        ..FamilyOptions::default()
    };
    let db = open(&OpenRequest {
        path: dir.path(),
        options: &DbOptions {
            create_if_missing: true,
            ..DbOptions::default()
        },
        families: &[FamilyDescriptor::new("default", family)],
        others: None,
        read_only: false,
        world: World::posix(),
    })
    .unwrap();
    let value = [7; 64 << 10];
    // The expected length of the first log is unknown, and others may end before the thread has reserved
    // space.
    for n in 0..10_000_u32 {
        db.put(&n.to_be_bytes(), &value).unwrap();
        let log = db.current_wal_file().unwrap();
        if log.size_file_bytes > 1 << 20 {
            continue;
        }
        let name = format!("{:06}.log", log.log_number);
        let found = std::fs::metadata(dir.path().join(name)).unwrap();
        if found.len() == log.size_file_bytes || found.blocks() * 512 > 11 << 20 {
            // Logs are not mapped in the temporary directory, or this one has its space.
            return;
        }
    }
    panic!("no log had its space reserved");
}

/// The file of a mapped log is longer than the log until a job has truncated it; the reported sizes are those
/// of the log.
#[test]
fn a_log_that_is_still_needed_is_truncated_to_its_records() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::posix();
    let options = DbOptions {
        create_if_missing: true,
        create_missing_column_families: true,
        ..DbOptions::default()
    };
    let families =
        ["default", "other"].map(|name| FamilyDescriptor::new(name, FamilyOptions::default()));
    let db = open(&OpenRequest {
        path: dir.path(),
        options: &options,
        families: &families,
        others: None,
        read_only: false,
        world: world.clone(),
    })
    .unwrap();
    let other = db.family("other").unwrap();
    db.put(b"needs the log", b"1").unwrap();
    let mut batch = WriteBatch::new();
    batch.put_in(&other, b"is flushed", &[7; 300_000]);
    db.write(&batch).unwrap();
    let before = db.current_wal_file().unwrap();
    other.flush().unwrap();
    let told = db.sorted_wal_files().unwrap();
    assert_eq!(
        (told[0].log_number, told[0].size_file_bytes),
        (before.log_number, before.size_file_bytes)
    );
    db.wait_until_quiet().unwrap();
    let path = dir
        .path()
        .join(FileName::Wal(before.log_number).to_string());
    let len = world.fs.status(&path).unwrap().len;
    assert_eq!(len, before.size_file_bytes);
    db.close().unwrap();
}

/// A process that ends before the job that truncates a log leaves zeros after its records, with another log
/// following.
#[test]
fn zeros_at_the_end_of_a_log_followed_by_others_are_not_damage() {
    for mode in [
        WalRecoveryMode::TolerateCorruptedTailRecords,
        WalRecoveryMode::AbsoluteConsistency,
        WalRecoveryMode::PointInTimeRecovery,
        WalRecoveryMode::SkipAnyCorruptedRecords,
    ] {
        let world = World::in_memory();
        let options = DbOptions {
            create_if_missing: true,
            create_missing_column_families: true,
            wal_recovery_mode: mode,
            ..DbOptions::default()
        };
        let db = open_as(&world, &options, false).unwrap();
        let other = db.family("other").unwrap();
        db.put(b"first", b"1").unwrap();
        let mut batch = WriteBatch::new();
        batch.put_in(&other, b"is flushed", b"");
        db.write(&batch).unwrap();
        let first = db.current_wal_file().unwrap().log_number;
        other.flush().unwrap();
        db.put(b"second", b"2").unwrap();
        assert!(db.current_wal_file().unwrap().log_number > first);
        db.close().unwrap();
        drop(db);
        let path = Path::new("/db").join(FileName::Wal(first).to_string());
        let mut bytes = bytes_of(&world, &path);
        bytes.resize(bytes.len().next_multiple_of(128 << 10), 0);
        replace(&world, &path, &bytes);
        let db = open_as(&world, &options, false).unwrap();
        assert_eq!(db.get(b"first").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(
            db.get(b"second").unwrap().as_deref(),
            Some(&b"2"[..]),
            "{mode:?}"
        );
    }
}
