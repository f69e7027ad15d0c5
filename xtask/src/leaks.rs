//! A part of the stage `capi`: what a program leaks costs no more than with RocksDB.
//!
//! `capi/tests/leaks.c` opens and closes a database again and again and leaves one object of a kind behind in
//! each round. The memory and the descriptors that the rounds add are compared with those that the same
//! rounds add with RocksDB 11.1's library.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::{compiler, fresh, printed, target};
use crate::exchange::fetched;

/// Rounds that are measured.
const ROUNDS: u64 = 200;

/// What may be left behind.
const KINDS: [&str; 14] = [
    "none",
    "default-family",
    "opened-family",
    "dropped-family",
    "iterator",
    "iterator-nowhere",
    "batch-iterator",
    "snapshot",
    "pinned",
    "checkpoint",
    "wal-iterator",
    "live-files",
    "consumers",
    "metadata",
];

/// Bytes in KiB that a round may add beyond what it adds with RocksDB: the frame of the database, and what
/// allocators keep.
const KIB_A_ROUND: i64 = 64;

/// The program with one of the libraries.
struct Leaks {
    program: PathBuf,
    libraries: PathBuf,
}

/// Runs the program with both libraries.
pub fn run(root: &Path) -> Result<(), String> {
    let work = target(root).join("leaks");
    fresh(&work)?;
    let ours = Leaks::compile(
        root,
        &work,
        "cairn",
        &target(root).join("debug"),
        "librocksdb.so",
    )?;
    let theirs = match fetched(root, "fetch-rocksdb.sh") {
        Ok(()) => Some(Leaks::compile(
            root,
            &work,
            "rocksdb",
            &root.join("target/rocksdb"),
            "librocksdbjni-linux64.so",
        )?),
        Err(why) => {
            println!("SKIPPED the comparison of leaks with RocksDB's library: {why}");
            None
        }
    };
    for kind in KINDS {
        let found = ours.run(&work, kind)?;
        let limit = match &theirs {
            Some(theirs) => theirs.run(&work, kind)?,
            None => (0, 0),
        };
        println!(
            "leaking {kind}: {ROUNDS} rounds add {} KiB and {} descriptors; {} KiB and {} with RocksDB",
            found.0, found.1, limit.0, limit.1
        );
        if found.0 > limit.0.max(0) + KIB_A_ROUND * ROUNDS as i64 || found.1 > limit.1.max(0) {
            return Err(format!(
                "leaked objects of the kind {kind:?} keep a closed database"
            ));
        }
    }
    Ok(())
}

impl Leaks {
    fn compile(
        root: &Path,
        work: &Path,
        name: &str,
        libraries: &Path,
        library: &str,
    ) -> Result<Leaks, String> {
        let program = work.join(name);
        printed(
            compiler()
                .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-I"])
                .arg(root.join("capi/include"))
                .arg(root.join("capi/tests/leaks.c"))
                .arg("-o")
                .arg(&program)
                .arg("-L")
                .arg(libraries)
                .arg(format!("-l:{library}")),
        )?;
        Ok(Leaks {
            program,
            libraries: libraries.to_owned(),
        })
    }

    /// KiB of memory, and descriptors, that the rounds add.
    fn run(&self, work: &Path, kind: &str) -> Result<(i64, i64), String> {
        let dir = work.join(format!("{kind}-dir"));
        fresh(&dir)?;
        let said = printed(
            Command::new(&self.program)
                .arg(&dir)
                .arg(kind)
                .arg(ROUNDS.to_string())
                .env("LD_LIBRARY_PATH", &self.libraries)
                // What is given back is seen at once.
                .env("MALLOC_TRIM_THRESHOLD_", "65536"),
        )?;
        let mut numbers = said.split_whitespace().map(str::parse::<i64>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(memory)), Some(Ok(descriptors))) => Ok((memory, descriptors)),
            _ => Err(format!("capi/tests/leaks.c printed {said:?}")),
        }
    }
}
