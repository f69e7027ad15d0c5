//! `librocksdb.a` as installed: an archive that exports the C interface and no other symbol.
//!
//! The static library that cargo builds is a collection of object files that refer to each other by
//! global symbols: Rust code and the bundled C libraries, zstd and LZ4. A program that links its own
//! zstd would get duplicate definitions. So the linker extracts the objects that the interface needs
//! and joins them (`ld -r`), and `objcopy` makes all other symbols local.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::capi;
use crate::commands::{compiler, fresh, has, printed, target};

/// Prefixes of the interface's function names.
const INTERFACE: [&str; 2] = ["rocksdb_", "cairn_"];

/// Installs the archive `built` as `to`. Without GNU binutils it is copied unchanged, with a warning.
pub fn install(root: &Path, built: &Path, to: &Path) -> Result<(), String> {
    if !can_hide() {
        println!(
            "objcopy is not installed: librocksdb.a also exports the symbols of the bundled libraries"
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

    // Naming each function as undefined extracts the objects that the interface needs, and no others.
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
            // The compiler's bitcode is meaningless once the objects are joined, and `ar` may fail on
            // it.
            .args(["--remove-section=.llvmbc", "--remove-section=.llvmcmd"])
            // The debug information is installed with the shared library.
            .arg("--strip-debug")
            .arg(&joined),
    )?;
    printed(Command::new("ar").arg("crs").arg(to).arg(&joined)).map(|_| ())
}

/// Checks that the installed archive exports the whole interface and no other symbol.
pub fn check(root: &Path, archive: &Path) -> Result<(), String> {
    let count = capi::interface(root, archive, &nm(archive)?)?;
    println!("librocksdb.a exports {count} functions");
    Ok(())
}

/// True if GNU binutils are installed.
fn can_hide() -> bool {
    cfg!(target_os = "linux") && has("objcopy")
}

/// The symbols that an archive defines and exports.
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
