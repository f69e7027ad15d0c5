//! The `capi` stage: tests of the C library from C and C++ programs.
//!
//! Builds `librocksdb.so`, compares its exports with those of RocksDB 11.1.1 (`capi/symbols.txt`), runs
//! the C programs of `capi/tests` under AddressSanitizer and with RocksDB's header or library
//! (`exchange`), and runs RocksDB's own test of the C interface (`c_test`).

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::commands::{cargo, compiler, fresh, output, printed, read, target};
use crate::tool_requirements::Selection;
use crate::{c_test, exchange, leaks};

/// C programs that must exit with success.
const PROGRAMS: [&str; 18] = [
    "awaited",
    "backups",
    "basic",
    "cairn",
    "callbacks",
    "core_dumps",
    "files",
    "fork",
    "jobs",
    "kept",
    "newer",
    "options",
    "remote",
    "scans",
    "tables",
    "traces",
    "transactions",
    "ttl",
];

/// Cases of `misuse.c`, and whether each must abort.
const MISUSE: [(&str, bool); 21] = [
    ("null-db", true),
    ("null-options", true),
    ("null-errptr", true),
    ("after-close", true),
    ("close-twice", true),
    ("options-destroyed", true),
    ("iterator-destroyed", true),
    ("entry-destroyed", true),
    ("entry-destroyed-twice", true),
    ("snapshot-gone", true),
    ("snapshot-gone-twice", true),
    ("iterator-gone", true),
    ("entry-gone", true),
    ("list-end", true),
    ("null-part", true),
    ("null-properties", true),
    ("report-end", true),
    ("transaction-destroyed", true),
    ("transactions-destroyed", true),
    ("null-data", false),
    ("close-with-readers", false),
];

/// Cases of `exceptions.cc`, each of which must abort.
const EXCEPTIONS: [&str; 5] = [
    "merge",
    "merge-in-flush",
    "comparator",
    "filter",
    "listener",
];

/// Runs the stage.
pub fn run(root: &Path, selection: &Selection) -> Result<(), String> {
    let target = target(root);
    cargo(
        root,
        &["build", "--locked", "--package", "cairn-librocksdb"],
    )?;
    let libraries = target.join("debug");
    symbols(root, &libraries.join("librocksdb.so"))?;
    programs(root, &libraries)?;
    if selection.has("c++") {
        exceptions(root, &libraries)?;
    }
    if selection.has("c_test") {
        c_test::run(root, &libraries)?;
    }
    leaks::run(root, selection)?;
    exchange::run(root, selection)
}

/// Checks that the library exports the whole interface and no other symbol.
fn symbols(root: &Path, library: &Path) -> Result<(), String> {
    let listed = printed(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(library),
    )?;
    let count = interface(root, library, &listed)?;
    println!("librocksdb.so exports {count} functions");
    Ok(())
}

/// The number of functions in `listed`, the output of `nm`, after checking that they are exactly the
/// interface.
pub fn interface(root: &Path, library: &Path, listed: &str) -> Result<usize, String> {
    let exported: BTreeSet<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    let wanted = read(&root.join("capi/symbols.txt"))?;
    let missing: Vec<&str> = wanted
        .lines()
        .filter(|name| !exported.contains(name))
        .collect();
    let foreign: Vec<&&str> = exported
        .iter()
        .filter(|name| !name.starts_with("rocksdb_") && !name.starts_with("cairn_"))
        .collect();
    if !missing.is_empty() || !foreign.is_empty() {
        return Err(format!(
            "{} lacks {missing:?} and exports {foreign:?}, which its interface does not have",
            library.display()
        ));
    }
    Ok(exported.len())
}

/// Compiles and runs the C programs.
fn programs(root: &Path, libraries: &Path) -> Result<(), String> {
    let work = libraries.join("capi-tests");
    fresh(&work)?;
    for name in PROGRAMS {
        let program = compile(root, libraries, &work, name)?;
        let done = start(libraries, &program, &work.join(format!("{name}-dir")), &[])?;
        if !done.status.success() {
            return Err(format!(
                "capi/tests/{name}.c failed with {}: {}",
                done.status,
                String::from_utf8_lossy(&done.stderr)
            ));
        }
        println!("capi/tests/{name}.c: passed");
    }
    let program = compile(root, libraries, &work, "misuse")?;
    for (case, aborts) in MISUSE {
        let done = start(libraries, &program, &work.join(case), &[case])?;
        let words = String::from_utf8_lossy(&done.stderr);
        let message = match case.contains("gone") || case.contains("destroyed") {
            true => "is used after it was destroyed",
            false => "librocksdb (Cairn): ",
        };
        let expected = match aborts {
            // SIGABRT, after the library's message.
            true => done.status.signal() == Some(6) && words.contains(message),
            false => done.status.success(),
        };
        if !expected {
            return Err(format!(
                "misuse {case}: unexpected end: {}: {words}",
                done.status
            ));
        }
        println!("misuse {case}: passed");
    }
    Ok(())
}

/// Throws C++ exceptions from callbacks: the process must abort with a message.
fn exceptions(root: &Path, libraries: &Path) -> Result<(), String> {
    let work = libraries.join("capi-exceptions");
    fresh(&work)?;
    let program = work.join("exceptions");
    printed(
        Command::new("c++")
            .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-g", "-I"])
            .arg(root.join("capi/include"))
            .arg(root.join("capi/tests/exceptions.cc"))
            .arg("-o")
            .arg(&program)
            .arg("-L")
            .arg(libraries)
            .arg("-lrocksdb"),
    )?;
    for case in EXCEPTIONS {
        let done = start(libraries, &program, &work.join(case), &[case])?;
        let words = String::from_utf8_lossy(&done.stderr);
        if done.status.signal() != Some(6) || words.trim().is_empty() {
            return Err(format!(
                "exception {case}: unexpected end: {}: {words}",
                done.status
            ));
        }
        println!("exception {case}: passed");
    }
    Ok(())
}

fn compile(root: &Path, libraries: &Path, work: &Path, name: &str) -> Result<PathBuf, String> {
    let source = root.join(format!("capi/tests/{name}.c"));
    let program = work.join(name);
    printed(
        compiler()
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-g"])
            .args(["-fsanitize=address,undefined", "-I"])
            .arg(root.join("capi/include"))
            .arg(source)
            .arg("-o")
            .arg(&program)
            .arg("-L")
            .arg(libraries)
            .arg("-lrocksdb"),
    )?;
    Ok(program)
}

/// Links the library under its soname, by which programs load it.
pub fn link_by_soname(libraries: &Path) -> Result<(), String> {
    let soname = libraries.join("librocksdb.so.11");
    match soname.exists() {
        true => Ok(()),
        false => std::os::unix::fs::symlink("librocksdb.so", &soname)
            .map_err(|error| format!("{}: {error}", soname.display())),
    }
}

fn start(libraries: &Path, program: &Path, dir: &Path, words: &[&str]) -> Result<Output, String> {
    fresh(dir)?;
    link_by_soname(libraries)?;
    output(
        Command::new(program)
            .arg(dir)
            .args(words)
            .env("LD_LIBRARY_PATH", libraries)
            .env("ASAN_OPTIONS", "detect_leaks=1"),
    )
}
