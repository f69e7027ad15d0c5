//! The content of a database: the rows of each family in order, in the format of the golden files.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

/// A row. Its fields are in hex: `k`, `v`, and optionally `cols` or `ts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The user key.
    pub key: String,
    /// The value; the default column of an entity.
    pub value: String,
    /// The columns of an entity that has more than a default column.
    pub columns: Option<Vec<(String, String)>>,
    /// The timestamp, if keys have timestamps.
    pub timestamp: Option<String>,
}

impl Row {
    /// The row with these columns, unless they are only a default column.
    #[must_use]
    pub fn with_columns(mut self, columns: &[(&[u8], &[u8])]) -> Row {
        if !matches!(columns, [(b"", _)]) {
            let columns = columns.iter();
            let columns = columns.map(|(name, value)| (hex(name), hex(value)));
            self.columns = Some(columns.collect());
        }
        self
    }

    /// A row without columns and timestamp.
    #[must_use]
    pub fn of(key: &[u8], value: &[u8]) -> Row {
        Row {
            key: hex(key),
            value: hex(value),
            columns: None,
            timestamp: None,
        }
    }
}

/// `content` without columns, as an interface sees it that shows only default columns.
#[must_use]
pub fn without_columns(mut content: Content) -> Content {
    let rows = content.values_mut().flat_map(|family| &mut family.rows);
    rows.for_each(|row| row.columns = None);
    content
}

/// A family: its rows in order, and the error that ended the read, if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// The rows.
    pub rows: Vec<Row>,
    /// The error that ended the read.
    pub error: Option<String>,
}

/// The families of a database by name. A family without rows may be missing, so compare with
/// [`difference`].
pub type Content = BTreeMap<String, Rows>;

/// The content of a dump, or the error of opening the database.
pub type Dump = Result<Content, String>;

/// Parses lines of JSON objects with `cf`, `k`, `v`, `cols`, `ts`, `error` or `open_error`.
///
/// # Panics
///
/// If a line has another format.
pub fn parse(lines: &str) -> Dump {
    let mut content = Content::new();
    for line in lines.lines() {
        let object: Value = serde_json::from_str(line).expect("each line is an object");
        if let Some(error) = object.get("open_error") {
            return Err(text(error));
        }
        let family = content.entry(text(&object["cf"])).or_default();
        if let Some(error) = object.get("error") {
            family.error = Some(text(error));
            continue;
        }
        family.rows.push(Row {
            key: text(&object["k"]),
            value: text(&object["v"]),
            columns: object.get("cols").map(|columns| {
                let columns = columns.as_array().expect("cols is an array");
                columns
                    .iter()
                    .map(|pair| (text(&pair[0]), text(&pair[1])))
                    .collect()
            }),
            timestamp: object.get("ts").map(text),
        });
    }
    Ok(content)
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .expect("the field is there and is text")
        .to_owned()
}

/// The first difference between `actual` and `expected`, or `None`. Errors are not compared by text.
#[must_use]
pub fn difference(expected: &Content, actual: &Content) -> Option<String> {
    let names: std::collections::BTreeSet<_> = expected.keys().chain(actual.keys()).collect();
    let none = Rows::default();
    for name in names {
        let left = expected.get(name).unwrap_or(&none);
        let right = actual.get(name).unwrap_or(&none);
        for (number, pair) in left.rows.iter().zip(&right.rows).enumerate() {
            if pair.0 != pair.1 {
                let (left, right) = (brief(pair.0), brief(pair.1));
                return Some(format!(
                    "family {name}, row {number}: expected {left}, found {right}"
                ));
            }
        }
        if left.rows.len() != right.rows.len() {
            let (expected, found) = (left.rows.len(), right.rows.len());
            let at = expected.min(found);
            let next = left
                .rows
                .get(at)
                .or(right.rows.get(at))
                .map(brief)
                .unwrap_or_default();
            return Some(format!(
                "family {name}: expected {expected} rows, found {found}; the first odd one is {next}; \
                 errors: {:?}, {:?}",
                left.error, right.error
            ));
        }
        if left.error.is_some() != right.error.is_some() {
            return Some(format!(
                "family {name}: {:?} expected, {:?}",
                left.error, right.error
            ));
        }
    }
    None
}

/// The number of rows.
#[must_use]
pub fn count(content: &Content) -> usize {
    content.values().map(|family| family.rows.len()).sum()
}

fn brief(row: &Row) -> String {
    let mut text = format!("{row:?}");
    if text.len() > 300 {
        text.truncate(
            (0..=300)
                .rev()
                .find(|&at| text.is_char_boundary(at))
                .unwrap_or(0),
        );
        text.push('…');
    }
    text
}

/// `bytes` in lower-case hex.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a String does not fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_family_and_row() {
        let a = parse("{\"cf\":\"x\",\"k\":\"00\",\"v\":\"01\"}").unwrap();
        let b = parse("{\"cf\":\"x\",\"k\":\"00\",\"v\":\"02\"}").unwrap();
        assert_eq!(difference(&a, &a), None);
        assert!(
            difference(&a, &b)
                .unwrap()
                .starts_with("family x, row 0: expected")
        );
        assert!(
            difference(&a, &Content::new())
                .unwrap()
                .contains("expected 1 rows, found 0")
        );
        assert_eq!(parse("{\"open_error\": \"no\"}"), Err("no".to_owned()));
    }
}
