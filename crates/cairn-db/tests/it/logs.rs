//! What lies in the logs is there at the next opening.

use std::path::Path;

use cairn_db::{Db, FamilyDescriptor, OpenRequest, WriteBatch, open};
use cairn_format::log::{Event, LogReader};
use cairn_format::manifest::VersionEdit;
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::World;
use cairn_platform::fs::FileMode;
use cairn_types::Result;

fn open_as(world: &World, options: &DbOptions, read_only: bool) -> Result<Db> {
    let families =
        ["default", "other"].map(|name| FamilyDescriptor::new(name, FamilyOptions::default()));
    open(&OpenRequest {
        path: Path::new("/db"),
        options,
        families: &families,
        others: None,
        read_only,
        world: world.clone(),
    })
}

/// A log says where the last batch of the one before it begins, as RocksDB's do: not where it ends.
#[test]
fn logs_of_long_batches_vouch_for_each_other() {
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
        // The other family keeps the old logs alive.
        db.flush_families(&[&default]).unwrap();
    }
    let reader = open_as(&world, &options, true).unwrap();
    let other = reader.family("other").unwrap();
    assert_eq!(other.get(&[0, 2]).unwrap().as_deref(), Some(&b"y"[..]));
    assert_eq!(other.get(&[2, 0]).unwrap().as_deref(), Some(&b"y"[..]));
}

/// RocksDB passes over the tables of a record that speaks of logs too.
#[test]
fn the_manifest_speaks_of_logs_in_records_of_their_own() {
    let world = World::in_memory();
    let options = DbOptions {
        create_if_missing: true,
        create_missing_column_families: true,
        track_and_verify_wals_in_manifest: true,
        ..DbOptions::default()
    };
    let db = open_as(&world, &options, false).unwrap();
    for key in [b"a", b"b", b"c"] {
        db.put(key, b"x").unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    let names = world.fs.list(Path::new("/db")).unwrap();
    let manifest = names
        .iter()
        .find(|name| name.starts_with("MANIFEST"))
        .unwrap();
    let path = Path::new("/db").join(manifest);
    let file = world.fs.open(&path, FileMode::default()).unwrap();
    let mut reader = LogReader::new(|at: u64, buf: &mut [u8]| file.read_at(at, buf), 0);
    let (mut deletions, mut tables) = (0, 0);
    loop {
        match reader.next().unwrap() {
            Event::Record { payload, .. } => {
                let edit = VersionEdit::decode(payload).unwrap();
                let of_logs = !edit.wal_additions.is_empty() || edit.wals_deleted_before.is_some();
                assert!(!of_logs || (edit.new_files.is_empty() && edit.deleted_files.is_empty()));
                deletions += u32::from(edit.wals_deleted_before.is_some());
                tables += edit.new_files.len();
            }
            Event::End(_) => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(deletions > 0 && tables == 3, "{deletions} {tables}");
}
