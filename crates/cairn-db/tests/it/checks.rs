//! Checksums of whole files, and verification of new tables.

use std::path::Path;

use cairn_db::{Db, OpenRequest, SstFileWriter, open};
use cairn_options::{
    CompactRangeOptions, DbOptions, FamilyOptions, FileChecksum, IngestExternalFileOptions, Options,
};
use cairn_sim::trace::Call;
use cairn_sim::{Fault, FaultPlan, FaultRule, SimWorld, Trigger};
use cairn_types::{Code, Result};

use crate::basic::{db_options, small};

fn open_on(sim: &SimWorld, options: &DbOptions) -> Result<Db> {
    let family = FamilyOptions {
        enable_blob_files: true,
        min_blob_size: 500,
        ..small()
    };
    open(&OpenRequest {
        path: Path::new("/db"),
        options,
        families: &[],
        others: Some(&family),
        read_only: false,
        world: sim.world.clone(),
    })
}

/// Checks that all `tables` and `blobs` have the checksums of their files.
fn check(sim: &SimWorld, db: &Db, tables: usize, blobs: usize) {
    let mut all = db.live_files_checksum_info();
    all.sort();
    assert_eq!(all.len(), tables + blobs, "{all:?}");
    let image = sim.fs.image();
    let mut blobs_found = 0;
    for (number, checksum, function) in all {
        let blob = format!("/db/{number:06}.blob");
        let table = format!("/db/{number:06}.sst");
        let is_blob = image.file(blob.as_ref()).is_some();
        blobs_found += usize::from(is_blob);
        let path = if is_blob { blob } else { table };
        let bytes = image.file(path.as_ref()).expect("the file");
        let crc = cairn_format::checksum::crc32c_extend(0, bytes);
        assert_eq!(checksum, crc.to_be_bytes(), "{path}");
        assert_eq!(function, "FileChecksumCrc32c");
    }
    assert_eq!(blobs_found, blobs);
    db.verify_file_checksums().expect("all match");
}

#[test]
fn every_file_has_its_checksum_in_the_manifest() {
    let sim = SimWorld::new(1);
    let mut options = db_options();
    options
        .set("file_checksum_gen_factory", "FileChecksumGenCrc32cFactory")
        .unwrap();
    assert_eq!(
        options.file_checksum_gen_factory,
        Some(FileChecksum::Crc32c)
    );
    let db = open_on(&sim, &options).unwrap();
    db.put(b"a", b"small").unwrap();
    db.put(b"b", &[7; 1000]).unwrap();
    db.flush().unwrap();
    check(&sim, &db, 1, 1);
    // Only moved, not rewritten.
    let all = CompactRangeOptions::default();
    db.compact_range(None, None, &all).unwrap();
    check(&sim, &db, 1, 1);
    let mut writer = SstFileWriter::new(&sim.world, &DbOptions::default(), &small());
    sim.world.fs.create_dir_all("/out".as_ref()).unwrap();
    writer.open("/out/x.sst".as_ref()).unwrap();
    writer.put(b"a", b"ingested").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(["/out/x.sst"], &IngestExternalFileOptions::default())
        .unwrap();
    check(&sim, &db, 2, 1);
    db.put(b"c", b"new").unwrap();
    db.compact_range(None, None, &all).unwrap();
    check(&sim, &db, 1, 1);
    db.close().unwrap();
    drop(db);

    let db = open_on(&sim, &db_options()).unwrap();
    let refused = db.verify_file_checksums().unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    db.close().unwrap();
    drop(db);
    let db = open_on(&sim, &options).unwrap();
    check(&sim, &db, 1, 1);
    let paths: Vec<_> = sim.fs.image().files().map(|(path, _)| path).collect();
    for end in ["sst", "blob"] {
        let is_it = |path: &&std::path::PathBuf| {
            path.starts_with("/db") && path.extension().is_some_and(|found| found == end)
        };
        let path = paths.iter().find(is_it).expect("one is left");
        sim.fs.flip_bit(path, 30, 2).unwrap();
        let error = db.verify_file_checksums().unwrap_err();
        assert!(error.is_corruption(), "{error}");
        assert!(error.text().contains(&*path.to_string_lossy()), "{error}");
        sim.fs.flip_bit(path, 30, 2).unwrap();
    }
    db.verify_file_checksums().unwrap();
}

/// The next `lasts` reads of tables have a flipped bit.
fn flips(lasts: usize) -> FaultPlan {
    FaultPlan::new(vec![FaultRule {
        trigger: Trigger::Class {
            call: Call::Read,
            name_end: ".sst".to_owned(),
            count: 0,
        },
        fault: Fault::FlippedBit,
        lasts,
    }])
}

#[test]
fn a_flush_that_reads_its_table_back_fails_if_it_is_damaged() {
    for (changes, lasts, fails) in [
        (None, 100, false),
        (Some(("paranoid_file_checks", "true")), 100, true),
        (Some(("paranoid_file_checks", "true")), 0, false),
        (Some(("verify_output_flags", "4097")), 100, true),
        // This applies to compactions.
        (Some(("verify_output_flags", "1031")), 100, false),
    ] {
        let sim = SimWorld::new(2);
        let db = open_on(&sim, &db_options()).unwrap();
        if let Some(change) = changes {
            db.set_options(&[change]).unwrap();
        }
        db.put(b"a", b"1").unwrap();
        sim.fs.set_plan(flips(lasts));
        let flushed = db.flush();
        sim.fs.set_plan(flips(0));
        assert_eq!(flushed.is_err(), fails, "{changes:?} {lasts}: {flushed:?}");
        if let Err(error) = flushed {
            assert!(error.is_corruption(), "{error}");
            assert_eq!(db.live_files_checksum_info(), []);
        }
        assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    }
}

/// Regression: a MANIFEST damaged while the database was open was only detected by the next opening.
#[test]
fn a_damaged_manifest_is_replaced_when_the_database_is_closed() {
    for verifies in [true, false] {
        let sim = SimWorld::new(2);
        let db = open_on(&sim, &db_options()).unwrap();
        let value = verifies.to_string();
        db.set_db_options(&[("verify_manifest_content_on_close", &value)])
            .unwrap();
        db.put(b"a", b"1").unwrap();
        db.flush().unwrap();
        let names = sim.world.fs.list(Path::new("/db")).unwrap();
        let name = names.iter().find(|name| name.starts_with("MANIFEST"));
        let path = Path::new("/db").join(name.unwrap());
        sim.fs.flip_bit(&path, 30, 2).unwrap();
        db.close().unwrap();
        drop(db);
        let reopened = open_on(&sim, &db_options());
        assert_eq!(reopened.is_ok(), verifies);
        if let Ok(db) = reopened {
            assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
        }
    }
}
