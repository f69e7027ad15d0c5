//! What the engine shows of itself: the info log, listeners, and counters of what it has done.
//!
//! The [`Logger`] writes the `LOG` file beside the data, in RocksDB's line style, or gives its lines
//! to a [`LogSink`] of the user's. An [`EventListener`] is told of flushes, compactions and the
//! like. [`threads`] lists what is under way. [`Statistics`] are RocksDB's tickers and histograms; [`InternalStats`] the sums that the tables of
//! statistics are made of.

pub mod activity;
pub mod callback;
pub mod event;
pub mod files;
pub mod internal_stats;
pub mod listener;
pub mod logger;
pub mod perf;
pub mod reason;
pub mod statistics;
pub mod threads;

pub use activity::Activity;
pub use internal_stats::InternalStats;
pub use listener::{EventListener, Listeners};
pub use logger::{Level, LogOptions, LogSink, Logger, thread_number};
pub use reason::{BackgroundErrorReason, CompactionReason, FlushReason, StallCondition};
pub use statistics::Statistics;
