//! Internal keys: user key, sequence number and kind in one comparable byte string.
//!
//! ```text
//! user key (any bytes, timestamp included) | fixed64 (sequence number << 8 | kind)
//! ```
//!
//! Internal keys are ordered by ascending user key, then by descending packed number, so that the newest
//! version comes first. The fast functions do not validate: input of fewer than 8 bytes is treated as an
//! empty user key, without a panic. Use [`parse`] for untrusted input.

use std::cmp::Ordering;
use std::fmt;

use crate::hash::hash64;

use cairn_types::{Decoded, KeyOrder, Malformed, SequenceNumber, ValueKind};

/// The length of the suffix that an internal key adds to its user key.
pub const SUFFIX_LEN: usize = 8;

/// Packs a sequence number and a kind into the 8-byte suffix.
#[inline]
#[must_use]
pub fn pack(seq: SequenceNumber, kind: ValueKind) -> u64 {
    debug_assert!(seq <= SequenceNumber::MAX);
    seq.0 << 8 | kind as u64
}

/// Appends the internal key of `user_key` to `out`.
#[inline]
pub fn append_internal(out: &mut Vec<u8>, user_key: &[u8], seq: SequenceNumber, kind: ValueKind) {
    out.reserve(user_key.len() + SUFFIX_LEN);
    out.extend_from_slice(user_key);
    out.extend_from_slice(&pack(seq, kind).to_le_bytes());
}

/// A decoded internal key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedKey<'a> {
    /// The user key, including its timestamp.
    pub user_key: &'a [u8],
    /// The sequence number.
    pub seq: SequenceNumber,
    /// The kind of the entry.
    pub kind: ValueKind,
}

/// Decodes an internal key.
///
/// # Errors
///
/// If it is too short, or its kind is not one of a table entry.
#[inline]
pub fn parse(internal: &[u8]) -> Decoded<ParsedKey<'_>> {
    let Some((user_key, suffix)) = internal.split_last_chunk::<SUFFIX_LEN>() else {
        return Err(too_short(internal));
    };
    let packed = u64::from_le_bytes(*suffix);
    match ValueKind::from_u8(packed as u8) {
        Some(kind) if kind.is_point() || kind == ValueKind::RangeDeletion => Ok(ParsedKey {
            user_key,
            seq: SequenceNumber(packed >> 8),
            kind,
        }),
        _ => Err(unknown_kind(user_key.len(), packed as u8)),
    }
}

#[cold]
fn too_short(internal: &[u8]) -> Malformed {
    Malformed::mismatch(
        0,
        "internal key is truncated",
        "at least 8 bytes",
        internal.len(),
    )
}

#[cold]
fn unknown_kind(at: usize, kind: u8) -> Malformed {
    Malformed::at(at, format!("internal key has unknown kind {kind:#04x}"))
}

/// The user key of an internal key; empty if the input is too short.
#[inline]
#[must_use]
pub fn user_key(internal: &[u8]) -> &[u8] {
    &internal[..internal.len().saturating_sub(SUFFIX_LEN)]
}

/// The packed sequence number and kind. If the input is too short, its kind is unknown, so that a reader of a damaged
/// table reports it.
#[inline]
#[must_use]
pub fn packed(internal: &[u8]) -> u64 {
    match internal.last_chunk::<SUFFIX_LEN>() {
        Some(suffix) => u64::from_le_bytes(*suffix),
        None => 0xff,
    }
}

/// The sequence number of an internal key; 0 if the input is too short.
#[inline]
#[must_use]
pub fn sequence(internal: &[u8]) -> SequenceNumber {
    SequenceNumber(packed(internal) >> 8)
}

/// `key` without its last `timestamp_size` bytes; empty if it is shorter.
#[inline]
#[must_use]
pub fn strip_timestamp(key: &[u8], timestamp_size: usize) -> &[u8] {
    &key[..key.len().saturating_sub(timestamp_size)]
}

