//! What an ingestion has to know about a table, as bytes: hosts that ingest a table need not open it.
//!
//! ```text
//! offset  size  field
//!      0     n  members as text: file_size=N;smallest_internal_key=HEX;largest_internal_key=HEX;table_properties=HEX;
//!      n     4  masked CRC-32C of the text, little-endian
//! ```
//!
//! The members may be in any order, and all of them are required; unknown ones are skipped. `table_properties` is, once
//! more in hexadecimal, the text form of the properties (`table/properties_text.rs`). The form is that of RocksDB's
//! `SerializePreparedFileInfo`.

use cairn_types::{Decoded, Malformed, SequenceNumber};

use crate::checksum::{crc32c, mask};
use crate::key::InternalKey;
use crate::record_text::{Members, Value, put_hex};
use crate::table::properties::Properties;
use crate::table::properties_text;

const FILE_SIZE: &str = "file_size";
const SMALLEST: &str = "smallest_internal_key";
const LARGEST: &str = "largest_internal_key";
const PROPERTIES: &str = "table_properties";

/// The number of an unknown sequence number in the text.
const UNKNOWN: u64 = u64::MAX;

/// The description of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedFile {
    /// Length in bytes.
    pub file_size: u64,
    /// Lower bound of its keys and range tombstones, without timestamp if the file has none.
    pub smallest: InternalKey,
    /// Upper bound of its keys and range tombstones.
    pub largest: InternalKey,
    /// The smallest and largest sequence number, if known.
    pub seqs: Option<(SequenceNumber, SequenceNumber)>,
    /// The properties. Their own sequence numbers are those above, or 0.
    pub properties: Properties,
}

impl PreparedFile {
    /// Returns the encoded description.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut properties = self.properties.clone();
        let (smallest, largest) = match self.seqs {
            Some((smallest, largest)) => (smallest.0, largest.0),
            None => (UNKNOWN, UNKNOWN),
        };
        (properties.key_smallest_seqno, properties.key_largest_seqno) = (smallest, largest);
        let mut text = format!("{FILE_SIZE}={};", self.file_size);
        let properties = properties_text::print(&properties);
        for (name, bytes) in [
            (SMALLEST, self.smallest.as_bytes()),
            (LARGEST, self.largest.as_bytes()),
            (PROPERTIES, properties.as_bytes()),
        ] {
            text.extend([name, "="]);
            put_hex(bytes, &mut text);
            text.push(';');
        }
        let checksum = mask(crc32c(text.as_bytes()));
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes a description.
    ///
    /// # Errors
    ///
    /// The offset of the member that is invalid or missing; a wrong checksum.
    pub fn decode(bytes: &[u8]) -> Decoded<PreparedFile> {
        let (text, checksum) = bytes
            .split_last_chunk::<4>()
            .ok_or_else(|| Malformed::at(0, "description of a table is truncated"))?;
        let found = mask(crc32c(text));
        let expected = u32::from_le_bytes(*checksum);
        if expected != found {
            return Err(Malformed::mismatch(
                text.len(),
                "checksum of a description of a table",
                format!("{expected:08x}"),
                format!("{found:08x}"),
            ));
        }
        let text = std::str::from_utf8(text)
            .map_err(|error| Malformed::at(error.valid_up_to(), "text is not UTF-8"))?;
        Self::parse(text)
    }

    fn parse(text: &str) -> Decoded<PreparedFile> {
        let (mut size, mut smallest, mut largest, mut properties) = (None, None, None, None);
        for member in Members::new(text, 0) {
            let (name, value, at) = member?;
            match name {
                FILE_SIZE => {
                    let mut number = 0_u64;
                    number.parse(value, at)?;
                    size = Some(number);
                }
                SMALLEST => smallest = Some(internal_key(value, at)?),
                LARGEST => largest = Some(internal_key(value, at)?),
                PROPERTIES => properties = Some(self::properties(value, at)?),
                _ => {}
            }
        }
        let required = |name| Malformed::at(text.len(), format!("member {name} is missing"));
        let mut properties = properties.ok_or_else(|| required(PROPERTIES))?;
        let seqs = seqs(&properties)?;
        (properties.key_smallest_seqno, properties.key_largest_seqno) =
            seqs.map_or((0, 0), |(smallest, largest)| (smallest.0, largest.0));
        Ok(PreparedFile {
            file_size: size.ok_or_else(|| required(FILE_SIZE))?,
            smallest: smallest.ok_or_else(|| required(SMALLEST))?,
            largest: largest.ok_or_else(|| required(LARGEST))?,
            seqs,
            properties,
        })
    }
}

fn internal_key(text: &str, at: usize) -> Decoded<InternalKey> {
    let mut bytes = Vec::new();
    bytes.parse(text, at)?;
    InternalKey::decode(&bytes).map_err(|error| Malformed { at, ..error })
}

fn properties(hex: &str, at: usize) -> Decoded<Properties> {
    let mut bytes = Vec::new();
    bytes.parse(hex, at)?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| Malformed::at(at, "text of the table properties is not UTF-8"))?;
    let mut properties = Properties {
        key_smallest_seqno: UNKNOWN,
        key_largest_seqno: UNKNOWN,
        ..Properties::default()
    };
    properties_text::parse(&mut properties, text).map_err(|error| Malformed { at, ..error })?;
    Ok(properties)
}

