//! A set of recently seen keys, for an admission policy that stores an entry when it is offered for the
//! second time.
//!
//! RocksDB inserts a placeholder into the cache instead. A set of fingerprints in a fixed array takes 4 bytes
//! per key and never displaces an entry. Keys are hashed to buckets of eight; a new key replaces the oldest
//! one in its bucket. Two keys are confused with a probability of about 2⁻²⁸, in which case an entry is
//! stored too early.

const BUCKET: usize = 8;

/// A bounded set of recently seen keys.
#[derive(Default)]
pub(super) struct RecentKeys {
    /// A power of two, or empty. In a bucket the newest key comes first; 0 is empty.
    buckets: Box<[[u32; BUCKET]]>,
}

impl RecentKeys {
    /// Creates a set of at most `bytes` bytes.
    pub(super) fn new(bytes: usize) -> RecentKeys {
        let room = bytes / size_of::<[u32; BUCKET]>();
        let count = room.checked_ilog2().map_or(0, |bits| 1usize << bits);
        RecentKeys {
            buckets: vec![[0; BUCKET]; count].into(),
        }
    }

    /// The memory used, in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// True if the key with this hash is in the set.
    pub(super) fn contains(&self, hash: u64) -> bool {
        let bucket = self.buckets.get(self.bucket_of(hash));
        bucket.is_some_and(|bucket| bucket.contains(&fingerprint(hash)))
    }

    /// Adds the key, as the newest.
    pub(super) fn add(&mut self, hash: u64) {
        self.remove(hash);
        let at = self.bucket_of(hash);
        if let Some(bucket) = self.buckets.get_mut(at) {
            bucket.rotate_right(1);
            bucket[0] = fingerprint(hash);
        }
    }

    /// Removes the key. Returns true if it was in the set.
    pub(super) fn remove(&mut self, hash: u64) -> bool {
        let at = self.bucket_of(hash);
        let Some(bucket) = self.buckets.get_mut(at) else {
            return false;
        };
        let Some(place) = bucket.iter().position(|key| *key == fingerprint(hash)) else {
            return false;
        };
        bucket[place..].rotate_left(1);
        bucket[BUCKET - 1] = 0;
        true
    }

    /// Empties the set.
    pub(super) fn clear(&mut self) {
        self.buckets.fill([0; BUCKET]);
    }

    fn bucket_of(&self, hash: u64) -> usize {
        // Truncation is intended: the lowest bits are used, and the shards use the highest.
        hash as usize & self.buckets.len().wrapping_sub(1)
    }
}

/// 32 bits of the hash, of which at least one is set.
fn fingerprint(hash: u64) -> u32 {
    // Truncation is intended: these bits select neither a bucket nor a shard.
    (hash >> 24) as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> u64 {
        (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn a_key_is_there_until_removed() {
        let mut keys = RecentKeys::new(1024);
        assert!(!keys.contains(hash(1)) && !keys.remove(hash(1)));
        keys.add(hash(1));
        keys.add(hash(1));
        assert!(keys.contains(hash(1)) && !keys.contains(hash(2)));
        assert!(keys.remove(hash(1)));
        assert!(!keys.contains(hash(1)));
    }

    #[test]
    fn the_oldest_keys_are_replaced() {
        let mut keys = RecentKeys::new(4096);
        assert_eq!(keys.memory_usage(), 4096);
        (0..100_000).for_each(|n| keys.add(hash(n)));
        let newest = (99_900..100_000).filter(|n| keys.contains(hash(*n)));
        let oldest = (0..1000).filter(|n| keys.contains(hash(*n)));
        assert_eq!((newest.count(), oldest.count()), (100, 0));
    }

    #[test]
    fn without_memory_there_are_no_keys() {
        let mut keys = RecentKeys::new(31);
        keys.add(hash(1));
        assert!(!keys.contains(hash(1)) && !keys.remove(hash(1)));
        assert_eq!(keys.memory_usage(), 0);
    }
}
