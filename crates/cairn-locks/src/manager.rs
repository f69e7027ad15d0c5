//! The lock manager: shared and exclusive locks of keys, with a queue of waiting transactions per key.
//!
//! Locked keys are in a table that is divided into stripes by the hash of the key, each under a mutex of its own. A key
//! for which transactions wait is *contended*: its holders and its queue are also part of the wait graph ([`graph`]),
//! under one mutex, so that a search for deadlocks sees all waiting transactions at one point in time.
//!
//! ```text
//! lock, key free            stripe: insert the key
//! lock, key held by others  stripe, graph: join the queue; search for a cycle; wait
//! unlock                    stripe: remove the key; if it is contended, also graph: wake the next, or grant it the lock
//! ```
//!
//! Waiting transactions get the lock in the order in which they came: one exclusive one, or all shared ones before the
//! next exclusive one. A transaction that makes its shared lock exclusive precedes waiting exclusive ones. A lock that
//! becomes free wakes the first of them, but a running transaction may take it before that one runs, since a switch of
//! threads for each lock would take longer than most transactions. Once per [`HANDOVER_NANOS`], the lock is handed over
//! instead, so that none waits forever. The lock of an expired transaction is taken away from it when another
//! transaction waits for it.
//!
//! Invariants:
//!
//! L1. A key is in the table exactly as long as it has holders or waiting transactions.
//! L2. A key is contended exactly as long as its queue is not empty. The holders in the graph are those in the table.
//! L3. An exclusive lock has one holder.
//! L4. A waiting transaction is in one queue and not among the holders that it waits for, except to upgrade.
//! L5. The mutex of a stripe is taken before that of the graph, and no other lock is taken under them, except for the
//! lists of ranges and of transactions that expire.
//! L6. No key is locked that is in a locked range of another owner. Ranges of different owners do not overlap.

mod deadlocks;
#[cfg(all(test, any(loom, shuttle)))]
mod explored;
mod graph;
#[cfg(all(test, loom))]
mod loom_tests;
mod ranges;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
#[cfg(all(test, not(shuttle), not(loom)))]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cairn_platform::Clock;
use cairn_platform::sync::Ordering;
use cairn_types::{Code, Error, Result, Subcode};

pub use deadlocks::{DeadlockInfo, DeadlockPath};
pub use ranges::{Endpoint, Range, RangeLockStatus};

use crate::key::{KeyMap, LockKey};
use crate::owner::{LockTimeout, Owner};
use crate::sync::{AtomicU64, Mutex, MutexGuard};
use deadlocks::Deadlocks;
use graph::{WaitGraph, Waiter};
use ranges::{Deadline, Ranges};

/// The time between two handovers of a contended lock, in nanoseconds.
const HANDOVER_NANOS: u64 = 500_000;

/// A locked key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockStatus {
    /// The id of the column family.
    pub family: u32,
    /// The key.
    pub key: Vec<u8>,
    /// The ids of the transactions that hold the lock.
    pub holders: Vec<u64>,
    /// True if the lock is exclusive.
    pub exclusive: bool,
}

/// The holders of a lock. Most locks have one.
#[derive(Clone, Debug)]
pub(crate) enum Holders {
    One(u64),
    Many(Vec<u64>),
}

impl Holders {
    fn as_slice(&self) -> &[u64] {
        match self {
            Holders::One(id) => std::slice::from_ref(id),
            Holders::Many(ids) => ids,
        }
    }

    fn is_only(&self, id: u64) -> bool {
        self.as_slice() == [id]
    }

    fn contains(&self, id: u64) -> bool {
        self.as_slice().contains(&id)
    }

    fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    fn retain(&mut self, stays: impl Fn(u64) -> bool) {
        match self {
            Holders::One(id) if stays(*id) => {}
            Holders::One(_) => *self = Holders::Many(Vec::new()),
            Holders::Many(ids) => ids.retain(|id| stays(*id)),
        }
    }

    fn add(&mut self, id: u64) {
        match self {
            Holders::One(first) => *self = Holders::Many(vec![*first, id]),
            Holders::Many(ids) if ids.is_empty() => *self = Holders::One(id),
            Holders::Many(ids) => ids.push(id),
        }
    }
}

/// A lock in the table.
struct Held {
    holders: Holders,
    exclusive: bool,
    contended: bool,
}

impl Held {
    /// True if the lock can be given to `id` in addition to its holders.
    fn fits(&self, id: u64, exclusive: bool) -> bool {
        self.holders.is_empty() || self.holders.is_only(id) || (!self.exclusive && !exclusive)
    }

