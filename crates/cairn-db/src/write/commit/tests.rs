//! The pipeline with a log and a memtable of its own: without files, jobs or other components.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cairn_memory::{BlockCache, CacheOptions, ChargePolicy, MemoryUse, MemoryUses};
use cairn_platform::sync::Mutex;
use cairn_types::Code;

use super::*;

const PLAIN: Mode = Mode {
    sync: false,
    disable_wal: false,
    no_slowdown: false,
};

/// A batch of `count` records, identified by `id`.
fn batch(count: u32, id: u64) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&id.to_le_bytes());
    bytes
}

/// A log and a memtable in memory, with injected failures.
#[derive(Default)]
struct FakeEnv {
    log: Mutex<Vec<(SequenceNumber, Vec<u8>)>>,
    memtable: Mutex<BTreeMap<SequenceNumber, Vec<u8>>>,
    companies: Mutex<Vec<Company>>,
    in_turn: AtomicBool,
    fails_to_log: AtomicBool,
    panics_in_log: AtomicBool,
    fails_to_insert: AtomicBool,
    failed_insertions: AtomicUsize,
    refuses: AtomicBool,
    /// Copies of waiting batches are charged.
    charges: ChargePolicy,
    /// The duration of insertions.
    insertion: Duration,
}

impl FakeEnv {
    fn has_inserted(&self, batch: &[u8]) -> bool {
        self.memtable.lock().values().any(|found| found == batch)
    }
}

impl CommitEnv for FakeEnv {
    fn charge_batch(&self, bytes: usize) -> Option<CacheCharge> {
        self.charges.charge(MemoryUse::WriteBatch, bytes)
    }

    fn may_wait(&self) -> Result<()> {
        Ok(())
    }

    fn prepare(&self, _no_slowdown: bool) -> Result<()> {
        match self.refuses.load(Ordering::Relaxed) {
            true => Err(Error::incomplete("no room")),
            false => Ok(()),
        }
    }

    fn group_limit(&self, _bytes: usize) -> usize {
        100
    }

    fn log(&self, group: &LoggedGroup<'_>) -> Result<()> {
        assert!(
            !self.panics_in_log.load(Ordering::Relaxed),
            "a panic of the test"
        );
        if self.fails_to_log.load(Ordering::Relaxed) {
            return Err(Error::aborted("the device is gone"));
        }
        let mut log = self.log.lock();
        let mut keys = 0;
        for (first, batch) in group.batches {
            keys += count_of(batch);
            log.push((*first, batch.to_vec()));
        }
        assert_eq!(keys, group.keys);
        Ok(())
    }

    fn inserts_in_turn(&self) -> bool {
        self.in_turn.load(Ordering::Relaxed)
    }

    fn insert(&self, batch: Batch<'_>, first: SequenceNumber, company: Company) -> Result<()> {
        let batch = batch.inserted;
        assert!(
            self.log
                .lock()
                .iter()
                .any(|(at, logged)| (*at, &**logged) == (first, batch)),
            "a batch is logged before it is inserted"
        );
        std::thread::park_timeout(self.insertion);
        if self.fails_to_insert.load(Ordering::Relaxed) {
            return Err(Error::aborted("out of memory"));
        }
        self.companies.lock().push(company);
        if count_of(batch) > 0 {
            self.memtable.lock().insert(first, batch.to_vec());
        }
        Ok(())
    }

    fn insertion_failed(&self, _error: &Error) {
        self.failed_insertions.fetch_add(1, Ordering::Relaxed);
    }
}

/// Checks that the log contains consecutive batches, and returns the last number.
fn last_logged(env: &FakeEnv) -> SequenceNumber {
    let mut next = SequenceNumber(1);
    for (first, batch) in env.log.lock().iter() {
        assert_eq!(
            *first, next,
            "groups are logged in the order of their numbers"
        );
        next = next.plus(count_of(batch));
    }
    SequenceNumber(next.0 - 1)
}

