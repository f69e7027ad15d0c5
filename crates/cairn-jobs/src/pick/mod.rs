//! Compaction picking: turns a version and options into the description of a job.
//!
//! [`pick`] is a pure function: it opens no file and takes no lock, and equal arguments give equal
//! picks. The caller registers a pick in [`InProgress`] before running it and removes it after
//! installing its edit, so that later picks do not conflict.
//!
//! Invariants of every pick, of any level:
//!
//! 1. No file is an input of two running jobs, and no two jobs write overlapping ranges to one
//!    level.
//! 2. Below level 0, files that share a boundary user key are compacted together ("a clean cut"),
//!    so that no older version of a key stays above a newer one.
//! 3. A file of level 0 is compacted with all files that overlap it, transitively. Exceptions are
//!    intra-level-0 picks, which take the newest files without a gap, and moves of the oldest files.
//! 4. Every file of the output level that overlaps the inputs is an input.
//! 5. A pick whose young entries go to the level above its output reserves both levels (`young.rs`).
//! 6. For a skip-level range, every file of the lower level with keys in the range is an input and
//!    is entirely within the range.
//!
//! The file order follows RocksDB's pickers (db/compaction/compaction_picker*.cc, Apache 2.0).

mod compact_files;
mod compaction_priority;
mod db_paths;
mod description;
mod expand;
mod fifo;
mod in_progress;
mod invariants;
mod level_zero;
mod leveled;
mod manual;
mod multi_level;
mod options;
#[cfg(test)]
mod tests;
mod tree;
mod universal;
mod young;

use cairn_options::CompactionStyle;
use cairn_version::compaction_score::Marked;

pub use compact_files::{
    FilesRequest, UserRange, delete_in_ranges, move_level_zero, pick_exactly, pick_files, refit,
};
pub use description::{
    LevelInputs, Output, Pick, Reason, SkipLevelCandidates, SkipLevelOutput, YoungOutput,
};
pub use in_progress::{InProgress, JobId};
pub use manual::{Manual, Step};
pub use options::PickOptions;
pub use tree::Tree;
pub use universal::run_count;

/// Returns the next compaction of a tree of any compaction style, or `None` if none is due.
///
/// In a leveled tree, levels over their target come first, by score, then files marked by
/// collectors, by released snapshots, and by age.
#[must_use]
pub fn pick(tree: &Tree<'_>) -> Option<Pick> {
    let pick = match tree.options.style {
        CompactionStyle::Level => {
            leveled::fullest_level(tree).or_else(|| leveled::marked_files(tree))
        }
        CompactionStyle::Universal => universal::pick(tree),
        CompactionStyle::Fifo => fifo::pick(tree),
        CompactionStyle::None => None,
    };
    if cfg!(debug_assertions) {
        pick.iter().for_each(|pick| invariants::check(tree, pick));
    }
    pick
}

/// True if [`pick`] may return a compaction: a level is due or a file is marked. Running
/// compactions may still conflict.
#[must_use]
pub fn is_due(tree: &Tree<'_>) -> bool {
    if tree.options.style != CompactionStyle::Level {
        return pick(tree).is_some();
    }
    let scores = tree.scores();
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
