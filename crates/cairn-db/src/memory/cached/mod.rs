//! The content of a database's block caches: by file, family and level, and as a dump that is loaded after a
//! restart.
//!
//! The keys of cached blocks derive from the unique ids of their files, so a block can be attributed to a
//! file of the database without being read, and a dump is valid for as long as its files exist. Blobs and
//! rows, and blocks of files without a unique id, have keys that are valid for one opening only.

mod dump;
mod groups;
mod report;

use std::collections::HashMap;
use std::sync::Arc;

use cairn_memory::{BlockCache, CacheKey};

use crate::shared::Shared;

pub use dump::{CacheDump, CacheDumpContent, CacheLoad};
pub use groups::CacheGroup;

/// A table of the database, as the owner of cached blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) family: u32,
    pub(crate) level: usize,
    /// The lower half of the file's id.
    low: u64,
    size: u64,
}

/// The tables of a database, by the upper half of the ids from which the keys of their blocks derive.
pub(crate) struct Owners(HashMap<u64, Owner>);

impl Owners {
    /// Returns the table of the block with `key`.
    pub(crate) fn find(&self, key: &CacheKey) -> Option<&Owner> {
        let owner = self.0.get(&key.high)?;
        (key.low ^ owner.low < owner.size).then_some(owner)
    }
}

impl Shared {
    /// The tables of all families.
    pub(crate) fn owners(&self) -> Owners {
        let families = self.catalog.families();
        let mut owners = HashMap::new();
        for family in families.iter() {
            for (level, file) in family.view().version.files() {
                if let Some([high, low]) = file.cache_id() {
                    let owner = Owner {
                        family: family.id(),
                        level,
                        low,
                        size: file.size,
                    };
                    owners.insert(high, owner);
                }
            }
        }
        Owners(owners)
    }

    /// The block caches of all families, without duplicates.
    pub(crate) fn block_caches(&self) -> Vec<Arc<BlockCache>> {
        let families = self.catalog.families();
        let mut caches: Vec<Arc<BlockCache>> = Vec::new();
        for cache in families.iter().filter_map(|family| family.cache()) {
            if !caches.iter().any(|other| Arc::ptr_eq(other, &cache)) {
                caches.push(cache);
            }
        }
        caches
    }
}
