//! Tables written and read outside of a database, and their ingestion.

use std::path::Path;

use cairn_db::{
    Db, FamilyDescriptor, Ingestion, ReplaceRange, SortedRunBuilder, SortedRunBuilderOptions,
    SstFileReader, SstFileWriter, WriteBatch,
};
use cairn_options::{
    CompactRangeOptions, CompactionStyle, DbOptions, FamilyOptions, IngestExternalFileOptions,
    Options, ReadOptions,
};
use cairn_platform::World;
use cairn_sim::trace::Call;
use cairn_sim::{Fault, SimWorld};
use cairn_types::{Code, KeyOrder, Result};

use crate::basic::{open_at, small};
use crate::errors::failing;

fn options(text: &str) -> IngestExternalFileOptions {
    IngestExternalFileOptions::from_text(text).expect("the test's own call works")
}

/// Writes a table of `(key, value)`; a value of `None` deletes.
fn table(world: &World, path: &str, entries: &[(&str, Option<&str>)]) {
    let mut writer = SstFileWriter::new(world, &DbOptions::default(), &small());
    world
        .fs
        .create_dir_all("/out".as_ref())
        .expect("the test's own call works");
    writer
        .open(path.as_ref())
        .expect("the test's own call works");
    for (key, value) in entries {
        match value {
            Some(value) => writer
                .put(key.as_bytes(), value.as_bytes())
                .expect("the test's own call works"),
            None => writer
                .delete(key.as_bytes())
                .expect("the test's own call works"),
        }
    }
    writer.finish().expect("the test's own call works");
}

fn ingest(db: &Db, path: &str, text: &str) -> Result<()> {
    db.ingest_external_file([path], &options(text))
}

fn get(db: &Db, key: &str) -> Option<String> {
    let value = db.get(key.as_bytes()).expect("the test's own call works");
    value.map(|value| String::from_utf8(value.to_vec()).expect("the test's own call works"))
}

fn files_at(db: &Db, level: u32) -> u64 {
    db.property(&format!("rocksdb.num-files-at-level{level}"))
        .expect("the test's own call works")
        .parse()
        .expect("the test's own call works")
}

