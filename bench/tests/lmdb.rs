//! LMDB as an engine: data written to it is read back by gets, batches of gets and cursors.

use std::path::Path;

use cairn_bench::engine::{CacheSettings, Cursor, Engine, Session, Settings, Source};
use cairn_bench::lmdb::{DATA_FILE, Env, Library};

const SETTINGS: Settings = Settings {
    sync: false,
    disable_wal: false,
    verify_checksums: true,
    total_order_seek: false,
    prefix_same_as_start: false,
    async_io: false,
    optimize_multiget_for_io: false,
    copy_operands: false,
};

/// The library, unless the tests run without it.
fn library() -> Option<Library> {
    match cairn_bench::rocksdb::Library::left_out("lmdb") {
        true => None,
        false => Some(Library::load(Path::new("liblmdb.so.0")).expect("the library is installed")),
    }
}

fn get(session: &mut impl Session, key: &str) -> Option<Vec<u8>> {
    let mut value = None;
    let found = session.get(key.as_bytes(), |bytes| {
        value = Some(bytes.to_vec());
        Ok(())
    });
    assert_eq!(found.expect("LMDB reads"), value.is_some());
    value
}

fn open(library: &Library, dir: &Path) -> Env {
    library.open(dir, "", None).expect("the environment opens")
}

#[test]
fn an_environment_is_written_closed_and_read_again() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    let env = open(&library, dir.path());
    let mut session = env.session(&SETTINGS);
    assert_eq!(get(&mut session, "0005"), None);
    for number in 0..500 {
        session
            .put(format!("{number:04}").as_bytes(), &[7; 50])
            .unwrap();
    }
    // The session sees its own writes and those of others.
    assert_eq!(get(&mut session, "0005"), Some(vec![7; 50]));
    let mut other = env.session(&Settings {
        sync: true,
        ..SETTINGS
    });
    other.add(b"0500", b"");
    other.add(b"0501", b"x");
    other.remove(b"0006");
    other.remove(b"absent");
    other.write().unwrap();
    other.delete(b"0007").unwrap();
    assert_eq!(get(&mut session, "0500"), Some(Vec::new()));
    assert_eq!(get(&mut session, "0006"), None);
    env.flush().unwrap();
    drop((session, other));
    env.close().unwrap();
    assert!(dir.path().join(DATA_FILE).exists());

    let env = open(&library, dir.path());
    let mut session = env.session(&SETTINGS);
    let keys = ["0004", "0006", "0501"].map(|key| Box::from(key.as_bytes()));
    let mut found = Vec::new();
    session
        .multi_get(&keys, |at, value| {
            found.push((at, value.len()));
            Ok(())
        })
        .unwrap();
    assert_eq!(found, [(0, 50), (2, 1)]);
}

#[test]
fn cursors_move_in_both_directions_over_a_snapshot() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    let env = open(&library, dir.path());
    let mut session = env.session(&SETTINGS);
    for key in ["a", "c", "e"] {
        session.put(key.as_bytes(), key.as_bytes()).unwrap();
    }
    let mut writer = env.session(&SETTINGS);
    let mut cursor = session.cursor();
    writer.put(b"d", b"d").unwrap();
    let mut seen = Vec::new();
    cursor.seek_to_first();
    while cursor.valid() {
        assert_eq!(cursor.key(), cursor.value());
        seen.push(cursor.key().to_vec());
        cursor.next();
    }
    cursor.status().unwrap();
    assert_eq!(seen, [b"a", b"c", b"e"]);
    cursor.seek(b"b");
    assert_eq!(cursor.key(), b"c");
    cursor.prev();
    assert_eq!(cursor.key(), b"a");
    cursor.prev();
    assert!(!cursor.valid());
    cursor.seek(b"f");
    assert!(!cursor.valid());
    cursor.seek_to_last();
    assert_eq!(cursor.key(), b"e");
    cursor.status().unwrap();
}

#[test]
fn calls_that_lmdb_lacks_fail() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    let env = open(&library, dir.path());
    let mut session = env.session(&SETTINGS);
    assert!(session.merge(b"k", b"v").is_err());
    assert!(session.delete_range(b"a", b"b").is_err());
    assert!(session.operands(b"k", 1).is_err());
    assert!(session.multi_scan(Vec::new(), true, |_, _| Ok(())).is_err());
    // Errors of LMDB have its text: its keys have at most 511 bytes.
    let error = session.put(&[b'k'; 600], b"v").unwrap_err().to_string();
    assert!(error.contains("MDB_BAD_VALSIZE"), "{error}");
    let settings = CacheSettings {
        kind: None,
        capacity: 1 << 20,
        shard_bits: None,
        high_ratio: None,
        low_ratio: None,
        with_blobs: false,
    };
    assert!(library.cache(&settings).is_err());
    let missing = dir.path().join("missing");
    assert!(library.open(&missing, "", None).is_err());
    assert!(Library::load(&missing.join("liblmdb.so")).is_err());
}

#[test]
fn a_library_is_recognized_by_its_name() {
    for name in ["liblmdb.so", "/usr/lib/liblmdb.so.0", "x/liblmdb.so.0.0.0"] {
        assert!(Library::is_named(name), "{name}");
    }
    for name in ["ours", "liblmdb.so/librocksdb.so", "librocksdb.so", "lmdb"] {
        assert!(!Library::is_named(name), "{name}");
    }
}
