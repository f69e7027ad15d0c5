//! Encrypted databases exchanged between the engines, with RocksDB's sample cipher in counter mode.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use cairn::encryption::{BlockCipher, CtrProvider};
use cairn::{Db, Options, World};
use cairn_bench::rocksdb::Library;

/// The file system, provider and cipher, for `ldb`.
const URI: &str = "id=EncryptedFileSystem;provider={id=CTR;cipher={id=ROT13;block_size=32}}";

/// RocksDB's cipher `ROT13`.
struct Rot13;

impl BlockCipher for Rot13 {
    fn block_size(&self) -> usize {
        32
    }
    fn encrypt_blocks(&self, blocks: &mut [u8]) {
        for byte in blocks {
            *byte = byte.wrapping_add(13);
        }
    }
}

fn open(path: &Path) -> Db {
    let provider = CtrProvider::new(Arc::new(Rot13)).expect("its blocks are long enough");
    let world = World::posix().encrypted(Arc::new(provider));
    // Formats that `ldb` 7.8 supports.
    let options = Options::default()
        .create_if_missing(true)
        .text("block_based_table_factory={format_version=5}")
        .expect("the options are right");
    let builder = Db::builder(path).options(options);
    builder.world(world).open().expect("it opens")
}

/// The output of `ldb` for `arguments`.
fn ldb(path: &Path, arguments: &[&str]) -> String {
    let output = Command::new("ldb")
        .arg(format!("--db={}", path.display()))
        .arg(format!("--fs_uri={URI}"))
        .args(arguments)
        .output()
        .expect("ldb (Debian package rocksdb-tools) is installed");
    let words = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && !words.contains("Failed:"),
        "ldb {arguments:?}: {words} {errors}"
    );
    words
}

#[test]
fn both_engines_take_turns_on_encrypted_files() {
    if Library::left_out("ldb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    for round in 0..6 {
        let db = open(&path);
        for turn in 0..2 * round {
            let key = format!("{}{turn:02}", if turn % 2 == 0 { "ours" } else { "theirs" });
            assert_eq!(
                db.get(key.as_bytes()).unwrap().as_deref(),
                Some(format!("value of {turn}").as_bytes()),
                "{key}"
            );
        }
        let ours = format!("ours{:02}", 2 * round);
        db.put(
            ours.as_bytes(),
            format!("value of {}", 2 * round).as_bytes(),
        )
        .unwrap();
        // In a table, or in the log.
        if round % 2 == 0 {
            db.flush().unwrap();
        }
        if round == 4 {
            db.compact_range(None, None, &Default::default()).unwrap();
        }
        db.close().unwrap();

        let turn = 2 * round + 1;
        let theirs = format!("theirs{turn:02}");
        ldb(&path, &["put", &theirs, &format!("value of {turn}")]);
        let rows = ldb(&path, &["scan"]);
        assert_eq!(rows.lines().count(), turn + 1, "{rows}");
        assert!(
            rows.contains(&format!("{ours} : value of {}", 2 * round)),
            "{rows}"
        );
    }
    // No file contains plaintext, except for the LOG, which RocksDB does not encrypt.
    for entry in std::fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_string_lossy().starts_with("LOG") {
            continue;
        }
        let bytes = std::fs::read(entry.path()).unwrap();
        let shows = |text: &[u8]| bytes.windows(text.len()).any(|bytes| bytes == text);
        assert!(!shows(b"value of") && !shows(b"leveldb.Bytewise"));
    }
}
