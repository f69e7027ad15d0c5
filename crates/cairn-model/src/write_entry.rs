//! Entries of batches. A new kind of entry needs an arm in each function here.
//!
//! A value is `v:LENGTH:SEED`, letters derived from the seed, or `u:NUMBER`, eight bytes,
//! little-endian.

use std::fmt;
use std::str::FromStr;

use cairn_db::{Family, WriteBatch};
use cairn_sim::Rng;
use cairn_types::{Error, Result};

use crate::line::{shown, wrong};

/// A value or operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Letters derived from a seed.
    Text {
        /// Their number.
        len: usize,
        /// The seed.
        seed: u64,
    },
    /// A number as eight little-endian bytes.
    Number(u64),
}

impl Value {
    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Value::Number(number) => number.to_le_bytes().to_vec(),
            Value::Text { len, seed } => {
                let mut rng = Rng::new(*seed);
                (0..*len).map(|_| b'a' + rng.below(26) as u8).collect()
            }
        }
    }
}

/// The effect of a write on its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Puts a value.
    Put(Value),
    /// Puts an entity of these columns, sorted by name.
    PutEntity(Vec<(String, Value)>),
    /// Adds a merge operand.
    Merge(Value),
    /// Deletes the key.
    Delete,
    /// Deletes a key that was put once.
    SingleDelete,
    /// Deletes the keys up to this one, exclusive.
    DeleteRange(Vec<u8>),
}

/// Words of the changes with their weights out of 12 (puts are the rest); each word is a switch.
pub const CHANGES: [(&str, usize); 5] = [
    ("putentity", 1),
    ("delete", 2),
    ("singledelete", 1),
    ("merge", 2),
    ("deleterange", 1),
];

impl Change {
    /// Adds the change to a batch.
    pub fn add_to(&self, batch: &mut WriteBatch, family: &Family, key: &[u8]) {
        match self {
            Change::Put(value) => batch.put_in(family, key, &value.bytes()),
            Change::PutEntity(columns) => {
                let columns = bytes_of(columns);
                let pairs = columns.iter().map(|(name, value)| (&name[..], &value[..]));
                // The engine sorts the columns.
                batch.put_entity_in(family, key, &pairs.rev().collect::<Vec<_>>());
            }
            Change::Merge(value) => batch.merge_in(family, key, &value.bytes()),
            Change::Delete => batch.delete_in(family, key),
            Change::SingleDelete => batch.single_delete_in(family, key),
            Change::DeleteRange(end) => batch.delete_range_in(family, key, end),
        }
    }
}

/// Returns names and values as bytes.
#[must_use]
pub fn bytes_of(columns: &[(String, Value)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let name = |name: &str| match name {
        "_" => Vec::new(),
        name => name.as_bytes().to_vec(),
    };
    let columns = columns.iter();
    columns
        .map(|(column, value)| (name(column), value.bytes()))
        .collect()
}

/// One entry of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Family name.
    pub family: String,
    /// The key.
    pub key: Vec<u8>,
    /// The change.
    pub change: Change,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text { len, seed } => write!(f, "v:{len}:{seed}"),
            Value::Number(number) => write!(f, "u:{number}"),
        }
    }
}

impl FromStr for Value {
    type Err = Error;

    fn from_str(text: &str) -> Result<Value> {
        let number = |part: Option<&str>| {
            let parsed = part.and_then(|part| part.parse::<u64>().ok());
            parsed.ok_or_else(|| wrong("no number", text))
        };
        let mut parts = text.split(':');
        match parts.next() {
            Some("u") => Ok(Value::Number(number(parts.next())?)),
            Some("v") => Ok(Value::Text {
                len: number(parts.next())?.min(1 << 24) as usize,
                seed: number(parts.next())?,
            }),
            _ => Err(wrong("no value", text)),
        }
    }
}

/// Parses columns as [`Write`] displays them: `=NAME=VALUE,NAME=VALUE`.
fn columns(text: &str) -> Result<Vec<(String, Value)>> {
    let list = text.strip_prefix('=');
    let list = list.ok_or_else(|| wrong("no columns", text))?;
    let column = |text: &str| {
        let pair = text.split_once('=');
        let (name, value) = pair.ok_or_else(|| wrong("no column", text))?;
        Ok((name.to_owned(), value.parse()?))
    };
    list.split(',')
        .filter(|text| !text.is_empty())
        .map(column)
        .collect()
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Write {
            family,
            key,
            change,
        } = self;
        let key = shown(key);
        match change {
            Change::Put(value) => write!(f, "put {family} {key} {value}"),
            Change::PutEntity(columns) => {
                write!(f, "putentity {family} {key} =")?;
                let columns = columns.iter();
                let texts = columns.map(|(name, value)| format!("{name}={value}"));
                f.write_str(&texts.collect::<Vec<_>>().join(","))
            }
            Change::Merge(value) => write!(f, "merge {family} {key} {value}"),
            Change::Delete => write!(f, "delete {family} {key}"),
            Change::SingleDelete => write!(f, "singledelete {family} {key}"),
            Change::DeleteRange(end) => write!(f, "deleterange {family} {key} {}", shown(end)),
        }
    }
}

impl FromStr for Write {
    type Err = Error;

    fn from_str(text: &str) -> Result<Write> {
        let mut words = text.split_whitespace();
        let mut word = || words.next().ok_or_else(|| wrong("a word is missing", text));
        let kind = word()?;
        let (family, key) = (word()?.to_owned(), word()?.as_bytes().to_vec());
        let change = match kind {
            "put" => Change::Put(word()?.parse()?),
            "putentity" => Change::PutEntity(columns(word()?)?),
            "merge" => Change::Merge(word()?.parse()?),
            "delete" => Change::Delete,
            "singledelete" => Change::SingleDelete,
            "deleterange" => Change::DeleteRange(word()?.as_bytes().to_vec()),
            _ => return Err(wrong("unknown change", text)),
        };
        Ok(Write {
            family,
            key,
            change,
        })
    }
}
