//! Timestamped values of databases with a time to live (RocksDB's `DBWithTTL`): a timestamp is appended to
//! each value and merge operand.
//!
//! ```text
//! size  part
//!    n  the value
//!    4  the time of the write, in seconds since 1970, little-endian
//! ```
//!
//! Timestamps before [`EARLIEST`] are invalid, which detects most values written without one. As in
//! RocksDB, they are signed 32-bit integers, which end in January 2038.

use cairn_types::{Decoded, Malformed};

/// The length of a timestamp.
pub const DATE_LEN: usize = 4;

/// The minimum timestamp, RocksDB's `kMinTimestamp`: 10 May 2013.
pub const EARLIEST: i32 = 1_368_146_402;

/// True if `unix_seconds` can be represented as a timestamp.
#[must_use]
pub fn is_date(unix_seconds: u64) -> bool {
    i32::try_from(unix_seconds).is_ok_and(|seconds| seconds >= EARLIEST)
}

/// The timestamp of `unix_seconds`, clamped to the valid range.
#[must_use]
pub fn encode(unix_seconds: u64) -> [u8; DATE_LEN] {
    let seconds = i32::try_from(unix_seconds).unwrap_or(i32::MAX);
    seconds.max(EARLIEST).to_le_bytes()
}

/// Splits a value and its timestamp, which is not validated.
///
/// # Errors
///
/// [`Malformed`] if the value is too short for a timestamp.
pub fn split(dated: &[u8]) -> Decoded<(&[u8], [u8; DATE_LEN])> {
    match dated.split_last_chunk::<DATE_LEN>() {
        Some((value, date)) => Ok((value, *date)),
        None => Err(Malformed::at(
            0,
            format!(
                "value's length less than timestamp's: expected {DATE_LEN} bytes or more, found {}",
                dated.len()
            ),
        )),
    }
}

/// Splits a value and its timestamp, in seconds since 1970.
///
/// # Errors
///
/// [`Malformed`] if the value is too short for a timestamp, or the timestamp is invalid.
pub fn decode(dated: &[u8]) -> Decoded<(&[u8], u64)> {
    let (value, date) = split(dated)?;
    let date = i32::from_le_bytes(date);
    match u64::try_from(date) {
        Ok(seconds) if date >= EARLIEST => Ok((value, seconds)),
        _ => Err(Malformed::at(
            value.len(),
            format!(
                "Timestamp < ttl feature release time: expected {EARLIEST} or more, found {date}"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_follow_their_values() {
        let dated = [b"slate".as_slice(), &encode(1_800_000_000)].concat();
        assert_eq!(dated, b"slate\x00\xd2\x49\x6b");
        assert_eq!(decode(&dated), Ok((&b"slate"[..], 1_800_000_000)));
        assert_eq!(
            decode(&encode(EARLIEST as u64)),
            Ok((&b""[..], EARLIEST as u64))
        );
    }

    #[test]
    fn short_and_old_values_have_no_timestamp() {
        assert_eq!(decode(b"abc").unwrap_err().at, 0);
        assert!(split(b"abc").is_err());
        let early = [b"v".as_slice(), &(EARLIEST - 1).to_le_bytes()].concat();
        assert_eq!(decode(&early).unwrap_err().at, 1);
        assert!(split(&early).is_ok());
        // RocksDB reads this as a negative number.
        assert!(decode(&(1_u32 << 31).to_le_bytes()).is_err());
    }

    #[test]
    fn timestamps_are_valid_for_any_clock() {
        for seconds in [0, EARLIEST as u64 - 1, i32::MAX as u64 + 1, u64::MAX] {
            assert!(!is_date(seconds));
            assert!(decode(&encode(seconds)).is_ok(), "{seconds}");
        }
        assert!(is_date(EARLIEST as u64) && is_date(i32::MAX as u64));
    }
}
