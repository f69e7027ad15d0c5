//! Tasks that run on the caller's thread and on helpers of the executor.

use std::sync::Arc;

use cairn_platform::sync::{Condvar, Mutex};
use cairn_platform::{Executor, Priority};
use cairn_types::{Error, Result};

/// The maximum number of helpers, whatever number of threads is requested.
const MAX_HELPERS: usize = 255;

/// Tasks numbered from 0, and their results.
struct Tasks<T> {
    count: usize,
    run: Box<dyn Fn(usize) -> Result<T> + Send + Sync>,
    state: Mutex<State<T>>,
    /// Signalled when a task ends.
    ended: Condvar,
}

struct State<T> {
    next: usize,
    running: usize,
    results: Vec<Option<T>>,
    /// The error of the task with the lowest number among those that failed.
    failed: Option<(usize, Error)>,
}

/// Marks a task as ended, also if it panics.
struct Running<'a, T> {
    tasks: &'a Tasks<T>,
    number: usize,
    result: Option<Result<T>>,
}

impl<T> Drop for Running<'_, T> {
    fn drop(&mut self) {
        let result = self.result.take();
        let result = result.unwrap_or_else(|| Err(Error::panicked("a task of a backup panicked")));
        let mut state = self.tasks.state.lock();
        state.running -= 1;
        match result {
            Ok(value) => state.results[self.number] = Some(value),
            Err(error) => {
                if state
                    .failed
                    .as_ref()
                    .is_none_or(|(first, _)| self.number < *first)
                {
                    state.failed = Some((self.number, error));
                }
            }
        }
        self.tasks.ended.notify_all();
    }
}

impl<T> Tasks<T> {
    /// Runs tasks until all have been started or one has failed.
    fn run_waiting(&self) {
        loop {
            let mut state = self.state.lock();
            if state.failed.is_some() || state.next == self.count {
                return;
            }
            let number = state.next;
            state.next += 1;
            state.running += 1;
            drop(state);
            let mut running = Running {
                tasks: self,
                number,
                result: None,
            };
            running.result = Some((self.run)(number));
        }
    }
}

/// Calls `run` for each number below `count`, up to `threads` at the same time, and returns the results. After an
/// error no further task is started; those in progress are waited for.
///
/// # Errors
///
/// The error of the first of the tasks that failed.
pub(crate) fn run<T: Send + 'static>(
    executor: &Arc<dyn Executor>,
    threads: usize,
    count: usize,
    run: impl Fn(usize) -> Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>> {
    let tasks = Arc::new(Tasks {
        count,
        run: Box::new(run),
        state: Mutex::new(State {
            next: 0,
            running: 0,
            results: (0..count).map(|_| None).collect(),
            failed: None,
        }),
        ended: Condvar::new(),
    });
    let helpers = threads.min(count).saturating_sub(1).min(MAX_HELPERS);
    if helpers > 0 {
        executor.reserve(Priority::Part, helpers);
    }
    for _ in 0..helpers {
        // A helper that starts late finds nothing to do.
        let tasks = Arc::downgrade(&tasks);
        let help = move || {
            if let Some(tasks) = tasks.upgrade() {
                tasks.run_waiting();
            }
        };
        executor.spawn(Priority::Part, Box::new(help));
    }
    tasks.run_waiting();
    let mut state = tasks.state.lock();
    while state.running > 0 {
        tasks.ended.wait(&mut state);
    }
    if let Some((_, error)) = state.failed.take() {
        return Err(error);
    }
    let results = std::mem::take(&mut state.results);
    let done = results.into_iter().flatten().collect::<Vec<_>>();
    assert_eq!(done.len(), count, "every task has a result");
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_platform::World;
    use cairn_platform::sync::{AtomicUsize, Ordering};

    /// Regression: a helper that was late took a task again after the results had been returned.
    #[test]
    fn each_task_runs_once() {
        let executor = World::in_memory().executor;
        for round in 0..3_000 {
            let count = round % 5;
            let calls: Arc<Vec<AtomicUsize>> =
                Arc::new((0..8).map(|_| AtomicUsize::new(0)).collect());
            let seen = calls.clone();
            let results = run(&executor, 4, count, move |number| {
                seen[number].fetch_add(1, Ordering::Relaxed);
                Ok(number * 2)
            });
            assert_eq!(
                results.unwrap(),
                (0..count).map(|n| n * 2).collect::<Vec<_>>()
            );
            // Helpers that are late drop their reference.
            while Arc::strong_count(&calls) > 1 {
                std::thread::yield_now();
            }
            for (number, calls) in calls.iter().enumerate() {
                assert_eq!(calls.load(Ordering::Relaxed), usize::from(number < count));
            }
        }
    }

    #[test]
    fn the_first_error_is_returned() {
        let executor = World::in_memory().executor;
        for _ in 0..200 {
            let failed = run(&executor, 3, 20, |number| match number {
                0..3 => Ok(()),
                _ => Err(Error::io_text(number.to_string())),
            });
            assert_eq!(failed.unwrap_err().text(), "3");
        }
        let sim = cairn_sim::SimWorld::new(1);
        let done = run(&sim.world.executor, 3, 4, Ok);
        assert_eq!(done.unwrap(), [0, 1, 2, 3]);
    }
}
