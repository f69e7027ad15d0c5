//! The scheduler with jobs that only count.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cairn_platform::sync::{Condvar, Mutex};

use super::*;
use crate::jobs::counts::PausedBy;

/// The work of a thread.
type Run = Box<dyn FnOnce(&Arc<Fake>) + Send>;

/// Jobs that only count.
#[derive(Default)]
struct Fake {
    state: Mutex<State>,
    changed: Condvar,
    spawned: Mutex<VecDeque<Run>>,
}

#[derive(Default)]
struct State {
    jobs: Jobs,
    /// Due jobs, by kind.
    due: [usize; 2],
    /// The limit of running jobs, by kind.
    limits: [usize; 2],
    /// Finished jobs, in the order in which they ended.
    finished: Vec<(JobKind, usize)>,
    settled: usize,
    numbers: usize,
    stopped: bool,
    /// The job of this number makes another job due.
    begets: Option<usize>,
    /// Choosing jobs panics.
    panics: bool,
    /// Calls of `wake`.
    wakes: usize,
}

impl AsMut<Jobs> for State {
    fn as_mut(&mut self) -> &mut Jobs {
        &mut self.jobs
    }
}

impl Work for Fake {
    type State = State;
    type Job = (JobKind, usize);
    type Outcome = usize;

    fn wake(&self) {
        self.state.lock().wakes += 1;
        self.changed.notify_all();
    }

    fn with_state<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock())
    }

    fn choose(
        self: &Arc<Self>,
        state: &mut State,
        kind: JobKind,
        start: &mut dyn FnMut(&mut State, Self::Job),
    ) {
        assert!(!state.panics, "a defect");
        let scheduled = |jobs: &Jobs| match kind {
            JobKind::Flush => jobs.flushes(),
            JobKind::Compaction => jobs.compactions(),
        };
        while !state.stopped
            && state.due[kind as usize] > 0
            && scheduled(&state.jobs) < state.limits[kind as usize]
        {
            state.due[kind as usize] -= 1;
            state.numbers += 1;
            let before = scheduled(&state.jobs);
            let number = state.numbers;
            start(state, (kind, number));
            assert_eq!(scheduled(&state.jobs), before + 1, "S1");
        }
    }

    fn spawn(self: &Arc<Self>, _kind: JobKind, run: impl FnOnce(&Arc<Self>) + Send + 'static) {
        self.spawned.lock().push_back(Box::new(run));
    }

    fn run(self: &Arc<Self>, job: &mut Self::Job) -> usize {
        assert!(self.state.lock().jobs.running(job.0) > 0);
        job.1
    }

    fn finish(self: &Arc<Self>, state: &mut State, job: Self::Job, outcome: usize) -> usize {
        assert_eq!(job.1, outcome);
        if state.begets == Some(outcome) {
            state.due[JobKind::Compaction as usize] += 1;
        }
        state.finished.push(job);
        outcome
    }

    fn settle(self: &Arc<Self>, _kind: JobKind, outcome: usize, then: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        assert!(state.finished.iter().any(|(_, number)| *number == outcome));
        // Regression: waiters for the end of all jobs went on before the jobs that this one has made due were scheduled.
        assert!(!state.jobs.are_idle(), "S4");
        then(&mut state);
        state.settled += 1;
        self.changed.notify_all();
    }
}

fn with_due(due: [usize; 2], limits: [usize; 2]) -> Arc<Fake> {
    let fake = Fake::default();
    (fake.state.lock().due, fake.state.lock().limits) = (due, limits);
    Arc::new(fake)
}

/// Runs one spawned job, if there is one.
fn run_one(fake: &Arc<Fake>) -> bool {
    let run = fake.spawned.lock().pop_front();
    run.map(|run| run(fake)).is_some()
}

fn counts(fake: &Fake) -> (usize, usize) {
    let state = fake.state.lock();
    (state.jobs.flushes(), state.jobs.compactions())
}

#[test]
fn jobs_start_up_to_their_limits_and_an_end_starts_the_next() {
    let fake = with_due([3, 5], [1, 2]);
    schedule(&fake, &mut fake.state.lock());
    assert_eq!(counts(&fake), (1, 2));
    while run_one(&fake) {
        let (flushes, compactions) = counts(&fake);
        assert!(flushes <= 1 && compactions <= 2);
    }
    let state = fake.state.lock();
    assert_eq!((state.finished.len(), state.settled), (8, 8));
    assert!(state.jobs.are_idle());
    assert_eq!(state.jobs.running(JobKind::Flush), 0);
}

#[test]
fn a_job_made_due_by_another_starts_when_that_ends() {
    let fake = with_due([1, 0], [1, 1]);
    fake.state.lock().begets = Some(1);
    schedule(&fake, &mut fake.state.lock());
    while run_one(&fake) {}
    let kinds: Vec<_> = fake
        .state
        .lock()
        .finished
        .iter()
        .map(|(kind, _)| *kind)
        .collect();
    assert_eq!(kinds, [JobKind::Flush, JobKind::Compaction]);
}

#[test]
fn holds_prevent_jobs_from_starting_but_not_from_ending() {
    let fake = with_due([2, 2], [1, 1]);
    schedule(&fake, &mut fake.state.lock());
    fake.state.lock().jobs.begin_pause();
    while run_one(&fake) {}
    // Flushes start until the pause is complete.
    assert_eq!(fake.state.lock().due, [0, 1]);
    assert_eq!(counts(&fake), (0, 0));
    {
        let mut state = fake.state.lock();
        state.due = [1, 1];
        state.jobs.complete_pause(PausedBy::Program);
        schedule(&fake, &mut state);
        assert!(state.jobs.are_idle());
        assert!(state.jobs.end_pause(PausedBy::Program));
        schedule(&fake, &mut state);
    }
    assert_eq!(counts(&fake), (1, 1));
    while run_one(&fake) {}
    assert_eq!(fake.state.lock().due, [0, 0]);
}

#[test]
fn nothing_starts_once_the_work_is_stopped() {
    let fake = with_due([5, 5], [2, 2]);
    schedule(&fake, &mut fake.state.lock());
    fake.state.lock().stopped = true;
    while run_one(&fake) {}
    let state = fake.state.lock();
    assert_eq!((state.due, state.finished.len()), ([3, 3], 4));
    assert!(state.jobs.are_idle());
}

#[test]
fn a_waiter_is_woken_when_the_last_of_many_jobs_ends() {
    let fake = with_due([200, 200], [2, 3]);
    schedule(&fake, &mut fake.state.lock());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while fake.state.lock().settled < 400 {
                    if !run_one(&fake) {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let mut state = fake.state.lock();
        while !(state.jobs.are_idle() && state.due == [0, 0]) {
            fake.changed.wait(&mut state);
        }
        assert_eq!(state.finished.len(), 400);
    });
}

/// Regression: after a panic at the end of a job, the job counted as running forever, and closing waited for it.
#[test]
fn a_panic_at_the_end_of_a_job_leaves_no_running_job() {
    for kind in [JobKind::Flush, JobKind::Compaction] {
        let mut due = [0, 0];
        due[kind as usize] = 1;
        let fake = with_due(due, [1, 1]);
        schedule(&fake, &mut fake.state.lock());
        fake.state.lock().panics = true;
        let ended = catch_unwind(AssertUnwindSafe(|| run_one(&fake)));
        assert!(ended.is_err());
        let state = fake.state.lock();
        assert!(state.jobs.are_idle() && state.wakes == 1, "{kind:?}");
    }
}
