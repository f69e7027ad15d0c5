//! Off-peak hours: `daily_offpeak_time_utc`.

use crate::db::DbOptions;

const DAY: u64 = 24 * 3600;

/// Returns the start and end of `HH:MM-HH:MM` in seconds of the day.
pub(crate) fn parse(text: &str) -> Option<(u64, u64)> {
    let (start, end) = text.split_once('-')?;
    Some((second(start)?, second(end)?))
}

/// Returns `HH:MM` in seconds of the day.
fn second(text: &str) -> Option<u64> {
    let (hour, minute) = text.split_once(':')?;
    let number = |digits: &str, below: u64| match digits.len() {
        1 | 2 if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
            digits.parse::<u64>().ok().filter(|number| *number < below)
        }
        _ => None,
    };
    Some(number(hour, 24)? * 3600 + number(minute, 60)? * 60)
}

impl DbOptions {
    /// Returns the number of seconds by which periodic compactions are brought forward at `now`
    /// (seconds since 1970): during off-peak hours, the time until the next off-peak hours start.
    #[must_use]
    pub fn seconds_ahead(&self, now: u64) -> u64 {
        let Some((start, end)) = parse(&self.daily_offpeak_time_utc) else {
            return 0;
        };
        let second = now % DAY;
        // The end is inclusive.
        let minute = second / 60 * 60;
        let is_offpeak = match start <= end {
            true => (start..=end).contains(&minute),
            false => minute >= start || minute <= end,
        };
        match is_offpeak {
            true if second < start => start - second,
            true => start + DAY - second,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periodic_compactions_are_brought_forward_in_off_peak_hours() {
        let ahead = |hours: &str, now: u64| {
            let options = DbOptions {
                daily_offpeak_time_utc: hours.to_owned(),
                ..DbOptions::default()
            };
            options.seconds_ahead(5 * DAY + now)
        };
        assert_eq!(ahead("", 100), 0);
        assert_eq!(ahead("01:00-02:00", 3599), 0);
        assert_eq!(ahead("01:00-02:00", 3600), DAY);
        assert_eq!(ahead("01:00-02:00", 7259), DAY - 3659);
        assert_eq!(ahead("01:00-02:00", 7260), 0);
        // Across midnight.
        assert_eq!(ahead("23:30-4:30", 23 * 3600 + 1800 + 1), DAY - 1);
        assert_eq!(ahead("23:30-4:30", 60), 23 * 3600 + 1800 - 60);
        assert_eq!(ahead("23:30-4:30", 5 * 3600), 0);
    }

    #[test]
    fn malformed_hours_are_rejected() {
        for (text, fine) in [
            ("", true),
            ("04:30-07:30", true),
            ("4:30-7:30", true),
            ("04:30-04:30", false),
            ("04:30", false),
            ("24:00-01:00", false),
            ("01:60-02:00", false),
            ("+1:00-02:00", false),
            ("01:00-02:00-03:00", false),
        ] {
            let options = DbOptions {
                daily_offpeak_time_utc: text.to_owned(),
                ..DbOptions::default()
            };
            assert_eq!(options.validate().is_ok(), fine, "{text}");
        }
    }
}
