//! Compacts a key range of level 0 two levels down in one step.
//!
//! If merging level 0 makes the base level exceed its target, files of the base level are compacted
//! further right away. For some key range, that intermediate write can be skipped: the files of the
//! next level in that range become inputs too, and the range is written there. The range is bounded
//! by files of that level, so that each of them is an input with all its keys or not at all.
//!
//! The pick reserves all candidate files of that level. [`crate::multi_level`] chooses among them,
//! once the tables are open.

use super::description::{LevelInputs, Pick, SkipLevelCandidates, SkipLevelOutput};
use super::expand;
use super::tree::Tree;
use super::young;

/// Adds the skip-level candidates to a pick that empties level 0, if its output level would exceed its
/// target and no running compaction conflicts.
pub(super) fn offered(tree: &Tree, pick: Pick) -> Pick {
    let offer = offer(tree, &pick);
    Pick { offer, ..pick }
}

fn offer(tree: &Tree, pick: &Pick) -> Option<SkipLevelCandidates> {
    let (level, below) = (pick.output.level, pick.output.level + 1);
    // All versions of a key with timestamps must stay in one output level.
    let splits_by_age = pick.young.is_some() || young::is_kept_out_of(tree, below);
    if splits_by_age
        || pick.trivial_move
        || below > tree.last_output()
        || tree.order().timestamp_size() > 0
    {
        return None;
    }
    // If level 0 is far over its trigger, emptying it quickly takes precedence.
    if pick.inputs[0].files.len() > 2 * tree.options.shape.level0_trigger {
        return None;
    }
    let input = pick.input_bytes();
    let level_input: u64 = pick.inputs[1..]
        .iter()
        .flat_map(|inputs| &inputs.files)
        .map(|file| file.size)
        .fold(0, u64::saturating_add);
    let rest = tree
        .version
        .level(level)
        .bytes()
        .saturating_sub(level_input);
    // Merging shrinks the data: about an eighth of a random load are overwrites.
    let merged = input - input / 8;
    let excess = rest
        .saturating_add(merged)
        .saturating_sub(tree.targets.max_bytes[level]);
    if excess == 0 {
        return None;
    }
    let (smallest, largest) = pick.bounds(tree.order());
    let touched = expand::between(tree, below, &smallest, &largest);
    let files = expand::clean_cut(tree, below, &touched).filter(|files| !files.is_empty())?;
    let mut inputs = pick.inputs.clone();
    inputs.push(LevelInputs {
        level: below,
        files: files.clone(),
    });
    // `None` if a running compaction writes to that level.
    let whole = expand::assemble(tree, pick.reason, pick.score, inputs, below)?;
    Some(SkipLevelCandidates {
        files,
        excess,
        whole: SkipLevelOutput {
            from: None,
            until: None,
            output: whole.output,
            grandparents: whole.grandparents,
            bottommost: whole.bottommost,
        },
    })
}
