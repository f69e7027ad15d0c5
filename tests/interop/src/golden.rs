//! The golden databases: directories written by RocksDB, with the content that it reads from them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;

use crate::content::{self, Dump};

/// A database of `tests/golden`, as described in `index.json`.
#[derive(Clone, Debug)]
pub struct Golden {
    /// The name, which begins with the version of the writer.
    pub name: String,
    /// Database options in text form, including those needed only for reading.
    pub options: String,
    /// The options of each family.
    pub families: BTreeMap<String, String>,
    /// The comparator of each family that is not bytewise.
    pub comparators: BTreeMap<String, String>,
    /// True if the program must supply the comparator.
    pub needs_comparator: bool,
    /// The content that RocksDB 11.9 reads, if an older version wrote the database; `true` if it is the same.
    pub read_by_newest: Value,
}

/// `tests/golden`.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden")
}

/// All golden databases, in the order of the index.
///
/// # Panics
///
/// If the index cannot be read.
#[must_use]
pub fn all() -> Vec<Golden> {
    let index = fs::read(folder().join("index.json")).expect("tests/golden/index.json is there");
    let index: Value = serde_json::from_slice(&index).expect("the index is JSON");
    index
        .as_array()
        .expect("the index is an array")
        .iter()
        .map(Golden::of)
        .collect()
}

fn pairs(value: &Value) -> BTreeMap<String, String> {
    let fields = value.as_object().expect("the field is an object");
    fields
        .iter()
        .map(|(name, text)| (name.clone(), plain(text)))
        .collect()
}

fn plain(value: &Value) -> String {
    value.as_str().expect("the field is text").to_owned()
}

impl Golden {
    fn of(entry: &Value) -> Golden {
        let texts = [
            plain(&entry["db_options"]),
            plain(&entry["extra_db_options_when_reading"]),
        ];
        let texts: Vec<_> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        Golden {
            name: plain(&entry["name"]),
            options: texts.join(";"),
            families: pairs(&entry["column_families"]),
            comparators: pairs(&entry["comparators"]),
            needs_comparator: entry["open_mode"] == "custom comparator",
            read_by_newest: entry["same_content_read_by_11_9"].clone(),
        }
    }

    /// The expected content: what RocksDB 11.9 reads, or, for formats that it no longer supports, what
    /// was written.
    ///
    /// # Panics
    ///
    /// If the file is missing or malformed.
    pub fn expected(&self) -> Dump {
        let newest = folder().join(format!("{}.expected_by_11_9.jsonl.gz", self.name));
        let own = folder().join(format!("{}.expected.jsonl.gz", self.name));
        let file = File::open(&newest)
            .or_else(|_| File::open(&own))
            .expect("content is recorded");
        let mut lines = String::new();
        GzDecoder::new(file)
            .read_to_string(&mut lines)
            .expect("the content is gzip and UTF-8");
        content::parse(&lines)
    }

    /// Unpacks the directory into `target`; the database is then in `target/db`.
    ///
    /// # Panics
    ///
    /// If the archive is missing or corrupt.
    pub fn unpack(&self, target: &Path) {
        let file = File::open(folder().join(format!("{}.tar.gz", self.name)));
        let file = file.expect("the archive is there");
        tar::Archive::new(GzDecoder::new(file))
            .unpack(target)
            .expect("the archive unpacks");
    }
}
