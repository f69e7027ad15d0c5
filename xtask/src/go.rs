//! A part of the `clients` stage: the tests of a published Go module over the C interface.
//!
//! `grocksdb` is the Go binding of RocksDB. The Go command fetches a pinned version, whose checksum is
//! compared with the one below, and the unmodified sources are compiled against the installed header
//! and library. `capi/grocksdb.txt` lists the tests that need unsupported features. Every other test
//! must pass, and every listed one must fail. Each listed test runs in a process of its own, because a
//! use of an unsupported feature's null handle aborts the process.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::{fresh, output, printed, read, target};

const MODULE: &str = "github.com/linxGnu/grocksdb";

/// The newest version for RocksDB 11.1.
const VERSION: &str = "v1.11.1";

/// The module's checksum in the form of go.sum.
const SUM: &str = "h1:/gjcsviJimrQCDDlQCVuvzmeVAvgapQKaFQkQSe48bQ=";

/// Runs the module's tests with the header and the libraries below `prefix`.
pub fn run(root: &Path, prefix: &Path, libraries: &Path) -> Result<(), String> {
    let name = format!("{MODULE} {VERSION}");
    let work = target(root).join("grocksdb");
    fresh(&work)?;
    let tests = Tests {
        program: build(&work, prefix, libraries)?,
        sources: work.join("module"),
        libraries: libraries.to_owned(),
    };
    let all = tests.names()?;
    let listed = listed(&read(&root.join("capi/grocksdb.txt"))?);
    let unknown: Vec<&String> = listed.difference(&all).collect();
    if !unknown.is_empty() {
        return Err(format!("capi/grocksdb.txt: {name} has no {unknown:?}"));
    }
    let wanted: Vec<&str> = all.difference(&listed).map(String::as_str).collect();
    if !tests.pass(&wanted, true)? {
        return Err(format!("tests of {name} failed"));
    }
    for test in &listed {
        if tests.pass(&[test], false)? {
            return Err(format!(
                "capi/grocksdb.txt lists {test} of {name}, which passes"
            ));
        }
    }
    println!(
        "{name}: {} tests passed, {} need unsupported features",
        wanted.len(),
        listed.len()
    );
    Ok(())
}

/// The tests in the list.
fn listed(list: &str) -> BTreeSet<String> {
    let lines = list.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

/// Fetches the module and compiles its tests with the build tag that leaves the flags to the caller.
fn build(work: &Path, prefix: &Path, libraries: &Path) -> Result<PathBuf, String> {
    let sources = work.join("module");
    let kept = download(work)?;
    printed(Command::new("cp").arg("-r").arg(kept).arg(&sources))?;
    // The Go command makes its cache read-only, and a later run must be able to remove it.
    printed(Command::new("chmod").args(["-R", "u+w"]).arg(&sources))?;
    let program = work.join("grocksdb.test");
    printed(
        Command::new("go")
            .args(["test", "-c", "-vet=off", "-tags", "grocksdb_no_link", "-o"])
            .arg(&program)
            .arg(".")
            .current_dir(&sources)
            .env("CGO_ENABLED", "1")
            .env("CGO_CFLAGS", c_flags(prefix)?)
            .env(
                "CGO_LDFLAGS",
                format!("-L{} -lrocksdb", libraries.display()),
            ),
    )?;
    Ok(program)
}

/// The compiler flags. Go's build cache depends on the flags and not on external headers, so the flags
/// contain a hash of the header.
fn c_flags(prefix: &Path) -> Result<String, String> {
    let include = prefix.join("include");
    let mut hasher = DefaultHasher::new();
    read(&include.join("rocksdb/c.h"))?.hash(&mut hasher);
    Ok(format!(
        "-O1 -I{} -DCAIRN_HEADER=0x{:x}",
        include.display(),
        hasher.finish()
    ))
}

/// The directory of the module's sources.
fn download(work: &Path) -> Result<PathBuf, String> {
    let said = printed(
        Command::new("go")
            .args(["mod", "download", "-json"])
            .arg(format!("{MODULE}@{VERSION}"))
            .current_dir(work),
    )?;
    let said: serde_json::Value =
        serde_json::from_str(&said).map_err(|error| format!("go mod download: {error}"))?;
    if said["Sum"] != SUM {
        return Err(format!("{MODULE} {VERSION}: {} is not {SUM}", said["Sum"]));
    }
    let dir = said["Dir"].as_str().map(PathBuf::from);
    dir.ok_or_else(|| format!("{MODULE} {VERSION} could not be fetched"))
}

/// The compiled tests.
struct Tests {
    program: PathBuf,
    sources: PathBuf,
    libraries: PathBuf,
}

impl Tests {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(&self.sources)
            .env("LD_LIBRARY_PATH", &self.libraries);
        command
    }

    /// The names of all tests.
    fn names(&self) -> Result<BTreeSet<String>, String> {
        let said = printed(self.command().args(["-test.list", "^Test"]))?;
        Ok(said.lines().map(str::to_owned).collect())
    }

    /// True if all of `tests` run and pass. With `show`, the output of the others is printed.
    fn pass(&self, tests: &[&str], show: bool) -> Result<bool, String> {
        let chosen = format!("^({})$", tests.join("|"));
        let done =
            output(
                self.command()
                    .args(["-test.v", "-test.timeout=120s", "-test.run", &chosen]),
            )?;
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        let passed = tests
            .iter()
            .filter(|test| said.contains(&format!("--- PASS: {test} (")))
            .count();
        let all = done.status.success() && passed == tests.len();
        if show && !all {
            print!("{said}{}", String::from_utf8_lossy(&done.stderr));
        }
        Ok(all)
    }
}
