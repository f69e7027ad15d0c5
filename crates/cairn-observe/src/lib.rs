//! Observability: the info log, event listeners, statistics and thread status.
//!
//! The [`Logger`] writes the `LOG` file in RocksDB's line format, or passes its lines to a user-defined
//! [`LogSink`]. An [`EventListener`] is notified of flushes, compactions and other events. [`threads`] lists
//! the operations in progress. [`Statistics`] has RocksDB's tickers and histograms, [`perf`] the perf
//! context, and [`InternalStats`] the counters behind the statistics properties. [`traces`] record block-cache lookups
//! and file operations.

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
pub mod traces;

pub use activity::Activity;
pub use internal_stats::InternalStats;
pub use listener::{EventListener, Listeners};
pub use logger::{Level, LogLine, LogOptions, LogSink, Logger, thread_number};
pub use reason::{BackgroundErrorReason, CompactionReason, FlushReason, StallCondition};
pub use statistics::Statistics;
