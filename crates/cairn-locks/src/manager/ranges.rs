//! Locks of ranges of keys.
//!
//! A granted range is in a list, and also a key of its own in the lock table, held exclusively by the owner of the range.
//! Other transactions wait for this key, so that the wait graph finds deadlocks without ranges.
//!
//! ```text
//! lock of a key     under the mutex of its stripe: is the key in a range of another owner? then wait for the range, again
//! lock of a range   add it to the list; look for ranges and locked keys of other owners in it;
//!                   if there is one: remove it, wait for that one, again
//! ```
//!
//! The range is in the list before the stripes are searched, one by one under their mutexes: a key that is locked
//! afterwards is found to be in the range. While its owner waits, it is not in the list, and other owners can lock its keys.
//!
//! Locks that were waited for are released at once: only then does the search begin again.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use cairn_format::key::compare_plain;
use cairn_platform::sync::Ordering as Memory;
use cairn_types::{Error, KeyOrder, Result};

use super::{LockManager, ReleaseOnDrop, Request};
use crate::key::LockKey;
use crate::sync::{AtomicU64, Mutex};

/// An end of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The key.
    pub key: Vec<u8>,
    /// True if the end follows all keys that begin with `key`; false if it is `key` itself.
    pub inf_suffix: bool,
}

impl Endpoint {
    /// The key `key`.
    #[must_use]
    pub fn at(key: &[u8]) -> Endpoint {
        Endpoint {
            key: key.to_vec(),
            inf_suffix: false,
        }
    }

    /// The place after all keys that begin with `prefix`.
    #[must_use]
    pub fn after_all(prefix: &[u8]) -> Endpoint {
        Endpoint {
            key: prefix.to_vec(),
            inf_suffix: true,
        }
    }

    /// Compares this end to `other`, which is a key unless it has a suffix.
    fn compare(&self, order: &KeyOrder, other: &[u8], other_suffix: bool) -> Ordering {
        let shared = self.key.len().min(other.len());
        compare_plain(order, &self.key[..shared], &other[..shared]).then_with(|| {
            match self.key.len().cmp(&other.len()) {
                Ordering::Less if self.inf_suffix => Ordering::Greater,
                Ordering::Greater if other_suffix => Ordering::Less,
                Ordering::Equal => self.inf_suffix.cmp(&other_suffix),
                longer => longer,
            }
        })
    }
}

/// A locked range of keys, both ends inclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeLockStatus {
    /// The id of the column family.
    pub family: u32,
    /// The first key.
    pub start: Endpoint,
    /// The last key.
    pub end: Endpoint,
    /// The id of the transaction that holds the lock.
    pub holder: u64,
}

/// A range that is locked, or about to be.
pub struct Range {
    family: u32,
    start: Endpoint,
    end: Endpoint,
    order: KeyOrder,
    owner: u64,
    /// The key of the range in the lock table.
    own_key: LockKey,
}

impl Range {
    fn contains(&self, key: &LockKey) -> bool {
        let (order, bytes) = (&self.order, key.bytes());
        !key.is_range()
            && self.family == key.family()
            && self.start.compare(order, bytes, false).is_le()
            && self.end.compare(order, bytes, false).is_ge()
    }

    fn overlaps(&self, other: &Range) -> bool {
        let (order, start, end) = (&self.order, &other.start, &other.end);
        self.family == other.family
            && self.start.compare(order, &end.key, end.inf_suffix).is_le()
            && self
                .end
                .compare(order, &start.key, start.inf_suffix)
                .is_ge()
    }
}

/// The ranges of a lock manager.
pub(super) struct Ranges {
    list: Mutex<Vec<Arc<Range>>>,
    /// The length of the list.
    count: AtomicU64,
    next_id: AtomicU64,
}

impl Ranges {
    pub(super) fn new() -> Ranges {
        Ranges {
            list: Mutex::new(Vec::new()),
            count: AtomicU64::new(0),
            next_id: AtomicU64::new(1),
        }
    }

    fn add(&self, range: &Arc<Range>) {
        let mut list = self.list.lock();
        list.push(range.clone());
        // SeqCst, like the load: the stripes are searched afterwards.
        self.count.store(list.len() as u64, Memory::SeqCst);
    }

    /// Removes the range whose key is `own_key`.
    fn remove(&self, own_key: &LockKey) {
        let mut list = self.list.lock();
        list.retain(|range| range.own_key != *own_key);
        self.count.store(list.len() as u64, Memory::SeqCst);
    }

