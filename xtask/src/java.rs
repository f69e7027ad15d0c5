//! Programs in Java that compare Cairn's library with RocksDB's: their build, and the two libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::{cargo, fresh, printed, target};

/// The folder of Cairn's library: `given`, or that of the library built with `profile`.
pub fn library(root: &Path, given: Option<&String>, profile: &str) -> Result<PathBuf, String> {
    if let Some(folder) = given {
        return Path::new(folder)
            .canonicalize()
            .map_err(|error| format!("{folder}: {error}"));
    }
    let build = ["build", "--package", "cairn-rocksdbjni", "--locked"];
    cargo(root, &[&build[..], &["--profile", profile]].concat())?;
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(target(root).join(folder))
}

/// Runs Maven in `folder`, and no other at the same time: its repository of artifacts is not made for that.
pub fn maven(folder: &Path, words: &[&str]) -> Result<(), String> {
    let path = std::env::temp_dir().join("cairn-maven.lock");
    let lock = std::fs::File::create(&path).and_then(|file| file.lock().map(|()| file));
    let _lock = lock.map_err(|error| format!("{}: {error}", path.display()))?;
    printed(
        Command::new("mvn")
            .args(["-q", "-B"])
            .args(words)
            .current_dir(folder),
    )
    .map(|_| ())
}

/// Unpacks RocksDB's library from the jar on the class path. Returns its folder.
pub fn rocksdb(work: &Path, path: &str) -> Result<PathBuf, String> {
    let jar = path.split(':').find(|entry| entry.contains("rocksdbjni-"));
    let jar = jar.ok_or("rocksdbjni is not on the class path")?.trim();
    let folder = work.join("rocksdb");
    fresh(&folder)?;
    printed(
        Command::new("jar")
            .args(["xf", jar, "librocksdbjni-linux64.so"])
            .current_dir(&folder),
    )?;
    Ok(folder)
}
