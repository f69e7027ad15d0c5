//! Expands the initial files of a compaction to its complete inputs.

use cairn_format::key::InternalKey;
use cairn_options::CompactionPri;
use cairn_platform::sync::Arc;
use cairn_types::{KeyOrder, PartitionContext};
use cairn_version::{FileMeta, bounds, compaction_score};

use super::description::{LevelInputs, Output, Pick, Reason, range};
use super::tree::{Start, Tree};
use super::young;

/// Maximum number of files of one trivial move, which bounds the work it adds to the next level.
const MAX_FILES_MOVED: usize = 4;

type Files = Vec<Arc<FileMeta>>;

fn bytes(files: &[Arc<FileMeta>]) -> u64 {
    files
        .iter()
        .fold(0, |sum: u64, file| sum.saturating_add(file.size))
}

/// Returns the files of `level` that overlap the range of `files`, transitively in level 0.
fn touching(tree: &Tree, level: usize, files: &[Arc<FileMeta>]) -> Files {
    match range(tree.order(), files) {
        Some((smallest, largest)) => between(tree, level, &smallest, &largest),
        None => Vec::new(),
    }
}

pub(super) fn between(
    tree: &Tree,
    level: usize,
    smallest: &InternalKey,
    largest: &InternalKey,
) -> Files {
    let (begin, end) = (Some(smallest.as_bytes()), Some(largest.as_bytes()));
    match level {
        0 => {
            let files = tree.version.level(0);
            files.overlapping_level_zero(tree.order(), begin, end, true)
        }
        _ => tree.version.overlapping(level, begin, end),
    }
}

/// Returns `files` and the files of their level that share boundary user keys with them, transitively;
/// `None` if one of them is in a running compaction. Files of level 0 are returned unchanged.
pub(super) fn clean_cut(tree: &Tree, level: usize, files: &[Arc<FileMeta>]) -> Option<Files> {
    let mut files = files.to_vec();
    let mut grows = level > 0;
    while grows {
        let grown = touching(tree, level, &files);
        grows = grown.len() > files.len();
        files = grown;
    }
    (!tree.busy.any(&files)).then_some(files)
}

/// Returns the initial inputs of a compaction: the file at index `at` of `level` and the files that
/// must be included. `None` if a running compaction conflicts.
pub(super) fn first_inputs(tree: &Tree, level: usize, at: usize) -> Option<LevelInputs> {
    let file = &tree.version.level(level).files()[at];
    if tree.busy.is_busy(file.number) {
        return None;
    }
    let mut files = clean_cut(tree, level, std::slice::from_ref(file))?;
    let (smallest, largest) = range(tree.order(), &files)?;
    let output_level = level + 1;
    if tree.busy.writes(
        tree.order(),
        output_level,
        smallest.as_bytes(),
        largest.as_bytes(),
    ) {
        return None;
    }
    let below = between(tree, output_level, &smallest, &largest);
    if below.is_empty() {
        extend_move(tree, level, at, &mut files);
    } else {
        clean_cut(tree, output_level, &below)?;
    }
    Some(LevelInputs { level, files })
}

/// Adds the following files to a trivial move if they can be moved as well.
fn extend_move(tree: &Tree, level: usize, at: usize, files: &mut Files) {
    if files.len() != 1 || !tree.options.compression_per_level.is_empty() {
        return;
    }
    let all = tree.version.level(level).files();
    let order = tree.order();
    let mut total = files[0].size;
    let mut fits = |candidate: &Arc<FileMeta>, beyond: Option<&Arc<FileMeta>>, files: &Files| {
        let together: Vec<_> = files.iter().chain([candidate]).cloned().collect();
        let shares_key = beyond.is_some_and(|beyond| {
            let (left, right) = match bounds::compare(
                order,
                beyond.smallest.as_bytes(),
                candidate.smallest.as_bytes(),
            ) {
                std::cmp::Ordering::Less => (beyond, candidate),
                _ => (candidate, beyond),
            };
            bounds::compare(order, left.largest.as_bytes(), right.smallest.as_bytes()).is_ge()
        });
        total = total.saturating_add(candidate.size);
        files.len() < MAX_FILES_MOVED
            && !tree.busy.is_busy(candidate.number)
            && touching(tree, level + 1, &together).is_empty()
            && !shares_key
            && total <= tree.options.max_compaction_bytes
    };
    for right in at + 1..all.len() {
        if !fits(&all[right], all.get(right + 1), files) {
            break;
        }
        files.push(all[right].clone());
    }
    if tree.options.pri == CompactionPri::RoundRobin {
        return;
    }
    for left in (0..at).rev() {
        let beyond = left.checked_sub(1).map(|beyond| &all[beyond]);
        if !fits(&all[left], beyond, files) {
            break;
        }
        files.insert(0, all[left].clone());
    }
}

