//! A part of the `capi` stage: the headers and libraries of RocksDB and Cairn are interchangeable.
//!
//! The C tests are compiled with RocksDB 7.8's header and run with Cairn's library, and compiled with
//! Cairn's header and run with RocksDB 11.1's library. The second also validates the tests: RocksDB
//! meets the same expectations, except for those that `NOT_CAIRN` compiles out. `backups` is then run with both libraries
//! in turns, on the same directory of backups.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::{compiler, fresh, printed, target};
use crate::tool_requirements::Selection;

/// Programs that need only functions of RocksDB 7.8.
const WITH_OLD_HEADER: [&str; 2] = ["basic", "files"];
/// Programs that need only functions of RocksDB.
const WITH_ROCKSDB: [&str; 6] = ["backups", "basic", "callbacks", "files", "options", "ttl"];
/// The program that runs with both libraries in turns.
const IN_TURNS: &str = "backups";

/// Compiles and runs both combinations.
pub fn run(root: &Path, selection: &Selection) -> Result<(), String> {
    let work = target(root).join("exchange");
    fresh(&work)?;
    if selection.has("rocksdb-header") {
        old_header(root, &work)?;
    }
    if selection.has("rocksdb") {
        other_library(root, &work)?;
    }
    Ok(())
}

fn old_header(root: &Path, work: &Path) -> Result<(), String> {
    fetch(root, "fetch-header.sh")?;
    let libraries = target(root).join("debug");
    for name in WITH_OLD_HEADER {
        let program = Exchanged {
            source: root.join(format!("capi/tests/{name}.c")),
            header: root.join("target/rocksdb-dev/usr/include"),
            definition: "-DHEADER_7",
            library: libraries.join("librocksdb.so"),
            program: work.join(format!("{name}-old-header")),
        };
        program.run(&libraries)?;
        println!("capi/tests/{name}.c with RocksDB 7.8's header and Cairn's library: passed");
    }
    Ok(())
}

fn other_library(root: &Path, work: &Path) -> Result<(), String> {
    fetch(root, "fetch-rocksdb.sh")?;
    let libraries = root.join("target/rocksdb");
    for name in WITH_ROCKSDB {
        let program = Exchanged {
            source: root.join(format!("capi/tests/{name}.c")),
            header: root.join("capi/include"),
            definition: "-DNOT_CAIRN",
            library: libraries.join("librocksdbjni-linux64.so"),
            program: work.join(format!("{name}-rocksdb")),
        };
        program.run(&libraries)?;
        println!("capi/tests/{name}.c with Cairn's header and RocksDB 11.1's library: passed");
    }
    in_turns(root, work, &libraries)
}

/// Runs [`IN_TURNS`] with both libraries on one directory.
fn in_turns(root: &Path, work: &Path, theirs: &Path) -> Result<(), String> {
    let ours = target(root).join("debug");
    let cairn = Exchanged {
        source: root.join(format!("capi/tests/{IN_TURNS}.c")),
        header: root.join("capi/include"),
        definition: "-DCAIRN",
        library: ours.join("librocksdb.so"),
        program: work.join(format!("{IN_TURNS}-cairn")),
    };
    cairn.compile()?;
    let dir = work.join(format!("{IN_TURNS}-turns"));
    fresh(&dir)?;
    let rocksdb = work.join(format!("{IN_TURNS}-rocksdb"));
    for _ in 0..3 {
        execute(&rocksdb, theirs, &dir)?;
        execute(&cairn.program, &ours, &dir)?;
    }
    println!("capi/tests/{IN_TURNS}.c with both libraries on one directory: passed");
    Ok(())
}

/// Runs a program with the libraries in `libraries` and the argument `dir`.
fn execute(program: &Path, libraries: &Path, dir: &Path) -> Result<(), String> {
    printed(
        Command::new(program)
            .arg(dir)
            .env("LD_LIBRARY_PATH", libraries),
    )
    .map(|_| ())
}

/// Runs a download script unless its result exists.
pub fn fetch(root: &Path, script: &str) -> Result<(), String> {
    printed(&mut Command::new(root.join("tests/interop").join(script))).map(|_| ())
}

struct Exchanged {
    source: PathBuf,
    header: PathBuf,
    definition: &'static str,
    library: PathBuf,
    program: PathBuf,
}

impl Exchanged {
    fn run(&self, libraries: &Path) -> Result<(), String> {
        self.compile()?;
        let dir = self.program.with_extension("dir");
        fresh(&dir)?;
        execute(&self.program, libraries, &dir)
    }

    fn compile(&self) -> Result<(), String> {
        printed(
            compiler()
                .args(["-std=c11", "-Wall", "-Wextra", "-Werror", self.definition])
                .arg("-I")
                .arg(&self.header)
                .arg(&self.source)
                .arg("-o")
                .arg(&self.program)
                .arg(&self.library),
        )
        .map(|_| ())
    }
}
