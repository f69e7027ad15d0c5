//! Parses entries from files: CSV, TSV, JSON lines, and plain `key value` lines.
//!
//! Entries are read one at a time, so that files of any size need little memory. Errors name the line.

use std::io::{BufRead, Read};
use std::path::Path;

use cairn_types::{Error, Result};
use clap::ValueEnum;
use serde_json::Value;

use crate::show::unhex;

/// Format of an input file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// `key,value`, quoted where needed.
    Csv,
    /// `key TAB value`.
    Tsv,
    /// One JSON object per line.
    Jsonl,
    /// `key value`.
    Text,
}

impl Format {
    /// Returns the format for a file name.
    #[must_use]
    pub fn of_name(path: &Path) -> Format {
        let extension = path.extension().and_then(|text| text.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("csv") => Format::Csv,
            Some("tsv" | "tab") => Format::Tsv,
            Some("jsonl" | "json" | "ndjson") => Format::Jsonl,
            _ => Format::Text,
        }
    }
}

/// A key and its value, and the family if the file names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The family; `None` for the one on the command line.
    pub family: Option<String>,
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

/// Returns the entries of `input`.
pub fn entries<'a>(
    input: impl BufRead + 'a,
    format: Format,
    header: bool,
) -> Box<dyn Iterator<Item = Result<Entry>> + 'a> {
    match format {
        Format::Csv => Box::new(separated(input, b',', true, header)),
        Format::Tsv => Box::new(separated(input, b'\t', false, header)),
        Format::Jsonl => Box::new(lines(input, from_json)),
        Format::Text => Box::new(lines(input, from_text)),
    }
}

/// Parses delimited lines: the first field is the key, the second the value.
fn separated(
    input: impl Read,
    delimiter: u8,
    quoting: bool,
    header: bool,
) -> impl Iterator<Item = Result<Entry>> {
    let reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .quoting(quoting)
        .has_headers(header)
        .flexible(true)
        .from_reader(input);
    reader.into_byte_records().map(|record| {
        let record = record.map_err(|error| Error::invalid_argument(error.to_string()))?;
        match (record.get(0), record.get(1)) {
            (Some(key), Some(value)) => Ok(Entry {
                family: None,
                key: key.to_vec(),
                value: value.to_vec(),
            }),
            _ => {
                let line = record.position().map_or(0, csv::Position::line);
                Err(Error::invalid_argument(format!(
                    "line {line}: expected a key and a value, found {} fields",
                    record.len()
                )))
            }
        }
    })
}

/// Parses non-empty lines with `parse`.
fn lines(
    mut input: impl BufRead,
    parse: fn(&[u8]) -> std::result::Result<Entry, String>,
) -> impl Iterator<Item = Result<Entry>> {
    let mut number = 0u64;
    std::iter::from_fn(move || {
        loop {
            let mut line = Vec::new();
            number += 1;
            match input.read_until(b'\n', &mut line) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => {
                    return Some(Err(Error::io_text(format!("read line {number}: {error}"))));
                }
            }
            let content = line.strip_suffix(b"\n").unwrap_or(&line);
            let content = content.strip_suffix(b"\r").unwrap_or(content);
            if !content.is_empty() {
                let entry = parse(content);
                return Some(
                    entry.map_err(|what| Error::invalid_argument(format!("line {number}: {what}"))),
                );
            }
        }
    })
}

/// Parses `key value`: the key ends at the first space or tab.
fn from_text(line: &[u8]) -> std::result::Result<Entry, String> {
    let at = line.iter().position(|byte| matches!(byte, b' ' | b'\t'));
    let at = at.ok_or("expected a key, a space and a value")?;
    Ok(Entry {
        family: None,
        key: line[..at].to_vec(),
        value: line[at + 1..].to_vec(),
    })
}

