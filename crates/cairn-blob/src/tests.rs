//! Round trips of blob files, and detection of damage in any byte.

use std::path::Path;

use cairn_compress::{CodecOptions, Compression};
use cairn_format::blob::{
    BlobIndex, FOOTER_LEN, Footer, HEADER_LEN, Header, RECORD_HEADER_LEN, RecordHeader,
    encode_record,
};
use cairn_format::checksum::crc32c;
use cairn_observe::statistics::Meter;
use cairn_options::FileChecksum;
use cairn_options::file_checksum::NamedChecksum;
use cairn_platform::fs::FileMode;
use cairn_platform::mem::MemFileSystem;
use cairn_platform::sync::Arc;
use cairn_platform::{FileSystem, Io, RandomAccessFile};
use cairn_types::{FileNumber, Result};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const NUMBER: FileNumber = FileNumber(9);

type Entry = (Vec<u8>, Vec<u8>);

/// The content of a blob file of `entries`, and their indexes.
fn written(compression: Compression, entries: &[Entry]) -> (Vec<u8>, Vec<BlobIndex>) {
    let fs = MemFileSystem::new();
    let path = Path::new("/000009.blob");
    let file = fs.create(path, FileMode::default()).unwrap();
    let params = BlobParams {
        number: NUMBER,
        family: 0,
        compression,
        codec: CodecOptions::default(),
        bytes_per_sync: 4096,
        file_checksum: Some(FileChecksum::Crc32c),
        meter: Meter::default(),
    };
    let mut builder = BlobBuilder::create(file, params).unwrap();
    let add = |(key, value): &Entry| builder.add(key, value).unwrap();
    let indexes = entries.iter().map(add).collect();
    let finished = builder.finish().unwrap();
    let content = whole(&*fs.open(path, FileMode::default()).unwrap());
    assert_eq!(finished.number, NUMBER);
    assert_eq!(finished.count, entries.len() as u64);
    assert_eq!(finished.file_size, content.len() as u64);
    let records = content.len() - HEADER_LEN - FOOTER_LEN;
    assert_eq!(finished.bytes, records as u64);
    assert_eq!(finished.file_checksum, Some(checksum_of(&content)));
    (content, indexes)
}

/// The checksum of a file with this content, as the MANIFEST records it.
fn checksum_of(content: &[u8]) -> NamedChecksum {
    let checksum = crc32c(content).to_be_bytes().to_vec();
    (checksum, "FileChecksumCrc32c".to_owned())
}

fn whole(file: &dyn RandomAccessFile) -> Vec<u8> {
    let mut content = vec![0; file.len().unwrap() as usize];
    assert_eq!(file.read_at(0, &mut content).unwrap(), content.len());
    content
}

/// A file with one value has the same bytes as one written by RocksDB.
#[test]
fn the_layout_is_rocksdbs() {
    let (content, indexes) = written(
        Compression::None,
        &[(b"key".to_vec(), b"a large value".to_vec())],
    );
    let mut expected = Vec::new();
    let header = Header {
        family: 0,
        compression: 0,
    };
    header.encode(&mut expected);
    encode_record(b"key", b"a large value", &mut expected);
    Footer { blob_count: 1 }.encode(&mut expected);
    assert_eq!(content, expected);
    let at = (HEADER_LEN + RECORD_HEADER_LEN + 3) as u64;
    assert_eq!(
        indexes,
        [BlobIndex {
            file: NUMBER,
            offset: at,
            size: 13,
            compression: 0
        }]
    );
}

#[test]
fn values_larger_than_the_buffer_are_written_directly() {
    let large: Vec<u8> = (0..700_000_u32).map(|n| (n % 251) as u8).collect();
    let entries = vec![
        (b"a".to_vec(), b"small".to_vec()),
        (b"b".to_vec(), large),
        (b"c".to_vec(), b"small again".to_vec()),
    ];
    let (content, indexes) = written(Compression::None, &entries);
    let file = opened(&content).unwrap();
    for ((key, value), index) in entries.iter().zip(&indexes) {
        assert!(file.read(index, key).unwrap()[..] == value[..]);
    }
}

fn handle(content: &[u8]) -> Arc<dyn RandomAccessFile> {
    let fs = MemFileSystem::new();
    let path = Path::new("/000009.blob");
    let file = fs.create(path, FileMode::default()).unwrap();
    file.append(content).unwrap();
    fs.open(path, FileMode::default()).unwrap()
}

fn opened(content: &[u8]) -> Result<BlobFile> {
    BlobFile::open(handle(content), NUMBER)
}

