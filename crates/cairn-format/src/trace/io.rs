//! I/O traces: the operations on files, in RocksDB's format.
//!
//! ```text
//! kind  payload
//!    1  as in a block-cache trace
//!   12  an operation
//!
//! payload of an operation
//!   fixed64 map of the members after the name
//!   lps name of the operation
//!   fixed64 duration in nanoseconds
//!   lps status, "OK" or the error
//!   lps name of the file, without its directory
//!   fixed64 length of the file    bit 0
//!   fixed64 number of bytes       bit 1
//!   fixed64 offset                bit 2
//!   fixed64 map of further members
//!   lps id of the request         bit 0 of the second map
//! ```
//!
//! The time of an operation, in its metadata, is in nanoseconds of a monotonic clock; that of the first record is in
//! microseconds since 1970. There is no last record.

use cairn_types::{Decoded, Malformed};

use super::{METADATA_LEN, RecordWriter};
use crate::coding::{Input, put_fixed64, put_lps};

const IO: u8 = 12;

/// Bits of the first map.
const FILE_LEN: u64 = 1;
const LEN: u64 = 1 << 1;
const OFFSET: u64 = 1 << 2;
/// The bit of the second map.
const REQUEST_ID: u64 = 1;

/// The status of an operation without an error.
pub const STATUS_OK: &[u8] = b"OK";

/// An operation on a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoOperation<'a> {
    /// The name of the operation: that of the method of RocksDB's file system.
    pub operation: &'a [u8],
    /// The duration, in nanoseconds.
    pub nanos: u64,
    /// [`STATUS_OK`], or the error.
    pub status: &'a [u8],
    /// The name of the file, without its directory.
    pub file: &'a [u8],
    /// The length of the file.
    pub file_len: Option<u64>,
    /// The number of bytes.
    pub len: Option<u64>,
    /// The offset in the file.
    pub offset: Option<u64>,
    /// The id that the file system assigned to the request.
    pub request_id: Option<&'a [u8]>,
}

impl<'a> IoOperation<'a> {
    /// Appends the record of this operation, which ended at `nanos` of a monotonic clock, to `out`. Returns false, without
    /// appending anything, if it does not fit into a record, which has less than 4 GiB.
    #[must_use]
    pub fn encode(&self, nanos: u64, out: &mut Vec<u8>) -> bool {
        const FIXED: usize = 80;
        let texts = [self.operation, self.status, self.file];
        let texts = texts.iter().map(|text| text.len()).sum::<usize>();
        let len = FIXED + texts + self.request_id.map_or(0, <[u8]>::len);
        if u32::try_from(len).is_err() {
            return false;
        }
        out.reserve(METADATA_LEN + len);
        let record = RecordWriter::start(out, nanos, IO);
        let members = [
            (FILE_LEN, self.file_len),
            (LEN, self.len),
            (OFFSET, self.offset),
        ];
        let present = members
            .iter()
            .filter_map(|(bit, value)| value.map(|it| (bit, it)));
        put_fixed64(out, present.clone().fold(0, |map, (bit, _)| map | bit));
        put_lps(out, self.operation);
        put_fixed64(out, self.nanos);
        put_lps(out, self.status);
        put_lps(out, self.file);
        present.for_each(|(_, value)| put_fixed64(out, value));
        put_fixed64(out, self.request_id.map_or(0, |_| REQUEST_ID));
        if let Some(id) = self.request_id {
            put_lps(out, id);
        }
        record.finish(out);
        true
    }

