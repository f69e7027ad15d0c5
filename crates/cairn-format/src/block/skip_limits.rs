//! Entries of data blocks that a walk may pass over: deletions that it sees, and what they delete.

use cairn_types::{SequenceNumber, ValueKind};

use super::layout::BlockLayout;
use crate::key;

/// The limits within which deletions of a block may be passed over.
#[derive(Clone, Copy, Debug)]
pub struct Hidden<'a> {
    /// Deletions newer than this are not seen.
    pub seq: SequenceNumber,
    /// User keys from here on stay.
    pub limit: Option<&'a [u8]>,
    /// At most so many entries are passed over.
    pub budget: u64,
}

/// The deletions that were passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Deletions.
    pub deletions: u64,
    /// Entries that they delete.
    pub deleted: u64,
}

impl Skipped {
    /// All of them.
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
    /// Where its parts lie.
    pub layout: &'a BlockLayout,
}

impl Hidden<'_> {
    /// True if an entry of this number and kind deletes what is older, for this reader.
    #[inline]
    pub(super) fn is_deletion(&self, packed: u64) -> bool {
        const DELETION: u8 = ValueKind::Deletion as u8;
        const SINGLE: u8 = ValueKind::SingleDeletion as u8;
        // Truncation is meant: the kind is the lowest byte.
        matches!(packed as u8, DELETION | SINGLE) && packed >> 8 <= self.seq.0
    }

    /// True if this user key may be passed over.
    #[inline]
    pub(super) fn reaches_key(&self, user: &[u8]) -> bool {
        self.limit
            .is_none_or(|limit| key::compare_bytewise(user, limit).is_lt())
    }

    /// True if the user key that consists of both parts may be passed over.
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
