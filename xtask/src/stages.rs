//! The stages of continuous integration. All use one profile, so that nothing is built twice.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::commands::{announce, printed, sysroot};
use crate::tool_requirements::Selection;
use crate::{
    capi, clients, deny, header, kafka_streams, loom, packages, path_costs, side_by_side, soak,
    tidy,
};

/// Mutated inputs for each fuzz target.
const FUZZ_INPUTS: &str = "16000";

/// Operations that RocksDB's library and Cairn's execute side by side.
const TWIN_OPERATIONS: &str = "160000";

/// The Python module, which is compiled apart: it enables features of crates that generate code, with which those of the
/// other packages would be compiled twice.
const PYTHON: &str = "cairn-python";

/// A stage: its name and its function.
struct Stage {
    name: &'static str,
    run: fn(&Path, &Selection) -> Result<(), String>,
}

/// The environment variable that lists absent tools for test programs.
const WITHOUT: &str = "CAIRN_WITHOUT";

/// The engine that the crash and model tests run.
const ENGINE: &str = "cairn";

const STAGES: [Stage; 13] = [
    Stage {
        name: "lint",
        run: lint,
    },
    Stage {
        name: "unit",
        run: |root, _| unit(root),
    },
    Stage {
        name: "loom",
        run: |root, _| loom::run(root),
    },
    Stage {
        name: "crash",
        run: |root, _| crash(root),
    },
    Stage {
        name: "fault",
        run: |root, _| fault(root),
    },
    Stage {
        name: "meta",
        run: |root, _| meta(root),
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
        name: "clients",
        run: clients::run,
    },
    Stage {
        name: "streams",
        run: streams,
    },
    Stage {
        name: "fuzz",
        run: |root, _| fuzz(root),
    },
    Stage {
        name: "soak",
        run: |root, _| soak::stage(root),
    },
    Stage {
        name: "counts",
        run: |root, _| path_costs::run(root, false),
    },
];

/// The names of all stages, in the order in which they run.
pub fn names() -> Vec<&'static str> {
    STAGES.iter().map(|stage| stage.name).collect()
}

/// Installs the tools and runs the stages in `words`, or all. Stops at the first failure.
pub fn run(root: &Path, words: &[String]) -> Result<(), String> {
    let mut selection = Selection::parse(words, &names())?;
    provide(root, &mut selection);
    let others = side_by_side::take(&mut selection);
    let mut summary = Vec::new();
    for stage in &STAGES {
        if !selection.stages.contains(&stage.name) {
            continue;
        }
        println!("\n== {}", stage.name);
        let (started, cpu) = (Instant::now(), cpu_of_children());
        (stage.run)(root, &selection)
            .map_err(|error| format!("stage {} failed: {error}", stage.name))?;
        summary.push(summary_of(stage.name, started, cpu));
    }
    summary.extend(side_by_side::run(root, &others, &selection.absent())?);
    println!("\nall stages passed: {}", summary.join(", "));
    println!("{}", selection.verdict()?);
    Ok(())
}

/// The time that a stage took, and its cores, given its start and [`cpu_of_children`] before it ended.
pub fn summary_of(stage: &str, started: Instant, cpu: f64) -> String {
    let seconds = started.elapsed().as_secs_f64();
    let cores = (cpu_of_children() - cpu) / seconds;
    format!("{stage} {seconds:.0} s on {cores:.1} cores")
}

/// The CPU time of all children that have ended, in seconds; 0 where the system does not report it so.
pub fn cpu_of_children() -> f64 {
    // Fields 16 and 17 of the process, in units of 10 ms. The second, its name, may contain spaces.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(13).take(2);
    ticks
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}

/// Installs the tools that the stages need. Steps whose tools are still missing are skipped.
fn provide(root: &Path, selection: &mut Selection) {
    let cached = |path: Option<&str>| path.is_some_and(|path| root.join(path).exists());
    let needed = selection.needed().filter(|need| !cached(need.cached));
    let needed: Vec<_> = needed.collect();
    let missing = packages::missing(needed.iter().flat_map(|need| need.parts));
    if missing.is_empty() {
        return;
    }
    for why in packages::install(&missing) {
        println!("not installed: {why}");
    }
    for need in needed {
        let missing = packages::missing(need.parts);
        if !missing.is_empty() {
            println!(
                "{} is missing, so the run will fail after its other steps: {} (or pass --without {})",
                need.name,
                packages::by_hand(&missing),
                need.name
            );
            selection.leave_out(need, false);
        }
    }
}

