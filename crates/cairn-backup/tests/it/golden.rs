//! Directories of backups that RocksDB wrote: schema 1 and 2, with session ids, checksums and blob files.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use cairn_backup::{
    BackupEngine, BackupEngineOptions, BackupEngineReadOnly, CreateBackupOptions, RestoreMode,
    RestoreOptions,
};
use cairn_options::FamilyOptions;
use cairn_platform::World;
use flate2::read::GzDecoder;
use tempfile::TempDir;

use crate::{entries, files, try_open};

const NAMES: [(&str, usize); 6] = [
    ("v0708_backup", 7),
    ("v1101_backup", 6),
    ("v1109_backup", 8),
    ("v0708_backup_schema2", 6),
    ("v1101_backup_schema2", 7),
    ("v1109_backup_schema2", 7),
];

#[expect(
    clippy::disallowed_methods,
    reason = "the files of the repository are outside of the World under test"
)]
fn golden(file: &str) -> GzDecoder<File> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    GzDecoder::new(File::open(dir.join(file)).unwrap())
}

fn unpacked(name: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let archive = golden(&format!("{name}.tar.gz"));
    tar::Archive::new(archive).unpack(dir.path()).unwrap();
    let backups = dir.path().join("bk");
    (dir, backups)
}

/// Returns the entries of the database at the time of its last backup.
fn expected(name: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let lines = std::io::read_to_string(golden(&format!("{name}.expected.jsonl.gz"))).unwrap();
    let unhex = |value: &serde_json::Value| -> Vec<u8> {
        let digits = value.as_str().unwrap().as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        digits.chunks(2).map(|pair| byte(pair).unwrap()).collect()
    };
    let entry = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        (unhex(&line["k"]), unhex(&line["v"]))
    };
    lines.lines().map(entry).collect()
}

#[test]
fn backups_of_rocksdb_are_listed_verified_and_restored() {
    let world = World::posix();
    for (name, count) in NAMES {
        let (dir, backups) = unpacked(name);
        let before = files(&world, &backups);
        let options = BackupEngineOptions::new(&backups);
        let engine = BackupEngineReadOnly::open(&world, &options).unwrap();
        let infos = engine.backups();
        assert_eq!(infos.len(), 2, "{name}");
        let latest = engine.latest_backup().unwrap();
        assert_eq!((latest.backup_id, latest.number_files as usize), (2, count));
        assert_eq!(latest.app_metadata, b"golden app metadata");
        assert!(latest.timestamp > 1_700_000_000 && latest.size > 10_000);
        for info in infos {
            engine.verify_backup(info.backup_id, true).unwrap();
        }
        let target = dir.path().join("restored");
        let restore = RestoreOptions::default();
        engine
            .restore_db_from_latest_backup(&target, &target, &restore)
            .unwrap();
        let db = try_open(&world, &target, &FamilyOptions::default(), false).unwrap();
        assert!(entries(&db) == expected(name), "{name}");
        db.close().unwrap();
        engine
            .restore_db_from_backup(1, &target, &target, &restore)
            .unwrap();
        let db = try_open(&world, &target, &FamilyOptions::default(), false).unwrap();
        assert!(entries(&db).len() <= expected(name).len(), "{name}");
        assert_eq!(files(&world, &backups), before, "{name}");
    }
}

#[test]
fn cairn_appends_to_a_directory_of_rocksdb_and_shares_its_tables() {
    let world = World::posix();
    for (name, _) in NAMES {
        let (dir, backups) = unpacked(name);
        let options = BackupEngineOptions::new(&backups);
        let engine = BackupEngine::open(&world, &options).unwrap();
        let target = dir.path().join("restored");
        engine
            .restore_db_from_latest_backup(&target, &target, &RestoreOptions::default())
            .unwrap();
        // Compactions would replace the tables that are to be shared.
        let family = FamilyOptions {
            disable_auto_compactions: true,
            ..FamilyOptions::default()
        };
        let db = try_open(&world, &target, &family, false).unwrap();
        db.put(b"new", b"entry").unwrap();
        let shared = files(&world, &backups.join("shared_checksum"));
        let create = CreateBackupOptions {
            flush_before_backup: true,
            ..CreateBackupOptions::default()
        };
        assert_eq!(engine.create_new_backup(&db, &create).unwrap(), 3);
        let now = files(&world, &backups.join("shared_checksum"));
        // Tables with session ids, and blob files, which are named by checksums, are there already. Tables named by
        // checksums are copied to names with their session ids.
        let again = match name.ends_with("schema2") {
            true => shared.iter().filter(|name| name.ends_with(".sst")).count(),
            false => 0,
        };
        assert_eq!(now.len(), shared.len() + again + 1, "{name}: {now:?}");
        assert!(shared.iter().all(|file| now.contains(file)));
        engine.verify_backup(3, true).unwrap();
        engine.purge_old_backups(1).unwrap();
        engine.verify_backup(3, true).unwrap();
        assert_eq!(engine.backups().len(), 1);
        db.close().unwrap();
        for mode in [
            RestoreMode::VerifyChecksum,
            RestoreMode::KeepLatestDbSessionIdFiles,
            RestoreMode::PurgeAllFiles,
        ] {
            let restore = RestoreOptions {
                mode,
                ..RestoreOptions::default()
            };
            engine
                .restore_db_from_latest_backup(&target, &target, &restore)
                .unwrap();
            let db = try_open(&world, &target, &family, false).unwrap();
            let mut all = expected(name);
            all.insert(b"new".to_vec(), b"entry".to_vec());
            assert!(entries(&db) == all, "{name} {mode:?}");
            db.close().unwrap();
        }
    }
}
