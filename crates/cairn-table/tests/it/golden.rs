//! Tables that RocksDB wrote are read entry by entry as an independent decoder reads them.
//!
//! A table `NAME.sst` lies beside `NAME.sst.dump`: a line for each entry in file order, the
//! internal key in hex, a space, and the value in hex. `CAIRN_TABLE_CORPUS` may name a folder with
//! more of them; a table without a dump is walked and counted only.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_platform::Io;
use cairn_table::{OpenParams, Table};
use cairn_types::{Code, KeyOrder, PrefixExtractor, Result};

use crate::world::{backward, forward, get, open};

/// Opens a table under whichever built-in order it was written in.
fn open_any(bytes: &[u8]) -> Result<Arc<Table>> {
    let mut last = None;
    for order in [
        KeyOrder::Bytewise,
        KeyOrder::ReverseBytewise,
        KeyOrder::BytewiseU64Ts,
        KeyOrder::ReverseBytewiseU64Ts,
    ] {
        let params = OpenParams {
            order,
            prefix_extractor: Some(PrefixExtractor::Fixed(4)),
            ..OpenParams::default()
        };
        match open(bytes, params) {
            Err(error) if error.code() == Code::InvalidArgument => last = Some(error),
            other => return other,
        }
    }
    Err(last.unwrap())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads one table in every way and compares it with its dump.
fn check(path: &Path) -> Result<()> {
    let bytes = fs::read(path).unwrap();
    let table = open_any(&bytes)?;
    let entries = forward(&table)?;
    assert!(
        backward(&table)?.iter().rev().eq(&entries),
        "{}",
        path.display()
    );
    let points = table.properties().num_entries - table.properties().num_range_deletions;
    assert_eq!(entries.len() as u64, points, "{}", path.display());
    table.verify_checksums(&Io::blocking())?;
    let dump = PathBuf::from(format!("{}.dump", path.display()));
    if let Ok(text) = fs::read_to_string(&dump) {
        let expected: Vec<&str> = text.lines().collect();
        assert_eq!(entries.len(), expected.len(), "{}", path.display());
        for ((key, value), line) in entries.iter().zip(expected) {
            // Dumps have keys as they are stored.
            let shown = if table.global_seqno().is_some() {
                key.len() - 8
            } else {
                key.len()
            };
            let found = format!("{} {}", hex(key), hex(value));
            let (from, to) = (2 * shown, 2 * key.len());
            assert_eq!(found[..from], line[..from], "{}", path.display());
            assert_eq!(found[to..], line[to..], "{}", path.display());
        }
    }
    for (key, value) in entries.iter().step_by(17) {
        let (user, seq) = (&key[..key.len() - 8], cairn_format::key::sequence(key).0);
        let found = get(&table, user, seq)?;
        assert_eq!(
            found.first(),
            Some(&(seq, value.clone())),
            "{}",
            path.display()
        );
    }
    Ok(())
}

fn tables(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "sst"))
        .collect();
    paths.sort();
    paths
}

#[test]
fn tables_of_rocksdb_are_read() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    for path in tables(&here) {
        if let Err(error) = check(&path) {
            panic!("{}: {error}", path.display());
        }
    }
}

#[test]
fn a_corpus_of_tables_is_read() {
    let Ok(dir) = std::env::var("CAIRN_TABLE_CORPUS") else {
        return;
    };
    let paths = tables(Path::new(&dir));
    let mut refused = 0;
    for path in &paths {
        if let Err(error) = check(path) {
            println!("{}: {error}", path.display());
            refused += 1;
        }
    }
    println!("{} tables, {refused} not read", paths.len());
}