    /// Gives the lock, which fits, to `id`.
    fn give(&mut self, id: u64, exclusive: bool) {
        if !self.holders.contains(id) {
            self.exclusive &= !self.holders.is_empty();
            self.holders.add(id);
        }
        self.exclusive |= exclusive;
        debug_assert!(
            !self.exclusive || self.holders.is_only(id),
            "an exclusive lock has one holder (L3)"
        );
    }
}

/// A request for a lock.
pub struct Request<'a> {
    /// The owner that gets the lock.
    pub owner: &'a Owner,
    /// True for an exclusive lock.
    pub exclusive: bool,
    /// The time to wait; `None` for no limit.
    pub timeout: Option<Duration>,
    /// The number of transactions that a search for a deadlock visits; `None` for no search.
    pub detect: Option<usize>,
}

impl Request<'_> {
    /// The end of the time to wait, given the monotonic time `now` in nanoseconds; `None` for no limit.
    fn deadline(&self, now: u64) -> Option<u64> {
        let nanos = |timeout: Duration| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        self.timeout
            .map(|timeout| now.saturating_add(nanos(timeout)))
    }
}

/// Releases a lock when it is dropped, also by a panic of a comparator or a callback, unless the lock is kept.
pub struct ReleaseOnDrop<F: FnMut()>(F);

impl<F: FnMut()> ReleaseOnDrop<F> {
    /// Creates a guard that calls `release` when it is dropped.
    #[must_use]
    pub fn new(release: F) -> ReleaseOnDrop<F> {
        ReleaseOnDrop(release)
    }

    /// Keeps the lock.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl<F: FnMut()> Drop for ReleaseOnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The way in which a lock was taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// Without a wait for another owner of the key, or from a shared lock that the transaction held.
    AtOnce,
    /// After a wait.
    AfterWait,
}

/// True if `id` holds the lock of `key`, whose stripe is `stripe`.
fn is_held_by(stripe: &KeyMap<Held>, key: &LockKey, id: u64) -> bool {
    stripe
        .get(key)
        .is_some_and(|held| held.holders.contains(id))
}

/// A part of the lock table, on cache lines of its own.
#[repr(align(128))]
struct Stripe(Mutex<KeyMap<Held>>);

/// The locks of one database.
pub struct LockManager {
    stripes: Box<[Stripe]>,
    graph: Mutex<WaitGraph>,
    /// The maximum number of locked keys per family.
    limit: Option<u64>,
    /// The number of locked keys per family, if there is a limit.
    counts: Mutex<HashMap<u32, u64>>,
    /// The transactions that expire, by id.
    expiring: Mutex<HashMap<u64, Arc<Owner>>>,
    deadlocks: Mutex<Deadlocks>,
    ranges: Ranges,
    clock: Arc<dyn Clock>,
    next_id: AtomicU64,
}

impl LockManager {
    /// Creates a lock manager without locks. The number of stripes is rounded up to a power of two.
    #[must_use]
    pub fn new(
        stripes: usize,
        limit: Option<u64>,
        deadlocks: u32,
        clock: Arc<dyn Clock>,
    ) -> LockManager {
        let stripes = stripes.clamp(1, 1 << 16).next_power_of_two();
        LockManager {
            stripes: (0..stripes)
                .map(|_| Stripe(Mutex::new(KeyMap::default())))
                .collect(),
            graph: Mutex::new(WaitGraph::default()),
            limit,
            counts: Mutex::new(HashMap::new()),
            expiring: Mutex::new(HashMap::new()),
            deadlocks: Mutex::new(Deadlocks::new(deadlocks)),
            ranges: Ranges::new(),
            clock,
            next_id: AtomicU64::new(1),
        }
    }

    /// Returns the id of a new owner.
    pub fn next_id(&self) -> u64 {
        // Relaxed: ids are only compared.
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The clock of timeouts and expirations.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Registers a transaction that expires.
    pub fn register(&self, owner: &Arc<Owner>) {
        self.expiring.lock().insert(owner.id, owner.clone());
    }

    /// Ends the registration of a transaction, which does not expire any more.
    pub fn unregister(&self, id: u64) {
        self.expiring.lock().remove(&id);
    }

    #[inline]
    fn stripe(&self, key: &LockKey) -> MutexGuard<'_, KeyMap<Held>> {
        // The map of the stripe uses the other bits.
        let at = (key.hash() >> 32) as usize & (self.stripes.len() - 1);
        self.stripes[at].0.lock()
    }

