//! Sampling of reads for read-triggered compaction.
//!
//! A compaction eliminates reads that find nothing in a file, or only a deletion that does not end
//! the search. If `read_triggered_compaction_threshold` is set, one in [`SAMPLE_RATE`] reads is
//! sampled and counted that many times for each file in which it was wasted. Otherwise the only
//! cost is the check of one field.

use cairn_types::ValueKind;
use cairn_version::FileMeta;

use crate::view::Reading;

/// One in this many reads is sampled.
const SAMPLE_RATE: u64 = 1024;

impl Reading {
    /// True if the read that is starting is sampled.
    #[inline]
    pub(crate) fn is_sampled(&self) -> bool {
        self.read_sampler.is_some() && self.sample()
    }

    #[cold]
    fn sample(&self) -> bool {
        let random = self.read_sampler.as_ref();
        random.is_some_and(|random| random.next_u64() % SAMPLE_RATE == 0)
    }
}

/// Counts a sampled read that found no value in `file`.
#[cold]
pub(crate) fn count_wasted(file: &FileMeta) {
    file.hints.wasted_reads.add(SAMPLE_RATE);
}

/// True if a compaction would eliminate a seek that ends on an entry of `kind`.
pub(crate) fn is_wasted(kind: ValueKind) -> bool {
    matches!(
        kind,
        ValueKind::Deletion
            | ValueKind::SingleDeletion
            | ValueKind::DeletionWithTimestamp
            | ValueKind::Merge
    )
}
