//! Values with a time to live, in the format of RocksDB's `DBWithTTL`.
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
//! // An hour. The `world` of this example has a clock that is advanced manually.
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
//! A value is kept at least for the time to live of its family, and is dropped by the first
//! compaction that processes it afterwards; until then it is still readable. Every table is
//! compacted within 30 days (`periodic_compaction_seconds`), which bounds the lifetime of an
//! expired value if nothing is written. The age of a value counts from its last put. A merge
//! operand is kept until it is merged, and the result of a merge in a flush or compaction counts
//! from the time of that merge.
//!
//! # The format
//!
//! Each value and merge operand is followed by 4 bytes with its write time in seconds since 1970.
//! Whether values have these bytes is fixed when a database is created, for all of its families: it
//! depends on the option `value_ttl` of the default family, and a family without the option keeps
//! its values forever. The number of seconds may differ each time the database is opened, and can
//! be changed while it is open ([`Family::set_ttl`](crate::Family::set_ttl)).
//!
//! If such a database is opened without the option, reads return the bytes as part of the values,
//! and new values are written without them. When it is opened with the option again, reads of those
//! values either fail with `Corruption`, if the last 4 bytes are not a time since 2013, or return
//! them without their last 4 bytes. Compactions keep values that reads report as corrupt. The
//! format ends in January 2038: later writes are rejected, as are writes with a clock set before
//! 2013.
//!
//! # Where the write times are visible
//!
//! Reads, merge operators and compaction filters see values without the bytes, which are added when
//! a batch is written. They are present in WALs and in the batches of
//! [`Db::updates_since`](crate::Db::updates_since), which must therefore not be written to another
//! database with a time to live, only to one without; and in checkpoints, exports and ingested
//! tables. A [`SstFileWriter`](crate::SstFileWriter) adds them, and a reader strips them, if its
//! options have a `value_ttl`; a [`SortedRunBuilder`](crate::SortedRunBuilder) does not support
//! them.
//!
//! Wide-column entities have no write time and never expire; RocksDB can read them with `GetEntity`
//! only.

use cairn_options::FamilyOptions;
use cairn_types::{Error, Result};

use crate::db::Db;
use crate::family::Family;
use crate::open::Options;

impl Options {
    /// Sets the time to live of values to `seconds`, or to forever with 0; see [`crate::ttl`]. By
    /// default, values have no write time.
    #[must_use]
    pub fn value_ttl(mut self, seconds: i32) -> Options {
        self.family.value_ttl = Some(seconds);
        self
    }
}

impl Db {
    /// [`Db::create_family`] with a time to live of `seconds` for its values, or forever with 0.
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
    /// Those of [`Db::create_family`]; `InvalidArgument` if the values of the database have no
    /// write times.
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
    /// The time to live of values in seconds, 0 or less for forever; `None` if values have no write
    /// times.
    #[must_use]
    pub fn ttl(&self) -> Option<i32> {
        self.options().value_ttl
    }

    /// Sets the time to live of all values, including existing ones, to `seconds`, or to forever
    /// with 0.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if values have no write times; `IoError` if the change is in effect but
    /// could not be written to the OPTIONS file.
    pub fn set_ttl(&self, seconds: i32) -> Result<()> {
        if self.ttl().is_none() {
            return Err(Error::invalid_argument(format!(
                "values of column family {:?} have no write times",
                self.name()
            )));
        }
        self.set_options(&[("value_ttl", &seconds.to_string())])
    }
}