/// Sets `out` to the user key of `internal`. Short keys are copied inline.
#[inline]
pub fn copy_user_key(out: &mut Vec<u8>, internal: &[u8]) {
    const CHUNK: usize = 16;
    out.clear();
    let user = user_key(internal);
    match internal.first_chunk::<CHUNK>() {
        Some(chunk) if user.len() <= CHUNK => {
            out.extend_from_slice(chunk);
            out.truncate(user.len());
        }
        _ => out.extend_from_slice(user),
    }
}

/// True if two user keys are equal. Equivalent to `a == b`, but keys of 8 to 16 bytes and most others are
/// compared inline.
#[inline]
#[must_use]
pub fn is_same_bytes(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    if let (Some(a_head), Some(b_head), Some(a_tail), Some(b_tail)) = (
        a.first_chunk::<8>(),
        b.first_chunk::<8>(),
        a.last_chunk::<8>(),
        b.last_chunk::<8>(),
    ) {
        return a_head == b_head && a_tail == b_tail && (a.len() <= 16 || a == b);
    }
    a == b
}

/// The length of the longest common prefix.
#[inline]
#[must_use]
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut len = 0;
    while let (Some(x), Some(y)) = (a[len..].first_chunk::<8>(), b[len..].first_chunk::<8>()) {
        let difference = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if difference != 0 {
            return len + difference.trailing_zeros() as usize / 8;
        }
        len += 8;
    }
    while len < a.len() && len < b.len() && a[len] == b[len] {
        len += 1;
    }
    len
}

/// An integer prefix of the user key of `internal`: a smaller prefix implies a smaller key; equal
/// prefixes imply nothing.
#[inline]
#[must_use]
pub fn prefix(order: &KeyOrder, internal: &[u8]) -> u64 {
    prefix_after(order, user_key(internal), 0)
}

/// The indices of `users`, user keys in `order`, sorted by key, each with a word of its key. `compare` is asked about the
/// indices of keys with equal words, which few have. There are fewer than 2^32 keys.
#[must_use]
pub fn sorted_indices<'k>(
    order: &KeyOrder,
    users: impl Iterator<Item = &'k [u8]> + Clone,
    compare: impl Fn(u32, u32) -> Ordering,
) -> Vec<(u64, u32)> {
    let shared = users.clone().reduce(|a, b| &a[..common_prefix(a, b)]);
    let skipped = shared.map_or(0, <[u8]>::len);
    let words = users.map(|user| prefix_after(order, user, skipped));
    let mut places: Vec<(u64, u32)> = words.zip(0..).collect();
    places.sort_unstable();
    for equal in places.chunk_by_mut(|a, b| a.0 == b.0) {
        equal.sort_by(|a, b| compare(a.1, b.1));
    }
    places
}

/// [`prefix`] of user keys of which the first `skipped` bytes are equal.
///
/// # Panics
///
/// If a key is shorter.
#[inline]
#[must_use]
fn prefix_after(order: &KeyOrder, user: &[u8], skipped: usize) -> u64 {
    let user = &user[skipped..];
    let (user, inverted) = match order {
        KeyOrder::Bytewise => (user, false),
        KeyOrder::ReverseBytewise => (user, true),
        KeyOrder::BytewiseU64Ts => (strip_timestamp(user, U64_TS), false),
        _ => return 0,
    };
    let start = match user.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut padded = [0; 8];
            padded[..user.len()].copy_from_slice(user);
            u64::from_be_bytes(padded)
        }
    };
    if inverted { !start } else { start }
}

