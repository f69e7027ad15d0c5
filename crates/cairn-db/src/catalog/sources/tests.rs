//! Sources on a simulated disk, without a MANIFEST, logs or a database.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cairn_memory::{CacheOptions, MemoryBudget, MemoryUse};
use cairn_options::{CompactionStyle, DbPath, DefaultCache};
use cairn_sim::trace::Call;
use cairn_sim::{CrashModel, Fault, FaultPlan, FaultRule, SimWorld, Trigger};
use cairn_types::{Code, FileNumber, KeyOrder};

use super::super::tests::{DIR, Ground, memtable};
use super::*;

struct Fixture {
    ground: Ground,
    sources: Sources,
}

impl Fixture {
    fn new(mut options: DbOptions) -> Fixture {
        let budget = options.memory_budget.clone();
        let default_cache = options.default_block_cache.take();
        let ground = Ground::new(options);
        let sources = Sources::new(
            ground.context.clone(),
            ground.telemetry.clone(),
            ground.settings.clone(),
            budget.map(|budget| Arc::new(Budget::new(budget))),
            default_cache,
            ViewEnd::default(),
        );
        Fixture { ground, sources }
    }

    /// Creates an empty family.
    fn family(&self, options: FamilyOptions) -> FamilyState {
        let version = Version::empty(options.comparator.clone(), 7);
        let recovered = RecoveredFamily {
            id: 0,
            name: "default".to_owned(),
            version: version.clone(),
            log_number: FileNumber(0),
            full_history_ts_low: Vec::new(),
            persist_timestamps: true,
        };
        let memtable = memtable(&options);
        self.sources
            .new_family(&recovered, options, version, memtable)
    }

    /// Changes the options of `family` under the lock of the tree.
    fn change(&self, family: &FamilyState, options: FamilyOptions) {
        let tree = self.ground.context.locks.mutex(Rank::Tree, ());
        let _tree = tree.lock();
        self.sources.change_options(family, options);
    }
}

fn cache() -> Arc<BlockCache> {
    Arc::new(BlockCache::new(1 << 20, CacheOptions::default()))
}

fn path(path: &str) -> DbPath {
    DbPath {
        path: PathBuf::from(path),
        target_size: 1 << 30,
    }
}

#[test]
fn families_without_a_cache_share_one_until_it_is_released() {
    let it = Fixture::new(DbOptions::default());
    let (one, two) = (
        it.family(FamilyOptions::default()),
        it.family(FamilyOptions::default()),
    );
    let shared = one.cache().unwrap();
    assert!(Arc::ptr_eq(&shared, &two.cache().unwrap()));
    assert_eq!(shared.capacity(), 32 << 20);
    let weak = Arc::downgrade(&shared);
    it.sources.release();
    drop((one, two, shared));
    assert!(weak.upgrade().is_none());
}

#[test]
fn a_given_default_cache_is_used_until_it_is_released() {
    let shared = DefaultCache::default();
    let it = Fixture::new(DbOptions {
        default_block_cache: Some(shared.clone()),
        ..DbOptions::default()
    });
    let family = it.family(FamilyOptions::default());
    assert!(Arc::ptr_eq(&family.cache().unwrap(), &shared.get()));
    let weak = Arc::downgrade(&shared.get());
    it.sources.release();
    drop((family, shared));
    assert!(weak.upgrade().is_none());
}

#[test]
fn a_family_keeps_its_own_cache_or_has_none() {
    let it = Fixture::new(DbOptions::default());
    let own = cache();
    let mut options = FamilyOptions::default();
    options.table.block_cache = Some(own.clone());
    assert!(Arc::ptr_eq(&it.family(options).cache().unwrap(), &own));
    let mut options = FamilyOptions::default();
    options.table.no_block_cache = true;
    assert!(it.family(options).cache().is_none());
}

