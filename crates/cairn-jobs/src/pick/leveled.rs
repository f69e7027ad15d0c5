//! Picks of leveled trees: a level over its target, or a marked file.

use cairn_platform::sync::Arc;
use cairn_version::FileMeta;

use super::description::{Pick, Reason};
use super::tree::{Start, Tree};
use super::{compaction_priority, expand, level_zero};

/// Returns a compaction of the level with the highest score.
pub(super) fn fullest_level(tree: &Tree) -> Option<Pick> {
    let mut level_zero_waits = false;
    for (level, score) in tree
        .scores()
        .into_iter()
        .take_while(|&(_, score)| score >= 1.0)
    {
        let base = tree.targets.base_level;
        if level_zero_waits && level == base && !tree.busy.empties_level_zero_into(base) {
            // More work on the base level would starve level 0, unless level 0 is already being
            // compacted.
            continue;
        }
        let found = match level {
            0 => level_zero::pick(tree, score),
            _ => sorted_level(tree, level, score),
        };
        if found.is_some() {
            return found;
        }
        level_zero_waits |= level == 0;
    }
    None
}

/// Returns a compaction of a sorted level: the first file in priority order that can be compacted.
fn sorted_level(tree: &Tree, level: usize, score: f64) -> Option<Pick> {
    let files = tree.version.level(level).files();
    let is_young = |at: &usize| tree.limits.is_young(tree.version, level, &files[*at]);
    let positions = compaction_priority::by_priority(tree, level).into_iter();
    for at in positions.filter(|at| !is_young(at)) {
        if let Some(inputs) = expand::first_inputs(tree, level, at) {
            let start = Start {
                reason: Reason::LevelMaxLevelSize,
                score,
                inputs,
                output_level: level + 1,
                level_zero_move: false,
            };
            if let Some(pick) = expand::finish(tree, start) {
                return Some(pick);
            }
        }
        if tree.options.pri == cairn_options::CompactionPri::RoundRobin {
            // Skipping a file would break the round-robin order.
            return None;
        }
    }
    None
}

/// The output level of a marked file.
#[derive(Clone, Copy)]
enum MarkedTarget {
    /// The next level, or the same level if it is the last one.
    Down,
    /// The next level; files of the last level are not compacted.
    DownUnlessLast,
    /// The same level.
    Nowhere,
}

/// Returns a compaction of a marked file.
pub(super) fn marked_files(tree: &Tree) -> Option<Pick> {
    let marked = tree.marked();
    let periodic = match tree.options.shape.dynamic {
        true => MarkedTarget::Down,
        false => MarkedTarget::Nowhere,
    };
    first_of(
        tree,
        Reason::FilesMarked,
        &marked.content,
        MarkedTarget::Down,
    )
    .or_else(|| {
        first_of(
            tree,
            Reason::BottommostFiles,
            &marked.bottommost,
            MarkedTarget::Nowhere,
        )
    })
    .or_else(|| {
        first_of(
            tree,
            Reason::Ttl,
            &marked.expired,
            MarkedTarget::DownUnlessLast,
        )
    })
    .or_else(|| first_of(tree, Reason::Periodic, &marked.periodic, periodic))
    .or_else(|| {
        first_of(
            tree,
            Reason::ForcedBlobGc,
            &tree.forced_by_blobs(),
            MarkedTarget::Nowhere,
        )
    })
    .or_else(|| {
        first_of(
            tree,
            Reason::ReadTriggered,
            &marked.read,
            MarkedTarget::Down,
        )
    })
}

fn first_of(
    tree: &Tree,
    reason: Reason,
    files: &[(usize, Arc<FileMeta>)],
    goes: MarkedTarget,
) -> Option<Pick> {
    let last = tree.version.num_non_empty_levels().saturating_sub(1);
    files.iter().find_map(|(level, file)| {
        let output_level = match goes {
            MarkedTarget::Nowhere => *level,
            MarkedTarget::DownUnlessLast if *level == last => return None,
            MarkedTarget::Down if *level == last && *level > 0 => *level,
            MarkedTarget::Down | MarkedTarget::DownUnlessLast => tree.next_level(*level),
        };
        if *level == 0 && tree.busy.takes_level_zero() {
            return None;
        }
        level_zero::of_file(tree, *level, file, output_level, reason)
    })
}
