//! Tables written by RocksDB yield the same entries as an independent decoder finds in them.
//!
//! `testdata/digests.txt` has a line for each table: its name, its number of point entries, and the
//! CRC32C of all entries as that decoder found them (lengths as fixed32, keys and values; the sequence
//! numbers of ingested files as zeros).
//!
//! `CAIRN_TABLE_CORPUS` may name a directory with more tables. If `NAME.sst.dump` exists beside
//! `NAME.sst`, it has a line for each entry in file order: the internal key in hex, a space, and the
//! value in hex. Other tables are only scanned and counted.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_format::checksum::crc32c;
use cairn_platform::Io;
use cairn_table::{OpenParams, Table};
use cairn_types::{Code, KeyOrder, PrefixExtractor, Result};

use crate::world::{backward, forward, get, open};

/// Opens a table with the built-in order that it was written with.
fn open_any(bytes: &[u8]) -> Result<Arc<Table>> {
    let mut last = None;
    let orders = [
        KeyOrder::Bytewise,
        KeyOrder::ReverseBytewise,
        KeyOrder::BytewiseU64Ts,
        KeyOrder::ReverseBytewiseU64Ts,
    ];
    for order in orders {
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

/// Reads a table in every way and compares it with its dump.
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
    table.verify_entries(&Io::blocking(), true)?;
    let dump = PathBuf::from(format!("{}.dump", path.display()));
    if let Ok(text) = fs::read_to_string(&dump) {
        let expected: Vec<&str> = text.lines().collect();
        assert_eq!(entries.len(), expected.len(), "{}", path.display());
        for ((key, value), line) in entries.iter().zip(expected) {
            // Dumps have keys as stored.
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

/// Returns the digest of the entries of a table; see the module docs.
fn digest(table: &Arc<Table>) -> Result<(usize, u32)> {
    // The digest excludes timestamps that the file does not store.
    let pad = if table.properties().timestamps_stripped {
        table.order().timestamp_size()
    } else {
        0
    };
    let entries = forward(table)?;
    let mut bytes = Vec::new();
    for (key, value) in &entries {
        let (user, suffix) = key.split_at(key.len() - 8);
        let mut key = user[..user.len() - pad].to_vec();
        key.extend_from_slice(suffix);
        if table.global_seqno().is_some() {
            let len = key.len();
            key[len - 7..].fill(0);
        }
        for part in [&key, value] {
            bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
            bytes.extend_from_slice(part);
        }
    }
    Ok((entries.len(), crc32c(&bytes)))
}

#[test]
fn tables_written_by_rocksdb_are_read() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let digests = fs::read_to_string(here.join("digests.txt")).unwrap();
    for line in digests.lines() {
        let [name, count, crc] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let path = here.join(format!("{name}.sst"));
        check(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let found = digest(&open_any(&fs::read(&path).unwrap()).unwrap()).unwrap();
        let expected = (
            count.parse().unwrap(),
            u32::from_str_radix(crc, 16).unwrap(),
        );
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn keys_without_timestamps_get_the_minimum() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let bytes = fs::read(here.join("v1109_udt_memtable_only__000009.sst")).unwrap();
    let with = |order| {
        let params = OpenParams {
            order,
            ..OpenParams::default()
        };
        open(&bytes, params).unwrap()
    };
    let (bare, padded) = (with(KeyOrder::Bytewise), with(KeyOrder::BytewiseU64Ts));
    assert_eq!(digest(&bare).unwrap(), digest(&padded).unwrap());
    let entries = forward(&padded).unwrap();
    assert!(backward(&padded).unwrap().iter().rev().eq(&entries));
    for (key, value) in &entries {
        let (user, _) = key.split_at(key.len() - 8);
        assert_eq!(user[user.len() - 8..], [0; 8]);
        // A lookup at a later timestamp finds the entry with the minimum timestamp.
        let mut later = user[..user.len() - 8].to_vec();
        later.extend_from_slice(&9u64.to_le_bytes());
        let found = get(&padded, &later, 1 << 50).unwrap();
        assert!(found.iter().any(|(_, found)| found == value));
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
    println!("{} tables, {refused} rejected", paths.len());
}