#[test]
fn a_table_is_read_as_written() {
    let world = World::in_memory();
    world.fs.create_dir_all("/out".as_ref()).unwrap();
    let mut writer = SstFileWriter::new(&world, &DbOptions::default(), &FamilyOptions::default());
    assert_eq!(
        writer.put(b"a", b"1").unwrap_err().code(),
        Code::InvalidArgument
    );
    writer.open("/out/a.sst".as_ref()).unwrap();
    writer.put(b"b", b"1").unwrap();
    writer
        .put_entity(b"c", &[(b"x", b"2"), (b"", b"3")])
        .unwrap();
    writer.delete(b"d").unwrap();
    assert!(writer.put(b"d", b"again").is_err());
    // A rejected key does not count as the last one.
    assert!(writer.put(b"ca", b"late").is_err());
    assert!(writer.put(b"cz", b"later").is_err());
    writer.delete_range(b"m", b"p").unwrap();
    writer.delete_range(b"a", b"b").unwrap();
    assert!(writer.delete_range(b"z", b"y").is_err());
    let info = writer.finish().unwrap();
    assert_eq!(
        (&info.smallest_key[..], &info.largest_key[..]),
        (&b"b"[..], &b"d"[..])
    );
    assert_eq!(
        (
            &info.smallest_range_del_key[..],
            &info.largest_range_del_key[..]
        ),
        (&b"a"[..], &b"p"[..])
    );
    assert_eq!((info.num_entries, info.num_range_del_entries), (3, 2));
    let path = Path::new("/out/a.sst");
    assert_eq!(info.file_size, world.fs.status(path).unwrap().len);

    let reader = SstFileReader::open(&world, path, &FamilyOptions::default()).unwrap();
    assert_eq!(reader.get(b"b").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(reader.get(b"c").unwrap().as_deref(), Some(&b"3"[..]));
    assert!(reader.get(b"d").unwrap().is_none());
    let columns = reader.get_entity(b"c", &ReadOptions::default()).unwrap();
    assert_eq!(columns.unwrap().get(b"x"), Some(&b"2"[..]));
    let mut iter = reader.iter(&ReadOptions::default());
    iter.seek_to_first();
    let mut keys = Vec::new();
    while iter.valid() {
        keys.push(iter.key().to_vec());
        iter.next();
    }
    assert_eq!(keys, [b"b", b"c"]);
    reader.verify_checksum().unwrap();
    reader.verify_num_entries().unwrap();
    assert_eq!(reader.properties().external_version, Some(2));
    let at = usize::try_from(reader.properties().global_seqno_at).unwrap();
    let bytes = crate::logs::bytes_of(&world, path);
    assert_eq!(
        bytes[at..at + 8],
        [0; 8],
        "the number that an ingestion replaces"
    );
    assert!(bytes[..at].ends_with(b"global_seqno"));

    writer.open("/out/b.sst".as_ref()).unwrap();
    assert_eq!(writer.finish().unwrap_err().code(), Code::InvalidArgument);
    assert!(!world.fs.exists("/out/b.sst".as_ref()).unwrap());
}

#[test]
fn an_ingested_table_is_newer_than_what_it_overlaps_and_survives() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    db.put(b"a", b"old").unwrap();
    db.put(b"c", b"old").unwrap();
    table(
        &world,
        "/out/a.sst",
        &[("a", Some("new")), ("b", Some("new")), ("c", None)],
    );
    let before = db.latest_sequence();
    let snapshot = db.snapshot();
    // The memtable overlaps it.
    assert_eq!(
        ingest(&db, "/out/a.sst", "allow_blocking_flush=false")
            .unwrap_err()
            .code(),
        Code::InvalidArgument
    );
    ingest(&db, "/out/a.sst", "").unwrap();
    assert_eq!(db.latest_sequence().0, before.0 + 1);
    assert_eq!(get(&db, "a").as_deref(), Some("new"));
    assert_eq!(get(&db, "c"), None);
    let old = ReadOptions {
        snapshot: Some(snapshot.sequence()),
        ..ReadOptions::default()
    };
    assert_eq!(
        db.get_with(b"a", &old).unwrap().as_deref(),
        Some(&b"old"[..])
    );
    assert!(db.get_with(b"b", &old).unwrap().is_none());
    db.put(b"b", b"newest").unwrap();
    db.close().unwrap();
    let db = open_at(&world, &[]).unwrap();
    assert_eq!(get(&db, "a").as_deref(), Some("new"));
    assert_eq!(get(&db, "b").as_deref(), Some("newest"));
    assert_eq!(get(&db, "c"), None);
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    assert_eq!(get(&db, "a").as_deref(), Some("new"));
    assert!(world.fs.exists("/out/a.sst".as_ref()).unwrap());
}

#[test]
fn a_table_without_overlaps_is_placed_in_the_last_level_without_a_number() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    db.put(b"a", b"1").unwrap();
    let before = db.latest_sequence();
    table(&world, "/out/x.sst", &[("x", Some("1")), ("z", Some("1"))]);
    table(&world, "/out/y.sst", &[("y", Some("2"))]);
    ingest(
        &db,
        "/out/x.sst",
        "move_files=true;fail_if_not_bottommost_level=true",
    )
    .unwrap();
    assert!(!world.fs.exists("/out/x.sst".as_ref()).unwrap());
    assert_eq!(db.latest_sequence(), before);
    assert_eq!((files_at(&db, 6), files_at(&db, 0)), (1, 0));
    // It fits into a gap of the first.
    let refused = ingest(&db, "/out/y.sst", "fail_if_not_bottommost_level=true");
    assert_eq!(refused.unwrap_err().code(), Code::TryAgain);
    ingest(&db, "/out/y.sst", "link_files=true").unwrap();
    assert_eq!(get(&db, "y").as_deref(), Some("2"));
    assert!(world.fs.exists("/out/y.sst".as_ref()).unwrap());
}

