//! Log files: all record types, both framings, compressed or not, with write batches.
//!
//! The first byte is the low byte of the log number; the rest is the file.

use cairn_compress::{Compression, WalDecompressor};
use cairn_format::batch::BatchRef;
use cairn_format::log::{Bytes, Event, Framing, LogReader, LogWriter, RecoveryMode};

use crate::memory_limit::Bound;

/// Memory of the reader's 32 KiB window, and of records of up to 64 KiB from a compressed log.
pub const BOUND: Bound = Bound {
    base: 384 << 10,
    factor: 8,
};

/// Maximum number of events; more would mean that the reader does not advance.
fn most_events(len: usize) -> usize {
    len + 8
}

/// Reads the log like recovery, and rewrites its records.
pub fn run(data: &[u8]) {
    let Some((&number, log)) = data.split_first() else {
        return;
    };
    let mut reader = LogReader::new(Bytes(log), u64::from(number));
    read(&mut reader, log.len());
    read(
        &mut LogReader::new(Bytes(log), 0).of_any_number(),
        log.len(),
    );
}

fn read(reader: &mut LogReader<Bytes<'_>>, len: usize) {
    let mut decompressor = None;
    let mut again = LogWriter::new(Framing::Legacy);
    let mut bytes = Vec::new();
    let mut records = 0;
    for step in 0.. {
        assert!(step <= most_events(len), "the reader walks in place");
        match reader.next().expect("bytes in memory can always be read") {
            Event::Record { offset, payload } => {
                assert!(offset < len as u64);
                record(payload, &mut decompressor);
                if bytes.len() < 64 << 10 {
                    again.add(payload, &mut bytes);
                    records += 1;
                }
            }
            Event::Compression(kind) => {
                let kind = u8::try_from(kind).ok().and_then(Compression::from_u8);
                decompressor = kind.and_then(|kind| WalDecompressor::new(kind, 64 << 10).ok());
            }
            Event::TimestampSizes(sizes) => assert!(sizes.iter().count() <= len / 6),
            Event::Predecessor(_) => {}
            Event::Dropped(dropped) => {
                assert!(dropped.bytes > 0 && dropped.offset < len as u64);
                for mode in (0..4).filter_map(RecoveryMode::from_u8) {
                    let _ = mode.judge(dropped.reason, step % 2 == 0);
                }
            }
            Event::End(end) => {
                assert!(end.offset <= len as u64 && end.zeros <= len as u64);
                break;
            }
        }
    }
    assert!(reader.whole_up_to() <= len as u64);
    rewritten(&bytes, records);
}

fn record(payload: &[u8], decompressor: &mut Option<WalDecompressor>) {
    let plain = decompressor
        .as_mut()
        .and_then(|codec| codec.decompress(payload).ok());
    let bytes = plain.as_deref().unwrap_or(payload);
    if let Ok(batch) = BatchRef::parse(bytes) {
        let _ = batch.check();
    }
}

/// Checks that the rewritten log is read back completely.
fn rewritten(bytes: &[u8], records: usize) {
    let mut reader = LogReader::new(Bytes(bytes), 0);
    for _ in 0..records {
        let event = reader.next().expect("bytes in memory can always be read");
        assert!(
            matches!(event, Event::Record { .. }),
            "{event:?} in the rewritten log"
        );
    }
    let event = reader.next().expect("bytes in memory can always be read");
    assert!(
        matches!(event, Event::End(_)),
        "{event:?} after the rewritten log"
    );
}
