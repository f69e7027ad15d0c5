//! Fixed-width integers, varints and length-prefixed slices, the building blocks of all formats.
//!
//! ```text
//! fixed16, fixed32, fixed64   little-endian
//! varint32, varint64          7 bits per byte, low bits first, high bit set when more follow;
//!                             at most 5 and 10 bytes
//! varsigned64                 zigzag (0, -1, 1, -2, ...) as varint64
//! lps                         varint32 length, then that many bytes
//! ```
//!
//! Decoders read through an [`Input`], which is bounds-checked and tracks its offset. Hot loops use
//! the free functions, which leave both to the caller. A varint may be longer than necessary; bits
//! beyond the width of its type make it malformed.

use cairn_types::{Decoded, Malformed};

/// The maximum length of a varint32.
pub const MAX_VARINT32_LEN: usize = 5;
/// The maximum length of a varint64.
pub const MAX_VARINT64_LEN: usize = 10;

/// Appends `value` in 2 bytes.
#[inline]
pub fn put_fixed16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends `value` in 4 bytes.
#[inline]
pub fn put_fixed32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends `value` in 8 bytes.
#[inline]
pub fn put_fixed64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends `value` in 1 to 5 bytes.
#[inline]
pub fn put_varint32(out: &mut Vec<u8>, value: u32) {
    match value {
        0..0x80 => out.push(value as u8),
        0x80..0x4000 => out.extend_from_slice(&[value as u8 | 0x80, (value >> 7) as u8]),
        _ => put_varint64(out, u64::from(value)),
    }
}

/// Appends `value` in 1 to 10 bytes.
#[inline]
pub fn put_varint64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `value` in zigzag encoding, in 1 to 10 bytes. Values near zero are short.
#[inline]
pub fn put_varsigned64(out: &mut Vec<u8>, value: i64) {
    put_varint64(out, zigzag(value));
}

/// The zigzag encoding of `value`.
#[inline]
#[must_use]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Appends the length of `slice` and `slice`.
///
/// # Panics
///
/// If `slice` has 4 GiB or more. No RocksDB format supports that, and callers reject such keys and values
/// earlier.
#[inline]
pub fn put_lps(out: &mut Vec<u8>, slice: &[u8]) {
    put_varint32(
        out,
        u32::try_from(slice.len()).expect("slices are shorter than 4 GiB"),
    );
    out.extend_from_slice(slice);
}

