//! Values with a time to live. The clock of this example is advanced manually.
//!
//! `cargo run -p cairn --example ttl`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cairn::world::Clock;
use cairn::{CompactRangeOptions, Db, FamilyOptions, Options, World};

/// A clock that starts in 2027 and advances with each sleep.
#[derive(Default)]
struct HandClock(AtomicU64);

impl Clock for HandClock {
    fn wall_micros(&self) -> u64 {
        1_800_000_000_000_000 + self.monotonic_nanos() / 1_000
    }

    fn monotonic_nanos(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn sleep(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = Arc::new(HandClock::default());
    let world = World {
        clock: clock.clone(),
        ..World::in_memory()
    };

    // An hour in the default family, a day in `carts`.
    let options = Options::default()
        .create_if_missing(true)
        .create_missing_column_families(true)
        .value_ttl(3600);
    let day = FamilyOptions {
        value_ttl: Some(86_400),
        ..FamilyOptions::default()
    };
    let builder = Db::builder("/shop").options(options).world(world);
    let db = builder.family("carts", day).open()?;
    let carts = db.family("carts").ok_or("created by the builder")?;
    db.put(b"session", b"Ada")?;
    carts.put(b"cart", b"3 books")?;

    // Expired values are dropped by the next compaction of their table.
    clock.sleep(Duration::from_secs(2 * 3600));
    for family in db.families() {
        family.flush()?;
        family.compact_range(None, None, &CompactRangeOptions::default())?;
    }
    assert!(db.get(b"session")?.is_none());
    assert_eq!(carts.get(b"cart")?.as_deref(), Some(&b"3 books"[..]));

    // The time to live can be changed while the database is open.
    carts.set_ttl(3600)?;
    assert_eq!(carts.ttl(), Some(3600));
    Ok(())
}
