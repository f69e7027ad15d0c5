//! Descriptions of tables, with which tables are ingested without being opened.

use std::path::{Path, PathBuf};

use cairn_db::{
    Db, FamilyDescriptor, Ingestion, LiveFileMetaData, PreparedFileInfo, SstFileWriter,
};
use cairn_format::key::InternalKey;
use cairn_format::prepared_file::PreparedFile;
use cairn_options::{DbOptions, FamilyOptions, IngestExternalFileOptions, Options};
use cairn_platform::World;
use cairn_platform::fs::FileMode;
use cairn_types::{Code, KeyOrder, Result, SequenceNumber, ValueKind};

use crate::basic::{open_at, small};

const PATH: &str = "/out/t.sst";

fn options(text: &str) -> IngestExternalFileOptions {
    IngestExternalFileOptions::from_text(text).expect("options")
}

/// Writes a table, and returns its description, which has been encoded and decoded.
fn table(
    world: &World,
    family: &FamilyOptions,
    write: impl FnOnce(&mut SstFileWriter) -> Result<()>,
) -> PreparedFileInfo {
    world
        .fs
        .create_dir_all("/out".as_ref())
        .expect("a directory");
    let mut writer = SstFileWriter::new(world, &DbOptions::default(), family);
    writer.open(PATH.as_ref()).expect("a file");
    write(&mut writer).expect("the writes");
    let info = writer.finish().expect("a table").prepared_file_info;
    sent(&info.expect("a finished table has a description"))
}

fn sent(info: &PreparedFileInfo) -> PreparedFileInfo {
    PreparedFileInfo::decode(&info.encode()).expect("its own encoding")
}

fn ingest(db: &Db, path: &Path, text: &str, infos: Vec<PreparedFileInfo>) -> Result<()> {
    let mut ingestion = Ingestion::new(db.default_family(), [path], &options(text));
    ingestion.file_infos = infos;
    db.ingest_external_files(&[ingestion])
}

fn refused(done: Result<()>) -> Code {
    done.expect_err("the ingestion is refused").code()
}

/// The properties of the only table of `db` that follow from the ingested file.
fn only(db: &Db) -> LiveFileMetaData {
    let mut all = db.live_files_metadata();
    assert_eq!(all.len(), 1);
    let mut file = all.remove(0);
    file.oldest_ancester_time = 0;
    file.file_creation_time = 0;
    file
}

/// Writes of a table.
type Writes<'a> = &'a dyn Fn(&mut SstFileWriter) -> Result<()>;

/// A description leads to the same metadata as the file itself.
#[test]
fn a_described_file_is_placed_like_an_opened_one() {
    let stamp = |number: u64| number.to_le_bytes();
    let points = |writer: &mut SstFileWriter| {
        writer.put(b"b", b"1")?;
        writer.merge(b"c", b"2")?;
        writer.delete(b"d")
    };
    let ranges = |writer: &mut SstFileWriter| {
        writer.delete_range(b"c", b"x")?;
        writer.delete_range(b"a", b"b")
    };
    let inner = |writer: &mut SstFileWriter| {
        writer.delete_range(b"b", b"d")?;
        writer.put(b"b", b"1")?;
        writer.put(b"d", b"1")
    };
    let dated = |writer: &mut SstFileWriter| {
        writer.put_with_timestamp(b"b", &stamp(7), b"1")?;
        writer.delete_with_timestamp(b"c", &stamp(5))
    };
    let undated = |writer: &mut SstFileWriter| {
        writer.put_with_timestamp(b"b", &stamp(0), b"1")?;
        writer.put_with_timestamp(b"c", &stamp(0), b"1")
    };
    let with_timestamps = |persisted| FamilyOptions {
        comparator: KeyOrder::BytewiseU64Ts,
        persist_user_defined_timestamps: persisted,
        ..small()
    };
    let cases: [(&str, FamilyOptions, Writes<'_>); 6] = [
        ("points", small(), &points),
        ("ranges", small(), &ranges),
        ("inner", small(), &inner),
        ("dated", with_timestamps(true), &dated),
        ("undated", with_timestamps(false), &undated),
        (
            "reverse",
            FamilyOptions {
                comparator: KeyOrder::ReverseBytewise,
                ..small()
            },
            &|writer| {
                writer.put(b"z", b"1")?;
                writer.put(b"b", b"1")?;
                writer.delete_range(b"q", b"a")
            },
        ),
    ];
    for (name, family, write) in &cases {
        let files = [false, true].map(|described| {
            let world = World::in_memory();
            let families = [FamilyDescriptor::new("default", family.clone())];
            let db = open_at(&world, &families).expect("a database");
            let info = table(&world, family, write);
            let infos = if described { vec![info] } else { vec![] };
            ingest(&db, PATH.as_ref(), "", infos).expect(name);
            only(&db)
        });
        let [mut opened, described] = files;
        // These differ from world to world.
        opened.file_checksum.clone_from(&described.file_checksum);
        assert_eq!(opened, described, "{name}");
    }
}

/// Instead of the file there are zeros, which no ingestion could read.
#[test]
fn a_described_file_is_not_opened() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    let info = table(&world, &small(), |writer| writer.put(b"k", b"v"));
    world.fs.remove(PATH.as_ref()).unwrap();
    let len = usize::try_from(info.file_size()).unwrap();
    let replace = |len: usize| {
        let file = world.fs.create(PATH.as_ref(), FileMode::default()).unwrap();
        file.append(&vec![0; len]).unwrap();
        file.sync(false).unwrap();
        file.close().unwrap();
    };
    replace(len);
    let ingest = |text, infos| ingest(&db, PATH.as_ref(), text, infos);
    assert_eq!(refused(ingest("", vec![])), Code::Corruption);
    let verified = "verify_checksums_before_ingest=true";
    assert_eq!(
        refused(ingest(verified, vec![info.clone()])),
        Code::Corruption
    );
    ingest("", vec![info.clone()]).unwrap();
    assert_eq!(db.get(b"k").unwrap_err().code(), Code::Corruption);
    // A file of another length is another file.
    world.fs.remove(PATH.as_ref()).unwrap();
    replace(len + 1);
    assert_eq!(refused(ingest("", vec![info])), Code::Corruption);
}

