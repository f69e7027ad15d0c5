//! Settings that RocksDB's option strings cannot express.
#![expect(unsafe_code, reason = "every function of the C API is unsafe to call")]

use super::Result;
use super::api::Handle;
use super::library::Library;
use crate::option_text;

/// The engine name suffix that selects RocksDB's HyperClock cache instead of its LRU cache.
pub const HYPER_CLOCK: &str = "+hyperclock";

/// Default capacity of RocksDB's block cache.
const DEFAULT_CACHE: usize = 32 << 20;

/// Window size and deletion trigger of the collector: those of Cairn's `deletion_triggered_compaction`.
const DELETION_WINDOW: (usize, usize) = (8192, 4096);

/// Settings of all databases that a [`Library`] opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// True if blocks are cached in a HyperClock cache of the configured capacity.
    pub hyper_clock: bool,
    /// True if tables with many deletions are compacted; `None` for the library's default.
    pub compact_on_deletion: Option<bool>,
}

impl Library {
    /// Applies [`Tuning`] to the new options `base`. Returns the rest of `given`, without the parts
    /// already applied.
    pub(super) fn tune(&self, base: Handle, given: &str) -> Result<String> {
        let mut given = given.to_owned();
        if let Some(compact) = self.tuning.compact_on_deletion {
            if self.is_cairn {
                given = format!("deletion_triggered_compaction={compact};{given}");
            } else if compact {
                let (window, trigger) = DELETION_WINDOW;
                let add = self
                    .api
                    .rocksdb_options_add_compact_on_deletion_collector_factory;
                // SAFETY: a live handle.
                unsafe { add(base, window, trigger) };
            }
        }
        if self.tuning.hyper_clock {
            let (rest, capacity) = option_text::without_block_cache(&given)
                .map_err(|value| super::Error(format!("block_cache={value} is no size")))?;
            self.set_hyper_clock(base, capacity.unwrap_or(DEFAULT_CACHE));
            given = rest;
        }
        Ok(given)
    }

    /// Sets a table factory with a HyperClock cache, which the text parsed afterwards does not change.
    fn set_hyper_clock(&self, base: Handle, capacity: usize) {
        let api = &self.api;
        // SAFETY: each handle is made here and destroyed once; the factory holds the cache from then on. An
        // estimated charge of 0 makes the kind that RocksDB recommends.
        unsafe {
            let cache = (api.rocksdb_cache_create_hyper_clock)(capacity, 0);
            let table = (api.rocksdb_block_based_options_create)();
            (api.rocksdb_block_based_options_set_block_cache)(table, cache);
            (api.rocksdb_options_set_block_based_table_factory)(base, table);
            (api.rocksdb_block_based_options_destroy)(table);
            (api.rocksdb_cache_destroy)(cache);
        }
    }
}