/// Compares user keys bytewise. Equivalent to `a.cmp(b)`, but most keys differ in their first 8 bytes, which
/// are compared inline.
#[inline]
#[must_use]
pub fn compare_bytewise(a: &[u8], b: &[u8]) -> Ordering {
    if let (Some((a8, a_rest)), Some((b8, b_rest))) =
        (a.split_first_chunk::<8>(), b.split_first_chunk::<8>())
    {
        let (a8, b8) = (u64::from_be_bytes(*a8), u64::from_be_bytes(*b8));
        if a8 != b8 {
            return a8.cmp(&b8);
        }
        // Keys of 9 to 16 bytes are common, and their second 8 bytes decide.
        if let (Some((a8, a_rest)), Some((b8, b_rest))) = (
            a_rest.split_first_chunk::<8>(),
            b_rest.split_first_chunk::<8>(),
        ) {
            let (a8, b8) = (u64::from_be_bytes(*a8), u64::from_be_bytes(*b8));
            if a8 != b8 {
                return a8.cmp(&b8);
            }
            // Two equal 16-byte keys have no remaining bytes, so no call is needed.
            return match a_rest.is_empty() || b_rest.is_empty() {
                true => a_rest.len().cmp(&b_rest.len()),
                false => a_rest.cmp(b_rest),
            };
        }
        return a_rest.cmp(b_rest);
    }
    a.cmp(b)
}

/// The length of a 64-bit timestamp.
pub(crate) const U64_TS: usize = 8;

/// Compares user keys that end with 64-bit timestamps, newer first: [`KeyOrder::BytewiseU64Ts`].
#[inline]
pub(crate) fn compare_timestamped(a: &[u8], b: &[u8]) -> Ordering {
    // That of a key that is too short is 0, as in `KeyOrder::compare`.
    let timestamp = |key: &[u8]| {
        key.last_chunk::<U64_TS>()
            .map_or(0, |last| u64::from_le_bytes(*last))
    };
    compare_bytewise(strip_timestamp(a, U64_TS), strip_timestamp(b, U64_TS))
        .then_with(|| timestamp(b).cmp(&timestamp(a)))
}

/// Compares user keys: [`KeyOrder::compare`] with fast paths for the bytewise orders.
#[inline]
#[must_use]
pub fn compare_user(order: &KeyOrder, a: &[u8], b: &[u8]) -> Ordering {
    match order {
        KeyOrder::Bytewise => compare_bytewise(a, b),
        KeyOrder::BytewiseU64Ts => compare_timestamped(a, b),
        other => other.compare(a, b),
    }
}

/// Compares user keys without their timestamps: [`KeyOrder::compare_without_timestamp`] with fast paths for the
/// bytewise orders.
#[inline]
#[must_use]
pub fn compare_without_timestamp(order: &KeyOrder, a: &[u8], b: &[u8]) -> Ordering {
    match order {
        KeyOrder::Bytewise => compare_bytewise(a, b),
        KeyOrder::BytewiseU64Ts => {
            compare_bytewise(strip_timestamp(a, U64_TS), strip_timestamp(b, U64_TS))
        }
        other => other.compare_without_timestamp(a, b),
    }
}

/// True if two user keys are equal except for their timestamps.
#[inline]
#[must_use]
pub fn is_same_key(order: &KeyOrder, a: &[u8], b: &[u8]) -> bool {
    match order {
        KeyOrder::Bytewise => is_same_bytes(a, b),
        KeyOrder::BytewiseU64Ts => {
            is_same_bytes(strip_timestamp(a, U64_TS), strip_timestamp(b, U64_TS))
        }
        other => other.compare_without_timestamp(a, b).is_eq(),
    }
}

/// Compares two user keys that have no timestamp, even if keys in `order` have one.
#[inline]
#[must_use]
pub fn compare_plain(order: &KeyOrder, a: &[u8], b: &[u8]) -> Ordering {
    match order {
        KeyOrder::Bytewise => compare_bytewise(a, b),
        KeyOrder::ReverseBytewise => b.cmp(a),
        KeyOrder::BytewiseU64Ts => a.cmp(b),
        KeyOrder::ReverseBytewiseU64Ts => b.cmp(a),
        KeyOrder::Custom(custom) if custom.timestamp_size() > 0 => {
            custom.compare_without_timestamp(a, false, b, false)
        }
        KeyOrder::Custom(custom) => custom.compare(a, b),
    }
}

