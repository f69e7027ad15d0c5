//! RocksDB reads values of all sizes around encoding limits that Cairn wrote: from the log, tables and
//! blob files.

use cairn_bench::rocksdb::{Db, Family, OpenMode};
use cairn_interop::engine::{Cairn, family_options};
use cairn_interop::workload::{Change, Durable, Engine};

/// Lengths around varint limits, sectors, log blocks and 16 bits.
fn lengths() -> impl Iterator<Item = usize> {
    let bits = [7, 9, 12, 14, 15, 16, 17, 21];
    bits.into_iter()
        .flat_map(|bits| {
            (-12..=12)
                .chain([-64, 64])
                .map(move |by| (1_isize << bits) + by)
        })
        .map(|len| usize::try_from(len).unwrap())
}

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    let mut state = seed as u64 + 1;
    let mut bytes = Vec::with_capacity(len + 4);
    while bytes.len() < len {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        // The upper half of the state is the more random one.
        bytes.extend_from_slice(&(state >> 32).to_le_bytes()[..4]);
    }
    bytes.truncate(len);
    bytes
}

/// A value of `len` bytes, and a key of that length if keys can be that long.
fn rows(len: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = vec![(format!("value {len}").into_bytes(), bytes(len, len))];
    if len < 1 << 18 {
        rows.push((bytes(len, 2 * len), len.to_string().into_bytes()));
    }
    rows
}

#[test]
fn rocksdb_reads_sizes_around_every_limit() {
    let Some(library) = crate::library() else {
        return;
    };
    let rows: Vec<_> = lengths().map(|len| (len, rows(len))).collect();
    // Without a flush, values are in the log, whose form only the options of the database determine.
    for (options, family, flushes) in [
        ("", "compression=kNoCompression", &[false, true][..]),
        ("wal_compression=kZSTD", "compression=kZSTD", &[false, true]),
        (
            "wal_write_mode=kPlain",
            "enable_blob_files=true;min_blob_size=16384",
            &[false, true],
        ),
        (
            "",
            "enable_blob_files=true;min_blob_size=128;blob_compression_type=kLZ4Compression",
            &[true],
        ),
    ] {
        for &flushed in flushes {
            let place = tempfile::tempdir().unwrap();
            let dir = place.path().join("db");
            let options = format!("avoid_flush_during_shutdown=true;{options}");
            let mut db = Cairn::open(&dir, &options, family).unwrap();
            for (_, rows) in &rows {
                let changes: Vec<_> = rows
                    .iter()
                    .map(|(key, value)| Change::Put(0, key.clone(), value.clone()))
                    .collect();
                db.write(&changes);
            }
            if flushed {
                db.flush(0);
            }
            drop(db);
            let families = family_options(family);
            let families: Vec<_> = families
                .iter()
                .map(|(name, text)| (*name, &text[..]))
                .collect();
            let mode = OpenMode::Existing;
            let theirs = Db::open(&library, &dir, "", &families, mode).unwrap();
            for (len, rows) in &rows {
                for (key, value) in rows {
                    let found = theirs.get(Family(0), key).unwrap();
                    assert!(
                        found.as_deref() == Some(&value[..]),
                        "{options}, {family}, flushed {flushed}: length {len}, key of {} bytes",
                        key.len()
                    );
                }
            }
        }
    }
}
