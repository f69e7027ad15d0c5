//! SST partitioners and table property collectors.

use std::sync::Arc;

use cairn_options::{CompactOnDeletion, FixedPrefixPartitions, Plugin};
use cairn_types::{SstPartitionerFactory, TablePropertiesCollectorFactory};

use crate::handle::{create, maybe, of_mut};
use crate::options::rocksdb_options_t;

handles! {
    /// A factory of SST partitioners, which set table boundaries.
    rocksdb_sst_partitioner_factory_t = Arc<dyn SstPartitionerFactory>;
    /// A factory of collectors of table properties.
    rocksdb_table_properties_collector_factory_t = Arc<dyn TablePropertiesCollectorFactory>;
}

c_destructors! {
    /// Releases the program's reference to a partitioner factory.
    rocksdb_sst_partitioner_factory_destroy(rocksdb_sst_partitioner_factory_t);
    /// Releases the program's reference to a collector factory.
    rocksdb_table_properties_collector_factory_destroy(rocksdb_table_properties_collector_factory_t);
}

/// Adds a collector that marks tables with many deletions for compaction.
fn compact_on_deletion(
    window: usize,
    trigger: usize,
    ratio: f64,
    min_size: u64,
) -> CompactOnDeletion {
    CompactOnDeletion {
        deletion_ratio: ratio,
        min_file_size: min_size,
        ..CompactOnDeletion::new(window, trigger)
    }
}

c_functions! {
    /// Creates a partitioner factory that ends a table where the first `prefix_len` bytes of keys
    /// change.
    fn rocksdb_sst_partitioner_fixed_prefix_factory_create(prefix_len: usize) -> *mut rocksdb_sst_partitioner_factory_t {
        create(Arc::new(FixedPrefixPartitions::new(prefix_len)) as Arc<dyn SstPartitionerFactory>)
    }
    /// Sets the partitioner factory. The options share it, and the program still destroys its handle. Null is ignored.
    fn rocksdb_options_set_sst_partitioner_factory(
        opt: *mut rocksdb_options_t,
        factory: *mut rocksdb_sst_partitioner_factory_t,
    ) {
        if let Some(factory) = maybe(factory.cast_const()) {
            of_mut(opt).family.sst_partitioner_factory = Plugin::Object(factory.clone());
        }
    }
    /// Adds a collector factory. The options share it, and the program still destroys its handle. Null is ignored.
    fn rocksdb_options_add_table_properties_collector_factory(
        opt: *mut rocksdb_options_t,
        factory: *mut rocksdb_table_properties_collector_factory_t,
    ) {
        if let Some(factory) = maybe(factory.cast_const()) {
            of_mut(opt).family.table_properties_collector_factories.push(factory.clone());
        }
    }
    /// Marks tables with `num_dels_trigger` deletions among `window_size` consecutive entries for
    /// compaction.
    fn rocksdb_options_add_compact_on_deletion_collector_factory(
        opt: *mut rocksdb_options_t,
        window_size: usize,
        num_dels_trigger: usize,
    ) {
        let collector = compact_on_deletion(window_size, num_dels_trigger, 0.0, 0);
        of_mut(opt).family.table_properties_collector_factories.push(Arc::new(collector));
    }
    /// The same, and also marks tables in which at least this fraction of the entries are
    /// deletions.
    fn rocksdb_options_add_compact_on_deletion_collector_factory_del_ratio(
        opt: *mut rocksdb_options_t,
        window_size: usize,
        num_dels_trigger: usize,
        deletion_ratio: f64,
    ) {
        let collector = compact_on_deletion(window_size, num_dels_trigger, deletion_ratio, 0);
        of_mut(opt).family.table_properties_collector_factories.push(Arc::new(collector));
    }
    /// The same, but only for tables of at least this many bytes.
    fn rocksdb_options_add_compact_on_deletion_collector_factory_min_file_size(
        opt: *mut rocksdb_options_t,
        window_size: usize,
        num_dels_trigger: usize,
        deletion_ratio: f64,
        min_file_size: u64,
    ) {
        let collector = compact_on_deletion(window_size, num_dels_trigger, deletion_ratio, min_file_size);
        of_mut(opt).family.table_properties_collector_factories.push(Arc::new(collector));
    }
}
