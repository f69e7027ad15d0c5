//! Round trips of WALs, including failing files and logs written by RocksDB.

use std::path::{Path, PathBuf};

use cairn_compress::Compression;
use cairn_format::batch::BatchRef;
use cairn_platform::fs::FileMode;
use cairn_platform::mem::MemFileSystem;
use cairn_platform::sync::{Arc, AtomicBool, Ordering};
use cairn_platform::{FileSystem, RandomAccessFile, WritableFile, wrapper};
use cairn_types::{Error, FileNumber, Result, SequenceNumber, Veil};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const NUMBER: FileNumber = FileNumber(7);

fn path() -> PathBuf {
    PathBuf::from("/000007.log")
}

fn created(fs: &MemFileSystem, options: &WalOptions) -> WalWriter {
    let file = fs.create(&path(), FileMode::default()).unwrap();
    WalWriter::new(file, NUMBER, options).unwrap()
}

fn opened(fs: &MemFileSystem) -> WalReader {
    WalReader::open(fs, &path(), NUMBER, FileMode::default()).unwrap()
}

/// The records of a log, which must end cleanly.
fn records(fs: &MemFileSystem) -> Vec<Vec<u8>> {
    let mut reader = opened(fs);
    let mut records = Vec::new();
    loop {
        match reader.next().unwrap() {
            WalEvent::Record { payload, .. } => records.push(payload.to_vec()),
            WalEvent::End(_) => return records,
            other => panic!("unexpected: {other:?}"),
        }
    }
}

/// A file whose every second read returns half of the requested bytes.
struct Halting(std::sync::Arc<dyn RandomAccessFile>, AtomicBool);

