//! The rate limiter: bytes read and written by flushes and compactions.

use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, OpenRequest, open};
use cairn_options::enums::IoCharge;
use cairn_options::{
    CompactRangeOptions, Compression, DbOptions, FamilyOptions, ReadOptions, WriteOptions,
};
use cairn_platform::{IoPriority, RateLimited, RateLimiter, World};
use cairn_types::Code;

use crate::basic::db_options;

fn open_with(world: &World, limiter: &Arc<RateLimiter>) -> Db {
    let db = DbOptions {
        rate_limiter: Some(limiter.clone()),
        ..db_options()
    };
    let family = FamilyOptions {
        disable_auto_compactions: true,
        enable_blob_files: true,
        min_blob_size: 10_000,
        compression: Compression::None,
        ..FamilyOptions::default()
    };
    open(&OpenRequest {
        path: Path::new("/db"),
        options: &db,
        families: &[],
        others: Some(&family),
        read_only: false,
        world: world.clone(),
    })
    .expect("it opens")
}

/// Bytes of the tables and the blob files.
fn on_disk(world: &World) -> u64 {
    let entries = world.fs.list(Path::new("/db")).expect("it is listed");
    let sizes = entries.iter().filter_map(|name| {
        let path = Path::new("/db").join(name);
        let counts = matches!(path.extension()?.to_str()?, "sst" | "blob");
        counts.then(|| world.fs.status(&path).expect("it is there").len)
    });
    sizes.sum()
}

#[test]
fn flushes_and_compactions_pass_the_limiter_with_their_priorities() {
    let limiter = Arc::new(RateLimiter::new(
        20_000_000,
        10_000,
        10,
        RateLimited::AllIo,
        false,
    ));
    let world = World::in_memory();
    let db = open_with(&world, &limiter);
    let started = world.clock.monotonic_nanos();
    for round in 0..2_u8 {
        for n in 0..100_u32 {
            db.put(&n.to_be_bytes(), &[round; 3_000]).unwrap();
        }
        db.put(b"large", &[round; 20_000]).unwrap();
        db.flush().unwrap();
    }
    // An idle open database writes nothing else with this priority.
    let flushed = limiter.total_bytes_through(Some(IoPriority::High));
    assert_eq!(flushed, on_disk(&world));
    assert!(flushed > 600_000, "{flushed}");
    assert_eq!(limiter.total_bytes_through(None), flushed);

    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    let compacted = limiter.total_bytes_through(Some(IoPriority::Low));
    // It read both tables, except what opening them had read, and wrote one of their size.
    assert!(compacted > 800_000, "{compacted}");
    let micros = (world.clock.monotonic_nanos() - started) / 1000;
    let all = limiter.total_bytes_through(None);
    assert_eq!(all, flushed + compacted);
    assert!(all <= micros * 20 + 2 * limiter.single_burst_bytes());
    db.put(b"more", &[1; 5_000]).unwrap();
    db.close().unwrap();

    // Recovery flushes the log; none of this passes the limiter if only reads are limited.
    let reads = Arc::new(RateLimiter::new(
        20_000_000,
        10_000,
        10,
        RateLimited::ReadsOnly,
        false,
    ));
    let db = open_with(&world, &reads);
    assert_eq!(reads.total_requests(None), 0);
    assert_eq!(
        db.property("rocksdb.num-files-at-level0").as_deref(),
        Some("1")
    );
    assert_eq!(db.get(b"large").unwrap().unwrap().to_vec(), [1; 20_000]);
    db.close().unwrap();
}

#[test]
fn a_write_is_charged_if_it_asks_for_it() {
    let world = World::in_memory();
    let limiter = Arc::new(RateLimiter::new(
        1 << 30,
        100_000,
        10,
        RateLimited::WritesOnly,
        false,
    ));
    let db = open_with(&world, &limiter);
    let charged = |rate_limiter_priority| WriteOptions {
        rate_limiter_priority,
        ..WriteOptions::default()
    };
    let through = || limiter.total_bytes_through(Some(IoPriority::User));
    db.put(b"k", b"v").unwrap();
    assert_eq!(through(), 0);
    db.put_with(b"k", b"v", &charged(IoCharge::User)).unwrap();
    // The header of the batch, the tag of its entry, and key and value with their lengths.
    assert_eq!(through(), 12 + 1 + 2 + 2);
    let unlogged = WriteOptions {
        disable_wal: true,
        ..charged(IoCharge::User)
    };
    for refused in [charged(IoCharge::High), charged(IoCharge::Low), unlogged] {
        let error = db.put_with(b"k", b"v", &refused).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
    }
    assert_eq!(through(), 17);
    db.close().unwrap();
}

