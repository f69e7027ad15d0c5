//! Block-cache traces: the lookups of blocks in the block cache, in RocksDB's format.
//!
//! ```text
//! kind  payload
//!    1  lps "feedcafedeadbeef", fixed32 major and fixed32 minor version of RocksDB
//!    7  a lookup of an index block
//!    8  of a filter block
//!    9  of a data block
//!   10  of a compression dictionary
//!   11  of range tombstones
//!
//! payload of a lookup                             if present
//!   lps key of the block in the cache             always
//!   fixed64 size of the block in memory
//!   fixed64 id and lps name of the column family
//!   fixed32 level, fixed64 file number
//!   u8 caller, u8 hit, u8 no insert
//!   fixed64 id of the get, u8 is at a snapshot,   callers 1 and 2: a get or a batch of gets
//!   lps internal key that is looked up
//!   fixed64 size of the entry, fixed64 keys in    the same, kind 9
//!   the block, u8 entry is found
//! ```
//!
//! Records have the [`Metadata`](super::Metadata) of a query trace: the time is in microseconds. There is no last
//! record. A flag is any byte other than 0.

use cairn_types::{Decoded, Malformed};

use super::{BEGIN, MAGIC, METADATA_LEN, RecordWriter};
use crate::coding::{Input, put_fixed32, put_fixed64, put_lps};

/// The versions in the first record of a block-cache or an I/O trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterVersion {
    /// The major version of the RocksDB that wrote the trace.
    pub major: u32,
    /// Its minor version.
    pub minor: u32,
}

/// Returns the first record of a block-cache or an I/O trace that starts at `micros`.
#[must_use]
pub fn begin(micros: u64, version: WriterVersion) -> Vec<u8> {
    let mut out = Vec::with_capacity(METADATA_LEN + MAGIC.len() + 9);
    let record = RecordWriter::start(&mut out, micros, BEGIN);
    put_lps(&mut out, MAGIC.as_bytes());
    put_fixed32(&mut out, version.major);
    put_fixed32(&mut out, version.minor);
    record.finish(&mut out);
    out
}

impl WriterVersion {
    /// Decodes the payload of the first record.
    ///
    /// # Errors
    ///
    /// If it is malformed.
    pub fn decode(payload: &[u8]) -> Decoded<WriterVersion> {
        let mut input = Input::new(payload);
        if input.lps()? != MAGIC.as_bytes() {
            return Err(Malformed::at(0, "magic number of a trace"));
        }
        let version = WriterVersion {
            major: input.fixed32()?,
            minor: input.fixed32()?,
        };
        input.finish("header of a trace")?;
        Ok(version)
    }
}

/// A kind of block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TracedBlock {
    /// An index, or a part of one.
    Index = 7,
    /// A filter, a part of one, or the index over the parts.
    Filter = 8,
    /// A data block.
    Data = 9,
    /// A compression dictionary.
    Dictionary = 10,
    /// Range tombstones.
    RangeTombstones = 11,
}

impl TracedBlock {
    const ALL: [TracedBlock; 5] = [
        TracedBlock::Index,
        TracedBlock::Filter,
        TracedBlock::Data,
        TracedBlock::Dictionary,
        TracedBlock::RangeTombstones,
    ];

    fn decode(kind: u8) -> Decoded<TracedBlock> {
        let found = TracedBlock::ALL.into_iter().find(|one| *one as u8 == kind);
        found.ok_or_else(|| {
            let what = format!("records of kind {kind} in a block-cache trace");
            Malformed::unsupported(0, what)
        })
    }
}

/// The origin of a lookup: RocksDB's `TableReaderCaller`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheCaller {
    /// A get.
    Get = 1,
    /// A batch of gets.
    MultiGet = 2,
    /// An iterator of a program.
    Iterator = 3,
    /// An estimate of the size of a key range.
    ApproximateSize = 4,
    /// A verification of checksums.
    VerifyChecksum = 5,
    /// RocksDB's `sst_dump`.
    SstDump = 6,
    /// An ingestion.
    Ingestion = 7,
    /// A repair.
    Repair = 8,
    /// Opening a table.
    Prefetch = 9,
    /// A compaction.
    Compaction = 10,
    /// The verification of a table that a compaction wrote.
    CompactionRefill = 11,
    /// The verification of a table that a flush wrote.
    Flush = 12,
    /// A reader of one table.
    SstFileReader = 13,
    /// Anything else.
    #[default]
    Uncategorized = 14,
}

