//! Values with a write time (TTL).

use cairn_format::dated::{self, DATE_LEN};

/// Splits value and time; concatenated they equal the input.
pub fn run(data: &[u8]) {
    let Ok((value, date)) = dated::split(data) else {
        assert!(data.len() < DATE_LEN, "only what is too short has no date");
        assert!(dated::decode(data).is_err(), "nor is it understood");
        return;
    };
    assert_eq!([value, &date].concat(), data);
    if let Ok((understood, seconds)) = dated::decode(data) {
        assert_eq!(understood, value);
        assert_eq!(dated::encode(seconds), date);
    }
}
