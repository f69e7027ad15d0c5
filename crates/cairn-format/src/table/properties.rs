//! Table properties: named facts that the writer of a table records in it (formats.md 10.3).
//!
//! The block has one restart point and is never compressed. Most numbers are varint64. Unknown properties are
//! kept in [`Properties::others`], so that those of user-defined collectors are preserved.

use std::collections::BTreeMap;

use cairn_types::{Decoded, Malformed, SequenceNumber};

use crate::coding::{Input, put_varint64};
use crate::table::meta::{Entries, Restarts, encode_entries};
use crate::table::shared_text::SharedText;

/// The index type. The numbers are part of the file format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum IndexKind {
    /// One index block.
    #[default]
    Binary = 0,
    /// A single index block, and a hash table from prefixes to data blocks.
    Hash = 1,
    /// Index partitions under a top-level index.
    TwoLevel = 2,
    /// A single index block whose entries include the first key of their data block.
    FirstKey = 3,
}

impl IndexKind {
    /// The type with this number, or `None`.
    #[must_use]
    pub fn from_u32(number: u32) -> Option<IndexKind> {
        Some(match number {
            0 => IndexKind::Binary,
            1 => IndexKind::Hash,
            2 => IndexKind::TwoLevel,
            3 => IndexKind::FirstKey,
            _ => return None,
        })
    }
}

/// The context in which a table was written. The numbers are part of the file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Origin {
    /// An LSM tree, above the bottommost level.
    Tree = 1,
    /// The bottommost level of an LSM tree.
    Bottom = 2,
    /// An external file.
    External = 3,
}

impl Origin {
    /// The property value of a table written for `level`, if known.
    #[must_use]
    pub fn lsm_info(self, level: Option<u8>) -> u64 {
        const UNKNOWN: u64 = 0xff;
        let level = match self {
            Origin::External => 0,
            _ => level.map_or(UNKNOWN, u64::from),
        };
        level | (self as u64) << 8
    }
}

const DELETED_KEYS: &[u8] = b"rocksdb.deleted.keys";
const MERGE_OPERANDS: &[u8] = b"rocksdb.merge.operands";
const INDEX_TYPE: &[u8] = b"rocksdb.block.based.table.index.type";
const WHOLE_KEY_FILTERING: &[u8] = b"rocksdb.block.based.table.whole.key.filtering";
const PREFIX_FILTERING: &[u8] = b"rocksdb.block.based.table.prefix.filtering";
const DECOUPLED_FILTERS: &[u8] = b"rocksdb.block.based.table.decoupled.partitioned.filters";
const EXTERNAL_VERSION: &[u8] = b"rocksdb.external_sst_file.version";
const GLOBAL_SEQNO: &[u8] = b"rocksdb.external_sst_file.global_seqno";
const TIMESTAMPS_PERSISTED: &[u8] = b"rocksdb.user.defined.timestamps.persisted";
const TIMESTAMP_MIN: &[u8] = b"rocksdb.timestamp_min";
const TIMESTAMP_MAX: &[u8] = b"rocksdb.timestamp_max";
const SEQNO_TIME_MAP: &[u8] = b"rocksdb.seqno.time.map";
const EMBEDDED_BLOBS: &[u8] = b"rocksdb.embedded.blob.stats";

/// Whether a number is written if it is 0.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zero {
    Written,
    Omitted,
}