#[test]
fn overlapping_tables_are_ingested_in_order() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    table(&world, "/out/1.sst", &[("a", Some("1")), ("c", Some("1"))]);
    table(&world, "/out/2.sst", &[("b", Some("2")), ("d", Some("2"))]);
    table(&world, "/out/3.sst", &[("c", Some("3"))]);
    let files = ["/out/1.sst", "/out/2.sst", "/out/3.sst"];
    assert!(
        db.ingest_external_file(files, &options("allow_global_seqno=false"))
            .is_err()
    );
    db.ingest_external_file(files, &options("write_global_seqno=true"))
        .unwrap();
    assert_eq!(get(&db, "a").as_deref(), Some("1"));
    assert_eq!(get(&db, "b").as_deref(), Some("2"));
    assert_eq!(get(&db, "c").as_deref(), Some("3"));
    db.close().unwrap();
    let db = open_at(&world, &[]).unwrap();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    assert_eq!(get(&db, "c").as_deref(), Some("3"));
}

#[test]
fn several_families_get_all_their_tables_or_none() {
    let world = World::in_memory();
    let families = [FamilyDescriptor::new("other", small())];
    let db = open_at(&world, &[]).unwrap();
    db.create_family("other", &small()).unwrap();
    let other = db.family("other").unwrap();
    table(&world, "/out/a.sst", &[("a", Some("1"))]);
    table(&world, "/out/b.sst", &[("b", Some("2"))]);
    let pair = |second: &str| {
        [
            Ingestion::new(
                db.default_family(),
                ["/out/a.sst"],
                &options("move_files=true"),
            ),
            Ingestion::new(&other, [second], &options("move_files=true")),
        ]
    };
    assert!(db.ingest_external_files(&pair("/out/missing.sst")).is_err());
    assert_eq!(get(&db, "a"), None);
    assert!(world.fs.exists("/out/a.sst".as_ref()).unwrap());
    let count = |db: &Db| {
        world
            .fs
            .list(db.path())
            .unwrap()
            .iter()
            .filter(|n| n.ends_with(".sst"))
            .count()
    };
    assert_eq!(count(&db), 0);
    db.ingest_external_files(&pair("/out/b.sst")).unwrap();
    assert_eq!(get(&db, "a").as_deref(), Some("1"));
    assert_eq!(other.get(b"b").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(world.fs.list("/out".as_ref()).unwrap().len(), 0);
    drop(other);
    db.close().unwrap();
    let db = open_at(&world, &families).unwrap();
    assert_eq!(
        db.family("other").unwrap().get(b"b").unwrap().as_deref(),
        Some(&b"2"[..])
    );
}

#[test]
fn files_of_other_databases_are_rejected() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    db.put(b"k", b"v").unwrap();
    db.flush().unwrap();
    let names = world.fs.list("/db".as_ref()).unwrap();
    let own = names.iter().find(|name| name.ends_with(".sst")).unwrap();
    let own = format!("/db/{own}");
    assert_eq!(ingest(&db, &own, "").unwrap_err().code(), Code::Corruption);
    // A file with its own sequence numbers must not overlap existing data.
    let refused = ingest(&db, &own, "allow_db_generated_files=true").unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    db.delete(b"k").unwrap();
    let other = db.create_family("other", &small()).unwrap();
    other
        .ingest_external_file([&own], &options("allow_db_generated_files=true"))
        .unwrap();
    assert_eq!(other.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    let mut for_other = SstFileWriter::for_family(&other);
    world.fs.create_dir_all("/out".as_ref()).unwrap();
    for_other.open("/out/o.sst".as_ref()).unwrap();
    for_other.put(b"q", b"1").unwrap();
    for_other.finish().unwrap();
    assert_eq!(
        ingest(&db, "/out/o.sst", "").unwrap_err().code(),
        Code::InvalidArgument
    );
    assert!(ingest(&db, "/out/o.sst", "ingest_behind=true").is_err());
}

#[test]
fn a_range_is_replaced_atomically() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    for key in ["b", "c", "x"] {
        db.put(key.as_bytes(), b"old").unwrap();
        db.flush().unwrap();
    }
    table(&world, "/out/r.sst", &[("b", Some("new"))]);
    let mut replace = Ingestion::new(db.default_family(), ["/out/r.sst"], &options(""));
    replace.replace = Some(ReplaceRange::Keys(b"c".to_vec(), b"d".to_vec()));
    assert!(
        db.ingest_external_files(std::slice::from_ref(&replace))
            .is_err()
    );
    replace.replace = Some(ReplaceRange::Keys(b"a".to_vec(), b"d".to_vec()));
    db.ingest_external_files(std::slice::from_ref(&replace))
        .unwrap();
    assert_eq!(get(&db, "b").as_deref(), Some("new"));
    assert_eq!(
        (get(&db, "c"), get(&db, "x").as_deref()),
        (None, Some("old"))
    );
    replace.replace = Some(ReplaceRange::All);
    db.ingest_external_files(std::slice::from_ref(&replace))
        .unwrap();
    assert_eq!(get(&db, "x"), None);
}

