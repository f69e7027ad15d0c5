//! Query traces: the reads and writes of a database with their times, in RocksDB's format.
//!
//! ```text
//! offset  size  record
//!      0     8  time, in microseconds since 1970
//!      8     1  kind
//!      9     4  n: length of the payload
//!     13     n  payload
//! ```
//!
//! A trace starts with a record of kind 1, whose payload is text, and ends with one of kind 2. A trace without the
//! end was not completed; its records are valid.
//!
//! ```text
//! kind  payload of trace version 0.2
//!    1  "feedcafedeadbeef" TAB "Trace Version: 0.2" TAB "RocksDB Version: 11.12" TAB
//!       "Format: Timestamp OpType Payload" LF
//!    2  empty
//!    3  write: map (bit 1); 1: lps batch
//!    4  get: map (bits 2, 3); 2: fixed32 family id, 3: lps key
//!    5  seek: map (bits 4 to 7); 4: fixed32 family id, 5: lps key, 6: lps lower bound, 7: lps upper bound
//!    6  seek for prev: the same
//!   13  multi-get: map (bits 8, 9, 10); 8: fixed32 number of keys, 9: lps of the family ids, each fixed32,
//!       10: lps of the keys, each lps
//! ```
//!
//! The map is a fixed64 with a bit for each member that follows. Bounds that are not set are omitted. In versions
//! 0.0 and 0.1, the payload of a write is the batch, and those of gets and seeks are a family id and a key, without
//! a map. Kinds 7 to 12 belong to the traces of [`block_cache`] and [`io`].

pub mod block_cache;
pub mod io;

use cairn_types::{Decoded, Malformed};

use crate::coding::{Input, put_fixed32, put_fixed64, put_lps};

/// Size of a record without its payload, in bytes.
pub const METADATA_LEN: usize = 13;

/// The kind of the first record.
pub const BEGIN: u8 = 1;
/// The kind of the last record.
pub const END: u8 = 2;
const WRITE: u8 = 3;
const GET: u8 = 4;
const SEEK: u8 = 5;
const SEEK_FOR_PREV: u8 = 6;
const MULTI_GET: u8 = 13;

const MAGIC: &str = "feedcafedeadbeef";
const TRACE_VERSION: &str = "Trace Version: ";
const ROCKSDB_VERSION: &str = "RocksDB Version: ";

/// The version that is written: its digits, without the dot.
const CURRENT: u32 = 2;

/// Bits of the map.
const BATCH: u32 = 1;
const GET_FAMILY: u32 = 2;
const GET_KEY: u32 = 3;
const SEEK_FAMILY: u32 = 4;
const SEEK_KEY: u32 = 5;
const LOWER_BOUND: u32 = 6;
const UPPER_BOUND: u32 = 7;
const KEY_COUNT: u32 = 8;
const FAMILIES: u32 = 9;
const KEYS: u32 = 10;

/// The fields of a record before its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The time, in microseconds since 1970.
    pub micros: u64,
    /// The kind of the record.
    pub kind: u8,
    /// Length of the payload in bytes.
    pub payload_len: u32,
}

