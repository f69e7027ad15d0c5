//! Compaction filters: what sees each entry as tables are written, and may drop or change it.
//!
//! A filter works beside the rules of the tree, not within them: what it removes is gone for
//! snapshots as well. It is asked about the newest version of a key only, and about each merge
//! operand that no snapshot needs.

use std::sync::Arc;

/// Why a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TableFileCreationReason {
    /// A memtable is flushed.
    Flush,
    /// Tables are compacted.
    Compaction,
    /// A log is replayed as the database is opened.
    Recovery,
    /// Something else.
    Misc,
}

/// What a factory is told about the job that it makes a filter for.
#[derive(Clone, Debug)]
pub struct FilterContext {
    /// True if all tables of the family are inputs.
    pub is_full_compaction: bool,
    /// True if a user asked for the compaction.
    pub is_manual_compaction: bool,
    /// The highest level that inputs come from; none for a flush.
    pub input_start_level: Option<usize>,
    /// The family of the tables.
    pub family_id: u32,
    /// Why the tables are written.
    pub reason: TableFileCreationReason,
}

/// What a filter is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterValue<'a> {
    /// The value of a key, wherever it lies.
    Value(&'a [u8]),
    /// An operand for the merge operator.
    MergeOperand(&'a [u8]),
    /// The columns of an entity, sorted by name: name and value.
    Entity(&'a [(&'a [u8], &'a [u8])]),
}

/// What becomes of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterDecision {
    /// It stays as it is.
    Keep,
    /// A value or entity becomes a deletion of its key; a merge operand is dropped.
    Remove,
    /// It becomes this value; a merge operand, this operand.
    ChangeValue(Vec<u8>),
    /// It becomes an entity of these columns, in any order. A merge operand stays as it is.
    ChangeEntity(Vec<(Vec<u8>, Vec<u8>)>),
    /// All entries of the keys from this one up to, not including, the key given are dropped
    /// without leaving deletions, so that older versions in deeper levels may come to light. A
    /// key at or before the entry's own means [`FilterDecision::Keep`].
    RemoveAndSkipUntil(Vec<u8>),
}

/// Sees each entry that a compaction would write.
pub trait CompactionFilter: Send + Sync {
    /// The name that OPTIONS files record.
    fn name(&self) -> &str;

    /// What becomes of an entry of `key`, which includes the timestamp if keys have one. `level` is
    /// where the compaction starts. May be called from several threads at once unless a factory
    /// made the filter.
    fn filter(&self, level: usize, key: &[u8], value: FilterValue<'_>) -> FilterDecision;

    /// What becomes of a value that lies in a blob file, if the key alone tells; else the value is
    /// read and [`CompactionFilter::filter`] is asked.
    fn filter_blob_by_key(&self, level: usize, key: &[u8]) -> Option<FilterDecision> {
        let _ = (level, key);
        None
    }

    /// True if the filter is asked about versions that snapshots see. As in RocksDB a filter that
    /// says no fails its compactions with `NotSupported`.
    fn ignore_snapshots(&self) -> bool {
        true
    }
}

/// Makes a filter for each part of a job, used by one thread.
pub trait CompactionFilterFactory: Send + Sync {
    /// The name that OPTIONS files record.
    fn name(&self) -> &str;

    /// True if tables that are written for `reason` are filtered.
    fn should_filter_table_file_creation(&self, reason: TableFileCreationReason) -> bool {
        reason == TableFileCreationReason::Compaction
    }

    /// A filter for one part of a job, or none if nothing of it is to be filtered.
    fn create(&self, context: &FilterContext) -> Option<Arc<dyn CompactionFilter>>;
}
