//! Choosing what to compact: from a version and options to the description of a job.
//!
//! [`pick`] is a pure function. It opens no file and takes no lock, and the same arguments give
//! the same pick. Who runs the pick adds it to [`Busy`] first and removes it after its edit is
//! installed, so that the next pick keeps clear of it.
//!
//! What every pick keeps, whatever level it is of:
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

mod asked;
mod deeper;
mod expand;
mod fifo;
mod level_zero;
mod manual;
mod options;
mod order;
mod paths;
#[cfg(test)]
mod tests;
mod universal;

use std::collections::HashSet;
use std::ops::RangeInclusive;

use cairn_format::key::{self, InternalKey};
use cairn_options::{CompactionStyle, Compression, CompressionOptions};
use cairn_platform::sync::Arc;
use cairn_types::{FileNumber, KeyOrder};
use cairn_version::shape::{self, Marked, Present, Targets};
use cairn_version::{FileMeta, TreeEdit, Version, blob_gc};

pub use asked::{FilesRequest, UserRange, delete_in_ranges, move_level_zero, pick_files, refit};
pub use deeper::{Deeper, Offer};
pub use manual::{Manual, Step};
pub use options::PickOptions;
pub use universal::run_count;

/// Why a compaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Level 0 has many files.
    LevelL0FilesNum,
    /// A level is larger than its target.
    LevelMaxLevelSize,
    /// Something in the files asks for it.
    FilesMarked,
    /// Versions that snapshots kept alive can go.
    BottommostFiles,
    /// Data is older than the time to live.
    Ttl,
    /// Files have not been rewritten for long.
    Periodic,
    /// Blob files hold too much garbage.
    ForcedBlobGc,
    /// Files are often read in vain.
    ReadTriggered,
    /// A user asks for it.
    Manual,
    /// Too much of a universal tree is not in its oldest run.
    UniversalSizeAmplification,
    /// Runs of similar size of a universal tree are merged.
    UniversalSizeRatio,
    /// A universal tree has too many runs.
    UniversalSortedRunNum,
    /// A FIFO tree is larger than it may be.
    FifoMaxSize,
    /// A FIFO tree has many small files.
    FifoReduceNumFiles,
    /// Files of a FIFO tree are too old.
    FifoTtl,
    /// A user moves files to another level.
    RefitLevel,
}

/// Files of one level.
#[derive(Clone, Debug)]
pub struct LevelInputs {
    /// The level.
    pub level: usize,
    /// The files: by key, or from newest to oldest in level 0.
    pub files: Vec<Arc<FileMeta>>,
}

/// What the outputs of a compaction look like.
#[derive(Clone, Debug)]
pub struct Output {
    /// The level they belong to.
    pub level: usize,
    /// Which of the family's directories they lie in.
    pub path_id: u32,
    /// The compression of their blocks.
    pub compression: Compression,
    /// How hard to compress.
    pub compression_options: CompressionOptions,
    /// The size that files should have, in bytes.
    pub target_bytes: u64,
    /// The size at which a file ends wherever it is, in bytes.
    pub max_bytes: u64,
    /// A file ends before its overlap with the level below exceeds this, in bytes.
    pub max_compaction_bytes: u64,
}

/// A compaction to run.
#[derive(Clone, Debug)]
pub struct Pick {
    /// Why.
    pub reason: Reason,
    /// The score of the level at that moment; 0 where no score decided.
    pub score: f64,
    /// What is read: the files of the start level, those of the output level, if any, and those of the
    /// level below it, if a part of the output goes there.
    pub inputs: Vec<LevelInputs>,
    /// What is written.
    pub output: Output,
    /// Files of the first level below the output that overlap the inputs.
    pub grandparents: Vec<Arc<FileMeta>>,
    /// Nothing below the output can hold versions of the inputs' keys.
    pub bottommost: bool,
    /// Older versions of any key may still be ingested below the output.
    pub more_may_come: bool,
    /// The inputs can be handed to the output level as they are.
    pub trivial_move: bool,
    /// The inputs go, and nothing comes of them.
    pub drops: bool,
    /// Into how many parts the work may be split.
    pub max_subcompactions: u32,
    /// Where the next round-robin compaction of the start level begins.
    pub cursor: Option<InternalKey>,
    /// Files below the output level to which a part of the output may go at once: they are taken, but
    /// no inputs before some of them are chosen, which needs a look into the tables.
    pub offer: Option<Offer>,
    /// The part of the output that goes a level deeper.
    pub deeper: Option<Deeper>,
}

