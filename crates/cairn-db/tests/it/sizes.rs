//! Sizes around the limits of every encoder: acknowledged data is read after reopening, from the log and from
//! tables; data that could not be is rejected before it is logged. Sizes from 2^28 on are not covered.

use std::path::Path;

use cairn_db::{Db, OpenRequest, WriteBatch, open};
use cairn_options::{Compression, DbOptions, FamilyOptions};
use cairn_platform::World;
use cairn_types::Code;

use crate::basic::db_options;

fn open_with(world: &World, db: &DbOptions, family: &FamilyOptions) -> Db {
    open(&OpenRequest {
        path: Path::new("/db"),
        options: db,
        families: &[],
        others: Some(family),
        read_only: false,
        world: world.clone(),
    })
    .expect("it opens")
}

/// Returns `len` hardly compressible bytes that depend on `seed`.
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

/// Lengths around powers of two at which encodings change: varints, log blocks, 16 bits.
fn lengths() -> Vec<usize> {
    let around = |bits: u32| [-64, -16, -8, -1, 0, 1, 7, 64].map(|by| (1_isize << bits) + by);
    let all = [7, 12, 14, 15, 16, 21].into_iter().flat_map(around);
    all.map(|len| usize::try_from(len).expect("none is negative"))
        .collect()
}

#[test]
fn keys_values_and_batches_around_the_limits_are_read_from_log_and_tables() {
    let zstd_log = DbOptions {
        wal_compression: Compression::Zstd,
        ..db_options()
    };
    let blobs = FamilyOptions {
        enable_blob_files: true,
        min_blob_size: 1 << 14,
        blob_compression_type: Compression::Lz4,
        ..FamilyOptions::default()
    };
    let plain = FamilyOptions {
        compression: Compression::None,
        ..FamilyOptions::default()
    };
    for (log, family) in [(&db_options(), &plain), (&zstd_log, &blobs)] {
        let world = World::in_memory();
        let db = open_with(&world, log, family);
        for len in lengths() {
            db.put(format!("v{len}").as_bytes(), &bytes(len, len))
                .unwrap();
            if len < 1 << 17 {
                db.put(&bytes(len, 2 * len), len.to_string().as_bytes())
                    .unwrap();
            }
            // A batch of exactly this length.
            let mut batch = WriteBatch::new();
            let key = format!("b{len}");
            let head = 12 + 1 + 1 + key.len();
            for varint in (1..=4).rev() {
                if let Some(left) = len.checked_sub(head + varint) {
                    batch.clear();
                    batch.put(key.as_bytes(), &bytes(left, 3 * len));
                    if batch.data().len() == len {
                        break;
                    }
                }
            }
            db.write(&batch).unwrap();
        }
        let check = |db: &Db| {
            for len in lengths() {
                let value = db.get(format!("v{len}").as_bytes()).unwrap();
                assert!(value.unwrap()[..] == bytes(len, len), "value of {len}");
                if len < 1 << 17 {
                    let value = db.get(&bytes(len, 2 * len)).unwrap().unwrap();
                    assert_eq!(&value[..], len.to_string().as_bytes(), "key of {len}");
                }
                let value = db.get(format!("b{len}").as_bytes()).unwrap().unwrap();
                assert!(value[..] == bytes(value.len(), 3 * len), "batch of {len}");
            }
        };
        check(&db);
        db.close().unwrap();
        drop(db);
        let db = open_with(&world, log, family);
        check(&db);
        db.flush().unwrap();
        check(&db);
        db.close().unwrap();
        drop(db);
        check(&open_with(&world, log, family));
    }
}

#[test]
fn writes_too_large_for_a_table_or_a_log_are_rejected_before_they_are_logged() {
    let world = World::in_memory();
    let db = open_with(&world, &db_options(), &FamilyOptions::default());
    db.put(b"a", b"1").unwrap();
    let before = db.latest_sequence();
    // It is not accessed, and thus takes no memory.
    let huge = vec![0; 1 << 32];
    for len in [(1_usize << 32) - 64, (1 << 32) - 30, (1 << 32) - 1, 1 << 32] {
        let error = db.put(b"key", &huge[..len]).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        let error = db.put(&huge[..len], b"value").unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        let error = db.merge(b"key", &huge[..len]).unwrap_err();
        assert_eq!(error.code(), Code::NotSupported, "{error}");
    }
    assert_eq!(db.latest_sequence(), before);
    assert!(db.background_error().is_none());
    db.put(b"b", b"2").unwrap();
}
