//! Two blocks walked side by side: deletions in the one, what they delete in the other.
//!
//! A run of deletions mostly lies over the very entries that it deletes, so that both blocks show the
//! same user keys one after another. While they do, no key is built twice and none is compared whole:
//! an entry says how many bytes it shares with the key before, which is the same in both blocks, and
//! only what it does not share is looked at.

use cairn_types::{Decoded, SequenceNumber, ValueKind};

use super::cursor::{Coding, Entry, bad_entry, common_prefix};
use super::data::{DataCursor, Together, ValuePlace};
use super::layout::BlockLayout;
use crate::key;

/// What may be passed over.
#[derive(Clone, Copy, Debug)]
pub struct Hidden<'a> {
    /// Deletions newer than this are not seen.
    pub seq: SequenceNumber,
    /// User keys from here on stay.
    pub limit: Option<&'a [u8]>,
    /// At most so many entries are passed over.
    pub budget: u64,
}

/// What was passed over.
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

/// A data block.
pub type Block<'a> = (&'a [u8], &'a BlockLayout);

impl Hidden<'_> {
    /// Whether an entry of this number and kind deletes what is older, for this reader.
    #[inline]
    fn is_deletion(&self, packed: u64) -> bool {
        const DELETION: u8 = ValueKind::Deletion as u8;
        const SINGLE: u8 = ValueKind::SingleDeletion as u8;
        // Truncation is meant: the kind is the lowest byte.
        matches!(packed as u8, DELETION | SINGLE) && packed >> 8 <= self.seq.0
    }

    /// Whether the user key that consists of both parts may be passed over.
    #[inline]
    fn reaches(&self, head: &[u8], tail: &[u8]) -> bool {
        let Some(limit) = self.limit else {
            return true;
        };
        match limit.split_at_checked(head.len()) {
            Some((limit_head, limit_tail)) => (head, tail) < (limit_head, limit_tail),
            None => head < limit,
        }
    }
}