/// Compares internal keys: by ascending user key, then by descending packed number.
#[inline]
#[must_use]
pub fn compare(order: &KeyOrder, a: &[u8], b: &[u8]) -> Ordering {
    match compare_user(order, user_key(a), user_key(b)) {
        Ordering::Equal => packed(b).cmp(&packed(a)),
        unequal => unequal,
    }
}

/// Shortens the internal key `start` to one that is at or after it and before `limit`, or leaves it
/// unchanged.
pub fn shorten_separator(order: &KeyOrder, start: &mut Vec<u8>, limit: &[u8]) {
    let mut short = user_key(start).to_vec();
    order.shorten_separator(&mut short, user_key(limit));
    // A comparator of the program may return any key; behind one at or after `limit`, keys would not be found.
    if order.compare(&short, user_key(limit)) == Ordering::Less {
        replace_if_after(order, start, short);
    }
}

/// Shortens the internal key `key` to one at or after it, or leaves it unchanged.
pub fn shorten_successor(order: &KeyOrder, key: &mut Vec<u8>) {
    let mut short = user_key(key).to_vec();
    order.shorten_successor(&mut short);
    replace_if_after(order, key, short);
}

/// Replaces `internal` with `short` and the packed number of a seek key, if `short` is strictly
/// after its user key and not longer. An equal user key would sort before older entries.
fn replace_if_after(order: &KeyOrder, internal: &mut Vec<u8>, mut short: Vec<u8>) {
    let user = user_key(internal);
    if short.len() <= user.len() && order.compare(user, &short) == Ordering::Less {
        short.extend_from_slice(&pack(SequenceNumber::MAX, ValueKind::FOR_SEEK).to_le_bytes());
        *internal = short;
    }
}

/// RocksDB's `kTypeMaxValid`: the kind of the smallest bound of a table that begins with a truncated range tombstone.
const FIRST_OF_A_SEQUENCE_NUMBER: u8 = 0x1a;

/// An owned internal key.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct InternalKey(Vec<u8>);

impl InternalKey {
    /// Creates an internal key.
    #[must_use]
    pub fn new(user_key: &[u8], seq: SequenceNumber, kind: ValueKind) -> InternalKey {
        let mut bytes = Vec::new();
        append_internal(&mut bytes, user_key, seq, kind);
        InternalKey(bytes)
    }

    /// Validates `bytes` as an internal key or as the bound of a table. RocksDB's number of a bound that precedes
    /// all entries with its user key and sequence number becomes that of [`ValueKind::FOR_SEEK`].
    ///
    /// # Errors
    ///
    /// Those of [`parse`].
    pub fn decode(bytes: &[u8]) -> Decoded<InternalKey> {
        let mut bytes = bytes.to_vec();
        if let Some([kind @ FIRST_OF_A_SEQUENCE_NUMBER, ..]) = bytes.last_chunk_mut::<SUFFIX_LEN>()
        {
            *kind = ValueKind::FOR_SEEK as u8;
        }
        parse(&bytes)?;
        Ok(InternalKey(bytes))
    }

    /// The encoded key.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The encoded key, as an owned vector.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The user key, including its timestamp.
    #[inline]
    #[must_use]
    pub fn user_key(&self) -> &[u8] {
        user_key(&self.0)
    }

    /// The sequence number.
    #[inline]
    #[must_use]
    pub fn seq(&self) -> SequenceNumber {
        sequence(&self.0)
    }

    /// The kind of the entry; a deletion for the default, empty key.
    #[must_use]
    pub fn kind(&self) -> ValueKind {
        ValueKind::from_u8(packed(&self.0) as u8).unwrap_or(ValueKind::Deletion)
    }

    /// True if this key, as the largest key of a file, is an exclusive bound: the end of a range tombstone.
    #[must_use]
    pub fn is_exclusive_bound(&self) -> bool {
        packed(&self.0) == pack(SequenceNumber::MAX, ValueKind::RangeDeletion)
    }
}

impl fmt::Debug for InternalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match parse(&self.0) {
            Ok(key) => write!(
                f,
                "{}@{}:{:?}",
                key.user_key.escape_ascii(),
                key.seq,
                key.kind
            ),
            Err(_) => write!(f, "bad key {}", self.0.escape_ascii()),
        }
    }
}

