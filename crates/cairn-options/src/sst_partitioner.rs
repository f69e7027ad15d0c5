//! The built-in partitioner by fixed-length prefix.

use cairn_types::{PartitionContext, SstPartitioner, SstPartitionerFactory};

/// Ends tables where the first `length` bytes of the key change (RocksDB's
/// `SstPartitionerFixedPrefixFactory`).
#[derive(Clone, Copy, Debug)]
pub struct FixedPrefixPartitions {
    length: usize,
}

impl FixedPrefixPartitions {
    /// Its name in option texts.
    pub const NAME: &'static str = "SstPartitionerFixedPrefixFactory";

    /// Creates a partitioner by the first `length` bytes.
    #[must_use]
    pub fn new(length: usize) -> FixedPrefixPartitions {
        FixedPrefixPartitions { length }
    }
}

impl SstPartitionerFactory for FixedPrefixPartitions {
    fn name(&self) -> &str {
        FixedPrefixPartitions::NAME
    }

    fn option_text(&self) -> String {
        format!("{{id={};length={};}}", self.name(), self.length)
    }

    fn create(&self, _: &PartitionContext<'_>) -> Option<Box<dyn SstPartitioner>> {
        Some(Box::new(*self))
    }
}

impl SstPartitioner for FixedPrefixPartitions {
    fn should_partition(&mut self, previous: &[u8], current: &[u8], _: u64) -> bool {
        let prefix = |key: &[u8]| key.len().min(self.length);
        previous[..prefix(previous)] != current[..prefix(current)]
    }

    fn can_do_trivial_move(&mut self, smallest: &[u8], largest: &[u8]) -> bool {
        !self.should_partition(smallest, largest, 0)
    }
}
