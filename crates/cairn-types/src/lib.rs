//! The basic types of Cairn: sequence numbers, value kinds, errors, and the traits implemented by users.
//!
//! Every other crate depends on this one. It has no dependencies and is independent of files, threads and
//! options. See [`error`] for error handling and [`iter`] for the contract of internal iterators.

pub mod compaction_filter;
pub mod comparator;
pub mod error;
pub mod iter;
pub mod merge_operator;
pub mod number;
pub mod prefix_extractor;
pub mod properties_collector;
pub mod sst_partitioner;
pub mod value_kind;
pub mod veil;
pub mod wal_filter;

pub use compaction_filter::{
    CompactionFilter, CompactionFilterFactory, FilterContext, FilterDecision, FilterValue,
    TableFileCreationReason,
};
pub use comparator::{Comparator, KeyOrder};
pub use error::{Code, Decoded, Error, Malformed, Result, Severity, Subcode};
pub use iter::Progress;
pub use merge_operator::{MergeInput, MergeMemory, MergeOperator, MergeResult};
pub use number::{FileNumber, SequenceNumber};
pub use prefix_extractor::{PrefixExtractor, SliceTransform};
pub use properties_collector::{
    CollectorContext, TablePropertiesCollector, TablePropertiesCollectorFactory,
};
pub use sst_partitioner::{PartitionContext, SstPartitioner, SstPartitionerFactory};
pub use value_kind::ValueKind;
pub use veil::Veil;
pub use wal_filter::{WalDecision, WalFilter};
