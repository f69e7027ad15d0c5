//! Tests of the rate limiter with a virtual clock.

use std::sync::Arc;
use std::thread;

use super::*;

/// A clock that is advanced by sleeping only.
#[derive(Default)]
struct Sleeper(AtomicU64);

impl Clock for Sleeper {
    fn wall_micros(&self) -> u64 {
        self.monotonic_nanos() / 1000
    }

    fn monotonic_nanos(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn sleep(&self, duration: Duration) {
        assert!(!duration.is_zero(), "a busy wait");
        let nanos = u64::try_from(duration.as_nanos()).unwrap();
        self.0.fetch_add(nanos, Ordering::SeqCst);
    }
}

fn writes(rate: u64) -> RateLimiter {
    RateLimiter::of_writes(rate)
}

#[test]
fn the_rate_is_exceeded_by_at_most_a_burst() {
    let (limiter, clock) = (writes(1_000_000), Sleeper::default());
    assert_eq!(limiter.single_burst_bytes(), 100_000);
    let mut sum = 0;
    for n in 0..2000_u64 {
        let bytes = n * 7919 % 250_000;
        limiter.request(&clock, bytes, IoPriority::Low, IoKind::Write);
        sum += bytes;
        if n % 100 == 0 {
            // Idle time does not accumulate tokens.
            clock.sleep(Duration::from_secs(5));
        }
        let allowed = clock.monotonic_nanos() / 1000 + 100_000;
        assert!(sum <= allowed, "{sum} of {allowed} bytes");
    }
    assert_eq!(limiter.total_bytes_through(None), sum);
    assert_eq!(limiter.total_bytes_through(Some(IoPriority::Low)), sum);
    assert_eq!(limiter.total_bytes_through(Some(IoPriority::High)), 0);
    assert!(limiter.total_requests(None) > 2000);
    // All of the time except idle time was needed.
    let busy = clock.monotonic_nanos() / 1000 - 20 * 5_000_000;
    assert!(sum + 100_000 * 21 >= busy, "{sum} bytes in {busy} us");
}

#[test]
fn unlimited_io_does_not_wait() {
    let clock = Sleeper::default();
    let reads = RateLimiter::new(10, 1000, 10, RateLimited::ReadsOnly, false);
    reads.request(&clock, 1 << 30, IoPriority::Low, IoKind::Write);
    writes(10).request(&clock, 1 << 30, IoPriority::Low, IoKind::Read);
    assert_eq!(clock.monotonic_nanos(), 0);
    assert_eq!(reads.total_requests(None), 0);
    let both = RateLimiter::new(10, 1_000_000, 10, RateLimited::AllIo, false);
    both.request(&clock, 20, IoPriority::Low, IoKind::Read);
    both.request(&clock, 20, IoPriority::Low, IoKind::Write);
    assert_eq!(clock.monotonic_nanos(), 3_000_000_000);
}

/// The order in which requests of all priorities are served that are made while the bucket is empty.
fn order_of(limiter: &RateLimiter) -> Vec<IoPriority> {
    use IoPriority::{High, Low, Mid, User};
    let mut waiting: Vec<(u64, IoPriority)> = [Low, Mid, High, User]
        .into_iter()
        .map(|priority| {
            let bytes = limiter.refill_bytes();
            (limiter.ask(0, bytes, priority).unwrap(), priority)
        })
        .collect();
    assert_eq!(limiter.total_pending_requests(None), 4);
    let mut served = Vec::new();
    for period in 0..4 {
        let now = period * limiter.period_nanos();
        let before = served.len();
        waiting.retain(|&(id, priority)| {
            let waits = limiter.wait_for(id, priority, now).is_some();
            if !waits {
                served.push(priority);
            }
            waits
        });
        assert_eq!(served.len(), before + 1, "one refill serves one of them");
    }
    served
}

#[test]
fn priorities_are_respected_without_starvation() {
    use IoPriority::{High, Low, Mid, User};
    let mut first_of_rest = [0_u32; PRIORITIES];
    for seed in 1..500_u64 {
        let limiter = writes(1 << 20);
        limiter.state.lock().dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let order = order_of(&limiter);
        assert_eq!(order[0], User);
        first_of_rest[order[1] as usize] += 1;
    }
    assert!(first_of_rest[High as usize] > 350, "{first_of_rest:?}");
    assert!(first_of_rest[Mid as usize] > 5, "{first_of_rest:?}");
    assert_eq!(first_of_rest[User as usize], 0);
    // With a fairness of 1 lower priorities are always served first.
    let upside_down = RateLimiter::new(1 << 20, 1000, 1, RateLimited::WritesOnly, false);
    assert_eq!(order_of(&upside_down), [User, Low, Mid, High]);
}

#[test]
fn queued_requests_get_the_new_rate() {
    let (limiter, clock) = (writes(1000), Sleeper::default());
    limiter.set_single_burst_bytes(1000);
    // The first refill is available immediately; the second, at the new rate, serves the request.
    let id = limiter.ask(0, 1000, IoPriority::High).unwrap();
    assert!(limiter.wait_for(id, IoPriority::High, 0).is_some());
    limiter.set_bytes_per_second(1_000_000);
    clock.sleep(Duration::from_millis(100));
    let now = clock.monotonic_nanos();
    assert!(limiter.wait_for(id, IoPriority::High, now).is_none());
    assert_eq!(limiter.bytes_per_second(), 1_000_000);
}

#[test]
fn the_auto_tuned_rate_follows_the_demand() {
    let clock = Sleeper::default();
    let limiter = RateLimiter::new(2_000_000, 1000, 10, RateLimited::WritesOnly, true);
    assert_eq!(limiter.bytes_per_second(), 1_000_000);
    let ask = |bytes| limiter.request(&clock, bytes, IoPriority::Low, IoKind::Write);
    // Demand for everything that is admitted: the rate rises to the maximum.
    for _ in 0..200 {
        ask(200_000);
    }
    assert_eq!(limiter.bytes_per_second(), 2_000_000);
    // The bucket is occasionally empty: the rate falls slowly.
    for _ in 0..10 {
        ask(4_000);
        clock.sleep(Duration::from_millis(99));
    }
    let less = limiter.bytes_per_second();
    assert!((1_000_000..2_000_000).contains(&less), "{less}");
    // No request ever waits: the rate falls to a twentieth immediately, and no further.
    for _ in 0..4 {
        clock.sleep(Duration::from_millis(200));
        ask(1);
    }
    assert_eq!(limiter.bytes_per_second(), 100_000);
}

#[test]
fn all_waiting_threads_are_served() {
    let limiter = Arc::new(RateLimiter::new(
        10_000_000,
        1000,
        10,
        RateLimited::AllIo,
        false,
    ));
    let clock = crate::posix::SystemClock;
    let started = clock.monotonic_nanos();
    thread::scope(|scope| {
        for priority in [IoPriority::Low, IoPriority::High, IoPriority::User] {
            let limiter = &limiter;
            scope.spawn(move || limiter.request(&clock, 200_000, priority, IoKind::Write));
        }
    });
    let micros = (clock.monotonic_nanos() - started) / 1000;
    assert!(micros >= 600_000 / 10 - 1000, "{micros} us");
    assert_eq!(limiter.total_bytes_through(None), 600_000);
    assert_eq!(limiter.total_pending_requests(None), 0);
}

#[test]
fn extreme_parameters_do_not_overflow() {
    let clock = Sleeper::default();
    for (rate, period) in [(0, 0), (u64::MAX, u64::MAX), (1, 1), (u64::MAX, 1)] {
        let limiter = RateLimiter::new(rate, period, 0, RateLimited::AllIo, true);
        limiter.request(&clock, 2, IoPriority::Mid, IoKind::Write);
        limiter.set_bytes_per_second(0);
        assert_eq!(limiter.bytes_per_second(), 1);
    }
}