impl CacheCaller {
    const ALL: [CacheCaller; 14] = [
        CacheCaller::Get,
        CacheCaller::MultiGet,
        CacheCaller::Iterator,
        CacheCaller::ApproximateSize,
        CacheCaller::VerifyChecksum,
        CacheCaller::SstDump,
        CacheCaller::Ingestion,
        CacheCaller::Repair,
        CacheCaller::Prefetch,
        CacheCaller::Compaction,
        CacheCaller::CompactionRefill,
        CacheCaller::Flush,
        CacheCaller::SstFileReader,
        CacheCaller::Uncategorized,
    ];

    /// True for gets and batches of gets.
    #[must_use]
    pub fn is_get(self) -> bool {
        matches!(self, CacheCaller::Get | CacheCaller::MultiGet)
    }
}

/// The level of a file that belongs to none.
pub const NO_LEVEL: u32 = u32::MAX;

/// A lookup of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'a> {
    /// The key of the block in the cache.
    pub block_key: &'a [u8],
    /// The kind of the block.
    pub block: TracedBlock,
    /// The size of the block in memory, in bytes; 0 if it was neither in the cache nor read.
    pub block_size: u64,
    /// The id of the column family.
    pub family: u64,
    /// The name of the column family.
    pub family_name: &'a [u8],
    /// The level of the file, or [`NO_LEVEL`].
    pub level: u32,
    /// The number of the file.
    pub file: u64,
    /// The origin of the lookup.
    pub caller: CacheCaller,
    /// True if the block was in the cache.
    pub is_hit: bool,
    /// True if the block is not inserted into the cache after a miss.
    pub no_insert: bool,
    /// The get that needs the block. Present exactly if [`CacheCaller::is_get`].
    pub get: Option<TracedGet<'a>>,
}

/// The get in an [`Access`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TracedGet<'a> {
    /// A number that the lookups of one get, or of one batch, share.
    pub id: u64,
    /// True if the get reads at a snapshot.
    pub at_snapshot: bool,
    /// The internal key that is looked up, or that of the entry that was found.
    pub key: &'a [u8],
    /// The search in the block. Present exactly for data blocks.
    pub search: Option<BlockSearch>,
}

/// The search of a get in a data block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockSearch {
    /// The size of the key and value that were found; 0 if none was.
    pub entry_size: u64,
    /// The approximate number of keys in the block.
    pub keys_in_block: u64,
    /// True if a value of the key was found.
    pub is_found: bool,
}

impl<'a> Access<'a> {
    /// Appends the record of this lookup at `micros` to `out`. Returns false, without appending anything, if it does not
    /// fit into a record, which has less than 4 GiB.
    #[must_use]
    pub fn encode(&self, micros: u64, out: &mut Vec<u8>) -> bool {
        const FIXED: usize = 96;
        let key = self.get.map_or(0, |get| get.key.len());
        let len = FIXED + self.block_key.len() + self.family_name.len() + key;
        if u32::try_from(len).is_err() {
            return false;
        }
        out.reserve(METADATA_LEN + len);
        let record = RecordWriter::start(out, micros, self.block as u8);
        put_lps(out, self.block_key);
        put_fixed64(out, self.block_size);
        put_fixed64(out, self.family);
        put_lps(out, self.family_name);
        put_fixed32(out, self.level);
        put_fixed64(out, self.file);
        out.push(self.caller as u8);
        out.push(u8::from(self.is_hit));
        out.push(u8::from(self.no_insert));
        if self.caller.is_get() {
            let get = self.get.unwrap_or_default();
            put_fixed64(out, get.id);
            out.push(u8::from(get.at_snapshot));
            put_lps(out, get.key);
            if self.block == TracedBlock::Data {
                let search = get.search.unwrap_or_default();
                put_fixed64(out, search.entry_size);
                put_fixed64(out, search.keys_in_block);
                out.push(u8::from(search.is_found));
            }
        }
        record.finish(out);
        true
    }

