//! `cargo xtask jni bench`: JMH benchmarks of RocksJava's methods on Cairn's library and on RocksDB's.
//!
//! `jvm/bench` has the benchmarks. The libraries run in alternating processes.

use std::path::Path;
use std::process::Command;

use crate::commands::{read, target};
use crate::java::{library, maven, rocksdb};

/// Rounds of both libraries, and seconds of a measurement.
const DEFAULTS: [usize; 2] = [3, 5];

/// Runs the benchmarks. `words`: `--library DIR`, `--rounds N`, `--seconds N`, names of benchmarks.
pub fn run(root: &Path, words: &[String]) -> Result<(), String> {
    let [mut rounds, mut seconds] = DEFAULTS;
    let mut given = None;
    let mut names = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: &String| {
            text.parse()
                .map_err(|_| format!("{word} {text}: not a number"))
        };
        match word.as_str() {
            "--library" => given = Some(value()?),
            "--rounds" => rounds = number(value()?)?,
            "--seconds" => seconds = number(value()?)?,
            _ => names.push(word),
        }
    }
    let library = library(root, given, "release")?;
    let work = target(root).join("jvm-bench");
    let output = format!("-Doutput={}", work.display());
    maven(&root.join("jvm/bench"), &["package", &output])?;
    let path = read(&work.join("class-path.txt"))?;
    let rocksdb = rocksdb(&work, &path)?;
    let status = Command::new("java")
        .arg("-cp")
        .arg(format!(
            "{}:{}",
            work.join("jvm-bench.jar").display(),
            path.trim()
        ))
        .arg("cairn.bench.Compare")
        .args([&rocksdb, &library])
        .args([rounds, seconds].map(|number| number.to_string()))
        .args(names)
        .status()
        .map_err(|error| format!("java: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err("the benchmarks failed".to_owned()),
    }
}
