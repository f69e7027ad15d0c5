//! The `capi` stage: tests of the C libraries from C, C++, Rust, Go and Python programs.
//!
//! Builds `librocksdb.so`, compares its exports with those of RocksDB 11.1.1 (`capi/symbols.txt`), runs
//! the C programs of `capi/tests` under AddressSanitizer and with RocksDB's header or library
//! (`exchange`), runs RocksDB's own test of the C interface (`c_test`), installs the libraries and builds programs with pkg-config and CMake (`prefix`), and
//! runs the tests of the published crate `rocksdb` with Cairn's library in place of RocksDB's. Some of
//! RocksJava's tests run with the library for Java (`jni`). Last it runs the commands of the documentation (`pages`).
//! `capi/rocksdb-crate.txt` lists the tests of that crate that need an unsupported feature, with the
//! reason.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::commands::{cargo, compiler, fresh, output, printed, read, target};
use crate::tool_requirements::Selection;
use crate::{c_test, exchange, jni, leaks, pages, prefix, registry, unsupported};

/// C programs that must exit with success.
const PROGRAMS: [&str; 17] = [
    "awaited",
    "backups",
    "basic",
    "cairn",
    "callbacks",
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

/// The version of the crate `rocksdb` whose tests run.
const CRATE_VERSION: &str = "0.25.0";

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
    refused(root, &libraries)?;
    if selection.has("c_test") {
        c_test::run(root, &libraries)?;
    }
    leaks::run(root, selection)?;
    exchange::run(root, selection)?;
    let stand = prefix::run(root, selection)?;
    if selection.has("rocksdb-crate") {
        published_crate(root, &target)?;
    }
    if selection.has("javac") {
        jni::smoke(root)?;
    }
    cargo(root, &["build", "--locked", "-p", "cairn-cli", "--bins"])?;
    pages::run(root, &stand, selection)
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

/// Sets every unsupported option: each must be rejected with an error that names it.
fn refused(root: &Path, libraries: &Path) -> Result<(), String> {
    let work = libraries.join("capi-refused");
    fresh(&work)?;
    let (text, count) = unsupported::calls(root);
    let source = work.join("refused.c");
    std::fs::write(&source, text).map_err(|error| format!("{}: {error}", source.display()))?;
    let program = compile_file(root, libraries, &work, "refused", &source)?;
    let done = start(libraries, &program, &work.join("dir"), &[])?;
    if !done.status.success() {
        return Err(format!(
            "setting unsupported options failed with {}:\n{}",
            done.status,
            String::from_utf8_lossy(&done.stderr)
        ));
    }
    println!("{count} unsupported options: refused by name");
    Ok(())
}

fn compile(root: &Path, libraries: &Path, work: &Path, name: &str) -> Result<PathBuf, String> {
    let source = root.join(format!("capi/tests/{name}.c"));
    compile_file(root, libraries, work, name, &source)
}

fn compile_file(
    root: &Path,
    libraries: &Path,
    work: &Path,
    name: &str,
    source: &Path,
) -> Result<PathBuf, String> {
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