impl Metadata {
    /// Decodes the start of a record. The length must be compared with that of the file before the payload is read.
    ///
    /// # Errors
    ///
    /// If `bytes` are truncated.
    pub fn decode(bytes: &[u8]) -> Decoded<Metadata> {
        let mut input = Input::new(bytes);
        Ok(Metadata {
            micros: input.fixed64()?,
            kind: input.u8()?,
            payload_len: input.fixed32()?,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_fixed64(out, self.micros);
        out.push(self.kind);
        put_fixed32(out, self.payload_len);
    }
}

/// A record whose payload is being appended.
struct RecordWriter {
    /// The offset of the record.
    start: usize,
}

impl RecordWriter {
    /// Appends the metadata of a record to `out`, without the length.
    fn start(out: &mut Vec<u8>, micros: u64, kind: u8) -> RecordWriter {
        let start = out.len();
        Metadata {
            micros,
            kind,
            payload_len: 0,
        }
        .encode(out);
        RecordWriter { start }
    }

    /// Sets the length to that of the payload, which was appended and has less than 4 GiB.
    fn finish(self, out: &mut [u8]) {
        let len = out.len() - self.start - METADATA_LEN;
        let len = u32::try_from(len).expect("checked before it was encoded");
        let at = self.start + METADATA_LEN - 4;
        out[at..at + 4].copy_from_slice(&len.to_le_bytes());
    }
}

/// The versions in the payload of the first record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceVersions {
    /// The digits of the trace version: 1 for 0.1.
    trace: u32,
    /// The RocksDB version that wrote the trace, such as "11.12".
    pub rocksdb: String,
}

/// Returns the first record of a trace that starts at `micros`, written as RocksDB `version` ("11.12").
#[must_use]
pub fn begin(micros: u64, version: &str) -> Vec<u8> {
    let text = format!(
        "{MAGIC}\t{TRACE_VERSION}0.{CURRENT}\t{ROCKSDB_VERSION}{version}\tFormat: Timestamp OpType Payload\n"
    );
    let mut out = Vec::with_capacity(METADATA_LEN + text.len());
    Metadata {
        micros,
        kind: BEGIN,
        payload_len: u32::try_from(text.len()).expect("the text is short"),
    }
    .encode(&mut out);
    out.extend_from_slice(text.as_bytes());
    out
}

/// Returns the last record of a trace that ends at `micros`.
#[must_use]
pub fn end(micros: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(METADATA_LEN);
    Metadata {
        micros,
        kind: END,
        payload_len: 0,
    }
    .encode(&mut out);
    out
}

impl TraceVersions {
    /// Decodes the payload of the first record.
    ///
    /// # Errors
    ///
    /// If it is malformed, or of a later version than 0.2.
    pub fn decode(payload: &[u8]) -> Decoded<TraceVersions> {
        let mut input = Input::new(payload);
        input.expect(MAGIC.as_bytes(), "magic number of a trace")?;
        input.expect(b"\t", "tab in the header of a trace")?;
        let trace = version(&mut input, TRACE_VERSION)?;
        let rocksdb = version(&mut input, ROCKSDB_VERSION)?;
        let number = match trace.split_once('.') {
            Some(("0", minor)) => minor.parse().ok(),
            _ => None,
        };
        match number {
            Some(number) if number <= CURRENT => Ok(TraceVersions {
                trace: number,
                rocksdb,
            }),
            _ => {
                let what = format!("trace version {trace}, expected at most 0.{CURRENT}");
                Err(Malformed::unsupported(MAGIC.len() + 1, what))
            }
        }
    }