    /// Locks `key`, or makes the lock of the owner exclusive.
    ///
    /// # Errors
    ///
    /// `TimedOut` with `LockTimeout`; `Busy` with `Deadlock`; `Aborted` with `LockLimit`.
    pub fn lock(&self, key: &LockKey, request: &Request<'_>) -> Result<()> {
        match self.lock_once(key, request)? {
            None => Ok(()),
            Some(range) => self.lock_in_range(key, range, request),
        }
    }

    /// Locks `key` once the ranges of other owners that contain it, of which one is `range`, are unlocked.
    #[cold]
    fn lock_in_range(
        &self,
        key: &LockKey,
        mut range: LockKey,
        request: &Request<'_>,
    ) -> Result<()> {
        let deadline = Deadline::of(self, request);
        loop {
            self.wait_for(&range, request, &deadline)?;
            let request = Request {
                timeout: deadline.left(self),
                ..*request
            };
            match self.lock_once(key, &request)? {
                None => return Ok(()),
                Some(next) => range = next,
            }
        }
    }

    /// Locks `key`, unless it is in a range of another owner: returns the key of that range.
    fn lock_once(&self, key: &LockKey, request: &Request<'_>) -> Result<Option<LockKey>> {
        let stripe = self.stripe(key);
        let id = request.owner.id;
        if let Some(range) = self.ranges.blocking(key, id)
            && !is_held_by(&stripe, key, id)
        {
            return Ok(Some(range));
        }
        if self.lock_in(stripe, key, request)? != Taken::AfterWait {
            return Ok(None);
        }
        let taken = ReleaseOnDrop::new(|| self.unlock(key, id));
        // While it waited, a range may have been locked by the owner from which it got the lock.
        let range = self.ranges.blocking(key, id);
        if range.is_none() {
            taken.keep();
        }
        Ok(range)
    }

    /// True if `id` holds the lock of `key`.
    fn holds(&self, key: &LockKey, id: u64) -> bool {
        is_held_by(&self.stripe(key), key, id)
    }

    /// Locks `key`, whose stripe is `stripe`.
    fn lock_in(
        &self,
        mut stripe: MutexGuard<'_, KeyMap<Held>>,
        key: &LockKey,
        request: &Request<'_>,
    ) -> Result<Taken> {
        let id = request.owner.id;
        let Some(held) = stripe.get_mut(key) else {
            self.count(key.family())?;
            let held = Held {
                holders: Holders::One(id),
                exclusive: request.exclusive,
                contended: false,
            };
            stripe.insert(key.clone(), held);
            return Ok(Taken::AtOnce);
        };
        if self.take(key, held, request) {
            return Ok(Taken::AtOnce);
        }
        if self.steal(held) {
            if held.contended {
                let mut graph = self.graph.lock();
                self.grant(&mut stripe, &mut graph, key);
            }
            let held = stripe.get_mut(key);
            if held.is_some_and(|held| self.take(key, held, request)) {
                return Ok(Taken::AtOnce);
            }
        }
        if request.timeout == Some(Duration::ZERO) {
            let holders = stripe
                .get(key)
                .map_or_else(Vec::new, |held| held.holders.as_slice().to_vec());
            drop(stripe);
            return Err(timed_out(key, holders, request));
        }
        let taken = match is_held_by(&stripe, key, id) {
            true => Taken::AtOnce,
            false => Taken::AfterWait,
        };
        self.wait(stripe, key, request).map(|()| taken)
    }

    /// Takes the lock `held` of `key` if it is free for the owner of `request`.
    #[inline]
    fn take(&self, key: &LockKey, held: &mut Held, request: &Request<'_>) -> bool {
        let id = request.owner.id;
        if held.holders.contains(id) && (held.exclusive || !request.exclusive) {
            return true;
        }
        // A transaction does not join holders before those that wait, but may take a free lock, or upgrade the only one.
        let is_free = held.holders.is_empty() || held.holders.is_only(id);
        let fits = is_free || (!held.contended && held.fits(id, request.exclusive));
        if fits {
            held.give(id, request.exclusive);
            self.update_graph(key, held);
        }
        fits
    }

