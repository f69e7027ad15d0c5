//! Limits on background work and its I/O.
//!
//! A [`RateLimiter`] in [`DbOptions::rate_limiter`](crate::DbOptions::rate_limiter) prevents
//! flushes and compactions from monopolizing the device. Several databases may share one. It limits
//! the writes of tables and blob files and, depending on [`RateLimited`], the reads of compactions.
//! Flushes usually take precedence over compactions; while writes are being delayed, both have the
//! highest priority.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("db");
//! use std::sync::Arc;
//! use cairn::limits::{IoPriority, RateLimited, RateLimiter};
//! use cairn::{Db, Options};
//!
//! // 32 MiB per second, in ten refills; in one refill out of ten, lower priorities come first.
//! let limiter = Arc::new(RateLimiter::new(32 << 20, 100_000, 10, RateLimited::AllIo, false));
//! let mut options = Options::default().create_if_missing(true);
//! options.db.rate_limiter = Some(limiter.clone());
//!
//! let db = Db::open(&path, &options)?;
//! db.put(b"key", b"value")?;
//! db.flush()?;
//! assert!(limiter.total_bytes_through(Some(IoPriority::High)) > 0);
//!
//! // At night the limit can be higher.
//! limiter.set_bytes_per_second(128 << 20);
//! db.close()?;
//! # Ok::<(), cairn::Error>(())
//! ```
//!
//! A [`ConcurrentTaskLimiter`] in [`FamilyOptions::compaction_thread_limiter`](crate::FamilyOptions::compaction_thread_limiter)
//! limits the compactions that run at the same time in all families and databases that share it:
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("db");
//! use std::sync::Arc;
//! use cairn::limits::ConcurrentTaskLimiter;
//! use cairn::{Db, Options};
//!
//! let limiter = Arc::new(ConcurrentTaskLimiter::new("large databases", 2));
//! let mut options = Options::default().create_if_missing(true);
//! options.family.compaction_thread_limiter = Some(limiter.clone());
//! let db = Db::open(&path, &options)?;
//! assert_eq!(limiter.outstanding_tasks(), 0);
//! db.close()?;
//! # Ok::<(), cairn::Error>(())
//! ```

pub use cairn_platform::{ConcurrentTaskLimiter, IoKind, IoPriority, RateLimited, RateLimiter};
