//! The most recent deadlocks, for diagnosis.

use std::collections::VecDeque;

use super::graph::Deadlock;

/// A transaction of a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlockInfo {
    /// The id of the transaction.
    pub transaction: u64,
    /// The id of the column family of the key for which it waited.
    pub family: u32,
    /// True if it waited for an exclusive lock.
    pub exclusive: bool,
    /// The key for which it waited.
    pub key: Vec<u8>,
}

/// A deadlock that was reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlockPath {
    /// The transactions: each waited for the next, and the last one for the first, whose request was rejected. Empty if
    /// the limit was exceeded.
    pub path: Vec<DeadlockInfo>,
    /// True if a deadlock was assumed because too many transactions waited.
    pub limit_exceeded: bool,
    /// The time of the deadlock in seconds since 1970.
    pub seconds: u64,
}

/// The most recent deadlocks.
pub(super) struct Deadlocks {
    size: usize,
    /// Newest first.
    paths: VecDeque<DeadlockPath>,
}

impl Deadlocks {
    pub(super) fn new(size: u32) -> Deadlocks {
        Deadlocks {
            size: size as usize,
            paths: VecDeque::new(),
        }
    }

    pub(super) fn add(&mut self, deadlock: Deadlock, seconds: u64) {
        let (path, limit_exceeded) = match deadlock {
            Deadlock::Cycle(path) => (path, false),
            Deadlock::Assumed => (Vec::new(), true),
        };
        self.paths.push_front(DeadlockPath {
            path,
            limit_exceeded,
            seconds,
        });
        self.paths.truncate(self.size);
    }

    pub(super) fn list(&self) -> Vec<DeadlockPath> {
        self.paths.iter().cloned().collect()
    }

    pub(super) fn resize(&mut self, size: u32) {
        self.size = size as usize;
        self.paths.truncate(self.size);
    }
}