    /// Waits for the lock of `key`, whose stripe is `stripe`.
    #[cold]
    fn wait(
        &self,
        mut stripe: MutexGuard<'_, KeyMap<Held>>,
        key: &LockKey,
        request: &Request<'_>,
    ) -> Result<()> {
        let id = request.owner.id;
        request.owner.set_last_timeout(None);
        let now = self.clock.monotonic_nanos();
        let deadline = request.deadline(now);
        let mut graph = self.graph.lock();
        let held = stripe
            .get_mut(key)
            .expect("a lock that is waited for is held");
        held.contended = true;
        let waiter = Arc::new(Waiter::new(request.owner, request.exclusive));
        let handover = now.saturating_add(HANDOVER_NANOS);
        graph.join(
            key,
            (&held.holders, held.exclusive),
            handover,
            waiter.clone(),
        );
        drop(stripe);
        if let Some(depth) = request.detect
            && let Some(deadlock) = graph.find_deadlock(id, depth)
        {
            drop(graph);
            return match self.leave(key, id, &waiter) {
                true => Ok(()),
                false => {
                    self.deadlocks
                        .lock()
                        .add(deadlock, self.clock.wall_seconds());
                    let text = "waiting for the lock of a key would complete a cycle";
                    Err(Error::new(Code::Busy, Subcode::Deadlock, text))
                }
            };
        }
        loop {
            if waiter.is_granted() {
                return Ok(());
            }
            if graph.is_free_for(key, id) {
                // It became free after the last check, when no thread waited for the signal.
                drop(graph);
                self.reassign(key);
                graph = self.graph.lock();
                continue;
            }
            let now = self.clock.monotonic_nanos();
            if deadline.is_some_and(|deadline| deadline <= now) {
                break;
            }
            // Holders that have expired but are being committed are checked again after a millisecond.
            let soon = now.saturating_add(1_000_000);
            let expiry = self.expiry(&graph, key).map(|expiry| expiry.max(soon));
            let until = [deadline, expiry].into_iter().flatten().min();
            let limit = until.map(|until| Duration::from_nanos(until.saturating_sub(now)));
            let (guard, notified) = waiter.changed.wait(graph, limit);
            graph = guard;
            if waiter.is_granted() {
                return Ok(());
            }
            drop(graph);
            // The lock is free, or its holders may have expired.
            self.reassign(key);
            graph = self.graph.lock();
            // The time has passed, although the clock may be a simulated one.
            if !notified && until == deadline {
                break;
            }
        }
        let holders = graph.holders(key).to_vec();
        drop(graph);
        match self.leave(key, id, &waiter) {
            true => Ok(()),
            false => Err(timed_out(key, holders, request)),
        }
    }

    /// Removes a waiter from the queue of `key`. Returns true if it was granted the lock instead.
    fn leave(&self, key: &LockKey, id: u64, waiter: &Waiter) -> bool {
        let mut stripe = self.stripe(key);
        let mut graph = self.graph.lock();
        if waiter.is_granted() {
            return true;
        }
        graph.leave(key, id);
        self.grant(&mut stripe, &mut graph, key);
        // The next one may have been told of earlier holders only: these may be ones that expire.
        graph.wake_first(key);
        false
    }

    /// The earliest time at which a holder of `key` expires.
    fn expiry(&self, graph: &WaitGraph, key: &LockKey) -> Option<u64> {
        let expiring = self.expiring.lock();
        if expiring.is_empty() {
            return None;
        }
        let holders = graph.holders(key).iter();
        holders
            .filter_map(|id| Some(expiring.get(id)?.expires))
            .min()
    }

    /// Takes the lock of `key` away from holders that have expired, and grants it to waiting transactions if it fits.
    fn reassign(&self, key: &LockKey) {
        let mut stripe = self.stripe(key);
        let mut graph = self.graph.lock();
        if let Some(held) = stripe.get_mut(key) {
            self.steal(held);
            self.grant(&mut stripe, &mut graph, key);
        }
    }

    /// Removes the holders of `held` that have expired. Returns true if there were any.
    fn steal(&self, held: &mut Held) -> bool {
        let expiring = self.expiring.lock();
        if expiring.is_empty() {
            return false;
        }
        let now = self.clock.monotonic_nanos();
        let before = held.holders.as_slice().len();
        held.holders
            .retain(|id| !expiring.get(&id).is_some_and(|owner| owner.steal(now)));
        held.exclusive &= !held.holders.is_empty();
        held.holders.as_slice().len() < before
    }

    /// Releases the lock of the owner `id`, unless it was stolen.
    pub fn unlock(&self, key: &LockKey, id: u64) {
        let mut stripe = self.stripe(key);
        let Some(held) = stripe.get_mut(key) else {
            return;
        };
        if !held.contended && held.holders.is_only(id) {
            stripe.remove(key);
            self.uncount(key.family());
            return;
        }
        if !held.holders.contains(id) {
            return;
        }
        held.holders.retain(|holder| holder != id);
        held.exclusive &= !held.holders.is_empty();
        if held.contended {
            let mut graph = self.graph.lock();
            if held.holders.is_empty() && !graph.hands_over(key, || self.clock.monotonic_nanos()) {
                graph.set_holders(key, &held.holders, held.exclusive);
                graph.wake_first(key);
            } else {
                self.grant(&mut stripe, &mut graph, key);
            }
        }
    }