/// Completes a pick: adds the files of the output level, further files of the start level if they
/// add none of the output level, and the output parameters. `None` if a running compaction
/// conflicts.
pub(super) fn finish(tree: &Tree, start: Start) -> Option<Pick> {
    let mut inputs = vec![start.inputs];
    let (level, output_level) = (inputs[0].level, start.output_level);
    if level != output_level && !start.level_zero_move {
        let (mine, below) = with_output_level(tree, level, &inputs[0].files, output_level)?;
        inputs[0].files = mine;
        if !below.is_empty() {
            inputs.push(LevelInputs {
                level: output_level,
                files: below,
            });
        }
    }
    assemble(tree, start.reason, start.score, inputs, output_level)
}

/// Builds a pick of exactly these inputs. `None` if a running compaction conflicts.
pub(super) fn assemble(
    tree: &Tree,
    reason: Reason,
    score: f64,
    inputs: Vec<LevelInputs>,
    output_level: usize,
) -> Option<Pick> {
    debug_assert!(!inputs.iter().any(|level| tree.busy.any(&level.files)));
    let all = inputs.iter().flat_map(|level| &level.files);
    let (smallest, largest) = range(tree.order(), all)?;
    let (low, high) = (smallest.as_bytes(), largest.as_bytes());
    if tree.busy.writes(tree.order(), output_level, low, high) && output_level > 0 {
        return None;
    }
    let mut pick = Pick {
        score,
        young: young::output(tree, &inputs, output_level),
        ..described(tree, reason, inputs, output_level)
    };
    if pick.young.is_some()
        && tree
            .busy
            .writes(tree.order(), pick.highest_output(), low, high)
    {
        return None;
    }
    pick.trivial_move = is_trivial_move(tree, &pick);
    Some(pick)
}

/// Builds a pick of exactly these inputs, at least one, with one output level, and without regard to running compactions.
pub(super) fn described(
    tree: &Tree,
    reason: Reason,
    inputs: Vec<LevelInputs>,
    output_level: usize,
) -> Pick {
    let all = inputs.iter().flat_map(|level| &level.files);
    let (smallest, largest) = range(tree.order(), all).expect("a pick has at least one input");
    let (low, high) = (smallest.as_bytes(), largest.as_bytes());
    let grandparents = match output_level {
        0 => Vec::new(),
        _ => (output_level + 1..tree.version.num_levels())
            .map(|below| tree.version.overlapping(below, Some(low), Some(high)))
            .find(|files| !files.is_empty())
            .unwrap_or_default(),
    };
    let more_may_come = tree.options.keeps_last_level;
    let bottommost =
        !more_may_come && is_bottommost(tree, &inputs, output_level, &smallest, &largest);
    Pick {
        reason,
        score: 0.0,
        output: output(tree, output_level, bottommost || grandparents.is_empty()),
        cursor: next_cursor(tree, &inputs[0]),
        offer: None,
        skip_level: None,
        inputs,
        grandparents,
        bottommost,
        more_may_come,
        trivial_move: false,
        drops: false,
        young: None,
        max_subcompactions: tree.options.max_subcompactions,
    }
}

/// Returns the files of `level` and of `output_level` that are compacted together if `files` are.
///
/// Files of `level` are added if they add none of the output level. Otherwise the same output files
/// would soon be rewritten for them.
fn with_output_level(
    tree: &Tree,
    level: usize,
    files: &[Arc<FileMeta>],
    output_level: usize,
) -> Option<(Files, Files)> {
    let below = touching(tree, output_level, files);
    let below = clean_cut(tree, output_level, &below)?;
    if below.is_empty() {
        return Some((files.to_vec(), below));
    }
    let (start, _) = range(tree.order(), files)?;
    let (mut smallest, largest) = range(tree.order(), files.iter().chain(&below))?;
    if tree.options.pri == CompactionPri::RoundRobin && level > 0 {
        smallest = start;
    }
    let limit = tree.options.max_compaction_bytes.saturating_mul(2);
    let worth = |more: &Files| {
        more.len() > files.len()
            && !tree.busy.any(more)
            && bytes(&below).saturating_add(bytes(more)) < limit
    };
    let more = between(tree, level, &smallest, &largest);
    if let Some(more) = clean_cut(tree, level, &more).filter(worth) {
        let grown = touching(tree, output_level, &more);
        if clean_cut(tree, output_level, &grown).is_some_and(|grown| grown.len() == below.len()) {
            return Some((more, below));
        }
    }
    let within = clean_within(tree, level, &smallest, &largest);
    match within.filter(worth) {
        Some(within) => Some((within, below)),
        None => Some((files.to_vec(), below)),
    }
}

