//! A part of the `clients` stage: a published Python package over the C interface.
//!
//! `rockstore` loads `librocksdb.so` at run time and declares the functions that it calls itself. Its
//! unmodified tests run with Cairn's library in the place where it looks first.

use std::path::Path;
use std::process::Command;

use crate::commands::{fresh, printed, target};

const PACKAGE: &str = "rockstore==0.2.0";

/// Use the package's sources, and published wheels for its build dependencies.
const NO_WHEEL: &str = "--no-binary=rockstore";

/// Fetches the package's sources once and runs its tests with the installed library.
pub fn run(root: &Path, libraries: &Path) -> Result<(), String> {
    let work = target(root).join("python");
    let sources = work.join("rockstore-0.2.0");
    if !sources.join("tests").is_dir() {
        fetch(&work).map_err(|why| format!("{PACKAGE}: {why}"))?;
    }
    let said = printed(
        Command::new(work.join("bin/python"))
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"])
            .current_dir(&sources)
            .env("LD_LIBRARY_PATH", libraries),
    )?;
    println!("{PACKAGE}: {}", said.lines().last().unwrap_or_default());
    Ok(())
}

/// Creates a virtual environment with the test dependencies and the package's sources.
fn fetch(work: &Path) -> Result<(), String> {
    fresh(work)?;
    printed(Command::new("python3").args(["-m", "venv"]).arg(work))?;
    let pip = |words: &[&str]| {
        printed(
            Command::new(work.join("bin/python"))
                .args(["-m", "pip", "-q", "--disable-pip-version-check"])
                .args(words)
                .current_dir(work),
        )
    };
    pip(&["install", "cffi", "pytest"])?;
    pip(&["download", "--no-deps", NO_WHEEL, PACKAGE])?;
    printed(
        Command::new("tar")
            .args(["-xzf", "rockstore-0.2.0.tar.gz"])
            .current_dir(work),
    )
    .map(|_| ())
}
