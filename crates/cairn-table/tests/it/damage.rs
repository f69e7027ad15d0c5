//! Damaged tables yield an error or correct data, never a panic.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cairn_compress::Compression;
use cairn_format::block::{BlockKind, BlockLayout, IndexCursor, IndexForm};
use cairn_format::key;
use cairn_format::table::Handle;
use cairn_options::{ChecksumKind, FilterPolicy, IndexShortening, IndexType, TableOptions};
use cairn_platform::{Io, RandomAccessFile};
use cairn_table::{BuildParams, IterOptions, OpenParams, Table, TableIter};
use cairn_types::{Code, KeyOrder, Result};
use proptest::prelude::*;

use crate::world::{Entry, backward, build, file, forward, get, open, put};

fn sample(version: u32) -> (Vec<u8>, Vec<Entry>) {
    let entries: Vec<Entry> = (0..60u64)
        .map(|n| {
            let mut key = format!("key{n:04}").into_bytes();
            key.extend_from_slice(&((n + 1) << 8 | 1).to_le_bytes());
            (key, format!("value {n}").into_bytes())
        })
        .collect();
    let mut tombstone = b"key0010".to_vec();
    tombstone.extend_from_slice(&(100u64 << 8 | 0xf).to_le_bytes());
    let options = TableOptions {
        format_version: version,
        block_size: 200,
        metadata_block_size: 64,
        index_type: IndexType::TwoLevelIndexSearch,
        partition_filters: true,
        filter_policy: Some(FilterPolicy::Bloom { bits_per_key: 10.0 }),
        ..TableOptions::default()
    };
    let params = BuildParams {
        options: Arc::new(options),
        ..BuildParams::default()
    };
    let (bytes, _) = build(params, &entries, &[(tombstone, b"key0020".to_vec())]).unwrap();
    (bytes, entries)
}

/// Reads everything of a table that may be damaged. Whatever is read without an error must be correct.
fn read_all(bytes: &[u8], entries: &[Entry]) {
    let Ok(table) = open(bytes, OpenParams::default()) else {
        return;
    };
    if let Ok(read) = forward(&table) {
        assert_eq!(read, entries);
    }
    if let Ok(read) = backward(&table) {
        assert!(read.iter().rev().eq(entries));
    }
    for (key, value) in entries.iter().step_by(7) {
        let user = &key[..key.len() - 8];
        if let Ok(found) = get(&table, user, 1000) {
            assert_eq!(found.len(), 1);
            assert_eq!(&found[0].1, value);
        }
    }
}

#[test]
fn any_flipped_byte_is_detected_or_harmless() {
    for version in [5, 7, 8] {
        let (bytes, entries) = sample(version);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x41;
            read_all(&damaged, &entries);
        }
    }
}

/// A file that returns the byte at `at` with a flipped bit, `left` times.
struct Flips {
    file: Arc<dyn RandomAccessFile>,
    at: u64,
    left: AtomicUsize,
}

impl RandomAccessFile for Flips {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let got = self.file.read_at(offset, buf)?;
        let place = self.at.checked_sub(offset).map(|at| at as usize);
        if let Some(place) = place.filter(|&place| place < got)
            && self.left.load(Ordering::Relaxed) > 0
        {
            self.left.fetch_sub(1, Ordering::Relaxed);
            buf[place] ^= 4;
        }
        Ok(got)
    }

    cairn_platform::derived_reads!();
    cairn_platform::no_hints!();

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

fn open_flipping(bytes: &[u8], at: usize, times: usize) -> Result<Arc<Table>> {
    let file = Arc::new(Flips {
        file: file(bytes),
        at: at as u64,
        left: AtomicUsize::new(times),
    });
    // With the smallest tail, every block is read separately.
    let params = OpenParams {
        tail_size: Some(1),
        ..OpenParams::default()
    };
    Table::open(file, bytes.len() as u64, params, &Io::blocking())
}

#[test]
fn a_transient_bit_flip_is_repaired_by_a_second_read() {
    let (bytes, entries) = sample(7);
    for at in 0..bytes.len() {
        let table = open_flipping(&bytes, at, 1).unwrap();
        assert_eq!(forward(&table).unwrap(), entries, "byte {at}");
        let table = open_flipping(&bytes, at, 1).unwrap();
        table.verify_checksums(&Io::blocking()).unwrap();
        let table = open_flipping(&bytes, at, 1).unwrap();
        assert_eq!(get(&table, b"key0030", 1000).unwrap().len(), 1);
    }
    // A repeated flip is damage.
    let table = open_flipping(&bytes, 20, 2).unwrap();
    assert_eq!(forward(&table).unwrap_err().code(), Code::Corruption);
}

