//! Tables in a version edit.
//!
//! ```text
//! tag 7     varint32 level, varint64 number,                   varint64 size, smallest, largest
//! tag 100   the same, then varint64 smallest and largest sequence number
//! tag 102   varint32 level, varint64 number, varint32 path id, varint64 size, the rest as in 100
//! tag 103   as tag 100, then fields: (varint32 tag, bytes)*, varint32 1
//! ```
//!
//! Only tag 103 is written.

use cairn_types::{Decoded, FileNumber, Malformed, SequenceNumber};

use super::file_details::{
    CreationTimes, FileChecksum, NO_CHECKSUM_FUNCTION, SequenceRange, Timestamps,
};
use super::tag::{self, file as field};
use crate::coding::{Input, put_fixed64, put_lps, put_varint32, put_varint64, varint_len};
use crate::key::InternalKey;

/// The maximum path id.
const MAX_PATH_ID: u32 = 3;

/// A table added to the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// The level.
    pub level: u32,
    /// The file number.
    pub number: FileNumber,
    /// The index of its path among the column family's paths.
    pub path_id: u32,
    /// The size in bytes.
    pub size: u64,
    /// The smallest key, including starts of range tombstones.
    pub smallest: InternalKey,
    /// The largest key; exclusive if it is the end of a range tombstone.
    pub largest: InternalKey,
    /// The sequence numbers of its entries.
    pub seqs: SequenceRange,
    /// True if it is marked for compaction.
    pub marked_for_compaction: bool,
    /// The oldest blob file referenced.
    pub oldest_blob_file: Option<FileNumber>,
    /// The times at which the file and its data were created.
    pub times: CreationTimes,
    /// The checksum of the whole file.
    pub checksum: FileChecksum,
    /// The temperature, in RocksDB's numbers; zero if unknown.
    pub temperature: u8,
    /// The user-defined timestamps of its keys.
    pub timestamps: Timestamps,
    /// The internal unique id (see [`crate::id`]); zeros if unknown.
    pub unique_id: [u64; 2],
    /// The flush count of the column family when its data was written; zero if unknown.
    pub epoch_number: u64,
    /// The estimated size of data in lower levels that its range tombstones delete.
    pub compensated_range_deletion_size: u64,
    /// The size of the part after the data blocks; zero if unknown.
    pub tail_size: u64,
}

impl NewFile {
    /// Describes a table of `size` bytes with keys in `keys` and sequence numbers in `seqs`, both
    /// inclusive. Everything else is unknown.
    #[must_use]
    pub fn new(
        level: u32,
        number: FileNumber,
        size: u64,
        keys: (InternalKey, InternalKey),
        seqs: (SequenceNumber, SequenceNumber),
    ) -> NewFile {
        NewFile {
            level,
            number,
            path_id: 0,
            size,
            smallest: keys.0,
            largest: keys.1,
            seqs: SequenceRange {
                smallest: seqs.0,
                largest: seqs.1,
            },
            marked_for_compaction: false,
            oldest_blob_file: None,
            times: CreationTimes::default(),
            checksum: FileChecksum::default(),
            temperature: 0,
            timestamps: Timestamps::default(),
            unique_id: [0, 0],
            epoch_number: 0,
            compensated_range_deletion_size: 0,
            tail_size: 0,
        }
    }

    /// Decodes the body of one of the four tags. `min_log` receives a field that belongs to the
    /// whole edit but is encoded with a file.
    pub(super) fn decode(
        tag: u32,
        input: &mut Input<'_>,
        min_log: &mut Option<FileNumber>,
    ) -> Decoded<NewFile> {
        let level = input.varint32()?;
        let number = FileNumber(input.varint64()?);
        let path_id = match tag {
            tag::NEW_FILE3 => path_id(input.at(), input.varint32()?)?,
            _ => 0,
        };
        let size = input.varint64()?;
        let keys = (internal_key(input)?, internal_key(input)?);
        let seqs = match tag {
            tag::NEW_FILE => (SequenceNumber::ZERO, SequenceNumber::ZERO),
            _ => (sequence(input)?, sequence(input)?),
        };
        let mut file = NewFile::new(level, number, size, keys, seqs);
        file.path_id = path_id;
        if tag == tag::NEW_FILE4 {
            while file.decode_field(input, min_log)? {}
        }
        if file.checksum.function == NO_CHECKSUM_FUNCTION {
            // A checksum without a function has no meaning and is not written again.
            file.checksum.value.clear();
        }
        Ok(file)
    }