/// Returns the smallest and largest sequence number in `properties`, if both are known.
fn seqs(properties: &Properties) -> Decoded<Option<(SequenceNumber, SequenceNumber)>> {
    let largest = properties.key_largest_seqno;
    let smallest = match largest {
        0 => 0,
        _ => properties.key_smallest_seqno,
    };
    if largest == UNKNOWN || smallest == UNKNOWN {
        return Ok(None);
    }
    match smallest <= largest && largest < SequenceNumber::MAX.0 {
        true => Ok(Some((SequenceNumber(smallest), SequenceNumber(largest)))),
        false => Err(Malformed::at(
            0,
            format!("sequence numbers of a table: found {smallest} to {largest}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::properties::IndexKind;
    use cairn_types::ValueKind;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn key(user: &[u8], seq: u64, kind: ValueKind) -> InternalKey {
        InternalKey::new(user, SequenceNumber(seq), kind)
    }

    fn sample() -> PreparedFile {
        PreparedFile {
            file_size: 1525,
            smallest: key(b"a;=}", 0, ValueKind::Value),
            largest: InternalKey::new(b"z\xff\0", SequenceNumber::MAX, ValueKind::RangeDeletion),
            seqs: Some((SequenceNumber(3), SequenceNumber(9))),
            properties: Properties {
                num_entries: 300,
                key_smallest_seqno: 3,
                key_largest_seqno: 9,
                num_compression_bypassed: 4,
                comparator: "leveldb.BytewiseComparator".into(),
                index_kind: Some(IndexKind::TwoLevel),
                whole_key_filtering: Some(true),
                external_version: Some(2),
                global_seqno: Some(SequenceNumber(0)),
                timestamps_stripped: true,
                timestamps: Some((vec![0; 8], vec![1; 8])),
                seqno_time_map: vec![1, 2],
                embedded_blobs: Some((3, 4000)),
                others: BTreeMap::from([(b"my.property".to_vec(), b"x{;".to_vec())]),
                ..Properties::default()
            },
        }
    }

    fn sealed(text: &str) -> Vec<u8> {
        let checksum = mask(crc32c(text.as_bytes()));
        [text.as_bytes(), &checksum.to_le_bytes()].concat()
    }

    #[test]
    fn descriptions_are_decoded_as_they_were_encoded() {
        let unknown = PreparedFile {
            seqs: None,
            properties: Properties {
                key_smallest_seqno: 0,
                key_largest_seqno: 0,
                ..sample().properties
            },
            ..sample()
        };
        for one in [sample(), unknown] {
            assert_eq!(PreparedFile::decode(&one.encode()).unwrap(), one);
        }
    }

    /// The order of RocksDB 11.12, which is that of a hash table, and members of a later release.
    #[test]
    fn members_may_be_in_any_order_and_unknown_ones_are_skipped() {
        let properties = "num_entries=7;a_new_one=xyz;user_collected_properties={\
             726F636B7364622E65787465726E616C5F7373745F66696C652E76657273696F6E=02000000;6B=;};\
             key_largest_seqno=0;comparator_name=6162;";
        let mut hex = String::new();
        put_hex(properties.as_bytes(), &mut hex);
        let text = format!(
            "table_properties={hex};new={{a=b;}};largest_internal_key=620100000000000000;\
             smallest_internal_key=610100000000000000;file_size=17;"
        );
        let found = PreparedFile::decode(&sealed(&text)).unwrap();
        assert_eq!(found.file_size, 17);
        assert_eq!(
            (found.smallest.user_key(), found.largest.user_key()),
            (&b"a"[..], &b"b"[..])
        );
        assert_eq!(found.seqs, Some(Default::default()));
        let properties = &found.properties;
        assert_eq!(
            (properties.num_entries, properties.external_version),
            (7, Some(2))
        );
        assert_eq!(&*properties.comparator, "ab");
        assert_eq!(properties.others.len(), 1);
    }

    #[test]
    fn missing_and_invalid_members_are_errors() {
        let whole = "table_properties=;largest_internal_key=620100000000000000;\
             smallest_internal_key=610100000000000000;file_size=17;";
        assert!(PreparedFile::decode(&sealed(whole)).is_ok());
        for name in [PROPERTIES, LARGEST, SMALLEST, FILE_SIZE] {
            let without = whole.replace(name, "other");
            let error = PreparedFile::decode(&sealed(&without)).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        // The kind of a key, an odd number of digits, a size, reversed sequence numbers, no checksum.
        let mut reversed = String::new();
        put_hex(b"key_largest_seqno=2;key_smallest_seqno=3;", &mut reversed);
        for (from, to) in [
            ("620100000000000000", "62ee00000000000000"),
            ("620100000000000000", "6201000000000000"),
            ("610100000000000000", "61010000000000000"),
            ("file_size=17", "file_size=-1"),
            ("table_properties=", &format!("table_properties={reversed}")),
        ] {
            let wrong = whole.replace(from, to);
            assert!(PreparedFile::decode(&sealed(&wrong)).is_err(), "{wrong}");
        }
        assert!(PreparedFile::decode(whole.as_bytes()).is_err());
        assert!(PreparedFile::decode(b"").is_err());
    }

    #[test]
    fn every_changed_byte_is_found() {
        let bytes = sample().encode();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(PreparedFile::decode(&damaged).is_err(), "byte {at}");
            assert!(PreparedFile::decode(&bytes[..at]).is_err(), "{at} bytes");
        }
    }

    proptest! {
        #[test]
        fn hostile_text_never_panics(at: prop::sample::Index, byte: u8, text in "[a-z_=;{}0-9A-F]{0,60}") {
            let whole = sample().encode();
            let mut bytes = whole[..whole.len() - 4].to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes.splice(at..at, text.bytes());
            let checksum = mask(crc32c(&bytes));
            bytes.extend_from_slice(&checksum.to_le_bytes());
            if let Ok(found) = PreparedFile::decode(&bytes) {
                let again = PreparedFile::decode(&found.encode());
                prop_assert_eq!(again.expect("an encoded description is decoded"), found);
            }
        }
    }
}
