//! Java's modified UTF-8: the encoding in which RocksJava stores strings.
//!
//! ```text
//! unit of UTF-16   bytes
//! 1 to 7f          0xxxxxxx
//! 0, 80 to 7ff     110xxxxx 10xxxxxx
//! 800 to ffff      1110xxxx 10xxxxxx 10xxxxxx
//! ```
//!
//! It differs from UTF-8 in two ways: it has no zero bytes, and a character above ffff has the 6 bytes of its two
//! surrogates.

use crate::env::{Env, JString, Outcome};

impl Env {
    /// The bytes of a string in modified UTF-8.
    pub fn modified_utf8(self, string: JString) -> Outcome<Vec<u8>> {
        Ok(encoded(&self.units(string)?))
    }

    /// A string of bytes that are modified UTF-8 or UTF-8.
    pub fn string_of_bytes(self, bytes: &[u8]) -> Outcome<JString> {
        self.string_of_units(&decoded(bytes))
    }
}

fn encoded(units: &[u16]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(units.len());
    for &unit in units {
        let low = 0x80 | (unit & 0x3f) as u8;
        match unit {
            1..=0x7f => bytes.push(unit as u8),
            0 | 0x80..=0x7ff => bytes.extend([0xc0 | (unit >> 6) as u8, low]),
            0x800.. => {
                let middle = 0x80 | ((unit >> 6) & 0x3f) as u8;
                bytes.extend([0xe0 | (unit >> 12) as u8, middle, low]);
            }
        }
    }
    bytes
}

/// Bytes that are in neither encoding become replacement characters.
fn decoded(bytes: &[u8]) -> Vec<u16> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.encode_utf16().collect();
    }
    let bits = |byte: u8, count: u32| u16::from(byte) & ((1 << count) - 1);
    let mut units = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        let (unit, next) = match (*first, after) {
            (0..=0x7f, _) => (u16::from(*first), after),
            (0xc0..=0xdf, [low @ 0x80..=0xbf, after @ ..]) => {
                (bits(*first, 5) << 6 | bits(*low, 6), after)
            }
            (0xe0..=0xef, [middle @ 0x80..=0xbf, low @ 0x80..=0xbf, after @ ..]) => {
                let unit = bits(*first, 4) << 12 | bits(*middle, 6) << 6 | bits(*low, 6);
                (unit, after)
            }
            _ => (0xfffd, after),
        };
        units.push(unit);
        rest = next;
    }
    units
}
