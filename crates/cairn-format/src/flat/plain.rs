//! The entries of a PlainTable, in internal-key order from offset 0 on.
//!
//! ```text
//! entry       = key value_size: varint32 value
//! plain key   = [size of the user key: varint32, unless all have the same] ending(user key)
//! prefix key  = full size ending(user key)                      kind 0
//!             | [shared size] suffix size ending(suffix)        kinds 1 and 2
//! ending(k)   = k 0xff                                          a value with sequence number 0
//!             | k suffix of the internal key (8 bytes)          all others
//! size        = one byte: kind in two bits, size in six; if those are all set, size - 63 follows as a varint32
//! ```
//!
//! With prefix encoding, a key with the prefix of its predecessor stores its rest. The second key of a prefix states
//! the length of the prefix, which then applies to the following ones. Every `index_sparseness`th key of a prefix is
//! stored in full.

use cairn_types::{Decoded, Malformed, PrefixExtractor, SequenceNumber, ValueKind};

use crate::coding::{Input, put_varint32};
use crate::key::{self, SUFFIX_LEN};
use crate::table::Properties;

pub use super::plain_bloom::PlainBloom;
pub use super::plain_index::{PlainIndex, PlainIndexBuilder};

/// The name of the index block.
pub const INDEX_BLOCK: &[u8] = b"PlainTableIndexBlock";
/// The name of the Bloom filter block.
pub const BLOOM_BLOCK: &[u8] = b"kBloomBlock";
/// The property with the encoding of the keys.
pub const ENCODING_PROPERTY: &[u8] = b"rocksdb.plain.table.encoding.type";
/// The property with the version of the Bloom filter, in tables with a stored index.
pub const BLOOM_VERSION_PROPERTY: &[u8] = b"rocksdb.plain.table.bloom.version";
/// The property with the number of blocks of the Bloom filter.
pub const BLOOM_BLOCKS_PROPERTY: &[u8] = b"rocksdb.plain.table.bloom.numblocks";
/// The maximum size of a PlainTable: offsets in its index have 31 bits.
pub const MAX_FILE_LEN: u64 = (1 << 31) - 1;
/// The seed of the hash of keys and prefixes.
pub const HASH_SEED: u32 = 397;

/// The last byte of the key of a value with sequence number 0.
const VALUE_WITHOUT_SEQ: u8 = 0xff;
/// The largest size in the first byte of a size.
const INLINE_SIZE: u8 = 0x3f;

/// The encoding of the keys. The numbers are part of the file format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum PlainEncoding {
    /// All keys in full.
    #[default]
    Plain = 0,
    /// Keys without the prefix of their predecessor.
    Prefix = 1,
}

/// The kind of a size in prefix encoding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SizeKind {
    Full = 0,
    Shared = 1,
    Suffix = 2,
}

/// The encoding of the entries of a table, from its properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainForm {
    /// The encoding of the keys.
    pub encoding: PlainEncoding,
    /// The length of all user keys; 0 if it varies.
    pub user_key_len: u32,
    /// The size of the entries.
    pub data_size: u64,
}

impl PlainForm {
    /// The form that the properties of a table of `file_len` bytes state.
    ///
    /// # Errors
    ///
    /// If a property is missing or invalid.
    pub fn of(properties: &Properties, file_len: u64) -> Decoded<PlainForm> {
        let encoding = match properties.others.get(ENCODING_PROPERTY) {
            None => PlainEncoding::Plain,
            Some(value) => match Input::new(value).fixed32()? {
                0 => PlainEncoding::Plain,
                1 => PlainEncoding::Prefix,
                other => {
                    let text = format!("encoding type {other} of a PlainTable");
                    return Err(Malformed::unsupported(0, text));
                }
            },
        };
        let user_key_len = u32::try_from(properties.fixed_key_len)
            .map_err(|_| Malformed::at(0, "length of the keys of a PlainTable above 4 GiB"))?;
        if properties.data_size > file_len {
            return Err(Malformed::mismatch(
                0,
                "size of the entries of a PlainTable",
                format_args!("at most {file_len}"),
                properties.data_size,
            ));
        }
        Ok(PlainForm {
            encoding,
            user_key_len,
            data_size: properties.data_size,
        })
    }
}

/// The decoder of the entries of a PlainTable, in their order.
pub struct PlainEntries<'a> {
    form: PlainForm,
    input: Input<'a>,
    /// The internal key of the last entry.
    key: Vec<u8>,
    /// The length of the prefix that keys share with their predecessor.
    shared: Option<usize>,
}

