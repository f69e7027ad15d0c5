//! The common prefix of the user keys of a block, stored once (format version 8 and later).
//!
//! ```text
//! prefix | entries | restart array | ...
//!
//! entry at a restart    shared = 0, and the key without the prefix
//! other entries         as in any block: shared is relative to the previous key including the prefix
//! restart 0             length of the prefix; 0 for none
//! ```
//!
//! A block is converted to one without a prefix after it is read ([`expand`]), so that searches and
//! cursors handle a single format. The conversion checks only the properties specific to such
//! blocks: that restart points are exactly the entries without shared bytes, and that entries, keys
//! and values end within the block.
//!
//! The prefix may be longer than the user key of an entry: RocksDB 11.12 writes such blocks in
//! reverse order, if the sequence number and kind continue like a longer key. The prefix is
//! therefore prepended to the stored part of a key without assumptions about where the user key
//! ends. [`strip`] receives a prefix of user keys only.

use cairn_types::{Decoded, Malformed};

use super::cursor::{Coding, bad_entry};
use super::data::{Interleaved, Separated, ValuePlace};
use super::index::{IndexForm, IndexValue};
use super::layout::MAX_HASHED_BLOCK_LEN;
use super::layout::{BlockKind, BlockLayout, HASHED, SEPARATED, UNIFORM};
use crate::coding::{decode_varint32, put_fixed32, put_varint32};

/// The kind of entries of a block with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryForm {
    /// Internal keys and values.
    Data,
    /// Separators and handles.
    Index(IndexForm),
}

/// The growth in bytes allowed for a block of any size.
const MIN_GROWTH: usize = 32 << 10;
/// The maximum length of a varint32, and the growth of an entry by lengths and markers.
const MAX_LENGTH_LEN: usize = 5;
/// The growth allowed per byte of the block.
const GROWTH_FACTOR: usize = 2;

/// Converts `bytes` to a block without a common prefix. Returns `None` if it has none and is valid.
///
/// Memory is limited to a small multiple of the block: if the prefix is long and restart points are
/// many, only some of them are kept, and a hash index that no longer fits is dropped.
///
/// # Errors
///
/// The offset of the malformed part.
pub fn expand(bytes: &[u8], form: EntryForm) -> Decoded<Option<Vec<u8>>> {
    let kind = match form {
        EntryForm::Data => BlockKind::Data,
        EntryForm::Index(_) => BlockKind::Index,
    };
    let layout = BlockLayout::parse(bytes, kind)?;
    let prefix_len = layout.restart(bytes, 0) as usize;
    if prefix_len == 0 {
        return Ok(None);
    }
    if prefix_len >= layout.end() {
        return Err(Malformed::mismatch(
            0,
            "common prefix of the block",
            format_args!("less than {} bytes", layout.end()),
            prefix_len,
        ));
    }
    let expanded = match form {
        EntryForm::Data if layout.is_separated() => {
            expand_as(&Separated, bytes, &layout, prefix_len)
        }
        EntryForm::Data => expand_as(&Interleaved, bytes, &layout, prefix_len),
        EntryForm::Index(form) => expand_as(&form, bytes, &layout, prefix_len),
    };
    expanded.map(Some)
}

/// The encoding of an entry that is no longer a restart point.
trait Relink: Coding {
    /// The number of bytes of `lengths` (which stand between the lengths of the key and the key)
    /// that are kept.
    fn kept_lengths(&self, lengths: &[u8]) -> usize;

    /// True if the value starts with the escape for a full handle.
    fn is_escaped(&self) -> bool;

    /// True if an entry with `value` can be encoded after one with the value `before`.
    fn follows(&self, before: &Self::Value, value: &Self::Value) -> bool;
}

impl Relink for Interleaved {
    fn kept_lengths(&self, lengths: &[u8]) -> usize {
        lengths.len()
    }

    fn is_escaped(&self) -> bool {
        false
    }

    fn follows(&self, _: &ValuePlace, _: &ValuePlace) -> bool {
        true
    }
}

impl Relink for Separated {
    /// Only restart points store the offset of their value.
    fn kept_lengths(&self, lengths: &[u8]) -> usize {
        decode_varint32(lengths).map_or(0, |(_, len)| len)
    }