fn commit_from_many_threads(env: &FakeEnv) {
    let pipeline = CommitPipeline::new(None);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let pipeline = &pipeline;
            scope.spawn(move || {
                for round in 0..500 {
                    let batch = batch((round % 4) as u32, thread << 32 | round);
                    let mode = Mode {
                        sync: round % 7 == 0,
                        ..PLAIN
                    };
                    let seen = pipeline.visible();
                    let committed = pipeline.commit(env, Batch::whole(&batch), mode);
                    committed.expect("the environment rejects nothing");
                    if count_of(&batch) > 0 {
                        assert!(pipeline.visible() > seen);
                        assert!(env.has_inserted(&batch));
                    }
                    if round % 100 == thread {
                        let lead = pipeline.lead_alone(|| Ok(()));
                        assert_eq!(pipeline.visible(), pipeline.allocated());
                        assert_eq!(pipeline.visible(), last_logged(env));
                        drop(lead);
                    }
                }
            });
        }
    });
    assert_eq!(env.log.lock().len(), 2000);
    assert_eq!(env.memtable.lock().len(), 1500);
    assert_eq!(pipeline.visible(), last_logged(env));
    assert_eq!(pipeline.allocated(), last_logged(env));
}

#[test]
fn acknowledged_batches_are_logged_inserted_and_visible() {
    let env = FakeEnv::default();
    commit_from_many_threads(&env);
    assert!(!env.companies.lock().contains(&Company::None));
}

#[test]
fn a_batch_that_waits_is_charged_until_it_is_committed() {
    let cache = Arc::new(BlockCache::new(1 << 20, CacheOptions::default()));
    let env = FakeEnv {
        charges: ChargePolicy::new(Some(cache.clone()), MemoryUses::ALL),
        ..FakeEnv::default()
    };
    let pipeline = CommitPipeline::new(None);
    let alone = batch(1, 1);
    pipeline.commit(&env, Batch::whole(&alone), PLAIN).unwrap();
    assert_eq!(cache.charged(MemoryUse::WriteBatch), 0);
    let lead = pipeline.lead_alone(|| Ok(())).unwrap();
    std::thread::scope(|scope| {
        for id in 2..5 {
            let (pipeline, env) = (&pipeline, &env);
            scope.spawn(move || {
                pipeline
                    .commit(env, Batch::whole(&batch(1, id)), PLAIN)
                    .unwrap()
            });
        }
        while cache.charged(MemoryUse::WriteBatch) < 3 * alone.len() {
            std::thread::yield_now();
        }
        drop(lead);
    });
    assert_eq!(env.memtable.lock().len(), 4);
    assert_eq!((cache.all_charged(), cache.usage()), (0, 0));
}

#[test]
fn batches_inserted_sequentially_are_not_concurrent() {
    let env = FakeEnv::default();
    env.in_turn.store(true, Ordering::Relaxed);
    commit_from_many_threads(&env);
    assert!(
        env.companies
            .lock()
            .iter()
            .all(|company| *company == Company::None)
    );
}

#[test]
fn a_write_that_would_exceed_the_last_sequence_number_is_refused() {
    let env = FakeEnv::default();
    let pipeline = CommitPipeline::new(None);
    pipeline.skip_to(SequenceNumber(SequenceNumber::MAX.0 - 2));
    let commit = |count| pipeline.commit(&env, Batch::whole(&batch(count, 1)), PLAIN);
    assert_eq!(commit(3).unwrap_err().code(), Code::Aborted);
    assert!(env.log.lock().is_empty());
    commit(2).unwrap();
    assert_eq!(pipeline.visible(), SequenceNumber::MAX);
    assert_eq!(commit(1).unwrap_err().code(), Code::Aborted);
}

#[test]
fn a_group_that_is_not_logged_takes_no_numbers() {
    let (env, pipeline) = (FakeEnv::default(), CommitPipeline::new(None));
    pipeline
        .commit(&env, Batch::whole(&batch(2, 1)), PLAIN)
        .unwrap();
    env.fails_to_log.store(true, Ordering::Relaxed);
    let error = pipeline
        .commit(&env, Batch::whole(&batch(2, 2)), PLAIN)
        .unwrap_err();
    assert_eq!(error.code(), Code::Aborted);
    assert_eq!((pipeline.allocated().0, pipeline.visible().0), (2, 2));
    assert!(!env.has_inserted(&batch(2, 2)));
}

