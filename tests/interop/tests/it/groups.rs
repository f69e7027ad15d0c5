//! Atomic groups of several families in a MANIFEST: RocksDB ignores Cairn's extra field.

use std::path::{Path, PathBuf};

use cairn::{
    Db, FlushOptions, IngestExternalFileOptions, Ingestion, Options, SstFileWriter, WriteOptions,
};
use cairn_bench::rocksdb::{self, OpenMode};
use cairn_format::log::{Event, LogReader};
use cairn_format::manifest::is_later_in_group;
use cairn_interop::{dir_snapshot, reference};

const FAMILIES: [&str; 3] = ["default", "stones", "trees"];

/// The number of records with that field in the newest MANIFEST in `path`.
fn marked(path: &Path) -> usize {
    let current = std::fs::read_to_string(path.join("CURRENT")).unwrap();
    let bytes = std::fs::read(path.join(current.trim())).unwrap();
    let source = |at: u64, buf: &mut [u8]| {
        let rest = bytes.get(at as usize..).unwrap_or(&[]);
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    };
    let mut reader = LogReader::new(source, 0);
    let mut count = 0;
    loop {
        match reader.next().unwrap() {
            Event::Record { payload, .. } => count += usize::from(is_later_in_group(payload)),
            Event::End(_) => return count,
            other => panic!("{other:?}"),
        }
    }
}

/// `ldb` prints the MANIFEST of a copy of `path` without an error, and RocksDB opens the copy and reads
/// `value` under `key` in every family.
fn read_by_rocksdb(library: &rocksdb::Library, path: &Path, copy: &Path, rows: &[(&str, &str)]) {
    dir_snapshot::copy(path, copy);
    if !rocksdb::Library::left_out("ldb") {
        for command in ["manifest_dump", "checkconsistency"] {
            reference::ldb_command(copy, command).unwrap();
        }
    }
    let families = FAMILIES.map(|name| (name, ""));
    let db = rocksdb::Db::open(library, copy, "", &families, OpenMode::Existing)
        .expect("RocksDB opens the MANIFEST");
    for name in FAMILIES {
        let family = db.family(name).unwrap();
        for (key, value) in rows {
            let found = db.get(family, key.as_bytes()).unwrap();
            let found = found.map(|value| value.to_vec());
            assert_eq!(found, Some(value.as_bytes().to_vec()), "{key} of {name}");
        }
    }
}

#[test]
fn rocksdb_opens_manifests_with_groups_of_several_families() {
    let Some(library) = crate::library() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| -> PathBuf { folder.path().join(name) };
    let options = Options::default()
        .create_if_missing(true)
        // RocksDB 7.8, whose `ldb` is used here, supports tables up to this version.
        .text("atomic_flush=true;block_based_table_factory={format_version=5}")
        .unwrap();
    let db = Db::open(at("db"), &options).unwrap();
    for name in &FAMILIES[1..] {
        db.create_family(name, &options.family).unwrap();
    }
    let families: Vec<_> = FAMILIES.map(|name| db.family(name).unwrap()).into();
    let unlogged = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    for family in &families {
        family.put_with(b"flushed", b"together", &unlogged).unwrap();
    }
    let all: Vec<_> = families.iter().collect();
    db.flush_families(&all, &FlushOptions::default()).unwrap();
    let flushed = marked(&at("db"));
    assert!(flushed >= 2, "{flushed} records after the first of a group");
    let rows = [("flushed", "together"), ("ingested", "at once")];
    read_by_rocksdb(&library, &at("db"), &at("flushed"), &rows[..1]);

    // An ingestion records which log records it follows.
    db.put(b"logged", b"before").unwrap();
    let ingestions: Vec<_> = families
        .iter()
        .map(|family| {
            let file = at(&format!("{}.sst", family.name()));
            let mut writer = SstFileWriter::for_family(family);
            writer.open(&file).unwrap();
            writer.put(b"ingested", b"at once").unwrap();
            writer.finish().unwrap();
            Ingestion::new(family, [file], &IngestExternalFileOptions::default())
        })
        .collect();
    db.ingest_external_files(&ingestions).unwrap();
    let ingested = marked(&at("db"));
    assert!(ingested >= flushed + 2, "{flushed}, then {ingested}");
    read_by_rocksdb(&library, &at("db"), &at("ingested"), &rows);

    // Cairn reopens the database that RocksDB has written to.
    drop((ingestions, all));
    drop(families);
    db.close().unwrap();
    let families = FAMILIES.map(|name| (name, ""));
    let open = rocksdb::Db::open(&library, &at("db"), "", &families, OpenMode::Existing).unwrap();
    open.put(open.family("trees").unwrap(), b"later", b"RocksDB's")
        .unwrap();
    drop(open);
    let db = Db::open(at("db"), &options).unwrap();
    let found = db.family("trees").unwrap().get(b"later").unwrap();
    assert_eq!(found.as_deref(), Some(&b"RocksDB's"[..]));
}

/// With `reuse_manifest_on_open`, Cairn appends to the MANIFEST of the previous opening: the
/// clean-close record at its end is replaced.
#[test]
fn rocksdb_opens_reused_manifests() {
    let Some(library) = crate::library() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| -> PathBuf { folder.path().join(name) };
    let options = Options::default()
        .create_if_missing(true)
        .text("reuse_manifest_on_open=true;block_based_table_factory={format_version=5}")
        .unwrap();
    let manifest = || std::fs::read_to_string(at("db").join("CURRENT")).unwrap();
    let db = Db::open(at("db"), &options).unwrap();
    for name in &FAMILIES[1..] {
        db.create_family(name, &options.family).unwrap();
    }
    db.close().unwrap();
    let first = manifest();
    let mut rows = Vec::new();
    for key in ["first", "second", "third"] {
        // The next open flushes two of the families, and the call here flushes the third.
        let db = Db::open(at("db"), &options).unwrap();
        assert_eq!(manifest(), first, "{key}");
        for name in FAMILIES {
            db.family(name)
                .unwrap()
                .put(key.as_bytes(), b"value")
                .unwrap();
        }
        db.family("trees").unwrap().flush().unwrap();
        rows.push((key, "value"));
        read_by_rocksdb(&library, &at("db"), &at(key), &rows);
        db.close().unwrap();
        let closed = format!("{key}-closed");
        read_by_rocksdb(&library, &at("db"), &at(&closed), &rows);
    }
    // RocksDB writes a new MANIFEST when it opens the database, and so does Cairn's first open after
    // it.
    let families = FAMILIES.map(|name| (name, ""));
    let open = rocksdb::Db::open(&library, &at("db"), "", &families, OpenMode::Existing).unwrap();
    open.put(open.family("trees").unwrap(), b"later", b"RocksDB's")
        .unwrap();
    drop(open);
    assert_ne!(manifest(), first);
    for _ in 0..2 {
        let db = Db::open(at("db"), &options).unwrap();
        let found = db.family("trees").unwrap().get(b"later").unwrap();
        assert_eq!(found.as_deref(), Some(&b"RocksDB's"[..]));
        db.close().unwrap();
    }
    let open = rocksdb::Db::open(&library, &at("db"), "", &families, OpenMode::Existing).unwrap();
    let found = open.get(open.family("trees").unwrap(), b"later").unwrap();
    assert_eq!(found.as_deref(), Some(&b"RocksDB's"[..]));
}