#[test]
fn a_truncated_file_is_rejected() {
    let (bytes, _) = sample(7);
    for len in (0..bytes.len()).step_by(13) {
        assert!(open(&bytes[..len], OpenParams::default()).is_err());
    }
}

#[test]
fn an_error_names_file_offset_expected_and_found() {
    let (mut bytes, _) = sample(7);
    bytes[20] ^= 1;
    let table = open(&bytes, OpenParams::default()).unwrap();
    let error = table.verify_checksums(&Io::blocking()).unwrap_err();
    assert_eq!(error.code(), Code::Corruption);
    let text = error.to_string();
    for part in ["checksum", "expected", "found", "/000001.sst", "offset"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_unique_id_that_differs_from_the_manifest_is_corruption() {
    let (bytes, _) = sample(7);
    let params = OpenParams {
        expected_unique_id: Some([1, 2]),
        ..OpenParams::default()
    };
    assert_eq!(
        open(&bytes, params).err().map(|e| e.code()),
        Some(Code::Corruption)
    );
}

/// A table without checksums, so that it can be changed into one that contradicts itself.
fn unchecked(index_type: IndexType) -> (Vec<u8>, Vec<Entry>) {
    let entries: Vec<Entry> = (10..70)
        .map(|n| put(&format!("key{n:04}"), format!("value {n}").into_bytes()))
        .collect();
    let options = TableOptions {
        format_version: 3,
        block_size: 200,
        block_restart_interval: 1,
        metadata_block_size: 64,
        index_type,
        index_shortening: IndexShortening::NoShortening,
        checksum: ChecksumKind::None,
        ..TableOptions::default()
    };
    let params = BuildParams {
        options: Arc::new(options),
        compression: Compression::None,
        ..BuildParams::default()
    };
    let (mut tombstone, _) = put("key0010", Vec::new());
    let kind = tombstone.len() - 8;
    tombstone[kind] = 0xf;
    let (bytes, _) = build(params, &entries, &[(tombstone, b"key0011".to_vec())]).unwrap();
    (bytes, entries)
}

/// Replaces the first `old` in the table by `new`, of the same length.
fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    assert_eq!(old.len(), new.len());
    let mut windows = bytes.windows(old.len());
    let at = windows.position(|window| window == old);
    let at = at.unwrap_or_else(|| panic!("{}", old.escape_ascii()));
    bytes[at..at + new.len()].copy_from_slice(new);
}

/// Returns the separators and handles in the only index block of a table, and its own handle.
fn index(bytes: &[u8]) -> (Vec<(Vec<u8>, Handle)>, Handle) {
    let table = open(bytes, OpenParams::default()).unwrap();
    let handle = table.footer().index.unwrap();
    let form = IndexForm {
        user_keys: table.properties().index_key_is_user_key != 0,
        ..IndexForm::default()
    };
    let block = &bytes[handle.offset as usize..][..handle.size as usize];
    let layout = BlockLayout::parse(block, BlockKind::Index).unwrap();
    let mut cursor = IndexCursor::new(form);
    let mut found = Vec::new();
    cursor.first(block, &layout).unwrap();
    while cursor.valid() {
        found.push((cursor.key(block).to_vec(), cursor.handle()));
        cursor.next(block, &layout).unwrap();
    }
    (found, handle)
}

/// Regression: a table whose blocks have correct checksums and contradict each other passed the verification.
#[test]
fn contradictory_entries_are_found() {
    let io = Io::blocking();
    let error = |bytes: &[u8]| {
        let table = open(bytes, OpenParams::default()).unwrap();
        table.verify_checksums(&io).unwrap();
        let error = table.verify_entries(&io, true).unwrap_err();
        assert_eq!(error.code(), Code::Corruption);
        assert!(error.text().contains("/000001.sst"), "{error}");
        error.to_string()
    };
    for index_type in [IndexType::BinarySearch, IndexType::TwoLevelIndexSearch] {
        let (intact, _) = unchecked(index_type);
        let table = open(&intact, OpenParams::default()).unwrap();
        table.verify_entries(&io, true).unwrap();
        let after = |old: &[u8], new: &[u8]| {
            let mut bytes = intact.clone();
            replace(&mut bytes, old, new);
            error(&bytes)
        };
        assert!(after(b"key0030\x01", b"key0030\x15").contains("unknown kind 0x15"));
        assert!(after(b"key0030\x01", b"key0030\x0f").contains("kind 0x0f"));
        assert!(after(b"key0030", b"key0029").contains("not in order"));
        assert!(after(b"key0069", b"key9069").contains("before the last key of its block"));
        // Names of properties share their first bytes with the one before them.
        let count = b"entries";
        let at = |n| [&count[..], &[n]].concat();
        assert!(after(&at(61), &at(62)).contains("expected 61 as in its properties, found 60"));
        // The count does not depend on the order.
        let mut bytes = intact.clone();
        replace(&mut bytes, b"key0030", b"key0029");
        let table = open(&bytes, OpenParams::default()).unwrap();
        table.verify_entries(&io, false).unwrap();
    }
}

/// Regression: a table whose index names a block twice, or has a separator that is none, passed the verification.
#[test]
fn an_index_that_contradicts_the_blocks_is_found() {
    let io = Io::blocking();
    let (intact, _) = unchecked(IndexType::BinarySearch);
    let (entries, handle) = index(&intact);
    let changed = |old: &[u8], new: &[u8]| {
        let mut bytes = intact.clone();
        replace(&mut bytes[handle.offset as usize..], old, new);
        let table = open(&bytes, OpenParams::default()).unwrap();
        table.verify_checksums(&io).unwrap();
        table.verify_entries(&io, true).unwrap_err().to_string()
    };
    let encoded = |handle: Handle| {
        let mut out = Vec::new();
        handle.encode(&mut out);
        out
    };
    let [second, third] = [3, 4].map(|at: usize| encoded(entries[at].1));
    assert!(changed(&third, &second).contains("not in order"));
    let (separator, next) = (&entries[3].0, &entries[4].0);
    assert!(changed(separator, next).contains("not after the separator"));
    let before = &entries[2].0;
    assert!(changed(separator, before).contains("before the last key of its block"));
}

/// Regression: a seek past the entries of its block took the next entry of its neighbour unseen, so that a scan that
/// seeks at every step never ended if the index was read as one of other keys.
#[test]
fn a_seek_never_ends_on_the_wrong_side_of_its_target() {
    let io = Io::blocking();
    for index_type in [IndexType::BinarySearch, IndexType::TwoLevelIndexSearch] {
        let (mut bytes, entries) = unchecked(index_type);
        // The name shares its first bytes with the one before it.
        let name = b"key.is.user.key";
        let is_set = open(&bytes, OpenParams::default())
            .unwrap()
            .properties()
            .index_key_is_user_key;
        let [old, new] = [is_set, 1 - is_set].map(|value| [&name[..], &[value as u8]].concat());
        replace(&mut bytes, &old, &new);
        let table = open(&bytes, OpenParams::default()).unwrap();
        let mut errors = Vec::new();
        for (target, _) in &entries {
            for back in [false, true] {
                let mut iter = TableIter::new(table.clone(), IterOptions::default());
                let step = match back {
                    false => iter.seek(target),
                    true => iter.seek_for_prev(target),
                };
                iter.complete(step, &io);
                match iter.status() {
                    Err(error) => errors.push(error),
                    Ok(()) if iter.valid() => {
                        let ordering = key::compare(&KeyOrder::Bytewise, iter.key(), target);
                        assert!(ordering.is_eq() || ordering.is_lt() == back);
                    }
                    Ok(()) => {}
                }
            }
        }
        assert!(!errors.is_empty());
        for error in errors {
            assert_eq!(error.code(), Code::Corruption);
            assert!(
                error.text().contains("leads a seek to another block"),
                "{error}"
            );
            assert!(error.text().contains("of /000001.sst"), "{error}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn garbage_is_rejected(mut bytes in prop::collection::vec(any::<u8>(), 0..500), version in 0u8..9) {
        prop_assert!(open(&bytes, OpenParams::default()).is_err());
        // With a valid footer magic number, the rest is decoded.
        bytes.extend_from_slice(&u32::from(version).to_le_bytes());
        bytes.extend_from_slice(&0x88e2_41b7_85f4_cff7u64.to_le_bytes());
        prop_assert!(open(&bytes, OpenParams::default()).is_err());
    }
}
