//! Databases under one memory budget.

use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, OpenRequest, open};
use cairn_memory::budget::MemoryRegion;
use cairn_memory::{BlockCache, CacheOptions, CacheRole, MemoryBudget, MemoryUse};
use cairn_options::{DbOptions, FamilyOptions, Options};
use cairn_platform::World;

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

#[test]
fn two_databases_share_cache_and_memtables() {
    let budget = MemoryBudget::new(26 * MIB).unwrap();
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
    budget.set_budget(22 * MIB).unwrap();
    assert!(cache.usage() <= cache.capacity(), "{cache:?}");
    for db in dbs {
        db.close().unwrap();
    }
}

#[test]
fn explicit_sizes_win() {
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
