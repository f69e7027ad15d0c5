//! The lock manager: modes, order, timeouts, deadlocks, limits and expiration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize};

use cairn_platform::World;
use cairn_types::KeyOrder;
use proptest::prelude::*;

use super::*;
use crate::owner::TransactionState;

const SHARED: bool = false;
const EXCLUSIVE: bool = true;

fn manager() -> LockManager {
    LockManager::new(4, None, 5, World::posix().clock)
}

fn key(n: usize) -> LockKey {
    LockKey::new(0, format!("key{n}").as_bytes())
}

fn owner(id: u64) -> Owner {
    Owner::new(id, 0)
}

fn lock(locks: &LockManager, id: u64, n: usize, exclusive: bool, millis: u64) -> Result<()> {
    let owner = owner(id);
    locks.lock(
        &key(n),
        &Request {
            owner: &owner,
            exclusive,
            timeout: Some(Duration::from_millis(millis)),
            detect: Some(50),
        },
    )
}

fn waits(locks: &LockManager, id: u64) {
    while locks.waits_for(id).is_none() {
        std::thread::yield_now();
    }
}

fn is_timeout(result: &Result<()>) -> bool {
    let error = result.as_ref().expect_err("the key is locked");
    (error.code(), error.subcode()) == (Code::TimedOut, Subcode::LockTimeout)
}

fn is_deadlock(result: &Result<()>) -> bool {
    result
        .as_ref()
        .is_err_and(|error| (error.code(), error.subcode()) == (Code::Busy, Subcode::Deadlock))
}

#[test]
fn shared_locks_exclude_exclusive_ones_and_can_be_upgraded() {
    let locks = manager();
    lock(&locks, 1, 0, SHARED, 0).unwrap();
    lock(&locks, 2, 0, SHARED, 0).unwrap();
    assert!(is_timeout(&lock(&locks, 3, 0, EXCLUSIVE, 0)));
    assert!(is_timeout(&lock(&locks, 1, 0, EXCLUSIVE, 0)));
    locks.unlock(&key(0), 2);
    lock(&locks, 1, 0, EXCLUSIVE, 0).unwrap();
    assert!(is_timeout(&lock(&locks, 2, 0, SHARED, 5)));
    let status = locks.status();
    assert_eq!((status.len(), status[0].exclusive), (1, true));
    assert_eq!(status[0].holders, [1]);
    locks.downgrade(&key(0), 1);
    lock(&locks, 2, 0, SHARED, 0).unwrap();
    locks.unlock(&key(0), 1);
    locks.unlock(&key(0), 2);
    locks.unlock(&key(0), 2);
    assert!(locks.is_idle());
}

#[test]
fn an_owner_keeps_the_last_lock_that_was_not_free_in_time() {
    let locks = manager();
    lock(&locks, 1, 0, SHARED, 0).unwrap();
    lock(&locks, 2, 0, SHARED, 0).unwrap();
    lock(&locks, 1, 1, EXCLUSIVE, 0).unwrap();
    let two = owner(2);
    let take = |n, millis| {
        let request = Request {
            owner: &two,
            exclusive: EXCLUSIVE,
            timeout: Some(Duration::from_millis(millis)),
            detect: None,
        };
        locks.lock(&key(n), &request)
    };
    let timeout_of = |n| {
        Some(LockTimeout {
            family: 0,
            key: key(n).bytes().to_vec(),
            holders: vec![1],
        })
    };
    assert_eq!(two.last_timeout(), None);
    for (n, millis) in [(0, 0), (1, 1), (1, 0), (0, 1)] {
        assert!(is_timeout(&take(n, millis)));
        assert_eq!(two.last_timeout(), timeout_of(n), "{millis} ms");
    }
    take(2, 1).unwrap();
    assert_eq!(two.last_timeout(), timeout_of(0), "it did not wait");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| take(1, 60_000));
        waits(&locks, 2);
        locks.unlock(&key(1), 1);
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(two.last_timeout(), None);
}

#[test]
fn waiters_get_the_lock_in_their_order_and_shared_ones_together() {
    let locks = manager();
    lock(&locks, 1, 0, EXCLUSIVE, 0).unwrap();
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (id, exclusive) in [(2, EXCLUSIVE), (3, SHARED), (4, SHARED), (5, EXCLUSIVE)] {
            let (locks, order) = (&locks, &order);
            scope.spawn(move || {
                lock(locks, id, 0, exclusive, 10_000).unwrap();
                order.lock().push(id);
                if !exclusive {
                    // Both hold the lock at the same time.
                    while locks.status()[0].holders.len() < 2 && !order.lock().contains(&5) {
                        std::thread::yield_now();
                        if order.lock().iter().filter(|id| [3, 4].contains(id)).count() == 2 {
                            break;
                        }
                    }
                }
                locks.unlock(&key(0), id);
            });
            waits(locks, id);
        }
        locks.unlock(&key(0), 1);
    });
    let order = order.into_inner();
    assert_eq!((order[0], order[3]), (2, 5));
    assert!(locks.is_idle());
}

