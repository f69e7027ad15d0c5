//! Histories of concurrent transactions that append to lists, checked for their isolation level.

use std::collections::BTreeSet;

use cairn_db::Db;
use cairn_options::ReadOptions;
use cairn_platform::sync::Mutex;
use cairn_txn::{
    OptimisticTransactionDbOptions, Transaction, TransactionDbOptions, TransactionOptions,
    ValidatePolicy, WritePolicy,
};
use cairn_types::{Code, Error, Result};

use crate::checker::{Committed, Level, check};
use crate::{POLICIES, optimistic, pessimistic};

const LISTS: usize = 5;
const THREADS: u32 = 4;
const ROUNDS: u32 = 250;

fn elements(value: Option<cairn_db::Value>) -> Vec<u32> {
    let value = value.unwrap_or_else(|| Vec::new().into());
    value
        .chunks_exact(4)
        .map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()))
        .collect()
}

fn key(list: usize) -> [u8; 1] {
    [list as u8]
}

/// The reads of a transaction.
#[derive(Clone, Copy, PartialEq)]
enum Reads {
    /// All reads are for update.
    ForUpdate,
    /// Reads use the snapshot, and only appends are tracked.
    AtSnapshot,
}

/// Reads two or three lists and appends to some of them.
fn work(txn: &mut Transaction, reads: Reads, random: &mut u64, element: u32) -> Result<Committed> {
    let mut next = |below: u64| {
        *random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (*random >> 33) % below
    };
    let mut options = ReadOptions::default();
    if reads == Reads::AtSnapshot {
        txn.set_snapshot();
        options.snapshot = txn.snapshot().map(|snapshot| snapshot.sequence());
    }
    let mut done = Committed::default();
    let mut lists = BTreeSet::new();
    for _ in 0..2 + next(2) {
        lists.insert(next(LISTS as u64) as usize);
    }
    let mut lists: Vec<usize> = lists.into_iter().collect();
    if next(2) == 0 {
        lists.reverse();
    }
    for list in lists {
        let read = match reads {
            Reads::ForUpdate => txn.get_for_update(&key(list), &options)?,
            Reads::AtSnapshot => txn.get(&key(list), &options)?,
        };
        let mut read = elements(read);
        done.reads.push((list, read.clone()));
        if next(3) < 2 {
            std::thread::yield_now();
            // Elements are unique: one per transaction and list.
            let element = element * LISTS as u32 + list as u32;
            read.push(element);
            let bytes: Vec<u8> = read
                .iter()
                .flat_map(|element| element.to_le_bytes())
                .collect();
            txn.put(&key(list), &bytes)?;
            done.appends.push((list, element));
        }
    }
    Ok(done)
}

fn history(
    db: &Db,
    begin: impl Fn() -> Transaction + Sync,
    reads: Reads,
    seed: u64,
) -> Vec<Committed> {
    let committed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (begin, committed) = (&begin, &committed);
            scope.spawn(move || {
                let mut random = seed * u64::from(THREADS) + u64::from(thread) + 1;
                for round in 0..ROUNDS {
                    let mut txn = begin();
                    let element = 1 + thread * ROUNDS + round;
                    let done = work(&mut txn, reads, &mut random, element).and_then(|done| {
                        if !txn.name().is_empty() {
                            txn.prepare()?;
                            std::thread::yield_now();
                            if round % 5 == 4 {
                                txn.rollback()?;
                                return Err(Error::busy("rolled back"));
                            }
                        }
                        txn.commit().map(|()| done)
                    });
                    match done {
                        Ok(done) => committed.lock().push(done),
                        Err(error) => assert!(
                            matches!(error.code(), Code::Busy | Code::TimedOut | Code::TryAgain),
                            "{error}"
                        ),
                    }
                    if round % 100 == 99 {
                        db.flush_families(&[db.default_family()]).unwrap();
                    }
                }
            });
        }
    });
    let mut history = committed.into_inner();
    let reads = (0..LISTS).map(|list| (list, elements(db.get(&key(list)).unwrap())));
    history.push(Committed {
        reads: reads.collect(),
        appends: Vec::new(),
    });
    history
}

fn must_hold(history: &[Committed], level: Level) {
    // Every element in a list was committed, or the checker would not find its writer.
    let written: BTreeSet<u32> = history
        .iter()
        .flat_map(|txn| txn.appends.iter().map(|(_, element)| *element))
        .collect();
    let read = history.iter().flat_map(|txn| &txn.reads);
    let aborted = read
        .flat_map(|(_, list)| list.iter().copied())
        .filter(|element| !written.contains(element))
        .collect();
    assert!(history.len() > 100, "{} were committed", history.len());
    check(history, &aborted, level).unwrap();
}

