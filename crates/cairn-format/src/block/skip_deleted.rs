//! Skips deletions in one block together with the entries they delete in another.
//!
//! A run of deletions usually covers exactly the entries that it deletes, so that both blocks have
//! the same sequence of user keys. While that holds, keys are neither built nor compared in full:
//! the number of bytes shared with the previous key is the same in both blocks, and only the rest
//! is compared.

use std::ops::Range;

use cairn_types::Decoded;

use super::cursor::{Coding, Entry, append, bad_entry};
use super::data::{DataCursor, Interleaved, ValuePlace, lengths};
use super::skip_deletions::before_limit;
use super::skip_limits::{Block, SkipLimits, Skipped};
use crate::key;

/// A cursor and its block.
pub struct Walk<'a> {
    /// The cursor.
    pub cursor: &'a mut DataCursor,
    /// The block.
    pub block: Block<'a>,
}

/// The result of [`skip_deleted`].
#[derive(Debug)]
pub struct Passed {
    /// The entries skipped.
    pub skipped: Skipped,
    /// An error if the cursor over the deletions could not move.
    pub newer_moved: Decoded<()>,
    /// An error if the cursor over the deleted entries could not move.
    pub older_moved: Decoded<()>,
}

/// Skips deletions at `newer` and the entries that they delete at `older`, up to the end of either block or
/// the first other entry. `last` is set to the user key of the last deletion skipped, and unchanged if there
/// is none. Keys must be ordered bytewise.
///
/// Both cursors must be valid, and the entry at `newer` must come first.
pub fn skip_deleted(
    newer: Walk<'_>,
    older: Walk<'_>,
    hidden: &SkipLimits<'_>,
    last: &mut Vec<u8>,
) -> Passed {
    let mut passed = Passed {
        skipped: Skipped::default(),
        newer_moved: Ok(()),
        older_moved: Ok(()),
    };
    let (a, b) = (newer.cursor, older.cursor);
    let (a_block, b_block) = (newer.block, older.block);
    if !a.is_plain(a_block.layout) || !b.is_plain(b_block.layout) {
        return passed;
    }
    while a.valid() && b.valid() && passed.skipped.total() < hidden.budget {
        let (a_key, b_key) = (a.key(a_block.bytes), b.key(b_block.bytes));
        let (a_packed, b_packed) = (key::packed(a_key), key::packed(b_key));
        let (a_user, b_user) = (key::user_key(a_key), key::user_key(b_key));
        let order = key::compare_bytewise(b_user, a_user);
        if order.is_lt() {
            // Entries before the next deletion are deleted only if they have the user key of the
            // last one.
            if passed.skipped.deletions == 0 || b_user != &last[..] {
                break;
            }
            passed.skipped.deleted += 1;
            passed.older_moved = b.next(b_block.bytes, b_block.layout);
            continue;
        }
        if !hidden.is_deletion(a_packed) || !hidden.reaches_key(a_user) {
            break;
        }
        if order.is_eq() && (b_packed >= a_packed || passed.skipped.total() + 2 > hidden.budget) {
            break;
        }
        last.clear();
        last.extend_from_slice(a_user);
        if order.is_eq() {
            let pair = Pair {
                newer: Place {
                    at: a.position.end(),
                    packed: a_packed,
                },
                older: Place {
                    at: b.position.end(),
                    packed: b_packed,
                },
            };
            let (newer, older) = (Walk::of(a, a_block), Walk::of(b, b_block));
            lockstep(newer, older, pair, hidden, last, &mut passed);
        } else {
            passed.skipped.deletions += 1;
            passed.newer_moved = a.next(a_block.bytes, a_block.layout);
        }
    }
    passed
}

impl<'a> Walk<'a> {
    fn of(cursor: &'a mut DataCursor, block: Block<'a>) -> Walk<'a> {
        Walk { cursor, block }
    }
}

/// The end of an entry, with its packed sequence number and kind.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    packed: u64,
}

impl Place {
    /// Moves the cursor of `walk` to the entry after this one; `user` is the user key of the entry before.
    fn settle(self, walk: Walk<'_>, user: &mut Vec<u8>) -> Decoded<()> {
        stand(walk.cursor, walk.block, self.at, user, self.packed)
    }
}