#[test]
fn an_upgrade_precedes_exclusive_waiters() {
    let locks = manager();
    lock(&locks, 1, 0, SHARED, 0).unwrap();
    lock(&locks, 2, 0, SHARED, 0).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            lock(&locks, 3, 0, EXCLUSIVE, 10_000).unwrap();
            assert!(done.load(Ordering::SeqCst), "the upgrade came first");
            locks.unlock(&key(0), 3);
        });
        waits(&locks, 3);
        scope.spawn(|| {
            lock(&locks, 1, 0, EXCLUSIVE, 10_000).unwrap();
            done.store(true, Ordering::SeqCst);
            locks.unlock(&key(0), 1);
        });
        waits(&locks, 1);
        locks.unlock(&key(0), 2);
    });
    assert!(locks.is_idle());
}

#[test]
fn a_timeout_takes_the_waiter_out_of_the_queue_and_lets_those_behind_it_in() {
    let locks = manager();
    lock(&locks, 1, 0, SHARED, 0).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(is_timeout(&lock(&locks, 2, 0, EXCLUSIVE, 50))));
        waits(&locks, 2);
        let began = locks.clock().monotonic_nanos();
        lock(&locks, 3, 0, SHARED, 10_000).unwrap();
        assert!(locks.clock().monotonic_nanos() - began < 5_000_000_000);
    });
    locks.unlock(&key(0), 1);
    locks.unlock(&key(0), 3);
    assert!(locks.is_idle());
}

#[test]
fn two_upgrades_of_one_key_are_a_deadlock() {
    let locks = manager();
    lock(&locks, 1, 0, SHARED, 0).unwrap();
    lock(&locks, 2, 0, SHARED, 0).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| lock(&locks, 1, 0, EXCLUSIVE, 10_000).unwrap());
        waits(&locks, 1);
        assert!(is_deadlock(&lock(&locks, 2, 0, EXCLUSIVE, 10_000)));
        locks.unlock(&key(0), 2);
    });
    locks.unlock(&key(0), 1);
    assert!(locks.is_idle());
    let paths = locks.deadlocks();
    assert_eq!(paths.len(), 1);
    let ids: Vec<u64> = paths[0].path.iter().map(|info| info.transaction).collect();
    assert_eq!(ids, [2, 1]);
    assert!(!paths[0].limit_exceeded);
}

#[test]
fn a_search_that_visits_too_many_transactions_assumes_a_deadlock() {
    let locks = manager();
    for n in 0..4 {
        lock(&locks, n as u64 + 1, n, EXCLUSIVE, 0).unwrap();
    }
    std::thread::scope(|scope| {
        for n in 0..3 {
            let locks = &locks;
            scope.spawn(move || {
                lock(locks, n as u64 + 1, n + 1, EXCLUSIVE, 10_000).unwrap();
                locks.unlock(&key(n + 1), n as u64 + 1);
                locks.unlock(&key(n), n as u64 + 1);
            });
            waits(locks, n as u64 + 1);
        }
        lock(&locks, 9, 9, EXCLUSIVE, 0).unwrap();
        scope.spawn(|| {
            lock(&locks, 10, 9, EXCLUSIVE, 10_000).unwrap();
            locks.unlock(&key(9), 10);
        });
        waits(&locks, 10);
        let owner = owner(9);
        let shallow = locks.lock(
            &key(0),
            &Request {
                owner: &owner,
                exclusive: true,
                timeout: None,
                detect: Some(2),
            },
        );
        assert!(is_deadlock(&shallow));
        locks.unlock(&key(9), 9);
        locks.unlock(&key(3), 4);
    });
    assert!(locks.is_idle());
    assert!(locks.deadlocks()[0].limit_exceeded);
    locks.set_deadlock_buffer(0);
    assert!(locks.deadlocks().is_empty());
}

