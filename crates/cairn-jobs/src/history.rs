//! The timestamps of versions in a job: which versions are old, so that only the newest of them is kept.
//!
//! Versions of a key are ordered by timestamp, newest first. Reads at timestamps before `full_history_ts_low` are
//! rejected. Of the versions older than it, a read therefore needs the newest one that its snapshot sees: they are
//! treated like versions without timestamps. The timestamp of the newest one is set to the minimum together with its
//! sequence number.
//!
//! If tables do not keep timestamps (`persist_user_defined_timestamps=false`), a flush treats all versions as old and
//! sets all timestamps to the minimum, which the table builder omits.

use std::cmp::Ordering;

use cairn_format::key;
use cairn_format::range_del::Tombstone;
use cairn_types::KeyOrder;

use crate::context::{History, JobContext};

/// Compares two timestamps of keys in `order`.
fn compare(order: &KeyOrder, a: &[u8], b: &[u8]) -> Ordering {
    // Keys that differ only in their timestamps are ordered newest first. A timestamp alone is such a key.
    order.compare(b, a)
}

/// The rules for timestamps in a job.
#[derive(Clone, Debug, Default)]
pub struct TimestampRules {
    history: History,
    /// True if all timestamps are set to the minimum.
    strips: bool,
}

impl TimestampRules {
    /// The rules of a compaction.
    #[must_use]
    pub fn of_compaction(context: &JobContext) -> TimestampRules {
        TimestampRules {
            history: context.history.clone(),
            strips: false,
        }
    }

    /// The rules of a flush.
    #[must_use]
    pub fn of_flush(context: &JobContext) -> TimestampRules {
        let family = &context.family;
        TimestampRules {
            history: History {
                trim: None,
                ..context.history.clone()
            },
            strips: family.order.timestamp_size() > 0
                && !family.options.persist_user_defined_timestamps,
        }
    }

    /// True if all timestamps are set to the minimum.
    #[must_use]
    pub fn strips(&self) -> bool {
        self.strips
    }

    /// True if `timestamp` is old.
    #[must_use]
    pub fn is_old(&self, order: &KeyOrder, timestamp: &[u8]) -> bool {
        let low = &self.history.low;
        self.strips || !low.is_empty() && compare(order, timestamp, low).is_lt()
    }

    /// The newest timestamp of range tombstones that cover old versions for every reader; `None` for all.
    #[must_use]
    pub fn newest_covering(&self) -> Option<&[u8]> {
        (!self.strips).then_some(&self.history.low)
    }

    /// True if `timestamp` is newer than those that are kept.
    #[must_use]
    pub fn is_trimmed(&self, order: &KeyOrder, timestamp: &[u8]) -> bool {
        let trim = self.history.trim.as_ref();
        trim.is_some_and(|trim| compare(order, timestamp, trim).is_gt())
    }

    /// True if versions are dropped because of their timestamps, so that counts of entries differ.
    #[must_use]
    pub fn trims(&self) -> bool {
        self.history.trim.is_some()
    }

    /// The range tombstones that are kept.
    pub fn kept_tombstones(
        &self,
        order: &KeyOrder,
        tombstones: impl Iterator<Item = Tombstone>,
    ) -> impl Iterator<Item = Tombstone> {
        tombstones.filter(|tombstone| !self.is_trimmed(order, &tombstone.ts))
    }
}

/// Replaces `newest` with `timestamp` if that is newer.
pub fn raise(order: &KeyOrder, newest: &mut Vec<u8>, timestamp: &[u8]) {
    if newest.is_empty() || compare(order, timestamp, newest).is_gt() {
        newest.clear();
        newest.extend_from_slice(timestamp);
    }
}

/// Returns the timestamp after `timestamp`, which is a little-endian number; `None` if there is none.
pub fn successor(timestamp: &[u8]) -> Option<Vec<u8>> {
    let number = u64::from_le_bytes(timestamp.try_into().ok()?);
    Some(number.checked_add(1)?.to_le_bytes().to_vec())
}

/// Appends the user key `user` with the smallest timestamp, of `size` bytes.
pub fn push_with_minimum(out: &mut Vec<u8>, user: &[u8], size: usize) {
    let plain = key::strip_timestamp(user, size);
    out.extend_from_slice(plain);
    out.resize(out.len() + user.len() - plain.len(), 0);
}
