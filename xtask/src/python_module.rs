//! `cargo xtask python`: builds the Python module with maturin, tests it, and compares it with rocksdict.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::{fresh, output, printed, target};

/// The packages that building and testing need.
const PACKAGES: [&str; 4] = ["maturin>=1.13,<2", "pytest", "hypothesis", "mypy"];

/// The package that the comparison needs.
const RIVAL: &str = "rocksdict==0.3.29";

/// The arguments of the interpreter that install packages.
const INSTALL: [&str; 5] = ["-m", "pip", "-q", "--disable-pip-version-check", "install"];

const USAGE: &str =
    "cargo xtask python [test [PYTEST ARGUMENTS]... | bench [ARGUMENTS]... | wheel]";

/// Builds the module and runs its tests; with `bench`, the comparison; with `wheel`, neither.
pub fn run(root: &Path, words: &[String]) -> Result<(), String> {
    let (command, arguments) = match words.split_first() {
        None => ("test", words),
        Some((command, arguments)) => (command.as_str(), arguments),
    };
    let profile = match command {
        "test" => "dev",
        "bench" | "wheel" => "release",
        _ => return Err(USAGE.to_owned()),
    };
    let python = environment(root)?;
    let wheels = home(root).join("wheels");
    let wheel = build(root, Command::new(&python), profile, &wheels, None)?;
    if command == "wheel" {
        println!("{}", wheel.display());
        return Ok(());
    }
    printed(
        Command::new(&python)
            .args(INSTALL)
            .args(["--no-deps", "--force-reinstall"])
            .arg(&wheel),
    )?;
    match command {
        "test" => test(root, &python, arguments),
        _ => {
            printed(Command::new(&python).args(INSTALL).arg(RIVAL))?;
            let script = root.join("python/bench/against_rocksdict.py");
            shown(Command::new(&python).arg(script).args(arguments))
        }
    }
}

/// The directory of the virtual environment and the wheels.
fn home(root: &Path) -> PathBuf {
    target(root).join("python-module")
}

/// Runs `command` with its output on the terminal.
fn shown(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| error.to_string())?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{:?} failed", command.get_program())),
    }
}

/// The interpreter of the virtual environment, which is created once.
pub fn environment(root: &Path) -> Result<PathBuf, String> {
    let home = home(root).join("venv");
    let python = home.join("bin/python");
    let listed = home.join("packages");
    let wanted = PACKAGES.join("\n");
    if std::fs::read_to_string(&listed).is_ok_and(|found| found == wanted) {
        return Ok(python);
    }
    fresh(&home)?;
    printed(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
    let newest = "import sys; sys.exit(sys.version_info < (3, 11))";
    if !output(Command::new(&python).args(["-c", newest]))?
        .status
        .success()
    {
        return Err("the module needs Python 3.11 or newer".to_owned());
    }
    printed(Command::new(&python).args(INSTALL).args(PACKAGES))?;
    std::fs::write(&listed, wanted).map_err(|error| error.to_string())?;
    Ok(python)
}

/// Builds the wheel into `wheels` with `command`, which is the interpreter, and returns its path. The wheel contains
/// `sbom`.
pub fn build(
    root: &Path,
    mut command: Command,
    profile: &str,
    wheels: &Path,
    sbom: Option<&Path>,
) -> Result<PathBuf, String> {
    fresh(wheels)?;
    let maturin = ["-m", "maturin", "build", "--locked", "--strip"];
    command
        .args(maturin)
        .args(["--auditwheel", "skip"])
        .args(["--profile", profile, "--out"])
        .arg(wheels)
        .current_dir(root.join("python"));
    if let Some(sbom) = sbom {
        command.arg("--sbom-include").arg(sbom);
    }
    printed(&mut command)?;
    let mut found = std::fs::read_dir(wheels).map_err(|error| error.to_string())?;
    let wheel = found.find_map(|entry| {
        let path = entry.ok()?.path();
        path.extension().is_some_and(|e| e == "whl").then_some(path)
    });
    wheel.ok_or_else(|| "maturin built no wheel".to_owned())
}

/// Checks the types and runs pytest.
fn test(root: &Path, python: &Path, arguments: &[String]) -> Result<(), String> {
    let folder = root.join("python");
    // The stub of the native module is that of a package that is installed, not of the folder.
    let types = home(root).join("types");
    fresh(&types)?;
    let stubs = ["-m", "mypy.stubtest", "cairn", "--concise"];
    let allowed = folder.join("tests/stubtest-allowlist.txt");
    let checked = Command::new(python)
        .args(stubs)
        .arg("--allowlist")
        .arg(allowed)
        .current_dir(&types)
        .output();
    let checked = checked.map_err(|error| error.to_string())?;
    if !checked.status.success() {
        return Err(format!(
            "stubtest: {}{}",
            String::from_utf8_lossy(&checked.stdout),
            String::from_utf8_lossy(&checked.stderr)
        ));
    }
    let mypy = ["-m", "mypy", "--strict", "--no-error-summary"];
    let sample = folder.join("tests/typed.py");
    printed(
        Command::new(python)
            .args(mypy)
            .arg(sample)
            .current_dir(&types),
    )?;
    let pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider"];
    let tests = folder.join("tests");
    let mut run = Command::new(python);
    run.args(pytest)
        .arg(tests)
        .args(arguments)
        .current_dir(&types);
    shown(&mut run)
}