#[test]
fn a_transaction_that_none_waits_for_is_in_no_deadlock_however_long_the_queue() {
    let mut graph = WaitGraph::default();
    let holders = Holders::One(1);
    for id in 2..=51 {
        let waiter = Arc::new(Waiter::new(&owner(id), true));
        graph.join(&key(0), (&holders, true), 0, waiter);
        assert!(graph.find_deadlock(id, 50).is_none(), "{id}");
    }
    // One that upgrades its shared lock precedes the others, which wait for it.
    let holders = Holders::Many(vec![1, 2]);
    let waiter = |id, exclusive| Arc::new(Waiter::new(&owner(id), exclusive));
    let mut graph = WaitGraph::default();
    graph.join(&key(1), (&holders, false), 0, waiter(3, true));
    assert!(graph.find_deadlock(3, 1).is_none());
    graph.join(&key(1), (&holders, false), 0, waiter(2, true));
    let assumed = graph.find_deadlock(2, 1);
    assert!(matches!(assumed, Some(graph::Deadlock::Assumed)));
}

#[test]
fn the_limit_counts_locked_keys_per_family() {
    let locks = LockManager::new(1, Some(2), 5, World::posix().clock);
    lock(&locks, 1, 0, SHARED, 0).unwrap();
    lock(&locks, 2, 0, SHARED, 0).unwrap();
    lock(&locks, 1, 1, EXCLUSIVE, 0).unwrap();
    let error = lock(&locks, 1, 2, EXCLUSIVE, 0).unwrap_err();
    assert_eq!(
        (error.code(), error.subcode()),
        (Code::Aborted, Subcode::LockLimit)
    );
    locks.unlock(&key(1), 1);
    lock(&locks, 1, 2, EXCLUSIVE, 0).unwrap();
    for (id, n) in [(1, 0), (2, 0), (1, 2)] {
        locks.unlock(&key(n), id);
    }
    assert!(locks.is_idle());
}

#[test]
fn the_locks_of_an_expired_transaction_are_stolen_unless_it_commits() {
    let locks = manager();
    let soon = || locks.clock().monotonic_nanos() + 20_000_000;
    let expiring = Arc::new(Owner::new(7, soon()));
    locks.register(&expiring);
    let request = Request {
        owner: &expiring,
        exclusive: true,
        timeout: None,
        detect: None,
    };
    locks.lock(&key(0), &request).unwrap();
    locks.lock(&key(1), &request).unwrap();
    assert!(is_timeout(&lock(&locks, 1, 0, EXCLUSIVE, 1)));
    lock(&locks, 1, 0, EXCLUSIVE, 10_000).unwrap();
    assert_eq!(expiring.state(), TransactionState::LocksStolen);
    lock(&locks, 1, 1, EXCLUSIVE, 0).unwrap();
    locks.unlock(&key(0), 7);
    assert!(is_timeout(&lock(&locks, 2, 0, EXCLUSIVE, 1)));
    locks.unregister(7);

    let committing = Arc::new(Owner::new(8, soon()));
    locks.register(&committing);
    let request = Request {
        owner: &committing,
        ..request
    };
    locks.lock(&key(2), &request).unwrap();
    assert!(committing.leave_started(TransactionState::AwaitingCommit));
    assert!(is_timeout(&lock(&locks, 1, 2, EXCLUSIVE, 60)));
    locks.unlock(&key(2), 8);
    locks.unlock(&key(0), 1);
    locks.unlock(&key(1), 1);
    assert!(locks.is_idle());
}

/// Regression: a waiter was not told that a transaction that expires had taken the lock, after the waiter before it left. It
/// waited for a release of the lock, which an abandoned transaction never makes.
#[test]
fn a_waiter_gets_the_lock_of_an_expired_transaction_that_took_it_before_an_earlier_waiter() {
    let locks = manager();
    let key = key(0);
    let waiting = || {
        let graph = locks.graph.lock();
        graph.queue_len(&key)
    };
    let mut won = false;
    while !won {
        lock(&locks, 1, 0, EXCLUSIVE, 0).unwrap();
        let expires = locks.clock().monotonic_nanos() + 300_000_000;
        let expiring = Arc::new(Owner::new(9, expires));
        locks.register(&expiring);
        let wait_for = |waiters: usize| {
            while waiting() < waiters {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            let first = scope.spawn(|| lock(&locks, 4, 0, EXCLUSIVE, 20_000));
            wait_for(1);
            let impatient = scope.spawn(|| lock(&locks, 2, 0, EXCLUSIVE, 100));
            wait_for(2);
            let patient = scope.spawn(|| {
                let began = locks.clock().monotonic_nanos();
                let taken = lock(&locks, 3, 0, EXCLUSIVE, 20_000);
                (taken, locks.clock().monotonic_nanos() - began)
            });
            wait_for(3);
            locks.clock().sleep(Duration::from_millis(1));
            // It is handed over, and after that free.
            locks.unlock(&key, 1);
            locks.unlock(&key, 4);
            let at_once = Request {
                owner: &expiring,
                exclusive: true,
                timeout: Some(Duration::ZERO),
                detect: None,
            };
            // The next waiter may be faster.
            won = locks.lock(&key, &at_once).is_ok();
            first.join().expect("no panic").unwrap();
            locks.unlock(&key, 4);
            if impatient.join().expect("no panic").is_ok() {
                locks.unlock(&key, 2);
            }
            let (taken, nanos) = patient.join().expect("no panic");
            taken.unwrap();
            assert!(nanos < 10_000_000_000, "{nanos}");
            locks.unlock(&key, 3);
        });
        locks.unregister(9);
    }
    assert!(locks.is_idle());
}