#[test]
fn new_options_are_in_the_next_view_and_views_never_change() {
    let it = Fixture::new(DbOptions::default());
    let family = it.family(FamilyOptions::default());
    let before = family.view_full();
    let (own, skip) = (cache(), before.family.max_sequential_skip + 1);
    let mut options = FamilyOptions {
        max_sequential_skip_in_iterations: skip,
        read_triggered_compaction_threshold: 1.0,
        ..FamilyOptions::default()
    };
    options.table.block_cache = Some(own.clone());
    it.change(&family, options);
    let after = family.view_full();
    assert_eq!(after.number, before.number + 1);
    assert_eq!(after.family.max_sequential_skip, skip);
    assert!(after.family.read_sampler.is_some() && before.family.read_sampler.is_none());
    assert_eq!(before.family.max_sequential_skip + 1, skip);
    let tables = family.tables();
    assert!(
        Arc::ptr_eq(&after.family.tables, &tables) && Arc::ptr_eq(&own, &family.cache().unwrap())
    );
    assert!(!Arc::ptr_eq(&before.family.tables, &tables));
    assert!(Arc::ptr_eq(
        &before.family.tables.open_tables,
        &tables.open_tables
    ));
    assert!(Arc::ptr_eq(&before.family.blobs, &after.family.blobs));
    assert!(Arc::ptr_eq(&before.memtable, &after.memtable));
    assert!(Arc::ptr_eq(&before.version, &after.version));
}

#[test]
fn the_comparator_of_a_family_never_changes() {
    let it = Fixture::new(DbOptions::default());
    let family = it.family(FamilyOptions::default());
    let other = FamilyOptions {
        comparator: KeyOrder::ReverseBytewise,
        ..FamilyOptions::default()
    };
    let changed = catch_unwind(AssertUnwindSafe(|| it.change(&family, other)));
    assert!(changed.is_err());
    assert_eq!(family.view().number, 1);
}

#[test]
fn the_limit_of_open_tables_is_that_of_all_families() {
    let it = Fixture::new(DbOptions {
        max_open_files: 100,
        ..DbOptions::default()
    });
    let limit = it.ground.settings.get().open_table_limit();
    let (one, two) = (
        it.family(FamilyOptions::default()),
        it.family(FamilyOptions::default()),
    );
    assert!(limit.is_some() && one.tables().open_tables.limit() == limit);
    let unlimited = DbOptions {
        max_open_files: -1,
        ..DbOptions::default()
    };
    it.sources.limit_open_tables(&unlimited);
    assert_eq!(one.tables().open_tables.limit(), None);
    assert_eq!(two.tables().open_tables.limit(), None);
}

#[test]
fn under_a_budget_all_memory_is_charged_to_its_cache() {
    let budget = MemoryBudget::new(256 << 20).unwrap();
    let it = Fixture::new(DbOptions {
        memory_budget: Some(budget.clone()),
        ..DbOptions::default()
    });
    let mut own = FamilyOptions::default();
    own.table.block_cache = Some(cache());
    let mut none = FamilyOptions::default();
    none.table.no_block_cache = true;
    for options in [FamilyOptions::default(), own, none] {
        let family = it.family(options);
        let tables = family.tables();
        for what in [
            MemoryUse::TableReader,
            MemoryUse::FileMetadata,
            MemoryUse::BlobCache,
        ] {
            let charged = tables.charge.cache_of(what).unwrap();
            assert!(Arc::ptr_eq(charged, budget.cache()), "{what:?}");
        }
        let blobs = &family.view().family.blobs;
        assert!(Arc::ptr_eq(blobs.cache().unwrap(), budget.cache()));
    }
    let tables = it.family(FamilyOptions::default());
    let tables = tables.tables();
    assert!(Arc::ptr_eq(tables.cache.as_ref().unwrap(), budget.cache()));
    assert!(
        tables.options.cache_index_and_filter_blocks,
        "metadata is bounded"
    );
}

