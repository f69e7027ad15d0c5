//! Properties of a database.

use std::collections::BTreeMap;
use std::sync::Arc;

pub use cairn_db::{MemoryUsage, TablePropertiesCollection, table_properties_text};
pub use cairn_format::table::properties::Properties as TableProperties;
pub use cairn_format::table::shared_text::SharedText;
use cairn_memory::BlockCache;
use cairn_types::Result;

use crate::db::Db;

impl Db {
    /// The property `name` of the default family as a number, with RocksDB's names.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cairn::Db::open(dir.path().join("db"), &cairn::Options::default().create_if_missing(true))?;
    /// db.put(b"stone", b"granite")?;
    /// assert_eq!(db.property_number("rocksdb.num-entries-active-mem-table"), Some(1));
    /// assert!(db.property("rocksdb.stats").unwrap().contains("** DB Stats **"));
    /// assert_eq!(db.property_map("rocksdb.dbstats").unwrap()["db.user_keys_written"], "1");
    /// # Ok::<(), cairn::Error>(())
    /// ```
    #[must_use]
    pub fn property_number(&self, name: &str) -> Option<u64> {
        self.inner.property_number(name)
    }

    /// The property `name` of the default family as a map, if it has that form.
    #[must_use]
    pub fn property_map(&self, name: &str) -> Option<BTreeMap<String, String>> {
        self.inner.property_map(name)
    }

    /// The sum over all families of the property `name`, which must be a number. A shared block
    /// cache is counted once.
    #[must_use]
    pub fn aggregated_property_number(&self, name: &str) -> Option<u64> {
        self.inner.aggregated_property_number(name)
    }

    /// The properties of all tables of the default family, by path.
    ///
    /// # Errors
    ///
    /// `IoError` or `Corruption` of a table.
    pub fn properties_of_all_tables(&self) -> Result<TablePropertiesCollection> {
        self.inner.properties_of_all_tables()
    }

    /// The properties of the tables of the default family that overlap one of `ranges`, both ends
    /// inclusive.
    ///
    /// # Errors
    ///
    /// `IoError` or `Corruption` of a table.
    pub fn properties_of_tables_in_range(
        &self,
        ranges: &[(&[u8], &[u8])],
    ) -> Result<TablePropertiesCollection> {
        self.inner.properties_of_tables_in_range(ranges)
    }
}

/// The memory used by `dbs` and `caches`, including the caches used by the families of `dbs`; each
/// cache is counted once.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = cairn::Db::open(dir.path().join("db"), &cairn::Options::default().create_if_missing(true))?;
/// let usage = cairn::properties::approximate_memory_usage(&[&db], &[]);
/// assert!(usage.mem_table_total >= usage.mem_table_unflushed);
/// # Ok::<(), cairn::Error>(())
/// ```
#[must_use]
pub fn approximate_memory_usage(dbs: &[&Db], caches: &[Arc<BlockCache>]) -> MemoryUsage {
    let dbs: Vec<&cairn_db::Db> = dbs.iter().map(|db| &db.inner).collect();
    let caches = [caches, &cairn_db::caches_of(&dbs)].concat();
    cairn_db::approximate_memory_usage(&dbs, &caches)
}
