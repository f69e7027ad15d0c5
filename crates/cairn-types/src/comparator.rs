//! The order of user keys: RocksDB's built-in comparators, and user-defined ones.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A user-defined total order of user keys. It must be the same in every process that opens the database.
/// Files record its name, and a database cannot be opened with a comparator of another name.
pub trait Comparator: Send + Sync {
    /// The name recorded in files.
    fn name(&self) -> &str;
    /// Compares `a` to `b`.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;
    /// Shortens `start` to a key in `[start, limit)`, or leaves it unchanged.
    fn shorten_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let _ = (start, limit);
    }
    /// Shortens `key` to a key at or after it, or leaves it unchanged.
    fn shorten_successor(&self, key: &mut Vec<u8>) {
        let _ = key;
    }
    /// The length in bytes of the timestamp at the end of each key; 0 for none.
    fn timestamp_size(&self) -> usize {
        0
    }
    /// Compares keys without their timestamps. Called only for an order with timestamps; `a_has_timestamp`
    /// and `b_has_timestamp` are true for the keys that have one.
    fn compare_without_timestamp(
        &self,
        a: &[u8],
        a_has_timestamp: bool,
        b: &[u8],
        b_has_timestamp: bool,
    ) -> Ordering {
        let _ = (a_has_timestamp, b_has_timestamp);
        self.compare(a, b)
    }
    /// True if different byte strings may compare as equal. Hash indexes are then disabled.
    fn different_bytes_may_be_equal(&self) -> bool {
        true
    }
}

/// The key order of a column family. Built-in orders are dispatched statically.
#[derive(Clone, Default)]
pub enum KeyOrder {
    /// `leveldb.BytewiseComparator`, the default.
    #[default]
    Bytewise,
    /// `rocksdb.ReverseBytewiseComparator`.
    ReverseBytewise,
    /// `leveldb.BytewiseComparator.u64ts`: keys end with a timestamp of 8 little-endian bytes, newer first.
    BytewiseU64Ts,
    /// `rocksdb.ReverseBytewiseComparator.u64ts`.
    ReverseBytewiseU64Ts,
    /// A user-defined order.
    Custom(Arc<dyn Comparator>),
}

/// The length in bytes of the timestamp in the built-in orders that have one.
const U64_TS: usize = 8;

/// The timestamp at the end of `key`, as a number; 0 if the key is too short.
fn u64_timestamp(key: &[u8]) -> u64 {
    key.last_chunk::<U64_TS>()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// `key` without the last `size` bytes.
fn strip(key: &[u8], size: usize) -> &[u8] {
    &key[..key.len().saturating_sub(size)]
}

impl KeyOrder {
    /// The built-in order of this name, or `None`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<KeyOrder> {
        Some(match name {
            "leveldb.BytewiseComparator" => KeyOrder::Bytewise,
            "rocksdb.ReverseBytewiseComparator" => KeyOrder::ReverseBytewise,
            "leveldb.BytewiseComparator.u64ts" => KeyOrder::BytewiseU64Ts,
            "rocksdb.ReverseBytewiseComparator.u64ts" => KeyOrder::ReverseBytewiseU64Ts,
            _ => return None,
        })
    }

    /// The name recorded in files.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            KeyOrder::Bytewise => "leveldb.BytewiseComparator",
            KeyOrder::ReverseBytewise => "rocksdb.ReverseBytewiseComparator",
            KeyOrder::BytewiseU64Ts => "leveldb.BytewiseComparator.u64ts",
            KeyOrder::ReverseBytewiseU64Ts => "rocksdb.ReverseBytewiseComparator.u64ts",
            KeyOrder::Custom(custom) => custom.name(),
        }
    }

    /// Compares `a` to `b`, including timestamps if the order has them.
    #[inline]
    #[must_use]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            KeyOrder::Bytewise => a.cmp(b),
            KeyOrder::ReverseBytewise => b.cmp(a),
            KeyOrder::BytewiseU64Ts => strip(a, U64_TS)
                .cmp(strip(b, U64_TS))
                .then_with(|| u64_timestamp(b).cmp(&u64_timestamp(a))),
            KeyOrder::ReverseBytewiseU64Ts => strip(b, U64_TS)
                .cmp(strip(a, U64_TS))
                .then_with(|| u64_timestamp(b).cmp(&u64_timestamp(a))),
            KeyOrder::Custom(custom) => custom.compare(a, b),
        }
    }

    /// Compares `a` to `b` without the timestamps that both carry.
    #[inline]
    #[must_use]
    pub fn compare_without_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            KeyOrder::Bytewise => a.cmp(b),
            KeyOrder::ReverseBytewise => b.cmp(a),
            KeyOrder::BytewiseU64Ts => strip(a, U64_TS).cmp(strip(b, U64_TS)),
            KeyOrder::ReverseBytewiseU64Ts => strip(b, U64_TS).cmp(strip(a, U64_TS)),
            KeyOrder::Custom(custom) => match custom.timestamp_size() {
                0 => custom.compare(a, b),
                _ => custom.compare_without_timestamp(a, true, b, true),
            },
        }
    }

    /// The length in bytes of the timestamp at the end of each key; 0 for none.
    #[inline]
    #[must_use]
    pub fn timestamp_size(&self) -> usize {
        match self {
            KeyOrder::Bytewise | KeyOrder::ReverseBytewise => 0,
            KeyOrder::BytewiseU64Ts | KeyOrder::ReverseBytewiseU64Ts => U64_TS,
            KeyOrder::Custom(custom) => custom.timestamp_size(),
        }
    }

    /// True if keys compare as byte strings, so that an 8-byte big-endian prefix orders them.
    #[inline]
    #[must_use]
    pub fn is_bytewise(&self) -> bool {
        matches!(self, KeyOrder::Bytewise)
    }

    /// The length in bytes of the timestamp at the end of each key, 0 for none, if the rest of the key compares
    /// as a byte string and timestamps are 64-bit numbers, newer first; `None` in other orders.
    #[inline]
    #[must_use]
    pub fn bytewise_before_timestamp(&self) -> Option<usize> {
        match self {
            KeyOrder::Bytewise => Some(0),
            KeyOrder::BytewiseU64Ts => Some(U64_TS),
            _ => None,
        }
    }

    /// True if different byte strings may compare as equal.
    #[must_use]
    pub fn different_bytes_may_be_equal(&self) -> bool {
        match self {
            KeyOrder::Custom(custom) => custom.different_bytes_may_be_equal(),
            _ => false,
        }
    }

    /// Shortens `start` to a key in `[start, limit)`, or leaves it unchanged.
    pub fn shorten_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        match self {
            KeyOrder::Bytewise => shorten_bytewise(start, limit),
            KeyOrder::ReverseBytewise => shorten_reverse(start, limit),
            // Keys with timestamps are not shortened: a shorter key would have to end with one.
            KeyOrder::BytewiseU64Ts | KeyOrder::ReverseBytewiseU64Ts => {}
            KeyOrder::Custom(custom) => custom.shorten_separator(start, limit),
        }
    }

    /// Shortens `key` to a key at or after it, or leaves it unchanged.
    pub fn shorten_successor(&self, key: &mut Vec<u8>) {
        match self {
            KeyOrder::Bytewise => {
                if let Some(at) = key.iter().position(|&byte| byte != 0xff) {
                    key[at] += 1;
                    key.truncate(at + 1);
                }
            }
            KeyOrder::Custom(custom) => custom.shorten_successor(key),
            _ => {}
        }
    }
}