    /// Decodes a field. Returns false after the last one.
    fn decode_field(
        &mut self,
        input: &mut Input<'_>,
        min_log: &mut Option<FileNumber>,
    ) -> Decoded<bool> {
        let at = input.at();
        let tag = input.varint32()?;
        if tag == field::END {
            return Ok(false);
        }
        let bytes = input.lps()?;
        let start = input.at() - bytes.len();
        let mut value = Input::new(bytes);
        let shift = |error: Malformed| error.shifted(start);
        match tag {
            field::NEED_COMPACTION => self.marked_for_compaction = byte(start, bytes)? == 1,
            field::MIN_LOG_NUMBER_TO_KEEP => {
                *min_log = Some(FileNumber(value.fixed64().map_err(shift)?));
            }
            field::OLDEST_BLOB_FILE => {
                let number = value.varint64().map_err(shift)?;
                self.oldest_blob_file = (number != 0).then_some(FileNumber(number));
            }
            field::OLDEST_ANCESTER_TIME => {
                self.times.oldest_ancester = value.varint64().map_err(shift)?;
            }
            field::FILE_CREATION_TIME => self.times.file = value.varint64().map_err(shift)?,
            field::CHECKSUM => self.checksum.value = bytes.to_vec(),
            field::CHECKSUM_FUNCTION => {
                self.checksum.function =
                    super::decode::utf8(start, bytes, "checksum function")?.into();
            }
            field::TEMPERATURE => self.temperature = byte(start, bytes)?,
            field::MIN_TIMESTAMP => self.timestamps.min = bytes.to_vec(),
            field::MAX_TIMESTAMP => self.timestamps.max = bytes.to_vec(),
            field::UNIQUE_ID => {
                self.unique_id = [
                    value.fixed64().map_err(shift)?,
                    value.fixed64().map_err(shift)?,
                ];
            }
            field::EPOCH_NUMBER => self.epoch_number = value.varint64().map_err(shift)?,
            field::COMPENSATED_RANGE_DELETION_SIZE => {
                self.compensated_range_deletion_size = value.varint64().map_err(shift)?;
            }
            field::TAIL_SIZE => self.tail_size = value.varint64().map_err(shift)?,
            field::TIMESTAMPS_PERSISTED => self.timestamps.persisted = byte(start, bytes)? == 1,
            field::PATH_ID => self.path_id = path_id(start, u32::from(byte(start, bytes)?))?,
            tag if tag & field::MUST_KNOW != 0 => {
                return Err(Malformed::unsupported(
                    at,
                    format!("field {tag} of a table in a version edit"),
                ));
            }
            // Opaque: data that lets RocksDB open the file faster, and fields added later.
            field::OPEN_METADATA => {}
            _ => {}
        }
        Ok(true)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint32(out, tag::NEW_FILE4);
        put_varint32(out, self.level);
        put_varint64(out, self.number.0);
        put_varint64(out, self.size);
        put_lps(out, self.smallest.as_bytes());
        put_lps(out, self.largest.as_bytes());
        put_varint64(out, self.seqs.smallest.0);
        put_varint64(out, self.seqs.largest.0);
        self.encode_fields(out);
        put_varint32(out, field::END);
    }

    fn encode_fields(&self, out: &mut Vec<u8>) {
        put_number(out, field::OLDEST_ANCESTER_TIME, self.times.oldest_ancester);
        put_number(out, field::FILE_CREATION_TIME, self.times.file);
        if self.epoch_number != 0 {
            put_number(out, field::EPOCH_NUMBER, self.epoch_number);
        }
        if self.checksum.function != NO_CHECKSUM_FUNCTION {
            put_bytes(out, field::CHECKSUM, &self.checksum.value);
            put_bytes(
                out,
                field::CHECKSUM_FUNCTION,
                self.checksum.function.as_bytes(),
            );
        }
        if self.path_id != 0 {
            let id = u8::try_from(self.path_id).expect("a family has at most four paths");
            put_bytes(out, field::PATH_ID, &[id]);
        }
        if self.temperature != 0 {
            put_bytes(out, field::TEMPERATURE, &[self.temperature]);
        }
        if self.marked_for_compaction {
            put_bytes(out, field::NEED_COMPACTION, &[1]);
        }
        if let Some(number) = self.oldest_blob_file {
            put_number(out, field::OLDEST_BLOB_FILE, number.0);
        }
        if self.unique_id != [0, 0] {
            put_varint32(out, field::UNIQUE_ID);
            put_varint32(out, 16);
            put_fixed64(out, self.unique_id[0]);
            put_fixed64(out, self.unique_id[1]);
        }
        if self.compensated_range_deletion_size != 0 {
            put_number(
                out,
                field::COMPENSATED_RANGE_DELETION_SIZE,
                self.compensated_range_deletion_size,
            );
        }
        if self.tail_size != 0 {
            put_number(out, field::TAIL_SIZE, self.tail_size);
        }
        if !self.timestamps.persisted {
            put_bytes(out, field::TIMESTAMPS_PERSISTED, &[0]);
        }
        if !self.timestamps.min.is_empty() {
            put_bytes(out, field::MIN_TIMESTAMP, &self.timestamps.min);
        }
        if !self.timestamps.max.is_empty() {
            put_bytes(out, field::MAX_TIMESTAMP, &self.timestamps.max);
        }
    }
}

fn put_bytes(out: &mut Vec<u8>, tag: u32, bytes: &[u8]) {
    put_varint32(out, tag);
    put_lps(out, bytes);
}

fn put_number(out: &mut Vec<u8>, tag: u32, number: u64) {
    put_varint32(out, tag);
    // At most ten.
    put_varint32(out, varint_len(number) as u32);
    put_varint64(out, number);
}

fn byte(at: usize, bytes: &[u8]) -> Decoded<u8> {
    match bytes {
        [byte] => Ok(*byte),
        _ => Err(Malformed::mismatch(
            at,
            "length of a one-byte field of a table",
            1,
            bytes.len(),
        )),
    }
}

fn path_id(at: usize, id: u32) -> Decoded<u32> {
    if id > MAX_PATH_ID {
        return Err(Malformed::mismatch(at, "path of a table", "0 to 3", id));
    }
    Ok(id)
}

fn sequence(input: &mut Input<'_>) -> Decoded<SequenceNumber> {
    let at = input.at();
    let number = input.varint64()?;
    if number > SequenceNumber::MAX.0 {
        return Err(Malformed::mismatch(
            at,
            "sequence number",
            "at most 2^56 - 1",
            number,
        ));
    }
    Ok(SequenceNumber(number))
}

/// A length-prefixed internal key.
pub(super) fn internal_key(input: &mut Input<'_>) -> Decoded<InternalKey> {
    let bytes = input.lps()?;
    let start = input.at() - bytes.len();
    InternalKey::decode(bytes).map_err(|error| error.shifted(start))
}
