//! Parses entries from files: CSV, TSV, JSON lines, and plain `key value` lines.
//!
//! Entries are read one at a time, so that files of any size need little memory. Errors name the line.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::path::Path;
use std::rc::Rc;

use cairn_types::{Error, Result};
use clap::ValueEnum;
use serde_json::value::RawValue;

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
    mut input: impl BufRead + 'a,
    format: Format,
    header: bool,
) -> Box<dyn Iterator<Item = Result<Entry>> + 'a> {
    match format {
        Format::Csv => Box::new(quoted(input, header)),
        Format::Tsv => {
            // A read that fails fails again in the iterator.
            if input.fill_buf().is_ok_and(|begin| begin.starts_with(BOM)) {
                input.consume(BOM.len());
            }
            Box::new(lines(input, from_tsv).skip(usize::from(header)))
        }
        Format::Jsonl => Box::new(lines(input, from_json)),
        Format::Text => Box::new(lines(input, from_text)),
    }
}

/// The byte order mark that some programs write at the start of a UTF-8 file.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Parses CSV: the first field is the key, the second the value.
fn quoted(input: impl Read, header: bool) -> impl Iterator<Item = Result<Entry>> {
    let is_cut = Rc::new(Cell::new(false));
    let reader = csv::ReaderBuilder::new()
        .has_headers(header)
        .flexible(true)
        .from_reader(Quotes::new(input, is_cut.clone()));
    let mut records = reader.into_byte_records();
    let mut is_reported = false;
    std::iter::from_fn(move || {
        let record = records.next();
        if is_cut.get() {
            // The parser takes the rest of the file for a field. Without a record, it is in the header.
            let line = match &record {
                Some(Ok(record)) => record.position().map_or(1, csv::Position::line),
                _ => 1,
            };
            let error = Error::invalid_argument(format!(
                "line {line}: the file ends within a quoted field of the record that begins here"
            ));
            return (!std::mem::replace(&mut is_reported, true)).then_some(Err(error));
        }
        Some(
            record?
                .map_err(|error| Error::invalid_argument(error.to_string()))
                .and_then(|record| match (record.get(0), record.get(1)) {
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
                }),
        )
    })
}

/// The position of a byte in CSV.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    FieldStart,
    Plain,
    Quoted,
    /// After a quote in a quoted field: its end, or the first of two that stand for one.
    AfterQuote,
}

/// Passes CSV through, and detects an unclosed quote at the end, which the parser does not report.
struct Quotes<R> {
    input: R,
    place: Place,
    /// The number of leading bytes that match the byte order mark; its length once the first field has begun.
    marked: usize,
    /// Set at the end of the input: true if it is within quotes.
    is_cut: Rc<Cell<bool>>,
}

impl<R: Read> Quotes<R> {
    fn new(input: R, is_cut: Rc<Cell<bool>>) -> Quotes<R> {
        Quotes {
            input,
            place: Place::FieldStart,
            marked: 0,
            is_cut,
        }
    }

    fn pass(&mut self, byte: u8) {
        match BOM.get(self.marked) {
            Some(mark) if *mark == byte => {
                self.marked += 1;
                return;
            }
            // The beginning of a mark is the beginning of a field.
            Some(_) if self.marked > 0 => self.place = Place::Plain,
            _ => {}
        }
        self.marked = BOM.len();
        self.place = match (self.place, byte) {
            (Place::FieldStart | Place::AfterQuote, b'"') => Place::Quoted,
            (Place::Quoted, b'"') => Place::AfterQuote,
            (Place::Quoted, _) => Place::Quoted,
            (_, b',' | b'\r' | b'\n') => Place::FieldStart,
            _ => Place::Plain,
        };
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let got = self.input.read(buf)?;
        buf[..got].iter().for_each(|byte| self.pass(*byte));
        if got == 0 && !buf.is_empty() {
            self.is_cut.set(self.place == Place::Quoted);
        }
        Ok(got)
    }
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

/// Parses fields separated by tabs, of which the first is the key and the second the value.
fn from_tsv(line: &[u8]) -> std::result::Result<Entry, String> {
    let mut fields = line.split(|byte| *byte == b'\t');
    match (fields.next(), fields.next()) {
        (Some(key), Some(value)) => Ok(Entry {
            family: None,
            key: key.to_vec(),
            value: value.to_vec(),
        }),
        _ => Err("expected a key and a value, found 1 field".to_owned()),
    }
}

/// Parses an object with `key` and `value`, or with `k` and `v` in hexadecimal.
fn from_json(line: &[u8]) -> std::result::Result<Entry, String> {
    // Members are kept as text: a number that is parsed and printed may change.
    let object: BTreeMap<String, &RawValue> =
        serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if object.contains_key("cols") || object.contains_key("ts") {
        return Err("entities and timestamps cannot be loaded yet".to_owned());
    }
    if let Some(error) = object.get("error").or(object.get("open_error")) {
        return Err(format!("the line reports an error: {error}"));
    }
    let string = |name: &str| {
        let text = object.get(name)?.get();
        let is_string = text.starts_with('"');
        is_string.then(|| serde_json::from_str::<String>(text).map_err(|error| error.to_string()))
    };
    let family = string("cf").transpose()?;
    let hex = |name: &str| {
        Some(string(name)?.and_then(|text| unhex(&text).map_err(|error| error.text().to_owned())))
    };
    if let (Some(key), Some(value)) = (hex("k"), hex("v")) {
        return Ok(Entry {
            family,
            key: key?,
            value: value?,
        });
    }
    let plain = |name: &str| match (string(name), object.get(name)) {
        (Some(text), _) => text.map(String::into_bytes),
        // Numbers, lists and objects are stored as text.
        (None, Some(other)) => Ok(other.get().as_bytes().to_vec()),
        (None, None) => Err(format!(
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
        assert_eq!(
            pairs("a\tb\rc\r\n\r\nd\te\tignored\r\n", Format::Tsv),
            [pair("a", "b\rc"), pair("d", "e")],
            "a lone carriage return does not end a record"
        );
        assert_eq!(all("name,x\na,1\n", Format::Csv, true).len(), 1);
        assert_eq!(all("name\na\t1\n", Format::Tsv, true).len(), 1);
        for whole in ["\u{feff}\"a\",1", "a,\"1\"", "a\"b,1", "a,\"1\"\"\"\n"] {
            assert_eq!(pairs(whole, Format::Csv).len(), 1, "{whole}");
        }
        for (cut, line, count) in [
            ("a,1\nb,\"2\nc,3\n", 2, 2),
            ("a,1\nb,\"2\"\"", 2, 2),
            ("\"a,1", 1, 1),
        ] {
            let found = all(cut, Format::Csv, false);
            assert_eq!(found.len(), count, "{cut}");
            let error = found.last().unwrap().as_ref().unwrap_err().to_string();
            let expected = format!("line {line}: the file ends within a quoted field");
            assert!(error.contains(&expected), "{error}");
        }
        assert!(all("name,\"x\na,1\n", Format::Csv, true)[0].is_err());
        // A byte of a mark without those before it.
        let is_cut = Rc::new(Cell::new(false));
        let mut quotes = Quotes::new(&b",\xbb\"x"[..], is_cut.clone());
        quotes.read_to_end(&mut Vec::new()).unwrap();
        assert!(!is_cut.get());
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
        for other in [
            "123456789012345678901234567890",
            "1.0E2",
            "{\"b\": 1, \"a\":2}",
            "null",
        ] {
            let line = format!("{{\"key\":\"\\u0061\",\"value\": {other} }}");
            assert_eq!(pairs(&line, Format::Jsonl), [pair("a", other)]);
        }
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
