//! Damaged tables yield an error or correct data, never a panic.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cairn_options::{FilterPolicy, IndexType, TableOptions};
use cairn_platform::{Io, RandomAccessFile};
use cairn_table::{BuildParams, OpenParams, Table};
use cairn_types::{Code, Result};
use proptest::prelude::*;

use crate::world::{Entry, backward, build, file, forward, get, open};

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