#[test]
fn a_live_table_is_described_for_another_database() {
    let (world, elsewhere) = (World::in_memory(), World::in_memory());
    let (db, other) = (
        open_at(&world, &[]).unwrap(),
        open_at(&elsewhere, &[]).unwrap(),
    );
    for key in [b"a", b"b"] {
        db.put(key, b"1").unwrap();
        db.put(key, b"2").unwrap();
    }
    let _kept = db.snapshot();
    db.flush().unwrap();
    let live = only(&db);
    let path = live.directory.join(&live.relative_filename);
    for wrong in [Path::new("/db/999999.sst"), live.relative_filename.as_ref()] {
        let error = db.prepared_file_info(wrong).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
    }
    let info = sent(&db.prepared_file_info(&path).unwrap());
    assert_eq!(
        (info.file_size(), info.properties().num_entries),
        (live.size, live.num_entries)
    );
    // To the other host.
    let there = PathBuf::from("/in.sst");
    let file = world.fs.open(&path, FileMode::default()).unwrap();
    let mut bytes = vec![0; usize::try_from(live.size).unwrap()];
    file.read_at(0, &mut bytes).unwrap();
    let copy = elsewhere.fs.create(&there, FileMode::default()).unwrap();
    copy.append(&bytes).unwrap();
    copy.close().unwrap();
    assert_eq!(
        refused(ingest(&other, &there, "", vec![info.clone()])),
        Code::Corruption
    );
    ingest(&other, &there, "allow_db_generated_files=true", vec![info]).unwrap();
    assert_eq!(other.get(b"b").unwrap().as_deref(), Some(&b"2"[..]));
    let arrived = only(&other);
    assert_eq!(
        (
            arrived.smallest_seqno,
            arrived.largest_seqno,
            arrived.smallest,
            arrived.largest
        ),
        (
            live.smallest_seqno,
            live.largest_seqno,
            live.smallest,
            live.largest
        )
    );
    // Writes continue above it.
    other.put(b"b", b"3").unwrap();
    assert_eq!(other.get(b"b").unwrap().as_deref(), Some(&b"3"[..]));
}

/// A change of a description.
type Falsify<'a> = &'a dyn Fn(&mut PreparedFile);

/// Bytes with a valid checksum that describe no file of the family.
#[test]
fn false_descriptions_are_refused() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    let stamped = FamilyOptions {
        comparator: KeyOrder::BytewiseU64Ts,
        ..small()
    };
    let stamped = db.create_family("stamped", &stamped).unwrap();
    let info = table(&world, &small(), |writer| writer.put(b"k", b"v"));
    let path: &Path = PATH.as_ref();
    let twice = vec![info.clone(), info.clone()];
    assert_eq!(refused(ingest(&db, path, "", twice)), Code::InvalidArgument);
    let written = "write_global_seqno=true";
    assert_eq!(
        refused(ingest(&db, path, written, vec![info.clone()])),
        Code::InvalidArgument
    );
    let changed = |change: &dyn Fn(&mut PreparedFile)| {
        let mut file = PreparedFile::decode(&info.encode()).expect("its own encoding");
        change(&mut file);
        PreparedFileInfo::decode(&file.encode()).expect("its own encoding")
    };
    let key = |user: &[u8], seq| InternalKey::new(user, SequenceNumber(seq), ValueKind::Value);
    let cases: [(&str, Code, Falsify<'_>); 7] = [
        ("", Code::Corruption, &|file| file.smallest = key(b"l", 0)),
        ("", Code::Corruption, &|file| file.smallest = key(b"a", 1)),
        ("", Code::Corruption, &|file| {
            file.seqs = Some((SequenceNumber(1), SequenceNumber(2)))
        }),
        ("", Code::Corruption, &|file| {
            file.properties.external_version = None
        }),
        ("", Code::InvalidArgument, &|file| {
            file.properties.comparator = "other".into()
        }),
        ("", Code::InvalidArgument, &|file| {
            file.properties.num_entries = 0
        }),
        ("allow_db_generated_files=true", Code::Corruption, &|file| {
            file.seqs = None
        }),
    ];
    for (at, (text, code, change)) in cases.iter().enumerate() {
        let done = ingest(&db, path, text, vec![changed(change)]);
        assert_eq!(refused(done), *code, "case {at}");
    }
    let mut short = Ingestion::new(&stamped, [path], &options(""));
    short.file_infos = vec![changed(&|file| {
        file.properties.comparator = KeyOrder::BytewiseU64Ts.name().into();
    })];
    assert_eq!(
        refused(db.ingest_external_files(&[short])),
        Code::Corruption
    );
    assert!(db.live_files_metadata().is_empty());
    let mut bytes = info.encode();
    bytes[3] ^= 1;
    assert_eq!(
        PreparedFileInfo::decode(&bytes).unwrap_err().code(),
        Code::Corruption
    );
    ingest(&db, path, "", vec![info]).unwrap();
}
