//! Reads and writes as futures: results, cancellation, sizes.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use cairn::caches::{
    BlockCache, CacheOptions, FlashAdmission, FlashCache, FlashCacheOptions, SecondaryCache,
};
use cairn::options::enums::{IoMode, ReadTier};
use cairn::world::RemoteSettings;
use cairn::{CompactRangeOptions, Db, Options, ReadOptions, World, WriteBatch, WriteOptions};

/// The modes in which reads of futures are executed without blocking.
const MODES: [IoMode; 2] = [IoMode::Uring, IoMode::Threads];

fn value(n: u32) -> Vec<u8> {
    vec![n as u8; 500]
}

/// A database in `dir` whose reads take `latency`, without anything in memory but the WAL's entries. Keys up to
/// 1000 are in tables, of which every third value is in a blob file; those up to 1010 are in the memtable.
fn remote(dir: &tempfile::TempDir, mode: IoMode, latency: Duration) -> Db {
    let options = |text: &str| {
        let mut options = Options::default()
            .create_if_missing(true)
            .text(text)
            .unwrap();
        options.db.io_mode = mode;
        options.db.read_io_executor_threads = 4;
        options
    };
    let text = "compression=kNoCompression;disable_auto_compactions=true;enable_blob_files=true;\
                min_blob_size=400;block_based_table_factory={no_block_cache=true}";
    let path = dir.path().join("db");
    if !path.exists() {
        let db = Db::open(&path, &options(text)).unwrap();
        for round in 0..3 {
            for n in 0..1000_u32 {
                let len = if n.is_multiple_of(3) { 500 } else { 300 };
                db.put(&n.to_be_bytes(), &value(n)[..len]).unwrap();
            }
            if round < 2 {
                db.default_family().flush().unwrap();
            }
        }
        db.compact_range(None, None, &CompactRangeOptions::default())
            .unwrap();
        for n in 1000..1010_u32 {
            db.put(&n.to_be_bytes(), &value(n)[..300]).unwrap();
        }
        db.close().unwrap();
    }
    let settings = RemoteSettings {
        latency,
        bandwidth: 0,
        queue_depth: 10_000,
    };
    let world = World::posix().remote(settings);
    let builder = Db::builder(&path).world(world);
    builder.options(options(text)).open().unwrap()
}

fn expected(n: u32) -> Vec<u8> {
    let len = if n.is_multiple_of(3) && n < 1000 {
        500
    } else {
        300
    };
    value(n)[..len].to_vec()
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls `future` at most `polls` times, waiting to be woken in between, and drops it.
fn poll_times<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    for poll in 0..polls {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(result);
        }
        if poll + 1 < polls {
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }
    None
}

#[test]
fn a_get_waits_for_storage_without_blocking_its_thread() {
    let dir = tempfile::tempdir().unwrap();
    for mode in MODES {
        let db = remote(&dir, mode, Duration::from_millis(40));
        // Opens the table.
        assert!(db.get(&1_u32.to_be_bytes()).unwrap().is_some());
        let keys: Vec<_> = (0..100_u32).map(|n| (n * 3 + 1).to_be_bytes()).collect();
        let began = Instant::now();
        let mut gets: Vec<_> = keys.iter().map(|key| Box::pin(db.get_async(key))).collect();
        let mut context = Context::from_waker(Waker::noop());
        for get in &mut gets {
            assert!(get.as_mut().poll(&mut context).is_pending());
        }
        assert!(
            began.elapsed() < Duration::from_millis(40),
            "none has waited"
        );
        for (n, get) in (0..).zip(gets) {
            let found = pollster::block_on(get).unwrap();
            assert_eq!(found.as_deref(), Some(&expected(n * 3 + 1)[..]));
        }
        assert!(
            began.elapsed() < Duration::from_millis(40 * 30),
            "they wait together"
        );
    }
}

