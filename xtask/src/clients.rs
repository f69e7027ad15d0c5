//! The `clients` stage: programs and bindings in other languages over the installed C library.
//!
//! Installs the libraries and builds programs with pkg-config and CMake, and runs the tests of a Python package and a Go
//! module (`prefix`), and those of Cairn's module for Python (`python_module`); runs the tests of the published crate `rocksdb` with Cairn's library in place of RocksDB's, and
//! some of RocksJava's tests with the library for Java (`jni`). Last it runs the commands of the documentation (`pages`).
//! `capi/rocksdb-crate.txt` lists the tests of the crate that need an unsupported feature, with the reason.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use crate::commands::{cargo, fresh, printed, read, target};
use crate::tool_requirements::Selection;
use crate::{jni, pages, prefix, python_module, registry};

/// The version of the crate `rocksdb` whose tests run.
const CRATE_VERSION: &str = "0.25.0";

/// Runs the stage.
pub fn run(root: &Path, selection: &Selection) -> Result<(), String> {
    let stand = prefix::run(root, selection)?;
    if selection.has("rocksdb-crate") {
        published_crate(root, &target(root))?;
    }
    if selection.has("javac") {
        jni::smoke(root)?;
    }
    if selection.has("python") {
        python_module::run(root, &[])?;
    }
    cargo(root, &["build", "--locked", "-p", "cairn-cli", "--bins"])?;
    pages::run(root, &stand, selection)
}

/// Runs the tests of the published crate with Cairn's library.
fn published_crate(root: &Path, target: &Path) -> Result<(), String> {
    let copy = target.join("rocksdb-crate");
    fresh(&copy)?;
    let scratch = target.join("rocksdb-crate-probe");
    let source = registry::source(&scratch, "rocksdb", CRATE_VERSION, &patch(root))?;
    printed(
        Command::new("cp")
            .arg("-r")
            .arg(source.join("."))
            .arg(&copy),
    )?;
    for file in ["Cargo.lock", "rust-toolchain.toml"] {
        let _ = std::fs::remove_file(copy.join(file));
    }
    let manifest = copy.join("Cargo.toml");
    let patched = format!("{}\n{}\n[workspace]\n", read(&manifest)?, patch(root));
    std::fs::write(&manifest, patched).map_err(|e| format!("{}: {e}", manifest.display()))?;

    let list = read(&root.join("capi/rocksdb-crate.txt"))?;
    let mut arguments = vec!["test".to_owned(), "--quiet".to_owned(), "--lib".to_owned()];
    let mut skips = Vec::new();
    for line in list
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
    {
        let word = line.split_whitespace().next().unwrap_or_default();
        match word.strip_prefix('-') {
            Some(test) => skips.push(test.to_owned()),
            None if word.is_empty() => {}
            None => arguments.extend(["--test".to_owned(), word.to_owned()]),
        }
    }
    arguments.push("--".to_owned());
    for test in skips {
        arguments.extend(["--skip".to_owned(), test]);
    }
    let status = Command::new("cargo")
        .args(&arguments)
        .current_dir(&copy)
        .env("CARGO_TARGET_DIR", target.join("rocksdb-crate-target"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("RUSTFLAGS", "-Awarnings")
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    match status.success() {
        true => example(root, target),
        false => Err(format!(
            "the tests of the crate rocksdb {CRATE_VERSION} failed"
        )),
    }
}

/// Runs the example program and checks its output.
fn example(root: &Path, target: &Path) -> Result<(), String> {
    let dir = target.join("word-index-db");
    fresh(&dir)?;
    let run = |words: &[&str], text: &str| -> Result<String, String> {
        let mut command = Command::new("cargo");
        command
            .args(["run", "--quiet", "--"])
            .arg(dir.join("db"))
            .args(words)
            .current_dir(root.join("examples/rocksdb-crate"))
            .env("CARGO_TARGET_DIR", target.join("rocksdb-crate-target"))
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("RUSTFLAGS", "-Awarnings")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cargo: {error}"))?;
        let mut input = child
            .stdin
            .take()
            .ok_or("the example has no standard input")?;
        // The search mode closes its input unread.
        let _ = input.write_all(text.as_bytes());
        drop(input);
        let done = child
            .wait_with_output()
            .map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let counted = run(&[], "granite and slate\nslate and chalk\n")?;
    let found = run(&["chalk"], "")?;
    match counted.contains("2 and") && found == "slate and chalk\n" {
        true => Ok(()),
        false => Err(format!(
            "examples/rocksdb-crate printed {counted:?} and {found:?}"
        )),
    }
}

/// The `[patch]` of a manifest that replaces the crate's `-sys` dependency, which would build RocksDB's
/// sources.
fn patch(root: &Path) -> String {
    format!(
        "[patch.crates-io]\nlibrocksdb-sys = {{ path = {:?} }}\n",
        root.join("crates/librocksdb-sys")
    )
}