fn lint(root: &Path, selection: &Selection) -> Result<(), String> {
    if selection.has("rustfmt") {
        cargo(root, &["fmt", "--all", "--check"])?;
    }
    tidy::run(root)?;
    lock_file_of_fuzz(root)?;
    deny::run(root)?;
    if selection.has("clippy") {
        for packages in [&["--workspace", "--exclude", PYTHON][..], &["-p", PYTHON]] {
            let clippy = [&["clippy", "--all-targets", "--locked"], packages];
            cargo(
                root,
                &[&clippy.concat()[..], &["--", "-D", "warnings"]].concat(),
            )?;
        }
    }
    without_c(root)?;
    header::run(root, true)?;
    let mut doc = command(
        root,
        "cargo",
        // The documentation of the binary `cairn` would overwrite that of the crate of the same name.
        &[
            "doc",
            "--workspace",
            "--exclude",
            "cairn-cli",
            "--exclude",
            PYTHON,
            "--no-deps",
            "--locked",
            "--keep-going",
        ],
    );
    if selection.has("clippy") {
        // The crates that Clippy has checked need no further check.
        doc.env(
            "RUSTC_WORKSPACE_WRAPPER",
            sysroot()?.join("bin/clippy-driver"),
        )
        .env("CLIPPY_ARGS", CLIPPY_ARGUMENTS);
    }
    finish(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// `-D warnings`, in the form in which `cargo clippy` passes it to its compiler.
const CLIPPY_ARGUMENTS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// Fails if the lock file of the fuzz targets, a workspace of its own, does not fit the crates of this one.
fn lock_file_of_fuzz(root: &Path) -> Result<(), String> {
    let resolve = ["metadata", "--locked", "--format-version", "1"];
    let mut cargo = Command::new("cargo");
    printed(cargo.args(resolve).current_dir(root.join("fuzz"))).map(|_| ())
}

/// Without its default features the Rust crate needs no C compiler, and rejects the codecs that it lacks. The stage `counts`
/// compiles the engine so.
fn without_c(root: &Path) -> Result<(), String> {
    let bare = ["--no-default-features", "--locked", "-p"];
    let tree = [
        &["tree", "--edges", "normal,build", "--prefix", "none"],
        &bare[..],
        &["cairn"],
    ];
    let packages = printed(&mut command(root, "cargo", &tree.concat()))?;
    // Packages that compile C depend on `cc`.
    if packages.lines().any(|package| package.starts_with("cc ")) {
        return Err("cairn without default features compiles C: see cargo tree -i cc".to_owned());
    }
    cargo(root, &[&["test"], &bare[..], &["cairn-compress"]].concat())
}

/// The cases of each property that does not specify a number.
const PROPERTY_CASES: &str = "96";

/// The variable from which the property tests take their seed. Without it, they choose one themselves.
const PROPERTY_SEED: &str = "PROPTEST_RNG_SEED";

/// The seed of all properties, derived from the files: each commit tries other cases, and each run of a commit the same ones.
fn property_seed(root: &Path) -> Result<u64, String> {
    let tree = printed(&mut command(root, "git", &["rev-parse", "HEAD^{tree}"]))?;
    tree.get(..16)
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or_else(|| format!("git rev-parse printed {tree:?}, not a hash"))
}

fn unit(root: &Path) -> Result<(), String> {
    let seed = match std::env::var(PROPERTY_SEED) {
        Ok(seed) => seed,
        Err(_) => property_seed(root)?.to_string(),
    };
    eprintln!("xtask: properties are tested with {PROPERTY_SEED}={seed}");
    let mut tests = command(
        root,
        "cargo",
        &[
            "test",
            "--workspace",
            // Tested in the stage `interop`, with RocksDB's library.
            "--exclude",
            "cairn-interop",
            "--exclude",
            "cairn-bench",
            // Has no tests, but dependencies that change the features of others.
            "--exclude",
            "cairn-microbench",
            "--exclude",
            PYTHON,
            "--locked",
            "--no-fail-fast",
        ],
    );
    tests.env("PROPTEST_CASES", PROPERTY_CASES);
    finish(tests.env(PROPERTY_SEED, seed))
}

fn crash(root: &Path) -> Result<(), String> {
    model(
        root,
        ENGINE,
        "crash",
        &["--count", "1", "--ops", "24", "--images", "1"],
    )?;
    // A file-system layer between engine and simulator must not lose more than the simulator does.
    let once = ["--count", "1", "--ops", "20", "--images", "1"];
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
        &["--count", "2", "--ops", "30", "--runs", "48"],
    )
}

fn meta(root: &Path) -> Result<(), String> {
    model(root, ENGINE, "meta", &["--count", "18", "--ops", "400"])
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

/// The newest RocksDB, if `cargo xtask reference` has built it.
const NEWEST_ROCKSDB: &str = "target/rocksdb/native/librocksdb.so";

fn interop(root: &Path, selection: &Selection) -> Result<(), String> {
    cargo(root, &["build", "--locked", "-p", "cairn-cli", "--bins"])?;
    cargo(root, &["build", "--locked", "-p", "cairn-librocksdb"])?;
    if selection.has("rocksdb") {
        finish(&mut command(root, "tests/interop/fetch-rocksdb.sh", &[]))?;
    }
    let packages = ["-p", "cairn-interop", "-p", "cairn-bench"];
    let test = [
        &["test", "--locked"][..],
        &packages,
        &["--", "--show-output"],
    ];
    let mut tests = command(root, "cargo", &test.concat());
    finish(tests.env(WITHOUT, selection.absent()))?;
    if !selection.has("rocksdb") {
        return Ok(());
    }
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

/// Kafka Streams on the library for Java.
fn streams(root: &Path, selection: &Selection) -> Result<(), String> {
    match selection.has("javac") {
        true => kafka_streams::stage(root),
        false => Ok(()),
    }
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
    announce(&format!("{program} {}", arguments.join(" ")));
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
        Err(format!("{name} failed with {status}"))
    }
}
