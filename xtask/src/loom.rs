//! Model checking of the lock-free code: all interleavings with loom, random ones with shuttle.
//!
//! A crate tested with loom is compiled with `--cfg loom`, which replaces its atomics by loom's. Its
//! dependencies are compiled without it and shared with the other tests. Shuttle tests the block cache as a
//! whole, over two crates, the lock manager and reads in flight; `.ci/rustc-shuttle` compiles these crates and those of
//! the workspace that they depend on with `--cfg shuttle`.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::commands::announce;

/// Crates with loom tests. The full names of such tests contain `loom`.
const CRATES: [&str; 6] = [
    "cairn-platform",
    "cairn-memory",
    "cairn-memtable",
    "cairn-observe",
    "cairn-locks",
    "cairn-db",
];

/// Builds and runs the tests.
pub fn run(root: &Path) -> Result<(), String> {
    CRATES.iter().try_for_each(|name| explore(root, name))?;
    shuttle(root)
}

/// Crates with shuttle tests. The full names of such tests contain `shuttle`.
const SHUTTLED: [&str; 3] = ["cairn-memory", "cairn-locks", "cairn-platform"];

/// The compiler for the tests under shuttle.
const SHUTTLE_COMPILER: &str = ".ci/rustc-shuttle";

/// The tests run for seconds; optimizing the crates would take longer.
const UNOPTIMIZED: &str = "profile.dev.opt-level=0";

/// Runs the shuttle tests, one at a time: they share the headers of buffers.
fn shuttle(root: &Path) -> Result<(), String> {
    let packages = SHUTTLED.map(|name| format!("-p {name} ")).concat();
    let test = format!("test --locked {packages}--lib -- --test-threads=1 shuttle");
    announce(&format!(
        "RUSTC_WORKSPACE_WRAPPER={SHUTTLE_COMPILER} cargo {test}"
    ));
    let run = Command::new("cargo")
        .args(["--config", UNOPTIMIZED])
        .args(test.split(' '))
        .env("RUSTC_WORKSPACE_WRAPPER", root.join(SHUTTLE_COMPILER))
        .current_dir(root)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    let said = String::from_utf8_lossy(&run.stdout);
    print!("{said}");
    let programs = said.matches("\nrunning ").count();
    match run.status.success() && !said.contains("running 0 tests") && programs == SHUTTLED.len() {
        true => Ok(()),
        false => Err(format!("the shuttle tests: {}", run.status)),
    }
}

fn explore(root: &Path, name: &str) -> Result<(), String> {
    announce(&format!(
        "cargo rustc -p {name} --lib --profile test -- --cfg loom"
    ));
    let built = Command::new("cargo")
        .args([
            "rustc",
            "--locked",
            "-p",
            name,
            "--lib",
            "--profile",
            "test",
        ])
        .args([
            "--message-format=json-render-diagnostics",
            "--",
            "--cfg",
            "loom",
        ])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !built.status.success() {
        return Err(format!("{name} does not build with loom: {}", built.status));
    }
    let messages = String::from_utf8_lossy(&built.stdout);
    let program = executable(&messages).ok_or_else(|| format!("{name} has no tests"))?;
    let run = Command::new(program)
        .arg("loom")
        .current_dir(root)
        .stdout(Stdio::piped())
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    let said = String::from_utf8_lossy(&run.stdout);
    print!("{said}");
    match run.status.success() && !said.contains("running 0 tests") {
        true => Ok(()),
        false => Err(format!("the tests of {name} with loom: {}", run.status)),
    }
}

/// The test program in cargo's messages.
fn executable(messages: &str) -> Option<&str> {
    let (_, rest) = messages.rsplit_once("\"executable\":\"")?;
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_last_executable_is_the_program() {
        let messages =
            "{\"executable\":null}\n{\"executable\":\"/a/b\",\"fresh\":true}\n{\"success\":true}";
        assert_eq!(super::executable(messages), Some("/a/b"));
        assert_eq!(super::executable("{\"executable\":null}"), None);
    }
}
