//! Partitioners: borders of the user's own at which compactions end their tables.

/// What a factory is told about the compaction that it makes a partitioner for.
#[derive(Clone, Debug)]
pub struct PartitionContext<'a> {
    /// True if all tables of the family are inputs.
    pub is_full_compaction: bool,
    /// True if a user asked for the compaction.
    pub is_manual_compaction: bool,
    /// The level of the outputs.
    pub output_level: usize,
    /// The smallest user key of the inputs.
    pub smallest_user_key: &'a [u8],
    /// Their largest user key.
    pub largest_user_key: &'a [u8],
}

/// Says where tables end.
pub trait SstPartitioner: Send {
    /// True if a table that ends with `previous` must not go on with `current`.
    fn should_partition(&mut self, previous: &[u8], current: &[u8], file_size: u64) -> bool;

    /// True if a table with these bounds lies within one partition, so that it may move as it is.
    fn can_do_trivial_move(&mut self, smallest: &[u8], largest: &[u8]) -> bool;
}

/// Makes a partitioner for each part of a compaction.
pub trait SstPartitionerFactory: Send + Sync {
    /// The name that OPTIONS files record.
    fn name(&self) -> &str;

    /// The factory as the value of an option text: its name, or `{id=NAME;property=value;}`.
    fn option_text(&self) -> String {
        self.name().to_owned()
    }

    /// A partitioner for one part of a compaction, or none.
    fn create(&self, context: &PartitionContext<'_>) -> Option<Box<dyn SstPartitioner>>;
}