    /// True if payloads start with a map.
    fn has_map(&self) -> bool {
        self.trace >= 2
    }
}

/// Takes a version with the given label and the tab after it: two decimal numbers with a dot in between.
fn version(input: &mut Input<'_>, label: &'static str) -> Decoded<String> {
    input.expect(
        label.as_bytes(),
        "label of a version in the header of a trace",
    )?;
    let at = input.at();
    let rest = input.rest();
    let len = rest.iter().position(|byte| *byte == b'\t');
    let text = len.and_then(|len| std::str::from_utf8(&rest[..len]).ok());
    let is_number = |part: &str| {
        (1..=9).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let valid = text.filter(|text| {
        text.split_once('.')
            .is_some_and(|(major, minor)| is_number(major) && is_number(minor))
    });
    let Some(text) = valid else {
        return Err(Malformed::at(
            at,
            "version in the header of a trace is not of the form 0.2",
        ));
    };
    let owned = text.to_owned();
    input.take(text.len() + 1)?;
    Ok(owned)
}

/// An operation in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query<'a> {
    /// A write of a batch in its serialized form.
    Write(&'a [u8]),
    /// A get.
    Get {
        /// The id of the column family.
        family: u32,
        /// The key.
        key: &'a [u8],
    },
    /// A seek of an iterator.
    Seek(Seek<'a>),
    /// A backward seek of an iterator.
    SeekForPrev(Seek<'a>),
    /// A batch of gets: the ids of the column families and the keys.
    MultiGet(Vec<(u32, &'a [u8])>),
}

/// The target of a seek and the bounds of its iterator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seek<'a> {
    /// The id of the column family.
    pub family: u32,
    /// The target.
    pub key: &'a [u8],
    /// The inclusive lower bound; empty for none.
    pub lower: &'a [u8],
    /// The exclusive upper bound; empty for none.
    pub upper: &'a [u8],
}

fn bit(member: u32) -> u64 {
    1 << member
}

impl Query<'_> {
    fn kind(&self) -> u8 {
        match self {
            Query::Write(_) => WRITE,
            Query::Get { .. } => GET,
            Query::Seek(_) => SEEK,
            Query::SeekForPrev(_) => SEEK_FOR_PREV,
            Query::MultiGet(_) => MULTI_GET,
        }
    }

    /// An upper bound on the length of the payload.
    fn max_payload_len(&self) -> usize {
        const FIXED: usize = 64;
        FIXED
            + match self {
                Query::Write(batch) => batch.len(),
                Query::Get { key, .. } => key.len(),
                Query::Seek(seek) | Query::SeekForPrev(seek) => {
                    seek.key.len() + seek.lower.len() + seek.upper.len()
                }
                Query::MultiGet(keys) => keys.iter().map(|(_, key)| key.len() + 9).sum(),
            }
    }

    /// Appends the record of this operation at `micros` to `out`. Returns false, without appending anything, for an
    /// operation that does not fit into a record, which has less than 4 GiB.
    #[must_use]
    pub fn encode(&self, micros: u64, out: &mut Vec<u8>) -> bool {
        let Ok(max) = u32::try_from(self.max_payload_len()) else {
            return false;
        };
        out.reserve(METADATA_LEN + max as usize);
        let record = RecordWriter::start(out, micros, self.kind());
        self.encode_payload(out);
        record.finish(out);
        true
    }

    fn encode_payload(&self, out: &mut Vec<u8>) {
        match self {
            Query::Write(batch) => {
                put_fixed64(out, bit(BATCH));
                put_lps(out, batch);
            }
            Query::Get { family, key } => {
                put_fixed64(out, bit(GET_FAMILY) | bit(GET_KEY));
                put_fixed32(out, *family);
                put_lps(out, key);
            }
            Query::Seek(seek) | Query::SeekForPrev(seek) => {
                let bounds = [(LOWER_BOUND, seek.lower), (UPPER_BOUND, seek.upper)];
                let set = bounds.iter().filter(|(_, bound)| !bound.is_empty());
                let map = bit(SEEK_FAMILY) | bit(SEEK_KEY);
                put_fixed64(
                    out,
                    set.clone().fold(map, |map, (member, _)| map | bit(*member)),
                );
                put_fixed32(out, seek.family);
                put_lps(out, seek.key);
                set.for_each(|(_, bound)| put_lps(out, bound));
            }
            Query::MultiGet(keys) => {
                put_fixed64(out, bit(KEY_COUNT) | bit(FAMILIES) | bit(KEYS));
                let count = u32::try_from(keys.len()).expect("a key takes 9 bytes at least");
                put_fixed32(out, count);
                let mut part = Vec::with_capacity(4 * keys.len());
                keys.iter()
                    .for_each(|(family, _)| put_fixed32(&mut part, *family));
                put_lps(out, &part);
                part.clear();
                keys.iter().for_each(|(_, key)| put_lps(&mut part, key));
                put_lps(out, &part);
            }
        }
    }
}

/// The members of a payload, in order.
struct Members<'a> {
    input: Input<'a>,
    map: u64,
}

impl<'a> Members<'a> {
    /// Takes the map, which may only have the members `known`. Without a map, `implied` are present.
    fn new(payload: &'a [u8], has_map: bool, known: &[u32], implied: &[u32]) -> Decoded<Self> {
        let all = |members: &[u32]| members.iter().fold(0, |map, member| map | bit(*member));
        let mut input = Input::new(payload);
        let map = match has_map {
            true => input.fixed64()?,
            false => all(implied),
        };
        let unknown = map & !all(known);
        if unknown != 0 {
            let what = format!("members {unknown:#x} of a trace record");
            return Err(Malformed::unsupported(0, what));
        }
        Ok(Members { input, map })
    }

    fn fixed32(&mut self, member: u32) -> Decoded<u32> {
        match self.map & bit(member) {
            0 => Ok(0),
            _ => self.input.fixed32(),
        }
    }

    fn lps(&mut self, member: u32) -> Decoded<&'a [u8]> {
        match self.map & bit(member) {
            0 => Ok(&[]),
            _ => self.input.lps(),
        }
    }
}

impl<'a> Query<'a> {
    /// Decodes the payload of a record of `kind` in a trace with these versions.
    ///
    /// # Errors
    ///
    /// If it is malformed, or not an operation on a database.
    pub fn decode(kind: u8, versions: &TraceVersions, payload: &'a [u8]) -> Decoded<Query<'a>> {
        let has_map = versions.has_map();
        match kind {
            WRITE if !has_map => Ok(Query::Write(payload)),
            WRITE => {
                let mut members = Members::new(payload, true, &[BATCH], &[])?;
                let query = Query::Write(members.lps(BATCH)?);
                members.input.finish("write of a trace")?;
                Ok(query)
            }
            GET => {
                let known = [GET_FAMILY, GET_KEY];
                let mut members = Members::new(payload, has_map, &known, &known)?;
                let query = Query::Get {
                    family: members.fixed32(GET_FAMILY)?,
                    key: members.lps(GET_KEY)?,
                };
                members.input.finish("get of a trace")?;
                Ok(query)
            }
            SEEK => Ok(Query::Seek(seek(payload, has_map)?)),
            SEEK_FOR_PREV => Ok(Query::SeekForPrev(seek(payload, has_map)?)),
            MULTI_GET if has_map => multi_get(payload),
            kind => Err(Malformed::unsupported(
                0,
                format!("records of kind {kind} in a query trace"),
            )),
        }
    }
}

fn seek(payload: &[u8], has_map: bool) -> Decoded<Seek<'_>> {
    let known = [SEEK_FAMILY, SEEK_KEY, LOWER_BOUND, UPPER_BOUND];
    let mut members = Members::new(payload, has_map, &known, &known[..2])?;
    let seek = Seek {
        family: members.fixed32(SEEK_FAMILY)?,
        key: members.lps(SEEK_KEY)?,
        lower: members.lps(LOWER_BOUND)?,
        upper: members.lps(UPPER_BOUND)?,
    };
    members.input.finish("seek of a trace")?;
    Ok(seek)
}

fn multi_get(payload: &[u8]) -> Decoded<Query<'_>> {
    let mut members = Members::new(payload, true, &[KEY_COUNT, FAMILIES, KEYS], &[])?;
    let count = members.fixed32(KEY_COUNT)? as usize;
    let at = members.input.at();
    let families = members.lps(FAMILIES)?;
    let mut keys = Input::new(members.lps(KEYS)?);
    members.input.finish("multi-get of a trace")?;
    if families.len() as u64 != 4 * count as u64 {
        let found = families.len();
        return Err(Malformed::mismatch(
            at,
            "family ids of a multi-get",
            4 * count,
            found,
        ));
    }
    // The number of keys is now limited by the length of the payload.
    let mut all = Vec::with_capacity(count);
    let mut families = Input::new(families);
    for _ in 0..count {
        all.push((families.fixed32()?, keys.lps()?));
    }
    keys.finish("keys of a multi-get")?;
    Ok(Query::MultiGet(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn versions() -> TraceVersions {
        let header = begin(1, "11.12");
        TraceVersions::decode(&header[METADATA_LEN..]).unwrap()
    }

    fn record(query: &Query<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(query.encode(7, &mut out));
        let metadata = Metadata::decode(&out).unwrap();
        assert_eq!(
            (metadata.micros, metadata.payload_len as usize),
            (7, out.len() - METADATA_LEN)
        );
        out
    }

    #[test]
    fn a_trace_begins_and_ends_with_rocksdbs_bytes() {
        let header = begin(0x0102, "11.12");
        assert_eq!(&header[..13], b"\x02\x01\0\0\0\0\0\0\x01\x5c\0\0\0");
        assert_eq!(
            &header[13..],
            b"feedcafedeadbeef\tTrace Version: 0.2\tRocksDB Version: 11.12\tFormat: Timestamp OpType Payload\n"
        );
        assert_eq!(end(3), b"\x03\0\0\0\0\0\0\0\x02\0\0\0\0");
    }

    #[test]
    fn operations_have_the_documented_bytes() {
        let get = Query::Get {
            family: 5,
            key: b"key",
        };
        assert_eq!(
            &record(&get)[8..],
            b"\x04\x10\0\0\0\x0c\0\0\0\0\0\0\0\x05\0\0\0\x03key"
        );
        assert_eq!(
            &record(&Query::Write(b"batch"))[8..],
            b"\x03\x0e\0\0\0\x02\0\0\0\0\0\0\0\x05batch"
        );
        let seek = Seek {
            family: 1,
            key: b"k",
            lower: b"",
            upper: b"u",
        };
        assert_eq!(
            &record(&Query::SeekForPrev(seek))[8..],
            b"\x06\x10\0\0\0\xb0\0\0\0\0\0\0\0\x01\0\0\0\x01k\x01u"
        );
        let both = Query::MultiGet(vec![(1, b"a"), (2, b"bc")]);
        assert_eq!(
            &record(&both)[8..],
            b"\x0d\x1b\0\0\0\x00\x07\0\0\0\0\0\0\x02\0\0\0\x08\x01\0\0\0\x02\0\0\0\x05\x01a\x02bc"
        );
    }

    /// The operations that RocksJava 11.1.1 recorded, in order, with their kinds.
    #[test]
    fn a_trace_of_rocksdb_is_decoded_and_encoded_to_the_same_bytes() {
        let trace = include_bytes!("../testdata/queries_11_1.trace");
        let mut rest = &trace[..];
        let mut seen = Vec::new();
        let mut versions = None;
        while !rest.is_empty() {
            let metadata = Metadata::decode(rest).unwrap();
            let (record, after) = rest.split_at(METADATA_LEN + metadata.payload_len as usize);
            let payload = &record[METADATA_LEN..];
            match &versions {
                None => {
                    assert_eq!(begin(metadata.micros, "11.1"), record);
                    versions = Some(TraceVersions::decode(payload).unwrap());
                }
                Some(_) if metadata.kind == END => assert_eq!(end(metadata.micros), record),
                Some(versions) => {
                    let query = Query::decode(metadata.kind, versions, payload).unwrap();
                    let mut again = Vec::new();
                    assert!(query.encode(metadata.micros, &mut again));
                    assert_eq!(again, record);
                    seen.push(query);
                }
            }
            rest = after;
        }
        let seek = |key| Seek {
            family: 0,
            key,
            lower: b"a",
            upper: b"z",
        };
        assert!(matches!(
            seen[..3],
            [Query::Write(_), Query::Write(_), Query::Write(_)]
        ));
        assert_eq!(
            seen[3..],
            [
                Query::Get {
                    family: 0,
                    key: b"a"
                },
                Query::Get {
                    family: 1,
                    key: b"missing"
                },
                Query::Seek(seek(b"b")),
                Query::SeekForPrev(seek(b"b")),
                // A move to the first key.
                Query::Seek(seek(b"a")),
                Query::MultiGet(vec![(1, b"b"), (0, b"c")]),
            ]
        );
    }

    #[test]
    fn older_versions_have_no_map() {
        let text = b"feedcafedeadbeef\tTrace Version: 0.1\tRocksDB Version: 6.20\tFormat\n";
        let old = TraceVersions::decode(text).unwrap();
        assert_eq!(old.rocksdb, "6.20");
        assert_eq!(
            Query::decode(WRITE, &old, b"batch"),
            Ok(Query::Write(b"batch"))
        );
        let get = Query::Get {
            family: 1,
            key: b"k",
        };
        assert_eq!(Query::decode(GET, &old, b"\x01\0\0\0\x01k"), Ok(get));
        assert!(Query::decode(MULTI_GET, &old, b"").unwrap_err().unsupported);
    }

    #[test]
    fn unknown_versions_kinds_and_members_are_not_supported() {
        for (text, unsupported) in [
            (
                &b"feedcafedeadbeef\tTrace Version: 0.3\tRocksDB Version: 12.0\t"[..],
                true,
            ),
            (
                b"feedcafedeadbeef\tTrace Version: 1.0\tRocksDB Version: 12.0\t",
                true,
            ),
            (
                b"feedcafedeadbeef\tTrace Version: 0.x\tRocksDB Version: 12.0\t",
                false,
            ),
            (b"feedcafedeadbeef\tTrace Version: 0.2", false),
            (
                b"deadbeeffeedcafe\tTrace Version: 0.2\tRocksDB Version: 11.1\t",
                false,
            ),
        ] {
            let error = TraceVersions::decode(text).unwrap_err();
            assert_eq!(error.unsupported, unsupported, "{error:?}");
        }
        assert!(Query::decode(7, &versions(), b"").unwrap_err().unsupported);
        let unknown = Query::decode(GET, &versions(), &[0xff; 8]).unwrap_err();
        assert!(unknown.unsupported, "{unknown:?}");
    }

    #[test]
    fn the_number_of_keys_is_checked_before_memory_is_allocated() {
        let mut payload = record(&Query::MultiGet(vec![(0, b"k")])).split_off(METADATA_LEN);
        payload[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        let error = Query::decode(MULTI_GET, &versions(), &payload).unwrap_err();
        assert_eq!(error.at, 12, "{error:?}");
    }

    proptest! {
        #[test]
        fn operations_are_decoded_as_they_were_encoded(
            families in prop::collection::vec(any::<u32>(), 1..4),
            keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 4),
        ) {
            let family = families[0];
            let seek = Seek { family, key: &keys[0], lower: &keys[1], upper: &keys[2] };
            let many = families.iter().zip(&keys).map(|(family, key)| (*family, &key[..]));
            for query in [
                Query::Write(&keys[3]),
                Query::Get { family, key: &keys[0] },
                Query::Seek(seek),
                Query::SeekForPrev(seek),
                Query::MultiGet(many.collect()),
            ] {
                let bytes = record(&query);
                let payload = &bytes[METADATA_LEN..];
                prop_assert_eq!(Query::decode(bytes[8], &versions(), payload), Ok(query));
                for len in 0..payload.len() {
                    prop_assert!(Query::decode(bytes[8], &versions(), &payload[..len]).is_err(), "{}", len);
                }
            }
        }
    }
}
