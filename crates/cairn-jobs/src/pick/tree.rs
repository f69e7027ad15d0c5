//! The state from which a pick is computed.

use std::collections::HashSet;

use cairn_platform::sync::Arc;
use cairn_types::{FileNumber, KeyOrder};
use cairn_version::compaction_score::{self, AgeLimits, Marked, Targets};
use cairn_version::{FileMeta, Version, blob_gc};

use super::description::{LevelInputs, Reason};
use super::in_progress::InProgress;
use super::options::PickOptions;

/// The tree, running compactions and options from which a pick is computed.
pub struct Tree<'a> {
    pub(super) version: &'a Version,
    pub(super) busy: &'a InProgress,
    pub(super) limits: &'a AgeLimits,
    pub(super) options: &'a PickOptions,
    pub(super) targets: Targets,
}

/// The start of a compaction, before the files of the output level are known.
pub(super) struct Start {
    pub(super) reason: Reason,
    pub(super) score: f64,
    pub(super) inputs: LevelInputs,
    pub(super) output_level: usize,
    /// True for level-0 files that overlap neither each other nor the output level.
    pub(super) level_zero_move: bool,
}

impl<'a> Tree<'a> {
    /// The tree of `version`. Files in `busy` belong to running compactions, and `limits` depend on the time of the pick.
    #[must_use]
    pub fn new(
        version: &'a Version,
        busy: &'a InProgress,
        limits: &'a AgeLimits,
        options: &'a PickOptions,
    ) -> Tree<'a> {
        let targets = compaction_score::targets(version, &options.shape);
        Tree {
            version,
            busy,
            limits,
            options,
            targets,
        }
    }

    pub(super) fn order(&self) -> &KeyOrder {
        self.version.order()
    }

    /// Returns the levels with their scores. Busy files and young ones are not counted.
    pub(super) fn scores(&self) -> Vec<(usize, f64)> {
        let (busy, shape) = (self.busy.files(), &self.options.shape);
        if !shape.precludes_young {
            return compaction_score::scores(self.version, &self.targets, busy, shape);
        }
        let young = self
            .version
            .files()
            .filter(|(level, file)| self.limits.is_young(self.version, *level, file))
            .map(|(_, file)| file.number);
        let held: HashSet<FileNumber> = busy.iter().copied().chain(young).collect();
        compaction_score::scores(self.version, &self.targets, &held, shape)
    }

    pub(super) fn marked(&self) -> Marked {
        let mut marked = compaction_score::marked(
            self.version,
            self.busy.files(),
            self.limits,
            &self.options.shape,
        );
        if self.options.keeps_last_level {
            marked.bottommost.clear();
            let last = self.last_output();
            marked.periodic.retain(|(level, _)| *level <= last);
        }
        marked
    }

    /// Returns the lowest level that compactions write to.
    pub(super) fn last_output(&self) -> usize {
        self.version.num_levels() - 1 - usize::from(self.options.keeps_last_level)
    }

    /// Returns the files to compact because of blob garbage.
    pub(super) fn forced_by_blobs(&self) -> Vec<(usize, Arc<FileMeta>)> {
        blob_gc::forced(self.version, self.busy.files(), &self.options.blobs)
    }

    /// Returns the output level of files of `level`.
    pub(super) fn next_level(&self, level: usize) -> usize {
        if level == 0 {
            self.targets.base_level
        } else {
            level + 1
        }
    }
}
