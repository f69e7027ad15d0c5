//! Checksums of single entries, which detect damage to them in memory. They are never stored in files.
//!
//! A checksum is the exclusive or of a hash of key and value and of one for each further field, so that a field can be
//! added to a checksum, or removed from it, without a look at the others: a write batch protects key, value, kind and
//! family; a memtable protects key, value, kind and sequence number.

use cairn_types::ValueKind;

use crate::hash::hash64;

/// The longest checksum, in bytes.
pub const MAX_CHECKSUM_LEN: usize = 8;

/// True if checksums can have `len` bytes; with 0, there are none.
#[must_use]
pub fn is_checksum_len(len: u64) -> bool {
    matches!(len, 0 | 1 | 2 | 4 | 8)
}

/// The checksum of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryChecksum(u64);

impl EntryChecksum {
    /// The checksum of a key and a value.
    #[must_use]
    pub fn new(key: &[u8], value: &[u8]) -> EntryChecksum {
        // Rotated, since the hashes of equal keys and values would cancel each other out.
        EntryChecksum(hash64(key) ^ hash64(value).rotate_left(21))
    }

    /// Adds the kind of the entry, or removes it.
    #[must_use]
    pub fn with_kind(self, kind: ValueKind) -> EntryChecksum {
        self.with(1, u64::from(kind as u8))
    }

    /// Adds the column family of the entry, or removes it.
    #[must_use]
    pub fn with_family(self, id: u32) -> EntryChecksum {
        self.with(2, id.into())
    }

    /// Adds the packed sequence number and kind of the entry, or removes them.
    #[must_use]
    pub fn with_packed(self, packed: u64) -> EntryChecksum {
        self.with(3, packed)
    }

    /// Adds the timestamp of a range deletion, or removes it.
    #[must_use]
    pub fn with_timestamp(self, timestamp: &[u8]) -> EntryChecksum {
        self.with(4, hash64(timestamp))
    }

    fn with(self, field: u8, value: u64) -> EntryChecksum {
        let mut bytes = [field; 9];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        EntryChecksum(self.0 ^ hash64(&bytes))
    }

    /// The checksum as bytes, of which the first ones are a shorter checksum.
    #[must_use]
    pub fn bytes(self) -> [u8; MAX_CHECKSUM_LEN] {
        self.0.to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_changed_bit_changes_the_checksum(
            key in prop::collection::vec(any::<u8>(), 0..20),
            value in prop::collection::vec(any::<u8>(), 0..40),
            at in any::<prop::sample::Index>(),
        ) {
            let whole = EntryChecksum::new(&key, &value);
            let bits = 8 * (key.len() + value.len());
            if bits > 0 {
                let (mut key, mut value, at) = (key.clone(), value.clone(), at.index(bits));
                match at / 8 < key.len() {
                    true => key[at / 8] ^= 1 << (at % 8),
                    false => value[at / 8 - key.len()] ^= 1 << (at % 8),
                }
                prop_assert_ne!(EntryChecksum::new(&key, &value), whole);
            }
        }

        #[test]
        fn fields_are_added_and_removed(family: u32, packed: u64) {
            let whole = EntryChecksum::new(b"key", b"key");
            let kinds = [ValueKind::Value, ValueKind::Merge];
            for kind in kinds {
                let added = whole.with_kind(kind).with_family(family).with_packed(packed);
                prop_assert_ne!(added, whole);
                let removed = added.with_packed(packed).with_kind(kind).with_family(family);
                prop_assert_eq!(removed, whole);
            }
            prop_assert_ne!(whole.with_kind(kinds[0]), whole.with_kind(kinds[1]));
            prop_assert_ne!(whole.with_family(family), whole.with_family(family ^ 1));
            prop_assert_ne!(whole.with_packed(packed), whole.with_packed(packed ^ 1));
            prop_assert_ne!(whole.with_packed(packed), whole.with_family(family));
        }
    }
}