/// Returns the number of transactions.
fn pessimistic_for_update(seed: u64) -> usize {
    let db = pessimistic(&TransactionDbOptions::default());
    let options = TransactionOptions {
        deadlock_detect: true,
        lock_timeout: 60_000,
        ..TransactionOptions::default()
    };
    let begin = || db.begin_with(&cairn_options::WriteOptions::default(), &options);
    let found = history(db.db(), begin, Reads::ForUpdate, seed);
    must_hold(&found, Level::Serializable);
    assert!(db.lock_status().is_empty());
    found.len()
}

/// Like `pessimistic_for_update`, with prepares, of which some are rolled back, and commits past the memtable if `bypass`.
fn prepared(seed: u64, policy: WritePolicy, bypass: bool) -> usize {
    let db = pessimistic(&TransactionDbOptions {
        write_policy: policy,
        ..TransactionDbOptions::default()
    });
    let options = TransactionOptions {
        deadlock_detect: true,
        lock_timeout: 60_000,
        commit_bypass_memtable: bypass,
        ..TransactionOptions::default()
    };
    let begin = || {
        let mut txn = db.begin_with(&cairn_options::WriteOptions::default(), &options);
        let name = txn.id().to_le_bytes();
        txn.set_name(&name).unwrap();
        txn
    };
    let found = history(db.db(), begin, Reads::ForUpdate, seed);
    must_hold(&found, Level::Serializable);
    assert!(db.prepared_transactions().is_empty());
    found.len()
}

fn pessimistic_at_snapshot(seed: u64, policy: WritePolicy) -> usize {
    let db = pessimistic(&TransactionDbOptions {
        write_policy: policy,
        transaction_lock_timeout: 20,
        ..TransactionDbOptions::default()
    });
    let found = history(db.db(), || db.begin(), Reads::AtSnapshot, seed);
    must_hold(&found, Level::Snapshot);
    assert!(db.lock_status().is_empty());
    found.len()
}

fn optimistic_of(validate_policy: ValidatePolicy, reads: Reads, level: Level, seed: u64) -> usize {
    let db = optimistic(&OptimisticTransactionDbOptions {
        validate_policy,
        occ_lock_buckets: 64,
        ..OptimisticTransactionDbOptions::default()
    });
    let found = history(db.db(), || db.begin(), reads, seed);
    must_hold(&found, level);
    found.len()
}

/// One history of each kind. Returns the number of transactions that were committed.
fn all(seed: u64) -> usize {
    let policies = [ValidatePolicy::Serial, ValidatePolicy::Parallel];
    let optimistic = policies.map(|policy| {
        optimistic_of(policy, Reads::ForUpdate, Level::Serializable, seed)
            + optimistic_of(policy, Reads::AtSnapshot, Level::Snapshot, seed)
    });
    pessimistic_for_update(seed)
        + prepared(seed, WritePolicy::Committed, true)
        + POLICIES
            .map(|policy| prepared(seed, policy, false))
            .iter()
            .sum::<usize>()
        + POLICIES
            .map(|policy| pessimistic_at_snapshot(seed, policy))
            .iter()
            .sum::<usize>()
        + optimistic.iter().sum::<usize>()
}

#[test]
fn pessimistic_transactions_with_reads_for_update_are_serializable() {
    pessimistic_for_update(0);
    prepared(0, WritePolicy::Committed, true);
    for policy in POLICIES {
        prepared(0, policy, false);
    }
}

#[test]
fn pessimistic_transactions_with_a_snapshot_have_snapshot_isolation() {
    for policy in POLICIES {
        pessimistic_at_snapshot(0, policy);
    }
}

#[test]
fn optimistic_transactions_are_serializable_or_have_snapshot_isolation() {
    for policy in [ValidatePolicy::Serial, ValidatePolicy::Parallel] {
        optimistic_of(policy, Reads::ForUpdate, Level::Serializable, 0);
        optimistic_of(policy, Reads::AtSnapshot, Level::Snapshot, 0);
    }
}

/// Further histories. `CAIRN_TRANSACTIONS=5000000 cargo test -p cairn-txn --test it soak -- --nocapture` checks more.
#[test]
fn soak_of_histories() {
    let wanted = std::env::var("CAIRN_TRANSACTIONS").ok();
    let wanted = wanted.and_then(|text| text.parse().ok()).unwrap_or(2_000);
    let (mut done, mut seed) = (0, 1);
    while done < wanted {
        done += all(seed);
        seed += 1;
        if seed % 50 == 0 {
            println!("{done} committed transactions, no anomaly");
        }
    }
    println!("{done} committed transactions, no anomaly");
}
