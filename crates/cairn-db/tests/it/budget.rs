//! Databases under one memory budget.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_db::{Db, OpenRequest, open};
use cairn_memory::budget::{INTERVAL, MemoryRegion, MemorySplit};
use cairn_memory::{
    BlockCache, CacheCharge, CacheOptions, CacheRole, MemoryBudget, MemoryUse, WriteBufferManager,
};
use cairn_options::{DbOptions, FamilyOptions, Options};
use cairn_platform::fs::{FileMode, RandomAccessFile, Status, WritableFile};
use cairn_platform::io::{FileReads, ReadQueue};
use cairn_platform::{Clock, FileSystem, SystemClock, World, wrapper};
use cairn_types::Result;

use crate::basic::db_options;

const MIB: usize = 1 << 20;

fn open_in(world: &World, budget: &Arc<MemoryBudget>, family: &FamilyOptions) -> Db {
    let options = DbOptions {
        memory_budget: Some(budget.clone()),
        ..db_options()
    };
    open(&OpenRequest {
        path: Path::new("/db"),
        options: &options,
        families: &[],
        others: Some(family),
        read_only: false,
        world: world.clone(),
    })
    .expect("it opens")
}

fn fill(db: &Db, entries: u32) {
    for n in 0..entries {
        let value = [n.to_be_bytes(); 250].concat();
        db.put(&n.to_be_bytes(), &value).expect("it is written");
    }
}

/// Without a write, and before the next move of the budget: thousands of tables can be opened until then.
#[test]
fn memtables_are_flushed_when_other_memory_is_charged() {
    let budget = MemoryBudget::new(64 * MIB).unwrap();
    let world = World::in_memory();
    let db = open_in(&world, &budget, &FamilyOptions::default());
    fill(&db, 8000);
    let buffers = budget.write_buffer_manager();
    let (before, cache) = (buffers.memory_usage(), budget.cache());
    assert!(before > 7 * MIB && db.live_files_metadata().is_empty());
    let room = cache.capacity() - cache.all_charged();
    let steps = room / MIB;
    let charge = |_| CacheCharge::new(cache.clone(), MemoryUse::Other, MIB);
    let charges: Vec<CacheCharge> = (0..steps).map(charge).collect();
    let clock = world.clock.clone();
    let began = clock.monotonic_nanos();
    while db.live_files_metadata().is_empty() {
        let waited = clock.monotonic_nanos() - began;
        assert!(waited < 60 * INTERVAL, "no flush: {budget:?}");
        clock.sleep(Duration::from_millis(5));
    }
    drop(charges);
    db.close().unwrap();
}

#[test]
fn two_databases_share_cache_and_memtables() {
    let budget = MemoryBudget::new(28 * MIB).unwrap();
    let worlds = [World::in_memory(), World::in_memory()];
    let family = FamilyOptions::default();
    let dbs = [0, 1].map(|n| open_in(&worlds[n], &budget, &family));
    let cache = budget.cache().clone();
    for db in &dbs {
        fill(db, 8000);
        let limit = budget.split().get(MemoryRegion::Memtables);
        let used = budget.write_buffer_manager().memory_usage();
        assert!(used <= limit + MIB, "{used} of {limit}");
        assert!(cache.charged(MemoryUse::WriteBuffer) >= used);
        db.flush().unwrap();
    }
    for db in &dbs {
        for n in (0..8000_u32).step_by(10) {
            assert!(db.get(&n.to_be_bytes()).unwrap().is_some());
        }
    }
    assert!(cache.role_usage(CacheRole::Data) > 0);
    assert!(cache.role_usage(CacheRole::Index) > 0, "metadata is cached");
    assert!(cache.usage() <= cache.capacity() + MIB, "{cache:?}");
    budget.set_budget(24 * MIB).unwrap();
    assert!(cache.usage() <= cache.capacity(), "{cache:?}");
    for db in dbs {
        db.close().unwrap();
    }
}

