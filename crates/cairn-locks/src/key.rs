//! Keys of locks: a key of a family, with its hash.

use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

use cairn_format::hash::hash64;

/// A key of a column family. Clones share the bytes.
#[derive(Clone, Debug)]
pub struct LockKey {
    hash: u64,
    family: u32,
    /// The number of the range that has this key as its start; 0 for a key.
    range: u64,
    bytes: Arc<[u8]>,
}

impl LockKey {
    /// The key `bytes` of the family with the id `family`.
    #[must_use]
    pub fn new(family: u32, bytes: &[u8]) -> LockKey {
        LockKey {
            hash: hash_of(family, bytes),
            family,
            range: 0,
            bytes: bytes.into(),
        }
    }

    /// The key that stands for the range with the number `range`, which starts at `start`.
    pub(crate) fn of_range(family: u32, start: &[u8], range: u64) -> LockKey {
        let start = LockKey::new(family, start);
        LockKey {
            hash: start.hash ^ hash64(&range.to_le_bytes()),
            range,
            ..start
        }
    }

    /// True if it stands for a range.
    pub(crate) fn is_range(&self) -> bool {
        self.range != 0
    }

    /// The id of the family.
    #[must_use]
    #[inline]
    pub fn family(&self) -> u32 {
        self.family
    }

    /// The key in the family.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The hash of family and key.
    #[must_use]
    #[inline]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// The hash of a key of a family.
#[must_use]
pub fn hash_of(family: u32, bytes: &[u8]) -> u64 {
    // An odd factor, so that families differ in all bits.
    hash64(bytes) ^ u64::from(family).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl PartialEq for LockKey {
    #[inline]
    fn eq(&self, other: &LockKey) -> bool {
        self.hash == other.hash
            && self.family == other.family
            && self.range == other.range
            && self.bytes == other.bytes
    }
}

impl Eq for LockKey {}

impl Hash for LockKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A hasher of values that are hashes already.
#[derive(Clone, Copy, Default)]
pub struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        self.0 ^= hash64(bytes);
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// A map whose keys are [`LockKey`]s.
pub type KeyMap<T> = std::collections::HashMap<LockKey, T, BuildHasherDefault<Hashed>>;
