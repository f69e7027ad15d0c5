//! Keys of locks: a key of a family, with its hash.

use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

use cairn_db::{Family, Record};
use cairn_format::hash::hash64;
use cairn_format::key::strip_timestamp;

/// A key of a column family. Clones share the bytes.
#[derive(Clone, Debug)]
pub(crate) struct LockKey {
    hash: u64,
    family: u32,
    /// The number of the range that has this key as its start; 0 for a key.
    range: u64,
    bytes: Arc<[u8]>,
}

impl LockKey {
    pub(crate) fn new(family: u32, bytes: &[u8]) -> LockKey {
        LockKey {
            hash: hash_of(family, bytes),
            family,
            range: 0,
            bytes: bytes.into(),
        }
    }

    /// The key that stands for the range with the number `range`, which starts at `start`.
    pub(crate) fn of_range(family: u32, start: &[u8], range: u64) -> LockKey {
        LockKey {
            hash: hash_of(family, start) ^ hash64(&range.to_le_bytes()),
            range,
            ..LockKey::new(family, start)
        }
    }

    /// True if it stands for a range.
    pub(crate) fn is_range(&self) -> bool {
        self.range != 0
    }

    /// The id of the family.
    pub(crate) fn family(&self) -> u32 {
        self.family
    }

    /// The key in the family.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The hash of family and key.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

/// The hash of a key of a family.
pub(crate) fn hash_of(family: u32, bytes: &[u8]) -> u64 {
    // An odd factor, so that families differ in all bits.
    hash64(bytes) ^ u64::from(family).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl PartialEq for LockKey {
    fn eq(&self, other: &LockKey) -> bool {
        self.hash == other.hash
            && self.family == other.family
            && self.range == other.range
            && self.bytes == other.bytes
    }
}

impl Eq for LockKey {}

impl Hash for LockKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// The family and the key of a record; for a range, its first key. `None` for a record that is not a write.
pub(crate) fn key_of<'a>(record: &Record<'a>) -> Option<(u32, &'a [u8])> {
    let key = match *record {
        Record::Put { key, .. }
        | Record::TimedPut { key, .. }
        | Record::Delete { key, .. }
        | Record::SingleDelete { key, .. }
        | Record::Merge { key, .. }
        | Record::PutEntity { key, .. }
        | Record::PutBlobIndex { key, .. } => key,
        Record::DeleteRange { begin, .. } => begin,
        _ => return None,
    };
    Some((record.family()?, key))
}

/// Returns `key`, of a record of the family with the id `family`, without its timestamp. Locks have no timestamps.
pub(crate) fn without_timestamp<'k>(families: &[Family], family: u32, key: &'k [u8]) -> &'k [u8] {
    let found = families.iter().find(|found| found.id() == family);
    strip_timestamp(key, found.map_or(0, Family::timestamp_size))
}

/// A hasher of values that are hashes already.
#[derive(Clone, Copy, Default)]
pub(crate) struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        self.0 ^= hash64(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A map whose keys are [`LockKey`]s.
pub(crate) type KeyMap<T> = std::collections::HashMap<LockKey, T, BuildHasherDefault<Hashed>>;
