//! The wait graph: the queues of contended keys, and the search for cycles.
//!
//! A transaction waits for the holders of a key, and for those before it in the queue whose requests conflict with its
//! own. Every edge from a transaction exists from the time it joins a queue, or follows from edges that do. The
//! transaction that completes a cycle therefore finds it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use cairn_platform::sync::Ordering;

use super::Holders;
use super::deadlocks::DeadlockInfo;
use crate::key::{KeyMap, LockKey};
use crate::owner::Owner;
use crate::sync::{AtomicU8, Signal};

/// A transaction that waits for a lock.
pub(crate) struct Waiter {
    pub(crate) id: u64,
    pub(crate) exclusive: bool,
    /// True if the transaction expires.
    expires: bool,
    granted: AtomicU8,
    /// Signalled when the lock is granted or free, or its holders change to ones that expire.
    pub(crate) changed: Signal,
}

impl Waiter {
    pub(crate) fn new(owner: &Owner, exclusive: bool) -> Waiter {
        Waiter {
            id: owner.id,
            exclusive,
            expires: owner.expires > 0,
            granted: AtomicU8::new(0),
            changed: Signal::default(),
        }
    }

    /// True if the lock was granted. Changed under the lock of the graph.
    pub(crate) fn is_granted(&self) -> bool {
        self.granted.load(Ordering::Acquire) != 0
    }
}

/// A contended key.
struct KeyQueue {
    holders: Vec<u64>,
    exclusive: bool,
    /// The waiting transactions, in the order in which they get the lock.
    waiters: VecDeque<Arc<Waiter>>,
    /// The time of the next handover, on the monotonic clock in nanoseconds.
    handover: u64,
}

/// The queues of all contended keys.
#[derive(Default)]
pub(crate) struct WaitGraph {
    queues: KeyMap<KeyQueue>,
    /// The key for which each waiting transaction waits.
    waiting: HashMap<u64, LockKey>,
}

/// A deadlock found by a search.
pub(crate) enum Deadlock {
    /// A cycle of waiting transactions, each of which waits for the next.
    Cycle(Vec<DeadlockInfo>),
    /// A deadlock that is assumed, because the limit of the search was reached.
    Assumed,
}

impl WaitGraph {
    /// Adds a waiter for the lock of `key`, which has these holders and, if it is not contended yet, is handed over at
    /// the time `handover`. One that upgrades its lock precedes all exclusive ones.
    pub(crate) fn join(
        &mut self,
        key: &LockKey,
        (holders, exclusive): (&Holders, bool),
        handover: u64,
        waiter: Arc<Waiter>,
    ) {
        let before = self.waiting.insert(waiter.id, key.clone());
        debug_assert!(before.is_none(), "a transaction waits for one lock (L4)");
        let queue = self.queues.entry(key.clone()).or_insert_with(|| KeyQueue {
            holders: holders.as_slice().to_vec(),
            exclusive,
            waiters: VecDeque::new(),
            handover,
        });
        let waiters = &mut queue.waiters;
        let at = match holders.contains(waiter.id) {
            true => waiters.iter().position(|other| other.exclusive),
            false => None,
        };
        waiters.insert(at.unwrap_or(waiters.len()), waiter);
    }

    /// Removes the waiter `id` from the queue of `key`.
    pub(crate) fn leave(&mut self, key: &LockKey, id: u64) {
        self.waiting.remove(&id);
        if let Some(queue) = self.queues.get_mut(key) {
            queue.waiters.retain(|waiter| waiter.id != id);
        }
    }

    /// True if the lock of `key`, which is free, is handed over to the first waiter, at most once in a while.
    pub(crate) fn hands_over(&mut self, key: &LockKey, now: impl FnOnce() -> u64) -> bool {
        let Some(queue) = self.queues.get_mut(key) else {
            return true;
        };
        let now = now();
        let is_due = queue.handover <= now;
        if is_due {
            queue.handover = now.saturating_add(super::HANDOVER_NANOS);
        }
        is_due
    }

    /// True if the lock of `key` is free and `id` is the first waiter for it.
    pub(crate) fn is_free_for(&self, key: &LockKey, id: u64) -> bool {
        let queue = self.queues.get(key);
        queue.is_some_and(|queue| {
            let first = queue.waiters.front();
            queue.holders.is_empty() && first.is_some_and(|first| first.id == id)
        })
    }

    /// The number of waiters for the lock of `key`.
    #[cfg(test)]
    pub(crate) fn queue_len(&self, key: &LockKey) -> usize {
        self.queues.get(key).map_or(0, |queue| queue.waiters.len())
    }

    /// Wakes the first waiter for the lock of `key`, which is free, or has holders that the waiter may not know.
    pub(crate) fn wake_first(&self, key: &LockKey) {
        if let Some(first) = self.first(key) {
            first.changed.notify();
        }
    }

    /// The first waiter for the lock of `key`.
    pub(crate) fn first(&self, key: &LockKey) -> Option<&Waiter> {
        self.queues.get(key)?.waiters.front().map(|first| &**first)
    }

