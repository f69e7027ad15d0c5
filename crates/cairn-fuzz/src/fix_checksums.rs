//! Recomputes the checksums of mutated files, so that mutations reach the decoders behind them.

mod table;

use cairn_format::checksum::{crc32c, mask};

pub use table::table;

/// Size of a log block.
const LOG_BLOCK: usize = 32 << 10;

/// Fixes every record of a log file that starts after the first byte of `data`.
pub fn log_behind_a_byte(data: &mut [u8]) {
    if let Some((_, file)) = data.split_first_mut() {
        log(file);
    }
}

/// Fixes every record of a log file, as far as the lengths are consistent.
pub fn log(file: &mut [u8]) {
    let mut at = 0;
    while at + 7 <= file.len() {
        let left = LOG_BLOCK - at % LOG_BLOCK;
        if left < 7 {
            at += left;
            continue;
        }
        let len = usize::from(u16::from_le_bytes([file[at + 4], file[at + 5]]));
        let kind = file[at + 6];
        let recyclable = matches!(kind, 5..=8 | 11 | 131);
        let end = at + if recyclable { 11 } else { 7 } + len;
        if end > file.len() || (kind == 0 && len == 0) {
            return;
        }
        let checksum = mask(crc32c(&file[at + 6..end]));
        file[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
        at = end;
    }
}

/// Fixes the records of a blob file that starts after the first byte of `data`: header and body of
/// each, and the footer if there is one.
pub fn blob_behind_a_byte(data: &mut [u8]) {
    let Some((_, file)) = data.split_first_mut() else {
        return;
    };
    let mut at = 30;
    while let Some(header) = file.get(at..at + 32) {
        let number = |from: usize| {
            let bytes = header[from..from + 8]
                .try_into()
                .expect("the range has 8 bytes");
            usize::try_from(u64::from_le_bytes(bytes)).ok()
        };
        let lengths = number(0)
            .zip(number(8))
            .and_then(|(key, value)| key.checked_add(value));
        let Some(end) = lengths.and_then(|len| len.checked_add(at + 32)) else {
            break;
        };
        let checksum = mask(crc32c(&header[..24])).to_le_bytes();
        if end > file.len() {
            break;
        }
        file[at + 24..at + 28].copy_from_slice(&checksum);
        let checksum = mask(crc32c(&file[at + 32..end])).to_le_bytes();
        file[at + 28..at + 32].copy_from_slice(&checksum);
        at = end;
    }
    if file.len() >= at + 32 {
        let footer = file.len() - 32;
        let checksum = mask(crc32c(&file[footer..footer + 28])).to_le_bytes();
        file[footer + 28..].copy_from_slice(&checksum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_format::log::{Bytes, Event, Framing, LogReader, LogWriter};

    #[test]
    fn a_fixed_log_is_readable() {
        let mut file = Vec::new();
        LogWriter::new(Framing::Legacy).add(b"a record", &mut file);
        file[9] ^= 1;
        let record = |file: &[u8]| {
            matches!(
                LogReader::new(Bytes(file), 0).next(),
                Ok(Event::Record { .. })
            )
        };
        assert!(!record(&file));
        log(&mut file);
        assert!(record(&file));
    }
}