/// Files ingested behind existing data change no key that the family has written or deleted, regardless of
/// compactions.
#[test]
fn files_are_ingested_behind_all_existing_data() {
    let family = |style, behind| FamilyOptions {
        compaction_style: style,
        cf_allow_ingest_behind: behind,
        num_levels: 3,
        ..small()
    };
    let world = World::in_memory();
    let open = |style, behind| {
        let families = [FamilyDescriptor::new("default", family(style, behind))];
        open_at(&world, &families)
    };
    let refused = open(CompactionStyle::Level, true)
        .err()
        .expect("a leveled tree");
    assert_eq!(refused.code(), Code::NotSupported);
    let db = open(CompactionStyle::Universal, true).unwrap();
    for (key, value) in [("a", "new"), ("b", "new"), ("c", "new")] {
        db.put(key.as_bytes(), value.as_bytes()).unwrap();
        db.flush().unwrap();
    }
    db.delete(b"b").unwrap();
    db.flush().unwrap();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    assert_eq!(
        (files_at(&db, 0), files_at(&db, 1), files_at(&db, 2)),
        (0, 1, 0)
    );
    db.put(b"d", b"in memory").unwrap();

    let old = Some("old");
    table(
        &world,
        "/out/b.sst",
        &[("b", old), ("c", old), ("d", old), ("e", old)],
    );
    ingest(&db, "/out/b.sst", "ingest_behind=true").unwrap();
    assert_eq!(files_at(&db, 2), 1);
    let check = |db: &Db| {
        let found = ["a", "b", "c", "d", "e"].map(|key| get(db, key));
        let found = found.each_ref().map(Option::as_deref);
        let expected = [Some("new"), None, Some("new"), Some("in memory"), old];
        assert_eq!(found, expected);
    };
    check(&db);
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    check(&db);
    // There is one level for them, whose files must not overlap.
    let again = ingest(&db, "/out/b.sst", "ingest_behind=true").unwrap_err();
    assert_eq!(again.code(), Code::InvalidArgument);
    table(&world, "/out/f.sst", &[("f", old)]);
    ingest(&db, "/out/f.sst", "ingest_behind=true").unwrap();
    db.close().unwrap();

    // Without the option the family accepts all of them together.
    let db = open(CompactionStyle::Universal, false).unwrap();
    check(&db);
    assert!(ingest(&db, "/out/f.sst", "ingest_behind=true").is_err());
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    check(&db);
    assert_eq!((files_at(&db, 1), files_at(&db, 2)), (0, 1));
}

