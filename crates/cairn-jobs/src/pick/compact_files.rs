//! Compactions requested by a program: by files, by level, or by key range.
//!
//! Each function turns a request into a pick or an error. Like all picks, they are pure functions:
//! the caller registers the inputs, runs the job and installs the edit.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use cairn_format::key::InternalKey;
use cairn_options::{CompactionOptions, CompactionStyle, Temperature};
use cairn_platform::sync::Arc;
use cairn_types::{Error, FileNumber, Result, SequenceNumber, ValueKind};
use cairn_version::{FileMeta, bounds};

use super::description::{LevelInputs, Pick, Reason, range};
use super::tree::Tree;
use super::{expand, invariants};

/// A `CompactFiles` request.
#[derive(Clone, Debug)]
pub struct FilesRequest<'a> {
    /// The input files.
    pub files: &'a [FileNumber],
    /// The output level.
    pub output_level: usize,
    /// The path id of the outputs.
    pub path_id: u32,
    /// Options of the request.
    pub options: &'a CompactionOptions,
}

/// Returns the compaction of the files of `request` and of all files that must be included: in every
/// level down to the output, the files between them and those that overlap; for a level-0 file, all
/// older level-0 files.
///
/// # Errors
///
/// `InvalidArgument` if a file or the level does not exist, or a file would move up; `Aborted` if a
/// running compaction conflicts.
pub fn pick_files(tree: &Tree<'_>, request: &FilesRequest<'_>) -> Result<Pick> {
    let version = tree.version;
    let output_level = request.output_level;
    check_output_level(tree, output_level)?;
    if output_level > tree.last_output() {
        return Err(Error::invalid_argument(format!(
            "level {output_level} is reserved for files that are ingested behind"
        )));
    }
    if request.files.is_empty() {
        return Err(Error::invalid_argument(
            "a compaction must contain at least one file",
        ));
    }
    for number in request.files {
        let found = version.files().find(|(_, file)| file.number == *number);
        match found {
            None => {
                return Err(Error::invalid_argument(format!(
                    "table {number} does not exist in the column family"
                )));
            }
            Some((level, _)) if level > output_level => {
                return Err(Error::invalid_argument(format!(
                    "table {number} is in level {level} and cannot move up to level {output_level}"
                )));
            }
            Some(_) => {}
        }
    }
    let inputs = with_all_between(tree, request);
    if inputs.iter().any(|level| tree.busy.any(&level.files)) {
        return Err(Error::aborted(
            "files of the compaction are already being compacted",
        ));
    }
    let pick = expand::assemble(tree, Reason::Manual, 0.0, inputs, output_level);
    let mut pick = pick.ok_or_else(|| {
        Error::aborted("a running compaction writes to the same range of the output level")
    })?;
    let options = request.options;
    pick.output.path_id = request.path_id;
    let temperature = match options.output_temperature_override {
        Temperature::Unknown => None,
        asked => Some(asked),
    };
    let outputs = std::iter::once(&mut pick.output);
    let young = pick.young.as_mut().map(|young| &mut young.output);
    for output in outputs.chain(young) {
        output.temperature = temperature;
        output.target_bytes = options.output_file_size_limit;
        output.max_bytes = options.output_file_size_limit;
    }
    if let Some(compression) = options.compression {
        pick.output.compression = compression;
    }
    if options.max_subcompactions > 0 {
        pick.max_subcompactions = options.max_subcompactions;
    }
    let stays = pick.files().all(|(_, file)| {
        let has_temperature = |asked: Temperature| file.temperature == asked.number();
        file.path_id == request.path_id && temperature.is_none_or(has_temperature)
    });
    pick.trivial_move &= options.allow_trivial_move && stays;
    if cfg!(debug_assertions) {
        invariants::check(tree, &pick);
    }
    Ok(pick)
}

/// Returns the compaction of exactly `files`, which another process has picked and reserved: running compactions of this
/// process are not considered.
///
/// # Errors
///
/// `InvalidArgument` if a file or the level does not exist, or a file would move up.
pub fn pick_exactly(
    tree: &Tree<'_>,
    files: &BTreeSet<FileNumber>,
    output_level: usize,
) -> Result<Pick> {
    let version = tree.version;
    check_output_level(tree, output_level)?;
    let mut inputs = Vec::new();
    for level in 0..=output_level {
        let all = version.level(level).files().iter();
        let files: Vec<_> = all
            .filter(|file| files.contains(&file.number))
            .cloned()
            .collect();
        if !files.is_empty() {
            inputs.push(LevelInputs { level, files });
        }
    }
    let found = inputs.iter().map(|level| level.files.len()).sum::<usize>();
    if found == 0 || found < files.len() {
        return Err(Error::invalid_argument(format!(
            "input files of a compaction to level {output_level}: expected {files:?}, found {found} of them in \
             levels 0 to {output_level} of the column family"
        )));
    }
    let pick = expand::described(tree, Reason::Manual, inputs, output_level);
    Ok(Pick {
        max_subcompactions: 1,
        ..pick
    })
}