impl RandomAccessFile for Halting {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let half = !self.1.fetch_xor(true, Ordering::Relaxed);
        let len = if half { buf.len() / 2 } else { buf.len() };
        self.0.read_at(offset, &mut buf[..len])
    }

    cairn_platform::derived_reads!();
    cairn_platform::no_hints!();

    fn len(&self) -> Result<u64> {
        self.0.len()
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

#[test]
fn a_short_read_is_not_the_end_of_the_log() {
    let fs = MemFileSystem::new();
    let mut log = created(&fs, &WalOptions::default());
    let expected: Vec<Vec<u8>> = (0..40_u8).map(|byte| vec![byte; 3000]).collect();
    for record in &expected {
        log.append(record).unwrap();
    }
    let file = fs.open(&path(), FileMode::default()).unwrap();
    let file = Halting(file, AtomicBool::new(false));
    let mut reader = WalReader::new(Arc::new(file), NUMBER);
    for record in &expected {
        let WalEvent::Record { payload, .. } = reader.next().unwrap() else {
            panic!("{:?}", reader.event());
        };
        assert_eq!(payload, record);
    }
    assert!(matches!(reader.next().unwrap(), WalEvent::End(_)));
}

fn options() -> impl Strategy<Value = WalOptions> {
    let compression = prop_oneof![Just(Compression::None), Just(Compression::Zstd)];
    (any::<bool>(), compression).prop_map(|(recyclable, compression)| WalOptions {
        recyclable,
        compression,
        mapped: false,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_log_is_read_as_it_was_written(
        options in options(),
        groups in vec(vec((0..70_000usize, any::<u8>()), 1..4), 0..5),
    ) {
        let fs = MemFileSystem::new();
        let mut writer = created(&fs, &options);
        let mut written = Vec::new();
        for group in groups {
            for (len, byte) in group {
                let record = vec![byte; len];
                writer.add_parts(&[&record[..len / 3], &record[len / 3..]]).unwrap();
                written.push(record);
            }
            writer.hand_over().unwrap();
            prop_assert_eq!(writer.len(), writer.file().len());
        }
        prop_assert_eq!(writer.records(), written.len() as u64);
        writer.close().unwrap();
        prop_assert_eq!(records(&fs), written);
    }
}

#[test]
fn records_reach_the_file_on_flush() {
    let fs = MemFileSystem::new();
    let mut writer = created(&fs, &WalOptions::default());
    writer.add(b"one").unwrap();
    assert_eq!(writer.file().len(), 0);
    assert_eq!(writer.buffered(), 10);
    writer.append(b"two").unwrap();
    assert_eq!(writer.file().len(), 20);
    assert_eq!(writer.buffered(), 0);
    assert_eq!(records(&fs), [b"one", b"two"]);
}

#[test]
fn the_buffer_is_flushed_when_full() {
    let fs = MemFileSystem::new();
    let mut writer = created(&fs, &WalOptions::default());
    for _ in 0..100 {
        writer.add(&[7; 100_000]).unwrap();
        assert!(writer.buffered() < 2 << 20);
    }
}

#[test]
fn timestamp_sizes_are_recorded_once_per_family() {
    let fs = MemFileSystem::new();
    let mut writer = created(&fs, &WalOptions::default());
    writer.add_timestamp_sizes(&[(0, 8), (1, 0)]).unwrap();
    writer.add_timestamp_sizes(&[(0, 8), (2, 8)]).unwrap();
    let len = writer.len();
    writer.add_timestamp_sizes(&[(0, 8), (2, 8)]).unwrap();
    assert_eq!(writer.len(), len);
    writer.close().unwrap();
    let mut reader = opened(&fs);
    let mut stated = Vec::new();
    while let WalEvent::TimestampSizes(sizes) = reader.next().unwrap() {
        stated.extend(sizes.iter());
    }
    assert_eq!(stated, [(0, 8), (2, 8)]);
}

#[test]
fn existing_logs_are_appended_to_uncompressed() {
    let fs = MemFileSystem::new();
    let mut writer = created(&fs, &WalOptions::default());
    writer.append(&[1; 40_000]).unwrap();
    drop(writer);
    let file = fs.open_append(&path(), FileMode::default()).unwrap();
    let compressed = WalOptions {
        compression: Compression::Zstd,
        ..WalOptions::default()
    };
    assert!(WalWriter::new(file.clone(), NUMBER, &compressed).is_err());
    let mut writer = WalWriter::new(file, NUMBER, &WalOptions::default()).unwrap();
    writer.append(&[2; 40_000]).unwrap();
    assert_eq!(records(&fs), [vec![1; 40_000], vec![2; 40_000]]);
}

#[test]
fn only_zstd_compresses_logs() {
    let fs = MemFileSystem::new();
    let file = fs.create(&path(), FileMode::default()).unwrap();
    let options = WalOptions {
        compression: Compression::Snappy,
        ..WalOptions::default()
    };
    let error = WalWriter::new(file, NUMBER, &options).err().unwrap();
    assert_eq!(error.code(), cairn_types::Code::NotSupported);
}

/// A file whose appends fail on demand.
struct Failing {
    inner: Arc<dyn WritableFile>,
    fail: AtomicBool,
}

impl wrapper::WritableFileWrapper for Failing {
    fn target(&self) -> &dyn WritableFile {
        &*self.inner
    }

    fn append_veiled(&self, data: &[u8], veils: &[Veil]) -> Result<()> {
        if self.fail.swap(false, Ordering::Relaxed) {
            self.inner.append(&data[..data.len() / 2])?;
            return Err(Error::io_text("the disk is gone"));
        }
        self.inner.append_veiled(data, veils)
    }
    fn successor(&self, path: &Path, mode: FileMode) -> Result<Option<Arc<dyn WritableFile>>> {
        self.inner.successor(path, mode)
    }
}

#[test]
fn a_failed_writer_writes_nothing() {
    let fs = MemFileSystem::new();
    let file = Arc::new(Failing {
        inner: fs.create(&path(), FileMode::default()).unwrap(),
        fail: AtomicBool::new(false),
    });
    let mut writer = WalWriter::new(file.clone(), NUMBER, &WalOptions::default()).unwrap();
    writer.append(b"one").unwrap();
    file.fail.store(true, Ordering::Relaxed);
    assert!(writer.append(b"two").is_err());
    let len = file.len();
    assert!(writer.append(b"three").is_err());
    assert!(writer.sync(false).is_err());
    assert_eq!(file.len(), len);
    let mut reader = opened(&fs);
    assert!(matches!(reader.next(), Ok(WalEvent::Record { .. })));
    let WalEvent::Dropped(dropped) = reader.next().unwrap() else {
        panic!("half a record must be reported as torn");
    };
    assert_eq!(dropped.reason, Reason::TornHeader);
}

fn with_content(content: &[u8]) -> MemFileSystem {
    let fs = MemFileSystem::new();
    let file = fs.create(&path(), FileMode::default()).unwrap();
    file.append(content).unwrap();
    fs
}

#[test]
fn a_bad_compressed_frame_is_dropped() {
    let mut content = Vec::new();
    let mut frames = cairn_format::log::LogWriter::new(cairn_format::log::Framing::Legacy);
    frames.add_compression(7, &mut content);
    let start = frames.offset();
    frames.add(b"no frame at all", &mut content);
    let fs = with_content(&content);
    let mut reader = opened(&fs);
    let WalEvent::Dropped(dropped) = reader.next().unwrap() else {
        panic!("the frame is damaged");
    };
    assert_eq!(dropped.reason, Reason::BadCompression);
    assert_eq!(dropped.offset, start);
    assert_eq!(dropped.bytes, frames.offset() - start);
    assert!(matches!(reader.next(), Ok(WalEvent::End(_))));
}

#[test]
fn an_unknown_codec_is_rejected() {
    let mut content = Vec::new();
    let mut frames = cairn_format::log::LogWriter::new(cairn_format::log::Framing::Legacy);
    frames.add_compression(99, &mut content);
    let error = opened(&with_content(&content)).next().unwrap_err();
    assert_eq!(error.code(), cairn_types::Code::NotSupported);
}

#[test]
fn compressed_and_recycled_logs_of_rocksdb_are_read() {
    let fs = with_content(include_bytes!("../testdata/zstd_recycled_11_9.log"));
    let mut reader = WalReader::open(&fs, &path(), FileNumber(14), FileMode::default()).unwrap();
    let mut next = None;
    let mut batches = 0;
    while let WalEvent::Record { payload, .. } = reader.next().unwrap() {
        let batch = BatchRef::parse(payload).unwrap();
        batch.check().unwrap();
        assert_eq!(*next.get_or_insert(batch.sequence()), batch.sequence());
        next = Some(batch.sequence().plus(u64::from(batch.count())));
        batches += 1;
    }
    assert!(batches > 0);
    assert!(reader.is_recycled());
    assert!(matches!(reader.event(), WalEvent::Dropped(_)));
}

#[test]
fn logs_are_listed_oldest_first() {
    let fs = MemFileSystem::new();
    for name in [
        "000010.log",
        "000009.log",
        "1000000.log",
        "7.log",
        "000001.sst",
        "LOG",
    ] {
        let path = Path::new("/").join(name);
        fs.create(&path, FileMode::default()).unwrap();
    }
    let numbers: Vec<u64> = list(&fs, Path::new("/"))
        .unwrap()
        .iter()
        .map(|wal| wal.number.0)
        .collect();
    assert_eq!(numbers, [9, 10, 1_000_000]);
}

#[test]
fn missing_and_truncated_logs_are_detected_by_the_next_one() {
    let fs = with_content(include_bytes!("../testdata/predecessor_11_9.log"));
    let mut reader = opened(&fs);
    let WalEvent::Predecessor(stated) = reader.next().unwrap() else {
        panic!("the log records its predecessor");
    };
    let found = WalSummary {
        number: FileNumber(stated.log_number),
        bytes: stated.bytes,
        last_sequence: stated.last_sequence,
    };
    let check = |before: Option<WalSummary>, oldest| {
        check_predecessor(FileNumber(10), &stated, before.as_ref(), FileNumber(oldest))
    };
    assert_eq!(check(Some(found), 1), Ok(()));
    assert_eq!(check(None, stated.log_number + 1), Ok(()));
    assert!(check(None, stated.log_number).is_err());
    for wrong in [
        WalSummary {
            bytes: found.bytes - 1,
            ..found
        },
        WalSummary {
            number: FileNumber(4),
            ..found
        },
        WalSummary {
            last_sequence: SequenceNumber(1),
            ..found
        },
    ] {
        assert!(check(Some(wrong), 1).unwrap_err().is_corruption());
    }
}

#[test]
fn records_beyond_the_limit_are_rejected_by_the_writer() {
    assert!(check_record(MAX_RECORD_LEN).is_ok());
    const { assert!(MAX_RECORD_LEN > 4 << 30, "RocksDB's batches fit") };
    let piece = vec![0; 1 << 20];
    let mut parts: Vec<&[u8]> = vec![&piece; usize::try_from(MAX_RECORD_LEN >> 20).unwrap()];
    parts.push(b"!");
    for compression in [Compression::None, Compression::Zstd] {
        let fs = MemFileSystem::new();
        let options = WalOptions {
            compression,
            ..WalOptions::default()
        };
        let mut writer = created(&fs, &options);
        writer.append(b"before").unwrap();
        let (len, records) = (writer.len(), writer.records());
        let error = writer.append_parts(&parts).unwrap_err();
        assert_eq!(error.code(), cairn_types::Code::InvalidArgument);
        let text = error.to_string();
        assert!(
            text.contains("at most 8589934592 bytes, found 8589934593"),
            "{text}"
        );
        assert_eq!((writer.len(), writer.records()), (len, records));
        writer.append(b"behind").unwrap();
        writer.close().unwrap();
        assert_eq!(super::tests::records(&fs), [b"before", b"behind"]);
    }
}

#[test]
fn round_trip_at_every_size_limit() {
    let sizes = (0..=23).flat_map(|bits: u32| {
        let steps = if bits < 17 { 64 } else { 1 };
        let around = (1_usize << bits).saturating_sub(steps)..=(1 << bits) + steps;
        around.step_by(if bits < 12 { 7 } else { 1 })
    });
    let sizes: Vec<usize> = sizes.collect();
    let noise: Vec<u8> = (0_u32..(1 << 23) + 64)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    for (compression, recyclable) in [
        (Compression::None, false),
        (Compression::None, true),
        (Compression::Zstd, false),
    ] {
        let fs = MemFileSystem::new();
        let options = WalOptions {
            compression,
            recyclable,
            mapped: false,
        };
        let mut writer = created(&fs, &options);
        for len in &sizes {
            writer.append(&noise[..*len]).unwrap();
        }
        writer.close().unwrap();
        let mut reader = opened(&fs);
        for len in &sizes {
            match reader.next().unwrap() {
                WalEvent::Record { payload, .. } => {
                    assert!(*payload == noise[..*len], "{len} bytes")
                }
                other => panic!("a record of {len} bytes: {other:?}"),
            }
        }
    }
}