impl Pick {
    /// The level that the compaction is for.
    #[must_use]
    pub fn start_level(&self) -> usize {
        self.inputs[0].level
    }

    /// Every input with its level.
    pub fn files(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        let inputs = self.inputs.iter();
        inputs.flat_map(|level| level.files.iter().map(move |file| (level.level, file)))
    }

    /// The bounds of all inputs together.
    #[must_use]
    pub fn bounds(&self, order: &KeyOrder) -> (InternalKey, InternalKey) {
        expand::range(order, self.files().map(|(_, file)| file))
            .expect("a pick has at least one input")
    }

    /// The sum of the inputs' sizes in bytes.
    #[must_use]
    pub fn input_bytes(&self) -> u64 {
        self.files().map(|(_, file)| file.size).sum()
    }

    /// The most bytes that are read, with a part that may go deeper.
    #[must_use]
    pub fn most_input_bytes(&self) -> u64 {
        let input = self.input_bytes();
        let offered = self.offer.iter().flat_map(|offer| &offer.files);
        let deeper = offered
            .map(|file| file.size)
            .sum::<u64>()
            .min(Offer::most_chosen(input));
        input.saturating_add(deeper)
    }

    /// The edit of a trivial move: the inputs leave their level and join the output level. If they
    /// are dropped, they only leave.
    #[must_use]
    pub fn as_move(&self) -> TreeEdit {
        let mut edit = TreeEdit::default();
        let stays = |level: usize| !self.drops && level == self.output.level;
        for (level, file) in self.files().filter(|(level, _)| !stays(*level)) {
            edit.deleted.push((level, file.number));
            if !self.drops {
                edit.added.push((self.output.level, file.clone()));
            }
        }
        edit.cursors
            .extend(self.cursor.clone().map(|key| (self.start_level(), key)));
        edit
    }
}

/// Names a running job in [`Busy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobId(u64);

/// What running compactions of a family have taken.
#[derive(Clone, Debug, Default)]
pub struct Busy {
    files: HashSet<FileNumber>,
    /// Those of them that are damaged.
    aside: HashSet<FileNumber>,
    running: Vec<Running>,
    next: u64,
}

/// One running compaction.
#[derive(Clone, Debug)]
struct Running {
    id: JobId,
    files: Vec<FileNumber>,
    start_level: usize,
    output_level: usize,
    /// The levels it writes to.
    writes: RangeInclusive<usize>,
    smallest: InternalKey,
    largest: InternalKey,
}

impl Busy {
    /// Takes the inputs and the output range of `pick`, which is about to run.
    ///
    /// # Panics
    ///
    /// If an input is taken already: two jobs would then write the same entries.
    pub fn add(&mut self, order: &KeyOrder, pick: &Pick) -> JobId {
        let id = JobId(self.next);
        self.next += 1;
        let offered = pick.offer.iter().flat_map(|offer| &offer.files);
        let taken = || pick.files().map(|(_, file)| file).chain(offered.clone());
        let (smallest, largest) =
            expand::range(order, taken()).expect("a pick has at least one input");
        let files: Vec<FileNumber> = taken().map(|file| file.number).collect();
        for &file in &files {
            assert!(
                self.files.insert(file),
                "table {file} is in a running compaction already"
            );
        }
        self.running.push(Running {
            id,
            files,
            start_level: pick.start_level(),
            output_level: pick.output.level,
            writes: pick.output.level..=pick.output.level + usize::from(pick.offer.is_some()),
            smallest,
            largest,
        });
        id
    }

    /// Keeps compactions from writing between the two bounds of `level`, where files are about to
    /// enter from outside; until [`Busy::remove`].
    pub fn reserve(
        &mut self,
        level: usize,
        smallest: &InternalKey,
        largest: &InternalKey,
    ) -> JobId {
        let id = JobId(self.next);
        self.next += 1;
        self.running.push(Running {
            id,
            files: Vec::new(),
            start_level: level,
            output_level: level,
            writes: level..=level,
            smallest: smallest.clone(),
            largest: largest.clone(),
        });
        id
    }