#[test]
fn pairs_in_any_order_become_consecutive_tables() {
    let world = World::in_memory();
    let sorting = || SortedRunBuilderOptions {
        write_buffer_size: 64 << 10,
        target_file_size_bytes: 100 << 10,
        ..SortedRunBuilderOptions::new("/sorting")
    };
    let mut builder = SortedRunBuilder::new(&world, sorting()).unwrap();
    let value = |n: u32, round: u32| format!("{n} in round {round}, {}", "x".repeat(60));
    // Each key twice, the second time in a batch; the last value added is kept.
    for n in 0..6000_u32 {
        let key = format!("key{:05}", n * 7919 % 6000);
        builder
            .add(key.as_bytes(), value(n * 7919 % 6000, 1).as_bytes())
            .unwrap();
    }
    for from in (0..3000_u32).step_by(100).rev() {
        let mut batch = WriteBatch::new();
        for n in from..from + 100 {
            batch.put(format!("key{n:05}").as_bytes(), value(n, 2).as_bytes());
        }
        builder.add_batch(&batch).unwrap();
    }
    assert_eq!(builder.num_entries(), 9000);
    assert!(builder.iter(&ReadOptions::default()).is_err());
    assert!(builder.output_files().is_empty());
    builder.finish().unwrap();
    assert_eq!(builder.num_entries(), 6000);
    assert!(builder.add(b"late", b"").is_err() && builder.finish().is_err());
    let files = builder.output_files().to_vec();
    assert!(files.len() > 2, "{files:?}");
    let sizes = files.iter().map(|file| world.fs.status(file).unwrap().len);
    assert_eq!(builder.data_size(), sizes.sum::<u64>());

    let check = |mut iter: cairn_db::Iter| {
        iter.seek_to_first();
        for n in 0..6000_u32 {
            assert_eq!(iter.key(), format!("key{n:05}").as_bytes());
            let round = if n < 3000 { 2 } else { 1 };
            assert_eq!(iter.value(), value(n, round).as_bytes());
            iter.next();
        }
        assert!(!iter.valid());
    };
    check(builder.iter(&ReadOptions::default()).unwrap());
    let db = open_at(&world, &[]).unwrap();
    let generated = options("allow_db_generated_files=true;snapshot_consistency=false");
    db.ingest_external_file(&files, &generated).unwrap();
    check(db.iter());
    assert!(SortedRunBuilder::new(&world, sorting()).is_err());
    drop(builder);
    assert!(!world.fs.exists(&files[0]).unwrap());
    // Ingested files belong to the database.
    check(db.iter());

    let kept = SortedRunBuilderOptions {
        keep_temp_db: true,
        ..sorting()
    };
    let mut builder = SortedRunBuilder::new(&world, kept).unwrap();
    builder.finish().unwrap();
    assert!(builder.output_files().is_empty());
    drop(builder);
    assert!(world.fs.exists("/sorting/CURRENT".as_ref()).unwrap());
}

#[test]
fn a_sorted_run_requires_valid_options() {
    let world = World::in_memory();
    let refused = |change: fn(&mut SortedRunBuilderOptions)| {
        let mut options = SortedRunBuilderOptions::new("/sorting");
        change(&mut options);
        let error = SortedRunBuilder::new(&world, options).err().unwrap();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    };
    refused(|options| options.temp_dir = "".into());
    refused(|options| options.max_compaction_threads = 0);
    refused(|options| options.write_buffer_size = 0);
    refused(|options| options.max_write_buffer_number = 1);
    refused(|options| options.target_file_size_bytes = 0);
}

/// Regression: timestamps that the table would not have were accepted, and lost.
#[test]
fn only_the_oldest_timestamp_can_be_left_out() {
    let world = World::in_memory();
    let family = FamilyOptions {
        comparator: KeyOrder::BytewiseU64Ts,
        persist_user_defined_timestamps: false,
        ..small()
    };
    world.fs.create_dir_all("/out".as_ref()).unwrap();
    let mut writer = SstFileWriter::new(&world, &DbOptions::default(), &family);
    writer.open("/out/x.sst".as_ref()).unwrap();
    let (oldest, later) = (0_u64.to_le_bytes(), 13_u64.to_le_bytes());
    for refused in [
        writer.put_with_timestamp(b"a", &later, b"1"),
        writer.delete_with_timestamp(b"a", &later),
        writer.delete_range_with_timestamp(b"a", b"b", &later),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    }
    writer.put_with_timestamp(b"a", &oldest, b"1").unwrap();
    writer.delete_with_timestamp(b"b", &oldest).unwrap();
    assert_eq!(writer.finish().unwrap().num_entries, 2);
}