macro_rules! properties {
    (
        numbers { $($(#[$ndoc:meta])* $number:ident = $nname:literal, $zero:ident;)* }
        texts { $($(#[$tdoc:meta])* $text:ident = $tname:literal;)* }
    ) => {
        /// The properties of a table.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Properties {
            $($(#[$ndoc])* pub $number: u64,)*
            $($(#[$tdoc])* pub $text: SharedText,)*
            /// The index type; required since format version 2.
            pub index_kind: Option<IndexKind>,
            /// True if filters include whole keys. `None` in old files, whose filters always do.
            pub whole_key_filtering: Option<bool>,
            /// True if filters include prefixes. `None` in old files, whose filters always do.
            pub prefix_filtering: Option<bool>,
            /// True if filter partitions are independent of index partitions.
            pub decoupled_partitioned_filters: Option<bool>,
            /// The version of an external file (2); `None` for files written by a database.
            pub external_version: Option<u32>,
            /// The sequence number written into an external file by ingestion.
            pub global_seqno: Option<SequenceNumber>,
            /// The offset of that number in the file, which the reader of the file sets; 0 if there is none.
            pub global_seqno_at: u64,
            /// True if timestamps were stripped from the keys although the column family's keys have them.
            pub timestamps_stripped: bool,
            /// The smallest and largest timestamp of the keys, if known.
            pub timestamps: Option<(Vec<u8>, Vec<u8>)>,
            /// The encoded mapping from sequence numbers to times.
            pub seqno_time_map: Vec<u8>,
            /// The number and size of embedded blobs.
            pub embedded_blobs: Option<(u64, u64)>,
            /// All other properties.
            pub others: BTreeMap<Vec<u8>, Vec<u8>>,
        }

        impl Properties {
            /// Decodes a property that is a single number or text.
            fn take_simple(&mut self, name: &[u8], value: &[u8]) -> Decoded<bool> {
                let mark = mark(name);
                $(if mark == const { self::mark($nname.as_bytes()) } && name == $nname.as_bytes() {
                    self.$number = whole(value, Input::varint64)?;
                    return Ok(true);
                })*
                $(if mark == const { self::mark($tname.as_bytes()) } && name == $tname.as_bytes() {
                    self.$text = SharedText::from(&*String::from_utf8_lossy(value));
                    return Ok(true);
                })*
                Ok(false)
            }

            fn put_simple(&self, rows: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
                $(if self.$number != 0 || Zero::$zero == Zero::Written {
                    put_number(rows, $nname.as_bytes(), self.$number);
                })*
                $(if !self.$text.is_empty() {
                    rows.insert($tname.as_bytes().to_vec(), self.$text.as_bytes().to_vec());
                })*
            }

            /// The heap memory of the texts that no other table shares, in bytes.
            fn text_memory(&self) -> usize {
                let texts = [$(&self.$text),*];
                texts.iter().map(|text| text.memory_usage()).sum()
            }

            /// All numbers and texts by name, for display.
            #[must_use]
            pub fn rows(&self) -> Vec<(&'static str, String)> {
                vec![
                    $(($nname, self.$number.to_string()),)*
                    $(($tname, self.$text.to_string()),)*
                ]
            }
        }
    };
}

impl Properties {
    /// Returns the heap memory of the properties, in bytes, without texts that other tables share.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        let timestamps = self.timestamps.as_ref();
        let timestamps = timestamps.map_or(0, |(least, most)| least.capacity() + most.capacity());
        let others = self.others.iter();
        let others = others
            .map(|(name, value)| 2 * size_of::<Vec<u8>>() + name.capacity() + value.capacity());
        self.text_memory() + timestamps + self.seqno_time_map.capacity() + others.sum::<usize>()
    }
}

properties! {
    numbers {
        /// The size of all data blocks, including trailers.
        data_size = "rocksdb.data.size", Written;
        /// The size of the index.
        index_size = "rocksdb.index.size", Written;
        /// The number of index partitions.
        index_partitions = "rocksdb.index.partitions", Omitted;
        /// The size of the top-level index.
        top_level_index_size = "rocksdb.top-level.index.size", Omitted;
        /// True if index keys are user keys.
        index_key_is_user_key = "rocksdb.index.key.is.user.key", Written;
        /// True if index handles are delta-encoded.
        index_value_is_delta_encoded = "rocksdb.index.value.is.delta.encoded", Written;
        /// The size of the filter.
        filter_size = "rocksdb.filter.size", Written;
        /// The total size of all internal keys.
        raw_key_size = "rocksdb.raw.key.size", Written;
        /// The total size of all values.
        raw_value_size = "rocksdb.raw.value.size", Written;
        /// The number of data blocks.
        num_data_blocks = "rocksdb.num.data.blocks", Written;
        /// The number of entries, including range tombstones.
        num_entries = "rocksdb.num.entries", Written;
        /// The number of keys and prefixes in the filter.
        num_filter_entries = "rocksdb.num.filter_entries", Written;
        /// The number of deletions, including range tombstones.
        num_deletions = "rocksdb.deleted.keys", Written;
        /// The number of merge operands.
        num_merge_operands = "rocksdb.merge.operands", Written;
        /// The number of range tombstones.
        num_range_deletions = "rocksdb.num.range-deletions", Written;
        /// The format version, if a newer writer recorded it.
        format_version = "rocksdb.format.version", Written;
        /// The length of all keys, or 0 if it varies.
        fixed_key_len = "rocksdb.fixed.key.length", Written;
        /// The column family id.
        column_family_id = "rocksdb.column.family.id", Written;
        /// The original write time of the oldest data, in seconds since 1970.
        creation_time = "rocksdb.creation.time", Written;
        /// The write time of the oldest key, in seconds since 1970.
        oldest_key_time = "rocksdb.oldest.key.time", Written;
        /// The write time of the newest key, in seconds since 1970.
        newest_key_time = "rocksdb.newest.key.time", Omitted;
        /// The creation time of the file, in seconds since 1970.
        file_creation_time = "rocksdb.file.creation.time", Omitted;
        /// The file number at creation.
        original_file_number = "rocksdb.original.file.number", Written;
        /// The offset after the data blocks.
        tail_start_offset = "rocksdb.tail.start.offset", Omitted;
        /// The largest sequence number.
        key_largest_seqno = "rocksdb.key.largest.seqno", Omitted;
        /// The smallest sequence number.
        key_smallest_seqno = "rocksdb.key.smallest.seqno", Omitted;
        /// The restart interval of data blocks.
        data_block_restart_interval = "rocksdb.data.block.restart.interval", Omitted;
        /// The restart interval of index blocks.
        index_block_restart_interval = "rocksdb.index.block.restart.interval", Omitted;
        /// True if data blocks store values separately from keys.
        separate_key_value_in_data_block = "rocksdb.separate.key.value.in.data.block", Omitted;
        /// The number of index blocks with uniformly distributed keys.
        num_uniform_blocks = "rocksdb.num.uniform.blocks", Omitted;
        /// The number of data blocks rejected by compression. Written even if it is 0, unlike in
        /// RocksDB: otherwise compressing better would change the size of the properties.
        num_compression_rejected = "rocksdb.num.data.blocks.compression.rejected", Written;
        /// The number of data blocks that bypassed compression.
        num_compression_bypassed = "rocksdb.num.data.blocks.compression.bypassed", Omitted;
        /// True if a user-defined index is the primary index.
        udi_is_primary_index = "rocksdb.udi.is.primary.index", Omitted;
        /// The uncompressed size of the data blocks, without trailers.
        uncompressed_data_size = "rocksdb.uncompressed.data.size", Omitted;
        /// The context at creation: the level in bits 0 to 7 (255 if unknown), and the [`Origin`] in bits 8
        /// and 9.
        lsm_info_at_creation = "rocksdb.lsm.info.at.creation", Omitted;
        /// The size estimated for a slow codec, from samples.
        slow_compression_estimate = "rocksdb.sample_for_compression.slow.data.size", Omitted;
        /// The size estimated for a fast codec, from samples.
        fast_compression_estimate = "rocksdb.sample_for_compression.fast.data.size", Omitted;
    }
    texts {
        /// The name of the filter policy.
        filter_policy = "rocksdb.filter.policy";
        /// The name of the comparator.
        comparator = "rocksdb.comparator";
        /// The name of the merge operator, or `nullptr`.
        merge_operator = "rocksdb.merge.operator";
        /// The name of the prefix extractor, or `nullptr`.
        prefix_extractor = "rocksdb.prefix.extractor.name";
        /// The names of the property collectors, in brackets.
        property_collectors = "rocksdb.property.collectors";
        /// The name of the column family.
        column_family_name = "rocksdb.column.family.name";
        /// The name of the codec; since format version 7, that of the compression manager and the
        /// codecs used.
        compression = "rocksdb.compression";
        /// The options of the codec.
        compression_options = "rocksdb.compression_options";
        /// The id of the database that wrote the file.
        db_id = "rocksdb.creating.db.identity";
        /// The id of the session that wrote the file.
        db_session_id = "rocksdb.creating.session.identity";
        /// The name of the host that wrote the file.
        db_host_id = "rocksdb.creating.host.identity";
    }
}

/// A digest that distinguishes most names. Without it, each of a table's fifty or so properties
/// would be compared to all known names.
const fn mark(name: &[u8]) -> u64 {
    match name.last_chunk() {
        Some(end) => u64::from_le_bytes(*end).wrapping_add(name.len() as u64),
        None => 0,
    }
}

/// Decodes `value` as a single item.
fn whole<'a, T>(value: &'a [u8], read: impl FnOnce(&mut Input<'a>) -> Decoded<T>) -> Decoded<T> {
    let mut input = Input::new(value);
    let read = read(&mut input)?;
    input.finish("property is longer than its value")?;
    Ok(read)
}

fn put_number(rows: &mut BTreeMap<Vec<u8>, Vec<u8>>, name: &[u8], number: u64) {
    let mut value = Vec::new();
    put_varint64(&mut value, number);
    rows.insert(name.to_vec(), value);
}

/// A boolean, encoded as the text "0" or "1".
fn boolean(value: &[u8]) -> bool {
    value == b"1"
}

impl Properties {
    /// Decodes a properties block.
    ///
    /// # Errors
    ///
    /// The offset of the malformed entry or value in the block.
    pub fn decode(block: &[u8]) -> Decoded<Properties> {
        let mut properties = Properties::default();
        let mut limits = (None, None);
        for entry in Entries::new(block)? {
            let entry = entry?;
            properties
                .take_row(&entry.key, entry.value, &mut limits)
                .map_err(|error| error.shifted(entry.value_at))?;
        }
        properties.set_timestamps(limits);
        Ok(properties)
    }

    /// Sets the property `name` to a value that is encoded as in a properties block. `limits` collects the smallest and
    /// the largest timestamp, for [`Properties::set_timestamps`].
    pub(crate) fn take_row(
        &mut self,
        name: &[u8],
        value: &[u8],
        limits: &mut (Option<Vec<u8>>, Option<Vec<u8>>),
    ) -> Decoded<()> {
        match name {
            TIMESTAMP_MIN => limits.0 = Some(value.to_vec()),
            TIMESTAMP_MAX => limits.1 = Some(value.to_vec()),
            name => self.take(name, value)?,
        }
        Ok(())
    }

    pub(crate) fn set_timestamps(&mut self, limits: (Option<Vec<u8>>, Option<Vec<u8>>)) {
        if let (Some(min), Some(max)) = limits {
            self.timestamps = Some((min, max));
        }
    }

    fn take(&mut self, name: &[u8], value: &[u8]) -> Decoded<()> {
        if self.take_simple(name, value)? {
            return Ok(());
        }
        match name {
            INDEX_TYPE => {
                let number = whole(value, Input::fixed32)?;
                let kind = IndexKind::from_u32(number).ok_or_else(|| {
                    Malformed::unsupported(0, format!("index type {number} (0 to 3 are known)"))
                })?;
                self.index_kind = Some(kind);
            }
            WHOLE_KEY_FILTERING => self.whole_key_filtering = Some(boolean(value)),
            PREFIX_FILTERING => self.prefix_filtering = Some(boolean(value)),
            DECOUPLED_FILTERS => self.decoupled_partitioned_filters = Some(boolean(value)),
            EXTERNAL_VERSION => self.external_version = Some(whole(value, Input::fixed32)?),
            GLOBAL_SEQNO => {
                self.global_seqno = Some(SequenceNumber(whole(value, Input::fixed64)?));
            }
            TIMESTAMPS_PERSISTED => {
                self.timestamps_stripped = whole(value, Input::varint64)? == 0;
            }
            SEQNO_TIME_MAP => self.seqno_time_map = value.to_vec(),
            EMBEDDED_BLOBS => {
                let both = |input: &mut Input<'_>| Ok((input.varint64()?, input.varint64()?));
                self.embedded_blobs = Some(whole(value, both)?);
            }
            _ => {
                self.others.insert(name.to_vec(), value.to_vec());
            }
        }
        Ok(())
    }

    /// Encodes the properties as a block.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut rows = self.collected();
        self.put_simple(&mut rows);
        let mut put = |name: &[u8], value: &[u8]| {
            rows.insert(name.to_vec(), value.to_vec());
        };
        if self.timestamps_stripped {
            put(TIMESTAMPS_PERSISTED, &[0]);
        }
        if !self.seqno_time_map.is_empty() {
            put(SEQNO_TIME_MAP, &self.seqno_time_map);
        }
        let rows = rows.iter().map(|(name, value)| (&name[..], &value[..]));
        encode_entries(rows, Restarts::First)
    }

    /// The properties that RocksDB shows as user-collected ones of a file that it has read: [`Properties::collected`], and the
    /// numbers of deletions and merge operands, encoded as in the file.
    #[must_use]
    pub fn user_collected(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut rows = self.collected();
        put_number(&mut rows, DELETED_KEYS, self.num_deletions);
        put_number(&mut rows, MERGE_OPERANDS, self.num_merge_operands);
        rows
    }

    /// The properties that RocksDB treats as those of property collectors, of which it has some itself, by name, as in a
    /// properties block.
    #[must_use]
    pub fn collected(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut rows = self.others.clone();
        let mut put = |name: &[u8], value: &[u8]| {
            rows.insert(name.to_vec(), value.to_vec());
        };
        if let Some(kind) = self.index_kind {
            put(INDEX_TYPE, &(kind as u32).to_le_bytes());
        }
        let switches = [
            (WHOLE_KEY_FILTERING, self.whole_key_filtering),
            (PREFIX_FILTERING, self.prefix_filtering),
            (DECOUPLED_FILTERS, self.decoupled_partitioned_filters),
        ];
        for (name, switch) in switches {
            match switch {
                Some(true) => put(name, b"1"),
                Some(false) => put(name, b"0"),
                None => {}
            }
        }
        if let Some(version) = self.external_version {
            put(EXTERNAL_VERSION, &version.to_le_bytes());
        }
        if let Some(seq) = self.global_seqno {
            put(GLOBAL_SEQNO, &seq.0.to_le_bytes());
        }
        if let Some((min, max)) = &self.timestamps {
            put(TIMESTAMP_MIN, min);
            put(TIMESTAMP_MAX, max);
        }
        if let Some((count, bytes)) = self.embedded_blobs {
            let mut value = Vec::new();
            put_varint64(&mut value, count);
            put_varint64(&mut value, bytes);
            put(EMBEDDED_BLOBS, &value);
        }
        rows
    }

    /// True for an external file whose entries all have the same sequence number, which the file
    /// itself may not record.
    #[must_use]
    pub fn has_global_seqno(&self) -> bool {
        self.external_version.is_some_and(|version| version >= 2)
    }

    /// The range of the global sequence number's value in a properties block. RocksDB used to
    /// overwrite these 8 bytes in place without updating the checksum, so a checksum mismatch is
    /// retried with zeros in their place.
    #[must_use]
    pub fn find_global_seqno(block: &[u8]) -> Option<std::ops::Range<usize>> {
        let entries = Entries::new(block).ok()?;
        let entry = entries
            .map_while(Decoded::ok)
            .find(|entry| *entry.key == *GLOBAL_SEQNO && entry.value.len() == 8)?;
        Some(entry.value_at..entry.value_at + 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Properties {
        Properties {
            num_entries: 300,
            data_size: 1 << 40,
            comparator: "leveldb.BytewiseComparator".into(),
            index_kind: Some(IndexKind::TwoLevel),
            whole_key_filtering: Some(true),
            prefix_filtering: Some(false),
            external_version: Some(2),
            global_seqno: Some(SequenceNumber(77)),
            timestamps_stripped: true,
            timestamps: Some((vec![0; 8], vec![1; 8])),
            embedded_blobs: Some((3, 4000)),
            others: BTreeMap::from([(b"my.property".to_vec(), b"x".to_vec())]),
            ..Properties::default()
        }
    }

    #[test]
    fn names_with_long_shared_prefixes_round_trip() {
        let name = |n: u32| format!("{}{n:05}", "x".repeat(400)).into_bytes();
        let properties = Properties {
            others: (0..2000).map(|n| (name(n), Vec::new())).collect(),
            ..sample()
        };
        let block = properties.encode();
        assert!(block.len() < 2000 * 300 && block.len() > 2000 * 250);
        assert_eq!(Properties::decode(&block).unwrap(), properties);
    }

    #[test]
    fn properties_round_trip() {
        let block = sample().encode();
        assert_eq!(Properties::decode(&block).unwrap(), sample());
        let at = Properties::find_global_seqno(&block).unwrap();
        assert_eq!(block[at], 77u64.to_le_bytes());
    }

    #[test]
    fn user_collected_properties_include_those_of_the_engines_collectors() {
        let properties = Properties {
            num_merge_operands: 300,
            index_kind: Some(IndexKind::Binary),
            prefix_filtering: Some(false),
            ..sample()
        };
        let all = properties.user_collected();
        let value = |name: &[u8]| all.get(name).map(Vec::as_slice);
        assert_eq!(value(b"my.property"), Some(&b"x"[..]));
        assert_eq!(value(INDEX_TYPE), Some(&[0; 4][..]));
        assert_eq!(value(PREFIX_FILTERING), Some(&b"0"[..]));
        assert_eq!(value(MERGE_OPERANDS), Some(&[0xac, 2][..]));
        assert_eq!(value(b"rocksdb.comparator"), None);
    }

    #[test]
    fn an_unknown_index_is_not_supported() {
        let mut properties = sample();
        properties.index_kind = None;
        properties
            .others
            .insert(INDEX_TYPE.to_vec(), vec![9, 0, 0, 0]);
        let error = Properties::decode(&properties.encode()).unwrap_err();
        assert!(error.unsupported);
    }

    proptest! {
        #[test]
        fn damage_never_panics(at: prop::sample::Index, bits in 1u8..) {
            let mut block = sample().encode();
            let at = at.index(block.len());
            block[at] ^= bits;
            let _ = Properties::decode(&block);
            let _ = Properties::find_global_seqno(&block);
        }
    }
}