/// The maximum length of a lookup key without an allocation.
const INLINE: usize = 72;

/// The seek key of a point lookup: it precedes all versions of `user` that are not newer than
/// `seq`. Keys of ordinary length are stored inline.
#[derive(Clone)]
pub struct LookupKey {
    short: [u8; INLINE],
    /// The length of the internal key.
    len: usize,
    /// The filter hash of the user key without its timestamp.
    hash: u64,
    /// The length of the timestamp, which the hash excludes.
    timestamp: usize,
    /// The whole key if it does not fit into `short`; empty otherwise.
    long: Vec<u8>,
}

impl LookupKey {
    /// The lookup key for the versions of `user`, which includes its timestamp, that are visible at `seq`.
    #[inline]
    #[must_use]
    pub fn new(user: &[u8], seq: SequenceNumber) -> LookupKey {
        let suffix = pack(seq, ValueKind::FOR_SEEK).to_le_bytes();
        let len = user.len() + SUFFIX_LEN;
        let mut key = LookupKey {
            short: [0; INLINE],
            len,
            hash: hash64(user),
            timestamp: 0,
            long: Vec::new(),
        };
        if let Some(room) = key.short.get_mut(..len) {
            room[..user.len()].copy_from_slice(user);
            room[user.len()..].copy_from_slice(&suffix);
        } else {
            key.long = [user, &suffix].concat();
        }
        key
    }

    /// The lookup key for the versions of `plain`, which has no timestamp, that are visible at `seq` and not newer
    /// than `timestamp`.
    #[inline]
    #[must_use]
    pub fn with_timestamp(plain: &[u8], timestamp: &[u8], seq: SequenceNumber) -> LookupKey {
        let suffix = pack(seq, ValueKind::FOR_SEEK).to_le_bytes();
        let user_len = plain.len() + timestamp.len();
        let len = user_len + SUFFIX_LEN;
        let mut key = LookupKey {
            short: [0; INLINE],
            len,
            hash: hash64(plain),
            timestamp: timestamp.len(),
            long: Vec::new(),
        };
        if let Some(room) = key.short.get_mut(..len) {
            room[..plain.len()].copy_from_slice(plain);
            room[plain.len()..user_len].copy_from_slice(timestamp);
            room[user_len..].copy_from_slice(&suffix);
        } else {
            key.long = [plain, timestamp, &suffix].concat();
        }
        key
    }

    /// The internal key.
    #[inline]
    #[must_use]
    pub fn internal(&self) -> &[u8] {
        self.short.get(..self.len).unwrap_or(&self.long)
    }

    /// The user key, including its timestamp.
    #[inline]
    #[must_use]
    pub fn user(&self) -> &[u8] {
        user_key(self.internal())
    }

    /// The 64-bit hash of the user key without its timestamp of `size` bytes.
    #[inline]
    #[must_use]
    pub fn hash_without_timestamp(&self, size: usize) -> u64 {
        match self.timestamp == size {
            true => self.hash,
            false => hash64(strip_timestamp(self.user(), size)),
        }
    }

    /// The sequence number at which the lookup reads.
    #[inline]
    #[must_use]
    pub fn seq(&self) -> SequenceNumber {
        sequence(self.internal())
    }
}