impl<'a> PlainEntries<'a> {
    /// Creates a decoder of `entries`, the part of the file before [`PlainForm::data_size`].
    #[must_use]
    pub fn new(form: PlainForm, entries: &'a [u8]) -> PlainEntries<'a> {
        PlainEntries {
            form,
            input: Input::new(entries),
            key: Vec::new(),
            shared: None,
        }
    }

    /// The offset of the next entry.
    #[must_use]
    pub fn at(&self) -> u64 {
        self.input.at() as u64
    }

    /// Decodes the next entry and returns its internal key and its value; `None` at the end.
    ///
    /// # Errors
    ///
    /// The offset of the malformed part.
    pub fn next_entry(&mut self) -> Decoded<Option<(&[u8], &'a [u8])>> {
        if self.input.is_empty() {
            return Ok(None);
        }
        match self.form.encoding {
            PlainEncoding::Plain => self.plain_key()?,
            PlainEncoding::Prefix => self.prefix_key()?,
        }
        let len = self.input.varint32()? as usize;
        let value = self.input.take(len)?;
        Ok(Some((&self.key, value)))
    }

    fn plain_key(&mut self) -> Decoded<()> {
        let len = match self.form.user_key_len {
            0 => self.input.varint32()?,
            len => len,
        };
        self.key.clear();
        self.append_ending(len as usize)
    }

    fn prefix_key(&mut self) -> Decoded<()> {
        let at = self.input.at();
        let (mut kind, mut len) = self.size()?;
        if kind == SizeKind::Shared as u8 {
            let most = self.key.len().saturating_sub(SUFFIX_LEN);
            if len > most {
                let expected = format_args!("at most {most}");
                return Err(Malformed::mismatch(at, "length of a prefix", expected, len));
            }
            self.shared = Some(len);
            (kind, len) = self.size()?;
            if kind != SizeKind::Suffix as u8 {
                return Err(Malformed::at(at, "length of a prefix without a suffix"));
            }
        }
        match kind {
            0 => {
                self.key.clear();
                self.shared = None;
            }
            2 => {
                let missing = || Malformed::at(at, "suffix of a key without a prefix");
                self.key.truncate(self.shared.ok_or_else(missing)?);
            }
            _ => return Err(Malformed::at(at, "size of a key has an unknown kind")),
        }
        self.append_ending(len)
    }

    /// Decodes the kind and the value of a size.
    fn size(&mut self) -> Decoded<(u8, usize)> {
        let byte = self.input.u8()?;
        let (kind, inline) = (byte >> 6, byte & INLINE_SIZE);
        if inline < INLINE_SIZE {
            return Ok((kind, usize::from(inline)));
        }
        let more = self.input.varint32()? as usize;
        Ok((kind, usize::from(INLINE_SIZE) + more))
    }

    /// Appends `len` bytes of a user key and the suffix of its internal key.
    fn append_ending(&mut self, len: usize) -> Decoded<()> {
        self.key.extend_from_slice(self.input.take(len)?);
        if self.input.rest().first() == Some(&VALUE_WITHOUT_SEQ) {
            self.input.u8()?;
            let packed = key::pack(SequenceNumber::ZERO, ValueKind::Value);
            self.key.extend_from_slice(&packed.to_le_bytes());
            return Ok(());
        }
        let at = self.input.at();
        self.key.extend_from_slice(self.input.take(SUFFIX_LEN)?);
        key::parse(&self.key).map_err(|error| error.shifted(at.saturating_sub(len)))?;
        Ok(())
    }
}

/// The encoder of the entries of a PlainTable.
pub struct PlainEncoder {
    encoding: PlainEncoding,
    /// The length of all user keys; 0 if it varies.
    user_key_len: u32,
    extractor: Option<PrefixExtractor>,
    /// Interval at which keys of a prefix are stored in full.
    sparseness: u64,
    /// The prefix of the last key, and the number of keys since one was stored in full.
    prefix: Vec<u8>,
    keys_of_prefix: u64,
}

/// An entry that a PlainTable cannot store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unencodable {
    /// The user key has this length instead of the configured one.
    KeyLength(usize),
    /// The user key has no prefix.
    NoPrefix,
    /// The value is longer than 4 GiB.
    ValueLength(usize),
}