/// Passes over the deletions on which `a` stands, and over entries that they delete on which `b`
/// stands, from where both stand on to the end of either block or something else. The user key of
/// the last deletion passed is left in `last`, which is unchanged if there is none. Keys must order as
/// their bytes do. Returns what was passed and whether the cursors could move.
///
/// Both cursors must stand on entries, `a` on one that comes first.
pub fn skip_deleted(
    (a, a_block): (&mut DataCursor, Block<'_>),
    (b, b_block): (&mut DataCursor, Block<'_>),
    hidden: &Hidden<'_>,
    last: &mut Vec<u8>,
) -> (Skipped, Decoded<()>, Decoded<()>) {
    let mut skipped = Skipped::default();
    let (mut a_moved, mut b_moved) = (Ok(()), Ok(()));
    if !a.is_plain(a_block.1) || !b.is_plain(b_block.1) {
        return (skipped, a_moved, b_moved);
    }
    while a.valid() && b.valid() && skipped.total() < hidden.budget {
        let (a_key, b_key) = (a.key(a_block.0), b.key(b_block.0));
        let (a_packed, b_packed) = (key::packed(a_key), key::packed(b_key));
        let (a_user, b_user) = (key::user_key(a_key), key::user_key(b_key));
        let order = key::compare_bytewise(b_user, a_user);
        if order.is_lt() {
            // What comes before the next deletion is deleted only as a part of the last one's key.
            if skipped.deletions == 0 || b_user != &last[..] {
                break;
            }
            skipped.deleted += 1;
            b_moved = b.next(b_block.0, b_block.1);
            continue;
        }
        if !hidden.is_deletion(a_packed) || !hidden.reaches(a_user, &[]) {
            break;
        }
        if order.is_eq() {
            if b_packed >= a_packed || skipped.total() + 2 > hidden.budget {
                break;
            }
            last.clear();
            last.extend_from_slice(a_user);
            (a_moved, b_moved) = lockstep(
                (&mut *a, a_block),
                (&mut *b, b_block),
                (a_packed, b_packed),
                hidden,
                last,
                &mut skipped,
            );
        } else {
            last.clear();
            last.extend_from_slice(a_user);
            skipped.deletions += 1;
            a_moved = a.next(a_block.0, a_block.1);
        }
    }
    (skipped, a_moved, b_moved)
}

/// Passes over the deletion on which `a` stands, the entry of the same user key (`user`) on which `b`
/// stands, and what follows in both for as long as they go on like this. `user` is then the last user
/// key passed.
fn lockstep(
    (a, a_block): (&mut DataCursor, Block<'_>),
    (b, b_block): (&mut DataCursor, Block<'_>),
    (mut a_packed, mut b_packed): (u64, u64),
    hidden: &Hidden<'_>,
    user: &mut Vec<u8>,
    skipped: &mut Skipped,
) -> (Decoded<()>, Decoded<()>) {
    let (mut a_at, mut b_at) = (a.position.end(), b.position.end());
    let mut pairs = 1;
    let most = hidden.budget.saturating_sub(skipped.total()) / 2;
    while pairs < most && a_at < a_block.1.end() && b_at < b_block.1.end() {
        let (Some(a_entry), Some(b_entry)) = (entry(a_block, a_at), entry(b_block, b_at)) else {
            break;
        };
        let Some((a_part, a_next)) = parts(a_block.0, &a_entry, user) else {
            break;
        };
        let Some((b_part, b_next)) = parts(b_block.0, &b_entry, user) else {
            break;
        };
        let goes_on = b_next < a_next
            && is_same(user, (a_entry.shared, a_part), (b_entry.shared, b_part))
            && hidden.is_deletion(a_next)
            && hidden.reaches(&user[..a_entry.shared], a_part);
        if !goes_on {
            break;
        }
        user.truncate(a_entry.shared);
        user.extend_from_slice(a_part);
        (a_packed, b_packed) = (a_next, b_next);
        (a_at, b_at) = (a_entry.next, b_entry.next);
        pairs += 1;
    }
    skipped.deletions += pairs;
    skipped.deleted += pairs;
    (
        stand(a, a_block, a_at, user, a_packed),
        stand(b, b_block, b_at, user, b_packed),
    )
}

#[inline]
fn entry((bytes, layout): Block<'_>, at: usize) -> Option<Entry<ValuePlace>> {
    Together.entry(bytes, layout, at, &ValuePlace::default())
}

/// The part of an entry's user key that it does not share with `user`, and its number and kind; `None`
/// if what it shares goes beyond the user key.
#[inline]
fn parts<'a>(bytes: &'a [u8], entry: &Entry<ValuePlace>, user: &[u8]) -> Option<(&'a [u8], u64)> {
    let (part, suffix) = entry.delta(bytes).split_last_chunk()?;
    (entry.shared <= user.len()).then_some((part, u64::from_le_bytes(*suffix)))
}

/// Whether two keys are the same: each is so many bytes of `user` and a part of its own.
#[inline]
fn is_same(user: &[u8], (a_shared, a): (usize, &[u8]), (b_shared, b): (usize, &[u8])) -> bool {
    if a_shared == b_shared {
        return a.len() == b.len() && common_prefix(a, b) == a.len();
    }
    let (long, short) = match a_shared > b_shared {
        true => ((a_shared, a), (b_shared, b)),
        false => ((b_shared, b), (a_shared, a)),
    };
    let between = &user[short.0..long.0];
    short.1.strip_prefix(between) == Some(long.1)
}

/// Makes `cursor` stand on what lies at offset `at`, behind an entry whose key consists of `user` and
/// `packed`; nowhere at the end of the block.
fn stand(
    cursor: &mut DataCursor,
    block: Block<'_>,
    at: usize,
    user: &mut Vec<u8>,
    packed: u64,
) -> Decoded<()> {
    if at >= block.1.end() {
        cursor.position.clear();
        return Ok(());
    }
    let len = user.len();
    user.extend_from_slice(&packed.to_le_bytes());
    let moved = match entry(block, at) {
        Some(entry) if entry.shared <= user.len() => {
            cursor.position.build(block.0, at, &entry, user);
            Ok(())
        }
        _ => {
            cursor.position.clear();
            Err(bad_entry(at))
        }
    };
    user.truncate(len);
    moved
}