#[test]
fn a_read_is_charged_if_it_asks_for_it() {
    let (world, mib) = (World::in_memory(), 1 << 20);
    let limiter = |mode| Arc::new(RateLimiter::new(1 << 30, 100_000, 10, mode, false));
    let of_writes = limiter(RateLimited::WritesOnly);
    let db = open_with(&world, &of_writes);
    for key in 0..256_u32 {
        let value = [key as u8; 4_096];
        db.put(&key.to_be_bytes(), &value).unwrap();
    }
    db.put(b"blob", &[9; 30_000]).unwrap();
    db.flush().unwrap();
    let charged = |charge| ReadOptions {
        rate_limiter_priority: charge,
        fill_cache: false,
        ..ReadOptions::default()
    };
    let user = charged(IoCharge::User);
    let get = |db: &Db, options: &ReadOptions| {
        db.get_with(&7_u32.to_be_bytes(), options).unwrap().unwrap();
    };
    // The limiter does not cover reads.
    get(&db, &user);
    assert_eq!(of_writes.total_bytes_through(Some(IoPriority::User)), 0);
    db.close().unwrap();

    let all = limiter(RateLimited::AllIo);
    let db = open_with(&world, &all);
    let took = |priority, read: &dyn Fn()| {
        let before = all.total_bytes_through(Some(priority));
        read();
        all.total_bytes_through(Some(priority)) - before
    };
    let by_user = |read: &dyn Fn()| took(IoPriority::User, read);
    // Opens the table.
    get(&db, &charged(IoCharge::Uncharged));
    assert_eq!(by_user(&|| get(&db, &charged(IoCharge::Uncharged))), 0);
    let one_block = 4_096..3 * 4_096;
    assert!(one_block.contains(&by_user(&|| get(&db, &user))));
    for (charge, priority) in [
        (IoCharge::Low, IoPriority::Low),
        (IoCharge::Mid, IoPriority::Mid),
        (IoCharge::High, IoPriority::High),
    ] {
        let taken = took(priority, &|| get(&db, &charged(charge)));
        assert!(one_block.contains(&taken), "{charge:?}: {taken}");
    }
    let keys = [3_u32, 90, 200].map(u32::to_be_bytes);
    let batch = by_user(&|| {
        for value in db.multi_get(&keys, &user) {
            value.unwrap().unwrap();
        }
    });
    assert!((3 * 4_096..9 * 4_096).contains(&batch), "{batch}");
    let stamped = by_user(&|| {
        for value in db.multi_get_with_timestamps(&keys, &user) {
            value.unwrap().unwrap();
        }
    });
    assert!((3 * 4_096..9 * 4_096).contains(&stamped), "{stamped}");
    let scan = |options: &ReadOptions| {
        let mut iter = db.iter_with(options);
        let mut count = 0;
        iter.seek_to_first();
        while iter.valid() {
            count += 1;
            iter.next();
        }
        iter.refresh().unwrap();
        iter.seek_to_first();
        assert!(iter.valid() && iter.status().is_ok());
        count
    };
    let whole = by_user(&|| assert_eq!(scan(&user), 257));
    assert!((mib..2 * mib).contains(&whole), "{whole}");
    let verified = by_user(&|| db.verify_checksum(&user).unwrap());
    assert!((mib..2 * mib).contains(&verified), "{verified}");
    let blob = by_user(&|| drop(db.get_with(b"blob", &user).unwrap().unwrap()));
    assert!((30_000..45_000).contains(&blob), "{blob}");
    // Reads of memory take nothing, and an iterator notices that its view has been replaced.
    assert_eq!(
        by_user(&|| assert!(db.get_with(b"z", &user).unwrap().is_none())),
        0
    );
    let tailing = ReadOptions {
        tailing: true,
        ..user.clone()
    };
    let mut iter = db.iter_with(&tailing);
    iter.seek_to_first();
    db.put(b"\0", b"new").unwrap();
    db.flush().unwrap();
    assert!(by_user(&|| get(&db, &user)) > 0);
    iter.seek_to_first();
    assert_eq!(iter.key(), b"\0");
    drop(iter);
    db.close().unwrap();
}
