//! Keys of locks: a key of a family, with its hash.

use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

use cairn_format::hash::hash64;

/// The longest key that a [`LockKey`] contains.
const INLINE: usize = 30;

/// The bytes of a key. Those of most keys are copied with it, which takes less time than an allocation; clones of longer
/// ones share theirs.
#[derive(Clone, Debug)]
enum Bytes {
    Inline { len: u8, bytes: [u8; INLINE] },
    Shared(Arc<[u8]>),
}

impl Bytes {
    #[inline]
    fn new(key: &[u8]) -> Bytes {
        let mut bytes = [0; INLINE];
        match bytes.get_mut(..key.len()) {
            Some(start) => {
                start.copy_from_slice(key);
                let len = key.len() as u8;
                Bytes::Inline { len, bytes }
            }
            None => Bytes::Shared(key.into()),
        }
    }

    #[inline]
    fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Bytes::Shared(bytes) => bytes,
        }
    }
}

/// A key of a column family.
#[derive(Clone, Debug)]
pub struct LockKey {
    hash: u64,
    family: u32,
    /// The number of the range that has this key as its start; 0 for a key.
    range: u64,
    bytes: Bytes,
}

impl LockKey {
    /// The key `bytes` of the family with the id `family`.
    #[must_use]
    #[inline]
    pub fn new(family: u32, bytes: &[u8]) -> LockKey {
        LockKey {
            hash: hash_of(family, bytes),
            family,
            range: 0,
            bytes: Bytes::new(bytes),
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
        self.bytes.as_slice()
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
            && self.bytes() == other.bytes()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_any_length_are_kept() {
        let long: Vec<u8> = (0..=255).cycle().take(1_000).collect();
        for len in (0..2 * INLINE).chain([255, 256, 257, 1_000]) {
            let key = LockKey::new(3, &long[..len]);
            assert_eq!(key.bytes(), &long[..len]);
            assert_eq!(key.clone(), LockKey::new(3, &long[..len]));
            assert_ne!(key, LockKey::new(4, &long[..len]));
            assert_ne!(key, LockKey::of_range(3, &long[..len], 1));
        }
    }
}
