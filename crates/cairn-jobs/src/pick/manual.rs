//! Manual compaction: level by level, downwards from the first level with data in the range.
//!
//! [`Manual`] is the state of one request. Its owner calls [`Manual::next`] with the current tree,
//! runs the returned pick, installs the edit, and repeats until [`Step::Done`].

use cairn_format::key::InternalKey;
use cairn_options::{BottommostLevelCompaction, CompactRangeOptions, CompactionStyle};
use cairn_platform::sync::Arc;
use cairn_types::{FileNumber, SequenceNumber, ValueKind};
use cairn_version::FileMeta;

use super::description::{LevelInputs, Pick, Reason};
use super::tree::{Start, Tree};
use super::{expand, fifo, invariants, universal};

/// A request to compact a range of user keys.
#[derive(Clone, Debug)]
pub struct Manual {
    begin: Option<InternalKey>,
    end: Option<InternalKey>,
    bottommost: BottommostLevelCompaction,
    max_subcompactions: u32,
    path_id: u32,
    /// The lowest level that data was moved to.
    reached: Option<usize>,
    /// Files with smaller numbers existed when the request began.
    created_before: FileNumber,
    at: At,
}

/// The progress of a request.
#[derive(Clone, Debug)]
enum At {
    /// Not started.
    Start,
    /// Files of a level are compacted into the next one; files before `from` are done.
    Down {
        level: usize,
        from: Option<InternalKey>,
    },
    /// Files of the last level are rewritten; files before `from` are done.
    Bottom {
        level: usize,
        from: Option<InternalKey>,
    },
    /// Finished.
    Done,
}

/// The next step of a manual compaction.
#[derive(Clone, Debug)]
pub enum Step {
    /// Run this pick, install its edit, and call [`Manual::next`] again.
    Run(Box<Pick>),
    /// Reserved files or ranges conflict: call again after [`InProgress::releases`](super::InProgress::releases) has changed.
    Wait,
    /// The request is finished.
    Done,
}

/// The result of a search for files to compact.
enum Found {
    Pick(Box<Pick>, Option<InternalKey>),
    Nothing,
    Conflict,
}

impl Manual {
    /// Creates a request to compact the user keys from `begin` to `end`, both inclusive; `None` is
    /// unbounded. `next_file` is the next file number to be allocated.
    #[must_use]
    pub fn new(
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
        next_file: FileNumber,
    ) -> Manual {
        let first = |user: &[u8]| InternalKey::new(user, SequenceNumber::MAX, ValueKind::FOR_SEEK);
        let last = |user: &[u8]| InternalKey::new(user, SequenceNumber::ZERO, ValueKind::Deletion);
        Manual {
            begin: begin.map(first),
            end: end.map(last),
            bottommost: options.bottommost_level_compaction,
            max_subcompactions: options.max_subcompactions,
            path_id: options.target_path_id,
            reached: None,
            created_before: next_file,
            at: At::Start,
        }
    }

    /// Returns the level that data was moved to, once the request is finished; `None` if the range was
    /// empty.
    #[must_use]
    pub fn reached(&self) -> Option<usize> {
        self.reached
    }

    /// Returns the next step, given the current `tree`.
    #[must_use]
    pub fn next(&mut self, tree: &Tree<'_>) -> Step {
        if tree.options.style != CompactionStyle::Level {
            return self.next_unleveled(tree);
        }
        loop {
            let (level, output_level, from) = match &self.at {
                At::Start => {
                    self.at = self.first_level(tree);
                    continue;
                }
                At::Done => return Step::Done,
                At::Down { level, from } => match self.may_go_down(tree, *level) {
                    true => (*level, tree.next_level(*level), from.clone()),
                    false => {
                        self.reached = Some(*level);
                        self.at = self.bottom(*level, tree.options.filtered);
                        continue;
                    }
                },
                At::Bottom { level, from } => (*level, *level, from.clone()),
            };
            match self.find(tree, level, output_level, from) {
                Found::Conflict => return Step::Wait,
                Found::Nothing => self.finish_level(output_level),
                Found::Pick(pick, next) => {
                    match (&mut self.at, next) {
                        (At::Down { from, .. } | At::Bottom { from, .. }, next @ Some(_)) => {
                            *from = next;
                        }
                        _ => self.finish_level(output_level),
                    }
                    return Step::Run(pick);
                }
            }
        }
    }

    /// Returns the only step of an unleveled tree: a universal tree is merged completely, regardless of
    /// the range; a FIFO tree runs its regular pick.
    fn next_unleveled(&mut self, tree: &Tree) -> Step {
        if matches!(self.at, At::Done) {
            return Step::Done;
        }
        let style = tree.options.style;
        let is_blocked = match style {
            CompactionStyle::None => false,
            // Waits for a damaged file too: the caller then fails the request instead of reporting success.
            CompactionStyle::Universal => !tree.busy.is_empty() || universal::has_busy_run(tree),
            _ => !tree.busy.is_empty(),
        };
        if is_blocked {
            return Step::Wait;
        }
        let picked = match style {
            CompactionStyle::Universal => universal::everything(tree),
            CompactionStyle::Fifo => fifo::pick(tree),
            _ => None,
        };
        self.at = At::Done;
        let Some(mut pick) = picked else {
            return Step::Done;
        };
        self.reached = Some(pick.output.level);
        if self.max_subcompactions > 0 {
            pick.max_subcompactions = self.max_subcompactions;
        }
        pick.output.path_id = self.path_id;
        Step::Run(Box::new(pick))
    }

