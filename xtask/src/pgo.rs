//! `cargo xtask pgo`: the release built for what programs do with it.
//!
//! ```text
//! 1  the command line is built so that it counts how often each branch is taken
//! 2  it runs a load, reads, walks and compactions of `cairn bench`, and writes the counts
//! 3  llvm-profdata adds them up
//! 4  command line and C libraries are built by them, into target/pgo/release
//! ```
//!
//! The counts are of Rust code only; the codecs, which are C, are built as always. llvm-profdata must be of
//! the compiler's LLVM: it comes with rustup's component `llvm-tools`, or with the package `llvm-N` of
//! Debian and Ubuntu.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::{has, printed, target};

/// What the counted program does: each line is a run of `cairn bench`.
const RUNS: [&str; 4] = [
    "--benchmarks=fillrandom,overwrite,compact,readrandom,readmissing,multireadrandom,seekrandom,readseq,readreverse \
     --num=300000 --bloom_bits=10 --cache_size=1G --compression_type=none",
    "--benchmarks=fillseq,readrandom,readwhilewriting,readseq --num=200000 --threads=2 --bloom_bits=10",
    "--benchmarks=fillbatch,ycsba,ycsbe,updaterandom --num=100000 --cache_size=8M --compression_type=lz4",
    "--benchmarks=filltombstones,readseq,seekrandom,fillrangetombstones,readseq --num=200000 --compression_type=zstd",
];

/// What is built in the end.
const PACKAGES: [&str; 2] = ["cairn-cli", "cairn-librocksdb"];

/// Builds, runs, adds up and builds again.
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
        "built by profile: {}",
        folder.join(triple()?).join("release").display()
    );
    Ok(())
}

/// Builds `packages` as a release with `flags` of the compiler. A target is named, so that they do not
/// reach what is run by the build itself.
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

/// What the compiler says of itself behind `name`.
fn compiler_says(name: &str) -> Result<String, String> {
    let said = printed(Command::new("rustc").arg("-vV"))?;
    let value = said.lines().find_map(|line| line.strip_prefix(name));
    value
        .map(|value| value.trim().to_owned())
        .ok_or_else(|| format!("rustc -vV does not say {name}"))
}

/// The machine's own target.
fn triple() -> Result<String, String> {
    compiler_says("host:")
}

/// An llvm-profdata of the compiler's LLVM.
fn merger() -> Result<PathBuf, String> {
    let sysroot = printed(Command::new("rustc").args(["--print", "sysroot"]))?;
    let component = Path::new(&sysroot)
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