/// Rejects an output level that the tree does not have.
fn check_output_level(tree: &Tree, output_level: usize) -> Result<()> {
    let last = match tree.options.style {
        // Files of the FIFO style expire in level 0 only.
        CompactionStyle::Fifo => 0,
        _ => tree.version.num_levels() - 1,
    };
    match output_level <= last {
        true => Ok(()),
        false => Err(Error::invalid_argument(format!(
            "the output level must be between 0 and {last}, found {output_level}"
        ))),
    }
}

/// Returns the inputs by level, with all files that must be included.
fn with_all_between(tree: &Tree, request: &FilesRequest<'_>) -> Vec<LevelInputs> {
    let mut wanted: BTreeSet<FileNumber> = request.files.iter().copied().collect();
    let mut inputs: Vec<LevelInputs> = Vec::new();
    for level in 0..=request.output_level {
        let all = tree.version.level(level).files();
        let reached = inputs.iter().flat_map(|level| &level.files);
        let above = range(tree.order(), reached);
        if let Some((low, high)) = above.as_ref().filter(|_| level > 0) {
            let touched =
                tree.version
                    .overlapping(level, Some(low.as_bytes()), Some(high.as_bytes()));
            wanted.extend(touched.iter().map(|file| file.number));
        }
        let is_wanted = |file: &Arc<FileMeta>| wanted.contains(&file.number);
        let Some(mut first) = all.iter().position(is_wanted) else {
            continue;
        };
        let mut last = all.iter().rposition(is_wanted).unwrap_or(first);
        if level == 0 {
            if request.output_level > 0 {
                last = all.len() - 1;
            }
        } else {
            while first > 0 && shares_key(tree, &all[first - 1], &all[first]) {
                first -= 1;
            }
            while last + 1 < all.len() && shares_key(tree, &all[last], &all[last + 1]) {
                last += 1;
            }
        }
        inputs.push(LevelInputs {
            level,
            files: all[first..=last].to_vec(),
        });
    }
    inputs
}

/// True if two adjacent files of a sorted level share a user key.
fn shares_key(tree: &Tree, left: &FileMeta, right: &FileMeta) -> bool {
    bounds::compare(
        tree.order(),
        left.largest.as_bytes(),
        right.smallest.as_bytes(),
    )
    .is_ge()
}

/// Returns a move of all files of `level` to `target` or, without a target, to the highest empty
/// level with sufficient capacity. `None` if the files are already there.
///
/// # Errors
///
/// `InvalidArgument` if the level does not exist; `NotSupported` if a level in between is not empty or another job writes
/// to it, or level 0 would have to be sorted; `Aborted` for several files into level 0, and if another job uses one of the
/// files.
pub fn refit(tree: &Tree<'_>, level: usize, target: Option<usize>) -> Result<Option<Pick>> {
    let version = tree.version;
    if target.is_some_and(|target| target >= version.num_levels()) {
        return Err(Error::invalid_argument(
            "target level exceeds number of levels",
        ));
    }
    let files = version.level(level).files().to_vec();
    if files.is_empty() {
        return Ok(None);
    }
    let target = target.unwrap_or_else(|| highest_that_fits(tree, level));
    let between = match target.cmp(&level) {
        Ordering::Equal => return Ok(None),
        Ordering::Greater if level == 0 => {
            return Err(Error::not_supported(
                "cannot change from level 0 to other levels",
            ));
        }
        Ordering::Less if target == 0 && files.len() > 1 => {
            return Err(Error::aborted(
                "moving more than one file to level 0 would only make reads slower",
            ));
        }
        Ordering::Greater => level + 1..target + 1,
        Ordering::Less => target..level,
    };
    if between
        .clone()
        .any(|level| !version.level(level).is_empty())
    {
        return Err(Error::not_supported(
            "levels between source and target are not empty for a move",
        ));
    }
    if tree.busy.any(&files) {
        return Err(Error::aborted(format!(
            "files of level {level} are already being compacted"
        )));
    }
    // The output of a job in these levels is newer than the files, which would move above it.
    let written = range(tree.order(), &files).is_some_and(|(low, high)| {
        let (low, high) = (low.as_bytes(), high.as_bytes());
        between
            .into_iter()
            .any(|level| tree.busy.writes(tree.order(), level, low, high))
    });
    if written {
        return Err(being_written());
    }
    let inputs = vec![LevelInputs { level, files }];
    moved(tree, inputs, target).map(Some)
}