    fn is_escaped(&self) -> bool {
        false
    }

    fn follows(&self, before: &ValuePlace, value: &ValuePlace) -> bool {
        before.is_followed_by(value)
    }
}

impl Relink for IndexForm {
    fn kept_lengths(&self, lengths: &[u8]) -> usize {
        lengths.len()
    }

    fn is_escaped(&self) -> bool {
        self.delta_values
    }

    fn follows(&self, _: &IndexValue, _: &IndexValue) -> bool {
        !self.delta_values || self.escaped
    }
}

fn expand_as<C: Relink>(
    coding: &C,
    bytes: &[u8],
    layout: &BlockLayout,
    prefix_len: usize,
) -> Decoded<Vec<u8>> {
    let restarts = layout.restarts() as usize;
    let growth = bytes.len().saturating_mul(GROWTH_FACTOR) + MIN_GROWTH;
    let stride = prefix_len.saturating_mul(restarts).div_ceil(growth).max(1);
    // A length may grow by four bytes, and an escape adds one.
    let mut room = restarts.div_ceil(stride) * prefix_len + restarts * MAX_LENGTH_LEN;
    let mut out = Vec::with_capacity(bytes.len() + room);
    let mut offsets = Vec::with_capacity(restarts.div_ceil(stride));
    let mut before = coding.before_restart(0);
    let (mut at, mut copied, mut key_len, mut met) = (prefix_len, prefix_len, 0, 0);
    while at < layout.end() {
        let entry = coding.entry(bytes, layout, at, &before);
        let entry = entry.ok_or_else(|| bad_entry(at))?;
        let is_restart = layout.restart(bytes, met as u32) as usize == at;
        if is_restart != (entry.shared == 0) || entry.shared > key_len {
            return Err(bad_entry(at));
        }
        key_len = entry.shared + entry.delta_len;
        if is_restart {
            key_len += prefix_len;
            out.extend_from_slice(&bytes[copied..at]);
            let lengths = &bytes[after_key_lengths(bytes, at)..entry.delta_at];
            let is_kept = met % stride == 0 || !coding.follows(&before, &entry.value);
            let more = MAX_LENGTH_LEN + if is_kept { prefix_len } else { 0 };
            room = room.checked_sub(more).ok_or_else(too_large)?;
            if is_kept {
                offsets.push(u32::try_from(out.len()).map_err(|_| too_large())?);
                put_varint32(&mut out, 0);
                put_varint32(&mut out, u32::try_from(key_len).map_err(|_| too_large())?);
                out.extend_from_slice(lengths);
                out.extend_from_slice(&bytes[..prefix_len]);
                out.extend_from_slice(entry.delta(bytes));
            } else {
                put_varint32(&mut out, prefix_len as u32);
                put_varint32(&mut out, entry.delta_len as u32);
                out.extend_from_slice(&lengths[..coding.kept_lengths(lengths)]);
                out.extend_from_slice(entry.delta(bytes));
                if coding.is_escaped() {
                    out.push(0);
                }
            }
            copied = entry.delta_range().end;
            met += 1;
        }
        before = entry.value;
        at = entry.next;
    }
    if met != restarts || at != layout.end() {
        return Err(Malformed::mismatch(
            layout.end(),
            "entries at restart points of the block",
            restarts,
            met,
        ));
    }
    out.extend_from_slice(&bytes[copied..at]);
    finish(bytes, layout, &offsets, out)
}

/// The offset after the two lengths of the key of the entry at `at`, which was decoded before.
fn after_key_lengths(bytes: &[u8], mut at: usize) -> usize {
    for _ in 0..2 {
        at += decode_varint32(&bytes[at..]).map_or(0, |(_, len)| len);
    }
    at
}

