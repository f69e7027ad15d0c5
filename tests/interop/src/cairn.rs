//! Runs the command line tool `cairn`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::content::{self, Dump};

/// The program: `CAIRN_BIN`, or the one built beside this test.
///
/// # Panics
///
/// If it has not been built.
#[must_use]
pub fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("CAIRN_BIN") {
        return path.into();
    }
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test
        .parent()
        .and_then(Path::parent)
        .expect("tests are in target/*/deps");
    let program = folder.join("cairn");
    assert!(
        program.exists(),
        "build it first: cargo build -p cairn-cli ({})",
        program.display()
    );
    program
}

/// Runs `cairn` with `arguments`.
///
/// # Panics
///
/// If it cannot be started, or ends by a panic or a signal, which no input may cause.
#[must_use]
pub fn run(arguments: &[&str]) -> Output {
    let output = Command::new(program())
        .args(arguments)
        .output()
        .expect("cairn can be started");
    let words = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    assert!(
        code.is_some_and(|code| code != 101) && !words.contains("panicked at"),
        "cairn {arguments:?} ended with {}: {words}",
        output.status
    );
    output
}

/// All families of the database at `path`.
///
/// # Panics
///
/// If [`content::parse`] cannot parse the output.
pub fn scan(path: &Path, options: &str, families: &BTreeMap<String, String>) -> Dump {
    let path = path.to_str().expect("test folders are UTF-8");
    let mut arguments = vec!["scan", "--db", path, "--all-families", "--format", "jsonl"];
    if !options.is_empty() {
        arguments.extend(["--options", options]);
    }
    let named: Vec<_> = families
        .iter()
        .filter(|(_, text)| !text.is_empty())
        .collect();
    let named: Vec<_> = named
        .iter()
        .map(|(name, text)| format!("{name}={text}"))
        .collect();
    for text in &named {
        arguments.extend(["--family-options", text]);
    }
    let output = run(&arguments);
    let lines = String::from_utf8(output.stdout).expect("the dump is UTF-8");
    let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let mut content = content::parse(&lines)?;
    if output.status.success() {
        return Ok(content);
    }
    // The error belongs to the family whose rows came last, unless a row reports it.
    if content.values().any(|family| family.error.is_some()) {
        return Ok(content);
    }
    let last = lines
        .lines()
        .last()
        .map(|line| content::parse(line).expect("it was a row"));
    match last.and_then(|last| last.into_keys().next()) {
        Some(family) => content.entry(family).or_default().error = Some(error),
        None => return Err(error),
    }
    Ok(content)
}

/// The C library: `CAIRN_C_LIB`, or the one built beside this test.
///
/// # Panics
///
/// If it has not been built.
#[must_use]
pub fn c_library() -> PathBuf {
    if let Some(path) = std::env::var_os("CAIRN_C_LIB") {
        return path.into();
    }
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test
        .parent()
        .and_then(Path::parent)
        .expect("tests are in target/*/deps");
    let library = folder.join("librocksdb.so");
    assert!(
        library.exists(),
        "build it first: cargo build -p cairn-librocksdb ({})",
        library.display()
    );
    library
}
