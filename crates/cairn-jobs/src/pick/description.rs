//! The description of a compaction: its inputs, its output, and its reason.

use cairn_format::key::InternalKey;
use cairn_options::{Compression, CompressionOptions, Temperature};
use cairn_platform::sync::Arc;
use cairn_types::{KeyOrder, SequenceNumber};
use cairn_version::{FileMeta, TreeEdit, bounds};

/// The reason of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Level 0 has reached its file trigger.
    LevelL0FilesNum,
    /// A level exceeds its target size.
    LevelMaxLevelSize,
    /// Files are marked for compaction by a property collector.
    FilesMarked,
    /// Bottommost files hold versions that no snapshot needs any more.
    BottommostFiles,
    /// Files have expired.
    Ttl,
    /// Files have exceeded the periodic compaction interval.
    Periodic,
    /// Blob files hold too much garbage.
    ForcedBlobGc,
    /// Files are read often without a hit.
    ReadTriggered,
    /// Requested by the user.
    Manual,
    /// A universal tree exceeds its space amplification limit.
    UniversalSizeAmplification,
    /// Sorted runs of a universal tree have similar sizes.
    UniversalSizeRatio,
    /// A universal tree has too many sorted runs.
    UniversalSortedRunNum,
    /// A FIFO tree exceeds its size limit.
    FifoMaxSize,
    /// A FIFO tree has many small files.
    FifoReduceNumFiles,
    /// Files of a FIFO tree have expired.
    FifoTtl,
    /// A file of a FIFO tree has reached the age of another temperature.
    ChangeTemperature,
    /// Files are moved to another level at the user's request.
    RefitLevel,
}

/// Input files of one level.
#[derive(Clone, Debug)]
pub struct LevelInputs {
    /// The level.
    pub level: usize,
    /// The files, in key order; newest first in level 0.
    pub files: Vec<Arc<FileMeta>>,
}

/// Output parameters of a compaction.
#[derive(Clone, Debug)]
pub struct Output {
    /// The output level.
    pub level: usize,
    /// The path id of the output directory.
    pub path_id: u32,
    /// Compression of blocks.
    pub compression: Compression,
    /// Compression options.
    pub compression_options: CompressionOptions,
    /// The temperature of the files; `None` for that of the level.
    pub temperature: Option<Temperature>,
    /// Target file size, in bytes.
    pub target_bytes: u64,
    /// Maximum file size, in bytes.
    pub max_bytes: u64,
    /// Maximum overlap of a file with the next level, in bytes.
    pub max_compaction_bytes: u64,
}

/// A compaction to run.
#[derive(Clone, Debug)]
pub struct Pick {
    /// The reason.
    pub reason: Reason,
    /// The score of the level when it was picked; 0 for picks without a score.
    pub score: f64,
    /// The inputs: those of the start level, those of the output level, if any, and those of the
    /// level below it for a skip-level range.
    pub inputs: Vec<LevelInputs>,
    /// Output parameters.
    pub output: Output,
    /// Files of the first level with data below the output that overlap the inputs.
    pub grandparents: Vec<Arc<FileMeta>>,
    /// True if no level below the output can hold versions of the inputs' keys.
    pub bottommost: bool,
    /// True if older versions of any key may still be ingested below the output.
    pub more_may_come: bool,
    /// True if the inputs can be moved to the output level unchanged.
    pub trivial_move: bool,
    /// True if the inputs are deleted without output.
    pub drops: bool,
    /// Maximum number of subcompactions.
    pub max_subcompactions: u32,
    /// The start key of the next round-robin compaction of the start level.
    pub cursor: Option<InternalKey>,
    /// Files below the output level that a skip-level range may include. They are reserved, but become
    /// inputs only if chosen when the job starts.
    pub offer: Option<SkipLevelCandidates>,
    /// The skip-level range, once chosen.
    pub skip_level: Option<SkipLevelOutput>,
    /// The output of entries that are too young for the output level, which is the last one.
    pub young: Option<YoungOutput>,
}

impl Pick {
    /// Returns the start level.
    #[must_use]
    pub fn start_level(&self) -> usize {
        self.inputs[0].level
    }

    /// Returns the highest level that the compaction may write to.
    #[must_use]
    pub fn highest_output(&self) -> usize {
        self.young
            .as_ref()
            .map_or(self.output.level, |young| young.output.level)
    }

    /// Returns every input with its level.
    pub fn files(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        let inputs = self.inputs.iter();
        inputs.flat_map(|level| level.files.iter().map(move |file| (level.level, file)))
    }

    /// Returns the bounds of all inputs.
    #[must_use]
    pub fn bounds(&self, order: &KeyOrder) -> (InternalKey, InternalKey) {
        range(order, self.files().map(|(_, file)| file)).expect("a pick has at least one input")
    }

    /// Returns the total input size in bytes.
    #[must_use]
    pub fn input_bytes(&self) -> u64 {
        self.files()
            .map(|(_, file)| file.size)
            .fold(0, u64::saturating_add)
    }

    /// Returns the maximum input size in bytes, including a skip-level range.
    #[must_use]
    pub fn most_input_bytes(&self) -> u64 {
        let input = self.input_bytes();
        let offered = self.offer.iter().flat_map(|offer| &offer.files);
        let skip_level = offered
            .map(|file| file.size)
            .fold(0, u64::saturating_add)
            .min(SkipLevelCandidates::most_chosen(input));
        input.saturating_add(skip_level)
    }

    /// Returns the edit of a trivial move, or of a deletion if `drops`.
    #[must_use]
    pub fn as_move(&self) -> TreeEdit {
        assert!(
            self.trivial_move || self.drops,
            "the inputs are not rewritten"
        );
        assert!(self.skip_level.is_none(), "a move has one output level");
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

/// Candidates of a skip-level range.
#[derive(Clone, Debug)]
pub struct SkipLevelCandidates {
    /// Files of the level below the output level that overlap the inputs, in key order.
    pub files: Vec<Arc<FileMeta>>,
    /// The approximate number of bytes by which the output level would exceed its target.
    pub excess: u64,
    /// The output parameters for an unbounded range.
    pub whole: SkipLevelOutput,
}

impl SkipLevelCandidates {
    /// Returns the maximum total size of candidate files to include, given `input` bytes of other
    /// inputs: they must not make a compaction of level 0 much longer.
    #[must_use]
    pub fn most_chosen(input: u64) -> u64 {
        input / 2
    }
}

/// A key range of a compaction that is written to the level below the output level.
#[derive(Clone, Debug)]
pub struct SkipLevelOutput {
    /// The first user key of the range; `None` if it is unbounded below.
    pub from: Option<Vec<u8>>,
    /// The first user key after the range; `None` if it is unbounded above.
    pub until: Option<Vec<u8>>,
    /// Output parameters of that level.
    pub output: Output,
    /// Files of the first level with data below it that overlap the inputs.
    pub grandparents: Vec<Arc<FileMeta>>,
    /// True if no level below it can hold versions of the inputs' keys.
    pub bottommost: bool,
}

/// The output of young entries to the level above the last one.
#[derive(Clone, Debug)]
pub struct YoungOutput {
    /// Output parameters of that level.
    pub output: Output,
    /// Entries up to this sequence number are written to the last level at any age.
    pub stays_through: SequenceNumber,
}

/// Returns the combined bounds of `files`; `None` if there are none.
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
