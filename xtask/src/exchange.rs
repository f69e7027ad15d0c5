//! A part of the `capi` stage: the headers and libraries of RocksDB and Cairn are interchangeable.
//!
//! The C tests are compiled with RocksDB 7.8's header and run with Cairn's library, and compiled with
//! Cairn's header and run with RocksDB 11.1's library. The second also validates the tests: RocksDB
//! meets the same expectations, except for those that `NOT_CAIRN` compiles out. `backups` is then run with both libraries
//! in turns, on the same directory of backups, and a further program leaves prepared transactions with one library
//! and takes them over with the other.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::{compiler, fresh, printed, target};
use crate::tool_requirements::Selection;

/// Programs that need only functions of RocksDB 7.8.
const WITH_OLD_HEADER: [&str; 2] = ["basic", "files"];
/// Programs that need only functions of RocksDB.
const WITH_ROCKSDB: [&str; 7] = [
    "backups",
    "basic",
    "callbacks",
    "files",
    "options",
    "tables",
    "ttl",
];

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
        program.run()?;
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
        program.run()?;
        println!("capi/tests/{name}.c with Cairn's header and RocksDB 11.1's library: passed");
    }
    backups_in_turns(root, work)?;
    remote_compactions(root, work)?;
    prepared_transactions(root, work)
}

/// The program `name` for each of Cairn and RocksDB.
fn for_both(
    root: &Path,
    work: &Path,
    name: &str,
    definitions: [&'static str; 2],
) -> Result<[Exchanged; 2], String> {
    let cairn = target(root).join("debug/librocksdb.so");
    let rocksdb = root.join("target/rocksdb/librocksdbjni-linux64.so");
    let program = |engine: &str, library, definition| {
        let program = Exchanged {
            source: root.join(format!("capi/tests/{name}.c")),
            header: root.join("capi/include"),
            definition,
            library,
            program: work.join(format!("{name}-both-{engine}")),
        };
        program.compile().map(|()| program)
    };
    let [of_cairn, of_rocksdb] = definitions;
    Ok([
        program("cairn", cairn, of_cairn)?,
        program("rocksdb", rocksdb, of_rocksdb)?,
    ])
}

/// Runs `backups` with both libraries on one directory.
fn backups_in_turns(root: &Path, work: &Path) -> Result<(), String> {
    let [cairn, rocksdb] = for_both(root, work, "backups", ["-DCAIRN", "-DNOT_CAIRN"])?;
    let dir = work.join("backups-turns");
    fresh(&dir)?;
    for _ in 0..3 {
        rocksdb.execute(&[&dir])?;
        cairn.execute(&[&dir])?;
    }
    println!("capi/tests/backups.c with both libraries on one directory: passed");
    Ok(())
}

/// Lets the worker of each library serve a database of the other one.
fn remote_compactions(root: &Path, work: &Path) -> Result<(), String> {
    let [cairn, rocksdb] = for_both(root, work, "remote", ["-DCAIRN", "-DNOT_CAIRN"])?;
    for (primary, worker) in [(&cairn, &rocksdb), (&rocksdb, &cairn)] {
        let dir = work.join("remote-compactions");
        fresh(&dir)?;
        primary.execute_with(&[&dir, &worker.program], worker)?;
    }
    println!("capi/tests/remote.c with a worker of the other library: passed");
    Ok(())
}

/// Lets each library take over the prepared transactions that the other one has left, by closing the database or by a
/// crash.
fn prepared_transactions(root: &Path, work: &Path) -> Result<(), String> {
    let [cairn, rocksdb] = for_both(root, work, "prepared", ["-DCAIRN", "-DNOT_CAIRN"])?;
    for (first, second) in [(&cairn, &rocksdb), (&rocksdb, &cairn)] {
        for end in ["leave", "die"] {
            let dir = work.join("prepared.dir");
            fresh(&dir)?;
            first.execute(&[&dir, Path::new(end)])?;
            second.execute(&[&dir, Path::new("pass")])?;
            first.execute(&[&dir, Path::new("pass")])?;
            second.execute(&[&dir, Path::new("take")])?;
        }
    }
    println!(
        "capi/tests/prepared.c: Cairn and RocksDB take over each other's prepared transactions"
    );
    Ok(())
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
    fn run(&self) -> Result<(), String> {
        self.compile()?;
        let dir = self.program.with_extension("dir");
        fresh(&dir)?;
        self.execute(&[&dir])
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

    fn execute(&self, arguments: &[&Path]) -> Result<(), String> {
        self.execute_with(arguments, self)
    }

    /// Runs the program, which may start `other`.
    fn execute_with(&self, arguments: &[&Path], other: &Exchanged) -> Result<(), String> {
        let dirs = [self, other].map(|it| it.library.parent().unwrap_or(Path::new(".")));
        let libraries = std::env::join_paths(dirs).map_err(|error| error.to_string())?;
        printed(
            Command::new(&self.program)
                .args(arguments)
                .env("LD_LIBRARY_PATH", libraries),
        )
        .map(|_| ())
    }
}
