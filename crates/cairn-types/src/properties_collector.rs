//! Collectors of user-defined table properties.

use crate::error::Result;
use crate::number::SequenceNumber;
use crate::value_kind::ValueKind;

/// The context of a table, passed to the factory of its collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectorContext {
    /// The column family of the table.
    pub family_id: u32,
    /// The level the table is written to.
    pub level_at_creation: usize,
    /// The number of levels of the column family.
    pub num_levels: usize,
}

/// A collector of the user properties of one table.
pub trait TablePropertiesCollector: Send {
    /// Called for each entry, with its user key, its value (for a range tombstone its end key), its kind and
    /// sequence number, and the current size of the file.
    ///
    /// # Errors
    ///
    /// An error fails the build of the table.
    fn add(
        &mut self,
        key: &[u8],
        value: &[u8],
        kind: ValueKind,
        seq: SequenceNumber,
        file_size: u64,
    ) -> Result<()>;

    /// Returns the user properties of the table, by name. Called after the last entry. Names that start with
    /// `rocksdb.` are reserved.
    ///
    /// # Errors
    ///
    /// An error fails the build of the table.
    fn finish(&mut self) -> Result<Vec<(Vec<u8>, Vec<u8>)>>;

    /// True if the table should be compacted soon. Called after [`TablePropertiesCollector::finish`].
    fn need_compact(&self) -> bool {
        false
    }
}

/// A factory of collectors, one for each table.
pub trait TablePropertiesCollectorFactory: Send + Sync {
    /// The name recorded in tables.
    fn name(&self) -> &str;

    /// The name and settings, for the info log.
    fn describe(&self) -> String {
        self.name().to_owned()
    }

    /// Returns a collector for one table, or `None`.
    fn create(&self, context: &CollectorContext) -> Option<Box<dyn TablePropertiesCollector>>;
}
