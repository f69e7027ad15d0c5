//! The block cache of databases without one in their options.

use std::sync::{Arc, OnceLock};

use cairn_memory::{BlockCache, CacheOptions};

/// The capacity of a default block cache, in bytes.
const CAPACITY: usize = 32 << 20;

/// A block cache that is created when it is first used, and is shared by the copies of this value.
///
/// RocksDB's default cache belongs to the table factory of an options object, so that the databases that are opened with
/// one object, or with copies of it, share it.
#[derive(Clone, Debug, Default)]
pub struct DefaultCache(Arc<OnceLock<Arc<BlockCache>>>);

impl DefaultCache {
    /// Returns the cache.
    #[must_use]
    pub fn get(&self) -> Arc<BlockCache> {
        let create = || Arc::new(BlockCache::new(CAPACITY, CacheOptions::default()));
        self.0.get_or_init(create).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_the_cache() {
        let one = DefaultCache::default();
        let copy = one.clone();
        assert!(Arc::ptr_eq(&one.get(), &copy.get()));
        assert!(!Arc::ptr_eq(&one.get(), &DefaultCache::default().get()));
        assert_eq!(one.get().capacity(), CAPACITY);
    }
}