/// Appends the parts that follow the entries to `out`.
fn finish(
    bytes: &[u8],
    layout: &BlockLayout,
    offsets: &[u32],
    mut out: Vec<u8>,
) -> Decoded<Vec<u8>> {
    let entries_end = out.len();
    out.extend_from_slice(&bytes[layout.end()..layout.restarts_at as usize]);
    for &offset in offsets {
        put_fixed32(&mut out, offset);
    }
    let mut footer = u32::try_from(offsets.len()).map_err(|_| too_large())?;
    let hash_index = layout.hash_index(bytes);
    let behind = if layout.is_separated() { 8 } else { 4 };
    let fits = out.len() + hash_index.len() + behind <= MAX_HASHED_BLOCK_LEN;
    // Buckets refer to restart points by index.
    if !hash_index.is_empty() && fits && offsets.len() == layout.restarts() as usize {
        out.extend_from_slice(hash_index);
        footer |= HASHED;
    }
    if layout.is_separated() {
        put_fixed32(
            &mut out,
            u32::try_from(entries_end).map_err(|_| too_large())?,
        );
        footer |= SEPARATED;
    }
    if layout.is_uniform() {
        footer |= UNIFORM;
    }
    put_fixed32(&mut out, footer);
    Ok(out)
}

#[cold]
fn too_large() -> Malformed {
    Malformed::at(0, "block is too large with its common prefix in every key")
}