    fn bounds(&self) -> (Option<&[u8]>, Option<&[u8]>) {
        (
            self.begin.as_ref().map(InternalKey::as_bytes),
            self.end.as_ref().map(InternalKey::as_bytes),
        )
    }

    fn first_level(&self, tree: &Tree) -> At {
        let (begin, end) = self.bounds();
        let levels = 0..tree.version.num_levels();
        match levels
            .into_iter()
            .find(|&level| tree.version.overlaps(level, begin, end))
        {
            Some(level) => At::Down {
                level,
                from: self.begin.clone(),
            },
            None => At::Done,
        }
    }

    /// True if files of `level` are compacted further down. Always true for level 0.
    fn may_go_down(&self, tree: &Tree, level: usize) -> bool {
        let levels = match tree.options.shape.dynamic {
            true => tree.version.num_levels(),
            false => tree.version.num_non_empty_levels(),
        };
        tree.version.num_levels() > 1 && (level == 0 || level + 1 < levels)
    }

    /// Decides whether the last level is rewritten once it is reached.
    fn bottom(&self, level: usize, filtered: bool) -> At {
        use BottommostLevelCompaction::{Force, ForceOptimized, IfHaveCompactionFilter, Skip};
        match self.bottommost {
            Force | ForceOptimized => At::Bottom {
                level,
                from: self.begin.clone(),
            },
            IfHaveCompactionFilter if filtered => At::Bottom {
                level,
                from: self.begin.clone(),
            },
            Skip | IfHaveCompactionFilter => At::Done,
        }
    }

    /// Continues with the next level.
    fn finish_level(&mut self, output_level: usize) {
        debug_assert!(
            self.reached.is_none_or(|reached| reached <= output_level),
            "a manual compaction proceeds downwards"
        );
        self.reached = Some(output_level);
        self.at = match self.at {
            At::Down { .. } => At::Down {
                level: output_level,
                from: self.begin.clone(),
            },
            _ => At::Done,
        };
    }

    /// Finds a compaction of files of `level` starting at `from`, and the start of the next one.
    fn find(
        &self,
        tree: &Tree,
        level: usize,
        output_level: usize,
        from: Option<InternalKey>,
    ) -> Found {
        let begin = from.as_ref().map(InternalKey::as_bytes);
        let files = match level {
            0 => {
                let files = tree.version.level(0);
                files.overlapping_level_zero(tree.order(), begin, self.bounds().1, true)
            }
            _ => tree.version.overlapping(level, begin, self.bounds().1),
        };
        let optimized = self.bottommost != BottommostLevelCompaction::Force;
        let (mut files, mut more) = match level == output_level && optimized {
            true => self.written_before(files),
            false => (files, false),
        };
        if files.is_empty() {
            return Found::Nothing;
        }
        if level == 0 && tree.busy.takes_level_zero() {
            return Found::Conflict;
        }
        if level > 0 {
            more |= cut_to_size(tree, level, output_level, &mut files);
        }
        let Some(files) = expand::clean_cut(tree, level, &files) else {
            return Found::Conflict;
        };
        let last = files.last().map(|file| file.number);
        let next = last.and_then(|last| {
            let all = tree.version.level(level);
            all.files().get(all.position(last)? + 1)
        });
        let next = next.filter(|_| more).map(|file| file.smallest.clone());
        let start = Start {
            reason: Reason::Manual,
            score: 0.0,
            inputs: LevelInputs { level, files },
            output_level,
            level_zero_move: false,
        };
        match expand::finish(tree, start) {
            None => Found::Conflict,
            Some(mut pick) => {
                if self.max_subcompactions > 0 {
                    pick.max_subcompactions = self.max_subcompactions;
                }
                pick.output.path_id = self.path_id;
                let stays = pick.files().all(|(_, file)| file.path_id == self.path_id);
                // A manual compaction must invoke the filter.
                pick.trivial_move &= stays && !tree.options.filtered;
                if cfg!(debug_assertions) {
                    invariants::check(tree, &pick);
                }
                Found::Pick(Box::new(pick), next)
            }
        }
    }

    /// Returns the first adjacent files that existed before the request, and true if more follow.
    fn written_before(&self, files: Vec<Arc<FileMeta>>) -> (Vec<Arc<FileMeta>>, bool) {
        let old = |file: &Arc<FileMeta>| file.number < self.created_before;
        let from = files.iter().position(old).unwrap_or(files.len());
        let run = files[from..].iter().take_while(|file| old(file)).count();
        let more = files[from + run..].iter().any(old);
        (files[from..from + run].to_vec(), more)
    }
}

/// Drops trailing files beyond the maximum compaction size; returns true if any were dropped. Not for
/// level 0, whose files overlap.
fn cut_to_size(
    tree: &Tree,
    level: usize,
    output_level: usize,
    files: &mut Vec<Arc<FileMeta>>,
) -> bool {
    let limit = tree.options.max_compaction_bytes;
    let mut mine = 0_u64;
    for count in 0..files.len() {
        mine = mine.saturating_add(files[count].size);
        let (low, high) = (
            files[0].smallest.as_bytes(),
            files[count].largest.as_bytes(),
        );
        let below = match level == output_level {
            true => Vec::new(),
            false => tree
                .version
                .overlapping(output_level, Some(low), Some(high)),
        };
        let below: u64 = below
            .iter()
            .map(|file| file.size)
            .fold(0, u64::saturating_add);
        if count > 0 && mine.saturating_add(below) > limit {
            files.truncate(count);
            return true;
        }
    }
    false
}
