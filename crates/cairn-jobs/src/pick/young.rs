//! Compactions into the last level that leave young entries in the level above it (`preclude_last_level_data_seconds`).
//!
//! Such a compaction writes entries with larger sequence numbers than a limit to the *upper* level, the one above the last,
//! and all others to the last level. For each key the newer versions are thus above the older ones.
//!
//! 1. Files of the upper level that overlap what is written there are inputs, and its range is reserved in both levels.
//! 2. Entries of the last level move up only in a universal tree, and only if every file of the upper level over the whole
//!    range of the inputs is an input. Otherwise the limit is at least the largest sequence number that the inputs have in
//!    the last level, so that only the range of the other inputs is written to the upper level. In a leveled tree, data that
//!    moved up would exceed the target of its level and be compacted again.
//! 3. Range tombstones are divided at the same limit and truncated to the bounds of their input files, so that those in the
//!    upper level stay in that range, too. Tombstones that no snapshot needs are dropped, because all that they cover is an
//!    input.
//! 4. The limit is at most the oldest snapshot: older entries that get sequence number 0 go to the last level.
//!
//! A compaction that would only rewrite young files of the upper level is not picked, except by request or age of files.

use cairn_options::CompactionStyle;
use cairn_types::SequenceNumber;

use super::description::{LevelInputs, Pick, Reason, YoungOutput, range};
use super::expand;
use super::tree::Tree;

/// True if young entries are kept out of `level`.
pub(super) fn is_kept_out_of(tree: &Tree, level: usize) -> bool {
    let is_ordered = matches!(
        tree.options.style,
        CompactionStyle::Level | CompactionStyle::Universal
    );
    tree.options.shape.precludes_young
        && is_ordered
        && level >= 2
        && level + 1 == tree.version.num_levels()
        && !tree.options.keeps_last_level
        && tree.order().timestamp_size() == 0
}

/// Returns the output of young entries of a compaction of `inputs` into `output_level`, if it may have one.
pub(super) fn output(
    tree: &Tree,
    inputs: &[LevelInputs],
    output_level: usize,
) -> Option<YoungOutput> {
    if !is_kept_out_of(tree, output_level) {
        return None;
    }
    let upper = output_level - 1;
    // True if every file of the upper level within the range of the inputs of these levels is an input.
    let covers = |is_chosen: &dyn Fn(usize) -> bool| {
        let chosen = inputs.iter().filter(|inputs| is_chosen(inputs.level));
        let Some((low, high)) = range(tree.order(), chosen.flat_map(|inputs| &inputs.files)) else {
            return false;
        };
        let mine = inputs.iter().filter(|inputs| inputs.level == upper);
        let is_input = |number| {
            let mut files = mine.clone().flat_map(|inputs| &inputs.files);
            files.any(|file| file.number == number)
        };
        let touched = expand::between(tree, upper, &low, &high);
        touched.iter().all(|file| is_input(file.number))
    };
    let stays_through = if tree.options.style == CompactionStyle::Universal && covers(&|_| true) {
        SequenceNumber::ZERO
    } else if covers(&|level| level < output_level) {
        let last = inputs.iter().filter(|inputs| inputs.level == output_level);
        let seqs = last.flat_map(|inputs| &inputs.files);
        seqs.map(|file| file.seqs.largest).max().unwrap_or_default()
    } else {
        return None;
    };
    Some(YoungOutput {
        output: expand::output(tree, upper, false),
        stays_through,
    })
}

/// True if `pick`, which is due because of the sizes of files or their contents, would only rewrite young files of the
/// upper level.
pub(super) fn is_futile(tree: &Tree, pick: &Pick) -> bool {
    let above = || pick.files().filter(|(level, _)| *level < pick.output.level);
    !matches!(pick.reason, Reason::Manual | Reason::Periodic)
        && pick.young.is_some()
        && above().next().is_some()
        && above().all(|(level, file)| tree.limits.is_young(tree.version, level, file))
}
