//! Values with a time to live, as in RocksDB's `DBWithTTL`, whose databases and Cairn's are the same.
//!
//! ```
//! use cairn::{CompactRangeOptions, Db, Options, World};
//! # use std::time::Duration;
//! # use std::sync::atomic::{AtomicU64, Ordering};
//! # struct Clock(AtomicU64);
//! # impl cairn::world::Clock for Clock {
//! #     fn wall_micros(&self) -> u64 { 1_800_000_000_000_000 + self.monotonic_nanos() / 1_000 }
//! #     fn monotonic_nanos(&self) -> u64 { self.0.load(Ordering::Relaxed) }
//! #     fn sleep(&self, time: Duration) { self.0.fetch_add(time.as_nanos() as u64, Ordering::Relaxed); }
//! # }
//! # let clock = std::sync::Arc::new(Clock(AtomicU64::new(0)));
//! # let world = World { clock: clock.clone(), ..World::in_memory() };
//! # fn sleep(clock: &Clock, seconds: u64) {
//! #     cairn::world::Clock::sleep(clock, Duration::from_secs(seconds));
//! # }
//!
//! // An hour. The `world` of this example has a clock that the example moves.
//! let options = Options::default().create_if_missing(true).value_ttl(3600);
//! let db = Db::builder("/sessions").options(options).world(world).open()?;
//! db.put(b"4711", b"Ada")?;
//! assert_eq!(db.get(b"4711")?.as_deref(), Some(&b"Ada"[..]));
//!
//! sleep(&clock, 3602);
//! db.flush()?;
//! db.compact_range(None, None, &CompactRangeOptions::default())?;
//! assert!(db.get(b"4711")?.is_none());
//! # Ok::<(), cairn::Error>(())
//! ```
//!
//! A value lives at least as long as its family's time to live says, and goes with the first compaction
//! that comes across it afterwards; until then it is read as if it were new. Every table is compacted
//! within 30 days (`periodic_compaction_seconds`), so that is how long an old value may stay where nothing
//! is written. A value is as old as the last time it was put. An operand stays until it is merged, and
//! what a merge of a flush or compaction makes is as old as that merge.
//!
//! # The format
//!
//! Behind each value and operand lie 4 bytes with the seconds since 1970 at which it was written. Whether
//! there are such bytes is decided when a database is created, for all of its families: the option
//! `value_ttl` of the default family says it, and a family that says nothing keeps its values for ever. The
//! number of seconds may be another one at each opening, and be changed while the database is open
//! ([`Family::set_ttl`](crate::Family::set_ttl)).
//!
//! A database that is opened without it shows the bytes, and what is written then has none: with a time to
//! live it is `Corruption` to reads if its last 4 bytes are no time since 2013, and loses them otherwise.
//! Compactions leave what reads call damaged. The format ends in January 2038: writes are then refused, as
//! with a clock that stands before 2013.
//!
//! # What knows of it
//!
//! All reads show values without the bytes, merge operators and compaction filters see them so, and
//! batches get them when they are written. These carry the bytes as they are: logs and
//! [`Db::updates_since`](crate::Db::updates_since), so that a batch from there must not be written to
//! another database with a time to live, but to one without; checkpoints, exports and ingested tables. A
//! [`SstFileWriter`](crate::SstFileWriter) writes them, and a reader takes them away, if its options have
//! a `value_ttl`; a [`SortedRunBuilder`](crate::SortedRunBuilder) knows nothing of them.
//!
//! Entities have no time and do not grow old, and RocksDB reads them with `GetEntity` only.

use cairn_options::FamilyOptions;
use cairn_types::{Error, Result};

use crate::db::Db;
use crate::family::Family;
use crate::open::Options;

impl Options {
    /// Gives values `seconds` to live, or for ever with 0: see [`crate::ttl`]. Default: values
    /// without a time.
    #[must_use]
    pub fn value_ttl(mut self, seconds: i32) -> Options {
        self.family.value_ttl = Some(seconds);
        self
    }
}

impl Db {
    /// [`Db::create_family`], with `seconds` to live for its values, or for ever with 0.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, FamilyOptions, Options};
    ///
    /// let options = Options::default()
    ///     .create_if_missing(true)
    ///     .create_missing_column_families(true)
    ///     .value_ttl(0);
    /// let hour = FamilyOptions { value_ttl: Some(3600), ..FamilyOptions::default() };
    /// let builder = Db::builder(dir.path().join("db")).options(options);
    /// let db = builder.family("hours", hour).open()?;
    /// assert_eq!(db.family("hours").unwrap().ttl(), Some(3600));
    /// assert_eq!(db.default_family().ttl(), Some(0));
    ///
    /// let days = db.create_family_with_ttl("days", &FamilyOptions::default(), 86_400)?;
    /// days.set_ttl(7 * 86_400)?;
    /// assert_eq!(days.ttl(), Some(604_800));
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::create_family`]; `InvalidArgument` in a database whose values have no times.
    pub fn create_family_with_ttl(
        &self,
        name: &str,
        options: &FamilyOptions,
        seconds: i32,
    ) -> Result<Family<'_>> {
        let options = FamilyOptions {
            value_ttl: Some(seconds),
            ..options.clone()
        };
        self.create_family(name, &options)
    }
}

impl Family<'_> {
    /// The time to live of values in seconds, 0 or less for ever; `None` if values have no times.
    #[must_use]
    pub fn ttl(&self) -> Option<i32> {
        self.options().value_ttl
    }

    /// Sets the time to live of values to `seconds`, or for ever with 0, also of those that are there.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if values have no times; `IoError` if the change is in force, but could not be
    /// written to the OPTIONS file.
    pub fn set_ttl(&self, seconds: i32) -> Result<()> {
        if self.ttl().is_none() {
            return Err(Error::invalid_argument(format!(
                "values of column family {:?} carry no times",
                self.name()
            )));
        }
        self.set_options(&[("value_ttl", &seconds.to_string())])
    }
}