impl PlainEncoder {
    /// Creates an encoder for user keys of `user_key_len` bytes, or of any length if it is 0.
    ///
    /// # Panics
    ///
    /// If there is no prefix extractor for [`PlainEncoding::Prefix`].
    #[must_use]
    pub fn new(
        encoding: PlainEncoding,
        user_key_len: u32,
        extractor: Option<PrefixExtractor>,
        sparseness: u64,
    ) -> PlainEncoder {
        assert!(
            encoding == PlainEncoding::Plain || extractor.is_some(),
            "prefix encoding requires a prefix extractor"
        );
        PlainEncoder {
            encoding,
            user_key_len,
            extractor,
            sparseness,
            prefix: Vec::new(),
            keys_of_prefix: 0,
        }
    }

    /// The prefix of `user_key`, which is empty without a prefix extractor.
    ///
    /// # Errors
    ///
    /// If the key has none.
    pub fn prefix_of<'k>(&self, user_key: &'k [u8]) -> Result<&'k [u8], Unencodable> {
        match &self.extractor {
            None => Ok(&[]),
            Some(extractor) => extractor.prefix(user_key).ok_or(Unencodable::NoPrefix),
        }
    }

    /// Appends the entry of the internal key `internal` to `out`.
    ///
    /// # Errors
    ///
    /// If the entry cannot be encoded; nothing was appended.
    pub fn append(
        &mut self,
        internal: &[u8],
        value: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Unencodable> {
        let user = key::user_key(internal);
        let value_len =
            u32::try_from(value.len()).map_err(|_| Unencodable::ValueLength(value.len()))?;
        let user_len = u32::try_from(user.len()).map_err(|_| Unencodable::KeyLength(user.len()))?;
        if self.user_key_len != 0 && self.user_key_len != user_len {
            return Err(Unencodable::KeyLength(user.len()));
        }
        let shared = match self.encoding {
            PlainEncoding::Plain => {
                if self.user_key_len == 0 {
                    put_varint32(out, user_len);
                }
                0
            }
            PlainEncoding::Prefix => self.append_prefix_size(user, out)?,
        };
        let is_bare = key::packed(internal) == key::pack(SequenceNumber::ZERO, ValueKind::Value);
        match is_bare {
            true => {
                out.extend_from_slice(&user[shared..]);
                out.push(VALUE_WITHOUT_SEQ);
            }
            false => out.extend_from_slice(&internal[shared..]),
        }
        put_varint32(out, value_len);
        out.extend_from_slice(value);
        Ok(())
    }

    /// Appends the sizes of a key in prefix encoding. Returns the length of the part that is not stored.
    fn append_prefix_size(&mut self, user: &[u8], out: &mut Vec<u8>) -> Result<usize, Unencodable> {
        let prefix = self.prefix_of(user)?;
        let is_due = self.keys_of_prefix == 0
            || self.sparseness != 0 && self.keys_of_prefix.is_multiple_of(self.sparseness);
        if is_due || prefix != self.prefix {
            self.prefix.clear();
            self.prefix.extend_from_slice(prefix);
            self.keys_of_prefix = 1;
            append_size(SizeKind::Full, user.len(), out);
            return Ok(0);
        }
        self.keys_of_prefix += 1;
        if self.keys_of_prefix == 2 {
            append_size(SizeKind::Shared, prefix.len(), out);
        }
        append_size(SizeKind::Suffix, user.len() - prefix.len(), out);
        Ok(prefix.len())
    }
}

