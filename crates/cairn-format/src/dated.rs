//! Dated values: what a database with a time to live stores in the place of each value and of each
//! merge operand.
//!
//! ```text
//! size  part
//!    n  the value
//!    4  when it was written, in seconds since 1970, little-endian
//! ```
//!
//! No date lies before [`EARLIEST`], by which a value that was written without one is told in most
//! cases. RocksDB reads dates as signed numbers, so that they end in January 2038, and so does this.

use cairn_types::{Decoded, Malformed};

/// Bytes of a date.
pub const DATE_LEN: usize = 4;

/// The first date that RocksDB takes for one: 10 May 2013.
pub const EARLIEST: i32 = 1_368_146_402;

/// True if there is a date for `unix_seconds`.
#[must_use]
pub fn is_date(unix_seconds: u64) -> bool {
    i32::try_from(unix_seconds).is_ok_and(|seconds| seconds >= EARLIEST)
}

/// The date of `unix_seconds`; the first or last one where there is none.
#[must_use]
pub fn encode(unix_seconds: u64) -> [u8; DATE_LEN] {
    let seconds = i32::try_from(unix_seconds).unwrap_or(i32::MAX);
    seconds.max(EARLIEST).to_le_bytes()
}

/// A value and the bytes of its date, whatever they say.
///
/// # Errors
///
/// [`Malformed`] if there are not enough bytes for a date.
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

/// A value and its date, in seconds since 1970.
///
/// # Errors
///
/// [`Malformed`] if there are not enough bytes for a date, or they are none.
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
    fn a_date_stands_behind_its_value() {
        let dated = [b"slate".as_slice(), &encode(1_800_000_000)].concat();
        assert_eq!(dated, b"slate\x00\xd2\x49\x6b");
        assert_eq!(decode(&dated), Ok((&b"slate"[..], 1_800_000_000)));
        assert_eq!(
            decode(&encode(EARLIEST as u64)),
            Ok((&b""[..], EARLIEST as u64))
        );
    }

    #[test]
    fn what_is_too_short_or_too_old_has_no_date() {
        assert_eq!(decode(b"abc").unwrap_err().at, 0);
        assert!(split(b"abc").is_err());
        let early = [b"v".as_slice(), &(EARLIEST - 1).to_le_bytes()].concat();
        assert_eq!(decode(&early).unwrap_err().at, 1);
        assert!(split(&early).is_ok());
        // What RocksDB reads as a negative number.
        assert!(decode(&(1_u32 << 31).to_le_bytes()).is_err());
    }

    #[test]
    fn what_is_written_can_be_read_whatever_the_clock_says() {
        for seconds in [0, EARLIEST as u64 - 1, i32::MAX as u64 + 1, u64::MAX] {
            assert!(!is_date(seconds));
            assert!(decode(&encode(seconds)).is_ok(), "{seconds}");
        }
        assert!(is_date(EARLIEST as u64) && is_date(i32::MAX as u64));
    }
}
