//! The simulated clock and executor, and the simulated environment as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cairn_platform::Job;
use cairn_platform::SystemRandom;
use cairn_platform::sync::{AtomicU64, Mutex, Ordering};
use cairn_platform::{Clock, Executor, Priority, World};

use crate::disk::DiskImage;
use crate::fs::SimFs;
use crate::rng::Rng;

/// The start of every simulation, in seconds since 1970: a day in 2024.
const BEGINNING: u64 = 1_720_000_000;

/// The advance of the clock on each reading, so that polling loops end.
const TICK_NANOS: u64 = 1_000;

/// A virtual clock, which advances when it is read, when a caller sleeps, and on request.
#[derive(Debug, Default)]
pub struct SimClock {
    nanos: AtomicU64,
    wall_shift_micros: AtomicU64,
}

impl SimClock {
    /// Advances the time.
    pub fn advance(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        // Relaxed, here and below: the number orders no other access.
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// The current time, without advancing it.
    fn now(&self) -> u64 {
        self.nanos.load(Ordering::Relaxed)
    }

    /// Advances the time to `nanos`, unless it is already later.
    fn reach(&self, nanos: u64) {
        self.nanos.fetch_max(nanos, Ordering::Relaxed);
    }

    /// Moves only the wall clock, by the given number of seconds in either direction.
    pub fn jump_wall_seconds(&self, seconds: i64) {
        let micros = seconds.wrapping_mul(1_000_000) as u64;
        self.wall_shift_micros.fetch_add(micros, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn wall_micros(&self) -> u64 {
        let shift = self.wall_shift_micros.load(Ordering::Relaxed);
        (BEGINNING * 1_000_000 + self.monotonic_nanos() / 1_000).wrapping_add(shift)
    }

    fn monotonic_nanos(&self) -> u64 {
        self.nanos.fetch_add(TICK_NANOS, Ordering::Relaxed) + TICK_NANOS
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}

/// An executor without threads. Jobs are queued until a caller of [`Executor::help`] runs one of them, chosen
/// at random, to completion. A delayed job is queued when the clock reaches its time, or when a caller has
/// nothing else to wait for ([`Executor::help_later`]).
pub struct SimExecutor {
    state: Mutex<ExecutorState>,
    clock: Arc<SimClock>,
}

struct ExecutorState {
    waiting: Vec<(Priority, Job)>,
    /// Delayed jobs, by due time and submission order.
    delayed: BTreeMap<(u64, u64), (Priority, Job)>,
    /// Delayed jobs that no caller waits for.
    at_leisure: BTreeMap<(u64, u64), (Priority, Job)>,
    delays: u64,
    threads: BTreeMap<Priority, usize>,
    rng: Rng,
    completed: u64,
}

impl SimExecutor {
    /// Creates an executor with random choices from `seed` and its own clock.
    #[must_use]
    pub fn new(seed: u64) -> SimExecutor {
        SimExecutor::with_clock(seed, Arc::default())
    }

    /// Creates an executor with random choices from `seed`, whose delays are measured by `clock`.
    #[must_use]
    pub fn with_clock(seed: u64, clock: Arc<SimClock>) -> SimExecutor {
        SimExecutor {
            clock,
            state: Mutex::new(ExecutorState {
                waiting: Vec::new(),
                delayed: BTreeMap::new(),
                at_leisure: BTreeMap::new(),
                delays: 0,
                threads: BTreeMap::new(),
                rng: Rng::new(seed).fork(0xe4ec),
                completed: 0,
            }),
        }
    }

    /// The number of queued jobs.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// The number of delayed jobs, except those that no caller waits for.
    #[must_use]
    pub fn delayed(&self) -> usize {
        self.state.lock().delayed.len()
    }

    /// The number of completed jobs.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.state.lock().completed
    }

    /// The due time of a job delayed by `delay`, and its submission number.
    fn place_after(&self, delay: Duration) -> (u64, u64) {
        let delay = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        let due = self.clock.now().saturating_add(delay);
        let mut state = self.state.lock();
        state.delays += 1;
        (due, state.delays)
    }

    /// Runs queued jobs, including newly submitted ones, until the queue is empty or `limit` have run.
    /// Returns the number of jobs run.
    pub fn run(&self, limit: usize) -> usize {
        (0..limit).take_while(|_| self.help()).count()
    }

    /// Drops all jobs, as the death of the process would.
    pub fn abandon(&self) {
        let all = {
            let mut state = self.state.lock();
            let waiting = std::mem::take(&mut state.waiting);
            let delayed = std::mem::take(&mut state.delayed);
            (waiting, delayed, std::mem::take(&mut state.at_leisure))
        };
        // Dropped outside the lock: dropping a job may submit others.
        drop(all);
    }
}

impl Executor for SimExecutor {
    fn spawn(&self, priority: Priority, job: Job) {
        self.state.lock().waiting.push((priority, job));
    }

    fn spawn_after(&self, delay: Duration, priority: Priority, job: Job) {
        let place = self.place_after(delay);
        self.state.lock().delayed.insert(place, (priority, job));
    }

    fn spawn_at_leisure(&self, delay: Duration, priority: Priority, job: Job) {
        let place = self.place_after(delay);
        self.state.lock().at_leisure.insert(place, (priority, job));
    }

    fn help_later(&self) -> bool {
        let first = self.state.lock().delayed.keys().next().copied();
        let Some((due, _)) = first else { return false };
        self.clock.reach(due);
        self.help()
    }

    fn help(&self) -> bool {
        let mut state = self.state.lock();
        let now = self.clock.now();
        let ExecutorState {
            waiting,
            delayed,
            at_leisure,
            ..
        } = &mut *state;
        for delayed in [delayed, at_leisure] {
            while let Some(first) = delayed.first_entry()
                && first.key().0 <= now
            {
                waiting.push(first.remove());
            }
        }
        let count = state.waiting.len();
        if count == 0 {
            return false;
        }
        let choice = state.rng.below(count);
        let (_, job) = state.waiting.remove(choice);
        drop(state);
        job();
        self.state.lock().completed += 1;
        true
    }

    fn reserve(&self, priority: Priority, threads: usize) {
        let mut state = self.state.lock();
        let now = state.threads.entry(priority).or_insert(1);
        *now = threads.max(*now);
    }

    fn threads(&self, priority: Priority) -> usize {
        *self.state.lock().threads.get(&priority).unwrap_or(&1)
    }
}

/// A simulated environment: the [`World`] passed to the engine, and handles to control it.
#[derive(Clone)]
pub struct SimWorld {
    /// The environment passed to the engine.
    pub world: World,
    /// The file system.
    pub fs: Arc<SimFs>,
    /// The clock.
    pub clock: Arc<SimClock>,
    /// The executor.
    pub executor: Arc<SimExecutor>,
}

impl SimWorld {
    /// Creates an environment with an empty disk.
    #[must_use]
    pub fn new(seed: u64) -> SimWorld {
        SimWorld::on(DiskImage::empty(), seed)
    }

    /// Creates an environment with the given disk.
    #[must_use]
    pub fn on(image: DiskImage, seed: u64) -> SimWorld {
        let fs = Arc::new(SimFs::from_image(image));
        let clock = Arc::new(SimClock::default());
        let executor = Arc::new(SimExecutor::with_clock(seed, Arc::clone(&clock)));
        let world = World {
            fs: Arc::clone(&fs) as _,
            clock: Arc::clone(&clock) as _,
            executor: Arc::clone(&executor) as _,
            random: Arc::new(SystemRandom::seeded(seed)),
        };
        SimWorld {
            world,
            fs,
            clock,
            executor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_no_caller_waits_for_do_not_advance_the_time() {
        let clock = Arc::new(SimClock::default());
        let executor = SimExecutor::with_clock(1, clock.clone());
        executor.spawn_at_leisure(Duration::from_secs(5), Priority::Low, Box::new(|| {}));
        assert_eq!((executor.delayed(), executor.waiting()), (0, 0));
        assert!(
            !executor.help_later(),
            "a background job does not advance the time"
        );
        clock.advance(Duration::from_secs(5));
        assert!(executor.help());
        assert_eq!(executor.completed(), 1);
    }

    #[test]
    fn jobs_run_on_request_in_a_seeded_order() {
        let order = |seed| {
            let executor = SimExecutor::new(seed);
            let ran = Arc::new(Mutex::new(Vec::new()));
            for number in 0..6 {
                let ran = Arc::clone(&ran);
                let job = Box::new(move || ran.lock().push(number));
                executor.spawn(Priority::Low, job);
            }
            assert!(ran.lock().is_empty());
            assert_eq!(executor.run(100), 6);
            assert!(!executor.help());
            let ran = ran.lock();
            ran.clone()
        };
        assert_eq!(order(1), order(1));
        assert!((2..20).any(|seed| order(seed) != order(1)));
    }

    #[test]
    fn delayed_jobs_run_when_due_or_when_nothing_else_is_queued() {
        let clock = Arc::new(SimClock::default());
        let executor = SimExecutor::with_clock(1, Arc::clone(&clock));
        let ran = Arc::new(Mutex::new(Vec::new()));
        let job = |number| {
            let ran = Arc::clone(&ran);
            Box::new(move || ran.lock().push(number))
        };
        executor.spawn_after(Duration::from_secs(2), Priority::High, job(2));
        executor.spawn_after(Duration::from_secs(1), Priority::High, job(1));
        assert!(!executor.help());
        clock.advance(Duration::from_millis(1_500));
        assert!(executor.help());
        assert!(!executor.help());
        assert_eq!(*ran.lock(), [1]);
        assert!(executor.help_later());
        assert!(!executor.help_later());
        assert_eq!(*ran.lock(), [1, 2]);
        assert!(clock.monotonic_nanos() >= 2_000_000_000);
    }

    #[test]
    fn sleeping_advances_the_virtual_clock() {
        let clock = SimClock::default();
        let before = clock.monotonic_nanos();
        clock.sleep(Duration::from_secs(3600));
        assert!(clock.monotonic_nanos() - before >= 3_600_000_000_000);
        clock.jump_wall_seconds(-10_000);
        assert!(clock.wall_seconds() < BEGINNING);
    }
}
