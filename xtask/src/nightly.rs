//! Runs of unsafe and lock-free code that need a nightly toolchain, with the sources of the standard library: Miri, and
//! the thread sanitizer. They are not part of the stages.

use std::path::Path;
use std::process::Command;

/// A package and a filter of its tests.
type Tests = (&'static str, &'static str);

/// Tests of raw memory and of the structures in it that Miri runs.
const MIRI: [Tests; 5] = [
    ("cairn-platform", "posix::pages"),
    ("cairn-platform", "posix::huge"),
    ("cairn-platform", "posix::region"),
    ("cairn-platform", "buffer"),
    ("cairn-memory", "cache::"),
];

/// Tests in which threads share lock-free structures.
const THREADED: [Tests; 3] = [
    ("cairn-platform", "buffer"),
    ("cairn-memory", "cache"),
    ("cairn-memory", "arena"),
];

/// Where the thread sanitizer's build goes: all crates and the standard library are compiled with it.
const TSAN_TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs tests under Miri.
///
/// # Errors
///
/// Undefined behaviour, a failed test, or no nightly toolchain with Miri.
pub fn miri(root: &Path) -> Result<(), String> {
    MIRI.iter().try_for_each(|(package, filter)| {
        let test = format!(
            "+nightly miri test --locked -p {package} --lib --target-dir target/miri -- {filter}"
        );
        let env = [
            ("MIRIFLAGS", "-Zmiri-disable-isolation"),
            ("PROPTEST_CASES", "3"),
        ];
        run(root, &test, &env)
    })
}

/// Runs tests under the thread sanitizer.
///
/// # Errors
///
/// A data race, a failed test, or no nightly toolchain with the sources of the standard library.
pub fn thread_sanitizer(root: &Path) -> Result<(), String> {
    THREADED.iter().try_for_each(|(package, filter)| {
        let test = format!(
            "+nightly test -Zbuild-std --target {TSAN_TARGET} --target-dir target/tsan --locked -p {package} --lib \
             -- {filter}"
        );
        let env = [
            ("RUSTFLAGS", "-Zsanitizer=thread"),
            ("TSAN_OPTIONS", "halt_on_error=1"),
        ];
        run(root, &test, &env)
    })
}

/// Runs cargo with these arguments, separated by spaces, and fails if there is no test.
fn run(root: &Path, args: &str, env: &[(&str, &str)]) -> Result<(), String> {
    let set: String = env
        .iter()
        .map(|(name, value)| format!("{name}={value} "))
        .collect();
    println!("+ {set}cargo {args}");
    let ran = Command::new("cargo")
        .args(args.split_whitespace())
        .envs(env.iter().copied())
        // Set by the toolchain that runs this program.
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("RUSTC")
        .current_dir(root)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    let printed = String::from_utf8_lossy(&ran.stdout);
    print!("{printed}");
    match ran.status.success() && !printed.contains("running 0 tests") {
        true => Ok(()),
        false => Err(format!("cargo {args}: {}", ran.status)),
    }
}
