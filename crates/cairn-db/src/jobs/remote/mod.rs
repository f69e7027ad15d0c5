//! Remote compactions: the side of the database, and that of the worker.
//!
//! `cairn_jobs::remote` describes a subcompaction to a [`CompactionService`](cairn_options::CompactionService) and
//! installs the result. A worker passes the description to [`open_and_compact`], which opens the database read-only,
//! without its logs, and writes tables to a directory of its own.

mod primary;
mod progress;
mod worker;

pub use worker::{CompactionServiceOptionsOverride, OpenAndCompactOptions, open_and_compact};