    /// Decodes the payload of a record of `kind`.
    ///
    /// # Errors
    ///
    /// If it is malformed, or not a lookup.
    pub fn decode(kind: u8, payload: &'a [u8]) -> Decoded<Access<'a>> {
        let block = TracedBlock::decode(kind)?;
        let mut input = Input::new(payload);
        let mut access = Access {
            block_key: input.lps()?,
            block,
            block_size: input.fixed64()?,
            family: input.fixed64()?,
            family_name: input.lps()?,
            level: input.fixed32()?,
            file: input.fixed64()?,
            caller: caller(&mut input)?,
            is_hit: input.u8()? != 0,
            no_insert: input.u8()? != 0,
            get: None,
        };
        if access.caller.is_get() {
            access.get = Some(TracedGet {
                id: input.fixed64()?,
                at_snapshot: input.u8()? != 0,
                key: input.lps()?,
                search: match block {
                    TracedBlock::Data => Some(BlockSearch {
                        entry_size: input.fixed64()?,
                        keys_in_block: input.fixed64()?,
                        is_found: input.u8()? != 0,
                    }),
                    _ => None,
                },
            });
        }
        input.finish("lookup of a block-cache trace")?;
        Ok(access)
    }
}

fn caller(input: &mut Input<'_>) -> Decoded<CacheCaller> {
    let at = input.at();
    let number = input.u8()?;
    let found = CacheCaller::ALL
        .into_iter()
        .find(|one| *one as u8 == number);
    found.ok_or_else(|| Malformed::unsupported(at, format!("caller {number} of a lookup")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Metadata;
    use super::*;

    const VERSION: WriterVersion = WriterVersion {
        major: 11,
        minor: 12,
    };

    fn access() -> Access<'static> {
        Access {
            block_key: b"block",
            block: TracedBlock::Index,
            block_size: 0x0102,
            family: 3,
            family_name: b"cf",
            level: 4,
            file: 5,
            caller: CacheCaller::Iterator,
            is_hit: true,
            no_insert: false,
            get: None,
        }
    }

    fn record(access: &Access<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(access.encode(7, &mut out));
        let metadata = Metadata::decode(&out).unwrap();
        let len = metadata.payload_len as usize;
        assert_eq!((metadata.micros, len), (7, out.len() - METADATA_LEN));
        out
    }

    #[test]
    fn a_trace_begins_with_rocksdbs_bytes() {
        let header = begin(0x0102, VERSION);
        let expected =
            b"\x02\x01\0\0\0\0\0\0\x01\x19\0\0\0\x10feedcafedeadbeef\x0b\0\0\0\x0c\0\0\0";
        assert_eq!(header, expected);
        assert_eq!(WriterVersion::decode(&header[METADATA_LEN..]), Ok(VERSION));
        for len in 0..header.len() - METADATA_LEN {
            assert!(WriterVersion::decode(&header[METADATA_LEN..][..len]).is_err());
        }
        assert!(WriterVersion::decode(b"\x10FEEDcafedeadbeef\x0b\0\0\0\x0c\0\0\0").is_err());
        assert!(WriterVersion::decode(&[&header[METADATA_LEN..], b"x"].concat()).is_err());
    }

    #[test]
    fn lookups_have_the_documented_bytes() {
        let common =
            b"\x05block\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x02cf\x04\0\0\0\x05\0\0\0\0\0\0\0";
        let bytes = record(&access());
        assert_eq!(bytes[8], 7);
        assert_eq!(bytes[METADATA_LEN..], [&common[..], b"\x03\x01\0"].concat());

        let search = BlockSearch {
            entry_size: 9,
            keys_in_block: 8,
            is_found: true,
        };
        let get = TracedGet {
            id: 6,
            at_snapshot: true,
            key: b"key",
            search: Some(search),
        };
        let by_get = Access {
            block: TracedBlock::Data,
            caller: CacheCaller::MultiGet,
            is_hit: false,
            no_insert: true,
            get: Some(get),
            ..access()
        };
        let bytes = record(&by_get);
        let of_get =
            b"\x02\0\x01\x06\0\0\0\0\0\0\0\x01\x03key\x09\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\x01";
        assert_eq!(bytes[8], 9);
        assert_eq!(bytes[METADATA_LEN..], [&common[..], of_get].concat());
    }

    /// A workload on RocksDB 11.12: gets, a batch at a snapshot, a scan, a flush, a compaction.
    #[test]
    fn a_trace_of_rocksdb_is_decoded_and_encoded_to_the_same_bytes() {
        let mut rest = &include_bytes!("../../testdata/lookups_11_12.trace")[..];
        let mut seen = Vec::new();
        while !rest.is_empty() {
            let metadata = Metadata::decode(rest).unwrap();
            let (record, after) = rest.split_at(METADATA_LEN + metadata.payload_len as usize);
            rest = after;
            if metadata.kind == BEGIN {
                assert_eq!(begin(metadata.micros, VERSION), record);
                continue;
            }
            let access = Access::decode(metadata.kind, &record[METADATA_LEN..]).unwrap();
            let mut again = Vec::new();
            assert!(access.encode(metadata.micros, &mut again));
            assert_eq!(again, record);
            seen.push(access);
        }
        assert_eq!(seen.len(), 35);
        let first_get = seen[..3].iter().map(|access| (access.block, access.is_hit));
        let expected = [
            (TracedBlock::Filter, true),
            (TracedBlock::Index, true),
            (TracedBlock::Data, false),
        ];
        assert!(first_get.eq(expected), "{seen:?}");
        let found = seen[2].get.unwrap();
        assert_eq!((seen[2].file, seen[2].level, found.id), (9, 0, 1));
        assert_eq!(found.key, b"key00100\x01e\0\0\0\0\0\0");
        let search = BlockSearch {
            entry_size: 8 + 8 + 35,
            keys_in_block: 89,
            is_found: true,
        };
        assert_eq!(found.search, Some(search));
        let batch = seen
            .iter()
            .filter(|one| one.caller == CacheCaller::MultiGet);
        assert!(batch.clone().all(|one| one.get.unwrap().at_snapshot));
        assert_eq!(batch.count(), 4);
        let by = |caller| seen.iter().filter(move |one| one.caller == caller).count();
        let others = [
            CacheCaller::Iterator,
            CacheCaller::Flush,
            CacheCaller::Compaction,
        ];
        assert_eq!(others.map(by), [5, 1, 7]);
        assert!(
            seen.iter()
                .filter(|one| one.level == 6)
                .all(|one| one.file == 12)
        );
    }

    #[test]
    fn other_kinds_and_callers_are_not_supported() {
        let bytes = record(&access());
        let payload = &bytes[METADATA_LEN..];
        for kind in [0, 1, 2, 4, 6, 12, 13, 255] {
            assert!(Access::decode(kind, payload).unwrap_err().unsupported);
        }
        let mut unknown = payload.to_vec();
        let at = unknown.len() - 3;
        for number in [0, 15, 255] {
            unknown[at] = number;
            let error = Access::decode(7, &unknown).unwrap_err();
            assert!(error.unsupported && error.at == at, "{error:?}");
        }
    }

    fn one_of<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
        prop::sample::select(all)
    }

    proptest! {
        #[test]
        fn lookups_are_decoded_as_they_were_encoded(
            block in one_of(&TracedBlock::ALL),
            caller in one_of(&CacheCaller::ALL),
            bytes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 3),
            numbers in any::<[u64; 6]>(),
            flags in any::<[bool; 4]>(),
            level in any::<u32>(),
        ) {
            let search = BlockSearch {
                entry_size: numbers[4],
                keys_in_block: numbers[5],
                is_found: flags[3],
            };
            let get = TracedGet {
                id: numbers[3],
                at_snapshot: flags[2],
                key: &bytes[2],
                search: (block == TracedBlock::Data).then_some(search),
            };
            let access = Access {
                block_key: &bytes[0],
                block,
                block_size: numbers[0],
                family: numbers[1],
                family_name: &bytes[1],
                level,
                file: numbers[2],
                caller,
                is_hit: flags[0],
                no_insert: flags[1],
                get: caller.is_get().then_some(get),
            };
            let bytes = record(&access);
            let payload = &bytes[METADATA_LEN..];
            prop_assert_eq!(Access::decode(bytes[8], payload), Ok(access));
            for len in 0..payload.len() {
                prop_assert!(Access::decode(bytes[8], &payload[..len]).is_err(), "{}", len);
            }
        }

        #[test]
        fn arbitrary_bytes_are_decoded_or_rejected(kind in 5_u8..15, bytes: Vec<u8>) {
            if let Ok(access) = Access::decode(kind, &bytes) {
                let again = record(&access);
                prop_assert_eq!(Access::decode(kind, &again[METADATA_LEN..]), Ok(access));
            }
        }
    }
}
