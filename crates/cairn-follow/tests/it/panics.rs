//! Comparators that panic in a catch-up.

use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use cairn_db::{Db, FamilyDescriptor, OpenRequest, WriteBatch};
use cairn_options::FamilyOptions;
use cairn_platform::World;
use cairn_sim::SimWorld;
use cairn_types::{Comparator, KeyOrder, Result};

use crate::{FAMILIES, PRIMARY, SECONDARY, content, open_primary, options, process};

/// The order of bytes. While it is set, a comparison with the key `x` panics.
#[derive(Default)]
struct Panicking(AtomicBool);

impl Comparator for Panicking {
    fn name(&self) -> &str {
        "leveldb.BytewiseComparator"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let panics = self.0.load(Relaxed) && [a, b].contains(&&b"x"[..]);
        assert!(!panics, "a comparator of a test panics");
        a.cmp(b)
    }
}

fn open_with(
    order: &Arc<Panicking>,
    world: &World,
    open: impl FnOnce(&OpenRequest<'_>, &Path) -> Result<Db>,
) -> Db {
    let (db, _) = options("follower_refresh_catchup_period_ms=1000");
    let family = FamilyOptions {
        comparator: KeyOrder::Custom(order.clone()),
        ..FamilyOptions::default()
    };
    let families = FAMILIES.map(|name| FamilyDescriptor::new(name, family.clone()));
    let request = OpenRequest {
        path: PRIMARY.as_ref(),
        options: &db,
        families: &families,
        others: None,
        read_only: false,
        world: world.clone(),
    };
    open(&request, SECONDARY.as_ref()).unwrap()
}

/// Writes a batch of several keys, of which one makes the comparator panic.
fn write(primary: &Db) {
    let mut batch = WriteBatch::default();
    for key in [b"c", b"x", b"z"] {
        batch.put(key, b"1");
    }
    primary.write(&batch).unwrap();
}

#[test]
fn a_batch_at_which_a_catch_up_panicked_is_applied_by_the_next_one() {
    let sim = SimWorld::new(1);
    let primary = open_primary(&sim.world, "").unwrap();
    primary.put(b"b", b"1").unwrap();
    let order = Arc::new(Panicking::default());
    let world = process(&sim, 2);
    let db = open_with(&order, &world, cairn_follow::open_as_secondary);
    write(&primary);
    order.0.store(true, Relaxed);
    let panicked = catch_unwind(AssertUnwindSafe(|| db.try_catch_up_with_primary()));
    assert!(panicked.is_err());
    assert_eq!(content(&db).unwrap()[0].len(), 1);
    order.0.store(false, Relaxed);
    primary.put(b"y", b"2").unwrap();
    db.try_catch_up_with_primary().unwrap();
    assert_eq!(content(&db).unwrap(), content(&primary).unwrap());
}

#[test]
fn a_follower_goes_on_after_a_catch_up_that_panicked() {
    let sim = SimWorld::new(1);
    let primary = open_primary(&sim.world, "").unwrap();
    primary.put(b"b", b"1").unwrap();
    let order = Arc::new(Panicking::default());
    let world = process(&sim, 2);
    let db = open_with(&order, &world, cairn_follow::open_as_follower);
    let round = || {
        sim.clock.advance(Duration::from_millis(1100));
        while catch_unwind(AssertUnwindSafe(|| world.executor.help())).unwrap_or(false) {}
    };
    write(&primary);
    order.0.store(true, Relaxed);
    round();
    order.0.store(false, Relaxed);
    assert_eq!(content(&db).unwrap()[0].len(), 1);
    round();
    assert_eq!(content(&db).unwrap(), content(&primary).unwrap());
}
