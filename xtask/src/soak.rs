//! `cargo xtask soak`: a long run of every kind of load, and the stage `soak`, a short one.
//!
//! The program is `cairn-soak` (`tests/soak`). It is built like the tests, with assertions.

use std::path::Path;

use crate::commands::cargo;

/// Seconds of the run in the stage: every kind of fault comes up once.
const STAGE: [&str; 2] = ["--seconds", "20"];

/// The stage.
pub fn stage(root: &Path) -> Result<(), String> {
    run(root, &STAGE.map(str::to_owned))
}

/// Runs the program with `words` as its arguments.
pub fn run(root: &Path, words: &[String]) -> Result<(), String> {
    let run = ["run", "--quiet", "--locked", "-p", "cairn-soak", "--"];
    let words = words.iter().map(String::as_str);
    cargo(root, &run.into_iter().chain(words).collect::<Vec<_>>())
}
