//! Two blocks walked side by side: deletions in the one, what they delete in the other.
//!
//! A run of deletions mostly lies over the very entries that it deletes, so that both blocks show the
//! same user keys one after another. While they do, no key is built twice and none is compared whole:
//! an entry says how many bytes it shares with the key before, which is the same in both blocks, and
//! only what it does not share is looked at.

use std::ops::Range;

use cairn_types::{Decoded, SequenceNumber, ValueKind};

use super::cursor::{Coding, Entry, append, bad_entry};
use super::data::{DataCursor, Together, ValuePlace, lengths};
use super::layout::BlockLayout;
use super::runs::before_limit;
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
    pub(super) fn is_deletion(&self, packed: u64) -> bool {
        const DELETION: u8 = ValueKind::Deletion as u8;
        const SINGLE: u8 = ValueKind::SingleDeletion as u8;
        // Truncation is meant: the kind is the lowest byte.
        matches!(packed as u8, DELETION | SINGLE) && packed >> 8 <= self.seq.0
    }

    /// Whether this user key may be passed over.
    #[inline]
    pub(super) fn reaches_key(&self, user: &[u8]) -> bool {
        self.limit
            .is_none_or(|limit| key::compare_bytewise(user, limit).is_lt())
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
        if !hidden.is_deletion(a_packed) || !hidden.reaches_key(a_user) {
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
    let goal = before_limit(a_block, hidden.limit, a_at);
    while pairs < most && a_at < a_block.1.end() && b_at < b_block.1.end() {
        let mut pair = Pair {
            at: (a_at, b_at),
            packed: (a_packed, b_packed),
        };
        let ends = (a_block.1.end(), b_block.1.end());
        let blocks = (a_block.0, b_block.0);
        pairs += in_step(blocks, ends, (hidden, goal, most - pairs), &mut pair, user);
        (a_at, b_at) = pair.at;
        (a_packed, b_packed) = pair.packed;
        if pairs >= most || a_at >= a_block.1.end() || b_at >= b_block.1.end() {
            break;
        }
        let (Some(a_head), Some(b_head)) = (head(a_block, a_at), head(b_block, b_at)) else {
            break;
        };
        let a_part = &a_block.0[a_head.part.clone()];
        let goes_on = a_head.shared <= user.len()
            && b_head.shared <= user.len()
            && b_head.packed < a_head.packed
            && hidden.is_deletion(a_head.packed)
            && is_same((a_block.0, &a_head), (b_block.0, &b_head), user)
            && (a_at < goal || hidden.reaches(&user[..a_head.shared], a_part));
        if !goes_on {
            break;
        }
        user.truncate(a_head.shared);
        append(user, a_block.0, a_head.part);
        (a_packed, b_packed) = (a_head.packed, b_head.packed);
        (a_at, b_at) = (a_head.next, b_head.next);
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

/// The beginning of an entry at offset `at`.
#[inline(always)]
fn window(bytes: &[u8], at: usize) -> Option<&[u8; WINDOW]> {
    bytes.get(at..)?.first_chunk()
}

/// 8 bytes of a window as a number.
#[inline(always)]
fn word(window: &[u8; WINDOW], at: usize) -> u64 {
    let bytes = window[at..].first_chunk().copied();
    u64::from_le_bytes(bytes.unwrap_or_default())
}

/// Where two blocks go on, and numbers and kinds of the entries before.
struct Pair {
    at: (usize, usize),
    packed: (u64, u64),
}

/// Room for user keys of [`in_step`].
const ROOM: usize = 64;
/// More bytes than any entry's lengths, part and number take in [`in_step`].
const WINDOW: usize = 24;

/// Passes over pairs, at most `most`, that are all alike in both blocks but for their values: short keys
/// that share as much as each other and add less than 8 bytes. Those that begin at offset `goal` of the
/// first block or behind it are left. Returns how many there were. What is no such pair is left to the
/// caller: this is the part of [`lockstep`] where nearly all pairs of most blocks pass, kept so small
/// that it runs in registers.
#[inline(never)]
fn in_step(
    (a, b): (&[u8], &[u8]),
    (a_end, b_end): (usize, usize),
    (hidden, goal, most): (&Hidden<'_>, usize, u64),
    pair: &mut Pair,
    user: &mut Vec<u8>,
) -> u64 {
    const PART: usize = size_of::<u64>();
    let mut known = [0; ROOM];
    let mut len = user.len();
    let Some(room) = known.get_mut(..len).filter(|_| len + PART <= ROOM) else {
        return 0;
    };
    room.copy_from_slice(user);
    let (mut a_at, mut b_at) = pair.at;
    let mut packed = pair.packed;
    let mut pairs = 0;
    while pairs < most && a_at < goal && b_at < b_end {
        let (Some(a_window), Some(b_window)) = (window(a, a_at), window(b, b_at)) else {
            break;
        };
        let [shared, delta_len, a_value, ..] = *a_window;
        let [b_shared, b_delta_len, b_value, ..] = *b_window;
        let part_len = usize::from(delta_len.wrapping_sub(key::SUFFIX_LEN as u8));
        let is_alike = shared == b_shared && delta_len == b_delta_len && part_len < PART;
        if !is_alike || (shared | a_value | b_value) >= 0x80 {
            break;
        }
        let (a_part, b_part) = (word(a_window, 3), word(b_window, 3));
        let next = (word(a_window, 3 + part_len), word(b_window, 3 + part_len));
        let differs = (a_part ^ b_part) & ((1 << (8 * part_len)) - 1) != 0;
        if differs || next.1 >= next.0 || !hidden.is_deletion(next.0) {
            break;
        }
        let shared = usize::from(shared);
        let head_len = 3 + part_len + key::SUFFIX_LEN;
        let a_next = a_at + head_len + usize::from(a_value);
        let b_next = b_at + head_len + usize::from(b_value);
        if shared > len || a_next > a_end || b_next > b_end {
            break;
        }
        let Some(part) = known
            .get_mut(shared..)
            .and_then(|known| known.first_chunk_mut())
        else {
            break;
        };
        *part = a_part.to_le_bytes();
        len = shared + part_len;
        (a_at, b_at) = (a_next, b_next);
        packed = next;
        pairs += 1;
    }
    if pairs > 0 {
        user.clear();
        user.extend_from_slice(&known[..len]);
        *pair = Pair {
            at: (a_at, b_at),
            packed,
        };
    }
    pairs
}

/// An entry whose key is not built.
struct Head {
    /// Bytes of the user key that are those of the key before.
    shared: usize,
    /// Where the rest of the user key lies.
    part: Range<usize>,
    /// Number and kind.
    packed: u64,
    next: usize,
}

/// The entry at offset `at`; `None` if there is none, or if it shares a part of its number too.
#[inline(always)]
fn head((bytes, layout): Block<'_>, at: usize) -> Option<Head> {
    let (shared, delta_len, value_len, from) = lengths(bytes, at)?;
    let part_len = (delta_len as usize).checked_sub(key::SUFFIX_LEN)?;
    let suffix_at = from.checked_add(part_len)?;
    let suffix = bytes.get(suffix_at..)?.first_chunk()?;
    let next = (suffix_at + key::SUFFIX_LEN).checked_add(value_len as usize)?;
    (next <= layout.end()).then_some(Head {
        shared: shared as usize,
        part: from..suffix_at,
        packed: u64::from_le_bytes(*suffix),
        next,
    })
}

/// Whether two entries have the same user key; what they share they share with `user`, which is as
/// long at least.
#[inline]
fn is_same((a_bytes, a): (&[u8], &Head), (b_bytes, b): (&[u8], &Head), user: &[u8]) -> bool {
    let len = a.part.len();
    if a.shared == b.shared && len == b.part.len() && len < size_of::<u64>() {
        // Behind the part of a key there are its number and kind.
        let first = |bytes: &[u8], at: usize| -> Option<u64> {
            Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
        };
        let (a, b) = (first(a_bytes, a.part.start), first(b_bytes, b.part.start));
        return match (a, b) {
            (Some(a), Some(b)) => len == 0 || (a ^ b) >> (u64::BITS as usize - 8 * len) == 0,
            _ => false,
        };
    }
    let (a_part, b_part) = (&a_bytes[a.part.clone()], &b_bytes[b.part.clone()]);
    is_same_key(user, (a.shared, a_part), (b.shared, b_part))
}

/// Whether two keys are the same: each is so many bytes of `user` and a part of its own.
#[inline(never)]
fn is_same_key(user: &[u8], (a_shared, a): (usize, &[u8]), (b_shared, b): (usize, &[u8])) -> bool {
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
