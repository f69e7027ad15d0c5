//! The command line tool, run as a process.

#![expect(
    clippy::unwrap_used,
    reason = "a panic fails the test, in its helpers too"
)]

mod backups;
mod cache;
mod data;
mod files;
mod golden;
mod manual;
mod measure;
mod moves;
mod traces;

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `cairn` with `arguments` and standard input `input`.
fn cairn_with(arguments: &[&str], input: &str) -> Output {
    use std::io::Write;
    let mut child = Command::new(env!("CARGO_BIN_EXE_cairn"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cairn starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("cairn reads");
    drop(stdin);
    let output = child.wait_with_output().expect("cairn ends");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        !complaint.contains("panicked"),
        "{arguments:?}: {complaint}"
    );
    output
}

fn cairn(arguments: &[&str]) -> Output {
    cairn_with(arguments, "")
}

/// Returns the output of a successful run.
fn printed(arguments: &[&str]) -> String {
    let output = cairn(arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {complaint}");
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the output and errors of a failed run.
fn refused(arguments: &[&str]) -> String {
    let output = cairn(arguments);
    assert!(!output.status.success(), "{arguments:?} succeeded");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}
