//! Compaction filters: user code that is called for each entry written to a table and may drop or
//! change it.
//!
//! Filters ignore snapshots: an entry that a filter removes disappears from existing snapshots as
//! well. It is called for the newest version of each key, and for each merge operand that no
//! snapshot needs.

use std::sync::Arc;

/// The reason a table is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TableFileCreationReason {
    /// Flush of a memtable.
    Flush,
    /// Compaction.
    Compaction,
    /// Recovery of a WAL.
    Recovery,
    /// Anything else.
    Misc,
}

/// The context of a job, passed to the factory of its filters.
#[derive(Clone, Debug)]
pub struct FilterContext {
    /// True if the inputs are all tables of the column family.
    pub is_full_compaction: bool,
    /// True for a manual compaction.
    pub is_manual_compaction: bool,
    /// The highest level of the inputs; `None` for a flush.
    pub input_start_level: Option<usize>,
    /// The column family of the tables.
    pub family_id: u32,
    /// The reason the tables are being written.
    pub reason: TableFileCreationReason,
}

/// The entry passed to a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterValue<'a> {
    /// The value of a key, inline or in a blob file.
    Value(&'a [u8]),
    /// A merge operand.
    MergeOperand(&'a [u8]),
    /// The columns of an entity, as names and values sorted by name.
    Entity(&'a [(&'a [u8], &'a [u8])]),
}

/// A filter's decision on an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterDecision {
    /// Keeps the entry.
    Keep,
    /// Replaces a value or entity with a deletion of its key; drops a merge operand.
    Remove,
    /// Replaces the value, or the merge operand.
    ChangeValue(Vec<u8>),
    /// Replaces the entry with an entity of these columns, which may be in any order. Has no effect
    /// on a merge operand.
    ChangeEntity(Vec<(Vec<u8>, Vec<u8>)>),
    /// Drops all entries of the keys from this one up to, but excluding, the given key, without leaving
    /// deletions, so that older versions in deeper levels may reappear. Equivalent to
    /// [`FilterDecision::Keep`] if the given key is not after the entry's own.
    RemoveAndSkipUntil(Vec<u8>),
}

/// A filter applied to the entries that flushes and compactions write.
pub trait CompactionFilter: Send + Sync {
    /// The name recorded in OPTIONS files.
    fn name(&self) -> &str;

    /// Returns the decision on an entry of `key`, which includes its timestamp. `level` is the
    /// start level of the compaction. May be called from several threads concurrently, unless a
    /// factory made the filter.
    fn filter(&self, level: usize, key: &[u8], value: FilterValue<'_>) -> FilterDecision;

    /// Returns the decision on a value in a blob file if the key alone determines it; otherwise the
    /// value is read and passed to [`CompactionFilter::filter`].
    fn filter_blob_by_key(&self, level: usize, key: &[u8]) -> Option<FilterDecision> {
        let _ = (level, key);
        None
    }

    /// True if the filter is called for versions that are visible to snapshots. As in RocksDB, a compaction
    /// with a filter that returns false fails with `NotSupported`.
    fn ignore_snapshots(&self) -> bool {
        true
    }
}

/// A factory of filters. Each filter is used for one subcompaction, by one thread.
pub trait CompactionFilterFactory: Send + Sync {
    /// The name recorded in OPTIONS files.
    fn name(&self) -> &str;

    /// True if tables written for `reason` are filtered.
    fn should_filter_table_file_creation(&self, reason: TableFileCreationReason) -> bool {
        reason == TableFileCreationReason::Compaction
    }

    /// Returns a filter for one subcompaction, or `None` to filter nothing.
    fn create(&self, context: &FilterContext) -> Option<Arc<dyn CompactionFilter>>;
}
