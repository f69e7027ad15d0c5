//! A part of the `capi` stage: leaked and destroyed objects retain no more memory than with RocksDB.
//!
//! `capi/tests/leaks.c` opens and closes a database repeatedly and leaks one object in each round. The
//! growth in memory and descriptors is compared with that of the same rounds with RocksDB 11.1's
//! library. The program also creates many objects of a kind and destroys them in another order; the
//! memory retained afterwards is compared in the same way.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::{compiler, fresh, printed, target};
use crate::exchange::fetch;
use crate::tool_requirements::Selection;

/// Number of measured rounds.
const ROUNDS: u64 = 60;

/// Kinds of leaks: none; a handle, value or list of each kind; an iterator of each kind. The program
/// also accepts the name of a single kind.
const KINDS: [&str; 3] = ["none", "handles", "walks"];

/// KiB that a round may add beyond RocksDB's: the database's frame, and allocator overhead. Iterators
/// leaked in RocksDB retain tables and memtables; for them the limit is twice RocksDB's growth.
const KIB_A_ROUND: i64 = 64;

/// Number of objects of each kind that are alive before all are destroyed.
const RELEASED: [(&str, u64); 5] = [
    ("released-snapshot", 300_000),
    ("released-iterator", 20_000),
    ("released-pinned", 100_000),
    ("released-batch", 200_000),
    ("released-options", 200_000),
];

/// KiB that may be retained beyond RocksDB's when all objects are destroyed: a page for each of at most
/// 400 quarantined shells (`capi/src/slabs.rs`), and the records of returned pages.
const KIB_RELEASED: i64 = 3 << 10;

/// The program linked with one of the libraries.
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
            return Err(format!("leaked {kind:?} retain a closed database"));
        }
    }
    for (kind, count) in RELEASED {
        let (found, _) = ours.run(&work, kind, count)?;
        let theirs = match &theirs {
            Some(theirs) => theirs.run(&work, kind, count)?.0,
            None => 0,
        };
        println!("{kind}: {found} KiB retained after {count} objects; {theirs} KiB with RocksDB");
        if found > theirs.max(0) + KIB_RELEASED {
            return Err(format!(
                "{found} KiB retained after {count} destroyed objects ({kind})"
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

    /// The growth in KiB and descriptors over `count` rounds or objects.
    fn run(&self, work: &Path, kind: &str, count: u64) -> Result<(i64, i64), String> {
        // On tmpfs if there is one, because the disk is not measured.
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
                // Freed memory goes back to the system at once.
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
