//! Thread lists while operations start, progress and end, on one and several threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use cairn_platform::thread_pool::ThreadPool;
use cairn_platform::{Executor, World};

use super::*;

fn tracker() -> Tracker {
    Tracker::new(true, "/db", World::in_memory().clock)
}

fn compaction(job_id: u64) -> Operation {
    Operation::Compaction(CompactionOperation {
        job_id,
        ..CompactionOperation::default()
    })
}

#[test]
fn operations_are_listed_while_in_progress() {
    let tracker = tracker();
    assert_eq!(tracker.list(), []);
    let working = tracker.begin("cf", compaction(5));
    count_read(10);
    count_written(3);
    count_read(1);
    let shown = tracker.list();
    let [status] = &shown[..] else {
        panic!("{shown:?}");
    };
    assert_eq!(status.thread_id, thread_number());
    assert_eq!(status.thread_type, ThreadType::User);
    assert_eq!((&*status.db_name, &*status.cf_name), ("/db", "cf"));
    assert_eq!(status.operation, compaction(5));
    assert_eq!((status.bytes_read, status.bytes_written), (11, 3));
    assert_eq!(status.stage, None);
    // The process-wide list includes operations of other databases.
    let same = |other: &ThreadStatus| other.thread_id == status.thread_id;
    assert!(list().iter().any(same));
    drop(working);
    assert_eq!(tracker.list(), []);
    count_read(1);
    assert!(!list().iter().any(same));
}

#[test]
fn nothing_is_listed_without_tracking() {
    let off = Tracker::new(false, "/db", World::in_memory().clock);
    let _working = off.begin("cf", compaction(5));
    let _stage = stage(Stage::CompactionRun);
    assert!(current().is_none());
    assert_eq!(off.list(), []);
    let mine = thread_number();
    assert!(!list().iter().any(|status| status.thread_id == mine));
}

#[test]
fn nested_stages_and_operations_are_restored() {
    let tracker = tracker();
    let _outer = tracker.begin("cf", compaction(1));
    let seen = || -> Vec<_> {
        let list = tracker.list();
        list.iter().map(|status| status.stage).collect()
    };
    let run = stage(Stage::CompactionRun);
    {
        let _kv = stage(Stage::CompactionProcessKv);
        assert_eq!(seen(), [Some(Stage::CompactionProcessKv)]);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _inner = tracker.begin("other", Operation::DbOpen);
            let _stage = stage(Stage::FlushRun);
            count_written(7);
            let stages = [Some(Stage::CompactionProcessKv), Some(Stage::FlushRun)];
            assert_eq!(seen(), stages);
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(seen(), [Some(Stage::CompactionProcessKv)]);
        assert_eq!(tracker.list()[0].bytes_written, 0);
    }
    assert_eq!(seen(), [Some(Stage::CompactionRun)]);
    drop(run);
    assert_eq!(seen(), [None]);
}

/// Helpers add their bytes and leave the stage to the leading thread; pools set the type of their threads.
#[test]
fn helpers_count_for_the_helped_operation() {
    let tracker = Arc::new(tracker());
    let pool = Arc::new(ThreadPool::new());
    pool.reserve(Priority::Part, 1);
    let shared = tracker.clone();
    let parts = pool.clone();
    let (tell, told) = std::sync::mpsc::channel();
    let job = move || {
        let _working = shared.begin("cf", compaction(1));
        let _stage = stage(Stage::CompactionRun);
        let tracked = current();
        let (done, wait) = std::sync::mpsc::channel();
        let part = move || {
            {
                let _helping = help(tracked.as_ref());
                let _stage = stage(Stage::CompactionProcessKv);
                count_read(20);
                count_written(30);
            }
            count_read(1_000);
            done.send(()).unwrap();
        };
        parts.spawn(Priority::Part, Box::new(part));
        assert!(wait.recv_timeout(Duration::from_secs(60)).is_ok());
        count_read(1);
        tell.send(shared.list()).unwrap();
    };
    pool.spawn(Priority::Low, Box::new(job));
    let list = told.recv_timeout(Duration::from_secs(60)).unwrap();
    pool.join_all();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].thread_type, ThreadType::LowPriority);
    assert_eq!(list[0].stage, Some(Stage::CompactionRun));
    assert_eq!((list[0].bytes_read, list[0].bytes_written), (21, 30));
    assert_eq!(tracker.list(), []);
}

/// Concurrent operations are each listed once, consistently, and only while in progress.
#[test]
fn lists_are_consistent_under_concurrency() {
    let tracker = tracker();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let tracker = &tracker;
            scope.spawn(move || {
                for n in 0..200 {
                    let job = thread * 1_000 + n;
                    let name = format!("family {job}");
                    let _working = tracker.begin(&name, compaction(job));
                    count_written(job);
                    let list = tracker.list();
                    let is_mine = |status: &&ThreadStatus| status.thread_id == thread_number();
                    let mine: Vec<_> = list.iter().filter(is_mine).collect();
                    assert_eq!(mine.len(), 1);
                    assert_eq!(mine[0].operation, compaction(job));
                    assert_eq!((&*mine[0].cf_name, mine[0].bytes_written), (&*name, job));
                    for other in list {
                        let Operation::Compaction(known) = other.operation else {
                            panic!("{other:?}");
                        };
                        assert_eq!(other.cf_name, format!("family {}", known.job_id));
                    }
                }
            });
        }
    });
    assert_eq!(tracker.list(), []);
}
