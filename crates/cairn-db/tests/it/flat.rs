//! Databases with tables without blocks.

use std::path::Path;

use cairn_db::{Db, SstFileReader, SstFileWriter};
use cairn_options::{
    CompactRangeOptions, DbOptions, FamilyOptions, IngestExternalFileOptions, Options, ReadOptions,
};
use cairn_sim::{CrashModel, DiskImage, SimWorld};
use cairn_types::{Code, Result};

use crate::basic::db_options;
use crate::errors::{get, open_on, synced};

const PLAIN: &str = "prefix_extractor=fixed:3;\
                     table_factory={id=PlainTable;store_index_in_file=true;encoding_type=kPrefix}";
const CUCKOO: &str = "table_factory={id=CuckooTable;cuckoo_block_size=2}";

fn family(text: &str) -> FamilyOptions {
    FamilyOptions::from_text(text).expect("valid options")
}

fn open(sim: &SimWorld, text: &str) -> Result<Db> {
    open_on(sim, &db_options(), &family(text))
}

fn compact(db: &Db) {
    db.compact_range(None, None, &CompactRangeOptions::default())
        .expect("a compaction");
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

fn format_of(db: &Db) -> Vec<String> {
    let tables = db.properties_of_all_tables().expect("properties");
    let encoding = &b"rocksdb.plain.table.encoding.type"[..];
    let module = &b"rocksdb.cuckoo.hash.usemodule"[..];
    let kinds = tables.values().map(|properties| {
        let others = &properties.others;
        match (others.contains_key(encoding), others.contains_key(module)) {
            (true, _) => "plain",
            (_, true) => "cuckoo",
            _ => "blocks",
        }
    });
    let mut kinds: Vec<String> = kinds.map(str::to_owned).collect();
    kinds.sort();
    kinds
}

/// Returns the number of the last write in the image. Every earlier one must be there.
fn recovered(image: DiskImage, text: &str) -> u32 {
    let sim = SimWorld::on(image, 1);
    let db = open(&sim, text).expect("the database opens");
    let number = get(&db, b"number00").map_or(0, |value| {
        std::str::from_utf8(&value)
            .expect("digits")
            .parse()
            .expect("a number")
    });
    for n in 1..=number {
        assert_eq!(get(&db, &key(n)), Some(format!("{n:08}").into_bytes()));
    }
    db.verify_checksum(&ReadOptions::default())
        .expect("whole tables");
    number
}

#[test]
fn acknowledged_writes_survive_crashes() {
    for text in [PLAIN, CUCKOO] {
        let sim = SimWorld::new(5);
        let db = open(&sim, text).unwrap();
        let begin = sim.fs.trace().len();
        let mut acknowledged = vec![(0, begin)];
        for n in 1..=12u32 {
            let value = format!("{n:08}").into_bytes();
            db.put(&key(n), &value).unwrap();
            db.put_with(b"number00", &value, &synced()).unwrap();
            acknowledged.push((n, sim.fs.trace().len()));
            if n % 4 == 0 {
                db.flush().unwrap();
            }
            if n == 9 {
                compact(&db);
            }
        }
        drop(db);
        let trace = sim.fs.trace();
        let mut images = 0;
        for at in (begin..=trace.len()).step_by(2) {
            for model in [CrashModel::Synced, CrashModel::Prefix] {
                for image in trace.images(at, model, at as u64).take(2) {
                    let found = recovered(image, text);
                    images += 1;
                    let durable = acknowledged.iter().filter(|(_, len)| *len <= at);
                    let least = durable.map(|(number, _)| *number).max().unwrap();
                    assert!(found >= least, "{model:?} at {at}: {found} of {least}");
                }
            }
        }
        assert!(images > 100, "{images} images");
    }
}

#[test]
fn a_database_may_change_its_table_format() {
    let sim = SimWorld::new(1);
    let mut expected = Vec::new();
    let formats = [
        "table_factory={id=PlainTable;hash_table_ratio=0}",
        CUCKOO,
        "table_factory={id=BlockBasedTable}",
    ];
    for (round, text) in (0..).zip(formats) {
        let text = format!("disable_auto_compactions=true;{text}");
        let db = open(&sim, &text).unwrap();
        for n in (round..600).step_by(3) {
            db.put(&key(n), format!("{n:08}").as_bytes()).unwrap();
            expected.push(n);
        }
        db.flush().unwrap();
    }
    let db = open(
        &sim,
        "disable_auto_compactions=true;table_factory={id=CuckooTable}",
    )
    .unwrap();
    assert_eq!(format_of(&db), ["blocks", "cuckoo", "plain"]);
    let check = |db: &Db| {
        for &n in &expected {
            assert_eq!(get(db, &key(n)), Some(format!("{n:08}").into_bytes()));
        }
        assert_eq!(get(db, b"key00600"), None);
        let mut iter = db.iter();
        let mut count = 0;
        iter.seek_to_last();
        while iter.valid() {
            count += 1;
            assert_eq!(iter.key(), key(600 - count));
            iter.prev();
        }
        iter.status().unwrap();
        assert_eq!(count, 600);
        db.verify_checksum(&ReadOptions::default()).unwrap();
    };
    check(&db);
    compact(&db);
    assert_eq!(format_of(&db), ["cuckoo"]);
    check(&db);
    let plain = "{id=PlainTable;hash_table_ratio=0}";
    db.set_options(&[("table_factory", plain)]).unwrap();
    db.put(&key(0), b"00000000").unwrap();
    compact(&db);
    assert_eq!(format_of(&db), ["plain"]);
    check(&db);
}

/// Entries that a format cannot store stay in the log. Another format can store them later.
#[test]
fn a_flush_that_fails_loses_nothing() {
    let total_order = "table_factory={id=PlainTable;hash_table_ratio=0}";
    let sim = SimWorld::new(1);
    let db = open(&sim, total_order).unwrap();
    db.put(&key(1), b"a").unwrap();
    db.put(&key(2), b"b").unwrap();
    db.delete_range(&key(1), &key(2)).unwrap();
    let error = db.flush().unwrap_err();
    assert_eq!(error.code(), Code::NotSupported);
    assert!(
        error.text().contains("Range deletion unsupported"),
        "{error}"
    );
    drop(db);
    let db = open(&sim, "").unwrap();
    assert_eq!(get(&db, &key(1)), None);
    assert_eq!(get(&db, &key(2)), Some(b"b".to_vec()));

    let sim = SimWorld::new(1);
    let db = open(&sim, CUCKOO).unwrap();
    db.put(&key(1), b"a").unwrap();
    db.put(&key(2), b"bb").unwrap();
    let error = db.flush().unwrap_err();
    assert!(
        error.text().contains("all values have to be the same size"),
        "{error}"
    );
    drop(db);
    let db = open(&sim, "").unwrap();
    assert_eq!(get(&db, &key(2)), Some(b"bb".to_vec()));
}

#[test]
fn external_plain_tables_are_read_and_ingested() {
    let sim = SimWorld::new(1);
    let options = family(PLAIN);
    sim.world.fs.create_dir_all("/out".as_ref()).unwrap();
    let path = Path::new("/out/x.sst");
    let mut writer = SstFileWriter::new(&sim.world, &DbOptions::default(), &options);
    writer.open(path).unwrap();
    for n in 0..300 {
        writer.put(&key(n), b"external").unwrap();
    }
    assert_eq!(
        writer.delete_range(b"x", b"y").unwrap_err().code(),
        Code::NotSupported
    );
    writer.finish().unwrap();
    let reader = SstFileReader::open(&sim.world, path, &options).unwrap();
    reader.verify_checksum().unwrap();
    reader.verify_num_entries().unwrap();
    for text in [PLAIN, "prefix_extractor=fixed:3"] {
        let db = open(&sim, text).unwrap();
        db.put(&key(7), b"older").unwrap();
        let options = IngestExternalFileOptions::default();
        db.ingest_external_file([path], &options).unwrap();
        assert_eq!(get(&db, &key(7)), Some(b"external".to_vec()));
        db.put(&key(8), b"newer").unwrap();
        compact(&db);
        assert_eq!(get(&db, &key(7)), Some(b"external".to_vec()));
        assert_eq!(get(&db, &key(8)), Some(b"newer".to_vec()));
    }
}
