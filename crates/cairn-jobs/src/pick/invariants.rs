//! Assertions of the invariants of picks, numbered as in the docs of [`crate::pick`].

use cairn_platform::sync::Arc;
use cairn_version::{FileMeta, bounds};

use super::description::{LevelInputs, Pick, range};
use super::expand;
use super::tree::Tree;

/// Asserts the invariants of `pick`, which is about to be returned.
pub(super) fn check(tree: &Tree, pick: &Pick) {
    let (inputs, output) = (&pick.inputs, &pick.output);
    assert!(
        inputs.iter().all(|level| !level.files.is_empty()),
        "an input level has files"
    );
    assert!(
        inputs.windows(2).all(|pair| pair[0].level < pair[1].level),
        "inputs are listed from upper to lower levels"
    );
    assert!(
        !pick
            .files()
            .any(|(_, file)| tree.busy.is_taken(file.number, pick.drops)),
        "invariant 1: no input belongs to a running job"
    );
    if pick.drops {
        return;
    }
    assert!(
        inputs.iter().all(|level| level.level <= output.level) || pick.trivial_move,
        "only a move goes upwards"
    );
    assert!(
        output.target_bytes <= output.max_bytes,
        "a file may reach its target size"
    );
    for level in inputs.iter().filter(|level| level.level > 0) {
        check_clean_cut(tree, level);
    }
    if output.level > 0 {
        check_level_zero(tree, pick);
        check_output_level(tree, pick);
        check_young(tree, pick);
    }
}

/// Asserts invariant 5: what is written to the level above the output overlaps no other file of it.
fn check_young(tree: &Tree, pick: &Pick) {
    let Some(young) = &pick.young else {
        return;
    };
    let output = pick.output.level;
    assert_eq!(output + 1, tree.version.num_levels());
    assert_eq!(output, young.output.level + 1);
    assert!(!pick.trivial_move && pick.offer.is_none() && pick.bottommost);
    let stays = pick
        .files()
        .filter(|(level, _)| *level == output)
        .all(|(_, file)| file.seqs.largest <= young.stays_through);
    let rises = pick
        .files()
        .filter(|(level, _)| !stays || *level < output)
        .map(|(_, file)| file);
    let Some((smallest, largest)) = range(tree.order(), rises) else {
        return;
    };
    for file in expand::between(tree, young.output.level, &smallest, &largest) {
        assert!(
            pick.files().any(|(_, input)| input.number == file.number),
            "invariant 5: file {} of the level above the output is no input",
            file.number
        );
    }
}

/// Asserts invariant 2: no file next to the inputs of a sorted level shares a user key with them.
fn check_clean_cut(tree: &Tree, inputs: &LevelInputs) {
    let level = tree.version.level(inputs.level);
    let files = level.files();
    let is_input =
        |file: &Arc<FileMeta>| inputs.files.iter().any(|input| input.number == file.number);
    for pair in files
        .windows(2)
        .filter(|pair| is_input(&pair[0]) != is_input(&pair[1]))
    {
        assert!(
            bounds::are_apart(tree.order(), &pair[0], &pair[1]),
            "invariant 2: files {} and {} share a user key",
            pair[0].number,
            pair[1].number
        );
    }
}

/// Asserts invariant 3: no file of level 0 that is older than an input and overlaps it stays behind.
fn check_level_zero(tree: &Tree, pick: &Pick) {
    let Some(inputs) = pick.inputs.first().filter(|inputs| inputs.level == 0) else {
        return;
    };
    let is_input =
        |file: &Arc<FileMeta>| inputs.files.iter().any(|input| input.number == file.number);
    let files = tree.version.level(0).files();
    for (at, input) in files.iter().enumerate().filter(|(_, file)| is_input(file)) {
        let older = files[at + 1..].iter().filter(|file| !is_input(file));
        for older in older {
            assert!(
                bounds::are_apart(tree.order(), older, input)
                    || bounds::are_apart(tree.order(), input, older),
                "invariant 3: file {} is older than {} and overlaps it",
                older.number,
                input.number
            );
        }
    }
}

/// Asserts invariant 4: every file of the output level that overlaps the inputs is an input.
fn check_output_level(tree: &Tree, pick: &Pick) {
    let all = pick.files().map(|(_, file)| file);
    let (smallest, largest) = range(tree.order(), all).expect("a pick has at least one input");
    for file in expand::between(tree, pick.output.level, &smallest, &largest) {
        assert!(
            pick.files().any(|(_, input)| input.number == file.number),
            "invariant 4: file {} of the output level is no input",
            file.number
        );
    }
}
