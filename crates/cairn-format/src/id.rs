//! Ids of databases and sessions, and unique ids of tables (formats.md 12).
//!
//! A database id is arbitrary text, generated as a UUID. A session is one opening of a database, with an id
//! of 20 base-36 characters. The unique id of a table is derived from both and its original file number, all
//! of which are table properties.

use std::fmt;

use crate::hash::xxh3_128;

/// The id of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SessionId {
    /// The upper 64 bits, of which the text has about 41.
    pub upper: u64,
    /// The lower 64 bits. Never 0.
    pub lower: u64,
}

const BASE: u64 = 36;
const DIGITS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// The number of bits of `lower` in the last twelve digits.
const LOW_BITS: u32 = 62;
const LOW_DIGITS: usize = 12;
const HIGH_DIGITS: usize = 8;

impl SessionId {
    /// Creates a session id from random numbers, truncated to the bits of the text form, so that it
    /// round-trips.
    #[must_use]
    pub fn from_random(upper: u64, lower: u64) -> SessionId {
        let lower = lower.max(1);
        // Eight digits represent numbers below 36^8, two bits of which belong to `lower`.
        let upper = upper % (BASE.pow(HIGH_DIGITS as u32) >> 2);
        SessionId { upper, lower }
    }

    /// The session id for the next file of a standalone writer.
    #[must_use]
    pub fn next(self) -> SessionId {
        SessionId {
            upper: self.upper,
            lower: self.lower.wrapping_add(1).max(1),
        }
    }

    /// Parses a session id: 13 to 24 characters, the last twelve of which are the lower 62 bits.
    #[must_use]
    pub fn parse(text: &str) -> Option<SessionId> {
        let text = text.as_bytes();
        if !(LOW_DIGITS + 1..=2 * LOW_DIGITS).contains(&text.len()) {
            return None;
        }
        let (high, low) = text.split_at(text.len() - LOW_DIGITS);
        let (high, low) = (number(high)?, number(low)?);
        if low >> LOW_BITS != 0 {
            return None;
        }
        Some(SessionId {
            upper: high >> 2,
            lower: low | high << LOW_BITS,
        })
    }
}

/// The value of base-36 digits in either case.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'A'..=b'Z' => digit - b'A' + 10,
            b'a'..=b'z' => digit - b'a' + 10,
            _ => return None,
        };
        number.checked_mul(BASE)?.checked_add(u64::from(value))
    })
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut high = self.upper << 2 | self.lower >> LOW_BITS;
        let mut low = self.lower & ((1 << LOW_BITS) - 1);
        let mut text = [0; HIGH_DIGITS + LOW_DIGITS];
        let (first, last) = text.split_at_mut(HIGH_DIGITS);
        for (part, number) in [(first, &mut high), (last, &mut low)] {
            for digit in part.iter_mut().rev() {
                *digit = DIGITS[(*number % BASE) as usize];
                *number /= BASE;
            }
        }
        f.write_str(std::str::from_utf8(&text).expect("digits are ASCII"))
    }
}

/// Creates a database id, a version 4 UUID, from random numbers.
#[must_use]
pub fn db_id_from_random(high: u64, low: u64) -> String {
    let high = high & !0xf000 | 0x4000;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

/// The internal unique id of a table. MANIFESTs record its first two numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct UniqueId(pub [u64; 3]);

impl UniqueId {
    /// The unique id of the table created by session `session` of database `db_id` with `file_number`. `None`
    /// if any of them is missing or the session id is invalid.
    #[must_use]
    pub fn of_table(db_id: &str, session: &str, file_number: u64) -> Option<UniqueId> {
        if db_id.is_empty() || file_number == 0 {
            return None;
        }
        let session = SessionId::parse(session)?;
        let (high, low) = xxh3_128(db_id.as_bytes(), session.upper);
        Some(UniqueId([session.lower, high ^ file_number, low]))
    }

    /// The two numbers recorded in MANIFESTs.
    #[must_use]
    pub fn short(&self) -> [u64; 2] {
        [self.0[0], self.0[1]]
    }

    /// The external unique id, as shown by RocksDB's tools: a scrambled form.
    #[must_use]
    pub fn external(&self) -> [u64; 3] {
        let [first, second, third] = self.0;
        let (high, low) = scramble(
            second.wrapping_add(17_391_078_804_906_429_400),
            first.wrapping_add(6_417_269_962_128_484_497),
        );
        [low, high, third.wrapping_add(low).wrapping_add(high)]
    }
}

/// RocksDB's bijective 128-bit hash with seed 0.
fn scramble(mut high: u64, mut low: u64) -> (u64, u64) {
    const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
    let product = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        ((product >> 64) as u64, product as u64)
    };
    let (product_high, product_low) =
        product(low ^ high ^ 0x5997_3f00_3336_2349, 0x9e37_79b1_85eb_ca87);
    high ^= 0xc202_7977_92d6_3d58;
    low = product_low.wrapping_add(0x03c0_0000_0000_0000);
    let mut upper = product_high;
    upper = upper
        .wrapping_add(high)
        .wrapping_add((high & 0xffff_ffff).wrapping_mul(0x85eb_ca76));
    low ^= upper.swap_bytes();
    let (mut out_high, out_low) = product(low, P2);
    out_high = out_high.wrapping_add(upper.wrapping_mul(P2));
    (avalanche(out_high), avalanche(out_low))
}

/// The final step of XXH3.
fn avalanche(mut hash: u64) -> u64 {
    hash ^= hash >> 37;
    hash = hash.wrapping_mul(0x1656_6791_9e37_79f9);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn invalid_ids_are_rejected() {
        assert_eq!(SessionId::parse("ABC"), None);
        assert_eq!(SessionId::parse("ABCDEFGH!JKLMNOPQRST"), None);
        assert_eq!(UniqueId::of_table("", "ABCDEFGHIJKLMNOPQRST", 1), None);
        assert_eq!(UniqueId::of_table("db", "ABCDEFGH", 1), None);
    }

    #[test]
    fn a_database_id_is_a_uuid() {
        assert_eq!(
            db_id_from_random(0x541a_4210_29e0_07a0, 0x386a_0a62_8f74_b27d),
            "541a4210-29e0-47a0-b86a-0a628f74b27d"
        );
    }

    proptest! {
        #[test]
        fn session_ids_round_trip(upper: u64, lower: u64) {
            let id = SessionId::from_random(upper, lower);
            let text = id.to_string();
            prop_assert_eq!(text.len(), 20);
            prop_assert_eq!(SessionId::parse(&text), Some(id));
        }
    }
}
