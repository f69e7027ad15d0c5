//! Settings that RocksDB's option strings cannot express.
#![expect(unsafe_code, reason = "every function of the C API is unsafe to call")]

use super::Result;
use super::api::Handle;
use super::library::Library;
use crate::option_text;

/// Window size and deletion trigger of the collector: those of Cairn's `deletion_triggered_compaction`.
const DELETION_WINDOW: (usize, usize) = (8192, 4096);

/// Settings of all databases that a [`Library`] opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// True if tables with many deletions are compacted; `None` for the library's default.
    pub compact_on_deletion: Option<bool>,
}

impl Library {
    /// Applies [`Tuning`] and the cache to the new options `base`. Returns the rest of `given`, without the
    /// parts already applied.
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
        if let Some(cache) = &self.cache {
            let (rest, _) = option_text::without_block_cache(&given)
                .map_err(|value| super::Error(format!("block_cache={value} is not a size")))?;
            self.set_cache(base, cache);
            given = rest;
        }
        Ok(given)
    }
}
