//! Collectors of table properties: what sees the entries of a table as it is written, and has a
//! word of its own in its properties.

use crate::error::Result;
use crate::number::SequenceNumber;
use crate::value_kind::ValueKind;

/// What a factory is told about the table that it makes a collector for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectorContext {
    /// The family of the table.
    pub family_id: u32,
    /// The level that the table is for.
    pub level_at_creation: usize,
    /// How many levels the family has.
    pub num_levels: usize,
}

/// Sees the entries of one table.
pub trait TablePropertiesCollector: Send {
    /// The next entry: its user key, its value (the end, of a range tombstone), its kind and
    /// number, and how large the file is so far.
    ///
    /// # Errors
    ///
    /// What fails the writing of the table.
    fn add(
        &mut self,
        key: &[u8],
        value: &[u8],
        kind: ValueKind,
        seq: SequenceNumber,
        file_size: u64,
    ) -> Result<()>;

    /// The properties that the table gets, by name, after its last entry. Names that begin with
    /// `rocksdb.` are RocksDB's own.
    ///
    /// # Errors
    ///
    /// What fails the writing of the table.
    fn finish(&mut self) -> Result<Vec<(Vec<u8>, Vec<u8>)>>;

    /// True if the table should be compacted on soon. Asked after [`TablePropertiesCollector::finish`].
    fn need_compact(&self) -> bool {
        false
    }
}

/// Makes a collector for each table.
pub trait TablePropertiesCollectorFactory: Send + Sync {
    /// The name that tables record.
    fn name(&self) -> &str;

    /// The name with its settings, for the info log.
    fn describe(&self) -> String {
        self.name().to_owned()
    }

    /// A collector for one table, or none.
    fn create(&self, context: &CollectorContext) -> Option<Box<dyn TablePropertiesCollector>>;
}
