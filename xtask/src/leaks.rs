//! A part of the stage `capi`: leaked and released objects keep no more memory than with RocksDB.
//!
//! `capi/tests/leaks.c` opens and closes a database again and again and leaves one object of a kind behind in
//! each round. The memory and the descriptors that the rounds add are compared with those that the same
//! rounds add with RocksDB 11.1's library. It also creates many objects of a kind at once and releases them in another
//! order; the memory that is not released is compared in the same way.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::{compiler, fresh, printed, target};
use crate::exchange::fetch;
use crate::tool_requirements::Selection;

/// Rounds that are measured.
const ROUNDS: u64 = 200;

/// What is left behind in each round: nothing; a handle, value or list of each kind; an iterator of each kind.
/// The program takes the name of one kind too.
const KINDS: [&str; 3] = ["none", "handles", "walks"];

/// KiB that a round may add beyond what it adds with RocksDB: the frame of the database, and what allocators
/// keep. RocksDB's leaked iterators keep tables and memtables; more than as much again is not allowed for them.
const KIB_A_ROUND: i64 = 64;

/// Number of objects of each kind that are alive at once before all are released.
const RELEASED: [(&str, u64); 5] = [
    ("released-snapshot", 1_000_000),
    ("released-iterator", 20_000),
    ("released-pinned", 200_000),
    ("released-batch", 200_000),
    ("released-options", 200_000),
];

/// KiB that may remain, beyond what remains with RocksDB, when all objects are released: a page for each of at most 400
/// queued shells (`capi/src/slabs.rs`), and the records of returned pages.
const KIB_RELEASED: i64 = 3 << 10;

/// The program with one of the libraries.
struct Leaks {
    program: PathBuf,
    libraries: PathBuf,
}

/// Runs the program with both libraries.
pub fn run(root: &Path, selection: &Selection) -> Result<(), String> {
    let work = target(root).join("leaks");
    fresh(&work)?;
    let ours = Leaks::compile(
        root,
        &work,
        "cairn",
        &target(root).join("debug"),
        "librocksdb.so",
    )?;
    let theirs = match selection.has("rocksdb") {
        true => {
            fetch(root, "fetch-rocksdb.sh")?;
            Some(Leaks::compile(
                root,
                &work,
                "rocksdb",
                &root.join("target/rocksdb"),
                "librocksdbjni-linux64.so",
            )?)
        }
        false => None,
    };
    for kind in KINDS {
        let found = ours.run(&work, kind, ROUNDS)?;
        let limit = match &theirs {
            Some(theirs) => theirs.run(&work, kind, ROUNDS)?,
            None => (0, 0),
        };
        println!(
            "leaking {kind}: {ROUNDS} rounds add {} KiB and {} descriptors; {} KiB and {} with RocksDB",
            found.0, found.1, limit.0, limit.1
        );
        let allowed = KIB_A_ROUND * ROUNDS as i64;
        if found.0 > limit.0.clamp(0, allowed) + allowed || found.1 > 0 {
            return Err(format!(
                "leaked objects of the kind {kind:?} keep a closed database"
            ));
        }
    }
    for (kind, count) in RELEASED {
        let (found, _) = ours.run(&work, kind, count)?;
        let theirs = match &theirs {
            Some(theirs) => theirs.run(&work, kind, count)?.0,
            None => 0,
        };
        println!("{kind}: {found} KiB remain of {count} objects; {theirs} KiB with RocksDB");
        if found > theirs.max(0) + KIB_RELEASED {
            return Err(format!(
                "{found} KiB remain of {count} released objects ({kind})"
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

    /// Memory in KiB, and descriptors, that `count` rounds or objects add.
    fn run(&self, work: &Path, kind: &str, count: u64) -> Result<(i64, i64), String> {
        // In memory, where there is such a place: the rounds open and close, and the disk is not what is measured.
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory } else { work };
        let dir = base.join(format!("cairn-leaks-{}-{kind}", std::process::id()));
        fresh(&dir)?;
        let said = printed(
            Command::new(&self.program)
                .arg(&dir)
                .arg(kind)
                .arg(count.to_string())
                .env("LD_LIBRARY_PATH", &self.libraries)
                // What is given back is seen at once.
                .env("MALLOC_TRIM_THRESHOLD_", "65536"),
        )?;
        std::fs::remove_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let mut numbers = said.split_whitespace().map(str::parse::<i64>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(memory)), Some(Ok(descriptors))) => Ok((memory, descriptors)),
            _ => Err(format!("capi/tests/leaks.c printed {said:?}")),
        }
    }
}