/// The length of `value` as a varint.
#[inline]
#[must_use]
pub fn varint_len(value: u64) -> usize {
    // One byte per group of 7 bits, rounded up, and one byte for zero.
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Decodes the varint32 at the start of `bytes`. Also returns its length.
#[inline]
#[must_use]
pub fn decode_varint32(bytes: &[u8]) -> Option<(u32, usize)> {
    match bytes.first() {
        Some(&byte) if byte < 0x80 => Some((u32::from(byte), 1)),
        _ => decode_long_varint32(bytes),
    }
}

fn decode_long_varint32(bytes: &[u8]) -> Option<(u32, usize)> {
    let mut value = 0u32;
    for (i, &byte) in bytes.iter().take(MAX_VARINT32_LEN).enumerate() {
        let bits = u32::from(byte & 0x7f);
        if i == MAX_VARINT32_LEN - 1 && bits > 0x0f {
            return None;
        }
        value |= bits << (7 * i);
        if byte < 0x80 {
            return Some((value, i + 1));
        }
    }
    None
}

/// Decodes the varint64 at the start of `bytes`. Also returns its length.
#[inline]
#[must_use]
pub fn decode_varint64(bytes: &[u8]) -> Option<(u64, usize)> {
    match bytes.first() {
        Some(&byte) if byte < 0x80 => Some((u64::from(byte), 1)),
        _ => decode_long_varint64(bytes),
    }
}

#[inline]
fn decode_long_varint64(bytes: &[u8]) -> Option<(u64, usize)> {
    short_varint64(bytes).or_else(|| decode_varint64_slowly(bytes))
}

/// Decodes a varint of at most 8 bytes that is followed by enough bytes for an 8-byte load; `None` otherwise.
#[inline]
pub(crate) fn short_varint64(bytes: &[u8]) -> Option<(u64, usize)> {
    let word = u64::from_le_bytes(*bytes.first_chunk()?);
    let ends = !word & 0x8080_8080_8080_8080;
    if ends == 0 {
        return None;
    }
    // The bytes up to the first one with a clear high bit. Their 7-bit groups are combined in pairs, then in
    // fours, then all.
    let len = ends.trailing_zeros() as usize / 8 + 1;
    let groups = word & (u64::MAX >> (64 - 8 * len)) & 0x7f7f_7f7f_7f7f_7f7f;
    let pairs = groups & 0x007f_007f_007f_007f | (groups & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = pairs & 0x0000_3fff_0000_3fff | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    Some((
        fours & 0x0fff_ffff | (fours & 0x0fff_ffff_0000_0000) >> 4,
        len,
    ))
}

fn decode_varint64_slowly(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().take(MAX_VARINT64_LEN).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if i == MAX_VARINT64_LEN - 1 && bits > 1 {
            return None;
        }
        value |= bits << (7 * i);
        if byte < 0x80 {
            return Some((value, i + 1));
        }
    }
    None
}

/// The inverse of [`zigzag`].
#[inline]
#[must_use]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// A cursor over input that is decoded sequentially.
///
/// A method that fails leaves the input unchanged; the offset of its error is the current one.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    /// Creates an input at the start of `bytes`.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { bytes, at: 0 }
    }

    /// The offset of the next byte.
    #[inline]
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// True if the input is exhausted.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// The number of remaining bytes.
    #[inline]
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The remaining bytes.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Takes all remaining bytes.
    #[inline]
    pub fn take_rest(&mut self) -> &'a [u8] {
        let rest = self.rest();
        self.at = self.bytes.len();
        rest
    }

    /// Takes `n` bytes.
    ///
    /// # Errors
    ///
    /// If fewer bytes remain.
    #[inline]
    pub fn take(&mut self, n: usize) -> Decoded<&'a [u8]> {
        match self.rest().get(..n) {
            Some(taken) => {
                self.at += n;
                Ok(taken)
            }
            None => Err(self.cut_short(n)),
        }
    }

    #[cold]
    fn cut_short(&self, wanted: usize) -> Malformed {
        Malformed::mismatch(
            self.at,
            "input is truncated",
            format_args!("{wanted} bytes"),
            self.remaining(),
        )
    }

    /// Takes `N` bytes.
    ///
    /// # Errors
    ///
    /// If fewer bytes remain.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        match self.rest().first_chunk::<N>() {
            Some(taken) => {
                self.at += N;
                Ok(*taken)
            }
            None => Err(self.cut_short(N)),
        }
    }

    /// Takes the bytes `expected`. `what` is the error message for a mismatch.
    ///
    /// # Errors
    ///
    /// If the next bytes are different.
    pub fn expect(&mut self, expected: &[u8], what: &'static str) -> Decoded<()> {
        if self.rest().starts_with(expected) {
            self.at += expected.len();
            Ok(())
        } else {
            Err(Malformed::at(self.at, what))
        }
    }

    /// Checks that the input is exhausted. `what` names the decoded object in the error.
    ///
    /// # Errors
    ///
    /// If bytes remain.
    pub fn finish(&self, what: &'static str) -> Decoded<()> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(Malformed::mismatch(
                self.at,
                what,
                "no more bytes",
                self.remaining(),
            ))
        }
    }

    /// Takes one byte.
    ///
    /// # Errors
    ///
    /// If no byte remains.
    #[inline]
    pub fn u8(&mut self) -> Decoded<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Takes a fixed16.
    ///
    /// # Errors
    ///
    /// If fewer than 2 bytes remain.
    #[inline]
    pub fn fixed16(&mut self) -> Decoded<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Takes a fixed32.
    ///
    /// # Errors
    ///
    /// If fewer than 4 bytes remain.
    #[inline]
    pub fn fixed32(&mut self) -> Decoded<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Takes a fixed64.
    ///
    /// # Errors
    ///
    /// If fewer than 8 bytes remain.
    #[inline]
    pub fn fixed64(&mut self) -> Decoded<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Takes a varint32.
    ///
    /// # Errors
    ///
    /// If it is truncated or exceeds 32 bits.
    #[inline]
    pub fn varint32(&mut self) -> Decoded<u32> {
        match decode_varint32(self.rest()) {
            Some((value, len)) => {
                self.at += len;
                Ok(value)
            }
            None => Err(Malformed::at(self.at, "varint32 is truncated or too wide")),
        }
    }

    /// Takes a varint64.
    ///
    /// # Errors
    ///
    /// If it is truncated or exceeds 64 bits.
    #[inline]
    pub fn varint64(&mut self) -> Decoded<u64> {
        match decode_varint64(self.rest()) {
            Some((value, len)) => {
                self.at += len;
                Ok(value)
            }
            None => Err(Malformed::at(self.at, "varint64 is truncated or too wide")),
        }
    }

    /// Takes a varsigned64.
    ///
    /// # Errors
    ///
    /// If it is truncated or exceeds 64 bits.
    #[inline]
    pub fn varsigned64(&mut self) -> Decoded<i64> {
        self.varint64().map(unzigzag)
    }

    /// Takes a length-prefixed slice.
    ///
    /// # Errors
    ///
    /// If the length or the slice is truncated.
    #[inline]
    pub fn lps(&mut self) -> Decoded<&'a [u8]> {
        let start = self.at;
        let len = self.varint32()?;
        self.take(len as usize).inspect_err(|_| self.at = start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn varints_have_the_documented_bytes() {
        let encoded = |value: u64| {
            let mut out = Vec::new();
            put_varint64(&mut out, value);
            out
        };
        assert_eq!(encoded(0), [0]);
        assert_eq!(encoded(127), [0x7f]);
        assert_eq!(encoded(300), [0xac, 0x02]);
        assert_eq!(encoded(u64::MAX).len(), MAX_VARINT64_LEN);
        let mut signed = Vec::new();
        for value in [0, -1, 1, -2] {
            put_varsigned64(&mut signed, value);
        }
        assert_eq!(signed, [0, 1, 2, 3]);
    }

    #[test]
    fn a_varint_wider_than_its_type_is_malformed() {
        assert_eq!(
            decode_varint32(&[0xff, 0xff, 0xff, 0xff, 0x0f]),
            Some((u32::MAX, 5))
        );
        assert_eq!(decode_varint32(&[0xff, 0xff, 0xff, 0xff, 0x1f]), None);
        assert_eq!(decode_varint32(&[0x80; 5]), None);
        assert_eq!(decode_varint32(&[0x80]), None);
        assert_eq!(decode_varint32(&[]), None);
        let mut widest = [0xff; 10];
        widest[9] = 1;
        assert_eq!(decode_varint64(&widest), Some((u64::MAX, 10)));
        widest[9] = 2;
        assert_eq!(decode_varint64(&widest), None);
    }

    #[test]
    fn failures_leave_the_input_unchanged() {
        let mut input = Input::new(&[5, 1, 2]);
        assert_eq!(input.lps().unwrap_err().at, 1);
        assert_eq!(input.at(), 0);
        assert!(input.fixed32().is_err());
        assert!(input.expect(&[6], "not six").is_err());
        assert_eq!(input.take(3).unwrap(), [5, 1, 2]);
        assert!(input.is_empty() && input.u8().is_err() && input.finish("end").is_ok());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn encodings_round_trip(a: u16, b: u32, c: u64, d: u32, e: u64, f: i64, shift in 0u32..64,
                                slice in prop::collection::vec(any::<u8>(), 0..300)) {
            let e = e >> shift;
            let mut out = Vec::new();
            put_fixed16(&mut out, a);
            put_fixed32(&mut out, b);
            put_fixed64(&mut out, c);
            put_varint32(&mut out, d);
            let before = out.len();
            put_varint64(&mut out, e);
            prop_assert_eq!(out.len() - before, varint_len(e));
            put_varsigned64(&mut out, f);
            put_lps(&mut out, &slice);
            let mut input = Input::new(&out);
            prop_assert_eq!(input.fixed16().unwrap(), a);
            prop_assert_eq!(input.fixed32().unwrap(), b);
            prop_assert_eq!(input.fixed64().unwrap(), c);
            prop_assert_eq!(input.varint32().unwrap(), d);
            prop_assert_eq!(input.varint64().unwrap(), e);
            prop_assert_eq!(input.varsigned64().unwrap(), f);
            prop_assert_eq!(input.lps().unwrap(), &slice[..]);
            prop_assert!(input.finish("input").is_ok());
        }

        #[test]
        fn hostile_input_is_an_error(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut input = Input::new(&bytes);
            while input.lps().is_ok() && !input.is_empty() {}
            let mut input = Input::new(&bytes);
            while input.varint64().is_ok() && !input.is_empty() {}
        }
    }
}
