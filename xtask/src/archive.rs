//! `librocksdb.a` as programs get it: an archive that shows the interface and nothing else.
//!
//! What cargo builds is a collection of object files that find each other by global symbols: those of
//! Rust's code and those of the C libraries that are compiled in, zstd and LZ4. A program that links
//! its own zstd would meet the names twice. So the linker takes what the interface needs out of the
//! collection and joins it, and `objcopy` keeps all other symbols to the joined file.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::capi;
use crate::commands::{compiler, fresh, has, printed, target};

/// The beginnings of the interface's names.
const INTERFACE: [&str; 2] = ["rocksdb_", "cairn_"];

/// Installs the archive `built` as `to`. Without GNU's tools it is copied as it is, which is said.
pub fn install(root: &Path, built: &Path, to: &Path) -> Result<(), String> {
    if !can_hide() {
        println!(
            "objcopy is not installed: librocksdb.a shows the symbols of what is compiled into it"
        );
        let copied = fs::copy(built, to).map(|_| ());
        return copied.map_err(|error| format!("{}: {error}", built.display()));
    }
    let work = target(root).join("archive");
    fresh(&work)?;
    let listed = nm(built)?;
    let names: BTreeSet<&str> = symbols(&listed)
        .filter(|name| INTERFACE.iter().any(|start| name.starts_with(start)))
        .collect();
    if names.is_empty() {
        return Err(format!("{} defines no functions", built.display()));
    }

    // Each name is asked for, so that what they need comes out of the archive and nothing else does.
    let wanted: String = names
        .iter()
        .map(|name| format!("-Wl,--undefined={name}\n"))
        .collect();
    let arguments = work.join("wanted");
    let kept = work.join("kept");
    let joined = work.join("rocksdb.o");
    for (path, text) in [
        (&arguments, wanted),
        (
            &kept,
            names.iter().map(|name| format!("{name}\n")).collect(),
        ),
    ] {
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    printed(
        compiler()
            .args(["-nostdlib", "-r", "-Wl,--force-group-allocation", "-o"])
            .arg(&joined)
            .arg(format!("@{}", arguments.display()))
            .arg(built),
    )?;
    printed(
        Command::new("objcopy")
            .arg(format!("--keep-global-symbols={}", kept.display()))
            // Joined, the compiler's own form of the code is nonsense, on which `ar` may stumble.
            .args(["--remove-section=.llvmbc", "--remove-section=.llvmcmd"])
            // The shared library's are installed beside it.
            .arg("--strip-debug")
            .arg(&joined),
    )?;
    printed(Command::new("ar").arg("crs").arg(to).arg(&joined)).map(|_| ())
}

/// The installed archive shows the interface, all of it, and nothing else.
pub fn check(root: &Path, archive: &Path) -> Result<(), String> {
    let count = capi::interface(root, archive, &nm(archive)?)?;
    println!("librocksdb.a shows {count} functions");
    Ok(())
}

/// True if the tools are there.
fn can_hide() -> bool {
    cfg!(target_os = "linux") && has("objcopy")
}

/// What an archive defines for others.
fn nm(archive: &Path) -> Result<String, String> {
    printed(
        Command::new("nm")
            .args(["--extern-only", "--defined-only"])
            .arg(archive),
    )
}

fn symbols(listed: &str) -> impl Iterator<Item = &str> {
    listed
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
}