/// Returns an owner of `locks` that has just expired and holds what `take` locks.
fn expired(locks: &LockManager, id: u64, take: impl FnOnce(&Request<'_>)) -> Arc<Owner> {
    let owner = Arc::new(Owner::new(id, locks.clock().monotonic_nanos() + 1));
    locks.register(&owner);
    let request = Request {
        owner: &owner,
        exclusive: true,
        timeout: Some(Duration::ZERO),
        detect: None,
    };
    take(&request);
    locks.clock().sleep(Duration::from_millis(1));
    owner
}

#[test]
fn a_lock_without_a_wait_is_taken_from_expired_owners_of_ranges() {
    let locks = manager();
    let range = |request: &Request<'_>, start: &[u8], end: &[u8]| {
        let ends = (Endpoint::at(start), Endpoint::at(end));
        locks.lock_range(0, &KeyOrder::Bytewise, ends, request)
    };
    expired(&locks, 7, |request| {
        range(request, b"key0", b"key3").unwrap();
    });
    expired(&locks, 8, |request| {
        range(request, b"key5", b"key6").unwrap();
    });
    let owner = owner(1);
    let now = Request {
        owner: &owner,
        exclusive: true,
        timeout: Some(Duration::ZERO),
        detect: None,
    };
    locks.lock(&key(2), &now).unwrap();
    let taken = range(&now, b"key1", b"key9").unwrap();
    assert_eq!(locks.range_status().len(), 1);
    let other = lock(&locks, 2, 4, EXCLUSIVE, 0);
    assert!(is_timeout(&other));
    locks.unlock_range(&taken);
    locks.unlock(&key(2), 1);
    assert!(locks.is_idle());
}

#[test]
fn a_lock_without_a_wait_is_taken_from_an_expired_holder_of_a_contended_key() {
    let locks = manager();
    expired(&locks, 7, |request| locks.lock(&key(0), request).unwrap());
    // A waiter that has not run since the lock expired.
    let mut stripe = locks.stripe(&key(0));
    stripe.get_mut(&key(0)).unwrap().contended = true;
    let waiter = Arc::new(Waiter::new(&owner(2), SHARED));
    let holders = (&Holders::One(7), true);
    let mut graph = locks.graph.lock();
    graph.join(&key(0), holders, 0, waiter.clone());
    drop((graph, stripe));
    lock(&locks, 3, 0, SHARED, 0).unwrap();
    assert!(waiter.is_granted(), "it came first");
    assert_eq!(locks.status()[0].holders, [2, 3]);
    locks.unlock(&key(0), 2);
    locks.unlock(&key(0), 3);
    assert!(locks.is_idle());
}

#[test]
fn a_wait_for_a_range_is_a_part_of_the_time_to_wait_for_its_keys() {
    let locks = manager();
    let holder = owner(1);
    let request = Request {
        owner: &holder,
        exclusive: true,
        timeout: Some(Duration::ZERO),
        detect: None,
    };
    let ends = (Endpoint::at(b"key0"), Endpoint::at(b"key3"));
    let range = locks
        .lock_range(0, &KeyOrder::Bytewise, ends, &request)
        .unwrap();
    locks.lock(&key(2), &request).unwrap();
    std::thread::scope(|scope| {
        let began = locks.clock().monotonic_nanos();
        let waiting = scope.spawn(|| lock(&locks, 2, 2, EXCLUSIVE, 1000));
        waits(&locks, 2);
        locks.clock().sleep(Duration::from_millis(700));
        // Now it waits for the key.
        locks.unlock_range(&range);
        assert!(is_timeout(&waiting.join().unwrap()));
        assert!(locks.clock().monotonic_nanos() - began < 1_600_000_000);
    });
    locks.unlock(&key(2), 1);
    assert!(locks.is_idle());
}

