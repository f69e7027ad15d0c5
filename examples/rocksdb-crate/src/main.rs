//! An index of words: which lines of a text a word stands in, and how often.
//!
//! ```text
//! cargo run -- DIR < text        adds the lines to the index in DIR and prints the ten most frequent words
//! cargo run -- DIR WORD          prints the lines that hold WORD
//! ```
//!
//! A program like many of the crate `rocksdb`: two column families, a merge operator, batches,
//! prefix scans.

use std::error::Error;
use std::io::BufRead;

use rocksdb::{
    ColumnFamilyDescriptor, IteratorMode, MergeOperands, Options, ReadOptions, SliceTransform,
    WriteBatch, DB,
};

/// Adds numbers of eight bytes.
fn add(_key: &[u8], existing: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).unwrap_or(0);
    let sum: u64 = existing.into_iter().chain(operands).map(number).sum();
    Some(sum.to_be_bytes().to_vec())
}

/// The part of a key before its zero.
fn word(key: &[u8]) -> &[u8] {
    &key[..key.iter().position(|&byte| byte == 0).unwrap_or(key.len())]
}

fn open(path: &str) -> Result<DB, rocksdb::Error> {
    let mut counts = Options::default();
    counts.set_merge_operator_associative("add", add);
    // Keys of the lines: the word, a zero, the line's number.
    let mut lines = Options::default();
    lines.set_prefix_extractor(SliceTransform::create("word", word, None));
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    DB::open_cf_descriptors(
        &options,
        path,
        [
            ColumnFamilyDescriptor::new("counts", counts),
            ColumnFamilyDescriptor::new("lines", lines),
        ],
    )
}

fn index(db: &DB, text: impl BufRead) -> Result<(), Box<dyn Error>> {
    let (counts, lines) = (db.cf_handle("counts").unwrap(), db.cf_handle("lines").unwrap());
    let first = db.get(b"lines")?.map_or(0, |bytes| {
        u64::from_be_bytes(bytes.try_into().unwrap_or_default())
    });
    let mut number = first;
    for line in text.lines() {
        let line = line?;
        let mut batch = WriteBatch::default();
        for word in line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
            let word = word.to_lowercase();
            batch.merge_cf(counts, &word, 1u64.to_be_bytes());
            let mut key = word.into_bytes();
            key.push(0);
            key.extend(number.to_be_bytes());
            batch.put_cf(lines, key, &line);
        }
        number += 1;
        batch.put(b"lines", number.to_be_bytes());
        db.write(batch)?;
    }
    let mut all = Vec::new();
    for entry in db.iterator_cf(counts, IteratorMode::Start) {
        let (word, count) = entry?;
        let count = u64::from_be_bytes(count.as_ref().try_into()?);
        all.push((count, String::from_utf8_lossy(&word).into_owned()));
    }
    all.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    println!("{} lines, {} words", number, all.len());
    for (count, word) in all.iter().take(10) {
        println!("{count:8} {word}");
    }
    Ok(())
}

fn find(db: &DB, word: &str) -> Result<(), Box<dyn Error>> {
    let lines = db.cf_handle("lines").unwrap();
    let mut options = ReadOptions::default();
    options.set_prefix_same_as_start(true);
    let mut start = word.to_lowercase().into_bytes();
    start.push(0);
    let mode = IteratorMode::From(&start, rocksdb::Direction::Forward);
    for entry in db.iterator_cf_opt(lines, options, mode) {
        println!("{}", String::from_utf8_lossy(&entry?.1));
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.as_slice() {
        [dir] => index(&open(dir)?, std::io::stdin().lock()),
        [dir, word] => find(&open(dir)?, word),
        _ => Err("word-index DIR < text, or word-index DIR WORD".into()),
    }
}
