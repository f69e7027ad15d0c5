//! Concurrent commits, in every interleaving that loom explores: a batch is logged, inserted and visible when
//! its commit returns, regardless of the thread that inserted it, and no thread waits forever. (`cargo xtask
//! loom`.)

use std::sync::Mutex;

use loom::sync::Arc;
use loom::thread;

use super::*;

const PLAIN: Mode = Mode {
    sync: false,
    disable_wal: false,
    no_slowdown: false,
};

/// A log and a memtable. Their locks are not loom's, so that only interleavings of the pipeline are explored.
struct FakeEnv {
    log: Mutex<Vec<(SequenceNumber, Vec<u8>)>>,
    memtable: Mutex<Vec<Vec<u8>>>,
    in_turn: bool,
}

impl CommitEnv for FakeEnv {
    fn charge_batch(&self, _: usize) -> Option<CacheCharge> {
        None
    }

    fn may_wait(&self) -> Result<()> {
        Ok(())
    }

    fn prepare(&self, _no_slowdown: bool) -> Result<()> {
        Ok(())
    }

    fn group_limit(&self, _bytes: usize) -> usize {
        100
    }

    fn log(&self, group: &LoggedGroup<'_>) -> Result<()> {
        let logged = group
            .batches
            .iter()
            .map(|(at, batch)| (*at, batch.to_vec()));
        self.log.lock().expect("no test panics here").extend(logged);
        Ok(())
    }

    fn inserts_in_turn(&self) -> bool {
        self.in_turn
    }

    fn insert(&self, batch: Batch<'_>, _first: SequenceNumber, _company: Company) -> Result<()> {
        let batch = batch.inserted;
        self.memtable
            .lock()
            .expect("no test panics here")
            .push(batch.to_vec());
        Ok(())
    }

    fn insertion_failed(&self, error: &Error) {
        panic!("{error}");
    }
}

/// Commits a batch from each of `threads` threads; one takes the lead alone instead if `alone`.
fn explore(threads: u8, alone: bool, in_turn: bool, preemptions: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let env = FakeEnv {
            log: Mutex::default(),
            memtable: Mutex::default(),
            in_turn,
        };
        let shared = Arc::new((CommitPipeline::new(None), env));
        let commit = move |(pipeline, env): &(CommitPipeline, FakeEnv), id: u8| {
            if alone && id == 0 {
                let lead = pipeline.lead_alone(|| Ok(())).unwrap();
                assert_eq!(pipeline.visible(), pipeline.allocated());
                let inserted = env.memtable.lock().expect("no test panics here").len();
                assert_eq!(inserted as u64, pipeline.visible().0);
                drop(lead);
                return;
            }
            let mut batch = vec![0; 8];
            batch.extend_from_slice(&1_u32.to_le_bytes());
            batch.push(id);
            let committed = pipeline.commit(env, Batch::whole(&batch), PLAIN);
            committed.expect("the environment rejects nothing");
            let inserted = env
                .memtable
                .lock()
                .expect("no test panics here")
                .contains(&batch);
            assert!(inserted && pipeline.visible().0 > 0);
        };
        let others: Vec<_> = (1..threads)
            .map(|id| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || commit(&shared, id))
            })
            .collect();
        commit(&shared, 0);
        for other in others {
            other.join().expect("it ends");
        }
        let (pipeline, env) = &*shared;
        let log = env.log.lock().expect("no test panics here");
        let numbers: Vec<u64> = log.iter().map(|(at, _)| at.0).collect();
        let batches = u64::from(threads) - u64::from(alone);
        assert_eq!(numbers, (1..=batches).collect::<Vec<_>>());
        assert_eq!(pipeline.visible().0, batches);
        assert_eq!(pipeline.allocated().0, batches);
    });
}

#[test]
fn loom_two_commits() {
    explore(2, false, false, 4);
}

#[test]
fn loom_three_commits() {
    explore(3, false, false, 2);
}

#[test]
fn loom_two_commits_in_turn() {
    explore(2, false, true, 4);
}

#[test]
fn loom_who_leads_alone_finds_all_inserted() {
    explore(3, true, false, 2);
}
