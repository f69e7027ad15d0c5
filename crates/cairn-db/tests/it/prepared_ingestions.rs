//! Ingestion in two phases: prepared files, their commit, and what becomes of them otherwise.

use std::path::Path;

use cairn_db::{Db, FileIngestionHandle, Ingestion, ReplaceRange, SstFileWriter};
use cairn_options::{DbOptions, IngestExternalFileOptions, Options};
use cairn_platform::World;
use cairn_sim::{CrashModel, SimWorld};
use cairn_types::{Code, Result};

use crate::basic::{open_at, small};

/// Writes a table of these keys, all with the value `name`.
fn table(world: &World, name: &str, keys: &[&str]) -> String {
    let path = format!("/out/{name}.sst");
    world
        .fs
        .create_dir_all("/out".as_ref())
        .expect("a directory");
    let mut writer = SstFileWriter::new(world, &DbOptions::default(), &small());
    writer.open(path.as_ref()).expect("a file");
    for key in keys {
        writer
            .put(key.as_bytes(), name.as_bytes())
            .expect("a write");
    }
    writer.finish().expect("a file");
    path
}

fn ingestion(db: &Db, path: &str, options: &str) -> Ingestion {
    let options = IngestExternalFileOptions::from_text(options).expect("options");
    Ingestion::new(db.default_family(), [path], &options)
}

fn prepare(db: &Db, path: &str) -> FileIngestionHandle {
    db.prepare_file_ingestion(&[ingestion(db, path, "")])
        .expect("the file is prepared")
}

fn get(db: &Db, key: &str) -> Option<String> {
    let value = db.get(key.as_bytes()).expect("a read");
    value.map(|value| String::from_utf8_lossy(&value).into_owned())
}

/// The number of tables in the directory of the database.
fn tables(world: &World) -> usize {
    let names = world.fs.list(Path::new("/db")).expect("the directory");
    names.iter().filter(|name| name.ends_with(".sst")).count()
}

fn refused(done: Result<()>) -> Code {
    done.expect_err("the commit is refused").code()
}

#[test]
fn prepared_files_become_visible_with_the_commit() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    let path = table(&world, "a", &["k", "m"]);
    let handle = prepare(&db, &path);
    // The caller's file is no longer needed.
    world.fs.remove(path.as_ref()).unwrap();
    assert_eq!((get(&db, "k"), tables(&world)), (None, 1));
    db.put(b"m", b"before the commit").unwrap();
    let snapshot = db.snapshot();
    db.commit_file_ingestion_handle(handle).unwrap();
    assert_eq!(get(&db, "k").as_deref(), Some("a"));
    assert_eq!(get(&db, "m").as_deref(), Some("a"));
    let at = cairn_options::ReadOptions {
        snapshot: Some(snapshot.sequence()),
        ..Default::default()
    };
    let value = db.get_with(b"m", &at).unwrap();
    assert_eq!(value.as_deref(), Some(&b"before the commit"[..]));
}

#[test]
fn several_handles_are_committed_together_and_later_ones_are_newer() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    let other = db.create_family("other", &small()).unwrap();
    let path = table(&world, "c", &["k"]);
    let options = IngestExternalFileOptions::default();
    let handles = vec![
        prepare(&db, &table(&world, "a", &["k", "l"])),
        prepare(&db, &table(&world, "b", &["l", "m"])),
        db.prepare_file_ingestion(&[Ingestion::new(&other, [path], &options)])
            .unwrap(),
    ];
    db.commit_file_ingestion_handles(handles).unwrap();
    let found = ["k", "l", "m"].map(|key| get(&db, key));
    let found = found.each_ref().map(Option::as_deref);
    assert_eq!(found, [Some("a"), Some("b"), Some("b")]);
    assert_eq!(other.get(b"k").unwrap().as_deref(), Some(&b"c"[..]));
}

#[test]
fn dropped_aborted_and_refused_files_are_deleted() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    let (a, b) = (table(&world, "a", &["k"]), table(&world, "b", &["k"]));
    drop(prepare(&db, &a));
    prepare(&db, &a).abort();
    assert_eq!(tables(&world), 0);
    // A preparation that fails leaves nothing.
    let twice = [ingestion(&db, &a, ""), ingestion(&db, "/out/none.sst", "")];
    assert!(db.prepare_file_ingestion(&twice).is_err());
    let broken = ingestion(&db, "/out/none.sst", "");
    assert!(db.prepare_file_ingestion(&[broken]).is_err());
    assert_eq!(tables(&world), 0);
    assert_eq!(
        refused(db.commit_file_ingestion_handles(vec![])),
        Code::InvalidArgument
    );
    let with = |path: &str, options: &str| {
        let ingestion = ingestion(&db, path, options);
        db.prepare_file_ingestion(&[ingestion])
            .expect("it is prepared")
    };
    let mixed = vec![with(&a, ""), with(&b, "link_files=true")];
    assert_eq!(
        refused(db.commit_file_ingestion_handles(mixed)),
        Code::InvalidArgument
    );
    let mixed = vec![with(&a, ""), with(&b, "fill_cache=false")];
    assert_eq!(
        refused(db.commit_file_ingestion_handles(mixed)),
        Code::InvalidArgument
    );
    let overlapping = || with(&a, "allow_global_seqno=false;allow_blocking_flush=false");
    let overlapping = vec![overlapping(), overlapping()];
    assert_eq!(
        refused(db.commit_file_ingestion_handles(overlapping)),
        Code::InvalidArgument
    );
    let mut replacing = ingestion(&db, &b, "snapshot_consistency=false");
    replacing.replace = Some(ReplaceRange::All);
    let replacing = db.prepare_file_ingestion(&[replacing]).unwrap();
    let replacing = vec![with(&a, "snapshot_consistency=false"), replacing];
    assert_eq!(
        refused(db.commit_file_ingestion_handles(replacing)),
        Code::NotSupported
    );
    assert_eq!((get(&db, "k"), tables(&world)), (None, 0));
    // The files of both databases are deleted.
    let elsewhere = World::in_memory();
    let other = open_at(&elsewhere, &[]).unwrap();
    let foreign = vec![
        prepare(&db, &a),
        prepare(&other, &table(&elsewhere, "c", &["k"])),
    ];
    assert_eq!(
        refused(db.commit_file_ingestion_handles(foreign)),
        Code::InvalidArgument
    );
    assert_eq!((tables(&world), tables(&elsewhere)), (0, 0));
}