    /// Gives back what the job had taken; after its edit is installed, or it has failed.
    pub fn remove(&mut self, id: JobId) {
        if let Some(at) = self.running.iter().position(|running| running.id == id) {
            for file in self.running.swap_remove(at).files {
                if !self.aside.contains(&file) {
                    self.files.remove(&file);
                }
            }
        }
    }

    /// Lets picks have again what [`Busy::set_aside`] took.
    pub fn take_back(&mut self) {
        for file in std::mem::take(&mut self.aside) {
            if !self.running.iter().any(|job| job.files.contains(&file)) {
                self.files.remove(&file);
            }
        }
    }

    /// Takes `file` until [`Busy::take_back`]: no pick has it any more. Whether it was free of that
    /// before.
    pub fn set_aside(&mut self, file: FileNumber) -> bool {
        self.files.insert(file);
        self.aside.insert(file)
    }

    /// How many compactions run.
    #[must_use]
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Whether none runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether the file is an input of a running compaction.
    #[must_use]
    pub fn contains(&self, number: FileNumber) -> bool {
        self.files.contains(&number)
    }

    /// The inputs of all running compactions.
    #[must_use]
    pub fn files(&self) -> &HashSet<FileNumber> {
        &self.files
    }

    fn any(&self, files: &[Arc<FileMeta>]) -> bool {
        files.iter().any(|file| self.contains(file.number))
    }

    /// Whether a compaction of level 0 runs. Only one may: its files overlap.
    #[must_use]
    pub fn takes_level_zero(&self) -> bool {
        self.running.iter().any(|running| running.start_level == 0)
    }

    /// Whether a running compaction takes files of level 0 to `base`.
    fn empties_level_zero_into(&self, base: usize) -> bool {
        let mut running = self.running.iter();
        running.any(|running| running.start_level == 0 && running.output_level == base)
    }

    /// Whether a running compaction writes to `level` between the two bounds (internal keys).
    #[must_use]
    pub fn writes(&self, order: &KeyOrder, level: usize, smallest: &[u8], largest: &[u8]) -> bool {
        self.running.iter().any(|running| {
            let compare = |bound: &InternalKey, other: &[u8]| {
                order.compare_without_timestamp(bound.user_key(), key::user_key(other))
            };
            running.writes.contains(&level)
                && compare(&running.smallest, largest).is_le()
                && compare(&running.largest, smallest).is_ge()
        })
    }
}

/// What a pick is made from.
struct Tree<'a> {
    version: &'a Version,
    busy: &'a Busy,
    present: &'a Present,
    options: &'a PickOptions,
    targets: Targets,
}

/// Where a compaction starts, before the files of the output level are known.
struct Start {
    reason: Reason,
    score: f64,
    inputs: LevelInputs,
    output_level: usize,
    /// Files of level 0 that overlap neither one another nor anything in the output level.
    level_zero_move: bool,
}

/// Chooses the next compaction of a tree of any style, or `None` when nothing asks for one.
///
/// In a leveled tree the order is the order of urgency: full levels by their score, then files
/// that ask for a compaction by their content, by what snapshots no longer need, by their age.
#[must_use]
pub fn pick(
    version: &Version,
    busy: &Busy,
    present: &Present,
    options: &PickOptions,
) -> Option<Pick> {
    let tree = Tree::new(version, busy, present, options);
    match options.style {
        CompactionStyle::Level => fullest_level(&tree).or_else(|| marked_files(&tree)),
        CompactionStyle::Universal => universal::pick(&tree),
        CompactionStyle::Fifo => fifo::pick(&tree),
        CompactionStyle::None => None,
    }
}

