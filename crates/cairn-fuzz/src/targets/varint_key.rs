//! Integers, length-prefixed slices, internal keys and their order.

use std::cmp::Ordering;

use cairn_format::coding::{self, Input};
use cairn_format::key::{self, InternalKey, LookupKey};
use cairn_types::{KeyOrder, SequenceNumber};

/// Decodes the first half as numbers and the whole as two internal keys.
pub fn run(data: &[u8]) {
    numbers(data);
    slices(data);
    let (a, b) = data.split_at(data.len() / 2);
    keys(a, b);
}

fn numbers(data: &[u8]) {
    let mut input = Input::new(data);
    while let Ok(value) = input.varint64() {
        let mut bytes = Vec::new();
        coding::put_varint64(&mut bytes, value);
        assert_eq!(bytes.len(), coding::varint_len(value));
        assert_eq!(coding::decode_varint64(&bytes), Some((value, bytes.len())));
    }
    if let Some((value, len)) = coding::decode_varint32(data) {
        assert!(len <= data.len().min(5));
        let mut bytes = Vec::new();
        coding::put_varint32(&mut bytes, value);
        assert_eq!(coding::decode_varint32(&bytes), Some((value, bytes.len())));
    }
    if let Ok(value) = Input::new(data).varsigned64() {
        let mut bytes = Vec::new();
        coding::put_varsigned64(&mut bytes, value);
        assert_eq!(Input::new(&bytes).varsigned64().ok(), Some(value));
    }
}

fn slices(data: &[u8]) {
    let mut input = Input::new(data);
    while let Ok(slice) = input.lps() {
        let mut bytes = Vec::new();
        coding::put_lps(&mut bytes, slice);
        assert_eq!(Input::new(&bytes).lps().ok(), Some(slice));
    }
    let mut input = Input::new(data);
    let _ = (
        input.fixed16(),
        input.fixed32(),
        input.fixed64(),
        input.u8(),
        input.array::<7>(),
    );
    assert!(input.at() <= data.len());
}

fn keys(a: &[u8], b: &[u8]) {
    if let Ok(parsed) = key::parse(a) {
        let again = InternalKey::new(parsed.user_key, parsed.seq, parsed.kind);
        assert_eq!(again.as_bytes(), a);
        let lookup = LookupKey::new(parsed.user_key, parsed.seq);
        assert_eq!(lookup.user(), parsed.user_key);
    }
    for order in [KeyOrder::Bytewise, KeyOrder::ReverseBytewise] {
        assert_eq!(
            key::compare(&order, a, b),
            key::compare(&order, b, a).reverse()
        );
        assert_eq!(key::compare_user(&order, a, b), order.compare(a, b));
        if key::parse(a).is_ok() && key::parse(b).is_ok() {
            shortened(&order, a, b);
        }
    }
    let _ = LookupKey::new(a, SequenceNumber(1));
}

/// Checks that a separator lies between its keys, and that a successor is not before its key.
fn shortened(order: &KeyOrder, a: &[u8], b: &[u8]) {
    let mut successor = a.to_vec();
    key::shorten_successor(order, &mut successor);
    assert_ne!(key::compare(order, &successor, a), Ordering::Less);
    if key::compare_user(order, key::user_key(a), key::user_key(b)) == Ordering::Less {
        let mut separator = a.to_vec();
        key::shorten_separator(order, &mut separator, b);
        assert_ne!(key::compare(order, &separator, a), Ordering::Less);
        assert_eq!(key::compare(order, &separator, b), Ordering::Less);
    }
}
