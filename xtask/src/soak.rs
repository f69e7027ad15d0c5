//! `cargo xtask soak`: a soak test of any length, and the `soak` stage, a short one.
//!
//! The program is `cairn-soak` (`tests/soak`), built with debug assertions like the other tests.

use std::path::Path;

use crate::commands::cargo;

/// The duration in the stage, long enough for every kind of fault.
const STAGE: [&str; 2] = ["--seconds", "20"];

/// Runs the stage.
pub fn stage(root: &Path) -> Result<(), String> {
    run(root, &STAGE.map(str::to_owned))
}

/// Runs the program with the arguments `words`.
pub fn run(root: &Path, words: &[String]) -> Result<(), String> {
    let run = ["run", "--quiet", "--locked", "-p", "cairn-soak", "--"];
    let words = words.iter().map(String::as_str);
    cargo(root, &run.into_iter().chain(words).collect::<Vec<_>>())
}