    /// The key of a range of another owner than `id` that contains `key`.
    pub(super) fn blocking(&self, key: &LockKey, id: u64) -> Option<LockKey> {
        match self.count.load(Memory::SeqCst) {
            0 => None,
            _ => self.search(|range| range.owner != id && range.contains(key)),
        }
    }

    #[cold]
    fn search(&self, blocks: impl Fn(&Range) -> bool) -> Option<LockKey> {
        let list = self.list.lock();
        let found = list.iter().find(|range| blocks(range));
        found.map(|range| range.own_key.clone())
    }
}

/// The time that is left to wait, from a time on the monotonic clock.
pub(super) struct Deadline(Option<u64>);

impl Deadline {
    pub(super) fn of(locks: &LockManager, request: &Request<'_>) -> Deadline {
        Deadline(request.deadline(locks.clock.monotonic_nanos()))
    }

    pub(super) fn left(&self, locks: &LockManager) -> Option<Duration> {
        let now = locks.clock.monotonic_nanos();
        self.0
            .map(|deadline| Duration::from_nanos(deadline.saturating_sub(now)))
    }
}

impl LockManager {
    /// Waits until the lock of `key`, a key or that of a range, is free, and takes no lock.
    pub(super) fn wait_for(
        &self,
        key: &LockKey,
        request: &Request<'_>,
        deadline: &Deadline,
    ) -> Result<()> {
        // Also when no time is left: the lock of an expired owner is taken without a wait.
        let request = Request {
            exclusive: true,
            timeout: deadline.left(self),
            ..*request
        };
        let held_before = self.holds(key, request.owner.id);
        self.lock_once(key, &request)?;
        if key.is_range() {
            // Still in the list if the lock was taken from an expired owner.
            self.ranges.remove(key);
        }
        if !held_before {
            self.unlock(key, request.owner.id);
        }
        Ok(())
    }

    /// Locks the keys of a family from `start` to `end`, both inclusive.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `start` follows `end`; those of [`LockManager::lock`].
    pub fn lock_range(
        &self,
        family: u32,
        order: &KeyOrder,
        (start, end): (Endpoint, Endpoint),
        request: &Request<'_>,
    ) -> Result<Arc<Range>> {
        if start.compare(order, &end.key, end.inf_suffix).is_gt() {
            return Err(Error::invalid_argument(
                "the start of a range of locks follows its end",
            ));
        }
        // Relaxed: ids are only compared.
        let id = self.ranges.next_id.fetch_add(1, Memory::Relaxed);
        let range = Arc::new(Range {
            own_key: LockKey::of_range(family, &start.key, id),
            family,
            start,
            end,
            order: order.clone(),
            owner: request.owner.id,
        });
        let deadline = Deadline::of(self, request);
        loop {
            self.lock_once(&range.own_key, request)?;
            let taken = ReleaseOnDrop::new(|| self.unlock_range(&range));
            self.ranges.add(&range);
            let Some(blocking) = self.blocking_range(&range) else {
                taken.keep();
                return Ok(range);
            };
            drop(taken);
            self.wait_for(&blocking, request, &deadline)?;
        }
    }

    /// The key of another owner's lock in `range`.
    fn blocking_range(&self, range: &Arc<Range>) -> Option<LockKey> {
        let of_other = |other: &Range| other.owner != range.owner && other.overlaps(range);
        let other = self.ranges.search(of_other);
        let stripes = || {
            self.stripes.iter().find_map(|stripe| {
                let stripe = stripe.0.lock();
                let mut held = stripe.iter();
                let found = held.find(|(key, held)| {
                    !held.holders.is_empty()
                        && !held.holders.is_only(range.owner)
                        && range.contains(key)
                });
                found.map(|(key, _)| key.clone())
            })
        };
        other.or_else(stripes)
    }

    /// Releases the lock of a range.
    pub fn unlock_range(&self, range: &Arc<Range>) {
        self.ranges.remove(&range.own_key);
        self.unlock(&range.own_key, range.owner);
    }

    /// The locked ranges, in the order in which they were locked.
    #[must_use]
    pub fn range_status(&self) -> Vec<RangeLockStatus> {
        let list = self.ranges.list.lock();
        let status = |range: &Arc<Range>| RangeLockStatus {
            family: range.family,
            start: range.start.clone(),
            end: range.end.clone(),
            holder: range.owner,
        };
        list.iter().map(status).collect()
    }
}
