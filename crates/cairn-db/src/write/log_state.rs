//! The state of the logs for copies and ingestions.

use cairn_format::manifest::LogReach;
use cairn_types::{FileNumber, SequenceNumber};

use crate::locks::Rank;
use crate::shared::Shared;

impl Shared {
    /// Returns the last sequence number. The caller leads: no insertion is in progress, and the logs end with
    /// this write.
    pub(crate) fn last_write(&self) -> SequenceNumber {
        debug_assert!(self.context.locks.is_held(Rank::Lead), "the caller leads");
        let last = self.published();
        assert_eq!(
            last,
            self.writes.commits.allocated(),
            "no insertion is in progress"
        );
        last
    }

    /// Returns the total size of the logs that are not deleted.
    pub(crate) fn log_bytes(&self) -> u64 {
        let finished = self.tree.lock().logs.bytes();
        let writer = self.writes.writer.lock();
        finished + writer.log.as_ref().map_or(0, |log| log.len())
    }

    /// Returns the logs that recovery needs, with their lengths, oldest first. The caller leads, so that no
    /// log grows.
    pub(crate) fn needed_logs(&self) -> Vec<(FileNumber, u64)> {
        debug_assert!(self.context.locks.is_held(Rank::Lead), "the caller leads");
        let current = {
            let writer = self.writes.writer.lock();
            writer.log.as_ref().map(|log| (log.number(), log.len()))
        };
        let tree = self.tree.lock();
        debug_assert!(
            current.is_none_or(|(current, _)| tree.logs.needed().any(|(log, _)| log == current)),
            "recovery needs the current log: {current:?}"
        );
        let needed = tree.logs.needed();
        needed
            .map(|log| current.filter(|current| current.0 == log.0).unwrap_or(log))
            .collect()
    }

    /// The last log that has records, and where they end. The caller leads.
    pub(crate) fn log_reach(&self) -> Option<LogReach> {
        debug_assert!(
            self.context.locks.is_held(Rank::Lead),
            "the caller leads, so that no log grows"
        );
        let current = self.writes.writer.lock().log.as_ref().and_then(|log| {
            (!log.is_empty()).then(|| LogReach {
                number: log.number(),
                bytes: log.len(),
            })
        });
        let finished = || {
            let tree = self.tree.lock();
            let last = tree.logs.iter().rev().find(|(_, bytes)| *bytes > 0);
            last.map(|(number, bytes)| LogReach { number, bytes })
        };
        current.or_else(finished)
    }
}