/// Parses an object with `key` and `value`, or with `k` and `v` in hexadecimal.
fn from_json(line: &[u8]) -> std::result::Result<Entry, String> {
    let object: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if object.get("cols").is_some() || object.get("ts").is_some() {
        return Err("entities and timestamps cannot be loaded yet".to_owned());
    }
    if let Some(error) = object.get("error").or(object.get("open_error")) {
        return Err(format!("the line reports an error: {error}"));
    }
    let family = object.get("cf").and_then(Value::as_str).map(str::to_owned);
    let hex = |name: &str| {
        let text = object.get(name)?.as_str()?;
        Some(unhex(text).map_err(|error| error.text().to_owned()))
    };
    if let (Some(key), Some(value)) = (hex("k"), hex("v")) {
        return Ok(Entry {
            family,
            key: key?,
            value: value?,
        });
    }
    let plain = |name: &str| match object.get(name) {
        Some(Value::String(text)) => Ok(text.clone().into_bytes()),
        // Numbers, lists and objects are stored as text.
        Some(other) => Ok(other.to_string().into_bytes()),
        None => Err(format!(
            "expected an object with \"key\" and \"value\"; it has no \"{name}\""
        )),
    };
    Ok(Entry {
        family,
        key: plain("key")?,
        value: plain("value")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, format: Format, header: bool) -> Vec<Result<Entry>> {
        entries(text.as_bytes(), format, header).collect()
    }

    fn pairs(text: &str, format: Format) -> Vec<(String, String)> {
        let text_of = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let found = all(text, format, false)
            .into_iter()
            .map(|entry| entry.unwrap());
        found
            .map(|entry| (text_of(entry.key), text_of(entry.value)))
            .collect()
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn formats_are_derived_from_names() {
        assert_eq!(Format::of_name(Path::new("a.CSV")), Format::Csv);
        assert_eq!(Format::of_name(Path::new("a.tab")), Format::Tsv);
        assert_eq!(Format::of_name(Path::new("a.ndjson")), Format::Jsonl);
        assert_eq!(Format::of_name(Path::new("-")), Format::Text);
    }

    #[test]
    fn csv_has_quotes_and_tsv_has_none() {
        let csv = "a,1\r\n\"b,\"\"c\",\"two\nlines\",ignored\n";
        assert_eq!(
            pairs(csv, Format::Csv),
            [pair("a", "1"), pair("b,\"c", "two\nlines")]
        );
        assert_eq!(pairs("\"a\tb c\n", Format::Tsv), [pair("\"a", "b c")]);
        assert_eq!(all("name,x\na,1\n", Format::Csv, true).len(), 1);
        let error = all("a,1\nlonely\n", Format::Csv, false)
            .pop()
            .unwrap()
            .unwrap_err();
        assert!(error.text().contains("line 2"), "{error}");
    }

    #[test]
    fn the_value_is_the_rest_of_a_text_line() {
        assert_eq!(
            pairs("a 1 2\n\nb\t\r\nc  x", Format::Text),
            [pair("a", "1 2"), pair("b", ""), pair("c", " x")]
        );
        assert!(all("lonely", Format::Text, false)[0].is_err());
    }

    #[test]
    fn json_lines_are_plain_or_in_scan_format() {
        let text =
            "{\"key\":\"a\",\"value\":{\"x\":[1]}}\n{\"cf\":\"f\",\"k\":\"00\",\"v\":\"ff\"}\n";
        let found = all(text, Format::Jsonl, false);
        assert_eq!(found[0].as_ref().unwrap().value, b"{\"x\":[1]}");
        let second = found[1].as_ref().unwrap();
        assert_eq!(
            (second.family.as_deref(), &second.key[..]),
            (Some("f"), &[0][..])
        );
        for bad in [
            "{",
            "{\"key\":1}",
            "{\"k\":\"0\",\"v\":\"\"}",
            "{\"error\":\"x\"}",
        ] {
            assert!(all(bad, Format::Jsonl, false)[0].is_err(), "{bad}");
        }
    }
}
