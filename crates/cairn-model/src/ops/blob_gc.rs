//! Compacts a whole family and relocates the blobs of the oldest blob files, in percent: `collect
//! default 50`.

use cairn_options::{BlobGarbageCollectionPolicy, BottommostLevelCompaction, CompactRangeOptions};

use crate::failure::Failure;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "collect",
    words: &["collect"],
    weight: 1,
    switch: Some("collect"),
    read: |line| {
        Ok(Op::new(Collect {
            family: line.word(0)?.to_owned(),
            percent: line.number_at(1)?,
        }))
    },
    generate: |generator| {
        Some(Op::new(Collect {
            family: generator.family(),
            percent: *generator.rng.pick(&[0, 50, 100]),
        }))
    },
};

#[derive(Debug)]
struct Collect {
    family: String,
    percent: u32,
}

impl Operation for Collect {
    fn line(&self) -> String {
        format!("collect {} {}", self.family, self.percent)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        if let Some(cairn) = runner.engine()?.cairn() {
            let options = CompactRangeOptions {
                bottommost_level_compaction: BottommostLevelCompaction::Force,
                blob_garbage_collection_policy: BlobGarbageCollectionPolicy::Force,
                blob_garbage_collection_age_cutoff: f64::from(self.percent) / 100.0,
                ..CompactRangeOptions::default()
            };
            cairn
                .family(&self.family)?
                .compact_range(None, None, &options)?;
        }
        Ok(Promise::Nothing)
    }
}
