//! Settings of a library's databases that RocksDB's option texts cannot express.
#![expect(unsafe_code, reason = "every function of the C API is unsafe to call")]

use super::Result;
use super::api::Handle;
use super::library::Library;
use crate::option_text;

/// The suffix of an engine's name that gives it RocksDB's HyperClock cache in place of its LRU cache.
pub const HYPER_CLOCK: &str = "+hyperclock";

/// Capacity of RocksDB's block cache if nothing else is said.
const DEFAULT_CACHE: usize = 32 << 20;

/// Entries that are looked at together, and the deletions among them that mark a table: those of Cairn's
/// `deletion_triggered_compaction`.
const DELETION_WINDOW: (usize, usize) = (8192, 4096);

/// Settings of all databases that a [`Library`] opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Blocks are cached in a HyperClock cache of the capacity that the options name.
    pub hyper_clock: bool,
    /// Tables dense with deletions are compacted, or not; `None` leaves the library's default.
    pub compact_on_deletion: Option<bool>,
}

impl Library {
    /// Gives `base`, fresh options, what [`Tuning`] says. Returns the text that completes them: `given`, but for
    /// what was taken from it.
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

    /// Makes a table factory with a HyperClock cache; the text that is read afterwards changes it and leaves
    /// the cache.
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
