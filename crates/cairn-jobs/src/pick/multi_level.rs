//! Sending a part of what comes from level 0 two levels down at once.
//!
//! When level 0 is merged into a level that is then too large, files of that level are compacted
//! further as soon as they are written. What is going to leave can spare itself the stop: in a range of
//! keys the files of the level below become inputs too, and what is written there joins them. Files of
//! the level below border the range, so that each of them is an input whole or not at all.
//!
//! The pick takes all files of that level that come into question. Which of them become inputs is
//! chosen by [`crate::multi_level`], with the tables at hand.

use super::description::{LevelInputs, Pick, SkipLevelCandidates, SkipLevelOutput};
use super::expand;
use super::tree::Tree;

/// Adds to a pick that empties level 0 where a part of it may go, if the output level would be too
/// large and nothing is in the way.
pub(super) fn offered(tree: &Tree, pick: Pick) -> Pick {
    let offer = offer(tree, &pick);
    Pick { offer, ..pick }
}

fn offer(tree: &Tree, pick: &Pick) -> Option<SkipLevelCandidates> {
    let (level, below) = (pick.output.level, pick.output.level + 1);
    // Keys with timestamps are not cut apart.
    if pick.trivial_move || below > tree.last_output() || tree.order().timestamp_size() > 0 {
        return None;
    }
    // Where level 0 is far behind it has to become small soon.
    if pick.inputs[0].files.len() > 2 * tree.options.shape.level0_trigger {
        return None;
    }
    let input = pick.input_bytes();
    let level_input: u64 = pick.inputs[1..]
        .iter()
        .flat_map(|inputs| &inputs.files)
        .map(|file| file.size)
        .sum();
    let rest = tree
        .version
        .level(level)
        .bytes()
        .saturating_sub(level_input);
    // What is merged becomes smaller: keys that are written again make an eighth of random loads.
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
    // `None` where a running compaction writes to that level.
    let whole = expand::assemble(tree, pick.reason, pick.score, inputs, below, false)?;
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
