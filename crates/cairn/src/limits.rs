//! Limits of what background work may do to the device.
//!
//! A [`RateLimiter`] in [`DbOptions::rate_limiter`](crate::DbOptions::rate_limiter) keeps flushes
//! and compactions from taking the whole device from readers. Several databases may share one. It
//! counts the tables and blob files that they write and, as [`RateLimited`] says, what compactions
//! read. Flushes go before compactions, mostly; while writes are slowed down both go first.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("db");
//! use std::sync::Arc;
//! use cairn::limits::{IoPriority, RateLimited, RateLimiter};
//! use cairn::{Db, Options};
//!
//! // 32 MiB a second, in ten refills; lower priorities are served first in one refill of ten.
//! let limiter = Arc::new(RateLimiter::new(32 << 20, 100_000, 10, RateLimited::AllIo, false));
//! let mut options = Options::default().create_if_missing(true);
//! options.db.rate_limiter = Some(limiter.clone());
//!
//! let db = Db::open(&path, &options)?;
//! db.put(b"key", b"value")?;
//! db.flush()?;
//! assert!(limiter.total_bytes_through(Some(IoPriority::High)) > 0);
//!
//! // At night there is more to spare.
//! limiter.set_bytes_per_second(128 << 20);
//! db.close()?;
//! # Ok::<(), cairn::Error>(())
//! ```

pub use cairn_platform::{IoKind, IoPriority, RateLimited, RateLimiter};