fn append_size(kind: SizeKind, size: usize, out: &mut Vec<u8>) {
    let kind = (kind as u8) << 6;
    match u8::try_from(size) {
        Ok(size) if size < INLINE_SIZE => out.push(kind | size),
        _ => {
            out.push(kind | INLINE_SIZE);
            put_varint32(out, (size - usize::from(INLINE_SIZE)) as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Rows = Vec<(Vec<u8>, Vec<u8>)>;

    fn encoded(form: PlainForm, sparseness: u64, rows: &Rows) -> Vec<u8> {
        let extractor = Some(PrefixExtractor::Capped(3));
        let mut encoder =
            PlainEncoder::new(form.encoding, form.user_key_len, extractor, sparseness);
        let mut out = Vec::new();
        for (key, value) in rows {
            encoder.append(key, value, &mut out).unwrap();
        }
        out
    }

    fn decoded(form: PlainForm, entries: &[u8]) -> Decoded<Rows> {
        let mut decoder = PlainEntries::new(form, entries);
        let mut rows = Vec::new();
        while let Some((key, value)) = decoder.next_entry()? {
            rows.push((key.to_vec(), value.to_vec()));
        }
        Ok(rows)
    }

    fn form(encoding: PlainEncoding, user_key_len: u32) -> PlainForm {
        PlainForm {
            encoding,
            user_key_len,
            data_size: 0,
        }
    }

    fn internal(user: &[u8], seq: u64, kind: ValueKind) -> Vec<u8> {
        let mut out = Vec::new();
        key::append_internal(&mut out, user, SequenceNumber(seq), kind);
        out
    }

    #[test]
    fn prefixes_are_stored_once_an_interval() {
        let rows: Rows = (0..5u8)
            .map(|n| {
                (
                    internal(&[b'a', b'b', b'c', n], 0, ValueKind::Value),
                    vec![],
                )
            })
            .collect();
        let bytes = encoded(form(PlainEncoding::Prefix, 0), 3, &rows);
        let expected: &[&[u8]] = &[
            b"\x04abc\x00\xff\x00",
            b"\x43\x81\x01\xff\x00",
            b"\x81\x02\xff\x00",
            b"\x04abc\x03\xff\x00",
            b"\x43\x81\x04\xff\x00",
        ];
        assert_eq!(bytes, expected.concat());
        assert_eq!(
            decoded(form(PlainEncoding::Prefix, 0), &bytes).unwrap(),
            rows
        );
    }

    #[test]
    fn keys_of_another_length_or_without_prefix_are_rejected() {
        let mut out = Vec::new();
        let key = internal(b"abcd", 7, ValueKind::Value);
        let mut fixed = PlainEncoder::new(PlainEncoding::Plain, 5, None, 16);
        assert_eq!(
            fixed.append(&key, b"", &mut out),
            Err(Unencodable::KeyLength(4))
        );
        let extractor = Some(PrefixExtractor::Fixed(5));
        let mut prefix = PlainEncoder::new(PlainEncoding::Prefix, 0, extractor, 16);
        assert_eq!(
            prefix.append(&key, b"", &mut out),
            Err(Unencodable::NoPrefix)
        );
        assert!(out.is_empty());
    }

    #[test]
    fn a_suffix_needs_a_prefix() {
        for bytes in [
            &b"\x81\x01\xff\x00"[..],
            b"\x45\x81\x01\xff\x00",
            b"\xc1\x01\xff\x00",
        ] {
            assert!(decoded(form(PlainEncoding::Prefix, 0), bytes).is_err());
        }
    }

    fn rows() -> impl Strategy<Value = Rows> {
        let seq = prop_oneof![Just(0u64), 1u64..1000];
        let kind = prop_oneof![
            Just(ValueKind::Value),
            Just(ValueKind::Deletion),
            Just(ValueKind::Merge)
        ];
        let user = prop::collection::vec(prop_oneof![Just(b'a'), any::<u8>()], 0..100);
        let row = (user, seq, kind, prop::collection::vec(any::<u8>(), 0..200));
        prop::collection::vec(row, 0..40).prop_map(|rows| {
            let rows = rows.into_iter();
            rows.map(|(user, seq, kind, value)| (internal(&user, seq, kind), value))
                .collect()
        })
    }

    proptest! {
        #[test]
        fn entries_round_trip(rows in rows(), sparseness in 0u64..20) {
            for encoding in [PlainEncoding::Plain, PlainEncoding::Prefix] {
                let bytes = encoded(form(encoding, 0), sparseness, &rows);
                prop_assert_eq!(decoded(form(encoding, 0), &bytes).unwrap(), rows.clone());
            }
        }

        #[test]
        fn entries_of_one_length_round_trip(mut rows in rows()) {
            for (key, _) in &mut rows {
                let suffix = key.split_off(key.len() - SUFFIX_LEN);
                key.resize(9, b'x');
                key.extend(suffix);
            }
            let bytes = encoded(form(PlainEncoding::Plain, 9), 16, &rows);
            prop_assert_eq!(decoded(form(PlainEncoding::Plain, 9), &bytes).unwrap(), rows);
        }

        #[test]
        fn damage_never_panics(rows in rows(), at: prop::sample::Index, bits in 1u8..) {
            for encoding in [PlainEncoding::Plain, PlainEncoding::Prefix] {
                let mut bytes = encoded(form(encoding, 0), 4, &rows);
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] ^= bits;
                }
                let _ = decoded(form(encoding, 0), &bytes);
                let _ = decoded(form(encoding, 5), &bytes);
            }
        }
    }
}
