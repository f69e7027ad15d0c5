//! Formats bytes: hexadecimal, escapes, and rows of a scan.

use std::fmt::Write as _;

use cairn_types::{Error, Result};

/// Returns `bytes` in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Parses hexadecimal, with or without `0x`.
///
/// # Errors
///
/// `InvalidArgument` if it is malformed.
pub fn unhex(text: &str) -> Result<Vec<u8>> {
    let digits = text.strip_prefix("0x").unwrap_or(text).as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? << 4 | digit(*low)?).ok(),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(pair).collect();
    bytes.ok_or_else(|| Error::invalid_argument(format!("{text} is not hexadecimal")))
}

/// Returns `rows`, which have the same number of cells, as lines of a table. The first `left` columns are aligned to the
/// left, the others to the right.
#[must_use]
pub fn aligned(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, &width))| match column < left {
            true => format!("{cell:<width$}"),
            false => format!("{cell:>width$}"),
        });
        text += &cells.collect::<Vec<_>>().join("  ");
        text.push('\n');
    }
    text
}

/// Returns `bytes` as text with escapes.
#[must_use]
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                _ if char.is_control() => {
                    let mut bytes = [0; 4];
                    escape_bytes(&mut text, char.encode_utf8(&mut bytes).as_bytes());
                }
                _ => text.push(char),
            }
        }
        escape_bytes(&mut text, chunk.invalid());
    }
    text
}

fn escape_bytes(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        write!(text, "\\x{byte:02x}").expect("writing to a string cannot fail");
    }
}

/// Returns a row of `scan --format jsonl`, without its newline.
#[must_use]
pub fn json_row(
    family: &str,
    key: &[u8],
    value: &[u8],
    columns: &[(&[u8], &[u8])],
    timestamp: &[u8],
) -> String {
    let mut row = format!(
        "{{\"cf\":{},\"k\":\"{}\",\"v\":\"{}\"",
        json_text(family),
        hex(key),
        hex(value)
    );
    let lone_default = matches!(columns, [] | [([], _)]);
    if !lone_default {
        let pairs: Vec<String> = columns
            .iter()
            .map(|(name, value)| format!("[\"{}\",\"{}\"]", hex(name), hex(value)))
            .collect();
        write!(row, ",\"cols\":[{}]", pairs.join(",")).expect("writing to a string cannot fail");
    }
    if !timestamp.is_empty() {
        write!(row, ",\"ts\":\"{}\"", hex(timestamp)).expect("writing to a string cannot fail");
    }
    row.push('}');
    row
}

/// Returns the row printed after a family whose iteration failed.
#[must_use]
pub fn json_error(family: &str, error: &Error) -> String {
    format!(
        "{{\"cf\":{},\"error\":{}}}",
        json_text(family),
        json_text(&error.to_string())
    )
}

/// Returns `text` as a JSON string.
pub fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_round_trips() {
        assert_eq!(unhex("0x00fF").unwrap(), [0, 255]);
        assert_eq!(hex(&[0, 255]), "00ff");
        assert!(unhex("0").is_err() && unhex("zz").is_err());
    }

    #[test]
    fn non_text_bytes_are_escaped() {
        assert_eq!(escaped("a\\b\né\u{7}".as_bytes()), "a\\\\b\\né\\x07");
        assert_eq!(escaped(b"\xffa"), "\\xffa");
    }

    #[test]
    fn rows_have_the_form_of_the_golden_files() {
        assert_eq!(
            json_row("default", b"k", b"", &[], b""),
            r#"{"cf":"default","k":"6b","v":""}"#
        );
        assert_eq!(
            json_row("é", b"k", b"v", &[(b"", b"v"), (b"c", b"x")], b"\x01"),
            r#"{"cf":"é","k":"6b","v":"76","cols":[["","76"],["63","78"]],"ts":"01"}"#
        );
        assert_eq!(
            json_row("default", b"k", b"v", &[(b"", b"v")], b""),
            r#"{"cf":"default","k":"6b","v":"76"}"#
        );
    }
}
