//! Runs of unsafe and lock-free code that need a nightly toolchain, with the sources of the standard library: Miri, and
//! the sanitizers of threads and of addresses. They are not part of the stages.

use std::path::Path;
use std::process::Command;

/// A package and a filter of its tests.
type Tests = (&'static str, &'static str);

/// Tests of raw memory and of the structures in it that Miri runs.
const MIRI: [Tests; 6] = [
    ("cairn-platform", "io::flight"),
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

/// Tests of reads in flight, which own memory and descriptors that the kernel uses: by package and test binary. Without
/// those whose process ends with reads in flight, which leak by intent, or has no descriptors left for the sanitizer.
const IN_FLIGHT: [(&str, &str, &str); 2] = [
    (
        "cairn-platform",
        "--lib",
        "io::reactor --skip a_process_ends_with_reads --skip without_a_ring",
    ),
    ("cairn", "--test it", "futures::"),
];

/// The target of the sanitizers' builds, of which the thread sanitizer's includes the standard library.
const SANITIZER_TARGET: &str = "x86_64-unknown-linux-gnu";

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
            "+nightly test -Zbuild-std --target {SANITIZER_TARGET} --target-dir target/tsan --locked -p {package} --lib \
             -- {filter}"
        );
        let env = [
            ("RUSTFLAGS", "-Zsanitizer=thread"),
            ("TSAN_OPTIONS", "halt_on_error=1"),
        ];
        run(root, &test, &env)
    })
}

/// Runs tests of reads in flight, among them those of dropped futures, under the address sanitizer, which also detects
/// leaks.
///
/// # Errors
///
/// A memory error, a failed test, or no nightly toolchain.
pub fn address_sanitizer(root: &Path) -> Result<(), String> {
    IN_FLIGHT.iter().try_for_each(|(package, tests, filter)| {
        let test = format!(
            "+nightly test --target {SANITIZER_TARGET} --target-dir target/asan --locked -p {package} {tests} -- {filter}"
        );
        let env = [
            ("RUSTFLAGS", "-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer"),
            ("ASAN_OPTIONS", "detect_leaks=1"),
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
