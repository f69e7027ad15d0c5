//! Families that are written by ingestion only (`disallow_memtable_writes`).

use std::path::Path;

use cairn_db::{Db, FamilyDescriptor, Ingestion, OpenRequest, SstFileWriter, WriteBatch};
use cairn_options::{
    CompactRangeOptions, DbOptions, FamilyOptions, IngestExternalFileOptions, WriteOptions,
};
use cairn_platform::World;
use cairn_types::{Code, Result};

use crate::basic::{db_options, open_at, small};

fn ingest_only() -> FamilyOptions {
    FamilyOptions {
        disallow_memtable_writes: true,
        ..small()
    }
}

fn described(options: FamilyOptions) -> [FamilyDescriptor; 1] {
    [FamilyDescriptor {
        name: "loaded".to_owned(),
        options,
    }]
}

fn ingest(db: &Db, world: &World, keys: &[&[u8]]) -> Result<()> {
    let family = db.family("loaded").expect("the family");
    let path = Path::new("/out.sst");
    let mut writer = SstFileWriter::new(world, &db.options(), &family.options());
    writer.open(path)?;
    for key in keys {
        writer.put(key, b"ingested")?;
    }
    writer.finish()?;
    let options = IngestExternalFileOptions::default();
    db.ingest_external_files(&[Ingestion::new(&family, [path], &options)])
}

fn refused(written: Result<()>) {
    let error = written.expect_err("the write is refused");
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    assert!(error.text().contains("disallow_memtable_writes"), "{error}");
}

#[test]
fn only_ingestions_write_to_the_family() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    let family = db.create_family("loaded", &ingest_only()).unwrap();
    ingest(&db, &world, &[b"a", b"m", b"z"]).unwrap();
    let writes: [fn(&mut WriteBatch, &cairn_db::Family); 5] = [
        |batch, family| batch.put_in(family, b"b", b""),
        |batch, family| batch.delete_in(family, b"a"),
        |batch, family| batch.single_delete_in(family, b"a"),
        |batch, family| batch.merge_in(family, b"a", b""),
        |batch, family| batch.delete_range_in(family, b"a", b"b"),
    ];
    for write in writes {
        let mut batch = WriteBatch::new();
        batch.put(b"mixed", b"");
        write(&mut batch, &family);
        refused(db.write(&batch));
        refused(db.write(&WriteBatch::from_data(batch.data()).unwrap()));
        let options = WriteOptions {
            ignore_missing_column_families: true,
            ..WriteOptions::default()
        };
        refused(db.write_with(&batch, &options));
    }
    refused(family.put(b"b", b""));
    refused(family.clip(b"b", b"c"));
    // No part of a batch was written, and others are.
    assert!(db.get(b"mixed").unwrap().is_none());
    db.put(b"other", b"").unwrap();
    family.flush().unwrap();
    family
        .compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    assert_eq!(family.get(b"a").unwrap().as_deref(), Some(&b"ingested"[..]));
    // The option is kept in the OPTIONS file, and cannot be changed in an open database.
    let changed = family.set_options(&[("disallow_memtable_writes", "false")]);
    assert_eq!(changed.unwrap_err().code(), Code::InvalidArgument);
    db.close().unwrap();
    drop(family);

    let db = open_at(&world, &described(ingest_only())).unwrap();
    ingest(&db, &world, &[b"b"]).unwrap();
    let family = db.family("loaded").unwrap();
    assert_eq!(family.get(b"b").unwrap().as_deref(), Some(&b"ingested"[..]));
    assert_eq!(family.get(b"z").unwrap().as_deref(), Some(&b"ingested"[..]));
    refused(family.put(b"b", b""));
}

#[test]
fn an_opening_that_would_recover_writes_of_the_family_fails_and_leaves_them() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    let family = db.create_family("loaded", &small()).unwrap();
    family.put(b"k", b"logged").unwrap();
    db.put(b"k", b"logged").unwrap();
    db.close().unwrap();
    drop((family, db));
    refused(open_at(&world, &described(ingest_only())).map(drop));
    let db = open_at(&world, &described(small())).unwrap();
    let family = db.family("loaded").unwrap();
    assert_eq!(family.get(b"k").unwrap().as_deref(), Some(&b"logged"[..]));
    // Once they are in tables, the log of another family may have them.
    family.flush().unwrap();
    db.close().unwrap();
    drop((family, db));
    let db = open_at(&world, &described(ingest_only())).unwrap();
    let family = db.family("loaded").unwrap();
    assert_eq!(family.get(b"k").unwrap().as_deref(), Some(&b"logged"[..]));
    assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"logged"[..]));
}

/// Neither is a prepared transaction with writes of the family lost.
#[test]
fn a_prepared_transaction_with_writes_of_the_family_is_refused() {
    let world = World::in_memory();
    let options = DbOptions {
        allow_2pc: true,
        ..db_options()
    };
    let open = |family: FamilyOptions| {
        cairn_db::open(&OpenRequest {
            path: Path::new("/db"),
            options: &options,
            families: &described(family),
            others: Some(&small()),
            read_only: false,
            world: world.clone(),
        })
    };
    let db = open_at(&world, &[]).unwrap();
    db.create_family("loaded", &small()).unwrap();
    db.close().unwrap();
    drop(db);
    let db = open(small()).unwrap();
    let family = db.family("loaded").unwrap();
    let mut batch = WriteBatch::new();
    batch.put_in(&family, b"k", b"prepared");
    db.prepare(b"t", &batch, &WriteOptions::default()).unwrap();
    db.close().unwrap();
    drop((family, db));
    refused(open(ingest_only()).map(drop));
    let db = open(small()).unwrap();
    db.commit_prepared(b"t", &WriteOptions::default()).unwrap();
    db.close().unwrap();
    drop(db);
    // The commit is logged, and its entries are recovered from the section.
    refused(open(ingest_only()).map(drop));
    let db = open(small()).unwrap();
    let family = db.family("loaded").unwrap();
    assert_eq!(family.get(b"k").unwrap().as_deref(), Some(&b"prepared"[..]));
    let mut batch = WriteBatch::new();
    batch.put(b"k", b"prepared");
    db.prepare(b"u", &batch, &WriteOptions::default()).unwrap();
    family.flush().unwrap();
    db.close().unwrap();
    drop((family, db));
    let db = open(ingest_only()).unwrap();
    let family = db.family("loaded").unwrap();
    let mut batch = WriteBatch::new();
    batch.put_in(&family, b"k", b"new");
    refused(db.prepare(b"v", &batch, &WriteOptions::default()));
    db.commit_prepared(b"u", &WriteOptions::default()).unwrap();
}

#[test]
fn the_default_family_takes_writes() {
    let world = World::in_memory();
    let default = FamilyDescriptor {
        name: "default".to_owned(),
        options: ingest_only(),
    };
    refused(open_at(&world, &[default]).map(drop));
    open_at(&world, &[]).unwrap();
}