impl fmt::Debug for LookupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.user().escape_ascii(), self.seq())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn internal(user: &[u8], seq: u64, kind: ValueKind) -> Vec<u8> {
        InternalKey::new(user, SequenceNumber(seq), kind).into_bytes()
    }

    /// Regression: they were deletions of the empty key, which scans of a damaged table skipped without an error.
    #[test]
    fn keys_without_eight_bytes_are_of_an_unknown_kind() {
        for len in 0..SUFFIX_LEN {
            let packed = packed(&vec![0; len]);
            assert_eq!(ValueKind::from_u8(packed as u8), None);
            assert_eq!(sequence(&vec![0; len]), SequenceNumber::ZERO);
            // A user key without a whole timestamp has timestamp 0.
            let (order, key) = (KeyOrder::BytewiseU64Ts, vec![0; len]);
            assert_eq!(compare_user(&order, &key, &[0; 8]), Ordering::Equal);
            assert_eq!(order.compare(&key, &[0; 8]), Ordering::Equal);
        }
    }

    #[test]
    fn a_key_is_its_user_key_and_eight_bytes() {
        let key = internal(b"ab", 0x0102, ValueKind::Merge);
        assert_eq!(key, b"ab\x02\x02\x01\0\0\0\0\0");
        let parsed = parse(&key).unwrap();
        assert_eq!(parsed.user_key, b"ab");
        assert_eq!(parsed.seq, SequenceNumber(0x0102));
        assert_eq!(parsed.kind, ValueKind::Merge);
    }

    #[test]
    fn batch_kinds_are_invalid_in_keys() {
        let mut key = internal(b"ab", 1, ValueKind::Value);
        for bad in [
            ValueKind::LogData as u8,
            ValueKind::FamilyValue as u8,
            0x1a,
            0x7f,
        ] {
            key[2] = bad;
            assert!(parse(&key).is_err());
        }
        assert!(parse(&[0; 7]).is_err());
    }

    #[test]
    fn the_bound_of_a_truncated_tombstone_precedes_entries_with_its_number() {
        let bound = InternalKey::decode(b"k\x1a\x05\0\0\0\0\0\0").unwrap();
        assert_eq!(
            (bound.user_key(), bound.seq()),
            (&b"k"[..], SequenceNumber(5))
        );
        let order = KeyOrder::Bytewise;
        let newer = internal(b"k", 6, ValueKind::Value);
        assert_eq!(compare(&order, &newer, bound.as_bytes()), Ordering::Less);
        for kind in [ValueKind::RangeDeletion, ValueKind::Value] {
            let entry = internal(b"k", 5, kind);
            assert_eq!(compare(&order, bound.as_bytes(), &entry), Ordering::Less);
            assert!(bound.kind() > kind);
        }
    }

    #[test]
    fn newer_entries_come_first() {
        let order = KeyOrder::Bytewise;
        let older = internal(b"k", 5, ValueKind::Value);
        let newer = internal(b"k", 6, ValueKind::Deletion);
        assert_eq!(compare(&order, &newer, &older), Ordering::Less);
        let seek = LookupKey::new(b"k", SequenceNumber(5));
        assert_eq!(compare(&order, seek.internal(), &older), Ordering::Less);
        assert_eq!(compare(&order, seek.internal(), &newer), Ordering::Greater);
    }

    #[test]
    fn the_end_of_a_tombstone_is_an_exclusive_bound() {
        let end = InternalKey::new(b"z", SequenceNumber::MAX, ValueKind::RangeDeletion);
        assert!(end.is_exclusive_bound());
        let start = InternalKey::new(b"a", SequenceNumber(9), ValueKind::RangeDeletion);
        assert!(!start.is_exclusive_bound());
    }

    #[test]
    fn a_separator_is_used_only_when_the_user_key_moves() {
        let order = KeyOrder::Bytewise;
        let mut key = internal(b"abcdef", 7, ValueKind::Value);
        shorten_separator(&order, &mut key, &internal(b"abzz", 1, ValueKind::Value));
        assert_eq!(user_key(&key), b"abd");
        assert_eq!(packed(&key), pack(SequenceNumber::MAX, ValueKind::FOR_SEEK));
        let same = internal(b"abd", 7, ValueKind::Value);
        let mut key = same.clone();
        shorten_separator(&order, &mut key, &internal(b"abd", 3, ValueKind::Value));
        assert_eq!(key, same);
        shorten_successor(&order, &mut key);
        assert_eq!(user_key(&key), b"b");
    }

    /// Shortens to the key that it has.
    struct Shortens(&'static [u8]);

    impl cairn_types::Comparator for Shortens {
        fn name(&self) -> &str {
            "shortens"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            a.cmp(b)
        }
        fn shorten_separator(&self, start: &mut Vec<u8>, _: &[u8]) {
            *start = self.0.to_vec();
        }
        fn different_bytes_may_be_equal(&self) -> bool {
            false
        }
    }

    /// Regression: keys of the next block were not found if a comparator returned a separator at or after the first of them.
    #[test]
    fn a_separator_that_is_not_in_between_is_not_used() {
        for (separator, is_used) in [("bz", false), ("d", false), ("e", false), ("c", true)] {
            let order = KeyOrder::Custom(std::sync::Arc::new(Shortens(separator.as_bytes())));
            let start = internal(b"bzz", 7, ValueKind::Value);
            let mut key = start.clone();
            shorten_separator(&order, &mut key, &internal(b"d", 1, ValueKind::Value));
            assert_eq!(key != start, is_used, "{separator}");
        }
    }

    #[test]
    fn long_lookup_keys_are_whole() {
        for len in [0, 1, INLINE - SUFFIX_LEN, INLINE - SUFFIX_LEN + 1, 500] {
            let user = vec![7u8; len];
            let key = LookupKey::new(&user, SequenceNumber(3));
            assert_eq!(key.user(), &user[..]);
            assert_eq!(key.internal(), &internal(&user, 3, ValueKind::FOR_SEEK)[..]);
            assert_eq!(key.seq(), SequenceNumber(3));
            assert_eq!(key.hash_without_timestamp(0), hash64(&user));
            for size in 0..=len.min(9) {
                let (plain, timestamp) = user.split_at(len - size);
                let split = LookupKey::with_timestamp(plain, timestamp, SequenceNumber(3));
                assert_eq!(split.internal(), key.internal());
                for other in [&split, &key] {
                    assert_eq!(other.hash_without_timestamp(size), hash64(plain));
                    assert_eq!(other.hash_without_timestamp(0), hash64(&user));
                }
            }
        }
    }

    /// Keys that often share prefixes, and are often prefixes of each other.
    fn user_keys() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(
            prop_oneof![Just(0u8), Just(1), Just(0xff), any::<u8>()],
            0..24,
        )
    }

    #[test]
    fn keys_of_every_length_are_copied_and_compared() {
        let mut out = b"longer than any key in the test.".to_vec();
        for len in 0..40 {
            let user: Vec<u8> = (0..len).collect();
            copy_user_key(&mut out, &internal(&user, 3, ValueKind::Value));
            assert_eq!(out, user);
            assert!(is_same_bytes(&out, &user));
            for at in 0..user.len() {
                let mut other = user.clone();
                other[at] ^= 1;
                assert!(!is_same_bytes(&other, &user), "byte {at} of {len}");
                assert!(!is_same_bytes(&user[..at], &user));
            }
            copy_user_key(&mut out, &user[..user.len().min(7)]);
            assert_eq!(out, b"", "too short to be an internal key");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn distinct_prefixes_order_like_their_keys(a in user_keys(), b in user_keys()) {
            let [one, other] = [&a, &b].map(|user| internal(user, 7, ValueKind::Value));
            for order in [KeyOrder::Bytewise, KeyOrder::ReverseBytewise, KeyOrder::BytewiseU64Ts] {
                match prefix(&order, &one).cmp(&prefix(&order, &other)) {
                    Ordering::Equal => {}
                    unequal => prop_assert_eq!(unequal, order.compare(&a, &b)),
                }
            }
        }

        #[test]
        fn prefixes_after_equal_bytes_order_like_their_keys(
            start in user_keys(), a in user_keys(), b in user_keys(),
        ) {
            let [a, b] = [a, b].map(|end| [&start[..], &end].concat());
            let skipped = common_prefix(&a, &b);
            prop_assert_eq!(skipped, a.iter().zip(&b).take_while(|(x, y)| x == y).count());
            for order in [KeyOrder::Bytewise, KeyOrder::ReverseBytewise, KeyOrder::BytewiseU64Ts] {
                let prefixes = [&a, &b].map(|user| prefix_after(&order, user, skipped));
                match prefixes[0].cmp(&prefixes[1]) {
                    Ordering::Equal => {}
                    unequal => prop_assert_eq!(unequal, order.compare(&a, &b)),
                }
            }
        }

        #[test]
        fn indices_are_sorted_by_key(
            start in user_keys(), ends in prop::collection::vec(user_keys(), 0..40),
        ) {
            let keys: Vec<Vec<u8>> = ends.iter().map(|end| [&start[..], end].concat()).collect();
            for order in [KeyOrder::Bytewise, KeyOrder::ReverseBytewise, KeyOrder::BytewiseU64Ts] {
                let compare = |a: u32, b: u32| order.compare(&keys[a as usize], &keys[b as usize]);
                let users = keys.iter().map(Vec::as_slice);
                let sorted: Vec<u32> =
                    sorted_indices(&order, users, compare).into_iter().map(|(_, at)| at).collect();
                let mut expected: Vec<u32> = (0..keys.len() as u32).collect();
                expected.sort_by(|a, b| compare(*a, *b));
                prop_assert_eq!(sorted, expected);
            }
        }

        #[test]
        fn the_fast_comparison_is_bytewise(mut a in user_keys(), b in user_keys(), same in 0usize..24) {
            prop_assert_eq!(compare_bytewise(&a, &b), a.cmp(&b));
            a.truncate(same);
            let b = [&a[..], &b].concat();
            prop_assert_eq!(compare_bytewise(&a, &b), a.cmp(&b));
            let c = [&a[..], &b].concat();
            prop_assert_eq!(compare_bytewise(&c, &b), c.cmp(&b));
        }

        #[test]
        fn fast_comparisons_match_the_order(a in user_keys(), b in user_keys(), equal: bool) {
            let b = if equal && a.len() > 8 && b.len() > 8 {
                [&a[..a.len() - 8], &b[b.len() - 8..]].concat()
            } else {
                b
            };
            for order in [
                KeyOrder::Bytewise, KeyOrder::ReverseBytewise,
                KeyOrder::BytewiseU64Ts, KeyOrder::ReverseBytewiseU64Ts,
            ] {
                prop_assert_eq!(compare_user(&order, &a, &b), order.compare(&a, &b));
                let plain = order.compare_without_timestamp(&a, &b);
                prop_assert_eq!(compare_without_timestamp(&order, &a, &b), plain);
                prop_assert_eq!(is_same_key(&order, &a, &b), plain.is_eq());
            }
        }

        #[test]
        fn shortened_keys_are_in_between(a in user_keys(), b in user_keys(), reverse: bool) {
            let order = if reverse { KeyOrder::ReverseBytewise } else { KeyOrder::Bytewise };
            let (a, b) = if order.compare(&a, &b) == Ordering::Greater { (b, a) } else { (a, b) };
            let (start, limit) = (internal(&a, 5, ValueKind::Value), internal(&b, 4, ValueKind::Value));
            let mut key = start.clone();
            shorten_separator(&order, &mut key, &limit);
            prop_assert_ne!(compare(&order, &start, &key), Ordering::Greater);
            prop_assert_eq!(compare(&order, &key, &limit), Ordering::Less);
            let mut key = start.clone();
            shorten_successor(&order, &mut key);
            prop_assert_ne!(compare(&order, &start, &key), Ordering::Greater);
        }

        #[test]
        fn hostile_bytes_never_panic(a in prop::collection::vec(any::<u8>(), 0..20),
                                     b in prop::collection::vec(any::<u8>(), 0..20)) {
            let _ = parse(&a);
            let _ = (user_key(&a), packed(&a), strip_timestamp(&a, 8));
            for order in [KeyOrder::Bytewise, KeyOrder::ReverseBytewise, KeyOrder::BytewiseU64Ts] {
                prop_assert_eq!(compare(&order, &a, &b), compare(&order, &b, &a).reverse());
            }
        }
    }
}