    /// Makes the exclusive lock of the owner `id` a shared one.
    pub fn downgrade(&self, key: &LockKey, id: u64) {
        let mut stripe = self.stripe(key);
        let Some(held) = stripe.get_mut(key).filter(|held| held.holders.is_only(id)) else {
            return;
        };
        held.exclusive = false;
        if held.contended {
            let mut graph = self.graph.lock();
            self.grant(&mut stripe, &mut graph, key);
        }
    }

    /// Copies the holders of a changed lock to the graph, if it is contended.
    fn update_graph(&self, key: &LockKey, held: &Held) {
        if held.contended {
            let mut graph = self.graph.lock();
            graph.set_holders(key, &held.holders, held.exclusive);
        }
    }

    /// Grants the contended lock of `key` to the waiting transactions that it fits, and removes it if no transaction
    /// holds it or waits for it.
    fn grant(&self, stripe: &mut KeyMap<Held>, graph: &mut WaitGraph, key: &LockKey) {
        let Some(held) = stripe.get_mut(key) else {
            return;
        };
        while let Some(first) = graph.first(key)
            && held.fits(first.id, first.exclusive)
        {
            let first = graph.take_first(key);
            held.give(first.id, first.exclusive);
        }
        held.contended = graph.set_holders(key, &held.holders, held.exclusive);
        if held.holders.is_empty() {
            debug_assert!(
                !held.contended,
                "a free lock is granted to the first waiter"
            );
            stripe.remove(key);
            self.uncount(key.family());
        }
    }

    /// Counts a locked key.
    fn count(&self, family: u32) -> Result<()> {
        let Some(limit) = self.limit else {
            return Ok(());
        };
        let mut counts = self.counts.lock();
        let count = counts.entry(family).or_insert(0);
        if *count >= limit {
            let text = format!("{limit} keys of column family {family} are locked");
            return Err(Error::new(Code::Aborted, Subcode::LockLimit, text));
        }
        *count += 1;
        Ok(())
    }

    fn uncount(&self, family: u32) {
        if self.limit.is_some()
            && let Some(count) = self.counts.lock().get_mut(&family)
        {
            debug_assert!(*count > 0, "a key that is unlocked was counted");
            *count = count.saturating_sub(1);
        }
    }

    /// The locked keys, in the order of families and bytes.
    #[must_use]
    pub fn status(&self) -> Vec<LockStatus> {
        let mut found = Vec::new();
        for stripe in &self.stripes {
            let stripe = stripe.0.lock();
            let keys = stripe.iter().filter(|(key, _)| !key.is_range());
            found.extend(keys.map(|(key, held)| LockStatus {
                family: key.family(),
                key: key.bytes().to_vec(),
                holders: held.holders.as_slice().to_vec(),
                exclusive: held.exclusive,
            }));
        }
        found.sort_by(|a, b| (a.family, &a.key).cmp(&(b.family, &b.key)));
        found
    }

    /// The key for which the transaction `id` waits, and the holders of its lock.
    #[must_use]
    pub fn waits_for(&self, id: u64) -> Option<LockStatus> {
        let graph = self.graph.lock();
        let (key, exclusive) = graph.waits_for(id)?;
        Some(LockStatus {
            family: key.family(),
            key: key.bytes().to_vec(),
            holders: graph.holders(key).to_vec(),
            exclusive,
        })
    }

    /// The most recent deadlocks, newest first.
    #[must_use]
    pub fn deadlocks(&self) -> Vec<DeadlockPath> {
        self.deadlocks.lock().list()
    }

    /// Sets the number of deadlocks that are kept.
    pub fn set_deadlock_buffer(&self, size: u32) {
        self.deadlocks.lock().resize(size);
    }

    /// True if no key is locked and no transaction waits.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        let counted = self.counts.lock().values().any(|count| *count > 0);
        self.range_status().is_empty()
            && self.status().is_empty()
            && self.graph.lock().is_empty()
            && !counted
    }
}

/// Records in the owner of `request` that the lock of `key`, held by `holders`, was not free in time. Returns the error.
#[cold]
fn timed_out(key: &LockKey, mut holders: Vec<u64>, request: &Request<'_>) -> Error {
    // A transaction that could not make its shared lock exclusive is itself a holder.
    holders.retain(|holder| *holder != request.owner.id);
    request.owner.set_last_timeout(Some(LockTimeout {
        family: key.family(),
        key: key.bytes().to_vec(),
        holders,
    }));
    let text = "the key is locked by another transaction";
    Error::new(Code::TimedOut, Subcode::LockTimeout, text)
}