#[test]
fn an_exclusive_lock_has_one_holder_under_contention() {
    let locks = manager();
    let inside = [const { AtomicUsize::new(0) }; 3];
    std::thread::scope(|scope| {
        for id in 1..=4_u64 {
            let (locks, inside) = (&locks, &inside);
            scope.spawn(move || {
                for round in 0..500_usize {
                    let n = (round + id as usize) % 3;
                    let exclusive = round % 3 > 0;
                    if lock(locks, id, n, exclusive, 10_000).is_err() {
                        continue;
                    }
                    let weight = if exclusive { 100 } else { 1 };
                    let before = inside[n].fetch_add(weight, Ordering::SeqCst);
                    assert!(if exclusive { before == 0 } else { before < 100 });
                    inside[n].fetch_sub(weight, Ordering::SeqCst);
                    locks.unlock(&key(n), id);
                }
            });
        }
    });
    assert!(locks.is_idle());
}

/// True if the graph of waiting transactions has a cycle through `from`, computed directly from holders and
/// queues.
fn has_cycle(
    holders: &BTreeMap<usize, BTreeSet<u64>>,
    waiting: &BTreeMap<u64, usize>,
    from: u64,
) -> bool {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(id) = next.pop() {
        let Some(n) = waiting.get(&id) else { continue };
        for holder in holders
            .get(n)
            .into_iter()
            .flatten()
            .filter(|holder| **holder != id)
        {
            if *holder == from {
                return true;
            }
            if seen.insert(*holder) {
                next.push(*holder);
            }
        }
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Transactions lock keys at random, and one after the other waits for a key of another one. A deadlock is reported
    /// exactly when the new edge completes a cycle.
    #[test]
    fn every_deadlock_is_found_and_no_other_is_reported(
        held in prop::collection::vec((0..8_u64, 0..6_usize, any::<bool>()), 1..20),
        waits in prop::collection::vec((0..8_u64, 0..6_usize), 1..12),
    ) {
        let locks = manager();
        let mut holders: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
        for (id, n, exclusive) in held {
            if lock(&locks, id, n, exclusive, 0).is_ok() {
                holders.entry(n).or_default().insert(id);
            }
        }
        // The edges are made without threads: a waiter joins the queue of its key and stays.
        let mut waiting: BTreeMap<u64, usize> = BTreeMap::new();
        let mut graph = locks.graph.lock();
        for (id, n) in waits {
            let others = holders.get(&n).is_some_and(|ids| ids.iter().any(|holder| *holder != id));
            // One exclusive waiter per key, so that queues add no edges.
            if !others || waiting.contains_key(&id) || waiting.values().any(|other| *other == n) {
                continue;
            }
            let status = Holders::Many(holders[&n].iter().copied().collect());
            graph.join(&key(n), (&status, false), 0, Arc::new(Waiter::new(&owner(id), true)));
            waiting.insert(id, n);
            let found = graph.find_deadlock(id, 1000);
            prop_assert_eq!(found.is_some(), has_cycle(&holders, &waiting, id));
            if let Some(deadlock) = found {
                let graph::Deadlock::Cycle(cycle) = deadlock else {
                    panic!("the limit is not reached");
                };
                // Each waits for a key that the next holds.
                for (at, info) in cycle.iter().enumerate() {
                    let next = cycle[(at + 1) % cycle.len()].transaction;
                    let n = waiting[&info.transaction];
                    prop_assert!(key(n).bytes() == &*info.key);
                    prop_assert!(holders[&n].contains(&next));
                }
                graph.leave(&key(n), id);
                graph.set_holders(&key(n), &status, false);
                waiting.remove(&id);
            }
        }
    }

    /// Threads lock random keys in random orders. All of them end: each deadlock is broken by one of them.
    #[test]
    fn transactions_that_lock_at_random_all_end(
        orders in prop::collection::vec(prop::collection::vec((0..4_usize, any::<bool>()), 1..6), 2..5),
    ) {
        let locks = manager();
        std::thread::scope(|scope| {
            for (id, order) in orders.iter().enumerate() {
                let locks = &locks;
                scope.spawn(move || {
                    let id = id as u64 + 1;
                    let mut held = BTreeSet::new();
                    for &(n, exclusive) in order {
                        match lock(locks, id, n, exclusive, 60_000) {
                            Ok(()) => held.insert(n),
                            failed => {
                                assert!(is_deadlock(&failed), "{failed:?}");
                                break;
                            }
                        };
                    }
                    held.iter().for_each(|n| locks.unlock(&key(*n), id));
                });
            }
        });
        prop_assert!(locks.is_idle());
    }
}
