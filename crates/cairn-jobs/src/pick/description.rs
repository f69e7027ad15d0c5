//! The description of a compaction: its inputs, its output, and the reason for it.

use cairn_format::key::InternalKey;
use cairn_options::{Compression, CompressionOptions};
use cairn_platform::sync::Arc;
use cairn_types::KeyOrder;
use cairn_version::{FileMeta, TreeEdit, bounds};

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

/// The form of the outputs of a compaction.
#[derive(Clone, Debug)]
pub struct Output {
    /// The level they belong to.
    pub level: usize,
    /// Which of the family's directories they lie in.
    pub path_id: u32,
    /// The compression of their blocks.
    pub compression: Compression,
    /// The options of the codec.
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
    /// The files to read: those of the start level, those of the output level, if any, and those of the
    /// level below it, if a part of the output goes there.
    pub inputs: Vec<LevelInputs>,
    /// The form of the output.
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
    pub offer: Option<SkipLevelCandidates>,
    /// The part of the output that goes a level deeper.
    pub deeper: Option<SkipLevelOutput>,
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
        range(order, self.files().map(|(_, file)| file)).expect("a pick has at least one input")
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
            .min(SkipLevelCandidates::most_chosen(input));
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

/// Where a part of a compaction's output may go.
#[derive(Clone, Debug)]
pub struct SkipLevelCandidates {
    /// The files of the level below the output level that the inputs touch, by key.
    pub files: Vec<Arc<FileMeta>>,
    /// By how many bytes the output level would be too large, about.
    pub excess: u64,
    /// The output if all inputs went there.
    pub whole: SkipLevelOutput,
}

impl SkipLevelCandidates {
    /// The most bytes of `files` that become inputs beside others of `input` bytes: a job that empties level 0
    /// must not take much longer for them.
    #[must_use]
    pub fn most_chosen(input: u64) -> u64 {
        input / 2
    }
}

/// A part of a compaction whose output goes to the level below the output level.
#[derive(Clone, Debug)]
pub struct SkipLevelOutput {
    /// The user key from which on it goes there; `None` from the first of all.
    pub from: Option<Vec<u8>>,
    /// The user key from which on it does not; `None` for no end.
    pub until: Option<Vec<u8>>,
    /// The form of the output there.
    pub output: Output,
    /// Files of the first level below it that overlap the inputs.
    pub grandparents: Vec<Arc<FileMeta>>,
    /// Nothing below it can hold versions of the inputs' keys.
    pub bottommost: bool,
}

/// The bounds of some files together; `None` of no files.
pub(super) fn range<'a>(
    order: &KeyOrder,
    files: impl IntoIterator<Item = &'a Arc<FileMeta>>,
) -> Option<(InternalKey, InternalKey)> {
    let mut files = files.into_iter();
    let first = files.next()?;
    let (mut smallest, mut largest) = (first.smallest.as_bytes(), first.largest.as_bytes());
    let (mut low, mut high) = (&first.smallest, &first.largest);
    for file in files {
        if bounds::min(order, smallest, file.smallest.as_bytes()) != smallest {
            (smallest, low) = (file.smallest.as_bytes(), &file.smallest);
        }
        if bounds::max(order, largest, file.largest.as_bytes()) != largest {
            (largest, high) = (file.largest.as_bytes(), &file.largest);
        }
    }
    Some((low.clone(), high.clone()))
}
