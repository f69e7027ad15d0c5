//! Choosing what to compact: from a version and options to the description of a job.
//!
//! [`pick`] is a pure function. It opens no file and takes no lock, and the same arguments give
//! the same pick. Who runs the pick adds it to [`InProgress`] first and removes it after its edit is
//! installed, so that the next pick keeps clear of it.
//!
//! Invariants of every pick, of any level:
//!
//! 1. No file is an input of two running jobs, and no two jobs write overlapping ranges to one
//!    level.
//! 2. Of a level from 1 on, files that share a user key at their border go together ("a clean
//!    cut"), so that no older version of a key stays above a newer one.
//! 3. Of level 0, with a file go all that overlap it, directly or through others; but for picks
//!    within level 0, which take the newest files without a gap, and moves of the oldest.
//! 4. Of the output level, every file that overlaps the inputs is an input.
//! 5. Where a part of the output goes a level deeper, every file of that level with keys of the part
//!    is an input, and lies in the part with all its keys.
//!
//! The order in which files are chosen follows the pickers of RocksDB (db/compaction/compaction_picker*.cc, Apache 2.0).

mod compact_files;
mod compaction_priority;
mod db_paths;
mod description;
mod expand;
mod fifo;
mod in_progress;
mod level_zero;
mod leveled;
mod manual;
mod multi_level;
mod options;
#[cfg(test)]
mod tests;
mod tree;
mod universal;

use cairn_options::CompactionStyle;
use cairn_version::Version;
use cairn_version::compaction_score::{self, Marked, Present};

pub use compact_files::{
    FilesRequest, UserRange, delete_in_ranges, move_level_zero, pick_files, refit,
};
pub use description::{LevelInputs, Output, Pick, Reason, SkipLevelCandidates, SkipLevelOutput};
pub use in_progress::{InProgress, JobId};
pub use manual::{Manual, Step};
pub use options::PickOptions;
use tree::Tree;
pub use universal::run_count;

/// Chooses the next compaction of a tree of any style, or `None` when nothing asks for one.
///
/// In a leveled tree the order is the order of urgency: full levels by their score, then files
/// that ask for a compaction by their content, by what snapshots no longer need, by their age.
#[must_use]
pub fn pick(
    version: &Version,
    busy: &InProgress,
    present: &Present,
    options: &PickOptions,
) -> Option<Pick> {
    let tree = Tree::new(version, busy, present, options);
    match options.style {
        CompactionStyle::Level => {
            leveled::fullest_level(&tree).or_else(|| leveled::marked_files(&tree))
        }
        CompactionStyle::Universal => universal::pick(&tree),
        CompactionStyle::Fifo => fifo::pick(&tree),
        CompactionStyle::None => None,
    }
}

/// True if [`pick`] is worth asking: some level is due, or some file is marked. It may still find
/// nothing while other compactions run.
#[must_use]
pub fn is_due(
    version: &Version,
    busy: &InProgress,
    present: &Present,
    options: &PickOptions,
) -> bool {
    if options.style != CompactionStyle::Level {
        return pick(version, busy, present, options).is_some();
    }
    let tree = Tree::new(version, busy, present, options);
    let scores = compaction_score::scores(version, &tree.targets, busy.files(), &options.shape);
    let Marked {
        content,
        bottommost,
        expired,
        periodic,
        read,
    } = tree.marked();
    scores.first().is_some_and(|&(_, score)| score >= 1.0)
        || [content, bottommost, expired, periodic, read]
            .iter()
            .any(|files| !files.is_empty())
        || !tree.forced_by_blobs().is_empty()
}
