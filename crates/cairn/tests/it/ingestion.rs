//! Tables written outside of a database.

use cairn::files::SortedRunBuilderOptions;
use cairn::{
    Code, Db, FamilyOptions, IngestExternalFileOptions, Ingestion, Options, ReadOptions,
    SortedRunBuilder, SstFileReader, SstFileWriter, World,
};

use crate::shown;

#[test]
fn tables_are_ingested_into_several_families_atomically() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true);
    let db = Db::open(dir.path().join("db"), &options).unwrap();
    let stones = db
        .create_family("stones", &FamilyOptions::default())
        .unwrap();
    let how = IngestExternalFileOptions::default();
    let mut all = Vec::new();
    for family in [db.default_family(), stones.clone()] {
        let file = dir.path().join(family.name());
        let mut writer = SstFileWriter::for_family(&family);
        writer.open(&file).unwrap();
        writer.put(b"k", family.name().as_bytes()).unwrap();
        assert_eq!(writer.finish().unwrap().num_entries, 1);
        all.push(Ingestion::new(&family, [file], &how));
    }
    assert_eq!(all[1].family().name(), "stones");
    db.ingest_external_files(&all).unwrap();
    assert_eq!(shown(&db), ["k=default"]);
    assert_eq!(shown(&stones), ["k=stones"]);
}

#[test]
fn a_table_is_read_on_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (world, options) = (World::posix(), Options::default());
    let file = dir.path().join("table");
    let mut writer = SstFileWriter::new(&world, &options.db, &options.family);
    writer.open(&file).unwrap();
    writer.put(b"a", b"1").unwrap();
    writer.put(b"b", b"2").unwrap();
    let error = writer.put(b"a", b"again").unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    writer.finish().unwrap();

    let reader = SstFileReader::open(&world, &file, &options.family).unwrap();
    reader.verify_checksum().unwrap();
    assert_eq!(reader.properties().num_entries, 2);
    assert_eq!(reader.get(b"b").unwrap().as_deref(), Some(&b"2"[..]));
    let iter = || reader.iter(&ReadOptions::default());
    assert_eq!(shown(iter()), ["a=1", "b=2"]);
    assert_eq!(shown(iter().into_iter().rev()), ["b=2", "a=1"]);
    let mut from_b = iter();
    from_b.seek(b"b");
    assert_eq!(shown(from_b), ["b=2"]);
}

#[test]
fn unsorted_input_is_sorted_and_exported_again() {
    let dir = tempfile::tempdir().unwrap();
    let sorting = SortedRunBuilderOptions::new(dir.path().join("sorting"));
    let mut builder = SortedRunBuilder::new(&World::posix(), sorting).unwrap();
    for key in ["c", "a", "b"] {
        builder.add(key.as_bytes(), b"1").unwrap();
    }
    builder.finish().unwrap();
    let sorted = builder.iter(&ReadOptions::default()).unwrap();
    assert_eq!(shown(sorted), ["a=1", "b=1", "c=1"]);

    let options = Options::default().create_if_missing(true);
    let db = Db::open(dir.path().join("db"), &options).unwrap();
    let how = IngestExternalFileOptions {
        allow_db_generated_files: true,
        snapshot_consistency: false,
        ..Default::default()
    };
    db.ingest_external_file(builder.output_files(), &how)
        .unwrap();
    let export = db
        .default_family()
        .export(dir.path().join("export"))
        .unwrap();
    let copy = db
        .create_family_with_import(
            "copy",
            &FamilyOptions::default(),
            &Default::default(),
            &[export],
        )
        .unwrap();
    assert_eq!(shown(&copy), ["a=1", "b=1", "c=1"]);
}