#[test]
fn a_get_waits_for_a_flash_tier_without_blocking_its_thread() {
    let dir = tempfile::tempdir().unwrap();
    let latency = Duration::from_millis(40);
    let world = |latency| {
        World::posix().remote(RemoteSettings {
            latency,
            bandwidth: 0,
            queue_depth: 10_000,
        })
    };
    let opened = |world: &World| {
        let flash = FlashCacheOptions {
            dir: dir.path().join("flash"),
            capacity: 8 << 20,
            segment_size: 1 << 20,
            admission: FlashAdmission::All,
            ..FlashCacheOptions::default()
        };
        let flash = Arc::new(FlashCache::open(&flash, world).unwrap());
        let cache = BlockCache::with_tier(32 << 10, CacheOptions::default(), flash.clone());
        let mut options = Options::default()
            .create_if_missing(true)
            .text("compression=kNoCompression;disable_auto_compactions=true")
            .unwrap();
        options.db.io_mode = IoMode::Threads;
        options.db.read_io_executor_threads = 4;
        options.family.table.block_cache = Some(Arc::new(cache));
        let builder = Db::builder(dir.path().join("db")).world(world.clone());
        (builder.options(options).open().unwrap(), flash)
    };
    let (db, flash) = opened(&world(Duration::ZERO));
    for n in 0..2000_u32 {
        db.put(&n.to_be_bytes(), &[n as u8; 400]).unwrap();
    }
    db.default_family().flush().unwrap();
    for n in 0..2000_u32 {
        assert!(db.get(&n.to_be_bytes()).unwrap().is_some());
    }
    db.close().unwrap();
    flash.close();
    drop(flash);

    let (db, flash) = opened(&world(latency));
    // Opens the table.
    assert!(db.get(&1999_u32.to_be_bytes()).unwrap().is_some());
    let keys: Vec<_> = (0..50_u32).map(|n| (n * 20).to_be_bytes()).collect();
    let (began, before) = (Instant::now(), flash.counts().hits);
    let mut gets: Vec<_> = keys.iter().map(|key| Box::pin(db.get_async(key))).collect();
    let mut context = Context::from_waker(Waker::noop());
    for get in &mut gets {
        assert!(get.as_mut().poll(&mut context).is_pending());
    }
    assert!(began.elapsed() < latency, "none has waited");
    // One that is abandoned leaves no trace.
    drop(gets.pop());
    for (n, get) in (0..50_u32).zip(gets) {
        let found = pollster::block_on(get).unwrap();
        assert_eq!(found.as_deref(), Some(&[(n * 20) as u8; 400][..]));
    }
    assert!(began.elapsed() < latency * 25, "they wait together");
    assert!(flash.counts().hits - before > 40, "{flash:?}");

    // A get that may read nothing but the cache awaits flash, too.
    let cached = ReadOptions {
        read_tier: ReadTier::BlockCache,
        ..ReadOptions::default()
    };
    let keys: Vec<_> = (50..90_u32).map(|n| (n * 20).to_be_bytes()).collect();
    let began = Instant::now();
    let get = |key| Box::pin(db.get_with_async(key, &cached));
    let mut gets: Vec<_> = keys.iter().map(|key| get(&key[..])).collect();
    for get in &mut gets {
        assert!(get.as_mut().poll(&mut context).is_pending());
    }
    assert!(began.elapsed() < latency, "none has waited");
    for (n, get) in (50..90_u32).zip(gets) {
        let found = pollster::block_on(get).unwrap();
        assert_eq!(found.as_deref(), Some(&[(n * 20) as u8; 400][..]));
    }
}

#[test]
fn columns_in_blob_files_are_awaited_together() {
    let dir = tempfile::tempdir().unwrap();
    let latency = Duration::from_millis(40);
    let opened = |latency| {
        let world = World::posix().remote(RemoteSettings {
            latency,
            bandwidth: 0,
            queue_depth: 10_000,
        });
        let options = Options::default()
            .create_if_missing(true)
            .text("compression=kNoCompression;enable_blob_files=true;min_blob_size=100");
        let mut options = options.unwrap();
        options.family.enable_blob_columns = true;
        let builder = Db::builder(dir.path()).world(world);
        builder.options(options).open().unwrap()
    };
    let db = opened(Duration::ZERO);
    for n in 0..20_u32 {
        let columns = [
            (&b""[..], &value(n)[..]),
            (b"b", &value(n + 1)),
            (b"c", b"inline"),
        ];
        db.default_family()
            .put_entity(&n.to_be_bytes(), &columns)
            .unwrap();
    }
    db.default_family().flush().unwrap();
    db.close().unwrap();

    let db = opened(latency);
    assert_eq!(
        db.get(&[0; 4]).unwrap().as_deref(),
        Some(&value(0)[..]),
        "the table is open"
    );
    let keys: Vec<_> = (0..20_u32).map(u32::to_be_bytes).collect();
    let options = ReadOptions {
        async_io: true,
        ..ReadOptions::default()
    };
    let began = Instant::now();
    let mut found = pin!(db.multi_get_async(&keys, &options));
    let polled = found.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(
        polled.is_pending() && began.elapsed() < latency,
        "it has not waited"
    );
    for (n, found) in (0..20).zip(pollster::block_on(found)) {
        assert_eq!(found.unwrap().as_deref(), Some(&value(n)[..]));
    }
    let family = db.default_family();
    let entity = pollster::block_on(family.get_entity_async(&[0, 0, 0, 7], &options));
    let entity = entity.unwrap().unwrap();
    assert_eq!(entity.get(b"b"), Some(&value(8)[..]));
    assert!(began.elapsed() < latency * 20, "columns are read together");
}

