//! The state that a pick is made from.

use cairn_platform::sync::Arc;
use cairn_types::KeyOrder;
use cairn_version::compaction_score::{self, Marked, Present, Targets};
use cairn_version::{FileMeta, Version, blob_gc};

use super::description::{LevelInputs, Reason};
use super::in_progress::InProgress;
use super::options::PickOptions;

/// The tree that a pick is made from.
pub(super) struct Tree<'a> {
    pub(super) version: &'a Version,
    pub(super) busy: &'a InProgress,
    pub(super) present: &'a Present,
    pub(super) options: &'a PickOptions,
    pub(super) targets: Targets,
}

/// Where a compaction starts, before the files of the output level are known.
pub(super) struct Start {
    pub(super) reason: Reason,
    pub(super) score: f64,
    pub(super) inputs: LevelInputs,
    pub(super) output_level: usize,
    /// Files of level 0 that overlap neither one another nor anything in the output level.
    pub(super) level_zero_move: bool,
}

impl<'a> Tree<'a> {
    pub(super) fn new(
        version: &'a Version,
        busy: &'a InProgress,
        present: &'a Present,
        options: &'a PickOptions,
    ) -> Tree<'a> {
        let targets = compaction_score::targets(version, &options.shape);
        Tree {
            version,
            busy,
            present,
            options,
            targets,
        }
    }

    pub(super) fn order(&self) -> &KeyOrder {
        self.version.order()
    }

    pub(super) fn marked(&self) -> Marked {
        let mut marked = compaction_score::marked(
            self.version,
            self.busy.files(),
            self.present,
            &self.options.shape,
        );
        if self.options.keeps_last_level {
            marked.bottommost.clear();
            let last = self.last_output();
            marked.periodic.retain(|(level, _)| *level <= last);
        }
        marked
    }

    /// The lowest level that compactions write to.
    pub(super) fn last_output(&self) -> usize {
        self.version.num_levels() - 1 - usize::from(self.options.keeps_last_level)
    }

    /// The files that are compacted so that old blob files can go.
    pub(super) fn forced_by_blobs(&self) -> Vec<(usize, Arc<FileMeta>)> {
        blob_gc::forced(self.version, self.busy.files(), &self.options.blobs)
    }

    /// The level that files of `level` are compacted into.
    pub(super) fn next_level(&self, level: usize) -> usize {
        if level == 0 {
            self.targets.base_level
        } else {
            level + 1
        }
    }
}