/// The places in both blocks after a deletion and an entry with the same user key.
#[derive(Clone, Copy)]
struct Pair {
    newer: Place,
    older: Place,
}

/// Skips the deletion at `newer`, the entry with the same user key `user` at `older` (they end at
/// `pair`), and the pairs that follow. Sets `user` to the last user key skipped.
fn lockstep(
    newer: Walk<'_>,
    older: Walk<'_>,
    mut pair: Pair,
    hidden: &SkipLimits<'_>,
    user: &mut Vec<u8>,
    passed: &mut Passed,
) {
    let (a_block, b_block) = (newer.block, older.block);
    let (a_end, b_end) = (a_block.layout.end(), b_block.layout.end());
    let mut pairs = 1;
    let most = hidden.budget.saturating_sub(passed.skipped.total()) / 2;
    let goal = before_limit(a_block, hidden.limit, pair.newer.at);
    while pairs < most && pair.newer.at < a_end && pair.older.at < b_end {
        let bounds = Bounds {
            newer_end: a_end,
            older_end: b_end,
            goal,
            most: most - pairs,
        };
        pairs += in_step(
            a_block.bytes,
            b_block.bytes,
            hidden,
            bounds,
            &mut pair,
            user,
        );
        if pairs >= most || pair.newer.at >= a_end || pair.older.at >= b_end {
            break;
        }
        let heads = (head(a_block, pair.newer.at), head(b_block, pair.older.at));
        let (Some(a_head), Some(b_head)) = heads else {
            break;
        };
        let a_part = &a_block.bytes[a_head.part.clone()];
        let goes_on = a_head.shared <= user.len()
            && b_head.shared <= user.len()
            && b_head.packed < a_head.packed
            && hidden.is_deletion(a_head.packed)
            && is_same((a_block.bytes, &a_head), (b_block.bytes, &b_head), user)
            && (pair.newer.at < goal || hidden.reaches(&user[..a_head.shared], a_part));
        if !goes_on {
            break;
        }
        user.truncate(a_head.shared);
        append(user, a_block.bytes, a_head.part.clone());
        pair = Pair {
            newer: a_head.behind(),
            older: b_head.behind(),
        };
        pairs += 1;
    }
    passed.skipped.deletions += pairs;
    passed.skipped.deleted += pairs;
    passed.newer_moved = pair.newer.settle(newer, user);
    passed.older_moved = pair.older.settle(older, user);
}

#[inline]
fn entry(block: Block<'_>, at: usize) -> Option<Entry<ValuePlace>> {
    Interleaved.entry(block.bytes, block.layout, at, &ValuePlace::default())
}

/// The bytes at the start of the entry at offset `at`.
#[inline(always)]
fn window(bytes: &[u8], at: usize) -> Option<&[u8; WINDOW]> {
    bytes.get(at..)?.first_chunk()
}

/// 8 bytes of a window as an integer.
#[inline(always)]
fn word(window: &[u8; WINDOW], at: usize) -> u64 {
    let bytes = window[at..].first_chunk().copied();
    u64::from_le_bytes(bytes.unwrap_or_default())
}

/// The limits of [`in_step`].
#[derive(Clone, Copy)]
struct Bounds {
    /// The end of the entries in the block of deletions.
    newer_end: usize,
    /// The end of the entries in the other block.
    older_end: usize,
    /// An offset in the block of deletions; pairs at or beyond it are not skipped.
    goal: usize,
    /// The maximum number of pairs.
    most: u64,
}

/// The maximum length of a user key in [`in_step`].
const ROOM: usize = 64;
/// An upper bound of the lengths, the key delta and the packed number of an entry in [`in_step`].
const WINDOW: usize = 24;

