//! Traces of queries, of the block cache and of I/O: the header, and the records as they are replayed or printed.

use cairn_format::trace::block_cache::{Access, WriterVersion};
use cairn_format::trace::io::IoOperation;
use cairn_format::trace::{METADATA_LEN, Metadata, Query, TraceVersions};

/// Reads the trace up to its first damage. An operation that was read is the same when it is encoded and read again.
pub fn run(data: &[u8]) {
    let Some((_, header, mut rest)) = record(data) else {
        return;
    };
    if WriterVersion::decode(header).is_ok() {
        return lookups_and_operations(rest);
    }
    let Ok(versions) = TraceVersions::decode(header) else {
        return;
    };
    let current = cairn_format::trace::begin(0, "11.12");
    let current = TraceVersions::decode(&current[METADATA_LEN..]).expect("it was just encoded");
    while let Some((metadata, payload, after)) = record(rest) {
        if let Ok(query) = Query::decode(metadata.kind, &versions, payload) {
            let mut again = Vec::new();
            assert!(query.encode(metadata.micros, &mut again), "it is short");
            let (same, payload, _) = record(&again).expect("it is complete");
            assert_eq!(same.kind, metadata.kind);
            assert_eq!(Query::decode(same.kind, &current, payload), Ok(query));
        }
        rest = after;
    }
}

/// Reads the records of a block-cache or an I/O trace.
fn lookups_and_operations(mut rest: &[u8]) {
    while let Some((metadata, payload, after)) = record(rest) {
        let mut again = Vec::new();
        if let Ok(access) = Access::decode(metadata.kind, payload) {
            assert!(access.encode(metadata.micros, &mut again), "it is short");
            let (same, payload, _) = record(&again).expect("it is complete");
            assert_eq!(Access::decode(same.kind, payload), Ok(access));
        } else if let Ok(operation) = IoOperation::decode(metadata.kind, payload) {
            assert!(operation.encode(metadata.micros, &mut again), "it is short");
            let (same, payload, _) = record(&again).expect("it is complete");
            assert_eq!(IoOperation::decode(same.kind, payload), Ok(operation));
        }
        rest = after;
    }
}

/// The record at the start of `bytes`: its metadata and payload, and the bytes after it.
fn record(bytes: &[u8]) -> Option<(Metadata, &[u8], &[u8])> {
    let metadata = Metadata::decode(bytes).ok()?;
    let (payload, rest) = bytes[METADATA_LEN..].split_at_checked(metadata.payload_len as usize)?;
    Some((metadata, payload, rest))
}
