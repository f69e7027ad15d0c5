//! `cargo xtask pgo`: a release build with profile-guided optimization.
//!
//! ```text
//! 1  build the command line tool with instrumentation
//! 2  run a load, point reads, scans and compactions with `cairn bench`, which writes raw profiles
//! 3  merge the profiles with llvm-profdata
//! 4  build the command line tool and the C libraries with the profile, in target/pgo/release
//! ```
//!
//! The profile covers Rust code only: the codecs, which are C, are built as usual. llvm-profdata must match the
//! compiler's LLVM. It comes with rustup's component `llvm-tools`, or with Debian's and Ubuntu's package `llvm-N`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::{has, printed, sysroot, target};

/// The profiled workload: each line is a run of `cairn bench`.
const RUNS: [&str; 4] = [
    "--benchmarks=fillrandom,overwrite,compact,readrandom,readmissing,multireadrandom,seekrandom,readseq,readreverse \
     --num=300000 --bloom_bits=10 --cache_size=1G --compression_type=none",
    "--benchmarks=fillseq,readrandom,readwhilewriting,readseq --num=200000 --threads=2 --bloom_bits=10",
    "--benchmarks=fillbatch,ycsba,ycsbe,updaterandom --num=100000 --cache_size=8M --compression_type=lz4",
    "--benchmarks=filltombstones,readseq,seekrandom,fillrangetombstones,readseq --num=200000 --compression_type=zstd",
];

/// Packages of the final build.
const PACKAGES: [&str; 2] = ["cairn-cli", "cairn-librocksdb"];

/// Runs all four steps.
pub fn run(root: &Path) -> Result<(), String> {
    let merger = merger()?;
    let folder = target(root).join("pgo");
    let (counts, profile) = (folder.join("counts"), folder.join("merged.profdata"));
    let _ = std::fs::remove_dir_all(&counts);
    std::fs::create_dir_all(&counts).map_err(|error| format!("{}: {error}", counts.display()))?;

    let counted = folder.join("counted");
    let flags = format!("-Cprofile-generate={}", counts.display());
    build(root, &counted, &flags, &PACKAGES[..1])?;
    let program = counted.join(triple()?).join("release/cairn");
    let data = folder.join("data");
    for flags in RUNS {
        let mut bench = Command::new(&program);
        bench.arg("bench").args(flags.split_whitespace());
        bench.arg("--db").arg(&data);
        println!("{}", printed(&mut bench)?);
    }
    let _ = std::fs::remove_dir_all(&data);

    let mut merge = Command::new(merger);
    merge.arg("merge").arg("-o").arg(&profile).arg(&counts);
    printed(&mut merge)?;
    let flags = format!("-Cprofile-use={}", profile.display());
    build(root, &folder, &flags, &PACKAGES)?;
    println!(
        "built with the profile: {}",
        folder.join(triple()?).join("release").display()
    );
    Ok(())
}

/// Builds `packages` in release mode with the compiler flags `flags`. With an explicit target, cargo
/// does not apply them to build scripts and procedural macros.
fn build(root: &Path, folder: &Path, flags: &str, packages: &[&str]) -> Result<(), String> {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--locked", "--release", "--target", &triple()?])
        .arg("--target-dir")
        .arg(folder)
        .env("RUSTFLAGS", flags)
        .current_dir(root);
    for package in packages {
        cargo.args(["-p", package]);
    }
    match cargo
        .status()
        .map_err(|error| format!("cargo: {error}"))?
        .success()
    {
        true => Ok(()),
        false => Err(format!("the build with {flags} failed")),
    }
}

/// The value of the field `name` in `rustc -vV`.
fn compiler_says(name: &str) -> Result<String, String> {
    let said = printed(Command::new("rustc").arg("-vV"))?;
    let value = said.lines().find_map(|line| line.strip_prefix(name));
    value
        .map(|value| value.trim().to_owned())
        .ok_or_else(|| format!("rustc -vV does not print {name}"))
}

/// The host's target triple.
fn triple() -> Result<String, String> {
    compiler_says("host:")
}

/// The llvm-profdata of the compiler's LLVM.
fn merger() -> Result<PathBuf, String> {
    let component = sysroot()?
        .join("lib/rustlib")
        .join(triple()?)
        .join("bin/llvm-profdata");
    let version = compiler_says("LLVM version:")?;
    let major = version.split('.').next().unwrap_or_default();
    let package = format!("llvm-profdata-{major}");
    if component.exists() {
        Ok(component)
    } else if has(&package) {
        Ok(package.into())
    } else {
        Err(format!(
            "llvm-profdata of LLVM {major} is missing: rustup component add llvm-tools, or on Debian and \
             Ubuntu apt-get install llvm-{major}"
        ))
    }
}