#[test]
fn futures_return_what_blocking_reads_return() {
    let dir = tempfile::tempdir().unwrap();
    for mode in [
        IoMode::Auto,
        IoMode::Uring,
        IoMode::Threads,
        IoMode::Blocking,
    ] {
        let db = remote(&dir, mode, Duration::from_micros(10));
        let keys: Vec<_> = (0..1100_u32).step_by(7).map(u32::to_be_bytes).collect();
        let options = ReadOptions::default();
        let together = pollster::block_on(db.multi_get_async(&keys, &options));
        let by_level = ReadOptions {
            optimize_multiget_for_io: false,
            ..ReadOptions::default()
        };
        let by_file = pollster::block_on(db.multi_get_async(&keys, &by_level));
        for ((key, one), other) in keys.iter().zip(together).zip(by_file) {
            let n = u32::from_be_bytes(*key);
            let wanted = (n < 1010).then(|| expected(n));
            let single = pollster::block_on(db.get_async(key)).unwrap();
            for found in [single, one.unwrap(), other.unwrap()] {
                assert_eq!(found.as_deref(), wanted.as_deref(), "{n}");
            }
        }
        let cached_only = ReadOptions {
            read_tier: cairn::options::enums::ReadTier::BlockCache,
            ..ReadOptions::default()
        };
        let refused = pollster::block_on(db.get_with_async(&[0, 0, 0, 1], &cached_only));
        assert_eq!(refused.unwrap_err().code(), cairn::Code::Incomplete);
        let late = ReadOptions {
            deadline: 1,
            ..ReadOptions::default()
        };
        let refused = pollster::block_on(db.get_with_async(&[0, 0, 0, 1], &late));
        assert_eq!(refused.unwrap_err().code(), cairn::Code::TimedOut);
    }
}