/// A table that refers to blob files is not ingested: its values would be counted as garbage of files of the same numbers,
/// which would then be deleted.
#[test]
fn tables_with_values_in_blob_files_are_rejected() {
    let world = World::in_memory();
    let blobs = FamilyOptions {
        enable_blob_files: true,
        enable_blob_columns: true,
        ..small()
    };
    let other = FamilyDescriptor::new("other", blobs.clone());
    let db = open_at(&world, &[]).unwrap();
    let other = db.create_family(&other.name, &blobs).unwrap();
    let generated = options("allow_db_generated_files=true");
    for entity in [false, true] {
        match entity {
            false => other.put(b"k", &[b'v'; 1000]).unwrap(),
            true => other.put_entity(b"k", &[(b"c", &[b'v'; 1000])]).unwrap(),
        }
        other.flush().unwrap();
        let files = db.live_files_metadata();
        let newest = files.iter().max_by_key(|file| file.file_number).unwrap();
        let path = format!("/db/{}", newest.relative_filename);
        let refused = db.ingest_external_file([&path], &generated).unwrap_err();
        assert_eq!(refused.code(), Code::NotSupported, "{refused}");
        let refused = db.prepared_file_info(path.as_ref()).unwrap_err();
        assert_eq!(refused.code(), Code::NotSupported, "{refused}");
    }
    assert_eq!(get(&db, "k"), None);
}

/// A snapshot does not see what is ingested later, so files that keep their sequence numbers are rejected unless the program
/// gives this up.
#[test]
fn snapshots_do_not_see_files_that_keep_their_numbers() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    table(&world, "/out/a.sst", &[("a", Some("1"))]);
    let snapshot = db.snapshot();
    let refused = ingest(&db, "/out/a.sst", "allow_db_generated_files=true").unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    let unsafely = "allow_db_generated_files=true;snapshot_consistency=false";
    ingest(&db, "/out/a.sst", unsafely).unwrap();
    drop(snapshot);
    assert_eq!(get(&db, "a").as_deref(), Some("1"));
}

/// After a failed write, a table is incomplete: later entries and the end of the table fail, and the file is removed.
#[test]
fn a_writer_of_tables_fails_after_a_failed_write() {
    for format in ["BlockBasedTable", "PlainTable"] {
        let sim = SimWorld::new(1);
        sim.world.fs.create_dir_all("/out".as_ref()).unwrap();
        let text =
            format!("compression=kNoCompression;prefix_extractor=fixed:1;table_factory={format}");
        let family = FamilyOptions::from_text(&text).unwrap();
        let mut writer = SstFileWriter::new(&sim.world, &DbOptions::default(), &family);
        let path = Path::new("/out/x.sst");
        writer.open(path).unwrap();
        let value = [b'v'; 1000];
        let mut put = |n: u32| writer.put(&n.to_be_bytes(), &value);
        (0..100).try_for_each(&mut put).unwrap();
        sim.fs
            .set_plan(failing(Call::Append, ".sst", Fault::NoSpace, 1));
        let failed = (100..20_000).find(|n| put(*n).is_err());
        let failed = failed.expect("the buffers of a writer are bounded");
        for n in failed + 1..failed + 100 {
            assert!(put(n).is_err(), "{format}");
        }
        let error = writer.finish().unwrap_err();
        assert_eq!(error.code(), Code::IoError, "{error}");
        assert!(!sim.world.fs.exists(path).unwrap());
    }
}
