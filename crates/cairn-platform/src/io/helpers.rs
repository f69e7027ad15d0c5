//! Threads for work that cannot be suspended: opening a table, a write.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::flight::Flight;
use super::workers::{Workers, contained};
use crate::executor::Job;
use crate::posix::Process;
use crate::posix::process::ThreadsOfProcess;

/// The number of threads above which a short job waits for one of them.
const MOST: usize = 64;

/// A set of threads.
type Helpers = ThreadsOfProcess<Workers<Job>>;

/// Runs `job` on one of `helpers`, of which there may be `most`; without any thread, the caller runs it.
fn run(job: Job, helpers: &'static Helpers, most: usize) {
    let left = match helpers.get() {
        Some(helpers) => helpers.submit([job], most),
        None => [job].into(),
    };
    left.into_iter().for_each(contained);
}

/// Runs `job`, which may wait for other work for long, such as a write that is stalled, on a thread.
pub fn run_apart(job: Job) {
    // Threads of its own: those that wait would count towards the limit of short jobs.
    static APART: Helpers = Helpers::new(|| Workers::new("cairn-waiting", |job: Job| job()));
    run(job, &APART, usize::MAX);
}

/// Runs `job`, which is short, on one of a limited number of threads.
pub fn run_soon(job: Job) {
    static SOON: Helpers = Helpers::new(|| Workers::new("cairn-helper", |job: Job| job()));
    run(job, &SOON, MOST);
}

/// The future of a value that another thread delivers; see [`offload`] and [`promise`].
pub struct Offload<T> {
    flight: Arc<Flight<T>>,
    process: Process,
    done: bool,
}

impl<T> std::fmt::Debug for Offload<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offload").finish_non_exhaustive()
    }
}

/// The obligation to deliver a value; see [`promise`].
pub struct Promise<T> {
    flight: Arc<Flight<T>>,
    value: Option<T>,
}

impl<T> Promise<T> {
    /// Delivers `value`.
    pub fn keep(mut self, value: T) {
        self.value = Some(value);
    }
}

impl<T> std::fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Promise").finish_non_exhaustive()
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.flight.land(self.value.take());
    }
}

/// A promise of a value, and the future that waits for it. The future panics if the promise is dropped.
#[must_use]
pub fn promise<T>() -> (Promise<T>, Offload<T>) {
    let flight = Arc::new(Flight::new(1));
    let promise = Promise {
        flight: flight.clone(),
        value: None,
    };
    let kept = Offload {
        flight,
        process: Process::this(),
        done: false,
    };
    (promise, kept)
}

/// Runs `job`, a short piece of work that may block, on a thread. If the future is dropped, the job runs all
/// the same.
pub fn offload<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Offload<T> {
    let (promise, result) = promise();
    run_soon(Box::new(move || promise.keep(job())));
    result
}

impl<T> Future for Offload<T> {
    type Output = T;

    /// # Panics
    ///
    /// If the job panicked, and in a forked child, which does not have the thread of the job.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        assert!(
            self.process.is_this(),
            "a future is polled by the process that made it"
        );
        self.flight.poll(context).map(|mut landed| {
            self.done = true;
            landed.pop().expect("the job does not panic")
        })
    }
}

impl<T> Drop for Offload<T> {
    fn drop(&mut self) {
        if !self.done && self.process.is_this() {
            self.flight.abandon();
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::task::Waker;

    use super::*;
    use crate::sync::Mutex;

    /// Waits for `future` on the calling thread.
    fn wait<T>(mut future: Offload<T>) -> T {
        loop {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(result) = Pin::new(&mut future).poll(&mut context) {
                return result;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn jobs_run_on_other_threads() {
        let here = std::thread::current().id();
        let jobs: Vec<_> = (0..200)
            .map(|n| offload(move || (n, std::thread::current().id())))
            .collect();
        for (n, job) in jobs.into_iter().enumerate() {
            let (got, thread) = wait(job);
            assert_eq!(got, n);
            assert_ne!(thread, here);
        }
    }

    /// Regression: short jobs run while any number of jobs that were started apart wait.
    #[test]
    fn waiting_jobs_do_not_hold_up_short_ones() {
        let ended = Arc::new(());
        let gate = Arc::new(Mutex::new(()));
        let held = gate.lock();
        for _ in 0..MOST {
            let (waits, inside) = (gate.clone(), ended.clone());
            run_apart(Box::new(move || {
                drop(waits.lock());
                drop(inside);
            }));
        }
        assert_eq!(wait(offload(|| 7)), 7);
        drop(held);
        while Arc::strong_count(&ended) > 1 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_panic_of_a_job_is_that_of_its_future() {
        let job = offload(|| panic!("a job of a test"));
        assert!(catch_unwind(AssertUnwindSafe(|| wait::<()>(job))).is_err());
        assert_eq!(wait(offload(|| 7)), 7);
    }

    #[test]
    fn the_result_of_a_job_whose_future_was_dropped_is_freed() {
        let kept = Arc::new(());
        let (inside, gate) = (kept.clone(), Arc::new(Mutex::new(())));
        let held = gate.lock();
        let waits = gate.clone();
        drop(offload(move || {
            drop(waits.lock());
            inside
        }));
        drop(held);
        while Arc::strong_count(&kept) > 1 {
            std::thread::yield_now();
        }
    }
}