#[test]
fn a_key_in_memory_is_returned_at_the_first_poll() {
    let db = crate::database("");
    db.put(b"in the memtable", b"1").unwrap();
    assert!(poll_times(db.get_async(b"in the memtable"), 1).is_some());
    assert!(poll_times(db.get_async(b"missing"), 1).is_some());
    db.default_family().flush().unwrap();
    db.get(b"in the memtable").unwrap();
    let found = poll_times(db.get_async(b"in the memtable"), 1);
    assert_eq!(found.unwrap().unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_get_dropped_at_any_poll_releases_what_it_holds() {
    let dir = tempfile::tempdir().unwrap();
    for mode in MODES {
        let db = remote(&dir, mode, Duration::from_micros(200));
        for polls in 1..12 {
            for n in [0_u32, 1, 500, 999, 1005] {
                let key = n.to_be_bytes();
                drop(poll_times(db.get_async(&key), polls));
                let keys: Vec<_> = (n..n + 40).map(u32::to_be_bytes).collect();
                let options = ReadOptions::default();
                drop(poll_times(db.multi_get_async(&keys, &options), polls));
                let found = pollster::block_on(db.get_async(&key)).unwrap();
                assert_eq!(found.as_deref(), Some(&expected(n)[..]));
            }
        }
        // Nothing keeps the view, so that a compaction can delete its files.
        db.compact_range(None, None, &CompactRangeOptions::default())
            .unwrap();
        db.wait_until_quiet().unwrap();
        assert_eq!(
            db.property("rocksdb.num-live-versions").as_deref(),
            Some("1")
        );
        db.close().unwrap();
    }
}

fn check_that_kept_files_are_deleted(iterates: bool) {
    let dir = tempfile::tempdir().unwrap();
    let db = remote(&dir, IoMode::Threads, Duration::from_millis(20));
    assert!(db.get(&1_u32.to_be_bytes()).unwrap().is_some());
    let tables = || {
        let names = std::fs::read_dir(dir.path().join("db")).unwrap();
        let table =
            |name: &std::fs::DirEntry| name.path().extension().is_some_and(|it| it == "sst");
        names.filter(|name| table(name.as_ref().unwrap())).count()
    };
    let key = 4_u32.to_be_bytes();
    let mut get = Box::pin(db.get_async(&key));
    let mut context = Context::from_waker(Waker::noop());
    let iter = iterates.then(|| db.iter_async(&ReadOptions::default()).unwrap());
    assert!(iterates || get.as_mut().poll(&mut context).is_pending());
    let options = CompactRangeOptions::default();
    db.put(b"k", b"").unwrap();
    db.compact_range(None, None, &options).unwrap();
    db.delete_range(b"", b"z").unwrap();
    db.compact_range(None, None, &options).unwrap();
    let kept = tables();
    assert!(kept > 0, "the read keeps its table");
    drop((get, iter));
    let began = Instant::now();
    while tables() >= kept {
        assert!(began.elapsed() < Duration::from_secs(20), "it is deleted");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn files_that_a_dropped_get_kept_are_deleted() {
    check_that_kept_files_are_deleted(false);
}

#[test]
fn files_that_an_unused_iterator_kept_are_deleted() {
    check_that_kept_files_are_deleted(true);
}

#[test]
fn damaged_and_missing_files_are_errors_of_their_future() {
    let dir = tempfile::tempdir().unwrap();
    drop(remote(&dir, IoMode::Auto, Duration::ZERO));
    let damage = |extension: &str, act: &dyn Fn(&std::path::Path)| {
        for name in std::fs::read_dir(dir.path().join("db")).unwrap() {
            let path = name.unwrap().path();
            if path.extension().is_some_and(|it| it == extension) {
                act(&path);
            }
        }
    };
    damage("blob", &|path| {
        let len = std::fs::metadata(path).unwrap().len();
        let mut bytes = std::fs::read(path).unwrap();
        bytes[40..len as usize - 40].fill(0x55);
        std::fs::write(path, bytes).unwrap();
    });
    for mode in MODES {
        let db = remote(&dir, mode, Duration::from_micros(10));
        let error = pollster::block_on(db.get_async(&3_u32.to_be_bytes())).unwrap_err();
        assert_eq!(error.code(), cairn::Code::Corruption, "{error}");
        let found = pollster::block_on(db.get_async(&4_u32.to_be_bytes())).unwrap();
        assert_eq!(found.as_deref(), Some(&expected(4)[..]));
    }
    let db = remote(&dir, IoMode::Auto, Duration::from_micros(10));
    damage("sst", &|path| std::fs::remove_file(path).unwrap());
    let error = pollster::block_on(db.get_async(&4_u32.to_be_bytes())).unwrap_err();
    assert_eq!(error.code(), cairn::Code::IoError, "{error}");
}

#[test]
fn the_future_of_a_get_is_small() {
    let db = crate::database("");
    let get = db.get_async(b"k");
    // The memory of a waiting get beside it is bounded by a test of `cairn-fuzz`, whose allocator counts.
    let size = size_of_val(&get);
    assert!(size <= 656, "{size}");
}

#[test]
fn awaited_writes_are_executed_once_and_in_order_of_their_tasks() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true);
    let db = Arc::new(Db::open(dir.path().join("db"), &options).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let tasks: Vec<_> = (0..64_u32)
        .map(|task| {
            let db = db.clone();
            runtime.spawn(async move {
                let options = WriteOptions {
                    sync: task % 2 == 0,
                    ..WriteOptions::default()
                };
                for round in 0..5_u32 {
                    let mut batch = WriteBatch::new();
                    batch.put(&task.to_be_bytes(), &round.to_be_bytes());
                    db.write_async(batch, &options).await.unwrap();
                    let found = db.get_async(&task.to_be_bytes()).await.unwrap();
                    assert_eq!(found.as_deref(), Some(&round.to_be_bytes()[..]));
                }
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    assert_eq!(db.latest_sequence().0, 64 * 5);
}

#[test]
fn an_awaited_write_reports_its_error() {
    let db = crate::database("");
    let mut batch = WriteBatch::with_max_bytes(20);
    batch.put(b"key", &[0; 100]);
    let written = pollster::block_on(db.write_async(batch, &WriteOptions::default()));
    assert_eq!(written.unwrap_err().code(), cairn::Code::Aborted);
    let both = WriteOptions {
        sync: true,
        disable_wal: true,
        ..WriteOptions::default()
    };
    let written = pollster::block_on(db.write_async(WriteBatch::new(), &both));
    assert_eq!(written.unwrap_err().code(), cairn::Code::InvalidArgument);
}

#[test]
fn a_write_whose_future_was_dropped_takes_place() {
    let db = crate::database("");
    let mut batch = WriteBatch::new();
    batch.put(b"key", b"value");
    let synced = WriteOptions {
        sync: true,
        ..WriteOptions::default()
    };
    drop(poll_times(db.write_async(batch, &synced), 1));
    let began = Instant::now();
    while db.get(b"key").unwrap().is_none() {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
    let mut batch = WriteBatch::new();
    batch.put(b"other", b"value");
    // Never polled.
    drop(db.write_async(batch, &synced));
    assert!(db.get(b"other").unwrap().is_none());
    db.close().unwrap();
}

/// The next number of a sequence that looks random.
fn draw(seed: &mut u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

#[test]
fn awaited_iterators_move_like_ordinary_ones_even_if_moves_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    for mode in [IoMode::Threads, IoMode::Uring, IoMode::Blocking] {
        let db = remote(&dir, mode, Duration::from_micros(50));
        let options = ReadOptions::default();
        let mut plain = db.iter_with(&options);
        let mut awaited = db.iter_async(&options).unwrap();
        let mut seed = 7;
        for _ in 0..600 {
            let target = (draw(&mut seed) as u32 % 1020).to_be_bytes();
            let kind = draw(&mut seed) % 24;
            // Sometimes, the same or another move was started before and dropped.
            if draw(&mut seed).is_multiple_of(4) {
                match draw(&mut seed) % 3 {
                    0 => poll_once_pending(awaited.next()),
                    1 => poll_once_pending(awaited.prev()),
                    _ => poll_once_pending(awaited.seek(&target)),
                }
                // Only a move that was complete has moved.
                match awaited.entry() {
                    Some((here, _)) => plain.seek(here),
                    None => {
                        let _entry = pollster::block_on(awaited.seek(&target)).unwrap();
                        plain.seek(&target);
                    }
                }
            }
            let found = match kind {
                0 => {
                    plain.seek(&target);
                    pollster::block_on(awaited.seek(&target))
                }
                1 => {
                    plain.seek_for_prev(&target);
                    pollster::block_on(awaited.seek_for_prev(&target))
                }
                2 => {
                    plain.seek_to_first();
                    pollster::block_on(awaited.seek_to_first())
                }
                3 => {
                    plain.seek_to_last();
                    pollster::block_on(awaited.seek_to_last())
                }
                4..=15 => {
                    plain.next();
                    pollster::block_on(awaited.next())
                }
                _ => {
                    plain.prev();
                    pollster::block_on(awaited.prev())
                }
            };
            let found = found
                .unwrap()
                .map(|(key, value)| (key.to_vec(), value.to_vec()));
            let wanted = plain
                .entry()
                .map(|(key, value)| (key.to_vec(), value.to_vec()));
            assert_eq!(found, wanted);
        }
    }
}

/// Polls once and drops.
fn poll_once_pending<F: Future>(future: F) {
    drop(
        pin!(future)
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop())),
    );
}

#[test]
fn a_dropped_move_is_repeated_from_the_same_position() {
    let dir = tempfile::tempdir().unwrap();
    let db = remote(&dir, IoMode::Threads, Duration::from_millis(5));
    let mut iter = db.iter_async(&ReadOptions::default()).unwrap();
    pollster::block_on(async {
        iter.seek(&10_u32.to_be_bytes()).await.unwrap();
        for n in 11..400_u32 {
            poll_once_pending(iter.next());
            let complete = iter.entry().is_some();
            let found = match complete {
                true => iter.entry(),
                false => iter.next().await.unwrap(),
            };
            assert_eq!(found.unwrap().0, n.to_be_bytes(), "{complete}");
        }
        // Back, although a step forward is under way.
        let mut last = Vec::new();
        while let Some((key, _)) = iter.entry() {
            last = key.to_vec();
            poll_once_pending(iter.next());
        }
        let before = iter.prev().await.unwrap().map(|(key, _)| key.to_vec());
        let last = u32::from_be_bytes(last.try_into().unwrap());
        assert_eq!(before.unwrap(), (last - 1).to_be_bytes());
    });
}

/// A dropped seek leaves an iterator where it was, although the seek has moved the cursor over what is in memory.
#[test]
fn a_dropped_seek_leaves_the_position() {
    let dir = tempfile::tempdir().unwrap();
    // Long, so that a seek is dropped before its read is complete.
    let db = remote(&dir, IoMode::Threads, Duration::from_millis(300));
    let mut iter = db.iter_async(&ReadOptions::default()).unwrap();
    pollster::block_on(async {
        iter.seek(&1005_u32.to_be_bytes()).await.unwrap();
        for n in 1006..1008_u32 {
            poll_once_pending(iter.seek(&500_u32.to_be_bytes()));
            let found = iter.next().await.unwrap().map(|(key, _)| key.to_vec());
            assert_eq!(found.unwrap(), n.to_be_bytes());
        }
    });
}

/// The read tier of an awaited iterator is that of an ordinary one, whether entries are in memory or not.
#[test]
fn awaited_iterators_obey_the_read_tier() {
    let dir = tempfile::tempdir().unwrap();
    let db = remote(&dir, IoMode::Threads, Duration::from_micros(50));
    for tier in [
        ReadTier::All,
        ReadTier::BlockCache,
        ReadTier::Memtable,
        ReadTier::Persisted,
    ] {
        let options = ReadOptions {
            read_tier: tier,
            ..ReadOptions::default()
        };
        let mut plain = db.iter_with(&options);
        let mut iter = db.iter_async(&options).unwrap();
        for n in [500_u32, 1003] {
            plain.seek(&n.to_be_bytes());
            let wanted = match plain.valid() {
                true => Ok(Some(plain.key().to_vec())),
                false => plain.status().map(|()| None).map_err(|error| error.code()),
            };
            let target = n.to_be_bytes();
            let found = pollster::block_on(iter.seek(&target));
            let found = found
                .map(|entry| entry.map(|(key, _)| key.to_vec()))
                .map_err(|error| error.code());
            assert_eq!(found, wanted, "{tier:?}, {n}");
        }
    }
    let versions = ReadOptions {
        iter_start_ts: Some(vec![0; 8]),
        ..ReadOptions::default()
    };
    assert!(db.iter_async(&versions).is_err());
}

#[test]
fn a_stream_has_the_entries_of_its_range() {
    let dir = tempfile::tempdir().unwrap();
    for mode in [IoMode::Uring, IoMode::Blocking] {
        let db = Arc::new(remote(&dir, mode, Duration::from_micros(50)));
        let (first, last) = (100_u32.to_be_bytes(), 1005_u32.to_be_bytes());
        let wanted: Vec<_> = db
            .range(first..last)
            .into_iter()
            .map(Result::unwrap)
            .collect();
        assert_eq!(wanted.len(), 905);
        let task = {
            let db = db.clone();
            async move {
                let mut stream = db.stream_owned(first..last);
                drop(db);
                let mut found = Vec::new();
                while let Some(entry) = next_of(&mut stream).await {
                    found.push(entry.unwrap());
                }
                assert!(next_of(&mut stream).await.is_none());
                found
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        assert_eq!(runtime.block_on(task), wanted);
        let task = async {
            let mut keys = 0;
            let mut stream = db.stream(..);
            while next_of(&mut stream).await.is_some() {
                keys += 1;
            }
            keys
        };
        assert_eq!(smol::block_on(task), 1010);
    }
    let tailing = ReadOptions {
        tailing: true,
        ..ReadOptions::default()
    };
    let db = crate::database("");
    assert!(db.iter_async(&tailing).is_err());
}

/// The next item of a stream.
async fn next_of(
    stream: &mut cairn::futures::EntryStream<'_>,
) -> Option<cairn::Result<cairn::KeyValue>> {
    use futures_core::Stream;
    std::future::poll_fn(|context| std::pin::Pin::new(&mut *stream).poll_next(context)).await
}

#[test]
fn a_database_dropped_while_an_iterator_fetches_can_be_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..5 {
        let db = remote(&dir, IoMode::Threads, Duration::from_millis(10));
        let mut iter = db.iter_async(&ReadOptions::default()).unwrap();
        poll_once_pending(iter.seek_to_first());
        drop(iter);
        drop(db);
    }
}
