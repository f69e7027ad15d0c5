//! Detects runs that hang, for example on a missed wakeup.

use std::time::Duration;

use cairn_platform::World;
use cairn_platform::sync::{AtomicBool, Mutex, Ordering};

/// Maximum duration of a case; a longer one is considered hung.
const TIMEOUT_SECONDS: u64 = 60;

/// The current case of a worker with its start time.
#[derive(Default)]
pub struct Current(Mutex<Option<(String, u64)>>);

impl Current {
    /// Records that the worker started the case of `token`.
    pub fn begins(&self, token: String) {
        let now = World::posix().clock.monotonic_nanos();
        *self.0.lock() = Some((token, now));
    }

    /// Records that the worker is idle.
    pub fn ends(&self) {
        *self.0.lock() = None;
    }
}

/// Runs `work` on `threads` threads; exits the process with the token of a case that hangs.
pub fn run(threads: u64, work: impl Fn(&Current) + Sync) {
    let current: Vec<Current> = (0..threads).map(|_| Current::default()).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let work = &work;
        let spawn = |current| scope.spawn(move || work(current));
        let workers: Vec<_> = current.iter().map(spawn).collect();
        scope.spawn(|| watch(&current, &done));
        for worker in workers {
            // The scope reports panics of workers.
            let _ = worker.join();
        }
        // Release: pairs with the load of the watchdog.
        done.store(true, Ordering::Release);
    });
}

fn watch(current: &[Current], done: &AtomicBool) {
    let clock = World::posix().clock;
    while !done.load(Ordering::Acquire) {
        clock.sleep(Duration::from_millis(20));
        let now = clock.monotonic_nanos();
        for worker in current {
            if let Some((token, began)) = worker.0.lock().clone()
                && now.saturating_sub(began) > TIMEOUT_SECONDS * 1_000_000_000
            {
                eprintln!("hung: no progress in {TIMEOUT_SECONDS} s\n{token}");
                std::process::exit(1);
            }
        }
    }
}