/// Returns the files of `level`, other than level 0, that lie entirely between the two bounds and share
/// no user key with a file outside.
fn clean_within(
    tree: &Tree,
    level: usize,
    smallest: &InternalKey,
    largest: &InternalKey,
) -> Option<Files> {
    if level == 0 {
        return None;
    }
    let order = tree.order();
    let all = tree.version.level(level).files();
    let inside = |file: &FileMeta| {
        bounds::compare(order, file.smallest.as_bytes(), smallest.as_bytes()).is_ge()
            && bounds::compare(order, file.largest.as_bytes(), largest.as_bytes()).is_le()
    };
    let mut from = all.iter().position(|file| inside(file))?;
    let mut until = from + all[from..].iter().take_while(|file| inside(file)).count();
    let joined = |left: usize| {
        let (left, right) = (&all[left], &all[left + 1]);
        bounds::compare(order, left.largest.as_bytes(), right.smallest.as_bytes()).is_ge()
    };
    while from < until && from > 0 && joined(from - 1) {
        from += 1;
    }
    while from < until && until < all.len() && joined(until - 1) {
        until -= 1;
    }
    Some(all[from..until].to_vec())
}

/// True if no level below the output can hold versions of the inputs' keys.
fn is_bottommost(
    tree: &Tree,
    inputs: &[LevelInputs],
    output_level: usize,
    smallest: &InternalKey,
    largest: &InternalKey,
) -> bool {
    if output_level == 0 {
        let oldest = tree.version.level(0).files().last();
        let last = inputs[0].files.last();
        if oldest.map(|file| file.number) != last.map(|file| file.number) {
            return false;
        }
    }
    let (begin, end) = (smallest.user_key(), largest.user_key());
    !compaction_score::range_exists_below(tree.version, output_level, begin, end)
}

/// Returns the output parameters of `level`. If there is data below, a file may grow to twice its
/// target size so that it can end at a grandparent boundary.
pub(super) fn output(tree: &Tree, level: usize, nothing_below: bool) -> Output {
    let target_bytes = tree.options.target_bytes(&tree.targets, level);
    Output {
        level,
        path_id: super::db_paths::of_level(tree.options, level),
        compression: tree.options.compression(tree.version, &tree.targets, level),
        compression_options: tree
            .options
            .compression_options(tree.version, level)
            .clone(),
        temperature: None,
        target_bytes,
        max_bytes: target_bytes.saturating_mul(match nothing_below || tree.options.strict_target {
            true => 1,
            false => 2,
        }),
        max_compaction_bytes: tree.options.max_compaction_bytes,
    }
}

/// Returns the start key of the next round-robin compaction.
fn next_cursor(tree: &Tree, inputs: &LevelInputs) -> Option<InternalKey> {
    if tree.options.pri != CompactionPri::RoundRobin || inputs.level == 0 {
        return None;
    }
    let level = tree.version.level(inputs.level);
    let last = level.position(inputs.files.last()?.number)?;
    let next = level.files().get(last + 1).or(level.files().first())?;
    Some(next.smallest.clone())
}

/// True if the inputs can be moved to the output level unchanged.
fn is_trivial_move(tree: &Tree, pick: &Pick) -> bool {
    let (level, output) = (pick.start_level(), &pick.output);
    let start = &pick.inputs[0].files;
    let rewrites = match pick.reason {
        Reason::BottommostFiles => true,
        _ => level == output.level || output.level == 0,
    };
    if rewrites
        || pick.young.is_some()
        || pick.inputs.len() > 1
        || (level == 0 && !are_disjoint(tree.order(), start))
        || start.iter().any(|file| file.path_id != output.path_id)
        || tree.options.compression(tree.version, &tree.targets, level) != output.compression
    {
        return false;
    }
    if crosses_border(tree, pick) {
        return false;
    }
    // A file with much overlap below would be expensive to compact from there.
    output.level + 1 == tree.version.num_levels()
        || start.iter().all(|file| {
            let below = touching(tree, output.level + 1, std::slice::from_ref(file));
            bytes(&below).saturating_add(file.size) <= output.max_compaction_bytes
        })
}

/// True if no two of `files` overlap.
pub(super) fn are_disjoint<'f>(
    order: &KeyOrder,
    files: impl IntoIterator<Item = &'f Arc<FileMeta>>,
) -> bool {
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort_by(|a, b| bounds::compare(order, a.smallest.as_bytes(), b.smallest.as_bytes()));
    files.windows(2).all(|pair| {
        bounds::compare(
            order,
            pair[0].largest.as_bytes(),
            pair[1].smallest.as_bytes(),
        )
        .is_lt()
    })
}

/// True if a file of the start level crosses a boundary of the user's partitioner.
fn crosses_border(tree: &Tree, pick: &Pick) -> bool {
    let Some(factory) = tree.options.partitioner.get() else {
        return false;
    };
    let (smallest, largest) = pick.bounds(tree.order());
    let partitioner = factory.create(&PartitionContext {
        is_full_compaction: pick.files().count() == tree.version.files().count(),
        is_manual_compaction: pick.reason == Reason::Manual,
        output_level: pick.output.level,
        smallest_user_key: smallest.user_key(),
        largest_user_key: largest.user_key(),
    });
    partitioner.is_some_and(|mut partitioner| {
        let mut files = pick.files().map(|(_, file)| file);
        files.any(|file| {
            !partitioner.can_do_trivial_move(file.smallest.user_key(), file.largest.user_key())
        })
    })
}