fn codec() -> impl Strategy<Value = Compression> {
    prop_oneof![
        Just(Compression::None),
        Just(Compression::Snappy),
        Just(Compression::Zlib),
        Just(Compression::Lz4),
        Just(Compression::Zstd),
    ]
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let value = prop_oneof![
        vec(any::<u8>(), 0..100),
        (any::<u8>(), 0..5000usize).prop_map(|(byte, len)| vec![byte; len]),
    ];
    vec((vec(any::<u8>(), 0..20), value), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn values_are_read_as_they_were_written(codec in codec(), entries in entries()) {
        let (content, indexes) = written(codec, &entries);
        let file = opened(&content).unwrap();
        prop_assert_eq!(file.blob_count(), entries.len() as u64);
        for ((key, value), index) in entries.iter().zip(&indexes) {
            prop_assert_eq!(&file.read(index, key).unwrap()[..], &value[..]);
        }
        let verified = file.verify(&Io::blocking()).unwrap();
        prop_assert_eq!(verified.blobs, entries.len() as u64);
        prop_assert_eq!(verified.bytes, (content.len() - HEADER_LEN - FOOTER_LEN) as u64);
    }

    #[test]
    fn a_changed_byte_is_an_error_or_harmless(
        codec in codec(),
        entries in entries(),
        at in any::<prop::sample::Index>(),
        xor in 1..=u8::MAX,
    ) {
        let (mut content, indexes) = written(codec, &entries);
        let at = at.index(content.len());
        content[at] ^= xor;
        let Ok(file) = opened(&content) else { return Ok(()) };
        for ((key, value), index) in entries.iter().zip(&indexes) {
            if let Ok(read) = file.read(index, key) {
                prop_assert_eq!(&read[..], &value[..]);
            }
        }
        let in_records = (HEADER_LEN..content.len() - FOOTER_LEN).contains(&at);
        prop_assert!(!in_records || file.verify(&Io::blocking()).is_err());
    }

    #[test]
    fn hostile_indexes_are_rejected(
        entries in entries(), offset in any::<u64>(), size in any::<u64>(), near in any::<bool>()
    ) {
        let (content, _) = written(Compression::None, &entries);
        let file = opened(&content).unwrap();
        let limit = content.len() as u64 + 10;
        let index = BlobIndex {
            file: NUMBER,
            offset: if near { offset % limit } else { offset },
            size: if near { size % limit } else { size },
            compression: 0,
        };
        if let Ok(value) = file.read(&index, &entries[0].0) {
            prop_assert!(entries.iter().any(|(_, other)| other[..] == value[..]));
        }
    }

    #[test]
    fn hostile_files_never_panic(middle in vec(any::<u8>(), 0..300), blob_count in 0..4u64) {
        let mut content = Vec::new();
        Header { family: 0, compression: 7 }.encode(&mut content);
        content.extend(middle);
        Footer { blob_count }.encode(&mut content);
        let file = opened(&content).unwrap();
        let empty = content.len() == HEADER_LEN + FOOTER_LEN;
        prop_assert_eq!(file.verify(&Io::blocking()).is_ok(), empty && blob_count == 0);
    }
}

fn two() -> (Vec<Entry>, Vec<u8>, Vec<BlobIndex>) {
    let entries = vec![
        (b"key1".to_vec(), b"first value".to_vec()),
        (b"key2".to_vec(), b"other value".to_vec()),
    ];
    let (content, indexes) = written(Compression::None, &entries);
    (entries, content, indexes)
}

#[test]
fn uncompressed_values_are_not_copied() {
    let (_, content, indexes) = two();
    let file = opened(&content).unwrap();
    let request = file.request(&indexes[0], b"key1").unwrap();
    assert_eq!(request.offset, HEADER_LEN as u64);
    assert_eq!(request.len, RECORD_HEADER_LEN + 4 + 11);
    let record = request.read_now().unwrap();
    let value = file.complete(&indexes[0], b"key1", record.clone()).unwrap();
    assert_eq!(record.holders(), 2);
    assert_eq!(&*value, b"first value");
}

#[test]
fn values_of_other_keys_are_rejected() {
    let (_, content, indexes) = two();
    let file = opened(&content).unwrap();
    let error = file.read(&indexes[0], b"key2").unwrap_err();
    assert!(error.text().contains("another key"), "{error}");
    assert!(error.text().contains("000009.blob"), "{error}");
    assert!(file.read(&indexes[0], b"key").is_err());
    let longer = BlobIndex {
        size: indexes[0].size + 1,
        ..indexes[0]
    };
    assert!(file.read(&longer, b"key1").is_err());
    let elsewhere = BlobIndex {
        file: FileNumber(8),
        ..indexes[0]
    };
    assert!(file.read(&elsewhere, b"key1").is_err());
    let coded = BlobIndex {
        compression: 7,
        ..indexes[0]
    };
    assert!(file.read(&coded, b"key1").is_err());
}

#[test]
fn a_file_without_footer_is_rejected() {
    let (_, content, _) = two();
    assert!(
        opened(&content[..content.len() - FOOTER_LEN])
            .err()
            .unwrap()
            .is_corruption()
    );
    assert!(opened(&content[..20]).err().unwrap().is_corruption());
    assert!(opened(&[]).err().unwrap().is_corruption());
}

#[test]
fn a_missing_record_is_detected_by_the_count() {
    let (entries, _, _) = two();
    let (mut content, _) = written(Compression::None, &entries[..1]);
    content.truncate(content.len() - FOOTER_LEN);
    Footer { blob_count: 2 }.encode(&mut content);
    let error = opened(&content)
        .unwrap()
        .verify(&Io::blocking())
        .unwrap_err();
    assert!(error.text().contains("expected 2, found 1"), "{error}");
}

#[test]
fn files_of_rocksdb_are_read() {
    for (content, compression, count) in [
        (
            &include_bytes!("../testdata/plain_11_9.blob")[..],
            Compression::None,
            28,
        ),
        (
            include_bytes!("../testdata/snappy_11_1.blob"),
            Compression::Snappy,
            2,
        ),
        (
            include_bytes!("../testdata/lz4_11_9.blob"),
            Compression::Lz4,
            20,
        ),
        (
            include_bytes!("../testdata/zstd_11_9.blob"),
            Compression::Zstd,
            2,
        ),
    ] {
        let file = opened(content).unwrap();
        assert_eq!(file.compression(), compression);
        assert_eq!(file.verify(&Io::blocking()).unwrap().blobs, count);
        let header = RecordHeader::decode(&content[HEADER_LEN..]).unwrap();
        let key_at = HEADER_LEN + RECORD_HEADER_LEN;
        let key = &content[key_at..][..usize::try_from(header.key_len).unwrap()];
        let index = BlobIndex {
            file: NUMBER,
            offset: (key_at + key.len()) as u64,
            size: header.value_len,
            compression: compression as u8,
        };
        assert!(!file.read(&index, key).unwrap().is_empty());
    }
}

#[test]
fn a_blob_index_of_rocksdb_finds_its_value() {
    let number = FileNumber(13);
    let file = handle(include_bytes!("../testdata/lz4_11_9.blob"));
    let file = BlobFile::open(file, number).unwrap();
    let index = BlobIndex {
        file: number,
        offset: 73,
        size: 141,
        compression: 4,
    };
    let value = file.read(&index, b"key00000000").unwrap();
    assert!(value.starts_with(b"labore ut consectetur ipsum dolore magna"));
    assert!(value.ends_with(b"adipiscing tempor consect"));
}

#[test]
fn a_file_without_a_footer_is_read_while_it_grows() {
    let fs = MemFileSystem::new();
    let path = Path::new("/000009.blob");
    let file = fs.create(path, FileMode::default()).unwrap();
    let params = BlobParams {
        number: NUMBER,
        family: 0,
        compression: Compression::None,
        codec: CodecOptions::default(),
        bytes_per_sync: 0,
        file_checksum: Some(FileChecksum::Crc32c),
        meter: Meter::default(),
    };
    let mut builder = BlobBuilder::create(file, params).unwrap();
    let open = || BlobFile::open_unsealed(fs.open(path, FileMode::default())?, NUMBER);
    assert!(
        open().is_err_and(|error| error.is_corruption()),
        "it has no header yet"
    );
    builder.flush().unwrap();
    let file = open().unwrap();
    let first = builder.add(b"a", b"one").unwrap();
    assert!(
        file.read(&first, b"a").is_err(),
        "the value is not in the file yet"
    );
    builder.flush().unwrap();
    assert_eq!(file.current_len().unwrap(), builder.file_size());
    let second = builder.add(b"b", b"two").unwrap();
    let finished = builder.finish().unwrap();
    assert_eq!(&*file.read(&first, b"a").unwrap(), b"one");
    assert_eq!(&*file.read(&second, b"b").unwrap(), b"two");
    assert!(
        file.read(&second, b"a")
            .is_err_and(|error| error.is_corruption())
    );
    assert!(!file.is_sealed());
    let content = whole(&*fs.open(path, FileMode::default()).unwrap());
    assert_eq!(finished.file_checksum, Some(checksum_of(&content)));
    let sealed = BlobFile::open(fs.open(path, FileMode::default()).unwrap(), NUMBER).unwrap();
    assert!(sealed.is_sealed() && sealed.blob_count() == 2);
}

#[test]
fn a_value_fits_if_its_record_can_be_read() {
    let most = u32::MAX as usize - RECORD_HEADER_LEN - 3;
    assert!(fits(Compression::None, 3, most));
    assert!(!fits(Compression::None, 3, most + 1));
    assert!(!fits(Compression::None, usize::MAX, 1));
    for codec in [Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        assert!(fits(codec, 3, 1 << 30));
        assert!(!fits(codec, 3, u32::MAX as usize));
        assert!(!fits(codec, u32::MAX as usize, 1));
    }
}
