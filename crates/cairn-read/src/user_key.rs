//! Comparison of user keys without timestamps.

use std::cmp::Ordering;

use cairn_format::key;
use cairn_types::KeyOrder;

/// Compares two user keys that have no timestamp, even if keys in `order` have one.
#[inline]
#[must_use]
pub(crate) fn compare(order: &KeyOrder, a: &[u8], b: &[u8]) -> Ordering {
    match order {
        KeyOrder::Bytewise => key::compare_bytewise(a, b),
        KeyOrder::ReverseBytewise => b.cmp(a),
        KeyOrder::BytewiseU64Ts => a.cmp(b),
        KeyOrder::ReverseBytewiseU64Ts => b.cmp(a),
        KeyOrder::Custom(custom) if custom.timestamp_size() > 0 => {
            custom.compare_without_timestamp(a, false, b, false)
        }
        KeyOrder::Custom(custom) => custom.compare(a, b),
    }
}
