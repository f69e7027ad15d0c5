//! The stages of the continuous integration, on one profile, so that nothing is built twice.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::{capi, counts, header, licences, loom, tidy};

/// Mutated inputs of each fuzz target.
const FUZZ_INPUTS: &str = "20000";

/// Operations that RocksDB's library and Cairn's carry out side by side.
const TWIN_OPERATIONS: &str = "2000000";

/// A stage: its name, and what it does.
struct Stage {
    name: &'static str,
    run: fn(&Path) -> Result<(), String>,
}

/// The engine that the crash and model tests drive.
const ENGINE: &str = "cairn";

const STAGES: [Stage; 9] = [
    Stage {
        name: "lint",
        run: lint,
    },
    Stage {
        name: "unit",
        run: unit,
    },
    Stage {
        name: "crash",
        run: crash,
    },
    Stage {
        name: "fault",
        run: fault,
    },
    Stage {
        name: "meta",
        run: meta,
    },
    Stage {
        name: "interop",
        run: interop,
    },
    Stage {
        name: "capi",
        run: capi::run,
    },
    Stage {
        name: "fuzz",
        run: fuzz,
    },
    Stage {
        name: "counts",
        run: |root| counts::run(root, false),
    },
];

/// Runs the stages called `names`, or all; stops at the first that fails.
pub fn run(root: &Path, names: &[String]) -> Result<(), String> {
    let known = STAGES.map(|stage| stage.name);
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!(
            "there is no stage {name}; there are {}",
            known.join(", ")
        ));
    }
    let chosen = |stage: &&Stage| names.is_empty() || names.iter().any(|name| name == stage.name);
    let mut summary = Vec::new();
    for stage in STAGES.iter().filter(chosen) {
        println!("\n== {}", stage.name);
        let started = Instant::now();
        (stage.run)(root).map_err(|error| format!("stage {} failed: {error}", stage.name))?;
        summary.push(format!(
            "{} {:.0} s",
            stage.name,
            started.elapsed().as_secs_f64()
        ));
    }
    println!("\nall stages passed: {}", summary.join(", "));
    if std::env::var("CAIRN_CI_OFFLINE").as_deref() == Ok("1") {
        println!("CAIRN_CI_OFFLINE=1: without RocksDB's library, what needs it was SKIPPED");
    }
    Ok(())
}

fn lint(root: &Path) -> Result<(), String> {
    cargo(root, &["fmt", "--all", "--check"])?;
    tidy::run(root)?;
    licences::run(root)?;
    cargo(
        root,
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ],
    )?;
    header::run(root, true)?;
    let mut doc = command(
        root,
        "cargo",
        // The command line's page would lie over that of the crate of the same name.
        &[
            "doc",
            "--workspace",
            "--exclude",
            "cairn-cli",
            "--no-deps",
            "--locked",
            "--keep-going",
        ],
    );
    finish(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

fn unit(root: &Path) -> Result<(), String> {
    cargo(
        root,
        &[
            "test",
            "--workspace",
            "--exclude",
            "cairn-interop",
            "--locked",
            "--no-fail-fast",
        ],
    )?;
    loom::run(root)
}

fn crash(root: &Path) -> Result<(), String> {
    model(
        root,
        ENGINE,
        "crash",
        &["--count", "1", "--ops", "56", "--images", "1"],
    )?;
    // What lies between the engine and its files may not lose more than they do.
    let once = ["--count", "1", "--ops", "25", "--images", "1"];
    model(
        root,
        "encrypted",
        "crash",
        &[&once[..], &["--workload", "atomic-logged"]].concat(),
    )
}

fn fault(root: &Path) -> Result<(), String> {
    model(
        root,
        ENGINE,
        "fault",
        &["--count", "3", "--ops", "30", "--runs", "160"],
    )
}

fn meta(root: &Path) -> Result<(), String> {
    model(root, ENGINE, "meta", &["--count", "100", "--ops", "400"])
}

fn model(root: &Path, engine: &str, command: &str, counts: &[&str]) -> Result<(), String> {
    let run = [
        "run",
        "--locked",
        "-p",
        "cairn-model",
        "--",
        command,
        "--engine",
        engine,
    ];
    cargo(root, &[&run[..], counts].concat())
}

/// The newest RocksDB, where `cargo xtask reference` has built it.
const NEWEST_ROCKSDB: &str = "target/rocksdb/native/librocksdb.so";

fn interop(root: &Path) -> Result<(), String> {
    cargo(root, &["build", "--locked", "-p", "cairn-cli", "--bins"])?;
    cargo(root, &["build", "--locked", "-p", "cairn-librocksdb"])?;
    if std::env::var("CAIRN_CI_OFFLINE").as_deref() != Ok("1") {
        finish(&mut command(root, "tests/interop/fetch-rocksdb.sh", &[]))?;
    }
    let tests = [
        "test",
        "--locked",
        "-p",
        "cairn-interop",
        "-p",
        "cairn-bench",
    ];
    cargo(root, &[&tests[..], &["--", "--show-output"]].concat())?;
    let newest = root.join(NEWEST_ROCKSDB);
    if newest.exists() {
        let tests = ["test", "--locked", "-p", "cairn-interop", "--test", "it"];
        let mut again = command(root, "cargo", &tests);
        finish(again.env("CAIRN_ROCKSDB_LIB", newest))?;
    }
    let twin = ["run", "--locked", "-p", "cairn-interop", "--bin", "twin"];
    cargo(
        root,
        &[&twin[..], &["--", "--ops", TWIN_OPERATIONS]].concat(),
    )
}

fn fuzz(root: &Path) -> Result<(), String> {
    cargo(
        root,
        &[
            "run",
            "--locked",
            "-p",
            "cairn-fuzz",
            "--",
            "--inputs",
            FUZZ_INPUTS,
        ],
    )
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<(), String> {
    finish(&mut command(root, "cargo", arguments))
}

fn command(root: &Path, program: &str, arguments: &[&str]) -> Command {
    println!("+ {program} {}", arguments.join(" "));
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root);
    command
}

fn finish(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .map_err(|error| format!("{name}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{name} ended with {status}"))
    }
}
