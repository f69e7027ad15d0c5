//! Which reads are counted on the files that they go to.
//!
//! A compaction saves the reads that find nothing in a file, or nothing that ends the search but a
//! deletion. Where `read_triggered_compaction_threshold` asks for it one of [`SAMPLE_RATE`] reads is sampled,
//! and counts as so many on each file that it is in vain for. Elsewhere a read pays for a look at
//! one field.

use cairn_types::ValueKind;
use cairn_version::FileMeta;

use crate::view::Reading;

/// One of so many reads is counted.
const SAMPLE_RATE: u64 = 1024;

impl Reading {
    /// True if the read that begins is to be counted.
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

/// Counts a read that was sampled and had no value of `file`.
#[cold]
pub(crate) fn count_wasted(file: &FileMeta) {
    file.wasted_reads.add(SAMPLE_RATE);
}

/// True if a compaction would save a seek that comes to an entry of `kind`.
pub(crate) fn is_wasted(kind: ValueKind) -> bool {
    matches!(
        kind,
        ValueKind::Deletion
            | ValueKind::SingleDeletion
            | ValueKind::DeletionWithTimestamp
            | ValueKind::Merge
    )
}