/// Whether [`pick`] is worth asking: some level is due, or some file is marked. It may still find
/// nothing while other compactions run.
#[must_use]
pub fn is_due(version: &Version, busy: &Busy, present: &Present, options: &PickOptions) -> bool {
    if options.style != CompactionStyle::Level {
        return pick(version, busy, present, options).is_some();
    }
    let tree = Tree::new(version, busy, present, options);
    let scores = shape::scores(version, &tree.targets, busy.files(), &options.shape);
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

impl<'a> Tree<'a> {
    fn new(
        version: &'a Version,
        busy: &'a Busy,
        present: &'a Present,
        options: &'a PickOptions,
    ) -> Tree<'a> {
        let targets = shape::targets(version, &options.shape);
        Tree {
            version,
            busy,
            present,
            options,
            targets,
        }
    }

    fn order(&self) -> &KeyOrder {
        self.version.order()
    }

    fn marked(&self) -> Marked {
        let mut marked = shape::marked(
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
    fn last_output(&self) -> usize {
        self.version.num_levels() - 1 - usize::from(self.options.keeps_last_level)
    }

    /// The files that are compacted so that old blob files can go.
    fn forced_by_blobs(&self) -> Vec<(usize, Arc<FileMeta>)> {
        blob_gc::forced(self.version, self.busy.files(), &self.options.blobs)
    }

    /// The level that files of `level` are compacted into.
    fn next_level(&self, level: usize) -> usize {
        if level == 0 {
            self.targets.base_level
        } else {
            level + 1
        }
    }
}

/// A compaction of the level that most needs one.
fn fullest_level(tree: &Tree) -> Option<Pick> {
    let scores = shape::scores(
        tree.version,
        &tree.targets,
        tree.busy.files(),
        &tree.options.shape,
    );
    let mut level_zero_waits = false;
    for (level, score) in scores.into_iter().take_while(|&(_, score)| score >= 1.0) {
        let base = tree.targets.base_level;
        if level_zero_waits && level == base && !tree.busy.empties_level_zero_into(base) {
            // More work on the base level would keep level 0 waiting for ever. While level 0 is
            // being emptied it has what it needs, and what that leaves of the base level is free.
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

/// A compaction of a level from 1 on: the first file, in the order of priority, that can go.
fn sorted_level(tree: &Tree, level: usize, score: f64) -> Option<Pick> {
    for at in order::by_priority(tree, level) {
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
            // Skipping a file would break the turn.
            return None;
        }
    }
    None
}

/// Where files that ask for a compaction go.
#[derive(Clone, Copy)]
enum Goes {
    /// To the next level, or from the last one to itself.
    Down,
    /// To the next level, but not from the last one.
    DownUnlessLast,
    /// To its own level.
    Nowhere,
}

/// A compaction of a file that asks for one though its level is not full.
fn marked_files(tree: &Tree) -> Option<Pick> {
    let marked = tree.marked();
    let periodic = match tree.options.shape.dynamic {
        true => Goes::Down,
        false => Goes::Nowhere,
    };
    first_of(tree, Reason::FilesMarked, &marked.content, Goes::Down)
        .or_else(|| {
            first_of(
                tree,
                Reason::BottommostFiles,
                &marked.bottommost,
                Goes::Nowhere,
            )
        })
        .or_else(|| first_of(tree, Reason::Ttl, &marked.expired, Goes::DownUnlessLast))
        .or_else(|| first_of(tree, Reason::Periodic, &marked.periodic, periodic))
        .or_else(|| {
            first_of(
                tree,
                Reason::ForcedBlobGc,
                &tree.forced_by_blobs(),
                Goes::Nowhere,
            )
        })
        .or_else(|| first_of(tree, Reason::ReadTriggered, &marked.read, Goes::Down))
}

fn first_of(
    tree: &Tree,
    reason: Reason,
    files: &[(usize, Arc<FileMeta>)],
    goes: Goes,
) -> Option<Pick> {
    let last = tree.version.num_non_empty_levels().saturating_sub(1);
    files.iter().find_map(|(level, file)| {
        let output_level = match goes {
            Goes::Nowhere => *level,
            Goes::DownUnlessLast if *level == last => return None,
            Goes::Down if *level == last && *level > 0 => *level,
            Goes::Down | Goes::DownUnlessLast => tree.next_level(*level),
        };
        if *level == 0 && tree.busy.takes_level_zero() {
            return None;
        }
        let files = expand::clean_cut(tree, *level, std::slice::from_ref(file))?;
        let inputs = match *level {
            0 => level_zero::with_overlapping(tree, files, output_level)?,
            level => LevelInputs { level, files },
        };
        let start = Start {
            reason,
            score: 0.0,
            inputs,
            output_level,
            level_zero_move: false,
        };
        expand::finish(tree, start)
    })
}