/// Removes the common prefix of `prefix_len` bytes from `entries` and stores it before the first one.
/// `offsets` are those of the restart points, at which the two lengths of the key are followed by `lengths`
/// others.
pub(super) fn strip(
    entries: &[u8],
    offsets: &mut [u32],
    prefix_len: usize,
    lengths: usize,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len());
    for i in 0..offsets.len() {
        let start = offsets[i] as usize;
        let end = offsets
            .get(i + 1)
            .map_or(entries.len(), |&next| next as usize);
        let mut at = start;
        let mut number = || {
            let (number, len) = decode_varint32(&entries[at..]).expect("the builder wrote it");
            at += len;
            number
        };
        let (shared, key_len) = (number(), number() as usize);
        assert_eq!(shared, 0, "the key at a restart point is complete");
        let behind_key = at;
        for _ in 0..lengths {
            let (_, len) = decode_varint32(&entries[at..]).expect("the builder wrote it");
            at += len;
        }
        let (prefix, rest) = entries[at..end].split_at(prefix_len);
        if i == 0 {
            out.extend_from_slice(prefix);
        }
        offsets[i] = out.len() as u32;
        put_varint32(&mut out, 0);
        put_varint32(&mut out, (key_len - prefix_len) as u32);
        out.extend_from_slice(&entries[behind_key..at]);
        out.extend_from_slice(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{BlockBuilder, BlockOptions, DataCursor, IndexBlockBuilder, IndexCursor};
    use super::*;
    use crate::key::InternalKey;
    use crate::table::handle::Handle;
    use cairn_types::{SequenceNumber, ValueKind};

    fn unhex(text: &str) -> Vec<u8> {
        let text: Vec<u8> = text
            .bytes()
            .filter(|byte| !byte.is_ascii_whitespace())
            .collect();
        let digit = |digit: u8| (digit as char).to_digit(16).unwrap() as u8;
        text.chunks(2)
            .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
            .collect()
    }

    fn key(user: &[u8], seq: u64) -> Vec<u8> {
        InternalKey::new(user, SequenceNumber(seq), ValueKind::Value).into_bytes()
    }

    /// The entries of the data block stored as `bytes`.
    fn entries(bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let expanded = expand(bytes, EntryForm::Data).unwrap();
        let block = expanded.as_deref().unwrap_or(bytes);
        let layout = BlockLayout::parse(block, BlockKind::Data).unwrap();
        let mut cursor = DataCursor::new();
        let mut all = Vec::new();
        cursor.first(block, &layout).unwrap();
        while cursor.valid() {
            all.push((cursor.key(block).to_vec(), cursor.value(block).to_vec()));
            cursor.next(block, &layout).unwrap();
        }
        all
    }

    fn options(restart_interval: usize) -> BlockOptions {
        BlockOptions {
            restart_interval,
            common_prefix: true,
            ..BlockOptions::default()
        }
    }

    fn built(options: BlockOptions, entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let mut builder = BlockBuilder::new(options);
        for (key, value) in entries {
            builder.add(key, value);
        }
        builder.finish().to_vec()
    }

    const USER_KEYS: IndexForm = IndexForm {
        user_keys: true,
        delta_values: true,
        first_keys: false,
        escaped: true,
    };

    /// Blocks of files written by RocksDB 11.12.
    #[test]
    fn blocks_are_those_of_rocksdb() {
        let lonely = unhex(&format!(
            "6c6f6e656c79 00081e 015c010000000000 {} 06000000 01000000",
            "78".repeat(30)
        ));
        let wanted = [(key(b"lonely", 348), vec![b'x'; 30])];
        assert_eq!(entries(&lonely), wanted);
        assert_eq!(built(options(16), &wanted), lonely);
        let nested = unhex(
            "6b 000802 015e010000000000 7630 010902 6b 015f010000000000 7631 020902 6b 0160010000000000 \
             7632 000b02 6b6b6b 0161010000000000 7633 01000000 2a000000 02000000",
        );
        let wanted: Vec<_> = (0..4)
            .map(|i| {
                (
                    key(&b"kkkk"[..i + 1], 350 + i as u64),
                    format!("v{i}").into_bytes(),
                )
            })
            .collect();
        assert_eq!(entries(&nested), wanted);
        assert_eq!(built(options(3), &wanted), nested);

        let index = unhex("6c6f6e656c79 0000 0037 06000000 01000000");
        let mut builder = IndexBlockBuilder::new(USER_KEYS, 1).with_common_prefix();
        let handle = Handle {
            offset: 0,
            size: 55,
        };
        builder.add(b"lonely", handle, None);
        assert_eq!(builder.finish(), index);
        let expanded = expand(&index, EntryForm::Index(USER_KEYS))
            .unwrap()
            .unwrap();
        let layout = BlockLayout::parse(&expanded, BlockKind::Index).unwrap();
        let mut cursor = IndexCursor::new(USER_KEYS);
        cursor.first(&expanded, &layout).unwrap();
        assert_eq!(
            (cursor.key(&expanded), cursor.handle()),
            (&b"lonely"[..], handle)
        );
    }

    /// Deltas and an escape, from a file with padding between its blocks.
    #[test]
    fn handle_encoding_matches_rocksdb() {
        let mut builder = IndexBlockBuilder::new(USER_KEYS, 16);
        let handle = |offset, size| Handle { offset, size };
        let rows: [(&[u8], Handle); 4] = [
            (b"shop/000/item/00015", handle(0, 351)),
            (b"shop/000/item/00027", handle(356, 366)),
            (b"shop/000/item/0009", handle(2048, 406)),
            (b"shop/000/item/00105", handle(2459, 354)),
        ];
        for (key, handle) in rows {
            builder.add(key, handle, None);
        }
        let bytes = builder.finish().to_vec();
        let wanted = [
            &b"\x00\x13shop/000/item/00015\x00\xdf\x02"[..],
            b"\x11\x0227\x1f",
            b"\x11\x019\x00\x80\x10\x96\x03",
            b"\x10\x03105\x68",
        ];
        assert_eq!(bytes[..bytes.len() - 8], wanted.concat());
    }

    /// A block written by RocksDB 11.12 in reverse order, whose prefix is longer than a user key
    /// and extends into that key's suffix.
    #[test]
    fn prefixes_of_other_writers_may_exceed_a_user_key() {
        let wanted = [
            (key(b"ab\x01", 9), b"1".to_vec()),
            (key(b"ab", 0), b"2".to_vec()),
        ];
        let mut theirs = b"ab\x01".to_vec();
        theirs.extend([0, 8, 1]);
        theirs.extend(&wanted[0].0[3..]);
        theirs.extend(b"1");
        theirs.extend([3, 7, 1]);
        theirs.extend(&wanted[1].0[3..]);
        theirs.extend(b"2");
        theirs.extend([3, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(entries(&theirs), wanted);
        let ours = built(options(16), &wanted);
        assert_eq!(&ours[..3], b"ab\0", "the prefix is that of user keys");
        assert_eq!(ours[ours.len() - 8], 2);
        assert_eq!(entries(&ours), wanted);
    }

    /// A long prefix with many restart points takes no more memory than a small multiple of the
    /// block.
    #[test]
    fn restart_points_are_dropped_if_the_prefix_is_long() {
        let prefix = vec![b'p'; 10_000];
        let all: Vec<_> = (0..2000u64)
            .map(|i| {
                let user = [&prefix[..], &i.to_be_bytes()].concat();
                (key(&user, i), i.to_le_bytes().to_vec())
            })
            .collect();
        for separate_values in [false, true] {
            let block = built(
                BlockOptions {
                    separate_values,
                    hash_util_ratio: Some(0.75),
                    ..options(1)
                },
                &all,
            );
            assert!(block.len() < 100_000);
            let expanded = expand(&block, EntryForm::Data).unwrap().unwrap();
            assert!(expanded.len() < 5 * block.len() + MIN_GROWTH);
            let layout = BlockLayout::parse(&expanded, BlockKind::Data).unwrap();
            assert!(layout.restarts() > 10 && layout.restarts() < 2000);
            assert_eq!(entries(&block), all);
        }
        for first_keys in [false, true] {
            for delta_values in [false, true] {
                let form = IndexForm {
                    delta_values,
                    first_keys,
                    ..USER_KEYS
                };
                let mut builder = IndexBlockBuilder::new(form, 1).with_common_prefix();
                let handle = |i: u64| Handle {
                    offset: i * 77,
                    size: 70 + i % 3,
                };
                for (i, (key, value)) in (0..).zip(&all) {
                    builder.add(&key[..key.len() - 8], handle(i), Some(value));
                }
                let block = builder.finish().to_vec();
                let expanded = expand(&block, EntryForm::Index(form)).unwrap().unwrap();
                assert!(expanded.len() < 5 * block.len() + MIN_GROWTH);
                let layout = BlockLayout::parse(&expanded, BlockKind::Index).unwrap();
                assert!(layout.restarts() < 2000);
                let mut cursor = IndexCursor::new(form);
                cursor.first(&expanded, &layout).unwrap();
                for (i, (key, value)) in (0..).zip(&all) {
                    assert_eq!(cursor.key(&expanded), &key[..key.len() - 8]);
                    assert_eq!(cursor.handle(), handle(i));
                    assert_eq!(
                        cursor.first_key(&expanded),
                        first_keys.then_some(&value[..])
                    );
                    cursor.next(&expanded, &layout).unwrap();
                }
            }
        }
    }

    #[test]
    fn damage_specific_to_prefix_blocks_is_detected() {
        let all: Vec<_> = (0..9u8)
            .map(|i| (key(&[b'k', b'k', i], 1), vec![i; 3]))
            .collect();
        let block = built(options(3), &all);
        let bad = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut changed = block.clone();
            change(&mut changed);
            expand(&changed, EntryForm::Data).is_err()
        };
        let restarts_at = block.len() - 16;
        let entry = |i: usize| {
            let offset = &block[restarts_at + 4 * i..][..4];
            u32::from_le_bytes(offset.try_into().unwrap()) as usize
        };
        assert!(!bad(&|_| ()));
        // A restart point that is between entries, repeated, out of order, or after the entries.
        assert!(bad(&|block| block[restarts_at + 4] += 1));
        assert!(bad(
            &|block| block.copy_within(restarts_at..restarts_at + 4, restarts_at + 4)
        ));
        assert!(bad(&|block| block.copy_within(
            restarts_at + 8..restarts_at + 12,
            restarts_at + 4
        )));
        assert!(bad(&|block| block[restarts_at + 8] = restarts_at as u8));
        // Shared bytes at a restart point, or none elsewhere.
        assert!(bad(&|block| block[entry(1)] = 1));
        let second = entry(0) + 3 + 9 + 3;
        assert_eq!(block[second], 2);
        assert!(bad(&|block| block[second] = 0));
        // More shared bytes than the previous key has; a value beyond the end of the block.
        assert!(bad(&|block| block[second] = 12));
        assert!(bad(&|block| block[entry(2) + 2] = 0x7f));
        // A prefix that reaches the end of the entries, also in a block without entries.
        assert!(bad(&|block| block[restarts_at] = restarts_at as u8));
        let none = [1, 0, 0, 0, 1, 0, 0, 0];
        assert!(expand(&none, EntryForm::Data).is_err());
        assert_eq!(
            expand(&[0, 0, 0, 0, 1, 0, 0, 0], EntryForm::Data).unwrap(),
            None
        );
    }
}
