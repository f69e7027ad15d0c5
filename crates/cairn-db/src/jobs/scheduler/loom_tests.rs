//! Jobs that end concurrently with each other and with a waiter, in every interleaving that loom explores:
//! every job ends once, limits hold, and the waiter is woken. (`cargo xtask loom`.)

use std::collections::VecDeque;

use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::*;

/// The work of a thread.
type Run = Box<dyn FnOnce(&Arc<Fake>) + Send>;

struct Fake {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: Jobs,
    due: usize,
    finished: usize,
    queued: VecDeque<Run>,
}

impl AsMut<Jobs> for State {
    fn as_mut(&mut self) -> &mut Jobs {
        &mut self.jobs
    }
}

thread_local! {
    /// Work that was spawned under the lock of the state; only one thread may hold it.
    static SPAWNED: std::cell::RefCell<Vec<Run>> = const { std::cell::RefCell::new(Vec::new()) };
}

impl Work for Fake {
    type State = State;
    type Job = usize;
    type Outcome = usize;

    fn wake(&self) {
        self.changed.notify_all();
    }

    fn with_state<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().expect("no test panics here"))
    }

    fn choose(
        self: &Arc<Self>,
        state: &mut State,
        kind: JobKind,
        start: &mut dyn FnMut(&mut State, usize),
    ) {
        while kind == JobKind::Flush && state.due > 0 && state.jobs.flushes() < 2 {
            state.due -= 1;
            let number = state.due;
            start(state, number);
            state.queued.extend(SPAWNED.with(std::cell::RefCell::take));
        }
    }

    fn spawn(self: &Arc<Self>, _kind: JobKind, run: impl FnOnce(&Arc<Self>) + Send + 'static) {
        SPAWNED.with(|spawned| spawned.borrow_mut().push(Box::new(run)));
    }

    fn run(self: &Arc<Self>, job: &mut usize) -> usize {
        *job
    }

    fn finish(self: &Arc<Self>, state: &mut State, job: usize, outcome: usize) -> usize {
        assert_eq!(job, outcome);
        assert!(
            state.jobs.flushes() <= 1,
            "below the limit, and this job has ended"
        );
        state.finished += 1;
        outcome
    }

    fn settle(self: &Arc<Self>, _kind: JobKind, _outcome: usize, then: impl FnOnce(&mut State)) {
        then(&mut self.state.lock().expect("no test panics here"));
        self.changed.notify_all();
    }
}

/// Runs spawned jobs until `jobs` have been finished.
fn work(fake: &Arc<Fake>, jobs: usize) {
    loop {
        let mut state = fake.state.lock().expect("no test panics here");
        let next = loop {
            if let Some(next) = state.queued.pop_front() {
                break next;
            }
            if state.finished == jobs {
                return;
            }
            state = fake.changed.wait(state).expect("no test panics here");
        };
        drop(state);
        next(fake);
    }
}

#[test]
fn loom_jobs_that_end_concurrently_start_all_others() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        const JOBS: usize = 3;
        let fake = Arc::new(Fake {
            state: Mutex::new(State {
                due: JOBS,
                ..State::default()
            }),
            changed: Condvar::new(),
        });
        fake.with_state(|state| schedule(&fake, state));
        let worker = {
            let fake = fake.clone();
            thread::spawn(move || work(&fake, JOBS))
        };
        work(&fake, JOBS);
        worker.join().expect("it ends");
        fake.with_state(|state| {
            assert_eq!(state.finished, JOBS);
            assert!(state.jobs.are_idle() && state.due == 0);
        });
    });
}