#[test]
fn rows_are_cached_only_for_families_without_timestamps() {
    let it = Fixture::new(DbOptions {
        row_cache: Some(cache()),
        ..DbOptions::default()
    });
    let rows = |comparator| {
        let family = it.family(FamilyOptions {
            comparator,
            ..FamilyOptions::default()
        });
        family
            .view()
            .family
            .row_cache
            .as_ref()
            .map(|rows| rows.salt)
    };
    let (one, two) = (rows(KeyOrder::Bytewise), rows(KeyOrder::Bytewise));
    assert!(one.is_some() && two.is_some());
    assert_ne!(one, two, "families share no entry");
    assert_eq!(rows(KeyOrder::BytewiseU64Ts), None);
}

#[test]
fn tables_lie_in_the_paths_of_the_family_or_else_of_the_database() {
    let it = Fixture::new(DbOptions {
        db_paths: vec![path("/fast"), path("/slow")],
        ..DbOptions::default()
    });
    let own = FamilyOptions {
        cf_paths: vec![path("/own")],
        ..FamilyOptions::default()
    };
    let dirs = |options: &FamilyOptions| it.sources.dirs(options);
    assert_eq!(
        dirs(&FamilyOptions::default()),
        ["/fast", "/slow"].map(PathBuf::from)
    );
    assert_eq!(dirs(&own), [PathBuf::from("/own")]);
    assert_eq!(
        table_dirs(
            Path::new(DIR),
            &DbOptions::default(),
            &FamilyOptions::default()
        ),
        [PathBuf::from(DIR)]
    );
    let family = it.family(own);
    assert_eq!(family.tables().paths, [PathBuf::from("/own")]);
    assert!(
        family
            .view()
            .family
            .blobs
            .path(FileNumber(1))
            .starts_with("/own")
    );
}

#[test]
fn the_directories_of_a_family_are_created_durably() {
    let it = Fixture::new(DbOptions {
        db_paths: vec![path(DIR), path("/a/b/c")],
        ..DbOptions::default()
    });
    it.sources.create_dirs(&FamilyOptions::default()).unwrap();
    let trace = it.ground.sim.fs.trace();
    for image in trace.images(trace.len(), CrashModel::Synced, 1) {
        let after = SimWorld::on(image, 1);
        assert!(after.fs.exists(Path::new("/a/b/c")).unwrap());
    }
    it.sources.create_dirs(&FamilyOptions::default()).unwrap();
}

#[test]
fn no_directory_is_created_for_options_that_are_rejected() {
    let it = Fixture::new(DbOptions {
        db_paths: vec![path("/a"), path("/b")],
        ..DbOptions::default()
    });
    let operations = it.ground.sim.fs.operations();
    let fifo = FamilyOptions {
        compaction_style: CompactionStyle::Fifo,
        ..FamilyOptions::default()
    };
    let rejected = it.sources.create_dirs(&fifo).unwrap_err();
    assert_eq!(rejected.code(), Code::NotSupported);
    assert_eq!(it.ground.sim.fs.operations(), operations);
}

/// The previous opening may have created the directory, but failed to sync its name.
#[test]
fn the_name_of_an_existing_directory_is_synced_unless_the_database_is_known() {
    let sim = SimWorld::new(3);
    let syncs = |known| {
        let before = sim.fs.trace().len();
        create_dir(&*sim.fs, Path::new("/a"), known).unwrap();
        let trace = sim.fs.trace();
        let calls = trace.operations()[before..].iter().map(|one| one.call);
        calls.filter(|call| *call == Call::SyncDirectory).count()
    };
    assert_eq!(syncs(false), 1, "it is created");
    assert_eq!(syncs(false), 1);
    assert_eq!(syncs(true), 0);
    sim.fs.set_plan(FaultPlan::new(vec![FaultRule {
        trigger: Trigger::Class {
            call: Call::SyncDirectory,
            name_end: String::new(),
            count: 0,
        },
        fault: Fault::InputOutput,
        lasts: 1,
    }]));
    let failed = create_dir(&*sim.fs, Path::new("/a"), false);
    assert_eq!(failed.unwrap_err().code(), Code::IoError);
}
