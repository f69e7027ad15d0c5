//! The limits and the result of skipping deletions and the entries they delete.

use cairn_types::{SequenceNumber, ValueKind};

use super::layout::BlockLayout;
use crate::key;

/// The limits of skipping.
#[derive(Clone, Copy, Debug)]
pub struct SkipLimits<'a> {
    /// The sequence number of the read. Newer deletions are not visible.
    pub seq: SequenceNumber,
    /// The user key at which skipping ends.
    pub limit: Option<&'a [u8]>,
    /// The maximum number of entries to skip.
    pub budget: u64,
}

/// The entries skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Deletions.
    pub deletions: u64,
    /// Entries that they delete.
    pub deleted: u64,
}

impl Skipped {
    /// The total number of entries.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.deletions + self.deleted
    }
}

/// A data block and its layout.
#[derive(Clone, Copy)]
pub struct Block<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The layout.
    pub layout: &'a BlockLayout,
}

impl SkipLimits<'_> {
    /// True if an entry with this packed number is a deletion visible to the reader.
    #[inline]
    pub(super) fn is_deletion(&self, packed: u64) -> bool {
        const DELETION: u8 = ValueKind::Deletion as u8;
        const SINGLE: u8 = ValueKind::SingleDeletion as u8;
        // Truncation is intended: the kind is the lowest byte.
        matches!(packed as u8, DELETION | SINGLE) && packed >> 8 <= self.seq.0
    }

    /// True if this user key may be skipped.
    #[inline]
    pub(super) fn reaches_key(&self, user: &[u8]) -> bool {
        self.limit
            .is_none_or(|limit| key::compare_bytewise(user, limit).is_lt())
    }

    /// True if the user key consisting of both parts may be skipped.
    #[inline]
    pub(super) fn reaches(&self, head: &[u8], tail: &[u8]) -> bool {
        let Some(limit) = self.limit else {
            return true;
        };
        match limit.split_at_checked(head.len()) {
            Some((limit_head, limit_tail)) => (head, tail) < (limit_head, limit_tail),
            None => head < limit,
        }
    }
}