/// The length of the longest common prefix.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

fn shorten_bytewise(start: &mut Vec<u8>, limit: &[u8]) {
    let at = common_prefix(start, limit);
    if at >= start.len() || at >= limit.len() || start[at] >= limit[at] {
        return;
    }
    if at + 1 < limit.len() || start[at] + 1 < limit[at] {
        start[at] += 1;
        start.truncate(at + 1);
    } else if let Some(later) = start[at + 1..].iter().position(|&byte| byte != 0xff) {
        // Incrementing at `at` would reach `limit`; a later byte can be incremented.
        start[at + 1 + later] += 1;
        start.truncate(at + 2 + later);
    }
}

fn shorten_reverse(start: &mut Vec<u8>, limit: &[u8]) {
    let at = common_prefix(start, limit);
    // In reverse order `start` is the greater byte string. Truncating it after the first difference keeps it
    // greater than `limit` and moves it later in this order.
    if at < limit.len() && at + 1 < start.len() && start[at] > limit[at] {
        start.truncate(at + 1);
    }
}

impl fmt::Debug for KeyOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened(order: &KeyOrder, start: &[u8], limit: &[u8]) -> Vec<u8> {
        let mut key = start.to_vec();
        order.shorten_separator(&mut key, limit);
        assert_ne!(order.compare(start, &key), Ordering::Greater);
        assert_eq!(order.compare(&key, limit), Ordering::Less);
        assert!(key.len() <= start.len());
        key
    }

    #[test]
    fn bytewise_separators_are_short_and_in_between() {
        let order = KeyOrder::Bytewise;
        assert_eq!(shortened(&order, b"abcdef", b"abzz"), b"abd");
        assert_eq!(shortened(&order, b"abcdef", b"abd"), b"abce");
        assert_eq!(
            shortened(&order, b"ab\x01\xff\xff", b"ab\x02"),
            b"ab\x01\xff\xff"
        );
        assert_eq!(shortened(&order, b"ab", b"abc"), b"ab");
    }

    #[test]
    fn reverse_separators_are_in_between() {
        assert_eq!(
            shortened(&KeyOrder::ReverseBytewise, b"abzz", b"abcd"),
            b"abz"
        );
        assert_eq!(
            shortened(&KeyOrder::ReverseBytewise, b"abcd", b"ab"),
            b"abcd"
        );
    }

    #[test]
    fn newer_timestamps_sort_first() {
        let key = |text: &[u8], ts: u64| [text, &ts.to_le_bytes()[..]].concat();
        let order = KeyOrder::BytewiseU64Ts;
        assert_eq!(
            order.compare(&key(b"a", 300), &key(b"a", 7)),
            Ordering::Less
        );
        assert_eq!(
            order.compare(&key(b"b", 300), &key(b"a", 7)),
            Ordering::Greater
        );
        assert_eq!(
            order.compare_without_timestamp(&key(b"a", 1), &key(b"a", 2)),
            Ordering::Equal
        );
    }

    #[test]
    fn built_in_orders_round_trip_by_name() {
        for order in [
            KeyOrder::Bytewise,
            KeyOrder::ReverseBytewise,
            KeyOrder::BytewiseU64Ts,
            KeyOrder::ReverseBytewiseU64Ts,
        ] {
            assert_eq!(
                KeyOrder::from_name(order.name()).unwrap().name(),
                order.name()
            );
        }
    }
}