#[test]
fn files_for_a_dropped_family_are_refused_and_deleted() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    let other = db.create_family("other", &small()).unwrap();
    let path = table(&world, "a", &["k"]);
    let options = IngestExternalFileOptions::default();
    let handle = db.prepare_file_ingestion(&[Ingestion::new(&other, [path], &options)]);
    let handles = vec![handle.unwrap(), prepare(&db, &table(&world, "b", &["k"]))];
    db.drop_family(&other).unwrap();
    assert_eq!(
        refused(db.commit_file_ingestion_handles(handles)),
        Code::ColumnFamilyDropped
    );
    assert_eq!((get(&db, "k"), tables(&world)), (None, 0));
}

#[test]
fn a_close_deletes_prepared_files() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    let path = table(&world, "a", &["k"]);
    let (late, dropped) = (prepare(&db, &path), prepare(&db, &path));
    let also = db.clone();
    db.close().unwrap();
    assert_eq!(tables(&world), 0);
    // Another process may use the directory by now.
    let next = open_at(&world, &[]).unwrap();
    let kept = prepare(&next, &path);
    assert!(also.commit_file_ingestion_handle(late).is_err());
    assert!(
        also.prepare_file_ingestion(&[ingestion(&also, &path, "")])
            .is_err()
    );
    drop(dropped);
    assert_eq!(tables(&world), 1);
    next.commit_file_ingestion_handle(kept).unwrap();
    assert_eq!(get(&next, "k").as_deref(), Some("a"));
}

/// Crashes between all file operations of a preparation and its commit.
#[test]
fn a_crash_leaves_all_files_of_a_commit_or_none() {
    let sim = SimWorld::new(3);
    let db = open_at(&sim.world, &[]).unwrap();
    db.put(b"m", b"old").unwrap();
    let paths = [
        table(&sim.world, "a", &["k", "l"]),
        table(&sim.world, "b", &["l", "m"]),
    ];
    let from = sim.fs.trace().len();
    let handles: Vec<_> = paths.iter().map(|path| prepare(&db, path)).collect();
    let prepared = sim.fs.trace().len();
    db.commit_file_ingestion_handles(handles).unwrap();
    let trace = sim.fs.trace();
    assert!(from < prepared && prepared < trace.len());
    let (mut with, mut without) = (0, 0);
    for at in from..=trace.len() {
        for model in [
            CrashModel::Kill,
            CrashModel::Synced,
            CrashModel::Prefix,
            CrashModel::NamesFirst,
        ] {
            for image in trace.images(at, model, 7).take(3) {
                let world = SimWorld::on(image, 1).world;
                let db = open_at(&world, &[]).unwrap();
                let found = ["k", "l", "m"].map(|key| get(&db, key));
                let found = found.each_ref().map(Option::as_deref);
                match found[0] {
                    None => {
                        assert!(found[1].is_none() && found[2] != Some("b"), "{found:?}");
                        assert!(at < trace.len(), "the commit was acknowledged");
                        without += 1;
                    }
                    Some(_) => {
                        assert_eq!(found, [Some("a"), Some("b"), Some("b")]);
                        assert!(at > prepared);
                        with += 1;
                    }
                }
                let live = db.live_files_metadata();
                assert_eq!(tables(&world), live.len(), "{model:?} at {at}");
            }
        }
    }
    assert!(with > 0 && without > 0);
}

/// Regression: the ingestion of a table in the directory of the database, under the next number, failed and deleted it.
#[test]
fn a_failed_ingestion_deletes_no_file_that_it_did_not_create() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    let path = table(&world, "a", &["k"]);
    for number in 1..100 {
        let inside = format!("/db/{number:06}.sst");
        world.fs.link(path.as_ref(), inside.as_ref()).unwrap();
    }
    for options in ["", "move_files=true", "link_files=true"] {
        let ingested = db.ingest_external_files(&[ingestion(&db, &path, options)]);
        assert_eq!(refused(ingested), Code::InvalidArgument);
    }
    assert_eq!((get(&db, "k"), tables(&world)), (None, 99));
    assert!(world.fs.status(path.as_ref()).is_ok());
}
