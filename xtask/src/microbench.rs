//! Micro-benchmarks of Cairn's library and another one with RocksDB's C API.

use std::path::Path;

use crate::commands::{cargo, target};

/// Runs the cases that the C API can express, on Cairn's library and the one after `--against`; a further word selects
/// cases by a part of their names.
pub fn run(root: &Path, words: &[String]) -> Result<(), String> {
    let (library, part) = match words {
        [flag, library] if flag == "--against" => (library, None),
        [flag, library, part] if flag == "--against" => (library, Some(part.as_str())),
        _ => return Err("cargo xtask microbench --against LIBRARY [PART OF A NAME]".to_owned()),
    };
    cargo(
        root,
        &["build", "--release", "--locked", "-p", "cairn-librocksdb"],
    )?;
    let ours = target(root).join("release/librocksdb.so");
    let ours = ours.to_string_lossy();
    let run = ["run", "--release", "--locked", "-p", "cairn-bench"];
    let cases = ["--example", "c_api_cases", "--", &ours, library];
    cargo(root, &[&run[..], &cases, part.as_slice()].concat())
}
