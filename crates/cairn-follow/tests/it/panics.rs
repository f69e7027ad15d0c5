//! Comparators that panic in a catch-up.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_db::{Db, FamilyDescriptor, OpenRequest, WriteBatch};
use cairn_options::FamilyOptions;
use cairn_platform::World;
use cairn_sim::{PanickingComparator, SimWorld};
use cairn_types::{KeyOrder, Result};

use crate::{FAMILIES, PRIMARY, SECONDARY, content, open_primary, options, process};

fn open_with(
    order: &Arc<PanickingComparator>,
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
    let order = Arc::new(PanickingComparator::default());
    let world = process(&sim, 2);
    let db = open_with(&order, &world, cairn_follow::open_as_secondary);
    write(&primary);
    order.arm(true);
    let panicked = catch_unwind(AssertUnwindSafe(|| db.try_catch_up_with_primary()));
    assert!(panicked.is_err());
    assert_eq!(content(&db).unwrap()[0].len(), 1);
    order.arm(false);
    primary.put(b"y", b"2").unwrap();
    db.try_catch_up_with_primary().unwrap();
    assert_eq!(content(&db).unwrap(), content(&primary).unwrap());
}

#[test]
fn a_follower_goes_on_after_a_catch_up_that_panicked() {
    let sim = SimWorld::new(1);
    let primary = open_primary(&sim.world, "").unwrap();
    primary.put(b"b", b"1").unwrap();
    let order = Arc::new(PanickingComparator::default());
    let world = process(&sim, 2);
    let db = open_with(&order, &world, cairn_follow::open_as_follower);
    let round = || {
        sim.clock.advance(Duration::from_millis(1100));
        while catch_unwind(AssertUnwindSafe(|| world.executor.help())).unwrap_or(false) {}
    };
    write(&primary);
    order.arm(true);
    round();
    order.arm(false);
    assert_eq!(content(&db).unwrap()[0].len(), 1);
    round();
    assert_eq!(content(&db).unwrap(), content(&primary).unwrap());
}
