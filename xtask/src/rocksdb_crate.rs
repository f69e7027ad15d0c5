//! The published crate `rocksdb` with Cairn's library in place of RocksDB's.
//!
//! Programs replace the crate `librocksdb-sys` by the one in `crates/librocksdb-sys`, and then compile the engine. The tests
//! replace it by a stand-in that passes on the one that the workspace has compiled ([`StandIn`]).
//! `capi/rocksdb-crate.txt` lists the tests of the crate that need an unsupported feature, with the reason.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::commands::{announce, fresh, printed, read, target};
use crate::registry;
use crate::tool_requirements::Selection;

/// The version of the crate whose tests run.
const VERSION: &str = "0.25.0";

/// The directory of the crate that replaces `librocksdb-sys`.
pub const REPLACEMENT: &str = "crates/librocksdb-sys";

/// The name by which the stand-in knows the compiled replacement.
const COMPILED: &str = "cairn_librocksdb_sys";

/// A crate with the name, version and features of the replacement, over the replacement that the workspace has compiled.
pub struct StandIn {
    /// Its directory.
    pub directory: PathBuf,
    /// The compiled replacement.
    library: PathBuf,
    /// The workspace's target directory.
    target: PathBuf,
}

impl StandIn {
    /// Compiles the replacement and writes the stand-in, unless it is left out. Programs over an earlier stand-in are then
    /// compiled anew.
    pub fn write(root: &Path, selection: &Selection) -> Result<Option<StandIn>, String> {
        if !selection.has("rocksdb-crate") {
            return Ok(None);
        }
        let library = compile(root)?;
        let target = target(root);
        let directory = target.join("rocksdb-crate-sys");
        fresh(&directory.join("src"))?;
        let manifest = manifest(&read(&root.join(REPLACEMENT).join("Cargo.toml"))?);
        for (file, text) in [
            ("Cargo.toml", manifest),
            ("src/lib.rs", format!("pub use {COMPILED}::*;\n")),
        ] {
            let file = directory.join(file);
            std::fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
        }
        Ok(Some(StandIn {
            directory,
            library,
            target,
        }))
    }

    /// Lets `cargo`, or what runs it, compile programs over the stand-in.
    pub fn prepare(&self, cargo: &mut Command) {
        let dependencies = self.target.join("debug/deps");
        let flags = [
            "-Awarnings".to_owned(),
            format!("--extern={COMPILED}={}", self.library.display()),
            format!("-Ldependency={}", dependencies.display()),
        ];
        cargo
            .env("CARGO_TARGET_DIR", self.target.join("rocksdb-crate-target"))
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            // Other than in RUSTFLAGS, paths may contain spaces.
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    }

    /// The `[patch]` of a manifest that replaces `librocksdb-sys` by the stand-in.
    fn patch(&self) -> String {
        format!(
            "[patch.crates-io]\nlibrocksdb-sys = {{ path = {:?} }}\n",
            self.directory
        )
    }
}

/// Compiles the replacement as a part of the workspace, and returns its library.
fn compile(root: &Path) -> Result<PathBuf, String> {
    let build = ["build", "--locked", "-p", "librocksdb-sys"];
    announce(&format!("cargo {}", build.join(" ")));
    let mut cargo = Command::new("cargo");
    cargo
        .args(build)
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root);
    let messages = printed(&mut cargo)?;
    let artifact = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let files = message["filenames"].as_array()?.iter();
        let mut files = files.filter_map(|file| file.as_str());
        let named = message["target"]["name"] == "librocksdb_sys";
        let library = files.find(|file| named && file.ends_with(".rlib"))?;
        Some(PathBuf::from(library))
    };
    let library = messages.lines().find_map(artifact);
    library.ok_or_else(|| "cargo built no library of librocksdb-sys".to_owned())
}

/// The edition of its one line, which reads the same in all.
const EDITION: &str = "edition = \"2024\"";

/// The stand-in's manifest, given the replacement's: what it inherits from the workspace and its dependencies are left out.
fn manifest(replacement: &str) -> String {
    let mut text = String::from("[workspace]\n\n");
    let mut section = "";
    for line in replacement.lines() {
        if line.starts_with('[') {
            section = line;
        }
        let line = line.replace("edition.workspace = true", EDITION);
        let kept = matches!(section, "[package]" | "[features]");
        if kept && !line.contains(".workspace = true") {
            text += &line;
            text.push('\n');
        }
    }
    text
}