    /// Decodes the payload of a record of `kind`.
    ///
    /// # Errors
    ///
    /// If it is malformed, or not an operation on a file.
    pub fn decode(kind: u8, payload: &'a [u8]) -> Decoded<IoOperation<'a>> {
        if kind != IO {
            let what = format!("records of kind {kind} in an I/O trace");
            return Err(Malformed::unsupported(0, what));
        }
        let mut input = Input::new(payload);
        let map = members(&mut input, FILE_LEN | LEN | OFFSET)?;
        let operation = input.lps()?;
        let nanos = input.fixed64()?;
        let status = input.lps()?;
        let file = input.lps()?;
        let mut member = |bit| match map & bit {
            0 => Ok(None),
            _ => input.fixed64().map(Some),
        };
        let (file_len, len, offset) = (member(FILE_LEN)?, member(LEN)?, member(OFFSET)?);
        let request_id = match members(&mut input, REQUEST_ID)? {
            0 => None,
            _ => Some(input.lps()?),
        };
        input.finish("operation of an I/O trace")?;
        Ok(IoOperation {
            operation,
            nanos,
            status,
            file,
            file_len,
            len,
            offset,
            request_id,
        })
    }
}

/// Takes a map, which may only have the bits `known`.
fn members(input: &mut Input<'_>, known: u64) -> Decoded<u64> {
    let at = input.at();
    let map = input.fixed64()?;
    match map & !known {
        0 => Ok(map),
        unknown => {
            let what = format!("members {unknown:#x} of an operation in an I/O trace");
            Err(Malformed::unsupported(at, what))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::block_cache::WriterVersion;
    use super::super::{BEGIN, Metadata};
    use super::*;

    fn record(operation: &IoOperation<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(operation.encode(7, &mut out));
        let metadata = Metadata::decode(&out).unwrap();
        let len = metadata.payload_len as usize;
        assert_eq!((metadata.micros, metadata.kind), (7, IO));
        assert_eq!(len, out.len() - METADATA_LEN);
        out
    }

    #[test]
    fn operations_have_the_documented_bytes() {
        let mut operation = IoOperation {
            operation: b"Read",
            nanos: 3,
            status: STATUS_OK,
            file: b"000007.sst",
            len: Some(4),
            offset: Some(5),
            ..IoOperation::default()
        };
        let read =
            b"\x06\0\0\0\0\0\0\0\x04Read\x03\0\0\0\0\0\0\0\x02OK\x0a000007.sst\x04\0\0\0\0\0\0\0\
                     \x05\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        assert_eq!(record(&operation)[METADATA_LEN..], read[..]);
        operation = IoOperation {
            len: None,
            offset: None,
            file_len: Some(6),
            request_id: Some(b"id"),
            ..operation
        };
        let with_id =
            b"\x01\0\0\0\0\0\0\0\x04Read\x03\0\0\0\0\0\0\0\x02OK\x0a000007.sst\x06\0\0\0\0\0\0\0\
                        \x01\0\0\0\0\0\0\0\x02id";
        assert_eq!(record(&operation)[METADATA_LEN..], with_id[..]);
    }

    /// The same workload as in the trace of block lookups.
    #[test]
    fn a_trace_of_rocksdb_is_decoded_and_encoded_to_the_same_bytes() {
        let mut rest = &include_bytes!("../../testdata/io_11_12.trace")[..];
        let mut seen = Vec::new();
        while !rest.is_empty() {
            let metadata = Metadata::decode(rest).unwrap();
            let (record, after) = rest.split_at(METADATA_LEN + metadata.payload_len as usize);
            rest = after;
            let payload = &record[METADATA_LEN..];
            if metadata.kind == BEGIN {
                assert!(WriterVersion::decode(payload).is_ok());
                continue;
            }
            let operation = IoOperation::decode(metadata.kind, payload).unwrap();
            let mut again = Vec::new();
            assert!(operation.encode(metadata.micros, &mut again));
            assert_eq!(again, record);
            assert_eq!(operation.status, STATUS_OK);
            seen.push(operation);
        }
        assert_eq!(seen.len(), 40);
        let first = &seen[0];
        assert_eq!(
            (first.operation, first.file),
            (&b"Read"[..], &b"000009.sst"[..])
        );
        assert_eq!(
            (first.len, first.offset, first.file_len),
            (Some(4079), Some(4077), None)
        );
        let sizes = seen.iter().filter(|one| one.operation == b"GetFileSize");
        assert!(
            sizes
                .clone()
                .all(|one| one.file_len.is_some() && one.len.is_none())
        );
        assert_eq!(sizes.count(), 7);
    }

    #[test]
    fn other_kinds_and_members_are_not_supported() {
        let bytes = record(&IoOperation::default());
        let payload = &bytes[METADATA_LEN..];
        for kind in [0, 1, 2, 4, 9, 11, 13] {
            assert!(IoOperation::decode(kind, payload).unwrap_err().unsupported);
        }
        for at in [0, payload.len() - 8] {
            let mut unknown = payload.to_vec();
            unknown[at] = 8;
            let error = IoOperation::decode(IO, &unknown).unwrap_err();
            assert!(error.unsupported && error.at == at, "{error:?}");
        }
    }

    proptest! {
        #[test]
        fn operations_are_decoded_as_they_were_encoded(
            texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 4),
            nanos: u64,
            numbers in any::<[Option<u64>; 3]>(),
            has_id: bool,
        ) {
            let operation = IoOperation {
                operation: &texts[0],
                nanos,
                status: &texts[1],
                file: &texts[2],
                file_len: numbers[0],
                len: numbers[1],
                offset: numbers[2],
                request_id: has_id.then_some(&texts[3]),
            };
            let bytes = record(&operation);
            let payload = &bytes[METADATA_LEN..];
            prop_assert_eq!(IoOperation::decode(IO, payload), Ok(operation));
            for len in 0..payload.len() {
                prop_assert!(IoOperation::decode(IO, &payload[..len]).is_err(), "{}", len);
            }
        }

        #[test]
        fn arbitrary_bytes_are_decoded_or_rejected(bytes: Vec<u8>) {
            if let Ok(operation) = IoOperation::decode(IO, &bytes) {
                let again = record(&operation);
                prop_assert_eq!(IoOperation::decode(IO, &again[METADATA_LEN..]), Ok(operation));
            }
        }
    }
}
