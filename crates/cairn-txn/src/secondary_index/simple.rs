//! The index of a column by its value.

use std::borrow::Cow;

use cairn_format::coding::put_varint32;
use cairn_types::{Error, Result};

use super::SecondaryIndex;

/// An index of a column by its value as it is (RocksDB's `SimpleSecondaryIndex`). Its entries have no values.
#[derive(Clone, Debug)]
pub struct SimpleSecondaryIndex {
    primary_family: String,
    secondary_family: String,
    primary_column: Vec<u8>,
}

impl SimpleSecondaryIndex {
    /// Creates an index of the column `primary_column` of `primary_family`, with entries in `secondary_family`. The empty
    /// column is that of plain values.
    #[must_use]
    pub fn new(
        primary_family: &str,
        primary_column: &[u8],
        secondary_family: &str,
    ) -> SimpleSecondaryIndex {
        SimpleSecondaryIndex {
            primary_family: primary_family.to_owned(),
            secondary_family: secondary_family.to_owned(),
            primary_column: primary_column.to_vec(),
        }
    }
}

impl SecondaryIndex for SimpleSecondaryIndex {
    fn primary_family(&self) -> &str {
        &self.primary_family
    }

    fn secondary_family(&self) -> &str {
        &self.secondary_family
    }

    fn primary_column(&self) -> &[u8] {
        &self.primary_column
    }

    fn key_prefix<'v>(&self, _primary_key: &'v [u8], value: &'v [u8]) -> Result<Cow<'v, [u8]>> {
        Ok(Cow::Borrowed(value))
    }

    fn finalized_prefix<'p>(&self, prefix: &'p [u8]) -> Result<Cow<'p, [u8]>> {
        let len = u32::try_from(prefix.len());
        let len = len.map_err(|_| Error::invalid_argument("the value of an index is too long"))?;
        let mut finalized = Vec::with_capacity(5 + prefix.len());
        put_varint32(&mut finalized, len);
        finalized.extend_from_slice(prefix);
        Ok(Cow::Owned(finalized))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secondary_index::entry_key;

    #[test]
    fn keys_of_entries_are_those_of_rocksdb() {
        let index = SimpleSecondaryIndex::new("default", b"", "by_value");
        let key = |value: &[u8]| entry_key(&index, b"key", value).unwrap();
        assert_eq!(key(b"hue"), b"\x03huekey");
        assert_eq!(key(b""), b"\0key");
        let long = [b'x'; 200];
        assert_eq!(key(&long), [&b"\xc8\x01"[..], &long, b"key"].concat());
    }
}