#[test]
fn explicit_sizes_take_precedence() {
    let budget = MemoryBudget::new(64 * MIB).unwrap();
    let own = Arc::new(BlockCache::new(4 * MIB, CacheOptions::default()));
    let mut family = FamilyOptions::default();
    family.table.block_cache = Some(own.clone());
    let db = open_in(&World::in_memory(), &budget, &family);
    fill(&db, 100);
    db.flush().unwrap();
    assert!(db.get(&7_u32.to_be_bytes()).unwrap().is_some());
    assert!(own.role_usage(CacheRole::Data) > 0);
    assert_eq!(budget.cache().role_usage(CacheRole::Data), 0);
    assert_eq!(budget.cache().charged(MemoryUse::Other), 4 * MIB);
}

/// A file system whose reads of blocks take as long as those of a device.
struct SlowReads(Arc<dyn FileSystem>);

struct SlowFile(Arc<dyn RandomAccessFile>);

impl wrapper::FileSystemWrapper for SlowReads {
    fn target(&self) -> &dyn FileSystem {
        &*self.0
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        Ok(Arc::new(SlowFile(self.0.open(path, mode)?)))
    }

    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.0.create(path, mode)
    }

    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.0.open_append(path, mode)
    }

    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.0.open_overwrite(path, mode)
    }

    fn status(&self, path: &Path) -> Result<Status> {
        self.0.status(path)
    }

    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        self.0.status_each(dir, names)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.0.sync_dir(dir)
    }
}

impl SlowFile {
    fn wait(&self, len: usize) {
        if len < 64 << 10 {
            let began = SystemClock.monotonic_nanos();
            while SystemClock.monotonic_nanos() < began + 100_000 {}
        }
    }
}

impl wrapper::RandomAccessFileWrapper for SlowFile {
    fn target(&self) -> &dyn RandomAccessFile {
        &*self.0
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.wait(buf.len());
        self.0.read_at(offset, buf)
    }

    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.wait(buf.len());
        self.0.read_up_to_end(offset, buf)
    }

    fn start_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        self.0.start_reads(reads, queue);
    }

    fn finish_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        self.0.finish_reads(reads, queue);
    }
}

/// A database that is only read after its writes: memtables give memory to the cache, with a reason in `cairn.memory`.
#[test]
fn a_border_moves_to_the_cache_when_reads_follow_writes() {
    const ENTRIES: u32 = 30_000;
    let budget = MemoryBudget::new(32 * MIB).unwrap();
    budget.fix(MemoryRegion::Compressed, 0).unwrap();
    let mut world = World::in_memory();
    world.fs = Arc::new(SlowReads(world.fs.clone()));
    let family = FamilyOptions::from_text("compression=kNoCompression").unwrap();
    let db = open_in(&world, &budget, &family);
    let mut place = 1_u32;
    let mut random = || {
        place = place.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        place >> 8
    };
    for n in 0..ENTRIES {
        let value: Vec<u8> = (0..334)
            .flat_map(|_| random().to_be_bytes()[1..].to_vec())
            .collect();
        db.put(&n.to_be_bytes(), &value).unwrap();
    }
    db.flush().unwrap();
    db.wait_until_quiet().unwrap();
    // In the future, so that the database's own ticks are too early to have an effect.
    let mut now = SystemClock.monotonic_nanos() + (1 << 50);
    budget.tick(now);
    now += INTERVAL;
    budget.tick(now);
    // The writes have been observed; only reads follow.
    let before = budget.split();
    for _ in 0..40 {
        for _ in 0..2_000 {
            let key = random() % ENTRIES;
            assert!(db.get(&key.to_be_bytes()).unwrap().is_some());
        }
        now += INTERVAL;
        budget.tick(now);
        if budget.split().get(MemoryRegion::Memtables) <= before.get(MemoryRegion::Memtables) / 2 {
            break;
        }
    }
    let after = budget.split();
    let share = |split: &MemorySplit, region| split.get(region);
    assert!(share(&after, MemoryRegion::Memtables) < share(&before, MemoryRegion::Memtables));
    assert!(share(&after, MemoryRegion::BlockCache) > share(&before, MemoryRegion::BlockCache));
    let moves = budget.moves();
    let made = &moves.last().expect("there is one").made;
    let report = db.property("cairn.memory").expect("it is a property");
    assert!(
        report.contains(&format!("\"reason\":\"{made}\"")),
        "{report}"
    );
    assert!(
        report.contains("\"from\":\"memtables\",\"to\":\"block_cache\""),
        "{report}"
    );
    let bytes = share(&after, MemoryRegion::Memtables);
    assert!(
        report.contains(&format!("\"memtables\":{bytes}")),
        "{report}"
    );
}