/// Runs the tests of the published crate, and an example program.
pub fn test(root: &Path, stand_in: &StandIn) -> Result<(), String> {
    published(root, stand_in)?;
    example(root, stand_in)
}

/// Runs the tests of the published crate.
fn published(root: &Path, stand_in: &StandIn) -> Result<(), String> {
    let target = target(root);
    let copy = target.join("rocksdb-crate");
    fresh(&copy)?;
    let scratch = target.join("rocksdb-crate-probe");
    let source = registry::source(&scratch, "rocksdb", VERSION, &stand_in.patch())?;
    printed(
        Command::new("cp")
            .arg("-r")
            .arg(source.join("."))
            .arg(&copy),
    )?;
    for file in ["Cargo.lock", "rust-toolchain.toml"] {
        let _ = std::fs::remove_file(copy.join(file));
    }
    let manifest = copy.join("Cargo.toml");
    let patched = format!("{}\n{}\n[workspace]\n", read(&manifest)?, stand_in.patch());
    std::fs::write(&manifest, patched).map_err(|e| format!("{}: {e}", manifest.display()))?;

    let list = read(&root.join("capi/rocksdb-crate.txt"))?;
    let mut arguments = vec!["test".to_owned(), "--quiet".to_owned(), "--lib".to_owned()];
    let mut skips = Vec::new();
    for line in list
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
    {
        let word = line.split_whitespace().next().unwrap_or_default();
        match word.strip_prefix('-') {
            Some(test) => skips.push(test.to_owned()),
            None if word.is_empty() => {}
            None => arguments.extend(["--test".to_owned(), word.to_owned()]),
        }
    }
    arguments.push("--".to_owned());
    for test in skips {
        arguments.extend(["--skip".to_owned(), test]);
    }
    let mut cargo = Command::new("cargo");
    stand_in.prepare(cargo.args(&arguments).current_dir(&copy));
    let status = cargo.status().map_err(|error| format!("cargo: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("the tests of the crate rocksdb {VERSION} failed")),
    }
}

/// Runs the example program and checks its output. Its dependencies must include the replacement.
fn example(root: &Path, stand_in: &StandIn) -> Result<(), String> {
    let example = root.join("examples/rocksdb-crate");
    let mut tree = Command::new("cargo");
    tree.args(["tree", "--quiet", "--invert", "librocksdb-sys"]);
    let users = printed(tree.current_dir(&example))?;
    let replacement = root.join(REPLACEMENT).display().to_string();
    if !users.contains(&replacement) || !users.contains("word-index") {
        return Err(format!("word-index does not use {replacement}: {users}"));
    }
    let copy = target(root).join("rocksdb-crate-example");
    fresh(&copy)?;
    let both = [example.join("Cargo.toml"), example.join("src")];
    printed(Command::new("cp").arg("-r").args(both).arg(&copy))?;
    let manifest = copy.join("Cargo.toml");
    let directory = stand_in.directory.display().to_string();
    let patched = read(&manifest)?.replace(&format!("../../{REPLACEMENT}"), &directory);
    std::fs::write(&manifest, patched).map_err(|e| format!("{}: {e}", manifest.display()))?;

    let dir = target(root).join("word-index-db");
    fresh(&dir)?;
    let run = |words: &[&str], text: &str| -> Result<String, String> {
        let mut command = Command::new("cargo");
        command
            .args(["run", "--quiet", "--"])
            .arg(dir.join("db"))
            .args(words)
            .current_dir(&copy)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        stand_in.prepare(&mut command);
        let mut child = command.spawn().map_err(|error| format!("cargo: {error}"))?;
        let mut input = child
            .stdin
            .take()
            .ok_or("the example has no standard input")?;
        // The search mode closes its input unread.
        let _ = input.write_all(text.as_bytes());
        drop(input);
        let done = child
            .wait_with_output()
            .map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let counted = run(&[], "granite and slate\nslate and chalk\n")?;
    let found = run(&["chalk"], "")?;
    match counted.contains("2 and") && found == "slate and chalk\n" {
        true => Ok(()),
        false => Err(format!(
            "examples/rocksdb-crate printed {counted:?} and {found:?}"
        )),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_stand_in_inherits_nothing() {
        let replacement = "[package]\nname = \"x\"\nedition.workspace = true\n\n[features]\na = []\n\n\
                           [dependencies]\ncairn-capi.workspace = true\n";
        assert_eq!(
            super::manifest(replacement),
            "[workspace]\n\n[package]\nname = \"x\"\nedition = \"2024\"\n\n[features]\na = []\n\n"
        );
    }
}
