//! Number formats of the tables of statistics: RocksDB's, because programs parse them.

use std::collections::BTreeMap;

pub(crate) const MB: f64 = 1_048_576.0;
pub(crate) const GB: f64 = MB * 1024.0;

/// A map property.
pub(crate) type Map = BTreeMap<String, String>;

/// A size with two decimals and its unit, at least KB.
pub(crate) fn human_bytes(bytes: f64) -> String {
    let mut size = bytes / 1024.0;
    let mut unit = "KB";
    for larger in ["MB", "GB", "TB"] {
        if size < 1024.0 {
            break;
        }
        size /= 1024.0;
        unit = larger;
    }
    format!("{size:.2} {unit}")
}

/// A number with at most four digits and a letter for thousands, millions or billions.
pub(crate) fn human_count(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..10_000_000 => format!("{}K", count / 1_000),
        10_000_000..10_000_000_000 => format!("{}M", count / 1_000_000),
        _ => format!("{}G", count / 1_000_000_000),
    }
}

/// A time in hours, minutes and seconds.
pub(crate) fn human_micros(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    let rest = (micros % 60_000_000) as f64 / 1e6;
    format!(
        "{:02}:{:02}:{rest:06.3} H:M:S",
        seconds / 3600,
        seconds / 60 % 60
    )
}

/// Stalls as one line.
pub(crate) fn stall_text(stalls: &Map) -> String {
    let words: Vec<String> = stalls
        .iter()
        .map(|(name, count)| format!("{name}: {count}"))
        .collect();
    format!("Write Stall (count): {}\n", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(human_count(9_999), "9999");
        assert_eq!(human_count(12_345_678), "12M");
        assert_eq!(human_bytes(0.0), "0.00 KB");
        assert_eq!(human_bytes(5.0 * MB), "5.00 MB");
        assert_eq!(human_micros(3_723_004_000), "01:02:03.004 H:M:S");
    }
}