/// Skips pairs within `bounds` that are equal in both blocks except for their values: with short
/// keys that share the same number of bytes and add fewer than 8. Returns the number of pairs.
/// Other pairs are left to the caller. This part of [`lockstep`] handles nearly all pairs and is
/// small enough to run in registers.
#[inline(never)]
fn in_step(
    a: &[u8],
    b: &[u8],
    hidden: &SkipLimits<'_>,
    bounds: Bounds,
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
    let (mut newer, mut older) = (pair.newer, pair.older);
    let mut pairs = 0;
    while pairs < bounds.most && newer.at < bounds.goal && older.at < bounds.older_end {
        let (Some(a_window), Some(b_window)) = (window(a, newer.at), window(b, older.at)) else {
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
        let (a_packed, b_packed) = (word(a_window, 3 + part_len), word(b_window, 3 + part_len));
        let differs = (a_part ^ b_part) & ((1 << (8 * part_len)) - 1) != 0;
        if differs || b_packed >= a_packed || !hidden.is_deletion(a_packed) {
            break;
        }
        let shared = usize::from(shared);
        let head_len = 3 + part_len + key::SUFFIX_LEN;
        let a_next = newer.at + head_len + usize::from(a_value);
        let b_next = older.at + head_len + usize::from(b_value);
        if shared > len || a_next > bounds.newer_end || b_next > bounds.older_end {
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
        newer = Place {
            at: a_next,
            packed: a_packed,
        };
        older = Place {
            at: b_next,
            packed: b_packed,
        };
        pairs += 1;
    }
    if pairs > 0 {
        user.clear();
        user.extend_from_slice(&known[..len]);
        *pair = Pair { newer, older };
    }
    pairs
}

/// An entry whose key is not built.
struct Head {
    /// The number of bytes of the user key shared with the previous key.
    shared: usize,
    /// The range of the rest of the user key.
    part: Range<usize>,
    /// The packed sequence number and kind.
    packed: u64,
    next: usize,
}

impl Head {
    /// The place after the entry.
    fn behind(&self) -> Place {
        Place {
            at: self.next,
            packed: self.packed,
        }
    }
}

/// Decodes the entry at offset `at`. `None` if there is none, or if part of its packed number is
/// shared.
#[inline(always)]
fn head(block: Block<'_>, at: usize) -> Option<Head> {
    let bytes = block.bytes;
    let (shared, delta_len, value_len, from) = lengths(bytes, at)?;
    let part_len = (delta_len as usize).checked_sub(key::SUFFIX_LEN)?;
    let suffix_at = from.checked_add(part_len)?;
    let suffix = bytes.get(suffix_at..)?.first_chunk()?;
    let next = (suffix_at + key::SUFFIX_LEN).checked_add(value_len as usize)?;
    (next <= block.layout.end()).then_some(Head {
        shared: shared as usize,
        part: from..suffix_at,
        packed: u64::from_le_bytes(*suffix),
        next,
    })
}

/// True if two entries have the same user key. Their shared bytes are those of `user`, which is at least as
/// long.
#[inline]
fn is_same((a_bytes, a): (&[u8], &Head), (b_bytes, b): (&[u8], &Head), user: &[u8]) -> bool {
    let len = a.part.len();
    if a.shared == b.shared && len == b.part.len() && len < size_of::<u64>() {
        // The key delta is followed by the packed number.
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

/// True if two keys are equal, each given as a number of bytes of `user` and a rest.
#[inline(never)]
fn is_same_key(user: &[u8], (a_shared, a): (usize, &[u8]), (b_shared, b): (usize, &[u8])) -> bool {
    let (long, short) = match a_shared > b_shared {
        true => ((a_shared, a), (b_shared, b)),
        false => ((b_shared, b), (a_shared, a)),
    };
    let between = &user[short.0..long.0];
    short.1.strip_prefix(between) == Some(long.1)
}

/// Moves `cursor` to the entry at offset `at`, after an entry with the key `user` and `packed`. Becomes
/// invalid at the end of the block.
fn stand(
    cursor: &mut DataCursor,
    block: Block<'_>,
    at: usize,
    user: &mut Vec<u8>,
    packed: u64,
) -> Decoded<()> {
    if at >= block.layout.end() {
        cursor.position.clear();
        return Ok(());
    }
    let len = user.len();
    user.extend_from_slice(&packed.to_le_bytes());
    let moved = match entry(block, at) {
        Some(entry) if entry.shared <= user.len() => {
            cursor.position.build(block.bytes, at, &entry, user);
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
