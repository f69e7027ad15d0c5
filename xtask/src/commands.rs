//! Helpers to run programs and to prepare their directories.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Instant;

/// Cargo's target directory.
pub fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from)
}

/// Prints a command that is about to run, with the seconds since the first one.
pub fn announce(command: &str) {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let seconds = FIRST.get_or_init(Instant::now).elapsed().as_secs();
    println!("+ [{seconds} s] {command}");
}

/// Runs cargo in `dir`, which must succeed.
pub fn cargo(dir: &Path, arguments: &[&str]) -> Result<(), String> {
    announce(&format!("cargo {}", arguments.join(" ")));
    let status = Command::new("cargo")
        .args(arguments)
        .current_dir(dir)
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("cargo {} failed", arguments.join(" "))),
    }
}

/// Runs `command` and returns its output, whatever its exit status.
pub fn output(command: &mut Command) -> Result<Output, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.output().map_err(|error| format!("{name}: {error}"))
}

/// Runs `command`, which must succeed, and returns its standard output.
pub fn printed(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = output(command)?;
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned()),
        false => Err(format!(
            "{name} failed with {}: {}{}",
            done.status,
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        )),
    }
}

/// True if the program `name` is on the `PATH`.
pub fn has(name: &str) -> bool {
    Command::new(name)
        .arg("--version")
        .output()
        .is_ok_and(|done| done.status.success())
}

/// The directory of the Rust toolchain.
pub fn sysroot() -> Result<PathBuf, String> {
    printed(Command::new("rustc").args(["--print", "sysroot"])).map(PathBuf::from)
}

/// The C compiler.
pub fn compiler() -> Command {
    Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

/// The contents of a file.
pub fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Makes `path` an empty directory.
pub fn fresh(path: &Path) -> Result<(), String> {
    if path.exists() {
        std::fs::remove_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    std::fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}
