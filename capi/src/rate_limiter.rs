//! Rate limiters of flushes and compactions.

use std::ffi::c_int;
use std::sync::Arc;

use cairn_platform::{RateLimited, RateLimiter};

use crate::handle::{create, maybe, of_mut};
use crate::options::rocksdb_options_t;

handles! {
    /// A rate limiter.
    rocksdb_ratelimiter_t = Arc<RateLimiter>;
}

c_destructors! {
    /// Releases the program's reference to a limiter. Options and databases that use it keep theirs.
    rocksdb_ratelimiter_destroy(rocksdb_ratelimiter_t);
}

/// Creates a limiter. Numbers below 1, which RocksDB does not allow, are treated as 1.
fn new_limiter(
    (rate, period, fairness): (i64, i64, i32),
    mode: RateLimited,
    auto_tuned: bool,
) -> *mut rocksdb_ratelimiter_t {
    create(Arc::new(RateLimiter::new(
        u64::try_from(rate).unwrap_or(1),
        u64::try_from(period).unwrap_or(1),
        u32::try_from(fairness).unwrap_or(1),
        mode,
        auto_tuned,
    )))
}

c_functions! {
    /// Creates a limiter of writes.
    fn rocksdb_ratelimiter_create(
        rate_bytes_per_sec: i64,
        refill_period_us: i64,
        fairness: i32,
    ) -> *mut rocksdb_ratelimiter_t {
        let numbers = (rate_bytes_per_sec, refill_period_us, fairness);
        new_limiter(numbers, RateLimited::WritesOnly, false)
    }
    /// The same, with a rate that adapts to the demand, up to the given one.
    fn rocksdb_ratelimiter_create_auto_tuned(
        rate_bytes_per_sec: i64,
        refill_period_us: i64,
        fairness: i32,
    ) -> *mut rocksdb_ratelimiter_t {
        let numbers = (rate_bytes_per_sec, refill_period_us, fairness);
        new_limiter(numbers, RateLimited::WritesOnly, true)
    }
    /// Creates a limiter of reads (mode 0), writes (1), or both.
    fn rocksdb_ratelimiter_create_with_mode(
        rate_bytes_per_sec: i64,
        refill_period_us: i64,
        fairness: i32,
        mode: c_int,
        auto_tuned: bool,
    ) -> *mut rocksdb_ratelimiter_t {
        let mode = match mode {
            0 => RateLimited::ReadsOnly,
            1 => RateLimited::WritesOnly,
            _ => RateLimited::AllIo,
        };
        new_limiter((rate_bytes_per_sec, refill_period_us, fairness), mode, auto_tuned)
    }
    /// Sets the rate limiter of databases that are opened with these options. Null is ignored.
    fn rocksdb_options_set_ratelimiter(opt: *mut rocksdb_options_t, limiter: *mut rocksdb_ratelimiter_t) {
        if let Some(limiter) = maybe(limiter.cast_const()) {
            of_mut(opt).db.rate_limiter = Some(limiter.clone());
        }
    }
}
