//! Values with the time of their writing behind them.

use cairn_format::dated::{self, DATE_LEN};

/// Reads value and date; put together again they are what was read.
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
