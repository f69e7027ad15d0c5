//! SST partitioners: user-defined boundaries between the output tables of compactions.

/// The context of a compaction, passed to the factory of its partitioner.
#[derive(Clone, Debug)]
pub struct PartitionContext<'a> {
    /// True if all tables of the column family are inputs.
    pub is_full_compaction: bool,
    /// True for a manual compaction.
    pub is_manual_compaction: bool,
    /// The output level.
    pub output_level: usize,
    /// The smallest user key of the inputs.
    pub smallest_user_key: &'a [u8],
    /// The largest user key of the inputs.
    pub largest_user_key: &'a [u8],
}

/// Decides where output tables end.
pub trait SstPartitioner: Send {
    /// True if a table whose last key is `previous` must not be extended by `current`.
    fn should_partition(&mut self, previous: &[u8], current: &[u8], file_size: u64) -> bool;

    /// True if a table with these bounds lies within one partition, so that a trivial move is allowed.
    fn can_do_trivial_move(&mut self, smallest: &[u8], largest: &[u8]) -> bool;
}

/// A factory of partitioners, one for each subcompaction.
pub trait SstPartitionerFactory: Send + Sync {
    /// The name recorded in OPTIONS files.
    fn name(&self) -> &str;

    /// The factory as an option value: its name, or `{id=NAME;property=value;}`.
    fn option_text(&self) -> String {
        self.name().to_owned()
    }

    /// Returns a partitioner for one subcompaction, or `None`.
    fn create(&self, context: &PartitionContext<'_>) -> Option<Box<dyn SstPartitioner>>;
}
