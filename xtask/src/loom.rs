//! Tests in which loom tries the interleavings of what threads do without locks.
//!
//! They are compiled with `--cfg loom`, which replaces a crate's own atomics. Only the crate that is tested
//! is: all below it stays as the other tests have built it.

use std::path::Path;
use std::process::{Command, Stdio};

/// Crates that have such tests. Their names, with the modules', contain `loom`.
const CRATES: [&str; 3] = ["cairn-memtable", "cairn-observe", "cairn-db"];

/// Builds and runs them.
pub fn run(root: &Path) -> Result<(), String> {
    CRATES.iter().try_for_each(|name| explore(root, name))
}

fn explore(root: &Path, name: &str) -> Result<(), String> {
    println!("+ cargo rustc -p {name} --lib --profile test -- --cfg loom");
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
        return Err(format!("{name} is not built with loom: {}", built.status));
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

/// The program that cargo's messages name.
fn executable(messages: &str) -> Option<&str> {
    let (_, rest) = messages.rsplit_once("\"executable\":\"")?;
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_program_is_the_last_that_is_named() {
        let messages =
            "{\"executable\":null}\n{\"executable\":\"/a/b\",\"fresh\":true}\n{\"success\":true}";
        assert_eq!(super::executable(messages), Some("/a/b"));
        assert_eq!(super::executable("{\"executable\":null}"), None);
    }
}
