//! What the engine shows of itself: the info log, and counters of what it has done.
//!
//! The [`Logger`] writes the `LOG` file beside the data, in RocksDB's line style. [`Counters`] are
//! plain sums that the database keeps at all times; they cost one relaxed addition each.

pub mod counters;
pub mod logger;

pub use counters::Counters;
pub use logger::{Level, LogOptions, Logger};