/// Returns the highest level above `level` that can hold its files and is reached through empty
/// levels only.
fn highest_that_fits(tree: &Tree, level: usize) -> usize {
    let bytes = tree.version.level(level).bytes();
    let fits = |&above: &usize| {
        tree.version.level(above).is_empty() && tree.targets.max_bytes[above] >= bytes
    };
    (1..level).rev().take_while(fits).last().unwrap_or(level)
}

/// Returns a move of all files of level 0, which must not overlap, to `target`. The levels 1 to
/// `target` must be empty.
///
/// # Errors
///
/// `InvalidArgument` with the reason.
pub fn move_level_zero(tree: &Tree<'_>, target: usize) -> Result<Option<Pick>> {
    let version = tree.version;
    if target == 0 || target >= version.num_levels() {
        return Err(Error::invalid_argument(format!(
            "the target level must be between 1 and {}, found {target}",
            version.num_levels() - 1
        )));
    }
    let mut files = version.level(0).files().to_vec();
    files.sort_by(|a, b| {
        bounds::compare(tree.order(), a.smallest.as_bytes(), b.smallest.as_bytes())
    });
    if tree.busy.any(&files) {
        return Err(Error::invalid_argument(
            "files of level 0 are being compacted",
        ));
    }
    if files
        .windows(2)
        .any(|pair| shares_key(tree, &pair[0], &pair[1]))
    {
        return Err(Error::invalid_argument("files of level 0 overlap"));
    }
    if (1..=target).any(|level| !version.level(level).is_empty()) {
        return Err(Error::invalid_argument(format!(
            "levels 1 to {target} are not empty"
        )));
    }
    match files.is_empty() {
        true => Ok(None),
        false => moved(tree, vec![LevelInputs { level: 0, files }], target).map(Some),
    }
}

fn moved(tree: &Tree, inputs: Vec<LevelInputs>, target: usize) -> Result<Pick> {
    let pick = expand::assemble(tree, Reason::RefitLevel, 0.0, inputs, target);
    let mut pick = pick.ok_or_else(being_written)?;
    pick.trivial_move = true;
    pick.young = None;
    pick.cursor = None;
    Ok(pick)
}

/// The error of a move through levels that another job writes to.
#[cold]
fn being_written() -> Error {
    Error::not_supported(
        "a running compaction or an ingestion writes to levels between source and target",
    )
}

/// A range of user keys; `None` is unbounded.
pub type UserRange<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// Returns the deletion of all files below level 0 whose keys are entirely within one of `ranges`, except inputs of running
/// compactions; damaged files, which are not read, are deleted too. Range ends are inclusive if `include_end`. `None` if
/// there is no such file.
#[must_use]
pub fn delete_in_ranges(
    tree: &Tree<'_>,
    ranges: &[UserRange<'_>],
    include_end: bool,
) -> Option<Pick> {
    let version = tree.version;
    let mut inputs = Vec::new();
    for level in 1..version.num_non_empty_levels() {
        let all = version.level(level).files();
        let mut inside = vec![false; all.len()];
        for range in ranges {
            mark_inside(tree, all, *range, include_end, &mut inside);
        }
        let files: Vec<_> = all
            .iter()
            .zip(inside)
            .filter(|(file, inside)| *inside && !tree.busy.is_input(file.number))
            .map(|(file, _)| file.clone())
            .collect();
        if !files.is_empty() {
            inputs.push(LevelInputs { level, files });
        }
    }
    let output_level = inputs.first()?.level;
    Some(Pick {
        drops: true,
        bottommost: false,
        ..expand::described(tree, Reason::Manual, inputs, output_level)
    })
}

/// Marks the files of a sorted level within `range`, except boundary files that share a user key with a
/// file outside.
fn mark_inside(
    tree: &Tree,
    all: &[Arc<FileMeta>],
    (begin, end): UserRange<'_>,
    include_end: bool,
    inside: &mut [bool],
) {
    let order = tree.order();
    let begin = begin.map(|user| InternalKey::new(user, SequenceNumber::MAX, ValueKind::FOR_SEEK));
    let is_inside = |file: &FileMeta| {
        begin.as_ref().is_none_or(|begin| {
            bounds::compare(order, file.smallest.as_bytes(), begin.as_bytes()).is_ge()
        }) && end.is_none_or(|end| {
            let largest = order.compare_without_timestamp(file.largest.user_key(), end);
            largest.is_lt()
                || (largest.is_eq()
                    && (include_end || bounds::is_sentinel(file.largest.as_bytes())))
        })
    };
    let Some(mut from) = all.iter().position(|file| is_inside(file)) else {
        return;
    };
    let mut until = from
        + all[from..]
            .iter()
            .take_while(|file| is_inside(file))
            .count();
    while from < until && from > 0 && shares_key(tree, &all[from - 1], &all[from]) {
        from += 1;
    }
    while from < until && until < all.len() && shares_key(tree, &all[until - 1], &all[until]) {
        until -= 1;
    }
    inside[from..until].fill(true);
}
