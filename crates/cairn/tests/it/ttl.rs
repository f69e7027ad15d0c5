//! Values with a time to live, with a clock that the test advances.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cairn::world::Clock;
use cairn::{Code, CompactRangeOptions, Db, FamilyOptions, Options, World};

use crate::database;

#[derive(Default)]
struct Hand(AtomicU64);

impl Clock for Hand {
    fn wall_micros(&self) -> u64 {
        1_800_000_000_000_000 + self.monotonic_nanos() / 1_000
    }

    fn monotonic_nanos(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn sleep(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap();
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }
}

#[test]
fn values_are_dropped_by_a_compaction_after_their_time_to_live() {
    let clock = Arc::new(Hand::default());
    let world = World {
        clock: clock.clone(),
        ..World::in_memory()
    };
    let options = Options::default().create_if_missing(true).value_ttl(3600);
    let builder = Db::builder("/db").world(world).options(options);
    let db = builder.open().unwrap();
    db.put(b"old", b"1").unwrap();
    clock.sleep(Duration::from_secs(3000));
    db.put(b"new", b"2").unwrap();
    clock.sleep(Duration::from_secs(1000));
    db.flush().unwrap();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    assert!(db.get(b"old").unwrap().is_none());
    assert_eq!(db.get(b"new").unwrap().as_deref(), Some(&b"2"[..]));

    let days = db.create_family_with_ttl("days", &FamilyOptions::default(), 86_400);
    let days = days.unwrap();
    assert_eq!(days.ttl(), Some(86_400));
    days.set_ttl(0).unwrap();
    assert_eq!(days.ttl(), Some(0));
}

#[test]
fn a_database_without_write_times_has_no_time_to_live() {
    let db = database("");
    let family = db.default_family();
    assert_eq!(family.ttl(), None);
    assert_eq!(
        family.set_ttl(60).unwrap_err().code(),
        Code::InvalidArgument
    );
}
