//! Skips a run of deletions in one block.
//!
//! Only the last key of a long run is needed. The extent, sequence number and kind of an entry are
//! available without building its key, and if a restart point is before the limit, so are all
//! entries before it.

use cairn_types::Decoded;

use super::cursor::{Coding, bad_entry};
use super::data::{DataCursor, Interleaved, lengths};
use super::skip_limits::{Block, SkipLimits};
use crate::key;

/// The number of deletions skipped by ordinary steps before keys are no longer built: recovering
/// the last key costs as much as several steps.
const WITH_KEYS: u64 = 16;

/// Skips the deletions at `cursor`, up to the end of the block or the first other entry. `last` is set to the
/// user key of the last one, and unchanged if there is none. Keys must be ordered bytewise. Returns the
/// number of deletions and the result of moving the cursor.
pub fn skip_deletions(
    cursor: &mut DataCursor,
    block: Block<'_>,
    hidden: &SkipLimits<'_>,
    last: &mut Vec<u8>,
) -> (u64, Decoded<()>) {
    let Block { bytes, layout } = block;
    let mut passed = LastKey::None;
    let mut moved = Ok(());
    let mut skipped = 0;
    while moved.is_ok() && cursor.valid() && skipped < hidden.budget {
        let internal = cursor.key(bytes);
        let user = key::user_key(internal);
        if !hidden.is_deletion(key::packed(internal)) || !hidden.reaches_key(user) {
            break;
        }
        passed = LastKey::of(user, last);
        skipped += 1;
        if skipped == WITH_KEYS && cursor.is_plain(layout) {
            let (count, at) = unseen(cursor, block, hidden, skipped);
            if count > 0 {
                skipped += count;
                moved = stand_before(cursor, block, at);
                if moved.is_err() {
                    break;
                }
                passed = LastKey::of(key::user_key(cursor.key(bytes)), last);
            }
        }
        moved = cursor.next(bytes, layout);
    }
    passed.store(last);
    (skipped, moved)
}

/// The number of entries after the current one that are deletions to skip, as far as that can be decided
/// without their keys, and the end of the last one.
#[inline]
fn unseen(
    cursor: &DataCursor,
    block: Block<'_>,
    hidden: &SkipLimits<'_>,
    skipped: u64,
) -> (u64, usize) {
    let Block { bytes, layout } = block;
    let mut at = cursor.position.end();
    let goal = before_limit(block, hidden.limit, at);
    let end = layout.end().min(bytes.len());
    let most = hidden.budget.saturating_sub(skipped);
    let mut key_len = cursor.position.key_len();
    let mut count = 0;
    while at < goal && count < most {
        let Some((shared, delta_len, value_len, delta_at)) = lengths(bytes, at) else {
            break;
        };
        let (shared, delta_len) = (shared as usize, delta_len as usize);
        let Some(behind) = delta_at.checked_add(delta_len) else {
            break;
        };
        let next = behind.saturating_add(value_len as usize);
        // If part of a packed number is shared, the number is unknown.
        if next > end || delta_len < key::SUFFIX_LEN || shared > key_len {
            break;
        }
        if !hidden.is_deletion(key::packed(&bytes[..behind])) {
            break;
        }
        key_len = shared + delta_len;
        at = next;
        count += 1;
    }
    (count, at)
}

/// Moves `cursor` forward to the entry that ends at offset `at`.
fn stand_before(cursor: &mut DataCursor, block: Block<'_>, at: usize) -> Decoded<()> {
    let Block { bytes, layout } = block;
    let position = &mut cursor.position;
    let restart = layout.restarts_before(bytes, at).saturating_sub(1);
    if layout.restart(bytes, restart) as usize >= position.end() {
        position.jump(&Interleaved, bytes, layout, restart)?;
    }
    while position.valid() && position.end() < at {
        position.step(&Interleaved, bytes, layout)?;
    }
    if position.valid() && position.end() == at {
        return Ok(());
    }
    position.clear();
    Err(bad_entry(at))
}

/// An offset such that all entries from `from` to it have user keys before `limit`: the offset of a
/// restart point with such a key, or the end of the block if there is no limit.
pub(super) fn before_limit(block: Block<'_>, limit: Option<&[u8]>, from: usize) -> usize {
    let Block { bytes, layout } = block;
    let Some(limit) = limit else {
        return layout.end();
    };
    let first = layout.restarts_before(bytes, from);
    let (mut low, mut high) = (first, layout.restarts());
    while low < high {
        let mid = low + (high - low) / 2;
        let offset = layout.restart(bytes, mid) as usize;
        match Interleaved.whole_key(bytes, layout, offset) {
            Some(key) if key::compare_bytewise(key::user_key(key), limit).is_lt() => low = mid + 1,
            _ => high = mid,
        }
    }
    match low.checked_sub(1).filter(|_| low > first) {
        Some(restart) => layout.restart(bytes, restart) as usize,
        None => from,
    }
}

/// The last key, recorded at every step but used only at the end. A key of 8 to 16 bytes is
/// recorded as two integers, which may overlap.
#[derive(Clone, Copy)]
enum LastKey {
    None,
    Short([u8; 8], [u8; 8], usize),
    /// Stored in the vector.
    Stored,
}

impl LastKey {
    #[inline]
    fn of(user: &[u8], last: &mut Vec<u8>) -> LastKey {
        match (user.first_chunk(), user.last_chunk()) {
            (Some(head), Some(tail)) if user.len() <= 16 => {
                LastKey::Short(*head, *tail, user.len())
            }
            _ => {
                last.clear();
                last.extend_from_slice(user);
                LastKey::Stored
            }
        }
    }

    fn store(self, last: &mut Vec<u8>) {
        if let LastKey::Short(head, tail, len) = self {
            last.clear();
            last.extend_from_slice(&head);
            last.truncate(len - tail.len());
            last.extend_from_slice(&tail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_key_is_restored() {
        for len in 0..40 {
            let key: Vec<u8> = (1..=len).collect();
            let mut last = b"another key".to_vec();
            LastKey::of(&key, &mut last).store(&mut last);
            assert_eq!(last, key);
            LastKey::None.store(&mut last);
            assert_eq!(last, key, "without a recorded key nothing changes");
        }
    }
}