#[test]
fn a_batch_without_room_fails_alone() {
    let (env, pipeline) = (FakeEnv::default(), CommitPipeline::new(None));
    env.refuses.store(true, Ordering::Relaxed);
    let error = pipeline
        .commit(&env, Batch::whole(&batch(1, 1)), PLAIN)
        .unwrap_err();
    assert_eq!(error.code(), Code::Incomplete);
    env.refuses.store(false, Ordering::Relaxed);
    pipeline
        .commit(&env, Batch::whole(&batch(1, 2)), PLAIN)
        .unwrap();
    assert_eq!(env.log.lock().len(), 1);
}

#[test]
fn a_failed_insertion_is_reported_and_does_not_block_others() {
    let (env, pipeline) = (FakeEnv::default(), CommitPipeline::new(None));
    env.fails_to_insert.store(true, Ordering::Relaxed);
    pipeline
        .commit(&env, Batch::whole(&batch(3, 1)), PLAIN)
        .unwrap_err();
    assert_eq!(env.failed_insertions.load(Ordering::Relaxed), 1);
    env.fails_to_insert.store(false, Ordering::Relaxed);
    pipeline
        .commit(&env, Batch::whole(&batch(1, 2)), PLAIN)
        .unwrap();
    assert_eq!(pipeline.visible().0, 4);
}

#[test]
fn followers_of_a_leader_that_panics_get_an_error_and_the_lead_is_passed_on() {
    let (env, pipeline) = (FakeEnv::default(), CommitPipeline::new(None));
    let (env, pipeline) = (&env, &pipeline);
    std::thread::scope(|scope| {
        let lead = pipeline.lead_alone(|| Ok(())).unwrap();
        let commits: Vec<_> = (0..3)
            .map(|id| {
                scope.spawn(move || {
                    catch_unwind(AssertUnwindSafe(|| {
                        pipeline.commit(env, Batch::whole(&batch(1, id)), PLAIN)
                    }))
                })
            })
            .collect();
        // Long enough for all to join the queue; one that is late leads its own group.
        std::thread::park_timeout(Duration::from_millis(50));
        env.panics_in_log.store(true, Ordering::Relaxed);
        drop(lead);
        let ends: Vec<_> = commits
            .into_iter()
            .map(|commit| commit.join().unwrap())
            .collect();
        assert!(ends.iter().any(Result::is_err), "a leader panicked");
        assert!(ends.into_iter().flatten().all(|end| end.is_err()));
    });
    env.panics_in_log.store(false, Ordering::Relaxed);
    pipeline
        .commit(env, Batch::whole(&batch(1, 9)), PLAIN)
        .unwrap();
    assert_eq!(pipeline.visible().0, 1);
}

#[test]
fn leading_alone_waits_for_insertions_and_blocks_other_writers() {
    let env = FakeEnv {
        insertion: Duration::from_millis(20),
        ..FakeEnv::default()
    };
    let pipeline = CommitPipeline::new(None);
    let begin = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            begin.wait();
            pipeline
                .commit(&env, Batch::whole(&batch(1, 1)), PLAIN)
                .unwrap();
            pipeline
                .commit(&env, Batch::whole(&batch(1, 2)), PLAIN)
                .unwrap();
        });
        begin.wait();
        for _ in 0..20 {
            let lead = pipeline.lead_alone(|| Ok(())).unwrap();
            let logged = last_logged(&env);
            assert_eq!(pipeline.visible(), logged);
            assert_eq!(env.memtable.lock().len() as u64, logged.0);
            drop(lead);
            std::thread::park_timeout(Duration::from_millis(3));
        }
    });
}

#[test]
fn numbers_assigned_outside_the_pipeline_are_skipped() {
    let (env, pipeline) = (FakeEnv::default(), CommitPipeline::new(None));
    pipeline.skip_to(SequenceNumber(41));
    pipeline
        .commit(&env, Batch::whole(&batch(1, 1)), PLAIN)
        .unwrap();
    assert_eq!(env.log.lock()[0].0, SequenceNumber(42));
    let lead = pipeline.lead_alone(|| Ok(())).unwrap();
    pipeline.skip_to(SequenceNumber(7));
    drop(lead);
    assert_eq!(pipeline.visible(), SequenceNumber(42));
}
