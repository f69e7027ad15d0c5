//! Comparison of file bounds.
//!
//! A bound is an internal key. Bounds with equal user keys compare equal regardless of sequence
//! numbers, because all versions of a user key must stay together. The exception is the sentinel
//! `(user key, 2^56 - 1, RangeDeletion)`, the exclusive end of a range tombstone: it sorts just
//! before its user key, so a file that ends with it does not contain that key.

use std::cmp::Ordering;

use cairn_format::key;
use cairn_types::{KeyOrder, SequenceNumber, ValueKind};

use crate::file_meta::FileMeta;

/// Returns the packed sequence number and kind of a range tombstone sentinel.
#[must_use]
pub fn sentinel() -> u64 {
    key::pack(SequenceNumber::MAX, ValueKind::RangeDeletion)
}

/// True if `bound` excludes its own user key.
#[must_use]
pub fn is_sentinel(bound: &[u8]) -> bool {
    key::packed(bound) == sentinel()
}

/// Compares bounds `a` and `b`; equal if they overlap. Timestamps are ignored.
#[must_use]
pub fn compare(order: &KeyOrder, a: &[u8], b: &[u8]) -> Ordering {
    order
        .compare_without_timestamp(key::user_key(a), key::user_key(b))
        .then_with(|| match (is_sentinel(a), is_sentinel(b)) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            _ => Ordering::Equal,
        })
}

/// True if `left` is before `right` and shares no user key with it.
#[must_use]
pub fn are_apart(order: &KeyOrder, left: &FileMeta, right: &FileMeta) -> bool {
    compare(order, left.largest.as_bytes(), right.smallest.as_bytes()).is_lt()
}

/// Returns the smaller of two bounds in internal-key order.
#[must_use]
pub fn min<'a>(order: &KeyOrder, a: &'a [u8], b: &'a [u8]) -> &'a [u8] {
    if key::compare(order, b, a).is_lt() {
        b
    } else {
        a
    }
}

/// Returns the larger of two bounds in internal-key order.
#[must_use]
pub fn max<'a>(order: &KeyOrder, a: &'a [u8], b: &'a [u8]) -> &'a [u8] {
    if key::compare(order, b, a).is_gt() {
        b
    } else {
        a
    }
}