    /// Removes the first waiter for the lock of `key`, which gets the lock, and wakes it.
    pub(crate) fn take_first(&mut self, key: &LockKey) -> Arc<Waiter> {
        let queue = self.queues.get_mut(key);
        let first = queue.and_then(|queue| queue.waiters.pop_front());
        let first = first.expect("a lock is granted to a waiter");
        self.waiting.remove(&first.id);
        first.granted.store(1, Ordering::Release);
        first.changed.notify();
        if first.expires {
            // The others have to take the lock away when it expires.
            let others = self.queues.get(key).into_iter();
            others
                .flat_map(|queue| &queue.waiters)
                .for_each(|waiter| waiter.changed.notify());
        }
        first
    }

    /// Sets the holders of the lock of `key`. Returns true if transactions wait for it.
    pub(crate) fn set_holders(
        &mut self,
        key: &LockKey,
        holders: &Holders,
        exclusive: bool,
    ) -> bool {
        let Some(queue) = self.queues.get_mut(key) else {
            return false;
        };
        if queue.waiters.is_empty() {
            self.queues.remove(key);
            return false;
        }
        queue.holders.clear();
        queue.holders.extend_from_slice(holders.as_slice());
        queue.exclusive = exclusive;
        true
    }

    /// The holders of the lock of `key`, if it is contended.
    pub(crate) fn holders(&self, key: &LockKey) -> &[u64] {
        self.queues.get(key).map_or(&[], |queue| &queue.holders)
    }

    /// The key for which `id` waits, and true if it waits for an exclusive lock.
    pub(crate) fn waits_for(&self, id: u64) -> Option<(&LockKey, bool)> {
        let key = self.waiting.get(&id)?;
        let waiters = &self.queues.get(key)?.waiters;
        let waiter = waiters.iter().find(|waiter| waiter.id == id)?;
        Some((key, waiter.exclusive))
    }

    /// Calls `visit` with the transactions for which `id` waits.
    fn blockers(&self, id: u64, mut visit: impl FnMut(u64)) {
        let Some(queue) = self.waiting.get(&id).and_then(|key| self.queues.get(key)) else {
            return;
        };
        let mine = queue.waiters.iter().find(|waiter| waiter.id == id);
        let exclusive = mine.is_some_and(|waiter| waiter.exclusive);
        let before = queue.waiters.iter().take_while(|waiter| waiter.id != id);
        for waiter in before.filter(|waiter| waiter.exclusive || exclusive) {
            visit(waiter.id);
        }
        if queue.exclusive || exclusive {
            let others = queue.holders.iter().filter(|holder| **holder != id);
            others.for_each(|holder| visit(*holder));
        }
    }

    /// True if a transaction waits for `id`.
    fn is_waited_for(&self, id: u64) -> bool {
        self.queues.values().any(|queue| {
            let waits_for_holder =
                |waiter: &Arc<Waiter>| waiter.id != id && (queue.exclusive || waiter.exclusive);
            if queue.holders.contains(&id) && queue.waiters.iter().any(waits_for_holder) {
                return true;
            }
            let mut from = queue.waiters.iter().skip_while(|waiter| waiter.id != id);
            let own = from.next();
            own.is_some_and(|own| from.any(|later| own.exclusive || later.exclusive))
        })
    }

    /// Searches for a cycle through `from`, visiting at most `depth` transactions. A transaction that no other one waits
    /// for is in no cycle, however many it waits for.
    pub(crate) fn find_deadlock(&self, from: u64, depth: usize) -> Option<Deadlock> {
        let mut came_from: HashMap<u64, u64> = HashMap::new();
        let mut next = VecDeque::from([from]);
        let mut visited = 0;
        while let Some(id) = next.pop_front() {
            if visited == depth {
                return self.is_waited_for(from).then_some(Deadlock::Assumed);
            }
            visited += 1;
            let mut found = false;
            self.blockers(id, |blocker| {
                found |= blocker == from;
                came_from.entry(blocker).or_insert_with(|| {
                    next.push_back(blocker);
                    id
                });
            });
            if found {
                return Some(Deadlock::Cycle(self.path(from, id, &came_from)));
            }
        }
        None
    }

    /// The cycle that begins with `from` and ends with `last`, which waits for `from`.
    fn path(&self, from: u64, last: u64, came_from: &HashMap<u64, u64>) -> Vec<DeadlockInfo> {
        let mut ids = vec![last];
        while let Some(&id) = ids.last()
            && id != from
        {
            ids.push(came_from[&id]);
        }
        let info = |id: &u64| {
            let (key, exclusive) = self.waits_for(*id)?;
            Some(DeadlockInfo {
                transaction: *id,
                family: key.family(),
                exclusive,
                key: key.bytes().to_vec(),
            })
        };
        ids.iter().rev().filter_map(info).collect()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.waiting.is_empty()
    }
}