#[test]
fn all_memory_is_charged_to_the_budget() {
    let budget = MemoryBudget::new(64 * MIB).unwrap();
    let cache = budget.cache().clone();
    let family = FamilyOptions::from_text("block_based_table_factory={no_block_cache=true}");
    let buffers = Arc::new(WriteBufferManager::new(4 * MIB, None, false));
    let options = DbOptions {
        memory_budget: Some(budget.clone()),
        write_buffer_manager: Some(buffers.clone()),
        ..db_options()
    };
    let db = open(&OpenRequest {
        path: Path::new("/db"),
        options: &options,
        families: &[],
        others: Some(&family.unwrap()),
        read_only: false,
        world: World::in_memory(),
    })
    .expect("it opens");
    fill(&db, 500);
    assert!(!buffers.cost_to_cache() && cache.charged(MemoryUse::WriteBuffer) >= 500_000);
    assert!(cache.charged(MemoryUse::Family) > 0);
    db.flush().unwrap();
    assert!(db.get(&7_u32.to_be_bytes()).unwrap().is_some());
    assert!(cache.charged(MemoryUse::TableReader) > 0);
    assert!(cache.charged(MemoryUse::FileMetadata) > 0);
    assert_eq!(cache.role_usage(CacheRole::Data), 0);
    db.close().unwrap();
    drop(options);
    assert_eq!(cache.charged(MemoryUse::WriteBuffer), 0);
}

/// Regression: a row cache was beyond the budget, and was not in the report.
#[test]
fn a_row_cache_is_charged_to_the_budget() {
    let (budget, world) = (MemoryBudget::new(64 * MIB).unwrap(), World::in_memory());
    let rows = Arc::new(BlockCache::new(8 * MIB, CacheOptions::default()));
    let options = DbOptions {
        memory_budget: Some(budget.clone()),
        row_cache: Some(rows.clone()),
        ..db_options()
    };
    let db = open(&OpenRequest {
        path: Path::new("/db"),
        options: &options,
        families: &[],
        others: Some(&FamilyOptions::default()),
        read_only: false,
        world,
    })
    .unwrap();
    fill(&db, 1000);
    db.flush().unwrap();
    for n in 0..1000_u32 {
        assert!(db.get(&n.to_be_bytes()).unwrap().is_some());
    }
    let charged = budget.cache().charged(MemoryUse::RowCache);
    assert!(rows.usage() > 900_000, "{rows:?}");
    assert!(
        charged.abs_diff(rows.usage()) < CacheCharge::STEP,
        "{charged} of {rows:?}"
    );
    let report = db.property("cairn.memory").unwrap();
    let line = format!("\"capacity\":{}", 8 * MIB);
    assert!(report.replace(' ', "").contains(&line), "{report}");
}

#[test]
fn the_option_has_a_text_form() {
    let options = DbOptions::from_text("memory_budget=64M").unwrap();
    let budget = options.memory_budget.as_ref().expect("it is set");
    assert_eq!(budget.bytes(), 64 * MIB);
    assert_eq!(
        options.get("memory_budget").unwrap(),
        (64 * MIB).to_string()
    );
    let automatic = DbOptions::from_text("memory_budget=auto").unwrap();
    assert_eq!(automatic.get("memory_budget").unwrap(), "auto");
    let small = DbOptions::from_text("memory_budget=1M")
        .unwrap_err()
        .to_string();
    let smallest = MemoryBudget::smallest().to_string();
    assert!(small.contains(&smallest), "{small}");
    assert!(DbOptions::default().memory_budget.is_none());
}
