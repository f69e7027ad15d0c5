//! Backups of databases in memory, on files of RocksDB, and in the simulator.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod crash;
mod create;
mod fault;
mod golden;
mod hostile;
mod restore;

use std::collections::BTreeMap;
use std::path::Path;

use cairn_backup::{BackupEngine, BackupEngineOptions, CreateBackupOptions, RestoreOptions};
use cairn_db::{Db, OpenRequest};
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::World;
use cairn_types::Result;

const DB: &str = "/db";
const BACKUPS: &str = "/backups";
const RESTORED: &str = "/restored";

fn try_open(world: &World, path: &Path, family: &FamilyOptions, create: bool) -> Result<Db> {
    let options = DbOptions {
        create_if_missing: create,
        ..DbOptions::default()
    };
    cairn_db::open(&OpenRequest {
        path,
        options: &options,
        families: &[],
        others: Some(family),
        read_only: false,
        world: world.clone(),
    })
}

/// Opens or creates the database of the tests.
fn open(world: &World) -> Db {
    try_open(world, DB.as_ref(), &FamilyOptions::default(), true).unwrap()
}

/// Opens the engine of the tests.
fn engine(world: &World) -> BackupEngine {
    BackupEngine::open(world, &BackupEngineOptions::new(BACKUPS)).unwrap()
}

fn back_up(engine: &BackupEngine, db: &Db) -> u32 {
    engine
        .create_new_backup(db, &CreateBackupOptions::default())
        .unwrap()
}

fn back_up_flushed(engine: &BackupEngine, db: &Db) -> u32 {
    let options = CreateBackupOptions {
        flush_before_backup: true,
        ..CreateBackupOptions::default()
    };
    engine.create_new_backup(db, &options).unwrap()
}

/// Returns all entries of the default family.
fn entries(db: &Db) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut iter = db.iter();
    let mut found = BTreeMap::new();
    iter.seek_to_first();
    while iter.valid() {
        found.insert(iter.key().to_vec(), iter.value().to_vec());
        iter.next();
    }
    iter.status().unwrap();
    found
}

/// Restores a backup and returns the entries of the database.
fn restored(world: &World, engine: &BackupEngine, id: u32) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let dir = Path::new(RESTORED);
    engine
        .restore_db_from_backup(id, dir, dir, &RestoreOptions::default())
        .unwrap();
    let db = try_open(world, dir, &FamilyOptions::default(), false).unwrap();
    let found = entries(&db);
    db.close().unwrap();
    found
}

/// Returns the paths of all files below `dir`, relative to it, sorted.
fn files(world: &World, dir: &Path) -> Vec<String> {
    let mut all = Vec::new();
    collect(world, dir, "", &mut all);
    all.sort();
    all
}

fn collect(world: &World, dir: &Path, prefix: &str, all: &mut Vec<String>) {
    for name in world.fs.list(dir).unwrap() {
        let path = dir.join(&name);
        let relative = format!("{prefix}{name}");
        match world.fs.status(&path).unwrap().kind {
            cairn_platform::fs::PathKind::Directory => {
                collect(world, &path, &format!("{relative}/"), all);
            }
            _ => all.push(relative),
        }
    }
}
