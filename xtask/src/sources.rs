//! The source and text files of the project.

use std::fs;
use std::path::{Path, PathBuf};

/// A text file of the project.
pub struct Source {
    /// The path relative to the root, with slashes.
    pub path: String,
    /// The contents.
    pub text: String,
}

/// Folders with the project's Rust code.
const FOLDERS: [&str; 9] = [
    "capi",
    "jvm",
    "python",
    "crates",
    "cli",
    "bench",
    "tests",
    "fuzz/fuzz_targets",
    "xtask",
];

/// All Rust files, sorted by path.
pub fn rust(root: &Path) -> Vec<Source> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        below(&root.join(folder), &mut files);
    }
    files.sort();
    let rust = files
        .into_iter()
        .filter(|file| file.extension().is_some_and(|e| e == "rs"));
    rust.map(|file| read(root, &file)).collect()
}

/// Adds every file below `folder` to `files`, except build results.
pub fn below(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            below(&path, files);
        } else if path.is_file() {
            files.push(path);
        }
    }
}

/// Reads a file.
pub fn read(root: &Path, file: &Path) -> Source {
    let path = file
        .strip_prefix(root)
        .unwrap_or(file)
        .to_string_lossy()
        .replace('\\', "/");
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{path}: {error}"));
    Source { path, text }
}
