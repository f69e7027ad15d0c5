//! Ranges of user keys, and their order.

use std::cmp::Ordering;

use cairn_types::KeyOrder;

/// The keys from `begin` (inclusive) to `end` (exclusive).
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    /// The first key.
    pub begin: &'a [u8],
    /// The exclusive end.
    pub end: &'a [u8],
}

impl<'a> Range<'a> {
    /// The keys from `begin` (inclusive) to `end` (exclusive).
    #[must_use]
    pub fn new(begin: &'a [u8], end: &'a [u8]) -> Range<'a> {
        Range { begin, end }
    }
}

/// Compares user keys without their timestamps.
pub(crate) fn compare(order: &KeyOrder, a: &[u8], b: &[u8]) -> Ordering {
    match order {
        KeyOrder::BytewiseU64Ts => a.cmp(b),
        KeyOrder::ReverseBytewiseU64Ts => b.cmp(a),
        KeyOrder::Custom(custom) if custom.timestamp_size() > 0 => {
            custom.compare_without_timestamp(a, false, b, false)
        }
        order => order.compare(a, b),
    }
}
