//! The lock manager under shuttle: random schedules of transactions that lock, upgrade, wait and unlock. An exclusive
//! lock has one holder, no wake-up is lost, every deadlock is found, and no lock remains.

use std::sync::Arc;

use cairn_platform::World;
use shuttle::thread;

use super::explored::{key, lock};
use super::*;

const SCHEDULES: usize = 6_000;

fn manager() -> Arc<LockManager> {
    Arc::new(LockManager::new(2, None, 5, World::posix().clock))
}

fn explore(work: impl Fn(&LockManager, u64) + Send + Sync + Copy + 'static) {
    let check = move || {
        let locks = manager();
        let threads: Vec<_> = (1..=3)
            .map(|id| {
                let locks = locks.clone();
                thread::spawn(move || work(&locks, id))
            })
            .collect();
        threads.into_iter().for_each(|it| it.join().unwrap());
        assert!(locks.is_idle());
    };
    shuttle::check_random(check, SCHEDULES);
    shuttle::check_pct(check, SCHEDULES, 3);
}

fn holds(locks: &LockManager, id: u64, n: usize, exclusive: bool) {
    let status = locks.status();
    let found = status.iter().find(|status| *status.key == *key(n).bytes());
    let found = found.expect("the key is locked");
    assert!(found.holders.contains(&id));
    assert!(!exclusive || found.holders == [id]);
}

#[test]
fn shuttle_locks_in_opposite_orders() {
    explore(|locks, id| {
        let (first, second) = if id % 2 == 0 { (0, 1) } else { (1, 0) };
        if !lock(locks, id, first, true) {
            return;
        }
        holds(locks, id, first, true);
        if lock(locks, id, second, true) {
            holds(locks, id, second, true);
            locks.unlock(&key(second), id);
        }
        locks.unlock(&key(first), id);
    });
}

#[test]
fn shuttle_upgrades() {
    explore(|locks, id| {
        if !lock(locks, id, 0, id == 3) {
            return;
        }
        holds(locks, id, 0, id == 3);
        if lock(locks, id, 0, true) {
            holds(locks, id, 0, true);
            locks.downgrade(&key(0), id);
            holds(locks, id, 0, false);
        }
        locks.unlock(&key(0), id);
    });
}
