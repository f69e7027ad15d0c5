//! Fixtures: an in-memory file, and blocking reads.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use cairn_format::key::{self, LookupKey};
use cairn_platform::fs::FileMode;
use cairn_platform::mem::MemFileSystem;
use cairn_platform::{FileSystem, Io, RandomAccessFile};
use cairn_table::{
    BuildParams, GetOptions, IterOptions, OpenParams, Table, TableBuilder, TableIter, TableStats,
};
use cairn_types::{Comparator, KeyOrder, Result, SequenceNumber, ValueKind};

/// An internal key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// The entry of a put of `value` with sequence number 7.
pub fn put(user: &str, value: Vec<u8>) -> Entry {
    let mut key = Vec::new();
    let seq = SequenceNumber(7);
    key::append_internal(&mut key, user.as_bytes(), seq, ValueKind::Value);
    (key, value)
}

/// A user-defined order: shorter keys first, keys of equal length bytewise.
struct LengthThenBytes;

impl Comparator for LengthThenBytes {
    fn name(&self) -> &str {
        "golden.LengthThenBytes"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

/// Returns the user-defined order.
pub fn length_then_bytes() -> KeyOrder {
    KeyOrder::Custom(Arc::new(LengthThenBytes))
}

/// Returns the bytes of a table of these entries and range tombstones.
pub fn build(
    params: BuildParams,
    entries: &[Entry],
    tombstones: &[Entry],
) -> Result<(Vec<u8>, TableStats)> {
    let fs = MemFileSystem::new();
    let path = Path::new("/000001.sst");
    let file = fs.create(path, FileMode::default())?;
    let mut builder = TableBuilder::create(file.clone(), params)?;
    for (key, value) in entries {
        builder.add(key, value)?;
    }
    for (start, end) in tombstones {
        builder.add_range_tombstone(start, end)?;
    }
    let stats = builder.finish()?;
    file.close()?;
    let file = fs.open(path, FileMode::default())?;
    let mut bytes = vec![0; file.len()? as usize];
    assert_eq!(file.read_at(0, &mut bytes)?, bytes.len());
    assert_eq!(bytes.len() as u64, stats.file_size);
    Ok((bytes, stats))
}

/// Returns a file with these bytes.
pub fn file(bytes: &[u8]) -> Arc<dyn RandomAccessFile> {
    let fs = MemFileSystem::new();
    let path = Path::new("/000001.sst");
    let file = fs.create(path, FileMode::default()).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
    fs.open(path, FileMode::default()).unwrap()
}

/// Opens the table in these bytes.
pub fn open(bytes: &[u8], params: OpenParams) -> Result<Arc<Table>> {
    Table::open(file(bytes), bytes.len() as u64, params, &Io::blocking())
}

/// Returns all entries, front to back.
pub fn forward(table: &Arc<Table>) -> Result<Vec<Entry>> {
    let io = Io::blocking();
    let mut iter = TableIter::new(table.clone(), IterOptions::default());
    let mut entries = Vec::new();
    let step = iter.seek_to_first();
    iter.complete(step, &io);
    while iter.valid() {
        entries.push((iter.key().to_vec(), iter.value().to_vec()));
        let prefix = iter.next_prefix(&KeyOrder::Bytewise);
        if let Some(prefix) = prefix {
            assert!(iter.valid());
            assert_eq!(prefix, key::prefix(&KeyOrder::Bytewise, iter.key()));
        }
        iter.complete(iter.progress(), &io);
    }
    iter.status()?;
    Ok(entries)
}

/// Returns all entries, back to front.
pub fn backward(table: &Arc<Table>) -> Result<Vec<Entry>> {
    let io = Io::blocking();
    let mut iter = TableIter::new(table.clone(), IterOptions::default());
    let mut entries = Vec::new();
    let step = iter.seek_to_last();
    iter.complete(step, &io);
    while iter.valid() {
        entries.push((iter.key().to_vec(), iter.value().to_vec()));
        let prefix = iter.prev_prefix(&KeyOrder::ReverseBytewise);
        if let Some(prefix) = prefix {
            assert!(iter.valid());
            assert_eq!(prefix, key::prefix(&KeyOrder::ReverseBytewise, iter.key()));
        }
        iter.complete(iter.progress(), &io);
    }
    iter.status()?;
    Ok(entries)
}

/// Returns the entries that a get of `user_key` at `seq` visits: sequence numbers and values.
pub fn get(table: &Table, user_key: &[u8], seq: u64) -> Result<Vec<(u64, Vec<u8>)>> {
    let lookup = LookupKey::new(user_key, SequenceNumber(seq));
    let mut found = Vec::new();
    table.get_now(
        &lookup,
        &GetOptions::default(),
        &Io::blocking(),
        &mut |key, value| {
            found.push((key.seq.0, value.bytes().to_vec()));
            ControlFlow::Continue(())
        },
    )?;
    Ok(found)
}
